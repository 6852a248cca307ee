package stage_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"gantry/executor/container/stage"
	"gantry/executor/container/stage/stagetest"
)

// writeAs is how a program that is not root writes that many bytes: root may exceed quotas.
func writeAs(t *testing.T, dir, name string, size int64) error {
	t.Helper()
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", fmt.Sprintf("head -c %d /dev/zero >%s", size, name))
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func write(path string, size int) error { return os.WriteFile(path, make([]byte, size), 0o644) }

func TestQuotaLimitsADirectoryAndNoOther(t *testing.T) {
	top := stagetest.QuotaDisk(t)
	dir, other := filepath.Join(top, "dir"), filepath.Join(top, "other")
	for _, d := range []string{dir, other} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(filepath.Join(dir, "before"), 4<<20); err != nil {
		t.Fatal(err)
	}
	project := stage.Project("run", 1)
	if err := stage.SetQuota(dir, project, 2<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeAs(t, filepath.Join(dir, "sub"), "small", 1<<20); err != nil {
		t.Error(err)
	}
	if err := writeAs(t, dir, "large", 3<<20); err == nil {
		t.Error("3 MB more were written, which do not fit")
	}
	if err := writeAs(t, other, "large", 5<<20); err != nil {
		t.Errorf("in another directory: %v", err)
	}
	if used, err := stage.QuotaUsed(dir, project); err != nil || used < 2<<20-64<<10 || used > 2<<20 {
		t.Errorf("%d bytes are used: %v", used, err)
	}
	if err := os.Rename(filepath.Join(dir, "sub/small"), filepath.Join(other, "small")); err != nil {
		t.Errorf("an output cannot be published: %v", err)
	}
	if err := stage.SetQuota(dir, project, 0); err != nil {
		t.Fatal(err)
	}
	if err := writeAs(t, dir, "after", 5<<20); err != nil {
		t.Errorf("without the quota: %v", err)
	}
	if err := os.Link(filepath.Join(other, "large"), filepath.Join(dir, "link")); err != nil {
		t.Errorf("without the quota: %v", err)
	}
}

func TestWithoutQuotasThatIsSaid(t *testing.T) {
	if err := stage.SetQuota(t.TempDir(), stage.Project("run", 1), 1<<20); err != nil &&
		!errors.Is(err, stage.ErrNoQuota) {
		t.Errorf("%v is not ErrNoQuota", err)
	} else if err == nil {
		t.Skip("there are project quotas here")
	}
}
