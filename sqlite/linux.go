//go:build linux && cgo

package sqlite

import (
	"errors"
	"os"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"
)

// lockOpen takes a lock that belongs to an open file description.
func lockOpen(f *os.File, l *unix.Flock_t) error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, l) }

// fault returns the error of SQLite that is within another, and its result code; 0 if there is none.
func fault(err error) (code int, of error) {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return 0, nil
	}
	return int(e.Code), e
}
