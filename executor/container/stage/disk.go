package stage

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// DiskUse is how many bytes the files below dir take on disk: holes take none, and a file with several names counts
// once. It follows no links, as a program may change the directory meanwhile; files that are gone when it looks count
// nothing. Beyond a number of files, or too deep, nothing counts, and the error is ErrTooMany.
func DiskUse(dir string, most int) (bytes int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	type file struct{ device, inode uint64 }
	seen := map[file]bool{}
	tooMany := false
	err = walk(root, ".", most, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, ErrTooMany) {
			tooMany = true
			return nil
		}
		if err != nil {
			if path == "." {
				return err
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.ErrUnsupported
		}
		if key := (file{uint64(st.Dev), st.Ino}); st.Nlink > 1 && !d.IsDir() {
			if seen[key] {
				return nil
			}
			seen[key] = true
		}
		bytes += st.Blocks * 512
		return nil
	})
	if tooMany {
		err = ErrTooMany
	}
	return bytes, err
}
