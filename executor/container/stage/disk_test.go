package stage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gantry/executor/container/stage"
)

// A program may make directories in each other, and files, without end. All others are counted still.
func TestDiskUseHasBounds(t *testing.T) {
	for _, c := range []struct {
		deep, files int
		err         error
	}{{100, 9, nil}, {200, 9, stage.ErrTooMany}, {1, 20, stage.ErrTooMany}} {
		dir := t.TempDir()
		must(t, os.MkdirAll(dir+strings.Repeat("/a", c.deep), 0o755))
		for i := range c.files {
			must(t, os.WriteFile(filepath.Join(dir, "b"+strconv.Itoa(i)), make([]byte, 4096), 0o644))
		}
		bytes, err := stage.DiskUse(c.deep+10, dir)
		if !errors.Is(err, c.err) || c.files < 10 && bytes < int64(c.files)*4096 {
			t.Errorf("%d deep and %d files: %d bytes, %v; want %v", c.deep, c.files, bytes, err, c.err)
		}
	}
}
