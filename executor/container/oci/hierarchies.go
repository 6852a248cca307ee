//go:build linux

package oci

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// unified is the directory of the empty hierarchy of cgroup v2 on a hybrid host. If crun finds it, it takes such a host
// for one of v2, and makes directories in the parent's file system if it is not mounted.
const unified = "unified"

// showHierarchies mounts over top a file system with the hierarchies of cgroup v1 that are there now and without the
// one of v2. It is read-only, so that nothing is made in it by mistake.
func showHierarchies(top string) error {
	entries, err := os.ReadDir(top)
	if err != nil {
		return err
	}
	links, fds := map[string]string{}, map[string]int{}
	for _, e := range entries {
		path := filepath.Join(top, e.Name())
		switch {
		case e.Name() == unified:
		case e.Type()&os.ModeSymlink != 0:
			if links[e.Name()], err = os.Readlink(path); err != nil {
				return err
			}
		case e.IsDir():
			fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return &os.PathError{Op: "open", Path: path, Err: err}
			}
			defer unix.Close(fd)
			fds[e.Name()] = fd
		}
	}
	if err := unix.Mount("tmpfs", top, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", top, err)
	}
	for name, fd := range fds {
		path := filepath.Join(top, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			return err
		}
	}
	return unix.Mount("", top, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}
