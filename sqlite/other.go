//go:build !linux || !cgo

package sqlite

import (
	"errors"
	"os"

	_ "github.com/mattn/go-sqlite3" // it says that it needs cgo
	"golang.org/x/sys/unix"
)

func lockOpen(*os.File, *unix.Flock_t) error { return errors.ErrUnsupported }

func fault(error) (code int, of error) { return 0, nil }
