// Package stagetest has helpers for tests of disk space.
package stagetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// QuotaDisk mounts a file system of 64 MB with project quotas, or skips the test.
func QuotaDisk(t testing.TB) string {
	t.Helper()
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := os.WriteFile(image, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"truncate", "-s", "64M", image}, {"mke2fs", "-q", "-t", "ext4", "-O",
		"quota,project", "-E", "quotatype=prjquota", image},
		{"mount", "-o", "loop,prjquota", image, dir}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("needs root, and a kernel with project quotas of ext4 (make test-v2 has one): %v: %v %s", args, err,
				out)
		}
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // programs that are not root are to reach it
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return dir
}
