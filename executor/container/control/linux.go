//go:build linux

package control

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate has a file have room to grow.
func allocate(f *os.File, bytes int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, bytes)
}
