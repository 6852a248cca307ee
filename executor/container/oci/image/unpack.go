package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gantry/trace/shown"
)

// Bounds of one layer.
const (
	maxEntries = 10_000_000
	// maxDirBytes bounds the memory for directories until the layer is whole.
	maxDirBytes = 128 << 20
	// maxTail is how much may follow the end of an archive.
	maxTail = 64 << 20
	// checkEvery is how many bytes are written between two looks at the free space.
	checkEvery = 32 << 20
)

// Marks of layers: a file of this prefix removes one of the lower layers, opaqueMark all of its directory.
const (
	whiteoutPrefix = ".wh."
	opaqueMark     = whiteoutPrefix + whiteoutPrefix + ".opq"
)

var errDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errDamaged, fmt.Errorf(format, args...))
}

// unpacker writes the entries of a layer below a directory. Paths are resolved by the kernel as if that were the root
// (openat2 with RESOLVE_IN_ROOT), so that neither names nor links of the archive lead out.
type unpacker struct {
	ctx   context.Context
	root  int
	space *space
	bytes int64 // of files

	parent     int    // descriptor of the directory parentPath; -1: none
	parentPath string // "": no longer known
	dirs       []dirEntry
	dirBytes   int
	buffer     []byte
}

// dirEntry is the attributes that a directory gets when everything is in it.
type dirEntry struct {
	path string
	mode uint32
	time time.Time
}

// unpack writes the entries of a tar archive below dir, which is empty, in the form of a lower directory of overlayfs.
// It returns the size of the files.
func unpack(ctx context.Context, r io.Reader, dir string, sp *space) (bytes int64, err error) {
	root, err := unix.Open(dir, openPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	u := &unpacker{ctx: ctx, root: root, space: sp, parent: -1,
		buffer: make([]byte, 128<<10)}
	defer func() {
		u.forget()
		unix.Close(root)
	}()
	in := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := in.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return 0, tarError(err)
		}
		if n == maxEntries {
			return 0, damaged("it has more than %d entries", maxEntries)
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := u.entry(h, in); err != nil {
			return 0, fmt.Errorf("entry %q: %w", shorten(h.Name), err)
		}
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(r, maxTail+1)); err != nil {
		return 0, err
	} else if n > maxTail {
		return 0, damaged("more than %s follow its end", shown.Size(maxTail))
	}
	return u.bytes, u.finishDirs()
}

// tarError marks the errors of the format, which have no type, as damage.
func tarError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it is cut off")
	}
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) {
		return damaged("%w", err)
	}
	return err
}

func shorten(name string) string {
	if len(name) > 120 {
		return name[:120] + "..."
	}
	return name
}

// clean makes a path of the archive one from its root, without a slash in front; "" is the root.
func clean(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", damaged("its name has a zero byte")
	}
	rel := path.Clean(strings.TrimLeft(name, "/"))
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return "", damaged("its path leads out of the image")
	}
	if rel == "." {
		rel = ""
	}
	return rel, nil
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeReg, tar.TypeDir, tar.TypeLink, tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeFifo,
		tar.TypeGNUSparse:
	default:
		return damaged("its type %q is not known", string(h.Typeflag))
	}
	if !owner(h.Uid) || !owner(h.Gid) {
		return damaged("its owner %d:%d is none", h.Uid, h.Gid)
	}
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if name == "" {
		if h.Typeflag != tar.TypeDir {
			return damaged("the root of an image is a directory")
		}
		return u.dir("", -1, "", h)
	}
	parent, err := u.enter(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	if mark, ok := strings.CutPrefix(base, whiteoutPrefix); ok {
		return u.whiteout(parent, base, mark)
	}
	hid, err := u.replace(parent, base, h.Typeflag == tar.TypeDir)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.dir(name, parent, base, h); err != nil || !hid {
			return err
		}
		return opaque(parent, base)
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.file(parent, base, h, content)
	case tar.TypeLink:
		return u.link(parent, base, h)
	case tar.TypeSymlink:
		err = unix.Symlinkat(h.Linkname, parent, base)
	default:
		var done bool
		if done, err = node(parent, base, h); done {
			return err
		}
	}
	if err == nil {
		err = own(parent, base, h)
	}
	// In this order: a new owner takes set-user-id bits and capabilities away.
	if err == nil && h.Typeflag != tar.TypeSymlink {
		err = unix.Fchmodat(parent, base, mode(h), 0)
	}
	if err == nil && (h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse) {
		err = attributes(inside(parent, base), h)
	}
	if err != nil {
		return err
	}
	return touch(parent, base, h.ModTime)
}

func owner(id int) bool { return id >= 0 && int64(id) < math.MaxUint32 }

// mode is the permissions of an entry, set-user-id and sticky bits included.
func mode(h *tar.Header) uint32 { return uint32(h.Mode) & 0o7777 }

