package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	release "gantry"

	"gantry/cgroup"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/container/fetch"
	"gantry/executor/container/oci"
	"gantry/executor/container/oci/image"
	"gantry/executor/container/slurm"
	"gantry/executor/null"
	"gantry/executor/reuse"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// opening is what a runtime of a run needs to know.
type opening struct {
	origin   time.Time // wall clock at offset
	offset   planner.Time
	emulated bool // a task is emulated
	// milestone receives what attempts have come to, if it is set and the runtime has containers.
	milestone func(planner.AttemptID, executor.Milestone)
}

// runtimeRow is a row of runtimes.
type runtimeRow struct {
	*executor.Capabilities
	open func(ctx context.Context, s *session, o opening) (executor.Runtime, error)
	// images makes images present, where the runtime looks for them; nil: it needs none
	images fetcher
	// load brings the image of an archive under a name to where the runtime looks for images, label asks for a label
	// of one; nil: they are in no place of this runtime
	load  func(ctx context.Context, ref string, archive *os.File) error
	label func(ctx context.Context, ref, label string) (string, error)
	// engine opens the engine that makes containers of runs in some directories; nil: it makes none
	engine openEngine
	// store says that images lie in gantry's own store
	store bool
	// facts are those of the host that the engine does not know; nil: none
	facts func(ctx context.Context) []container.Fact
	// cluster finds the nodes of a run, which are other hosts; nil: they are this host's
	cluster func(ctx context.Context, s *session) error
	// abandon ends what runs on other hosts of the run in a directory, and returns its names; nil: nothing does
	abandon func(ctx context.Context, dir string) ([]string, error)
	// enter gives this process the rights that the runtime takes, if it can; it may begin the process again. nil: none
	enter func() error
	// usable says why this host cannot use the runtime, nil if it can; entered or not. nil: opening the engine tells
	usable func(ctx context.Context) error
	// shell opens shells in containers like those of tasks; nil: there are none
	shell *sheller
}

// fetcher makes images present that a run wants.
type fetcher func(ctx context.Context, s *session, wanted []fetch.Wanted, show *term.Arrival) ([]fetch.Image, error)

type openEngine func(ctx context.Context, w engineWants) (container.Engine, error)

// engineWants is what an engine of containers needs to know.
type engineWants struct {
	dirs     []string // of runs
	binary   string   // the task emulator; "" if nothing is started
	emulated bool     // a task is emulated
	store    *image.Store
}

func dockerEngine(ctx context.Context, w engineWants) (container.Engine, error) {
	e, err := docker.Open(ctx, "", w.binary, 0)
	if err != nil {
		return nil, err
	}
	if w.emulated {
		if _, err := e.TaskImage(ctx); err != nil {
			e.Close()
			return nil, err
		}
	}
	return e, nil
}

func ociEngine(_ context.Context, w engineWants) (container.Engine, error) {
	cfg := oci.Config{Dirs: w.dirs, TaskBinary: w.binary}
	if w.store != nil {
		cfg.Images = w.store
	}
	return oci.Open(cfg)
}

// runtimes is the table of runtimes. Nothing else compares their names: to add one takes a row here, and a package with
// its Capabilities and the constructor.
var runtimes = []runtimeRow{
	{Capabilities: &docker.Capabilities, open: openContainers(dockerEngine), images: fetchDocker, engine: dockerEngine,
		load: loadDocker, label: labelDocker, shell: &dockerShells},
	{Capabilities: &oci.Capabilities, open: openContainers(ociEngine), images: fetchOCI, engine: ociEngine, store: true,
		load: loadStored, label: labelStored, facts: storeFacts, enter: oci.Enter, usable: oci.Usable,
		shell: &ociShells},
	{Capabilities: &slurm.Capabilities, open: openSlurm, images: fetchOnNodes, cluster: allocate,
		abandon: abandonSteps, shell: &dockerShells},
	{Capabilities: &null.Capabilities, open: func(_ context.Context, _ *session, o opening) (executor.Runtime, error) {
		return null.New(o.origin.Add(-time.Duration(o.offset))), nil
	}},
	{Capabilities: &sim.Capabilities, open: func(_ context.Context, s *session, o opening) (executor.Runtime, error) {
		return sim.For(s.simulation(o.offset)), nil
	}},
}

// The runtimes that commands take unless told otherwise, if this host has the first; see chosenRuntime.
var usualRuntime, simulation = &docker.Capabilities, &sim.Capabilities

// hostRuntime is a runtime of containers that this host can use: that one if it can, or else can use none.
func hostRuntime(ctx context.Context, preferred string) string {
	for _, name := range append([]string{preferred}, runtimeNames(makesContainers)...) {
		if row := rowOf(name); row != nil && row.engine != nil && row.isUsable(ctx) == nil {
			return name
		}
	}
	return preferred
}

// isUsable says why this host cannot use a runtime that makes containers; nil if it can.
func (r *runtimeRow) isUsable(ctx context.Context) error {
	if r.usable != nil {
		return r.usable(ctx)
	}
	e, err := r.engine(ctx, engineWants{})
	if err == nil {
		err = e.Close()
	}
	return err
}

// runtimeOf returns what a runtime of the log can do; one that this gantry does not know can do nothing.
func runtimeOf(name string) *executor.Capabilities {
	if r := rowOf(name); r != nil {
		return r.Capabilities
	}
	return &executor.Capabilities{Name: name}
}

