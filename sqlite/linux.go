//go:build linux

package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockOpen takes a lock that belongs to an open file description.
func lockOpen(f *os.File, l *unix.Flock_t) error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, l) }
