//go:build linux

package image

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	// openPath opens a directory to reach the files in it.
	openPath = unix.O_PATH
	// Locks of an open file description: two of one process exclude each other.
	setLock = unix.F_OFD_SETLK
)

var mknodat, syncfs = unix.Mknodat, unix.Syncfs

// openBelow opens a directory below another, which is the root of its path and of all links on it.
func openBelow(root int, dir string, flags uint64) (int, error) {
	for {
		fd, err := unix.Openat2(root, dir, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC | flags,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV})
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
