package stage

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// DiskUse is how many bytes the files below dir take on disk: holes take none, and a file with several names counts
// once. It follows no links, as a program may change the directory meanwhile; files that are gone when it looks count
// nothing.
func DiskUse(dir string) (bytes int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	type file struct{ device, inode uint64 }
	seen := map[file]bool{}
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
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
	return bytes, err
}
