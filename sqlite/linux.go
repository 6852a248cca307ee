//go:build linux

package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// nameless makes a file without a name.
func nameless(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	return os.NewFile(uintptr(fd), dir), err
}

// allocate has a file take space.
func allocate(f *os.File, bytes int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, bytes) }

// lockOpen takes a lock that belongs to an open file description.
func lockOpen(f *os.File, l *unix.Flock_t) error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, l) }
