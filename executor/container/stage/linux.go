//go:build linux

package stage

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func quotaControl(d *os.File, command int, project uint32, q *quota) error {
	_, _, e := unix.Syscall6(unix.SYS_QUOTACTL_FD, d.Fd(), uintptr(command), uintptr(project),
		uintptr(unsafe.Pointer(q)), 0, 0)
	return quotaError(e)
}

// syncAll makes all of the file system of a file durable.
func syncAll(f *os.File) error { return unix.Syncfs(int(f.Fd())) }
