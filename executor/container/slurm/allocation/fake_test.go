package allocation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fake is a set of commands that print what was recorded of Slurm 22.05.8.
type fake struct {
	t   *testing.T
	dir string
}

// says sets what a command prints to standard output, to standard error, and its exit code.
func (f fake) says(command, out, said string, code int) {
	f.t.Helper()
	for suffix, text := range map[string]string{"out": out, "err": said, "rc": fmt.Sprint(code)} {
		must(f.t, os.WriteFile(filepath.Join(f.dir, command+"."+suffix), []byte(text), 0o644))
	}
}

func (f fake) calls() string {
	text, _ := os.ReadFile(filepath.Join(f.dir, "calls"))
	return string(text)
}

const recordedJob = "JobId=1 JobName=Nodes=v9 UserId=root(0) GroupId=root(0) JobState=RUNNING Reason=None " +
	"Partition=main AllocNode:Sid=localhost:14443 ReqNodeList=(null) ExcNodeList=(null) NodeList=v[1-2] BatchHost=v1 " +
	"NumNodes=2 NumCPUs=3 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=3,mem=8000M,node=2,billing=4 " +
	"Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* JOB_GRES=(null)   Nodes=v1 CPU_IDs=0-1 Mem=4000 GRES=   " +
	"Nodes=v2 CPU_IDs=1 Mem=2000 GRES= MinCPUsNode=1 MinMemoryNode=0 Features=(null) Command=(null) WorkDir=/ Power= \n"

// newFake is a Slurm in which allocation 1, of the caller, has nodes v1 and v2.
func newFake(t *testing.T) fake {
	t.Helper()
	f := fake{t, t.TempDir()}
	script, err := filepath.Abs("testdata/fake")
	must(t, err)
	for _, c := range commands {
		must(t, os.Symlink(script, filepath.Join(f.dir, c)))
	}
	t.Setenv("SLURM_CONF", filepath.Join(f.dir, "slurm.conf"))
	t.Setenv("FAKE_SLURM", f.dir)
	t.Setenv("PATH", f.dir+":/usr/bin:/bin")
	f.says("squeue", fmt.Sprintf("1|RUNNING|%d|v[1-2]|None\n", os.Getuid()), "", 0)
	f.says("hostnames", "v1\nv2\n", "", 0)
	f.says("sinfo", "v1|allocated|2|4000\nv2|mixed|2|4000\nv1|allocated|2|4000\n", "", 0)
	f.says("scontrol", recordedJob, "", 0)
	return f
}

func TestAnAllocationHasWhatSlurmSays(t *testing.T) {
	newFake(t)
	a, err := Attach(t.Context(), "1")
	must(t, err)
	want := []Node{{"v1", 2, 4000 << 20, true, "allocated"}, {"v2", 1, 2000 << 20, true, "mixed"}}
	if got := a.Nodes(); !slices.Equal(got, want) {
		t.Errorf("nodes %v, want %v", got, want)
	}
}

func TestWhatCannotBeUsedIsSaidAndNothingStarts(t *testing.T) {
	uid := os.Getuid()
	for _, c := range []struct {
		name  string
		setUp func(fake)
		want  string
	}{
		{"no commands", func(f fake) { f.t.Setenv("PATH", f.t.TempDir()) },
			"there is no command squeue here (run gantry where the commands of Slurm are"},
		{"munge that stops", func(f fake) {
			f.says("squeue", "", "squeue: error: Munge encode failed: Failed to connect to \"/s\": Connection "+
				"refused\nslurm_load_jobs error: Protocol authentication error\n", 1)
		}, "munge does not run here, so Slurm does not know who asks: Failed to connect to \"/s\""},
		{"no configuration", func(f fake) {
			f.says("squeue", "", "squeue: error: fetch_config: DNS SRV lookup failed\n"+
				"squeue: fatal: Could not establish a configuration source\n", 1)
		}, "Slurm has no configuration here"},
		{"slurmctld is away", func(f fake) {
			f.says("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1)
		}, "Slurm's controller (slurmctld) does not answer"},
		{"unknown", func(f fake) {
			f.says("squeue", "", "slurm_load_jobs error: Invalid job id specified\n", 1)
		}, "allocation 1 cannot be used: Slurm does not know it, or not any more"},
		{"forgotten", func(f fake) { f.says("squeue", "", "", 0) }, "Slurm does not know it, or not any more"},
		{"cancelled", func(f fake) { f.job("CANCELLED", uid, "None") }, "cannot be used: it was cancelled"},
		{"over its limit", func(f fake) { f.job("TIMEOUT", uid, "TimeLimit") }, "it reached its time limit"},
		{"pending", func(f fake) { f.job("PENDING", uid, "Resources") },
			"it has not begun (pending, Resources)"},
		{"another's", func(f fake) { f.job("RUNNING", uid+7654321, "None") },
			fmt.Sprintf("allocation 1 is not yours: it belongs to user %d", uid+7654321)},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			c.setUp(f)
			_, err := Attach(t.Context(), "1")
			var said *Error
			if err == nil || !errors.As(err, &said) {
				t.Fatalf("error %v, want one of Slurm", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want it to say %q", err, c.want)
			}
			if strings.Contains(f.calls(), "srun") {
				t.Errorf("a step was started:\n%s", f.calls())
			}
		})
	}
}

