package sqlite

import (
	"errors"

	"github.com/mattn/go-sqlite3"
)

// IsDisk reports whether an error of the log is the disk's: full, failing or not writable.
func IsDisk(err error) bool {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case sqlite3.ErrFull, sqlite3.ErrIoErr, sqlite3.ErrReadonly, sqlite3.ErrCantOpen:
		return true
	}
	return false
}