// enter returns a descriptor of a directory of the layer, and makes it, and those above, if they are missing.
func (u *unpacker) enter(dir string) (int, error) {
	if dir == "." {
		return u.root, nil
	}
	if u.parent >= 0 && u.parentPath == dir {
		return u.parent, nil
	}
	fd, err := u.open(dir)
	if errors.Is(err, unix.ENOENT) {
		var up int
		if up, err = u.enter(path.Dir(dir)); err != nil {
			return -1, err
		}
		if err := unix.Mkdirat(up, path.Base(dir), 0o755); errors.Is(err, unix.EEXIST) {
			return -1, damaged("%q is a link to nowhere", shorten(dir))
		} else if err != nil {
			return -1, err
		}
		if err := unix.Fchmodat(up, path.Base(dir), 0o755, 0); err != nil { // with any umask
			return -1, err
		}
		fd, err = u.open(dir)
	}
	if errors.Is(err, unix.ENOTDIR) {
		return -1, damaged("%q is no directory", shorten(dir))
	} else if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENAMETOOLONG) {
		return -1, damaged("%q: %w", shorten(dir), err)
	} else if err != nil {
		return -1, err
	}
	u.forget()
	u.parent, u.parentPath = fd, dir
	return fd, nil
}

// open opens a directory of the layer by its path.
func (u *unpacker) open(dir string) (int, error) {
	for {
		fd, err := openBelow(u.root, dir)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// forget closes the descriptor that enter keeps.
func (u *unpacker) forget() {
	if u.parent >= 0 {
		unix.Close(u.parent)
		u.parent = -1
	}
}

// replace makes room for an entry, of which an archive may have several of one name, and reports whether the former one
// hid that of lower layers.
func (u *unpacker) replace(parent int, base string, dir bool) (hid bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch kind := st.Mode & unix.S_IFMT; {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil || dir && kind == unix.S_IFDIR:
		return false, err
	case kind == unix.S_IFCHR && st.Rdev == 0:
		return true, unix.Unlinkat(parent, base, 0)
	}
	u.parentPath = "" // may have led through it
	return false, os.RemoveAll(inside(parent, base))
}

// inside is a path of this process to an entry of a directory.
func inside(dir int, base string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + base }

// whiteout hides a file of lower layers. It leaves entries of its own layer alone.
func (u *unpacker) whiteout(parent int, base, name string) error {
	if base == opaqueMark {
		return opaque(parent, ".")
	}
	switch {
	case strings.HasPrefix(name, whiteoutPrefix): // notes of aufs
		return nil
	case name == "" || name == "." || name == "..":
		return damaged("it hides nothing that can be")
	}
	var st unix.Stat_t
	switch err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return mknodat(parent, name, unix.S_IFCHR, 0)
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return opaque(parent, name)
	}
	return nil
}

// opaque hides all that lower layers have in a directory.
func opaque(parent int, base string) error {
	err := unix.Lsetxattr(inside(parent, base), "trusted.overlay.opaque", []byte("y"), 0)
	if errors.Is(err, unix.EPERM) { // the root of a user namespace is not the host's
		err = unix.Lsetxattr(inside(parent, base), "user.overlay.opaque", []byte("y"), 0)
	}
	return err
}

// dir makes a directory, or changes one that exists. The root has no parent.
func (u *unpacker) dir(name string, parent int, base string, h *tar.Header) error {
	if u.dirBytes += len(name) + 64; u.dirBytes > maxDirBytes {
		return damaged("it has too many directories")
	}
	if parent < 0 {
		parent, base = u.root, "."
	} else if err := unix.Mkdirat(parent, base, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	u.dirs = append(u.dirs, dirEntry{name, mode(h), h.ModTime})
	if err := own(parent, base, h); err != nil {
		return err
	}
	return attributes(inside(parent, base), h)
}

func (u *unpacker) file(parent int, base string, h *tar.Header, content io.Reader) error {
	fd, err := unix.Openat(parent, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	// only the writer's Write: a reader of files may know ways to write that nobody counts
	if _, err := io.CopyBuffer(struct{ io.Writer }{u.space.writer(u.ctx, f)}, struct{ io.Reader }{content},
		u.buffer); err != nil {
		return tarError(err)
	}
	u.bytes += h.Size
	return nil
}

// link makes a hard link to an entry of the same layer.
func (u *unpacker) link(parent int, base string, h *tar.Header) error {
	to, err := clean(h.Linkname)
	if err != nil || to == "" {
		return damaged("its link %q leads out of the image", shorten(h.Linkname))
	}
	dir, err := u.open(cmpDot(path.Dir(to)))
	if err != nil {
		return damaged("it is a link to %q: %w", shorten(h.Linkname), err)
	}
	defer unix.Close(dir)
	if err := unix.Linkat(dir, path.Base(to), parent, base, 0); errors.Is(err, unix.ENOENT) ||
		errors.Is(err, unix.EPERM) {
		return damaged("it is a link to %q: %w", shorten(h.Linkname), err)
	} else {
		return err
	}
}

// cmpDot is a path for openat2 with RESOLVE_IN_ROOT, which takes "/" as its root.
func cmpDot(dir string) string {
	if dir == "." {
		return "/"
	}
	return dir
}

// node makes a device or a pipe. The root of a user namespace makes no devices: containers have their own in /dev.
func node(parent int, base string, h *tar.Header) (done bool, err error) {
	kind := uint32(unix.S_IFIFO)
	switch h.Typeflag {
	case tar.TypeChar:
		kind = unix.S_IFCHR
	case tar.TypeBlock:
		kind = unix.S_IFBLK
	}
	if h.Devmajor < 0 || h.Devminor < 0 || h.Devmajor > math.MaxUint32 || h.Devminor > math.MaxUint32 {
		return false, damaged("device %d:%d is none", h.Devmajor, h.Devminor)
	}
	err = mknodat(parent, base, kind|mode(h), int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
	if errors.Is(err, unix.EPERM) && kind != unix.S_IFIFO {
		return true, nil
	}
	return false, err
}

// own gives an entry its owner. A user namespace has only the IDs that are mapped there.
func own(parent int, base string, h *tar.Header) error {
	err := unix.Fchownat(parent, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("its owner %d:%d is not among the IDs that this user has without root (/etc/subuid, "+
			"/etc/subgid): %w", h.Uid, h.Gid, err)
	}
	return err
}

const xattrRecord = "SCHILY.xattr."

// attributes sets those extended attributes that an image may bring along: users', access lists and file capabilities.
// Those of overlayfs say how layers are stacked, and are the kernel's.
func attributes(path string, h *tar.Header) error {
	for record, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(record, xattrRecord)
		if !ok {
			continue
		}
		ours := strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
		if !ours && name != "security.capability" && !strings.HasPrefix(name, "system.posix_acl_") {
			continue
		}
		err := unix.Setxattr(path, name, []byte(value), 0)
		if err != nil && (name == "security.capability" || !errors.Is(err, unix.EOPNOTSUPP) &&
			!errors.Is(err, unix.EPERM)) {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	return nil
}

// touch sets the time of change. One that nanoseconds cannot count, as after 2262, is 1970, as with Docker; the kernel
// takes the latest that the file system knows for a later one.
func touch(parent int, base string, t time.Time) error {
	if t.Unix() < 0 || t.After(time.Unix(0, math.MaxInt64)) {
		t = time.Unix(0, 0)
	}
	ts := unix.NsecToTimespec(t.UnixNano())
	return unix.UtimesNanoAt(parent, base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// finishDirs sets the permissions and times of directories: before, they may not be writable, and each new entry
// changes the time. The last of several entries of one name counts.
func (u *unpacker) finishDirs() error {
	u.forget()
	for _, d := range u.dirs {
		parent, base := u.root, "."
		if d.path != "" {
			fd, err := u.open(cmpDot(path.Dir(d.path)))
			if err != nil {
				continue // another entry took its place
			}
			parent, base = fd, path.Base(d.path)
		}
		err := finishDir(parent, base, d)
		if parent != u.root {
			unix.Close(parent)
		}
		if err != nil {
			return fmt.Errorf("entry %q: %w", shorten(d.path), err)
		}
	}
	return nil
}

func finishDir(parent int, base string, d dirEntry) error {
	var st unix.Stat_t
	if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil ||
		st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil // another entry took its place
	}
	if err := unix.Fchmodat(parent, base, d.mode, 0); err != nil {
		return err
	}
	return touch(parent, base, d.time)
}

// space guards the free space of the store's file system.
type space struct {
	dir     string
	reserve int64 // bytes that stay free
	pending int64 // bytes written since the last look
}

// maxReserve is the most that stays free for others on the disk of the store.
const maxReserve = 1 << 30

// errFull says that an image does not fit.
var errFull = errors.New("the disk is full")

// newSpace looks at the disk of dir and returns how much may be written to it.
func newSpace(dir string) (*space, int64, error) {
	total, free, err := diskOf(dir)
	if err != nil {
		return nil, 0, err
	}
	s := &space{dir: dir, reserve: min(total/50, maxReserve)}
	return s, max(0, free-s.reserve), nil
}

func diskOf(dir string) (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Blocks) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize), nil
}

// writer writes to f while there is space, and until ctx ends.
func (s *space) writer(ctx context.Context, f *os.File) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		if s.pending += int64(len(b)); s.pending >= checkEvery {
			s.pending = 0
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if _, free, err := diskOf(s.dir); err == nil && free < s.reserve {
				return 0, fmt.Errorf("%w: %s are left in %s", errFull, shown.Size(free), filepath.Clean(s.dir))
			}
		}
		return f.Write(b)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