// rowOf returns the row of a runtime, nil if this gantry does not have it.
func rowOf(name string) *runtimeRow {
	for i := range runtimes {
		if runtimes[i].Name == name {
			return &runtimes[i]
		}
	}
	return nil
}

// onNodes reports whether a runtime runs tasks on the nodes of a cluster.
func onNodes(runtime string) bool {
	row := rowOf(runtime)
	return row != nil && row.cluster != nil
}

// runtimeNames lists the runtimes that satisfy a condition.
func runtimeNames(which func(*executor.Capabilities) bool) (names []string) {
	for _, r := range runtimes {
		if which(r.Capabilities) {
			names = append(names, r.Name)
		}
	}
	return names
}

// realTime selects the runtimes of gantry run.
func realTime(c *executor.Capabilities) bool { return !c.Virtual }

func anyRuntime(*executor.Capabilities) bool { return true }

// enter gives this process the rights that a runtime takes, before it does anything else: it may begin again.
func enter(runtime string) error {
	if row := rowOf(runtime); row != nil && row.enter != nil {
		if err := row.enter(); err != nil {
			return exit.With(exit.Host, err)
		}
	}
	return nil
}

// openRuntime makes the runtime of the run.
func (s *session) openRuntime(ctx context.Context, o opening) (executor.Runtime, error) {
	row := rowOf(s.set.Runtime)
	if row == nil {
		return nil, exit.Inputf("run %s is on the %s runtime, which this gantry does not have", s.name,
			s.set.Runtime)
	}
	if err := s.keepImages(ctx); err != nil {
		return nil, exit.With(exit.Host, err)
	}
	if row.store && s.serving != nil { // its images come while it runs
		if err := s.openStore(); err != nil {
			return nil, exit.With(exit.Host, err)
		}
	}
	return row.open(ctx, s, o)
}

// taskBinary finds the task emulator.
func taskBinary(ctx context.Context) (string, error) {
	binary, err := docker.FindTaskBinary()
	if err == nil {
		err = docker.CheckTaskBinary(ctx, binary)
	}
	if err != nil {
		return "", exit.With(exit.Host, err)
	}
	return binary, nil
}

// openContainers makes the runtime of containers that an engine makes.
func openContainers(open openEngine) func(context.Context, *session, opening) (executor.Runtime, error) {
	return func(ctx context.Context, s *session, o opening) (executor.Runtime, error) {
		return newContainers(ctx, s, o, open)
	}
}

func newContainers(ctx context.Context, s *session, o opening, open openEngine) (executor.Runtime, error) {
	secrets, err := s.set.secrets()
	if err != nil {
		return nil, err
	}
	cfg := container.Config{Secrets: secrets, Run: s.name,
		Dir: s.dir, Platform: s.platform, Version: release.Build(), Seed: s.set.Seed,
		Starts: s.set.Starts, Ahead: s.set.Ahead, Grace: s.set.Grace, MaxOutput: s.set.MaxOutput, Disk: s.set.Disk,
		Tmp:   s.set.Tmp,
		Image: s.images.id, Origin: o.origin, Offset: o.offset, Strict: s.set.Strict}
	for _, n := range s.set.Cluster.Nodes {
		cfg.IO = append(cfg.IO, container.IOLimits{ReadBps: n.ReadBps, WriteBps: n.WriteBps, ReadIOPS: n.ReadIOPS,
			WriteIOPS: n.WriteIOPS})
	}
	cfg.Warn = func(rule, message string) {
		s.view.Warn("%s", message)
		if s.log != nil {
			if err := s.log.Warn(rule, message); err != nil {
				s.view.Warn("%v", err)
			}
		}
	}
	if s.log != nil {
		cfg.Sample = func(x container.Sample) {
			row := sqlite.Sample{Attempt: x.Attempt, At: x.At, CPU: x.CPU, Memory: unit.Bytes(x.Counters.Memory),
				Read: unit.Bytes(x.ReadBytes), Written: unit.Bytes(x.WrittenBytes)}
			for set, missing := range map[cgroup.Set]planner.Counters{cgroup.CPU: planner.CounterCPU,
				cgroup.Memory: planner.CounterMemory, cgroup.IO: planner.CounterIO} {
				if x.Got&set == 0 {
					row.Missing |= missing
				}
			}
			s.log.Sample(row)
		}
	}
	cfg.Milestone = o.milestone
	binary, err := taskBinary(ctx)
	if err != nil {
		return nil, err
	}
	cfg.TaskBinary = binary
	engine, err := open(ctx, engineWants{[]string{s.dir}, binary, o.emulated, s.store})
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	if s.log != nil {
		s.keeper = s.newKeeper()
		if s.upkeep == nil {
			s.upkeep = newUpkeep(s)
		}
		cfg.Published = s.upkeep.published
		if len(secrets) == 0 { // else the identity of a task alone says too little
			s.log.Identify()
		} else if s.keeper.Secrets, err = reuse.SecretSums(filepath.Join(s.home, "secrets.key"), giveToCaller,
			secrets); err != nil && s.set.Reuse { // else nothing is compared, now or later
			return nil, exit.With(exit.Host, err)
		}
		s.keeper.Afar = s.slurm != nil
	}
	r, err := container.New(ctx, engine, cfg)
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	if s.keeper != nil {
		files := r.Files()
		s.keeper.Files, files.Scratch = files, s.set.Scratch
	}
	return r, nil
}
