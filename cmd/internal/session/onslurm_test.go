package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/cmd/internal/exit"
	"gantry/executor/container/docker"
)

// fakeSlurm puts commands into PATH that print what those of Slurm 22.05 printed. In it allocation 1 of the caller has
// the nodes v1 and v2. says sets what a command prints to standard output and standard error, and its exit code.
func fakeSlurm(t *testing.T) (dir string, says func(command, out, err string, code int)) {
	t.Helper()
	dir = t.TempDir()
	script, err := filepath.Abs("../../../executor/container/slurm/allocation/testdata/fake")
	must(t, err)
	for _, c := range []string{"squeue", "scontrol", "sinfo", "srun", "scancel"} {
		must(t, os.Symlink(script, filepath.Join(dir, c)))
	}
	says = func(command, out, said string, code int) {
		for suffix, text := range map[string]string{"out": out, "err": said, "rc": fmt.Sprint(code)} {
			must(t, os.WriteFile(filepath.Join(dir, command+"."+suffix), []byte(text), 0o644))
		}
	}
	t.Setenv("FAKE_SLURM", dir)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	says("squeue", slurmJob(os.Getuid(), "RUNNING"), "", 0)
	says("sinfo", "v1|mixed|2|4000\nv2|mixed|2|4000\n", "", 0)
	says("hostnames", "v1\nv2\n", "", 0)
	says("scontrol", "", "", 0)
	return dir, says
}

// slurmJob is what squeue says of allocation 1.
func slurmJob(uid int, state string) string {
	return fmt.Sprintf("1|%s|%d|v[1-2]|None\n", state, uid)
}

// srunThat replaces srun by a script, in which $report is the file that a check of a node is to write.
func srunThat(t *testing.T, dir, does string) {
	t.Helper()
	path := filepath.Join(dir, "srun")
	must(t, os.Remove(path))
	text := "#!/bin/sh\necho \"srun $*\" >>\"$FAKE_SLURM/calls\"\nreport=${*##*--report }\nreport=${report%% *}\n" +
		does + "\n"
	must(t, os.WriteFile(path, []byte(text), 0o755))
}

func TestRunOnSlurmThatCannotBeStartsNothing(t *testing.T) {
	if _, err := docker.FindTaskBinary(); err != nil {
		t.Setenv(docker.TaskBinaryEnv, os.Args[0]) // it is never run
	}
	for _, c := range []struct {
		name  string
		setUp func(t *testing.T, dir string, says func(command, out, err string, code int))
		words []string
	}{
		{"no commands of Slurm", func(t *testing.T, _ string, _ func(string, string, string, int)) {
			t.Setenv("PATH", t.TempDir())
		}, []string{"there is no command squeue here", "nothing was started"}},
		{"munge does not run", func(_ *testing.T, _ string, says func(string, string, string, int)) {
			says("squeue", "", "squeue: error: Munge encode failed: Failed to connect to \"/s\"\n", 1)
		}, []string{"munge does not run here", "start munged", "nothing was started"}},
		{"slurmctld is away", func(_ *testing.T, _ string, says func(string, string, string, int)) {
			says("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1)
		}, []string{"slurmctld) does not answer", "nothing was started"}},
		{"another's allocation", func(_ *testing.T, _ string, says func(string, string, string, int)) {
			says("squeue", slurmJob(os.Getuid()+7654321, "RUNNING"), "", 0)
		}, []string{"allocation 1 is not yours", "squeue --me", "nothing was started"}},
		{"an allocation that has ended", func(_ *testing.T, _ string, says func(string, string, string, int)) {
			says("squeue", slurmJob(os.Getuid(), "TIMEOUT"), "", 0)
		}, []string{"allocation 1 cannot be used: it reached its time limit", "nothing was started"}},
		{"an unknown allocation", func(_ *testing.T, _ string, says func(string, string, string, int)) {
			says("squeue", "", "slurm_load_jobs error: Invalid job id specified\n", 1)
		}, []string{"Slurm does not know it", "nothing was started"}},
		{"a node without the runtime", func(t *testing.T, dir string, _ func(string, string, string, int)) {
			srunThat(t, dir, `echo '{"node": "v1", "runtime": "", "failed": "no crun or runc on this host"}' `+
				`>"$report"`)
		}, []string{"node v1 has no runtime for containers: no crun or runc on this host",
			"install crun or runc there"}},
		{"a node that does not see the directory", func(t *testing.T, dir string, _ func(string, string, string, int)) {
			srunThat(t, dir, `echo "slurmstepd: error: execve(): gantry-task: No such file or directory" >&2; exit 2`)
		}, []string{"node v1 does not see ", "--shared"}},
		{"a node that sees another directory", func(t *testing.T, dir string, _ func(string, string, string, int)) {
			srunThat(t, dir, ":")
		}, []string{"node v1 writes to another directory", "--shared"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			slurm, says := fakeSlurm(t)
			l := newLab(t, "slurm", "{name: n, cores: 1}", map[string]string{"f.dax": forked})
			c.setUp(t, slurm, says)
			l.with.SlurmJob = "1"
			_, err := l.begin("refused", "f.dax", nil)
			for _, words := range c.words {
				l.says(err, exit.Host, words)
			}
			calls, _ := os.ReadFile(filepath.Join(slurm, "calls"))
			for line := range strings.Lines(string(calls)) {
				if strings.HasPrefix(line, "srun ") && !strings.Contains(line, "--job-name=gantry-check ") {
					t.Errorf("a step was started: %s", line)
				}
			}
			if _, err := os.Stat(filepath.Join(l.with.Home, "refused")); !os.IsNotExist(err) {
				t.Errorf("the run has a directory: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(l.with.Home, "gantry-check-*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
