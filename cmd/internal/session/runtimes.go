package session

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	release "gantry"

	"gantry/cgroup"
	"gantry/cmd/internal/exit"
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
	"gantry/trace/scenario"
)

// opening has the arguments for opening a runtime of a run.
type opening struct {
	origin time.Time // wall clock at offset
	offset planner.Time
	// milestone receives the milestones of attempts, if it is set and the runtime has containers.
	milestone func(planner.AttemptID, executor.Milestone)
}

// Runtime is a row of runtimes.
type Runtime struct {
	*executor.Capabilities
	open func(ctx context.Context, s *Session, o opening) (executor.Runtime, error)
	// Images makes images present, where the runtime looks for them; nil: it needs none
	Images fetcher
	// Engine opens the engine that makes containers of runs in some directories; nil: it makes none, and has no images
	// of its own
	Engine openEngine
	// Store says that images lie in gantry's own store
	Store bool
	// Facts are those of the host that the engine does not know; nil: none
	Facts func(ctx context.Context) []container.Fact
	// Cluster finds the nodes of a run, which are other hosts; nil: they are this host's
	Cluster func(ctx context.Context, s *Session) error
	// Abandon ends programs on other hosts of the run in a directory, and returns their names; nil: there are none
	Abandon func(ctx context.Context, dir string) ([]string, error)
	// Enter gives this process the rights that the runtime takes, if it can; it may begin the process again. nil: none
	Enter func() error
	// usable says why this host cannot use the runtime, nil if it can; entered or not. nil: opening the engine tells
	usable func(ctx context.Context) error
}

// fetcher makes images present that a run wants.
type fetcher func(ctx context.Context, i *images, o fetch.Options, wanted []fetch.Wanted) ([]fetch.Image, error)

type openEngine func(ctx context.Context, w EngineWants) (container.Engine, error)

// EngineWants has the arguments for opening an engine of containers.
type EngineWants struct {
	Dirs   []string // of runs
	Binary string   // the task emulator; "" if nothing is started
	Store  *image.Store
}

// host opens an engine to ask it about this host.
func (open openEngine) host(ctx context.Context, w EngineWants) (container.Host, error) {
	e, err := open(ctx, w)
	if err != nil {
		return container.Host{}, err
	}
	defer e.Close()
	return e.Host(ctx)
}

func dockerEngine(ctx context.Context, w EngineWants) (container.Engine, error) {
	return docker.Open(ctx, "", w.Binary, 0)
}

func ociEngine(_ context.Context, w EngineWants) (container.Engine, error) {
	cfg := oci.Config{Dirs: w.Dirs}
	if w.Store != nil {
		cfg.Images = w.Store
	}
	return oci.Open(cfg)
}

// Runtimes is the table of runtimes. Nothing else compares their names: to add one takes a row here, and a package with
// its Capabilities and the constructor.
var Runtimes = []Runtime{
	{Capabilities: &docker.Capabilities, open: openEngine(dockerEngine).runtime, Engine: dockerEngine,
		Images: func(ctx context.Context, _ *images, o fetch.Options, wanted []fetch.Wanted) ([]fetch.Image, error) {
			return docker.Fetch(ctx, o, wanted)
		}},
	{Capabilities: &oci.Capabilities, open: openEngine(ociEngine).runtime, Images: fetchOCI, Engine: ociEngine,
		Store: true, Facts: ociFacts, Enter: oci.Enter, usable: oci.Usable},
	{Capabilities: &slurm.Capabilities, open: openSlurm, Images: fetchOnNodes, Cluster: allocate,
		Abandon: abandonSteps},
	{Capabilities: &null.Capabilities, open: func(_ context.Context, _ *Session, o opening) (executor.Runtime, error) {
		return null.New(o.origin.Add(-time.Duration(o.offset))), nil
	}},
	{Capabilities: &sim.Capabilities, open: func(_ context.Context, s *Session, o opening) (executor.Runtime, error) {
		return sim.For(s.simulation(o.offset)), nil
	}},
}

// The runtimes that commands take unless told otherwise, if this host has the first; see chosenRuntime.
var UsualRuntime, Simulation = &docker.Capabilities, &sim.Capabilities

// HostRuntime is a runtime of containers that this host can use: that one if it can, or else can use none.
func HostRuntime(ctx context.Context, preferred string) string {
	for _, name := range append([]string{preferred}, RuntimeNames(MakesContainers)...) {
		if row := RuntimeNamed(name); row != nil && row.Engine != nil && row.IsUsable(ctx) == nil {
			return name
		}
	}
	return preferred
}

