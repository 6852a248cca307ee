package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ID names a directory by its device and inode, independently of its path.
type ID struct{ Device, Inode uint64 }

// IDOf returns the ID of the file or directory at a path.
func IDOf(path string) (ID, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return ID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return ID{uint64(st.Dev), st.Ino}, nil
}

func (d Dir) places() string { return filepath.Join(string(d), "places") }

// Expect notes that the directory at a path in the container has to be the one of that ID.
func (d Dir) Expect(path string, id ID) error {
	f, err := os.OpenFile(d.places(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d %d %s\x00", id.Device, id.Inode, path)
	return errors.Join(err, f.Close())
}

// Check compares the directories in this container with those that were expected.
func (d Dir) Check() error {
	text, err := os.ReadFile(d.places())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\x00"), "\x00") {
		var want ID
		numbers, path, ok := strings.Cut(line, "/")
		if _, err := fmt.Sscanf(numbers, "%d %d", &want.Device, &want.Inode); err != nil || !ok {
			return fmt.Errorf("expected directory %q: %w", line, err)
		}
		path = "/" + path
		if got, err := IDOf(path); err != nil {
			return err
		} else if got != want {
			return fmt.Errorf("%s is another directory than when this attempt began: somebody moved it", path)
		}
	}
	return err
}
