package cmd

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSnakemake runs Snakemake itself, with the profile of examples/snakemake, on a server. It needs the image
// gantry/snakemake.
func TestSnakemake(t *testing.T) {
	needsBusybox(t)
	snakemake, err := exec.LookPath("snakemake")
	if err != nil {
		t.Skip("needs Snakemake (apt-get install snakemake)")
	}
	if exec.Command("docker", "image", "inspect", "gantry/snakemake").Run() != nil {
		t.Skip("needs the image gantry/snakemake (gantry image build gantry/snakemake snakemake)")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(filepath.Dir(top), 0o755))
	work, bin := filepath.Join(top, "work"), filepath.Join(top, "bin")
	must(t, os.CopyFS(work, os.DirFS("../examples/snakemake")))
	must(t, os.Mkdir(bin, 0o755))
	// The user as whom Snakemake runs may not see where the test is.
	self, err := os.ReadFile(os.Args[0])
	must(t, err)
	must(t, os.WriteFile(filepath.Join(bin, "gantry"), self, 0o755))
	runs := filepath.Join(top, "runs")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var as *syscall.SysProcAttr
	if os.Geteuid() == 0 { // jobs of root's run as another user than Snakemake would
		const nobody = 65534
		t.Setenv("SUDO_UID", "65534")
		t.Setenv("SUDO_GID", "65534")
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		must(t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, nobody, nobody)
		}))
	}
	serveIn(t, runs)
	call := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, snakemake, append([]string{"--profile", "profile"}, args...)...)
		cmd.Dir, cmd.SysProcAttr = work, as
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+work, "GANTRY_DIR="+runs,
			"GANTRY_IMAGE=gantry/snakemake", "GANTRY_WORKFLOW=words")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("snakemake: %v\n%s", err, out)
		}
	}
	call("result/one.count")
	data, err := os.ReadFile(filepath.Join(work, "result", "one.count"))
	must(t, err)
	if got := strings.Fields(string(data)); len(got) < 4 || strings.Join(got[:4], " ") != "2 be 2 to" {
		t.Errorf("the result begins with %q", got)
	}
	t.Setenv("GANTRY_DIR", runs)
	expect(t, exitOK, []string{"|split|COMPLETED", "|count|COMPLETED"}, "sacct", "-a", "-P", "-o",
		"JobID,JobName,State")
	call("--immediate-submit", "--notemp")
	if n := one[int](t, runs, "SELECT count(*) FROM edges"); n != 5 { // 2 of counts, 2 of the report, 1 of all
		t.Errorf("the server has seen %d dependencies of jobs that had not ended, want 5", n)
	}
	expect(t, exitOK, nil, "drain")
	if _, err := os.Stat(filepath.Join(work, "result", "report.txt")); err != nil {
		t.Error(err)
	}
}
