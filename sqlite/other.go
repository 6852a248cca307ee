//go:build !linux

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func nameless(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func allocate(*os.File, int64) error { return errors.ErrUnsupported }

func lockOpen(*os.File, *unix.Flock_t) error { return errors.ErrUnsupported }
