package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ID names a directory by its device and inode, independently of its path.
type ID struct{ Device, Inode uint64 }

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
