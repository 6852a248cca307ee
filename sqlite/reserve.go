package sqlite

import (
	"os"
	"path/filepath"
)

// reserved is how much space a run keeps for its last words: how a run ended fits into a few pages.
const reserved = 128 << 10

// reserve is space on the file system of the log that is given back when the disk is full, so that the end of the run
// can still be logged. It is a file without a name: it goes with the process, however that ends.
type reserve struct{ file *os.File }

// newReserve takes the space; one of nil if there is none to be had.
func newReserve(path string) *reserve {
	dir := filepath.Dir(path)
	file, err := nameless(dir)
	if err != nil { // a file system that has no such files
		if file, err = os.CreateTemp(dir, ".gantry-reserve-"); err != nil {
			return nil
		}
		_ = os.Remove(file.Name())
	}
	if err := allocate(file, reserved); err != nil {
		if _, err = file.Write(make([]byte, reserved)); err != nil {
			file.Close()
			return nil
		}
	}
	return &reserve{file}
}

// release gives the space back; it reports whether there was any.
func (r *reserve) release() bool {
	if r == nil || r.file == nil {
		return false
	}
	r.file.Close()
	r.file = nil
	return true
}
