//go:build linux

package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor/control"
)

// Exit codes where the program cannot begin: those of shells.
const (
	exitRedirect      = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Enter claims the attempt whose control directory is dir for the program that is about to begin, and becomes the user
// "UID:GID". A code that is not 0 is to be the exit code at once. Without a control directory the claim is the old one.
//
// In a container that was started ahead it waits before, and words are arguments that the container was not made with.
func Enter(dir, user string) (j *control.Journal, words []string, code int) {
	var err error
	if dir == "" {
		err = ClaimOld(".")
	} else {
		j, words, err = enter(control.Dir(dir), user)
	}
	switch {
	case err == nil:
		return j, words, 0
	case errors.Is(err, os.ErrExist):
		fmt.Fprintln(os.Stderr, "gantry-task: this attempt was given up, or had begun before")
	default:
		fmt.Fprintln(os.Stderr, "gantry-task: begin:", err)
	}
	return nil, nil, exitRedirect
}

func enter(dir control.Dir, user string) (*control.Journal, []string, error) {
	ids, err := readUser(user)
	if err != nil {
		return nil, nil, err
	}
	r, err := dir.Wait()
	if err != nil {
		return nil, nil, err
	}
	if err := dir.Check(); err != nil {
		return nil, nil, err
	}
	j, err := dir.Journal()
	if err != nil {
		return nil, nil, err
	}
	if err := dir.Claim(control.Launcher, time.Now()); err != nil {
		if errors.Is(err, os.ErrExist) {
			j.Again()
		}
		return nil, nil, err
	}
	return j, r.Words, become(ids[0], ids[1], ids[2:])
}

// readUser reads UID:GID, or UID:GID:GROUPS with commas, into one list.
func readUser(user string) (ids []int, err error) {
	parts := strings.SplitN(user, ":", 3)
	if len(parts) == 3 {
		parts = append(parts[:2], strings.Split(parts[2], ",")...)
	}
	for _, p := range parts {
		id, e := strconv.Atoi(p)
		ids, err = append(ids, id), errors.Join(err, e)
	}
	if err != nil || len(ids) < 2 {
		return nil, fmt.Errorf("user %q is not UID:GID, or UID:GID:GROUPS", user)
	}
	return ids, nil
}

// become gives up the rights of root for good.
func become(uid, gid int, groups []int) error {
	if os.Getuid() == 0 && uid != 0 {
		// The program is forked from this thread. The others have no use for what they might get: they lose all rights
		// below, and run no other program.
		runtime.LockOSThread()
		for _, c := range []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP} {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				return fmt.Errorf("drop capability %d: %w", c, err)
			}
		}
		if now, err := syscall.Getgroups(); err != nil || len(now) > 0 || len(groups) > 0 {
			if err := syscall.Setgroups(groups); err != nil {
				return fmt.Errorf("take the groups of the user: %w", err)
			}
		}
		if err := syscall.Setgid(gid); err != nil {
			return fmt.Errorf("become group %d: %w", gid, err)
		}
		if err := syscall.Setuid(uid); err != nil {
			return fmt.Errorf("become user %d: %w", uid, err)
		}
	}
	// The program is the same user from here on. It must not trace this process, nor open what it has open.
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// Old runs "STDIN STDOUT STDERR PROGRAM ARGUMENT...", as containers of earlier versions ask for it: it becomes the
// program.
func Old(args []string) int {
	if len(args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: gantry-task exec STDIN STDOUT STDERR PROGRAM [ARGUMENT...]")
		return exitRedirect
	}
	if _, _, code := Enter("", ""); code != 0 {
		return code
	}
	if code := redirectAll(args[:3]); code != 0 {
		return code
	}
	program, code := find(args[3])
	if code != 0 {
		return code
	}
	return refused(program, unix.Exec(program, args[3:], os.Environ()))
}

// redirectAll opens the files of standard input, output and error.
func redirectAll(names []string) int {
	stdin, stdout, stderr := names[0], names[1], names[2]
	// Standard error first: what goes wrong afterwards is written there.
	for _, r := range []struct {
		name  string
		fd    int
		flags int
	}{{stderr, 2, os.O_WRONLY | os.O_CREATE | os.O_TRUNC}, {stdout, 1, os.O_WRONLY | os.O_CREATE | os.O_TRUNC},
		{stdin, 0, os.O_RDONLY}} {
		switch {
		case r.name == "":
			continue
		case r.fd == 1 && stdout == stderr: // both into one file, in the order in which they are written
			if err := unix.Dup3(2, 1, 0); err != nil {
				fmt.Fprintln(os.Stderr, "gantry-task: standard output:", err)
				return exitRedirect
			}
			continue
		}
		if err := redirect(r.name, r.fd, r.flags); err != nil {
			fmt.Fprintln(os.Stderr, "gantry-task: redirection:", err)
			return exitRedirect
		}
	}
	return 0
}

// find looks for a program as shells do.
func find(name string) (program string, code int) {
	program, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		fmt.Fprintln(os.Stderr, "gantry-task:", err)
		if errors.Is(err, os.ErrPermission) {
			return "", exitNotExecutable
		}
		return "", exitNotFound
	}
	return program, 0
}

// refused is the exit code where the kernel does not begin a program.
func refused(program string, err error) int {
	fmt.Fprintf(os.Stderr, "gantry-task: %s: %v\n", program, err)
	if errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}

func redirect(name string, fd, flags int) error {
	if flags&os.O_CREATE != 0 {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(name, flags, 0o644)
	if err != nil {
		return err
	}
	if int(f.Fd()) == fd {
		return nil
	}
	defer f.Close()
	return unix.Dup3(int(f.Fd()), fd, 0)
}
