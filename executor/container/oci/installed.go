//go:build linux

package oci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gantry/executor/container"
	"gantry/executor/container/oci/userns"
)

// The root of a container of executor.HostImage has the directories of this host in which programs are installed, each
// as the lower layer of an overlay of its own, and nothing else of the host. Through an overlay nothing is written, and
// no socket, pipe or device of the host is used.

// installed are the directories with programs, and with their libraries and settings.
var installed = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc", "/nix/store",
	"/gnu/store"}

// always are files that are hidden, whatever their modes are, also those that come later.
var always = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/ssl/private",
	"/etc/pki/tls/private", "/etc/sudoers", "/etc/sudoers.d", "/etc/fstab", "/etc/crypttab", "/etc/krb5.keytab",
	"/etc/docker", "/etc/kubernetes", "/etc/munge", "/etc/wireguard", "/etc/machine-id"}

// closed are the other files below /etc that are hidden: all that not everybody may read.
var closed = sync.OnceValue(func() (hidden []string) {
	_ = filepath.WalkDir("/etc", func(path string, d fs.DirEntry, err error) error {
		known := slices.Contains(always, path)
		if d.Type() == fs.ModeSymlink || err == nil && open(path) && !known {
			return nil
		}
		if !known {
			hidden = append(hidden, path)
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return hidden
})

// acl is the attribute with the access control list of a file.
const acl = "system.posix_acl_access"

// open reports whether everybody may read a file, and enter a directory: no group and no list takes that from anybody.
func open(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	need := fs.FileMode(0o044)
	if info.IsDir() {
		need = 0o055
	}
	_, err = unix.Getxattr(path, acl, nil)
	return info.Mode()&need == need && err != nil
}

// Shows says why containers of this host cannot have the directories of installed programs; nil if they can.
func (e *Engine) Shows() error {
	dir, err := os.MkdirTemp(memoryDir(), "host-")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	return e.threads.do(func() error {
		defer unmountRoot(dir)
		return mountInstalled(dir, &container.Spec{})
	})
}

// mountInstalled mounts such a root at dir, with places for the mounts of a container.
func mountInstalled(dir string, s *container.Spec) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=4m,mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := cover(dir); err != nil {
		return fmt.Errorf("mount points of a container: %w", err)
	}
	for _, path := range slices.Concat(always, closed()) { // a device of this number hides files of the layers below
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			continue
		}
		err := os.MkdirAll(filepath.Dir(dir+path), 0o755)
		if err == nil {
			err = unix.Mknod(dir+path, unix.S_IFCHR, 0)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	for _, m := range s.Mounts {
		info, err := os.Stat(m.Source)
		if err := makePlace(dir, m.Target, err != nil || info.IsDir()); err != nil {
			return fmt.Errorf("place of the mount %s: %w", m.Target, err)
		}
	}
	for path := range s.Tmpfs {
		if err := makePlace(dir, path, true); err != nil {
			return fmt.Errorf("place of the mount %s: %w", path, err)
		}
	}
	below, err := mountsBelow()
	for _, path := range append(installed[:len(installed):len(installed)], below...) {
		if err == nil {
			err = show(dir, path)
		}
	}
	return err
}

// makePlace makes the place of a mount in the layer above that of the host, in which it may lack, as nothing can be
// made there later. Directories on the way keep modes and owners of the host: those of the highest layer count.
func makePlace(dir, target string, isDir bool) error {
	if !slices.ContainsFunc(installed, func(i string) bool { return strings.HasPrefix(target, i+"/") }) {
		return nil
	}
	for i, c := range target + "/" {
		if c != '/' || i == 0 {
			continue
		}
		var st unix.Stat_t
		at := target[:i]
		err := unix.Lstat(at, &st)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK { // the OCI runtime follows it
			return nil
		}
		if at == target && !isDir {
			_ = os.Remove(dir + at) // a mask
			return os.WriteFile(dir+at, nil, 0o644)
		}
		if err := unix.Mkdir(dir+at, 0o755); err != nil && err != unix.EEXIST {
			return err
		}
		if err == nil {
			_ = unix.Lchown(dir+at, int(st.Uid), int(st.Gid)) // of others than those of a user namespace
			if err := unix.Chmod(dir+at, st.Mode&0o7777); err != nil {
				return err
			}
			if err := copyACL(at, dir+at); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyACL gives a file the access control list of another one, if that has one.
func copyACL(from, to string) error {
	list := make([]byte, 64<<10) // the kernel's bound
	n, err := unix.Lgetxattr(from, acl, list)
	if err != nil {
		return nil
	}
	return unix.Lsetxattr(to, acl, list[:n], 0)
}

// show shows a directory of the host, or a file that is mounted somewhere, at its own path below dir, below the layer
// that is there. A link to one that is shown stays a link. A directory that not everybody may read is not shown: the
// root of an overlay has the mode of the layer above.
func show(dir, path string) error {
	to, _ := os.Readlink(path)
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	info, err2 := os.Stat(path)
	if err = errors.Join(err, err2); err == nil {
		switch {
		case to != "" && slices.ContainsFunc(installed, func(i string) bool { return strings.HasPrefix(real, i+"/") }):
			err = os.Symlink(to, dir+path)
		case info.IsDir() && !open(path):
		case info.IsDir():
			top := dir + path
			if !slices.Contains(installed, path) {
				top = dir + "/sys" // it is empty: an overlay takes two layers or more
			}
			options := "lowerdir=" + escape(top) + ":" + escape(path)
			if userns.Inside() {
				options = "userxattr," + options
			}
			if err = os.MkdirAll(dir+path, 0o755); err == nil {
				err = unix.Mount("overlay", dir+path, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, options)
			}
		case info.Mode().IsRegular():
			if err = unix.Mount(path, dir+path, "", unix.MS_BIND, ""); err == nil {
				err = unix.Mount("", dir+path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|
					unix.MS_NODEV, "")
			}
		}
	}
	if err != nil {
		return fmt.Errorf("%s of this host cannot be shown in containers: %w (unmount the file systems at it and "+
			"below it, or run the programs in an image)", path, err)
	}
	return nil
}

// unshown are the beginnings of kinds of file systems that are not shown: of those of FUSE the mounter decides over
// names, and over the time of an answer; the others have no programs.
var unshown = []string{"autofs", "fuse", "proc", "sysfs", "dev", "cgroup", "mqueue", "securityfs", "debugfs", "tracefs",
	"bpf"}

// mountsBelow are the places below these directories, but for /etc, at which root has mounted other file systems,
// parents first. Those on a path that others may change or not enter are left out: a link there would lead the mount
// elsewhere.
func mountsBelow() (places []string, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("mounts of this host: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		// 36 35 98:0 /root /mount/point options [fields...] - type source options
		mount, kind, _ := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		if len(fields) < 6 || slices.ContainsFunc(unshown, func(k string) bool { return strings.HasPrefix(kind, k) }) ||
			slices.Contains(strings.Split(fields[5], ","), "noexec") {
			continue
		}
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		if slices.ContainsFunc(installed, func(i string) bool { return i != "/etc" && strings.HasPrefix(at, i+"/") }) &&
			onlyRoots(filepath.Dir(at)) {
			places = append(places, at)
		}
	}
	slices.Sort(places)
	return slices.Compact(places), nil
}

// onlyRoots reports whether everybody may enter a directory and those above it, and nobody but root may change them.
func onlyRoots(dir string) bool {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o023 != 0o001 ||
			st.Uid != 0 {
			return false
		}
	}
	return true
}
