package docker_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/emulate"
	"gantry/planner"
	"gantry/planner/unit"
)

// keeps makes a launch one that can leave a checkpoint of that many bytes.
func keeps(size unit.Bytes) func(*executor.Launch) {
	return func(l *executor.Launch) { l.Keeps = &executor.Keeping{Size: size} }
}

// goesOn makes a launch the second try of a task on node n, from the checkpoint that the first left on node 0.
func goesOn(x *planner.AttemptExited, n planner.NodeID, size unit.Bytes) func(*executor.Launch) {
	return func(l *executor.Launch) {
		l.Try, l.Node, l.Keeps = 2, n, &executor.Keeping{Size: size}
		l.From = &executor.Checkpoint{Try: 1, Done: x.Kept, In: x.Ran, Size: size}
	}
}

// one is the container of the run that is there, by somebody else's engine.
func (r *rig) one() (e container.Engine, id string) {
	r.t.Helper()
	e = r.engine()
	r.t.Cleanup(func() { e.Close() })
	all, err := e.List(r.ctx, container.LabelRun, r.config.Run)
	r.must(err)
	if len(all) != 1 {
		r.t.Fatalf("%d containers", len(all))
	}
	return e, all[0].ID
}

// used is the CPU time of a process, in hundredths of a second.
func used(t *testing.T, pid int) (ticks int64) {
	t.Helper()
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	fmt.Sscan(string(children), &pid) // the program that the launcher began
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	var user, system int64
	fmt.Sscan(f[11], &user)
	fmt.Sscan(f[12], &system)
	return user + system
}

func cpu(x *planner.AttemptExited) time.Duration { return x.Usage.CPUUser + x.Usage.CPUSystem }

// Programs that have used up the quota of a period cannot come to be frozen in that period.
func TestTasksOfSmallQuotasAreFrozen(t *testing.T) {
	if onOne(t, TestTasksOfSmallQuotasAreFrozen) {
		return
	}
	r := newRig(t, nil)
	quota := int64(30)
	if emulatedProcessor {
		quota = 300 // with less, starting the program takes minutes
	}
	var all []planner.AttemptID
	for range 4 {
		s := r.emulated()
		s.Run, s.Cores = time.Minute, 4
		all = append(all, r.launch(s, func(l *executor.Launch) { l.Hold[unit.CPU] = quota }))
	}
	for _, a := range all {
		r.started(a)
	}
	time.Sleep(300 * time.Millisecond) // they compute
	for _, a := range all {
		r.must(r.Suspend(r.ctx, a))
	}
	for _, a := range all {
		r.until(func(b planner.Body) bool { return b == planner.AttemptSuspended{Attempt: a} })
		r.must(r.Kill(r.ctx, a, planner.Preempted, 0))
		r.exit(a)
	}
}

func TestACheckpointedTaskGoesOnOnAnotherNode(t *testing.T) {
	if onOne(t, TestACheckpointedTaskGoesOnOnAnotherNode) {
		return
	}
	const size, outputs, bytesEach = 100_000, 20, 20_001
	r := newRig(t, func(c *container.Config) {
		twoNodes(c)
		c.Platform.Join(0, 1, 400_000, 100*time.Millisecond)
		c.IO = []container.IOLimits{{WriteBps: 400_000}, {WriteBps: 400_000}} // so that writing takes a while
	})
	task := func(name string, run time.Duration) *executor.TaskSpec {
		s := r.emulated()
		s.Name, s.Run, s.Memory = name, run, 8<<20
		for i := range outputs {
			f := r.file(fmt.Sprint("out", i))
			f.Size, f.Sized = bytesEach, true
			s.Outputs = append(s.Outputs, f)
		}
		return s
	}
	enough := int64(20) // hundredths of a second of computing, before which it may not listen yet
	if emulatedProcessor {
		enough = 1000
	}
	for _, c := range []struct {
		name string
		ripe func(pid int, dir string) bool // it may be stopped
		run  time.Duration
		more bool // several outputs are there
	}{
		{"computing", func(pid int, _ string) bool {
			return used(t, pid) >= enough
		}, time.Second, false},
		{"writing", func(_ int, dir string) bool {
			_, err := os.Lstat(filepath.Join(dir, "out4"))
			return err == nil
		}, 200 * time.Millisecond, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			most, grace := c.run+400*time.Millisecond, 10*time.Second
			if emulatedProcessor { // it takes seconds to start a program, or to look whether it may be stopped
				c.run *= 60
				most, grace = 2*c.run+time.Minute, time.Minute
			}
			s := task(c.name, c.run)
			a := r.launch(s, keeps(size))
			r.started(a)
			e, id := r.one()
			now, err := e.Inspect(r.ctx, id)
			r.must(err)
			for !c.ripe(now.Pid, r.work(s)) {
				time.Sleep(time.Millisecond)
			}
			r.must(r.Checkpoint(r.ctx, a, grace))
			first := r.exit(a)
			r.wants(first, planner.Preempted, "left a checkpoint")
			b := r.launch(s, goesOn(first, 1, size))
			second := r.exit(b)
			r.wants(second, planner.OK)
			if all := cpu(first) + cpu(second); all < c.run-100*time.Millisecond || all > most {
				t.Errorf("asked for %v of CPU time, %v and %v were used", c.run, cpu(first), cpu(second))
			}
			copied := int64(second.Usage.MovedBytes) - size
			if copied < 0 || copied%bytesEach != 0 || c.more && copied < 4*bytesEach {
				t.Errorf("%d bytes were copied besides the checkpoint", copied)
			}
			least := 100*time.Millisecond + time.Duration(float64(second.Usage.MovedBytes)/400_000*1e9)
			if took := second.Usage.Staged.Sub(second.Usage.Queued); took < least {
				t.Errorf("%d bytes came in %v: faster than the link", second.Usage.MovedBytes, took)
			}
			rep, err := emulate.ReadReport(r.work(s)[:len(r.work(s))-1] + "2")
			if err != nil || rep.Attempts != 2 || rep.Write.Achieved != outputs*bytesEach || len(rep.Misses) > 0 {
				t.Errorf("report %+v, %v", rep, err)
			}
			var got []string
			for i := range outputs {
				got = append(got, r.read(r.node(1, fmt.Sprint("out", i))))
			}
			if !c.more {
				return
			}
			r.exit(r.launch(s, func(l *executor.Launch) { l.Try, l.Node = 3, 0 })) // without a stop
			for i := range outputs {
				if r.read(r.node(0, fmt.Sprint("out", i))) != got[i] {
					t.Fatalf("out%d differs from that of a task that was not stopped", i)
				}
			}
		})
	}
}

