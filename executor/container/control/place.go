package control

import "fmt"

// ID names a directory by its device and inode, independently of its path.
type ID struct{ Device, Inode uint64 }

// Expect notes that the directory at a path in the container has to be the one of that ID.
func (d Dir) Expect(path string, id ID) error {
	return d.add("places", fmt.Sprintf("%d %d %s\x00", id.Device, id.Inode, path))
}