func (f fake) job(state string, uid int, reason string) {
	f.says("squeue", fmt.Sprintf("1|%s|%d|v[1-2]|%s\n", state, uid, reason), "", 0)
}

func TestANodeThatLeavesIsDownForGood(t *testing.T) {
	f := newFake(t)
	a, err := Attach(t.Context(), "1")
	must(t, err)
	var heard []Change
	ctx, cancel := context.WithCancel(t.Context())
	a.Watch(ctx, time.Millisecond, func(c Change) {
		switch heard = append(heard, c); len(heard) {
		case 1:
			f.says("sinfo", "v1|allocated*|2|4000\nv2|down|2|4000\n", "", 0)
		case 2: // Slurm takes it out of the allocation; it comes back, but not to us
			f.says("hostnames", "v1\n", "", 0)
			f.says("sinfo", "v1|allocated|2|4000\nv2|idle|2|4000\n", "", 0)
			f.says("squeue", fmt.Sprintf("1|RUNNING|%d|v1|None\n", os.Getuid()), "", 0)
		case 3:
			f.job("CANCELLED", os.Getuid(), "None")
		}
	})
	cancel()
	if len(heard) != 4 {
		t.Fatalf("%d changes: %v", len(heard), heard)
	}
	for i, want := range [][2]Node{
		{{"v1", 2, 4000 << 20, true, "allocated"}, {"v2", 1, 2000 << 20, true, "mixed"}},
		{{"v1", 2, 4000 << 20, true, "allocated*"}, {"v2", 1, 2000 << 20, false, "down"}},
		{{"v1", 2, 4000 << 20, true, "allocated"}, {"v2", 1, 2000 << 20, false, "no longer of the allocation"}},
	} {
		if !slices.Equal(heard[i].Nodes, want[:]) || heard[i].Over {
			t.Errorf("change %d: %v, want %v", i, heard[i], want)
		}
	}
	if !heard[3].Over || heard[3].Why != "it was cancelled" {
		t.Errorf("at the end: %v", heard[3])
	}
}