func TestACheckpointThatIsNotLeftInTimeLosesTheWork(t *testing.T) {
	if onOne(t, TestACheckpointThatIsNotLeftInTimeLosesTheWork) {
		return
	}
	r := newRig(t, nil)
	s := r.emulated()
	s.Run = 20 * time.Second
	a := r.launch(s, keeps(1<<30))
	r.started(a)
	r.must(r.Checkpoint(r.ctx, a, 20*time.Millisecond))
	x := r.exit(a)
	r.wants(x, planner.Preempted, "is lost", "within the grace time of 20ms")
	if x.Kept != 0 {
		t.Errorf("kept %v", x.Kept)
	}
}

func TestATaskWhoseCheckpointIsGoneBeginsAnew(t *testing.T) {
	if onOne(t, TestATaskWhoseCheckpointIsGoneBeginsAnew) {
		return
	}
	r := newRig(t, nil)
	s := r.emulated()
	s.Run = time.Minute // far from its end when it is stopped
	a := r.launch(s, keeps(0))
	r.started(a)
	e, id := r.one()
	now, err := e.Inspect(r.ctx, id)
	r.must(err)
	waitFor(t, func() bool { return used(t, now.Pid) > 10 })
	r.must(r.Checkpoint(r.ctx, a, time.Minute))
	first := r.exit(a)
	r.wants(first, planner.Preempted, "left a checkpoint")
	r.must(os.WriteFile(filepath.Join(r.work(s), emulate.CheckpointFile), []byte("damaged"), 0o644))
	again := *s
	again.Run = 500 * time.Millisecond
	s = &again
	x := r.exit(r.launch(s, goesOn(first, 0, 0)))
	r.wants(x, planner.OK)
	if cpu(x) < 450*time.Millisecond {
		t.Errorf("%v of CPU time: it did not begin again", cpu(x))
	}
	if !strings.Contains(r.warned["checkpoint"], "starts from the beginning") {
		t.Errorf("warnings %q", r.warned)
	}
}

// Gantry dies between the signal and its note of the end: the program was not killed by anybody else.
func TestAPreemptionOutlivesGantry(t *testing.T) {
	if onOne(t, TestAPreemptionOutlivesGantry) {
		return
	}
	for _, how := range []planner.Vacate{planner.Requeue, planner.Checkpoint} {
		r := newRig(t, nil)
		s := r.sh("touch ready; sleep 300")
		l := r.launched(s)
		l.Leaving = how
		r.made(s, "ready") // before the launcher's claim, crun does not say that a signal ended it
		e, id := r.one()
		r.must(r.Close())
		r.must(e.Signal(r.ctx, id, "SIGKILL"))
		n := r.successor(l)
		n.must(n.Kill(n.ctx, l.Attempt, planner.Preempted, time.Second)) // as the engine repeats what it ordered
		n.wants(n.exit(l.Attempt), planner.Preempted)
	}
}

// Gantry dies between the signal and the checkpoint, and between the checkpoint and its note of it.
func TestACheckpointOutlivesGantry(t *testing.T) {
	if onOne(t, TestACheckpointOutlivesGantry) {
		return
	}
	for _, left := range []bool{false, true} {
		r := newRig(t, nil)
		s := r.emulated()
		s.Run = 20 * time.Second
		var l executor.Launch
		a := r.launch(s, func(x *executor.Launch) { keeps(1000)(x); l = *x })
		l.Keeps = &executor.Keeping{Size: 1000}
		r.started(a)
		l.Started, l.Leaving = true, planner.Checkpoint
		e, id := r.one()
		now, err := e.Inspect(r.ctx, id)
		r.must(err)
		waitFor(t, func() bool { return used(t, now.Pid) > 5 }) // it computes
		r.must(r.Close())
		if left {
			r.must(e.Signal(r.ctx, id, "SIGTERM"))
			r.allExited(1)
		}
		n := r.successor(l)
		n.must(n.Checkpoint(n.ctx, a, 10*time.Second)) // as the engine repeats what it ordered
		x := n.exit(a)
		n.wants(x, planner.Preempted, "left a checkpoint")
		if x.Kept <= 0 || x.Kept > 0.5 {
			t.Errorf("kept %v", x.Kept)
		}
	}
}