// AutoRuntime is a runtime of containers without a daemon if this host can, also with a network if that is asked for,
// else as HostRuntime has the usual one.
func AutoRuntime(ctx context.Context, network bool) string {
	for i := range Runtimes {
		if r := &Runtimes[i]; r.Store && (!network || oci.NoNetwork() == "") && r.IsUsable(ctx) == nil {
			return r.Name
		}
	}
	return HostRuntime(ctx, UsualRuntime.Name)
}

// IsUsable says why this host cannot use a runtime that makes containers; nil if it can.
func (r *Runtime) IsUsable(ctx context.Context) error {
	if r.usable != nil {
		return r.usable(ctx)
	}
	e, err := r.Engine(ctx, EngineWants{})
	if err == nil {
		err = e.Close()
	}
	return err
}

// Capabilities returns the capabilities of a runtime of the log; a runtime that this gantry does not know has none.
func Capabilities(name string) *executor.Capabilities {
	if r := RuntimeNamed(name); r != nil {
		return r.Capabilities
	}
	return &executor.Capabilities{Name: name}
}

// RuntimeNamed returns the row of a runtime, nil if this gantry does not have it.
func RuntimeNamed(name string) *Runtime {
	for i := range Runtimes {
		if Runtimes[i].Name == name {
			return &Runtimes[i]
		}
	}
	return nil
}

// OnNodes reports whether a runtime runs tasks on the nodes of a cluster.
func OnNodes(runtime string) bool {
	row := RuntimeNamed(runtime)
	return row != nil && row.Cluster != nil
}

// Counterpart is the simulation beside a runtime of containers in an experiment. No host model measures nodes of Slurm.
func Counterpart(runtime string) string {
	if OnNodes(runtime) {
		return Simulation.Name
	}
	return scenario.Predicted
}

// RuntimeNames lists the runtimes that satisfy a condition.
func RuntimeNames(which func(*executor.Capabilities) bool) (names []string) {
	for _, r := range Runtimes {
		if which(r.Capabilities) {
			names = append(names, r.Name)
		}
	}
	return names
}

// RealTime selects the runtimes of gantry run.
func RealTime(c *executor.Capabilities) bool { return !c.Virtual }

// AnyRuntime selects all runtimes.
func AnyRuntime(*executor.Capabilities) bool { return true }

// Enter gives this process the rights that a runtime takes, before it does anything else: it may begin again.
func Enter(runtime string) error {
	if row := RuntimeNamed(runtime); row != nil && row.Enter != nil {
		return exit.Or(exit.Host, row.Enter())
	}
	return nil
}

// MakesContainers selects the runtimes that make containers on this host.
func MakesContainers(c *executor.Capabilities) bool { return RuntimeNamed(c.Name).Engine != nil }

func (s *Session) openRuntime(ctx context.Context, o opening) (executor.Runtime, error) {
	row := RuntimeNamed(s.Set.Runtime)
	if row == nil {
		return nil, exit.Inputf("run %s is on the %s runtime, which this gantry does not have", s.Name,
			s.Set.Runtime)
	}
	if err := s.keep(s.Log, s.Dir); err != nil {
		return nil, exit.With(exit.Host, err)
	}
	if row.Store && s.opts.Server != nil { // its images come while it runs
		if err := s.openStore(); err != nil {
			return nil, exit.With(exit.Host, err)
		}
	}
	return row.open(ctx, s, o)
}

// TaskBinary finds the task emulator.
func TaskBinary(ctx context.Context) (string, error) {
	binary, err := docker.FindTaskBinary()
	if err == nil {
		err = docker.CheckTaskBinary(ctx, binary)
	}
	return binary, exit.Or(exit.Host, err)
}

// shown are the files and directories of this host that programs of the run see.
func (s *Session) shown() (paths []string) {
	if s.Set.Emulate {
		return nil
	}
	mounts := slices.Clone(s.Set.Mounts)
	for i := range s.subs {
		for _, c := range s.subs[i].Workflow.Containers {
			mounts = append(mounts, c.Mounts...)
		}
	}
	for _, m := range mounts {
		if from := executor.ParseMount(m).From; !slices.Contains(paths, from) {
			paths = append(paths, from)
		}
	}
	return paths
}

