package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
