package cmd

import (
	"os"
	"path/filepath"
	"testing"
)

// The holes of inputs take no room, as those of their copies take none.
func TestInputsWithHolesFitOnTheDisk(t *testing.T) {
	beside(t)
	c := cliTest{t, t.TempDir()}
	flow := c.write("Makeflow", "n: image tree\n\ttrue >n\n")
	for _, name := range []string{"image", "tree/image"} {
		if err := os.Truncate(c.write(name, "x"), 1<<42); err != nil {
			t.Skip(err)
		}
	}
	c.gantry(exitOK, "run", "--dry-run", "--image", "gantry/busybox", "--dir", filepath.Join(c.dir, "runs"), flow)
}