// runtime makes the runtime of containers that an engine makes.
func (open openEngine) runtime(ctx context.Context, s *Session, o opening) (executor.Runtime, error) {
	secrets, err := s.Set.SecretValues()
	if err != nil {
		return nil, err
	}
	cfg := container.Config{Secrets: secrets, Shown: s.shown(), Run: s.Name,
		Dir: s.Dir, Platform: executor.SlowNodes(s.Set.Faults, s.Set.draws(), s.Platform),
		Version: release.Build(), Seed: s.Set.Seed,
		Starts: s.Set.Starts, Grace: s.Set.Grace, MaxOutput: s.Set.MaxOutput, Disk: s.Set.Disk,
		Tmp: s.Set.Tmp, CDI: s.Set.CDI, GPUs: s.facts.GPUs, Networks: s.Set.outbound(), Image: s.id,
		Origin: o.origin, Offset: o.offset, Strict: s.Set.Strict, Milestone: o.milestone}
	for i := range s.Set.Cluster.Nodes {
		cfg.IO = append(cfg.IO, ioLimits(&s.Set.Cluster.Nodes[i]))
	}
	cfg.Warn = func(rule, message string) {
		if s.Log == nil {
			s.View.Warn("%s", message)
			return
		}
		known, err := s.Log.Warned(message)
		passing := []string{"docker-silent", "docker-away", "copy"}
		if known && !slices.Contains(passing, rule) { // people were told when they began to work on this host
			s.View.Known(message)
		} else {
			s.View.Warn("%s", message)
		}
		if err = errors.Join(err, s.Log.Warn(rule, message)); err != nil {
			s.View.Warn("%v", err)
		}
	}
	if s.Log != nil {
		cfg.Sample = func(x container.Sample) {
			row := sqlite.Sample{Attempt: x.Attempt, At: x.At, CPU: x.CPU, Memory: unit.Bytes(x.Counters.Memory),
				Read: unit.Bytes(x.ReadBytes), Written: unit.Bytes(x.WrittenBytes)}
			for set, missing := range map[cgroup.Set]planner.Counters{cgroup.CPU: planner.CounterCPU,
				cgroup.Memory: planner.CounterMemory, cgroup.IO: planner.CounterIO} {
				if x.Got&set == 0 {
					row.Missing |= missing
				}
			}
			s.Log.Sample(row)
		}
	}
	if cfg.TaskBinary, err = TaskBinary(ctx); err != nil {
		return nil, err
	}
	engine, err := open(ctx, EngineWants{[]string{s.Dir}, cfg.TaskBinary, s.store})
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	if s.Log != nil {
		if err := s.keepFiles(secrets); err != nil {
			return nil, err
		}
		cfg.Published = s.upkeep.published
	}
	r, err := container.New(ctx, engine, cfg)
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	if s.Log != nil {
		files := r.Files()
		s.upkeep.area, s.upkeep.keeper.Files, files.Scratch = files, files, s.Set.Scratch
	}
	return r, nil
}

func ioLimits(n *scenario.ClusterNode) container.IOLimits {
	return container.IOLimits{ReadBps: n.ReadBps, WriteBps: n.WriteBps, ReadIOPS: n.ReadIOPS, WriteIOPS: n.WriteIOPS}
}

// secretsKey is the name of the file with the key of SecretSums.
const secretsKey = "secrets.key"

// keepFiles prepares to know the files of the run by their content.
func (s *Session) keepFiles(secrets map[string]string) (err error) {
	if s.upkeep == nil {
		s.upkeep = newUpkeep(s.Dir, s.Set.Scratch, s.Log, s.View)
	}
	k := &reuse.Keeper{Log: s.DB, Run: s.Log, Home: s.Home, Nodes: s.Platform.Nodes, Seed: s.Set.Seed,
		Image: s.id, Hash: s.Set.Reuse,
		Now: func() planner.Time { return s.Engine.Runtime.Now() }, Warn: s.View.Warn, Afar: s.slurm != nil}
	s.upkeep.keeper = k
	s.Log.Identify(len(secrets) == 0) // else the identity of a task alone says too little
	if len(secrets) == 0 {
		return nil
	}
	k.Secrets, err = reuse.SecretSums(filepath.Join(s.Home, secretsKey), GiveToCaller, secrets)
	if err != nil && s.Set.Reuse { // else nothing is compared, now or later
		return exit.With(exit.Host, err)
	}
	return nil
}
