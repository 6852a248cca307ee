//go:build !linux

package stage

import (
	"os"

	"golang.org/x/sys/unix"
)

func quotaControl(*os.File, int, uint32, *quota) error { return ErrNoQuota }

func syncAll(*os.File) error { unix.Sync(); return nil }
