//go:build linux

package stage

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// syncAll makes all of the file system of a file durable.
func syncAll(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

// clone has one file share the blocks of another, if the file system can.
var clone = unix.IoctlFileClone

// openPath opens a path for checks alone.
const openPath = unix.O_PATH

// faccessat asks for the rights on files of this thread.
var faccessat = unix.Faccessat2

// Real opens a path, but not by links to open files of this process or of another.
func Real(path string, flags int) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// kernelTypes are the file systems that are mounted there, and may be elsewhere too.
var kernelTypes = []int64{unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
	unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.DEVPTS_SUPER_MAGIC}

// onKernels reports whether an open file is on a file system of the kernel's.
func onKernels(fd int) (bool, error) {
	var fs unix.Statfs_t
	err := unix.Fstatfs(fd, &fs)
	return slices.Contains(kernelTypes, int64(fs.Type)), err
}

// foundAt is a path that leads to a file that find has found.
func foundAt(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// realPath is the path without links to an open file.
func realPath(f *os.File) (string, error) { return os.Readlink(foundAt(f)) }

// become gives this thread, and no other, the rights of u on files.
func (u User) become() {
	groups := u.groups()
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0)
	if e == unix.EINVAL { // a user namespace does not have them all: none gives no right that u lacks
		_, _, e = unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
	}
	if e != 0 {
		panic(fmt.Sprintf("setgroups: %v", e))
	}
	_, _ = unix.SetfsgidRetGid(u.GID)
	_, _ = unix.SetfsuidRetUid(u.UID)
	if now, _ := unix.SetfsuidRetUid(-1); now != u.UID {
		panic(fmt.Sprintf("setfsuid %d: it is %d", u.UID, now))
	}
	// Without capabilities the thread is under quotas, and takes no blocks that are reserved for root.
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		panic(fmt.Sprintf("capset: %v", err))
	}
}

func (u User) groups() []uint32 {
	out := []uint32{}
	if u.Groups != nil {
		for _, g := range u.Groups {
			out = append(out, uint32(g))
		}
		return out
	}
	who, err := user.LookupId(strconv.Itoa(u.UID))
	if err != nil {
		return out
	}
	ids, _ := who.GroupIds()
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			out = append(out, uint32(n))
		}
	}
	return out
}
