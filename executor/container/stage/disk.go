package stage

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// DiskUse is how many bytes the files below some directories take on disk: holes take none, and a file with several
// names counts once. It follows no links, as a program may change a directory meanwhile; files and directories that are
// gone when it looks count nothing. Beyond a number of files in a directory, or too deep, nothing counts, and the error
// is ErrTooMany.
func DiskUse(most int, dirs ...string) (bytes int64, err error) {
	seen := map[inode]bool{}
	for _, dir := range dirs {
		more, e := diskUse(dir, most, seen)
		if bytes += more; !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return bytes, err
}

type inode struct{ device, number uint64 }

func diskUse(dir string, most int, seen map[inode]bool) (bytes int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
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
		if key := (inode{uint64(st.Dev), st.Ino}); st.Nlink > 1 && !d.IsDir() {
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
