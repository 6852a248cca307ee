package slurm_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/container/slurm"
	"gantry/executor/container/slurm/allocation"
	"gantry/executor/container/slurm/slurmtest"
	"gantry/planner"
	"gantry/planner/unit"
)

// held is a task that notes each beginning of it, and ends when release is called.
func (r *rig) held() *executor.TaskSpec {
	return r.sh(": " + r.word() + "; echo began >>" + r.notes() + "; until [ -e released ]; do sleep 0.1; done")
}

// word is one in the command lines of held tasks of this rig alone.
func (r *rig) word() string { return "held-in-" + r.config.Run }

// notes is a file outside of the work directories, which all tries append to.
func (r *rig) notes() string { return "began" }

func (r *rig) release(t *executor.TaskSpec) {
	r.t.Helper()
	r.must(os.WriteFile(filepath.Join(r.work(t), "released"), nil, 0o644))
}

// begun is how often the program of the first try has begun.
func (r *rig) begun(t *executor.TaskSpec) int {
	text, _ := os.ReadFile(filepath.Join(r.work(t), r.notes()))
	return strings.Count(string(text), "began\n")
}

// untilBegun waits until the program of a task runs.
func (r *rig) untilBegun(t *executor.TaskSpec) {
	r.t.Helper()
	slurmtest.Eventually(r.t, "the program of "+t.Name, func() bool { return r.begun(t) > 0 })
}

// again ends the runtime, as far as nodes know, and opens another one that recovers the launches.
func (r *rig) again(live ...executor.Launch) {
	r.t.Helper()
	r.must(r.Close())
	r.seen = nil
	r.open()
	r.must(r.Runtime.(executor.Recoverer).Recover(r.t.Context(), live))
}

// step is the number of the job step that runs, which is the only one.
func (s *site) step(t *testing.T) (id string) {
	t.Helper()
	slurmtest.Eventually(t, "one job step", func() bool {
		steps, err := s.allocation.Steps(t.Context())
		if err != nil || len(steps) != 1 {
			return false
		}
		id = steps[0].ID
		return true
	})
	return id
}

func TestRecovery(t *testing.T) {
	for _, runtime := range []string{"oci", "docker"} {
		t.Run(runtime, func(t *testing.T) {
			slurmtest.Long(t)
			s := newSite(t, runtime)
			t.Run("what runs is adopted, what has ended is read, nothing runs twice", func(t *testing.T) {
				r := s.newRig(t)
				running, ended := r.launch(1, r.held()), r.launch(2, r.held())
				r.untilBegun(running.Spec)
				r.untilBegun(ended.Spec)
				r.must(r.Close())
				r.release(ended.Spec)
				slurmtest.Eventually(t, "the end of a step", func() bool {
					steps, err := s.allocation.Steps(t.Context())
					return err == nil && len(steps) == 1
				})
				running.Started, ended.Started = true, true
				r.again(running, ended)
				x := r.exit(ended)
				r.wants(x, planner.OK)
				r.release(running.Spec)
				y := r.exit(running)
				r.wants(y, planner.OK)
				if n, m := r.begun(running.Spec), r.begun(ended.Spec); n != 1 || m != 1 {
					t.Errorf("the programs began %d times and %d times", n, m)
				}
				if x.Usage.Missing != 0 || y.Usage.Missing != 0 {
					t.Errorf("counters are missing: %v, %v", x.Usage.Missing, y.Usage.Missing)
				}
			})
			t.Run("what was adopted can be frozen and killed", func(t *testing.T) {
				r := s.newRig(t)
				l := r.launch(0, r.held())
				r.untilBegun(l.Spec)
				l.Started = true
				r.again(l)
				r.must(r.Suspend(t.Context(), l.Attempt))
				r.until(func(b planner.Body) bool { return b == planner.AttemptSuspended{Attempt: l.Attempt} })
				r.must(r.Resume(t.Context(), l.Attempt))
				r.until(func(b planner.Body) bool { return b == planner.AttemptResumed{Attempt: l.Attempt} })
				r.must(r.Kill(t.Context(), l.Attempt, planner.Killed, 0))
				r.wants(r.exit(l), planner.Killed)
			})
			t.Run("srun and gantry killed", func(t *testing.T) {
				r := s.newRig(t)
				l := r.launch(0, r.held())
				r.untilBegun(l.Spec)
				killSruns(t, r.config.Dir)
				l.Started = true
				r.again(l)
				r.release(l.Spec)
				r.wants(r.exit(l), planner.OK)
			})
		})
	}
}

