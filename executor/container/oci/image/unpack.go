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
	root     int
	space    *space
	bytes    int64 // of files
	dirs     []dirEntry
	dirBytes int
	buffer   []byte
}

// dirEntry is the attributes that a directory gets when everything is in it.
type dirEntry struct {
	path string
	mode uint32
	time time.Time
}

// unpack writes the entries of a tar archive below dir, which is empty, in the form of a lower directory of overlayfs.
// It returns the size of the files.
func unpack(r io.Reader, dir string, sp *space) (bytes int64, err error) {
	root, err := unix.Open(dir, openPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(root)
	u := &unpacker{root: root, space: sp, buffer: make([]byte, 128<<10)}
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

// clean makes a path of the archive one from its root, "." itself, without a slash in front.
func clean(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", damaged("its name has a zero byte")
	}
	rel := path.Clean(strings.TrimLeft(name, "/"))
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return "", damaged("its path leads out of the image")
	}
	return rel, nil
}

// entry writes an entry. A directory gets its permissions and its time at the end: before, it may not be writable, and
// each new entry changes the time.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	file, dir := h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse, h.Typeflag == tar.TypeDir
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
	if name == "." && !dir {
		return damaged("the root of an image is a directory")
	}
	parent, err := u.enter(path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	base := path.Base(name)
	if mark, ok := strings.CutPrefix(base, whiteoutPrefix); ok {
		return whiteout(parent, base, mark)
	}
	hid, err := replace(parent, base, dir)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeLink:
		return u.link(parent, base, h)
	case tar.TypeDir:
		err = u.dir(name, parent, base, h, hid)
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.file(parent, base, h, content)
	case tar.TypeSymlink:
		err = unix.Symlinkat(h.Linkname, parent, base)
	default:
		// The root of a user namespace makes no devices: containers have their own in /dev.
		if err = node(parent, base, h); errors.Is(err, unix.EPERM) && h.Typeflag != tar.TypeFifo {
			return nil
		}
	}
	if err == nil {
		err = own(parent, base, h)
	}
	// In this order: a new owner takes set-user-id bits and capabilities away.
	if err == nil && !dir && h.Typeflag != tar.TypeSymlink {
		err = unix.Fchmodat(parent, base, mode(h), 0)
	}
	if err == nil && (file || dir) {
		err = attributes(inside(parent, base), h)
	}
	if err == nil && !dir {
		err = touch(parent, base, h.ModTime)
	}
	return err
}

func owner(id int) bool { return id >= 0 && int64(id) < math.MaxUint32 }

// mode is the permissions of an entry, set-user-id and sticky bits included.
func mode(h *tar.Header) uint32 { return uint32(h.Mode) & 0o7777 }

// enter opens a directory of the layer, and makes it, and those above, if they are missing.
func (u *unpacker) enter(dir string) (int, error) {
	fd, err := openBelow(u.root, dir, 0)
	if errors.Is(err, unix.ENOENT) {
		up, err := u.enter(path.Dir(dir))
		if err != nil {
			return -1, err
		}
		defer unix.Close(up)
		if err := unix.Mkdirat(up, path.Base(dir), 0o755); errors.Is(err, unix.EEXIST) {
			return -1, damaged("%q is a link to nowhere", shorten(dir))
		} else if err != nil {
			return -1, err
		}
		if err := unix.Fchmodat(up, path.Base(dir), 0o755, 0); err != nil { // with any umask
			return -1, err
		}
		return openBelow(u.root, dir, 0)
	}
	switch {
	case errors.Is(err, unix.ENOTDIR):
		err = damaged("%q is no directory", shorten(dir))
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		err = damaged("%q: %w", shorten(dir), err)
	}
	return fd, err
}

// replace makes room for an entry, of which an archive may have several of one name, and reports whether the former one
// hid that of lower layers.
func replace(parent int, base string, dir bool) (hid bool, err error) {
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
	return false, os.RemoveAll(inside(parent, base))
}

// inside is a path of this process to an entry of a directory.
func inside(dir int, base string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + base }

// whiteout hides a file of lower layers. It leaves entries of its own layer alone.
func whiteout(parent int, base, name string) error {
	switch {
	case base == opaqueMark:
		return opaque(parent, ".")
	case strings.HasPrefix(name, whiteoutPrefix): // notes of aufs
		return nil
	case name == "" || name == "." || name == "..":
		return damaged("it hides nothing that can be")
	}
	var st unix.Stat_t
	switch err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return mknodat(parent, name, unix.S_IFCHR, 0)
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return opaque(parent, name)
	default:
		return err
	}
}

