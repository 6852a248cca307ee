package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/stage"
	"gantry/executor/sim/calibrate"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/trace/scenario"
)

// Calibration says how a host is measured.
type Calibration struct {
	Quick bool                             // less is measured
	Busy  bool                             // the model of a busy host is kept, too
	Step  func(doing string, done float64) // hears of the next step; nil: none is reported
}

// Calibrate measures this host and keeps the model in the log below home.
func Calibrate(ctx context.Context, home string, host hostmodel.Host, o Calibration) (*hostmodel.Model,
	*sqlite.HostModel, error) {
	s := New(&Settings{Runtime: host.Runtime, Seed: 1, Starts: executor.Starts(host.Cores),
		Cluster: &scenario.Cluster{}}, Options{Home: home, View: term.New(true)})
	defer s.Close()
	if err := s.OpenLog(sqlite.Durable); err != nil { // also to find out now that it cannot be stored
		return nil, nil, err
	}
	m, err := s.calibrated(ctx, host, o)
	if err != nil {
		return nil, nil, err
	}
	if all := m.Measured.Warnings; len(all) > 0 && !o.Busy {
		return nil, nil, exit.Hostf("the model is not stored, as the host was busy: %s; end other programs and "+
			"calibrate again, or store it with --force", strings.Join(all, "; "))
	}
	row, err := KeepHostModel(ctx, s.DB, m)
	return m, row, err
}

// calibrated measures this host, and corrects the model by sample runs, in a directory of its own, which is gone
// afterwards.
func (s *Session) calibrated(ctx context.Context, host hostmodel.Host, o Calibration) (m *hostmodel.Model, err error) {
	before, err := earlierHostModels(ctx, s.DB, &host)
	if err != nil {
		return nil, err
	}
	if s.Dir, err = os.MkdirTemp(s.Home, "calibrate-"); err != nil {
		return nil, exit.Hostf("directory to measure in: %w (choose another --dir)", err)
	}
	s.Name = filepath.Base(s.Dir)
	release, err := holdTrial(s.Dir, host.Runtime)
	defer func() {
		release()
		if err != nil { // containers that have succeeded are kept for a resume that never comes
			for home, run := range map[string]string{s.Home: s.Name, s.Dir: ""} {
				_, e := CleanRuns(context.WithoutCancel(ctx), home, run, []string{host.Runtime}, true)
				if !errors.Is(e, container.ErrUnusable) { // which err says
					err = errors.Join(err, e)
				}
			}
		}
		if e := os.RemoveAll(s.Dir); e != nil {
			err = errors.Join(err, exit.With(exit.Host, e))
		}
	}()
	if err == nil {
		m, err = s.measureHost(ctx, host, before, o)
	}
	if err != nil {
		return nil, err
	}
	if o.Step != nil {
		o.Step("sample runs", calibrate.MeasureShare)
	}
	begun := time.Now()
	err = correct(ctx, o.Quick, m, before, s.Dir)
	m.Measured.TookNanos += int64(time.Since(begun))
	return m, err
}

// trialMark is a file that only directories of calibrations and of gantry doctor have: it names the runtime.
const trialMark = ".trial"

// holdTrial marks a directory. Gantry clean removes one with the mark that nobody holds.
func holdTrial(dir, runtime string) (release func(), err error) {
	locks, err := hold(dir, filepath.Base(dir))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, trialMark), []byte(runtime), 0o644)
	}
	return func() {
		for _, f := range locks {
			f.Close()
		}
	}, err
}

// Probe tries the limits of this host with containers of a runtime, of which none is left.
func (r *Runtime) Probe(ctx context.Context, home, taskBinary string) ([]container.Fact, error) {
	run, release := "", func() {}
	facts, err := container.Probe(ctx, func(runDir string) (_ container.Engine, err error) {
		run = filepath.Base(runDir)
		if release, err = holdTrial(runDir, r.Name); err != nil {
			return nil, err
		}
		return r.Engine(ctx, EngineWants{Dirs: []string{runDir}, Binary: taskBinary})
	}, home, taskBinary)
	release()
	if err != nil && run != "" {
		_, e := CleanRuns(context.WithoutCancel(ctx), home, run, []string{r.Name}, true)
		if !errors.Is(e, container.ErrUnusable) { // which err says
			err = errors.Join(err, e)
		}
	}
	return facts, err
}

// EngineCPU is the CPU time that the Docker Engine has used since it began.
func EngineCPU() time.Duration {
	return calibrate.ProgramsCPU("dockerd", "containerd", "containerd-shim")
}

// measureHost runs the measurements in the run directory of the session.
func (s *Session) measureHost(ctx context.Context, host hostmodel.Host, before []*hostmodel.Model, with Calibration) (
	m *hostmodel.Model, err error) {
	node := planner.Node{Name: "host", Speed: 1, Capacity: unit.Vector{unit.CPU: int64(host.Cores) * 1000,
		unit.Memory: unit.Unlimited, unit.Disk: unit.Unlimited}}
	far := node
	far.Name = "far"
	s.Platform = &planner.Platform{Nodes: []planner.Node{node, far}, Groups: []string{""},
		Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}
	lab := &calibrate.Lab{Dir: s.Dir}
	scratch, err := sqlite.Open(filepath.Join(s.Dir, "scratch.sqlite"), sqlite.Durable)
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	defer scratch.Close()
	// A transaction of about the size of one that orders a start.
	lab.Commit = func(ctx context.Context) error {
		return scratch.KeepHostModel(ctx, &sqlite.HostModel{Created: time.Now(), Model: make([]byte, 2000)})
	}
	rt, err := s.openRuntime(ctx, opening{origin: time.Now(), milestone: lab.Mark})
	if err != nil {
		return nil, err
	}
	lab.Runtime = rt
	defer func() {
		if r, ok := rt.(executor.Remote); ok {
			r.Discard()
		}
		if e := rt.Close(); e != nil && !errors.Is(ctx.Err(), context.Canceled) {
			err = errors.Join(err, exit.With(exit.Host, e))
		}
	}()
	o := calibrate.Options{Host: host, Starts: s.Set.Starts, Quick: with.Quick, Before: before, Engine: EngineCPU,
		Step: with.Step}
	m, err = calibrate.Measure(ctx, lab, o)
	return m, exit.Or(exit.Host, err)
}

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
		if err := w.Write(path, 10_000_000); err != nil {
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
	log, err := readLog(home)
	if err != nil {
		return err
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
	return exit.Or(exit.Host, calibrate.Correct(m, before, runs))
}

// settle waits until the measurements leave nothing behind: files that are still written back, and containers that are
// removed, make starts slower than users meet them.
func settle(ctx context.Context) {
	syscall.Sync()
	_ = stage.Sleep(ctx, 3*time.Second)
}

// sampleRun reads a sample run from its log.
func sampleRun(ctx context.Context, log *sqlite.DB, name string) (*calibrate.SampleRun, error) {
	again, err := readRerun(ctx, log, name)
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
		p, w, err := again.plan(ctx, "")
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
