// Package reuse knows files by their content, so that nothing is computed twice: it hashes each file once, finds out
// whether outputs are as a task left them, and lets tasks take over the outputs of earlier attempts.
package reuse

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Sum is the SHA-256 of a content.
type Sum = [sha256.Size]byte

// Stamp identifies a version of a file. A change of its content changes the stamp, unless the file is changed again
// within the granularity of the file system's clock.
type Stamp struct {
	Size     int64
	Modified int64 // nanoseconds since 1970
	Changed  int64 // of the inode: also by a link or a change of owner; nanoseconds since 1970
	Inode    uint64
	Device   uint64
}

// StampOf returns the stamp of a regular file, or of a directory with the regular files and links in it: the sum of
// their sizes, the latest times, and a digest in place of the inode. The error of others wraps errNoFile.
func StampOf(path string) (Stamp, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return Stamp{}, err
	}
	if !st.IsDir() {
		return stampOf(st, path)
	}
	var all Stamp
	sum, err := digestOf(path, func(to io.Writer, at string) error {
		s, err := StampOf(at)
		fmt.Fprintf(to, "%d %d %d\n", s.Size, s.Modified, s.Inode)
		all.Size, all.Device = all.Size+s.Size, s.Device
		all.Modified, all.Changed = max(all.Modified, s.Modified), max(all.Changed, s.Changed)
		return err
	})
	all.Inode = binary.BigEndian.Uint64(sum[:])
	return all, err
}

// digestOf digests the names of all that is below a directory, and where links lead; file adds a file.
func digestOf(dir string, file func(to io.Writer, at string) error) (Sum, error) {
	digest := sha256.New()
	err := eachFile(dir, func(name string, d fs.DirEntry) error {
		fmt.Fprintf(digest, "%q\n", name)
		switch at := filepath.Join(dir, name); {
		case d.Type() == fs.ModeSymlink:
			return addLink(digest, at)
		case d.IsDir():
			return nil
		default:
			return file(digest, at)
		}
	})
	return Sum(digest.Sum(nil)), err
}

// addLink adds to a digest where a link leads.
func addLink(digest io.Writer, path string) error {
	to, err := os.Readlink(path)
	fmt.Fprintf(digest, "-> %q\n", to)
	return err
}

// eachFile calls each with all files and directories below one, in lexical order.
func eachFile(dir string, each func(name string, d fs.DirEntry) error) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		return each(name, d)
	})
}

var errNoFile = errors.New("neither a regular file nor a directory of such files")

func stampOf(st fs.FileInfo, path string) (Stamp, error) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.Mode().IsRegular() {
		return Stamp{}, fmt.Errorf("%s: %w", path, errNoFile)
	}
	return Stamp{Size: st.Size(), Modified: st.ModTime().UnixNano(), Changed: changed(sys), Inode: sys.Ino,
		Device: uint64(sys.Dev)}, nil
}

// Same reports whether two stamps are of a file that nobody has written to in between.
func (s Stamp) Same(o Stamp) bool {
	return s.Size == o.Size && s.Modified == o.Modified && s.Inode == o.Inode && s.Device == o.Device
}

// Memory remembers the contents of files.
type Memory interface {
	// Remembered returns the record of the file with that inode; ok is false if there is none.
	Remembered(ctx context.Context, s Stamp) (was Stamp, sum Sum, hashed time.Time, ok bool, err error)
	// Remember keeps the hash of a file, and when it was hashed.
	Remember(s Stamp, sum Sum, hashed time.Time)
}

// granularity is more than the clock of a file system may stand still: a file that was hashed sooner after its last
// change is hashed again, as a change since then might not show.
const granularity = 20 * time.Millisecond

// hash returns the hash of a regular file, or of the names and contents in a directory, and its stamp. It reads each
// content once.
func (k *Keeper) hash(ctx context.Context, path string) (Sum, Stamp, error) {
	now, err := StampOf(path)
	if err != nil {
		return Sum{}, Stamp{}, err
	}
	if st, err := os.Lstat(path); err == nil && st.IsDir() {
		sum, err := digestOf(path, func(to io.Writer, at string) error {
			sum, _, err := k.hash(ctx, at)
			to.Write(sum[:])
			return err
		})
		return sum, now, err
	}
	was, sum, hashed, ok, err := k.Log.Remembered(ctx, now)
	if err != nil {
		return Sum{}, Stamp{}, err
	}
	if ok && was == now && hashed.Sub(time.Unix(0, now.Modified)) > granularity {
		return sum, now, nil
	}
	return k.read(ctx, path)
}

// outside is hash of a file or a directory of the user's, which links may lead to.
func (k *Keeper) outside(ctx context.Context, path string) (Sum, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Sum{}, err
	}
	sum, _, err := k.hash(ctx, path)
	return sum, err
}

// read hashes a file, again if it changes meanwhile.
func (k *Keeper) read(ctx context.Context, path string) (Sum, Stamp, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // a pipe may be there by now
	if err != nil {
		return Sum{}, Stamp{}, err
	}
	defer f.Close()
	for range 3 {
		before, err := stampOfOpen(f)
		if err != nil {
			return Sum{}, Stamp{}, err
		}
		begun := time.Now()
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return Sum{}, Stamp{}, err
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, contextReader{ctx, f}); err != nil {
			return Sum{}, Stamp{}, fmt.Errorf("hash %s: %w", path, err)
		}
		after, err := stampOfOpen(f)
		if err != nil {
			return Sum{}, Stamp{}, err
		}
		if !before.Same(after) {
			continue
		}
		sum := Sum(hash.Sum(nil))
		k.Log.Remember(after, sum, begun)
		return sum, after, nil
	}
	return Sum{}, Stamp{}, fmt.Errorf("hash %s: somebody writes to it", path)
}

func stampOfOpen(f *os.File) (Stamp, error) {
	st, err := f.Stat()
	if err != nil {
		return Stamp{}, err
	}
	return stampOf(st, f.Name())
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
