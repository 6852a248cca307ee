//go:build cgo

package sqlite

import (
	"errors"

	"github.com/mattn/go-sqlite3"
)

// fault returns the error of SQLite that is within another, and its result code; 0 if there is none.
func fault(err error) (code int, of error) {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return 0, nil
	}
	return int(e.Code), e
}
