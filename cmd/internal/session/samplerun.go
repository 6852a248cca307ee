package session

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/executor/sim/calibrate"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/sqlite"
)

// A node of a core and one of half a core: where the work of starting counts against a limit, it takes longer there.
const sampleCluster = `name: samples
nodes:
  - {name: whole, cores: 1, speed: 1, memory: 500MB}
  - {name: half, cores: 1, speed: 0.5, memory: 500MB}
`

// correct runs the sample workflows with the engine and in processes of their own, as users do, and corrects the model
// by their times.
func correct(ctx context.Context, quick bool, m *hostmodel.Model, before []*hostmodel.Model, home string) error {
	model, cluster := filepath.Join(home, "model.json"), filepath.Join(home, "cluster.yaml")
	text, err := m.Encode()
	if err == nil {
		err = os.WriteFile(model, text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(cluster, []byte(sampleCluster), 0o600)
	}
	if err != nil {
		return exit.With(exit.Host, err)
	}
	settle(ctx)
	var names []string
	var busy []float64
	for _, w := range calibrate.SampleWorkflows(quick) {
		path := filepath.Join(home, w.Name+".json")
		text, err := w.WfFormat(10_000_000, func(t *calibrate.SampleTask) int64 {
			if len(t.After) > 0 {
				return 0
			}
			return t.Bytes
		})
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			return exit.With(exit.Host, err)
		}
		busy = append(busy, calibrate.Others(ctx, EngineCPU))
		cmd := exec.CommandContext(ctx, "/proc/self/exe", "run", "--quiet", "--no-prediction",
			"--runtime", m.Host.Runtime, "--dir", home, "--name", w.Name, "--policy", w.Policy, "--cluster", cluster,
			"--oversubscribe", "--estimator", "declared", "--host-model", model, path)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = time.Minute
		if out, err := cmd.CombinedOutput(); err != nil {
			return exit.Hostf("run the sample workflow %s: %w: %s", w.Name, err, bytes.TrimSpace(out))
		}
		names = append(names, w.Name)
	}
	log, err := sqlite.Open(filepath.Join(home, sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return exit.With(exit.Host, err)
	}
	defer log.Close()
	var runs []calibrate.SampleRun
	for i, name := range names {
		r, err := sampleRun(ctx, log, name)
		if err != nil {
			return exit.With(exit.Host, err)
		}
		r.Busy = busy[i]
		runs = append(runs, *r)
	}
	if err := calibrate.Correct(m, before, runs); err != nil {
		return exit.With(exit.Host, err)
	}
	return nil
}

// settle waits until the measurements leave nothing behind: files that are still written back, and containers that are
// removed, make starts slower than users meet them.
func settle(ctx context.Context) {
	syscall.Sync()
	select {
	case <-ctx.Done():
	case <-time.After(3 * time.Second):
	}
}

// sampleRun reads a sample run from its log.
func sampleRun(ctx context.Context, log *sqlite.DB, name string) (*calibrate.SampleRun, error) {
	info, err := log.Info(ctx, name)
	if err != nil {
		return nil, err
	}
	all, err := happened(ctx, log, name)
	if err != nil {
		return nil, err
	}
	r := &calibrate.SampleRun{Name: name, Courses: map[string]calibrate.Course{}}
	for k, h := range all {
		at := calibrate.Course{Queued: h.Queued, Node: h.Node}
		at.Staged = at.Queued + h.Staging
		at.Started = at.Staged + h.Start
		at.Ended = at.Started + h.Run
		at.Over = at.Ended + h.End
		r.Courses[k.Task] = at
	}
	r.Simulate = func(m *hostmodel.Model) (map[string]calibrate.Course, error) {
		p, err := planningOf(ctx, log, &info, "")
		if err != nil {
			return nil, err
		}
		w, err := p.repeat(ctx, log, &info)
		if err != nil {
			return nil, err
		}
		p.ideal, p.measured, p.Set.Host = false, nil, m
		course, err := w.course(ctx, p.simulation(0))
		if err != nil {
			return nil, fmt.Errorf("simulate the sample run %s: %w", name, err)
		}
		out := map[string]calibrate.Course{}
		for i := range course.Attempts {
			a := &course.Attempts[i]
			if a.Outcome == planner.OK {
				out[a.Task.Name] = calibrate.Course{Queued: time.Duration(a.Queued), Staged: time.Duration(a.Staged),
					Started: time.Duration(a.Started), Ended: time.Duration(a.Ended), Over: time.Duration(a.Over),
					Node: p.Platform.Nodes[a.Node].Name}
			}
		}
		return out, nil
	}
	return r, nil
}
