package stage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of a directory to which a program or another user writes. The kernel finds each name on a path anew, and a
// directory is held in memory while it is walked.
const (
	MostFiles = 1 << 20
	mostDeep  = 128 // directories in each other
)

// ErrTooMany is the error of a directory beyond these bounds.
var ErrTooMany = fmt.Errorf("more than %d files, or more than %d directories in each other", MostFiles, mostDeep)

// walk is fs.WalkDir of a directory or a file below root, up to a number of files.
func walk(root *os.Root, name string, most int, f fs.WalkDirFunc) error {
	return fs.WalkDir(&bounded{root.FS(), root, most}, name, f)
}

type bounded struct {
	fs.FS
	root *os.Root
	left int // files
}

// Stat looks at a name without opening it: it may be a pipe.
func (b *bounded) Stat(name string) (fs.FileInfo, error) { return b.root.Lstat(name) }

// ReadDir lists a directory, whose place a pipe may have taken.
func (b *bounded) ReadDir(name string) ([]fs.DirEntry, error) {
	if strings.Count(name, "/") >= mostDeep {
		return nil, ErrTooMany
	}
	dir, err := b.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	all, err := dir.ReadDir(b.left + 1)
	if len(all) > b.left {
		return nil, ErrTooMany
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	b.left -= len(all)
	slices.SortFunc(all, func(x, y fs.DirEntry) int { return cmp.Compare(x.Name(), y.Name()) })
	return all, err
}