// opaque hides all that lower layers have in a directory.
func opaque(parent int, base string) error {
	err := unix.Lsetxattr(inside(parent, base), "trusted.overlay.opaque", []byte("y"), 0)
	if errors.Is(err, unix.EPERM) { // the root of a user namespace is not the host's
		err = unix.Lsetxattr(inside(parent, base), "user.overlay.opaque", []byte("y"), 0)
	}
	return err
}

// dir makes a directory, or changes one that exists.
func (u *unpacker) dir(name string, parent int, base string, h *tar.Header, hid bool) error {
	if u.dirBytes += len(name) + 64; u.dirBytes > maxDirBytes {
		return damaged("it has too many directories")
	}
	if err := unix.Mkdirat(parent, base, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	u.dirs = append(u.dirs, dirEntry{name, mode(h), h.ModTime})
	if hid {
		return opaque(parent, base)
	}
	return nil
}

func (u *unpacker) file(parent int, base string, h *tar.Header, content io.Reader) error {
	fd, err := unix.Openat(parent, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	u.bytes += h.Size
	_, err = io.CopyBuffer(u.space.before(f), struct{ io.Reader }{content}, u.buffer)
	return tarError(err)
}

// link makes a hard link to an entry of the same layer.
func (u *unpacker) link(parent int, base string, h *tar.Header) error {
	to, err := clean(h.Linkname)
	if err != nil || to == "." {
		return damaged("its link %q leads out of the image", shorten(h.Linkname))
	}
	dir, err := openBelow(u.root, path.Dir(to), 0)
	if err == nil {
		defer unix.Close(dir)
		err = unix.Linkat(dir, path.Base(to), parent, base, 0)
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	if err != nil {
		return damaged("it is a link to %q: %w", shorten(h.Linkname), err)
	}
	return nil
}

// node makes a device or a pipe.
func node(parent int, base string, h *tar.Header) error {
	if h.Devmajor < 0 || h.Devminor < 0 || h.Devmajor > math.MaxUint32 || h.Devminor > math.MaxUint32 {
		return damaged("device %d:%d is none", h.Devmajor, h.Devminor)
	}
	kind := map[byte]uint32{tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK, tar.TypeFifo: unix.S_IFIFO}
	return mknodat(parent, base, kind[h.Typeflag]|mode(h), int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
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

// finishDirs sets the permissions and times of directories. The last of several entries of one name counts.
func (u *unpacker) finishDirs() error {
	for _, d := range u.dirs {
		fd, err := openBelow(u.root, d.path, unix.O_NOFOLLOW)
		if err != nil {
			continue // another entry took its place
		}
		err = errors.Join(unix.Fchmodat(fd, ".", d.mode, 0), touch(fd, ".", d.time))
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("entry %q: %w", shorten(d.path), err)
		}
	}
	return nil
}

// space guards the free space of the store's file system.
type space struct {
	ctx     context.Context // when it ends nothing more is written, though holes of sparse files need no reads
	dir     string
	reserve int64 // bytes that stay free
	pending int64 // bytes written since the last look
}

// maxReserve is the most that stays free for others on the disk of the store.
const maxReserve = 1 << 30

// errFull says that an image does not fit.
var errFull = errors.New("the disk is full")

// newSpace looks at the disk of dir and returns how much may be written to it.
func newSpace(ctx context.Context, dir string) (*space, int64, error) {
	total, free, err := diskOf(dir)
	if err != nil {
		return nil, 0, err
	}
	s := &space{ctx: ctx, dir: dir, reserve: min(total/50, maxReserve)}
	return s, max(0, free-s.reserve), nil
}

func diskOf(dir string) (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Blocks) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize), nil
}

// before is a writer to f that writes while there is space.
func (s *space) before(f *os.File) io.Writer { return io.MultiWriter(s, f) }

// Write counts bytes before they are written.
func (s *space) Write(b []byte) (int, error) {
	if s.pending += int64(len(b)); s.pending < checkEvery {
		return len(b), nil
	}
	s.pending = 0
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if _, free, err := diskOf(s.dir); err == nil && free < s.reserve {
		return 0, fmt.Errorf("%w: %s are left in %s", errFull, shown.Size(free), filepath.Clean(s.dir))
	}
	return len(b), nil
}
