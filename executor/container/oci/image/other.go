//go:build !linux

package image

import "golang.org/x/sys/unix"

// No image is unpacked elsewhere.

const (
	openPath = 0
	setLock  = unix.F_SETLK
)

func mknodat(int, string, uint32, int) error { return unix.ENOTSUP }

func syncfs(int) error { return unix.ENOTSUP }

func openBelow(int, string, uint64) (int, error) { return -1, unix.ENOTSUP }
