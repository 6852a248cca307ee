//go:build linux

package oci

import (
	"golang.org/x/sys/unix"
)

// cover is the set of files that Docker puts above the layers of each image, with any contents: empty files for the
// names of hosts, the table of mounts as a link, and directories for mounts. It replaces links and files, but no
// directory.
type cover struct {
	dirs  []string     // that the image does not have
	etc   *unix.Stat_t // of the image's /etc; nil if it has none
	files []string     // of /etc
	mtab  bool
	tmp   bool // the directory over which the one in memory is mounted, whose mode runc takes for both
}

// coverOf finds the cover that an image needs, whose layers are mounted at dir.
func coverOf(dir string) (c cover) {
	isDir := func(path string) (*unix.Stat_t, bool) {
		st := new(unix.Stat_t)
		return st, unix.Lstat(dir+path, st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	for _, path := range []string{"/dev", "/proc", "/sys"} {
		if _, ok := isDir(path); !ok {
			c.dirs = append(c.dirs, path)
		}
	}
	st, isTmp := isDir("/tmp")
	c.tmp = isTmp || st.Mode == 0 // a link leads to the place
	etc, has := isDir("/etc")
	if has {
		c.etc = etc
	}
	within := func(path string) bool {
		_, ok := isDir(path)
		return has && ok
	}
	for _, path := range []string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"} {
		if !within(path) {
			c.files = append(c.files, path)
		}
	}
	c.mtab = !within("/etc/mtab")
	return c
}

// fill makes the cover in a directory that is to be above the layers.
func (c *cover) fill(dir string) error {
	for _, path := range c.dirs {
		if err := unix.Mkdir(dir+path, 0o755); err != nil {
			return err
		}
	}
	if c.etc == nil && len(c.files) == 0 { // nothing was looked at
		return nil
	}
	if err := unix.Mkdir(dir+"/etc", 0o755); err != nil {
		return err
	}
	for _, path := range c.files {
		if err := unix.Mknod(dir+path, unix.S_IFREG|0o755, 0); err != nil {
			return err
		}
	}
	if c.mtab {
		if err := unix.Symlink("/proc/mounts", dir+"/etc/mtab"); err != nil {
			return err
		}
	}
	if c.tmp {
		if err := unix.Mkdir(dir+"/tmp", 0o755); err != nil {
			return err
		}
		if err := unix.Chmod(dir+"/tmp", 0o1777); err != nil {
			return err
		}
	}
	if c.etc == nil {
		return nil
	}
	if err := unix.Chown(dir+"/etc", int(c.etc.Uid), int(c.etc.Gid)); err != nil {
		return err
	}
	return unix.Chmod(dir+"/etc", c.etc.Mode&0o7777)
}
