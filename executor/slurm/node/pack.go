package node

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Packer writes files below a directory as a tar archive, each with its checksum, and says at the end how many there
// are: what was cut off or damaged on its way is not unpacked as if it were whole.
type Packer struct {
	root  string
	tar   *tar.Writer
	done  map[string]bool
	files int
	// Skip says that the other side has a regular file already; nil: it has none.
	Skip func(path string, st fs.FileInfo) bool
}

// Entries of an archive that stand for no file.
const (
	sumEntry = ".gantry-sum"
	endEntry = ".gantry-end"
)

// NewPacker packs files below root.
func NewPacker(w io.Writer, root string) *Packer {
	return &Packer{root: root, tar: tar.NewWriter(w), done: map[string]bool{}}
}

// Add packs a file, or a directory with all that is in it, and the directories above. What is neither a file, a
// directory nor a link is left out, and so is what is not there.
func (p *Packer) Add(path string) error {
	if err := p.above(path); err != nil {
		return err
	}
	return filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return p.one(at)
	})
}

func (p *Packer) above(path string) error {
	dir := filepath.Dir(path)
	if dir == p.root || p.done[dir] || !strings.HasPrefix(dir, p.root+"/") {
		return nil
	}
	if err := p.above(dir); err != nil {
		return err
	}
	return p.one(dir)
}

func (p *Packer) one(path string) error {
	name, err := filepath.Rel(p.root, path)
	if err != nil || p.done[path] || name == "." {
		return err
	}
	p.done[path] = true
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	link := ""
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	case !st.Mode().IsRegular() && !st.IsDir():
		return nil
	case st.Mode().IsRegular() && p.Skip != nil && p.Skip(path, st):
		return nil
	}
	h, err := tar.FileInfoHeader(st, link)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Format = filepath.ToSlash(name), "", "", tar.FormatPAX
	if !st.Mode().IsRegular() {
		return p.tar.WriteHeader(h)
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(p.tar, sum), io.LimitReader(in, h.Size)); err != nil {
		return err
	}
	p.files++
	return p.say(sumEntry, hex.EncodeToString(sum.Sum(nil)))
}

// Put packs a text as a file.
func (p *Packer) Put(path string, text []byte) error {
	name, err := filepath.Rel(p.root, path)
	if err != nil {
		return err
	}
	if err := p.tar.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(text)),
		Uid: os.Getuid(), Gid: os.Getgid(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	if _, err := p.tar.Write(text); err != nil {
		return err
	}
	p.files++
	sum := sha256.Sum256(text)
	return p.say(sumEntry, hex.EncodeToString(sum[:]))
}

func (p *Packer) say(name, text string) error {
	if err := p.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := io.WriteString(p.tar, text)
	return err
}

// Close says that this was all.
func (p *Packer) Close() error {
	if err := p.say(endEntry, strconv.Itoa(p.files)); err != nil {
		return err
	}
	return p.tar.Close()
}

// errCut says that an archive is not whole.
var errCut = errors.New("it was cut off")

// Unpack writes the files of an archive below root, and keeps owners if it may. Each file appears whole. It returns the
// paths of those that it wrote, in their order. Synced files are there after a crash of the host.
func Unpack(r io.Reader, root string, synced bool) (files []string, err error) {
	u := &unpacker{root: root, in: tar.NewReader(r), made: map[string]bool{root: true}, synced: synced}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if u.part != "" {
			_ = os.Remove(u.part)
		}
	}()
	for {
		h, err := u.in.Next()
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errCut
		}
		if err != nil {
			return files, err
		}
		if h.Name == endEntry {
			text, err := io.ReadAll(io.LimitReader(u.in, 64))
			if err != nil || string(text) != strconv.Itoa(len(files)) || u.part != "" {
				return files, errCut
			}
			return files, nil // whoever packed it may wait for an answer: there is nothing to read to the end
		}
		path, err := u.one(h)
		if err != nil {
			return files, err
		}
		if path != "" {
			files = append(files, path)
		}
	}
}

type unpacker struct {
	root     string
	in       *tar.Reader
	made     map[string]bool // directories that are none of links
	part, to string          // a file whose checksum is still to come
	sum      hash.Hash
	synced   bool
}

// one unpacks an entry; it returns the path of a file that is now whole.
func (u *unpacker) one(h *tar.Header) (file string, err error) {
	if h.Name == sumEntry {
		text, err := io.ReadAll(io.LimitReader(u.in, 2*sha256.Size+1))
		if err != nil {
			return "", err
		}
		if u.part == "" || string(text) != hex.EncodeToString(u.sum.Sum(nil)) {
			return "", fmt.Errorf("%s was damaged on its way: its checksum is another", u.to)
		}
		part := u.part
		u.part = ""
		return u.to, os.Rename(part, u.to)
	}
	name := filepath.FromSlash(h.Name)
	if u.part != "" || !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q is no name of a file in an archive of gantry", h.Name)
	}
	path := filepath.Join(u.root, name)
	if err := u.parent(filepath.Dir(path)); err != nil {
		return "", err
	}
	mode := h.FileInfo().Mode()
	st, there := os.Lstat(path)
	switch h.Typeflag {
	case tar.TypeDir:
		u.made[path] = true
		if there == nil && st.IsDir() {
			return "", nil
		}
		if there == nil {
			if err := os.Remove(path); err != nil {
				return "", err
			}
		}
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		return "", errors.Join(give(path, h), os.Chmod(path, mode.Perm()))
	case tar.TypeSymlink:
		if there == nil {
			if err := os.RemoveAll(path); err != nil {
				return "", err
			}
		}
		if err := os.Symlink(h.Linkname, path); err != nil {
			return "", err
		}
		return "", give(path, h)
	case tar.TypeReg:
	default:
		return "", fmt.Errorf("%q is no file, directory or link", h.Name)
	}
	if there == nil && st.IsDir() {
		if err := os.RemoveAll(path); err != nil {
			return "", err
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".gantry-part-*")
	if err != nil {
		return "", err
	}
	u.part, u.to, u.sum = f.Name(), path, sha256.New()
	_, err = io.Copy(io.MultiWriter(f, u.sum), u.in)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut
	}
	if err == nil {
		err = errors.Join(give(u.part, h), os.Chmod(u.part, mode.Perm()))
	}
	if err == nil && u.synced {
		err = f.Sync()
	}
	return "", errors.Join(err, f.Close())
}

// parent makes sure that a directory is there, and is reached without links.
func (u *unpacker) parent(dir string) error {
	if u.made[dir] {
		return nil
	}
	if err := u.parent(filepath.Dir(dir)); err != nil {
		return err
	}
	st, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Mkdir(dir, 0o755)
	} else if err == nil && !st.IsDir() {
		err = fmt.Errorf("%s is no directory", dir)
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		u.made[dir] = true
		return nil
	}
	return err
}

// give gives a file its owner; only root can.
func give(path string, h *tar.Header) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, h.Uid, h.Gid)
}
