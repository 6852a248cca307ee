package docker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/container"
	"gantry/executor/container/stage/stagetest"
	"gantry/planner"
)

// On a file system with project quotas the kernel refuses what a container writes beyond --disk; the quota ends with
// the attempt.
func TestAQuotaHoldsAContainer(t *testing.T) {
	t.Parallel()
	disk := stagetest.QuotaDisk(t)
	dir := filepath.Join(disk, "quota", "run")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *container.Config) { c.Dir, c.Disk = dir, 4<<20 })
	within := r.file("within")
	s := r.sh("dd if=/dev/zero of=within bs=1M count=3 2>/dev/null", within)
	r.wants(r.exit(r.launch(s, nil)), planner.OK)
	if st, err := os.Stat(r.node(0, "within")); err != nil || st.Size() != 3<<20 {
		t.Errorf("the output: %v, %v", st, err)
	}
	s = r.sh("dd if=/dev/zero of=a bs=64k count=800 2>&1; ls -l a; exit 3")
	x := r.exit(r.launch(s, nil))
	r.wants(x, planner.OutOfDisk)
	st, err := os.Stat(filepath.Join(r.work(s), "a"))
	if err != nil || st.Size() > 4<<20 || st.Size() < 3<<20 {
		t.Errorf("the program could write %v, %v", st, err)
	}
	if !strings.Contains(x.Message, "4.194 MB") {
		t.Errorf("message %q", x.Message)
	}
	s = r.sh("truncate -s 1G sparse; dd if=/dev/zero of=b bs=1M count=2 2>/dev/null")
	r.wants(r.exit(r.launch(s, nil)), planner.OK)
}