func TestASilentControllerIsNoChangeForAWhile(t *testing.T) {
	f := newFake(t)
	a, err := Attach(t.Context(), "1")
	must(t, err)
	away := func() {
		f.says("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1)
	}
	away()
	if _, err := a.Look(t.Context()); !errors.Is(err, ErrAway) || !a.Away() {
		t.Errorf("error %v, away %v", err, a.Away())
	}
	f.job("RUNNING", os.Getuid(), "None")
	if c, err := a.Look(t.Context()); err != nil || c.Over || a.Away() {
		t.Errorf("it is back: %v, %v, away %v", c, err, a.Away())
	}
	away()
	var heard []Change
	a.watch(t.Context(), time.Millisecond, 50*time.Millisecond, func(c Change) { heard = append(heard, c) })
	if len(heard) != 1 || !heard[0].Over || heard[0].Why != "slurmctld has not answered for 50ms" {
		t.Errorf("changes: %v", heard)
	}
}

func TestAStepHasNothingOfTheJobAroundGantry(t *testing.T) {
	f := newFake(t)
	t.Setenv("SLURM_JOB_ID", "1")
	t.Setenv("SLURM_MEM_PER_CPU", "100")
	t.Setenv("SRUN_CPUS_PER_TASK", "7")
	t.Setenv("SQUEUE_FORMAT", "%i")
	t.Setenv("KEPT", "yes")
	a, inside, err := Inside(t.Context())
	if err != nil || !inside {
		t.Fatal(inside, err)
	}
	r, err := a.StartStep(t.Context(), StepSpec{Node: "v2", CPUs: 2, Memory: 100<<20 + 1, Name: "a 7", Dir: "/tmp",
		Argv: []string{"prog", "--flag"}})
	must(t, err)
	r.Stdin().Close()
	out, err := io.ReadAll(r.Stdout())
	must(t, err)
	must(t, r.Wait())
	for _, bad := range []string{"SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SRUN_", "SQUEUE_"} {
		if strings.Contains(string(out), "\n"+bad) {
			t.Errorf("srun has %s", bad)
		}
	}
	for _, good := range []string{"SLURM_CONF=", "KEPT=yes\n", "LC_ALL=C\n"} {
		if !strings.Contains("\n"+string(out), "\n"+good) {
			t.Errorf("srun has no %s", good)
		}
	}
	want := "srun --jobid=1 --overlap --exact --nodes=1 --ntasks=1 --nodelist=v2 --cpus-per-task=2 --mpi=none " +
		"--quiet --mem=101M --job-name=a 7 --chdir=/tmp -- prog --flag\n"
	if !strings.HasSuffix(f.calls(), want) {
		t.Errorf("calls:\n%swant at the end:\n%s", f.calls(), want)
	}
}

func TestStepsAreThoseOfTheAllocation(t *testing.T) {
	f := newFake(t)
	a, err := Attach(t.Context(), "1")
	must(t, err)
	f.says("squeue-steps", "1.0|v1|a|b\n1.12|v2|gantry-7\n11.0|v3|other\n", "", 0)
	got, err := a.Steps(t.Context())
	if want := []Step{{"1.0", "a|b", "v1"}, {"1.12", "gantry-7", "v2"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("steps %v, %v, want %v", got, err, want)
	}
	f.says("squeue-steps", "", "slurm_load_job_steps error: Invalid job id specified\n", 1)
	if got, err := a.Steps(t.Context()); err != nil || got != nil {
		t.Errorf("steps of a job that has ended: %v, %v", got, err)
	}
	// What 22.05 prints about a step that has ended, and as it kills one.
	f.says("scancel", "", "scancel: error: Kill job error on job step id 1: Invalid job id specified\n", 225)
	if err := a.CancelStep(t.Context(), "1.0", ""); err != nil {
		t.Errorf("cancel a step that has ended: %v", err)
	}
	f.says("scancel", "", "scancel: error: Kill job error on job step id 1: Access/permission denied\n", 225)
	if err := a.CancelStep(t.Context(), "1.0", "KILL"); err == nil {
		t.Error("a step that may not be cancelled: no error")
	}
	for _, id := range []string{"1", "2.0", "", "1."} {
		if err := a.CancelStep(t.Context(), id, ""); err == nil {
			t.Errorf("cancel %q: no error", id)
		}
	}
}

func TestOddAnswersAreErrors(t *testing.T) {
	uid := os.Getuid()
	for name, setUp := range map[string]func(fake){
		"few fields":   func(f fake) { f.says("squeue", "1|RUNNING\n", "", 0) },
		"option":       func(f fake) { f.says("squeue", fmt.Sprintf("1|RUNNING|%d|--help|None\n", uid), "", 0) },
		"sinfo":        func(f fake) { f.says("sinfo", "v1 allocated\n", "", 0) },
		"cores":        func(f fake) { f.says("sinfo", "v1|idle|many|4000\n", "", 0) },
		"memory":       func(f fake) { f.says("sinfo", "v1|idle|2|-4000\n", "", 0) },
		"large memory": func(f fake) { f.says("sinfo", "v1|idle|2|99999999999999999999\n", "", 0) },
	} {
		f := newFake(t)
		setUp(f)
		if a, err := Attach(t.Context(), "1"); err == nil {
			t.Errorf("%s: no error, nodes %v", name, a.Nodes())
		}
	}
	for _, id := range []string{"", "0", "-1", "1;2", "1.0", "12345678901"} {
		if _, err := Attach(t.Context(), id); err == nil {
			t.Errorf("allocation %q: no error", id)
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
