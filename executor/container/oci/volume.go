//go:build linux

package oci

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The volumes that an image declares are directories of the container, on disk, that begin with the image's files
// there.

const volumes = ".volumes" // after the file of the record, where the container says no other place

// makeVolumes makes the directories.
func (k *known) makeVolumes() error {
	if len(k.volumes) == 0 {
		return nil
	}
	if err := os.RemoveAll(k.spec.Volumes); err != nil {
		return err
	}
	if err := os.Mkdir(k.spec.Volumes, 0o700); err != nil {
		return fmt.Errorf("volumes of the image: %w", err)
	}
	for n := range k.volumes {
		if err := os.Mkdir(k.spec.Volume(n), 0o755); err != nil {
			return fmt.Errorf("volumes of the image: %w", err)
		}
	}
	return nil
}

// fillVolumes copies the image's files to its volumes; the layers are mounted at root.
func (k *known) fillVolumes(root string) error {
	if len(k.volumes) == 0 {
		return nil
	}
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	for n, path := range k.volumes {
		from, err := unix.Openat2(top, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) { // the image has none
			continue
		}
		if err == nil {
			err = copyAll("/proc/self/fd/"+strconv.Itoa(from), k.spec.Volume(n))
			unix.Close(from)
		}
		if err != nil {
			return fmt.Errorf("volume %s of the image: %w", path, err)
		}
	}
	return nil
}

// copyAll copies the contents of a directory to another one, which gets its attributes: owners, permissions, times,
// links, devices and extended attributes stay. Nobody else changes either. It follows no links.
func copyAll(from, to string) error {
	type file struct{ device, inode uint64 }
	type dir struct {
		path string
		st   unix.Stat_t
	}
	first := map[file]string{} // of those with several names
	var dirs []dir
	err := filepath.WalkDir(from+"/", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := to + strings.TrimPrefix(path, from)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		key := file{uint64(st.Dev), st.Ino}
		kind := st.Mode & unix.S_IFMT
		switch {
		case kind == unix.S_IFDIR:
			dirs = append(dirs, dir{at, st})
			if path != from+"/" {
				err = os.Mkdir(at, 0o700)
			}
		case kind == unix.S_IFSOCK:
			return nil
		case st.Nlink > 1 && first[key] != "":
			return os.Link(first[key], at)
		case kind == unix.S_IFLNK:
			var text string
			if text, err = os.Readlink(path); err == nil {
				err = os.Symlink(text, at)
			}
		case kind == unix.S_IFREG:
			err = copyFile(path, at)
		default:
			err = unix.Mknod(at, st.Mode, int(st.Rdev))
		}
		if err != nil {
			return err
		}
		first[key] = at
		return attributes(path, at, &st)
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- { // files made in them have changed their times
		err = touch(dirs[i].path, &dirs[i].st)
	}
	return err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// attributes gives a copy the file's attributes. In this order: a new owner takes set-user-id bits and capabilities
// away.
func attributes(from, to string, st *unix.Stat_t) error {
	if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return touch(to, st)
	}
	if err := unix.Chmod(to, st.Mode&0o7777); err != nil {
		return &fs.PathError{Op: "chmod", Path: to, Err: err}
	}
	names := make([]byte, 64<<10)
	n, _ := unix.Llistxattr(from, names)
	for name := range strings.SplitSeq(string(names[:max(n, 0)]), "\x00") {
		if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl_") &&
			name != "security.capability" {
			continue
		}
		value := make([]byte, 64<<10)
		size, err := unix.Lgetxattr(from, name, value)
		if err == nil {
			err = unix.Lsetxattr(to, name, value[:size], 0)
		}
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("attribute %s of %s: %w", name, to, err)
		}
	}
	return touch(to, st)
}

// touch sets the time of change.
func touch(path string, st *unix.Stat_t) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Mtim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
