//go:build linux

package oci

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"gantry/executor/container"
)

// A runtime makes the mount points that are missing, as root, and crun makes a mount read-only when all are there. So a
// directory of the caller at /etc would get a file for /etc/hostname. The runtime therefore gets such directories by
// mounts that are read-only from the beginning.

// guarded reports whether the runtime gets a mount that is read-only.
func guarded(m container.Mount) bool {
	if !m.Given || !m.ReadOnly {
		return false
	}
	info, err := os.Stat(m.Source)
	return err == nil && info.IsDir() // nothing can be made in others
}

// guard is where the read-only mount is that the runtime gets in place of mount i of a container.
func guard(dir string, i int) string { return filepath.Join(dir, "mount"+strconv.Itoa(i)) }

// guardMounts makes these mounts for a container, in the mount namespace of this thread. Undo removes them.
func guardMounts(dir string, s *container.Spec) (undo func(), err error) {
	var made []string
	undo = func() {
		for _, at := range made {
			_ = unix.Unmount(at, unix.MNT_DETACH)
		}
	}
	for i, m := range s.Mounts {
		at := guard(dir, i)
		if _, err := os.Lstat(at); err != nil { // it has none
			continue
		}
		if err := unix.Mount(m.Source, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			undo()
			return nil, fmt.Errorf("mount %s: %w", m.Source, err)
		}
		made = append(made, at)
		// with those below it
		if err := unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &unix.MountAttr{
			Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			undo()
			return nil, fmt.Errorf("mount %s read-only: %w", m.Source, err)
		}
	}
	return undo, nil
}

// covered explains a runtime that could not make a mount point: nothing else in the root of a container is read-only
// yet. crun does not always say so, but which path it is.
func covered(s *container.Spec, err error) error {
	said := err.Error()
	is := strings.Contains(strings.ToLower(said), unix.EROFS.Error())
	var at []string
	for _, m := range s.Mounts {
		if m.Given && m.ReadOnly {
			at = append(at, m.Target)
			is = is || strings.Contains(said, m.Target+"/")
		}
	}
	if len(at) == 0 || !is {
		return err
	}
	return fmt.Errorf("%w: a mount (%s) hides a path at which the container needs a mount of its own, and nothing is "+
		"made in directories of the host (mount it at another path): %w", errdefs.ErrInvalidArgument,
		strings.Join(at, ", "), err)
}