// killSruns kills the sruns of a run: those that watch over others first, which else have Slurm end the step.
func killSruns(t *testing.T, dir string) {
	t.Helper()
	all := processes("srun\x00", dir+"\x00")
	if len(all) == 0 {
		t.Fatal("there is no srun")
	}
	for _, pid := range slices.Backward(all) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// endProgramFirst sends SIGTERM to a program, which has that word in its command line, before cancel lets Slurm send
// it to gantry's own process of the step, as Slurm itself may: it goes from one process to the next.
func endProgramFirst(r *rig, word string, cancel func()) {
	r.t.Helper()
	nodes := processes(r.site.program+"\x00slurm-node\x00", r.config.Dir+"\x00")
	if len(nodes) != 1 {
		r.t.Fatalf("gantry's process of the step is one of %v", nodes)
	}
	r.must(syscall.Kill(nodes[0], syscall.SIGSTOP))
	for _, pid := range processes("", word) { // launcher and program
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	slurmtest.Eventually(r.t, "the end of the program", func() bool { return len(processes("", word)) == 0 })
	cancel()
	slurmtest.Eventually(r.t, "Slurm's signal", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", nodes[0]))
		return err != nil || !strings.Contains(string(status), "State:\tT") ||
			strings.Contains(string(status), "ShdPnd:\t0000000000004")
	})
	_ = syscall.Kill(nodes[0], syscall.SIGCONT)
}

// What a killed step has left is ended before its task can be tried again, also where gantry was away meanwhile.
func TestKilledStepLeavesNothing(t *testing.T) {
	for _, runtime := range []string{"oci", "docker"} {
		t.Run(runtime, func(t *testing.T) {
			slurmtest.Long(t)
			s := newSite(t, runtime)
			for _, away := range []bool{false, true} {
				r := s.newRig(t)
				token := fmt.Sprintf("left-by-%s-%v-%d", runtime, away, os.Getpid())
				l := r.launch(0, r.sh(": "+token+"; echo began >>"+r.notes()+"; sleep 300; :"))
				r.untilBegun(l.Spec)
				if len(processes("", token)) == 0 {
					t.Fatal("the program is not found")
				}
				id := s.step(t)
				if away {
					r.must(r.Close())
				}
				s.Command(t, "scancel", "--signal=KILL", id)
				slurmtest.Eventually(t, "the end of the step", func() bool {
					steps, err := s.allocation.Steps(t.Context())
					return err == nil && !slices.ContainsFunc(steps, func(x allocation.Step) bool { return x.ID == id })
				})
				if away {
					l.Started = true
					r.again(l)
				}
				r.wants(r.exit(l), planner.Lost)
				if n := len(processes("", token)); n > 0 {
					t.Errorf("gantry away %v: the attempt is lost, and %d processes of it go on", away, n)
				}
			}
		})
	}
}

// processes are those of this host whose command line begins like this and has a word.
func processes(begin, word string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		text, err := os.ReadFile(path)
		pid, bad := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && bad == nil && strings.HasPrefix(string(text), begin) && strings.Contains(string(text), word) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

func TestFaults(t *testing.T) {
	slurmtest.Long(t)
	s := newSite(t, "oci")
	t.Run("srun killed", func(t *testing.T) {
		r := s.newRig(t)
		l := r.launch(0, r.held())
		r.untilBegun(l.Spec)
		killSruns(t, r.config.Dir)
		r.release(l.Spec)
		r.wants(r.exit(l), planner.OK)
	})
	for _, how := range []string{"--verbose", "--signal=KILL"} { // all signals, one after the other, or this one
		t.Run("a step that somebody ends is lost, scancel "+how, func(t *testing.T) {
			r := s.newRig(t)
			l := r.launch(0, r.held())
			r.untilBegun(l.Spec)
			s.Command(t, "scancel", how, s.step(t))
			r.wants(r.exit(l), planner.Lost, "step")
		})
	}
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("a step that ends after its program is lost, gantry away %v", away), func(t *testing.T) {
			r := s.newRig(t)
			l := r.launch(0, r.held())
			r.untilBegun(l.Spec)
			id := s.step(t)
			if away {
				r.must(r.Close())
			}
			endProgramFirst(r, r.word(), func() { s.Command(t, "scancel", id) })
			if away {
				slurmtest.Eventually(t, "the end of the step", func() bool {
					steps, err := s.allocation.Steps(t.Context())
					return err == nil && len(steps) == 0
				})
				l.Started = true
				r.again(l)
			}
			r.wants(r.exit(l), planner.Lost, "step")
		})
	}
	t.Run("a node that is set down is lost, with what runs there", func(t *testing.T) {
		r := s.newRig(t)
		l, m := r.launch(3, r.held()), r.launch(2, r.held())
		r.untilBegun(l.Spec)
		r.untilBegun(m.Spec)
		s.SetDown(t, s.Nodes[3])
		r.wants(r.exit(l), planner.Lost, s.Nodes[3])
		r.until(func(b planner.Body) bool { return b == planner.NodeChanged{Node: 3, Capacity: unit.Vector{}} })
		r.release(m.Spec)
		r.wants(r.exit(m), planner.OK)
	})
	t.Run("an allocation that ends", func(t *testing.T) {
		r := s.newRig(t)
		l := r.launch(0, r.held())
		r.untilBegun(l.Spec)
		s.Command(t, "scancel", s.allocation.ID())
		for {
			bodies, err := r.Next(t.Context(), r.Now().Add(time.Minute))
			if errors.Is(err, slurm.ErrOver) {
				break
			}
			r.must(err)
			for _, b := range bodies {
				if x, ok := b.(*planner.AttemptExited); ok {
					t.Fatalf("the attempt ended as %v: %s", x.Outcome, x.Message)
				}
			}
		}
		r.must(r.Close())
		for _, node := range s.Nodes {
			if s.Command(t, "sinfo", "-h", "-n", node, "-o", "%T") == "down" {
				s.Resume(t, node)
			}
		}
		s.request(t)
		l.Started = true
		r.again(l)
		r.wants(r.exit(l), planner.Lost)
	})
}

