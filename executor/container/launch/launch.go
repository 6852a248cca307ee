//go:build linux

package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor/container/control"
)

// Enter claims the attempt whose control directory is dir for the program that is about to begin, and becomes the user
// "UID:GID". In a container that was started ahead it waits before. A code other than 0 is the exit code at once.
func Enter(dir, user string) (j *control.Journal, code int) {
	j, err := enter(control.Dir(dir), user)
	switch {
	case err == nil:
		return j, 0
	case errors.Is(err, os.ErrExist):
		fmt.Fprintln(os.Stderr, "gantry-task: this attempt was given up, or had begun before")
	default:
		fmt.Fprintln(os.Stderr, "gantry-task: begin:", err)
	}
	return nil, 125 // evidence.LauncherRefused; that package is too heavy for a program that starts once per task
}

func enter(dir control.Dir, user string) (*control.Journal, error) {
	ids, err := readUser(user)
	if err != nil {
		return nil, err
	}
	if _, err := dir.Wait(); err != nil {
		return nil, err
	}
	if err := dir.Check(); err != nil {
		return nil, err
	}
	j, err := dir.Journal()
	if err != nil {
		return nil, err
	}
	if err := dir.Claim(control.Launcher, time.Now()); err != nil {
		if errors.Is(err, os.ErrExist) {
			j.Again()
		}
		return nil, err
	}
	return j, become(ids[0], ids[1], ids[2:])
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
		// The program is forked from this thread. The other threads have no use for more rights: they lose all rights
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
	// The program is the same user from here on. It must not trace this process, nor open its files.
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
