// Package launch begins the program of a real task inside its container: it opens the files that standard input, output and error are
// redirected to and becomes the program. So output reaches its file byte for byte and as it is written, whatever happens to gantry or
// to the Docker Engine, and the image needs no shell. It is a leaf, and light, because it starts once per task.
package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Exit codes where the program cannot begin: those of shells.
const (
	exitRedirect      = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Begin is the file, in the working directory, that Claim makes. Whoever makes it decides what becomes of the attempt: the program makes it
// and begins; a gantry that gives up a container that has not begun makes it and is sure that the program never begins, however late the
// engine starts the container. One of them makes it, since it is made only if it is not there.
const Begin = ".command.begin"

// Claim makes Begin. Its time of modification is when the program began: the Docker Engine notes a start only when it has heard of it.
func Claim(dir string) error {
	now := time.Now()
	path := filepath.Join(dir, Begin)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	f.Close()
	return os.Chtimes(path, now, now) // the kernel's own is that of its last tick
}

// Enter claims the working directory for the program that is about to begin. A code that is not 0 is to be the exit code at once.
func Enter() int {
	switch err := Claim("."); {
	case err == nil:
		return 0
	case errors.Is(err, os.ErrExist):
		fmt.Fprintln(os.Stderr, "gantry-task: this attempt was given up before it began")
	default:
		fmt.Fprintln(os.Stderr, "gantry-task: begin:", err)
	}
	return exitRedirect
}

// Main runs "STDIN STDOUT STDERR PROGRAM ARGUMENT...", where an empty STDIN leaves standard input alone. It returns an exit code only
// if the program cannot begin.
func Main(args []string) int {
	if len(args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: gantry-task exec STDIN STDOUT STDERR PROGRAM [ARGUMENT...]")
		return exitRedirect
	}
	if code := Enter(); code != 0 {
		return code
	}
	// Standard error first: what goes wrong afterwards is told there.
	for _, r := range []struct {
		name  string
		fd    int
		flags int
	}{{args[2], 2, os.O_WRONLY | os.O_CREATE | os.O_TRUNC}, {args[1], 1, os.O_WRONLY | os.O_CREATE | os.O_TRUNC}, {args[0], 0, os.O_RDONLY}} {
		switch {
		case r.name == "":
			continue
		case r.fd == 1 && args[1] == args[2]: // both into one file, in the order in which they are written
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
	program, err := exec.LookPath(args[3])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		fmt.Fprintln(os.Stderr, "gantry-task:", err)
		if errors.Is(err, os.ErrPermission) {
			return exitNotExecutable
		}
		return exitNotFound
	}
	err = unix.Exec(program, args[3:], os.Environ())
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
