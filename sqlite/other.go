//go:build !linux

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func lockOpen(*os.File, *unix.Flock_t) error { return errors.ErrUnsupported }
