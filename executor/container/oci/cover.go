//go:build linux

package oci

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// cover makes in the root of a container what Docker puts above the layers of each image, with any contents:
// directories for mounts, empty files for the names of hosts, and the table of mounts as a link. It replaces links and
// files, but no directory, and follows no link of the image.
func cover(root string) error {
	dir := func(path string) error { return unix.Mkdir(path, 0o755) }
	file := func(path string) error { return unix.Mknod(path, unix.S_IFREG|0o755, 0) }
	link := func(path string) error { return unix.Symlink("/proc/mounts", path) }
	for _, c := range []struct {
		path string
		make func(path string) error
	}{{"/dev", dir}, {"/proc", dir}, {"/sys", dir}, {"/etc", dir}, {"/etc/hosts", file}, {"/etc/hostname", file},
		{"/etc/resolv.conf", file}, {"/etc/mtab", link}} {
		var st unix.Stat_t
		err := unix.Lstat(root+c.path, &st)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		if err == nil {
			err = unix.Unlink(root + c.path)
		}
		if err == nil || err == unix.ENOENT {
			err = c.make(root + c.path)
		}
		if err != nil {
			return &fs.PathError{Op: "make", Path: c.path, Err: err}
		}
	}
	// runc takes the mode of /tmp for the file system in memory that is mounted there; a link leads to another place.
	tmp := root + "/tmp"
	err := unix.Mkdir(tmp, 0o755)
	var st unix.Stat_t
	if err == nil || unix.Lstat(tmp, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = unix.Chmod(tmp, 0o1777)
	} else if err == unix.EEXIST {
		err = nil
	}
	if err != nil {
		return &fs.PathError{Op: "make", Path: "/tmp", Err: err}
	}
	return nil
}