// A task whose steps are lost again and again, on a node that is up, is not tried for ever.
func TestLostAgainAndAgain(t *testing.T) {
	slurmtest.Long(t)
	s := newSite(t, "oci")
	broken := filepath.Join(s.dir, "broken")
	script := "#!/bin/sh\ncase $* in *--clear*) exit;; esac\necho no directory here >&2\nexit 7\n"
	if err := os.WriteFile(broken, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	good := s.program
	s.program = broken
	r := s.newRig(t)
	task, begun := r.sh("true"), time.Now()
	for try := 1; ; try++ {
		x := r.exit(r.launch(try%len(s.Nodes), task))
		r.wants(x, planner.Lost, "job step on node ")
		if x.Final {
			r.wants(x, planner.Lost, fmt.Sprintf("the %d. job step of this task in a row", try), "not tried again")
			if took := time.Since(begun); try < 5 || took < 30*time.Second {
				t.Errorf("given up after %d tries and %v", try, took)
			}
			break
		}
		if try == 100 {
			t.Fatal("100 tries")
		}
	}
	if x := r.exit(r.launch(0, r.sh("true"))); x.Final {
		t.Errorf("another task is given up, too: %s", x.Message)
	}
	s.program = good
	r = s.newRig(t)
	r.wants(r.exit(r.launch(0, r.sh("true"))), planner.OK)
}

// Slurm restarted while steps run, and while they are to start.
func TestRestartedController(t *testing.T) {
	slurmtest.Long(t)
	s := newSite(t, "oci")
	r := s.newRig(t)
	l := r.launch(0, r.held())
	r.untilBegun(l.Spec)
	s.Command(t, "scontrol", "shutdown", "slurmctld")
	slurmtest.Eventually(t, "the end of slurmctld", func() bool {
		return exec.Command("scontrol", "ping").Run() != nil
	})
	m := r.launch(1, r.sh("true"))
	s.StartController(t)
	r.wants(r.exit(m), planner.OK)
	r.release(l.Spec)
	r.wants(r.exit(l), planner.OK)
}
