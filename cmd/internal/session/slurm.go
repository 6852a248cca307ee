package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/container/fetch"
	"gantry/executor/container/oci"
	"gantry/executor/container/slurm"
	"gantry/executor/container/slurm/allocation"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/trace/scenario"
)

// How many containers start at once by default: each node works on some, and srun takes processes here.
const (
	startsPerNode = 4
	mostStarts    = 128
)

// onSlurm is a run on Slurm.
type onSlurm struct {
	allocation *allocation.Allocation
	nodes      []string // of the allocation, by their place in the platform
	reports    []slurm.Report
}

// allocate finds the allocation of a new run, and has its nodes be those of the run.
func allocate(ctx context.Context, s *Session) error {
	a, err := s.findAllocation(ctx, s.opts.SlurmJob, s.opts.Dry)
	if err != nil {
		return slurmError(err)
	}
	s.slurm = &onSlurm{allocation: a}
	speeds, err := readSpeeds(s.home)
	if err != nil {
		return exit.With(exit.Input, err)
	}
	cluster, err := clusterOf(a.ID(), a.Nodes(), s.set.Cluster, s.opts.Cluster, speeds)
	if err != nil {
		return err
	}
	s.set.Cluster = cluster
	if !s.opts.Starts {
		s.set.Starts = min(mostStarts, startsPerNode*len(cluster.Nodes))
	}
	for _, n := range cluster.Nodes {
		s.slurm.nodes = append(s.slurm.nodes, n.Name)
	}
	return nil
}

// readUnplaced refuses workflows that cannot run in any allocation before one is requested. Tasks count as if they fit.
func (s *Session) readUnplaced(ctx context.Context, in *Inputs) error {
	if s.name != "" && s.name != executor.EscapeName(s.name) {
		return badName(s.name)
	}
	if err := s.unused(ctx); err != nil {
		return err
	}
	if _, err := s.set.SecretValues(); err != nil {
		return err
	}
	roomy, err := executor.PlatformOf(&scenario.Cluster{Nodes: []scenario.ClusterNode{{Name: "any", Cores: 1 << 20,
		Speed: 1}}})
	if err != nil {
		return err
	}
	set := *s.set
	first := &Session{set: &set, name: s.name, home: s.home, opts: s.opts, view: s.view, predicts: s.predicts,
		platform: roomy}
	defer first.Close()
	in.Unplaced = true
	_, err = first.read(ctx, in)
	return err
}

// unused refuses the name of a run that the log has. Other errors of the log are left to its writer.
func (s *Session) unused(ctx context.Context) error {
	path := filepath.Join(s.home, sqlite.FileName)
	if _, err := os.Stat(path); err != nil || s.name == "" || s.opts.NoLog || s.opts.Dry {
		return nil
	}
	db, err := sqlite.Open(path, sqlite.ReadOnly)
	if err != nil {
		return nil
	}
	defer db.Close()
	if info, err := db.Info(ctx, s.name); err == nil && info.Name == s.name {
		return exit.With(exit.Input, sqlite.Taken(s.name))
	}
	return nil
}

// lastAllocation is the allocation that a run used last.
type lastAllocation struct {
	Job       string `json:"job"`
	Requested bool   `json:"requested"`
}

func usedFile(runDir string) string { return filepath.Join(runDir, "allocation.json") }

// remember has a run know its allocation when it continues.
func (o *onSlurm) remember(runDir string) error {
	text, err := json.Marshal(lastAllocation{o.allocation.ID(), o.allocation.Requested()})
	if err == nil {
		err = os.WriteFile(usedFile(runDir), text, 0o644)
	}
	return err
}

// reallocate finds an allocation for a run that continues: the one that is named, the last one, the one around gantry,
// or a new one like that. Its nodes take the places of those that the run began with.
func (s *Session) reallocate(ctx context.Context) error {
	a, err := s.allocationOf(ctx, s.opts.SlurmJob)
	if err != nil {
		return slurmError(err)
	}
	s.slurm = &onSlurm{allocation: a}
	if s.slurm.nodes, err = matchNodes(s.platform, a); err != nil {
		return exit.With(exit.Host, err)
	}
	return nil
}

func (s *Session) allocationOf(ctx context.Context, job string) (*allocation.Allocation, error) {
	if job == "" {
		var last lastAllocation
		if text, err := os.ReadFile(usedFile(s.dir)); err == nil && json.Unmarshal(text, &last) == nil {
			a, err := allocation.Attach(ctx, last.Job)
			if err == nil {
				a.Own(last.Requested)
				return a, nil
			}
			if a, inside, e := allocation.Inside(ctx); inside {
				return a, e
			}
			if s.set.Slurm == "" {
				return nil, fmt.Errorf("%w: name another allocation with --slurm-job", err)
			}
			s.view.Note("%v: requesting another", err)
		}
	}
	return s.findAllocation(ctx, job, false)
}

// matchNodes finds a node of the allocation for each of a run: that of the same name, else another with as many cores
// and as much memory.
func matchNodes(p *planner.Platform, a *allocation.Allocation) ([]string, error) {
	nodes := a.Nodes()
	out := make([]string, len(p.Nodes))
	taken := map[string]bool{}
	for _, same := range []bool{true, false} {
		for i := range p.Nodes {
			n := &p.Nodes[i]
			for _, have := range nodes {
				big := int64(have.Cores)*1000 >= n.Capacity[unit.CPU] && have.Memory >= n.Capacity[unit.Memory]
				if out[i] == "" && !taken[have.Name] && big && (have.Name == n.Name || !same) {
					out[i], taken[have.Name] = have.Name, true
				}
			}
		}
	}
	if len(taken) == 0 {
		return nil, fmt.Errorf("no node of allocation %s is as large as those that the run began with (%s, "+
			"%s of memory)", a.ID(), term.Cores(p.Nodes[0].Capacity[unit.CPU]),
			term.Size(&p.Nodes[0].Capacity[unit.Memory]))
	}
	return out, nil
}

// slurmError gives an error of Slurm its exit code.
func slurmError(err error) error {
	if _, ok := errors.AsType[*exit.Error](err); ok || err == nil {
		return err
	}
	return exit.Hostf("%w\nnothing was started", err)
}

// findAllocation attaches to the allocation that is named, to the one around gantry, or requests one.
func (s *Session) findAllocation(ctx context.Context, job string, dry bool) (*allocation.Allocation, error) {
	switch {
	case job != "":
		if n, err := strconv.Atoi(job); err != nil || n < 1 {
			return nil, exit.Usagef("--slurm-job %s: give the number of a Slurm job; squeue --me lists yours", job)
		}
		return allocation.Attach(ctx, job)
	case s.set.Slurm != "" && dry:
		return nil, exit.Usagef("--dry-run requests no allocation: name one with --slurm-job")
	case s.set.Slurm != "":
		w, err := allocation.ParseWants(s.set.Slurm)
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		w.Name = "gantry"
		a, err := allocation.Request(ctx, w, func(text string) { s.view.Note("%s", text) })
		if err == nil {
			s.view.Note("Slurm granted allocation %s: %s", a.ID(), term.Plural(len(a.Nodes()), "node"))
		}
		return a, err
	}
	a, inside, err := allocation.Inside(ctx)
	if err == nil && !inside {
		return nil, exit.Usagef("--runtime slurm: gantry does not run in an allocation of Slurm: request one " +
			"(--slurm nodes=4,time=2h), name one (--slurm-job ID), or run gantry in one (salloc, sbatch)")
	}
	return a, err
}

// clusterOf makes a cluster of the nodes of an allocation. Facts that Slurm lacks, such as their speeds, come from the
// nodes of the same names in a cluster file, else from gantry calibrate.
func clusterOf(id string, nodes []allocation.Node, file *scenario.Cluster, given bool,
	speeds map[string]float64) (*scenario.Cluster, error) {
	out := &scenario.Cluster{Name: "slurm-" + id}
	matched := false
	if given {
		out.Links, out.Overlapped = file.Links, file.Overlapped
	}
	for _, n := range nodes {
		x := scenario.ClusterNode{Name: n.Name, Speed: cmp.Or(speeds[n.Name], 1)}
		if given {
			at := slices.IndexFunc(file.Nodes, func(f scenario.ClusterNode) bool { return f.Name == n.Name })
			if at >= 0 {
				x, matched = file.Nodes[at], true
			}
		}
		x.Cores, x.MostCores, x.Memory = float64(n.Cores), 0, n.Memory
		out.Nodes = append(out.Nodes, x)
	}
	if given && !matched {
		return nil, exit.Inputf("--cluster: no node of the file has the name of a node of allocation %s, such "+
			"as %s", id, nodes[0].Name)
	}
	executor.FillDisk(out)
	return out, nil
}

// slurmCheck makes a check of nodes, with a directory for their answers, which done removes.
func (s *Session) slurmCheck(args ...string) (c slurm.Check, done func(), err error) {
	root, err := s.sharedDir()
	if err != nil {
		return c, nil, err
	}
	c = slurm.Check{Args: args}
	if c.Dir, err = os.MkdirTemp(root, "gantry-check-"); err != nil {
		return c, nil, err
	}
	dir := c.Dir
	done = func() { os.RemoveAll(dir) }
	if err = os.Chmod(dir, 0o755); err == nil {
		c.Program, err = putPrograms(filepath.Join(dir, "bin"))
	}
	if err != nil {
		done()
	}
	return c, done, err
}

// fetchOnNodes asks all nodes whether they can run the tasks, and has them fetch the images.
func fetchOnNodes(ctx context.Context, s *Session, wanted []fetch.Wanted, _ *term.Arrival) ([]fetch.Image, error) {
	c, done, err := s.slurmCheck("--pull", s.set.Pull)
	if err != nil {
		return nil, err
	}
	defer done()
	if s.set.NodeRuntime != "" {
		c.Args = append(c.Args, "--runtime", s.set.NodeRuntime)
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	c.Args = append(c.Args, "--images", string(text))
	for _, n := range s.slurm.nodes {
		if n != "" {
			c.Nodes = append(c.Nodes, n)
		}
	}
	var images []fetch.Image
	if s.slurm.reports, err = c.Ask(ctx, s.slurm.allocation); err == nil {
		images, err = agreed(s.slurm.reports, wanted)
	}
	if err != nil {
		return nil, err
	}
	return images, nil
}

// agreed are the images that all nodes have.
func agreed(reports []slurm.Report, wanted []fetch.Wanted) (images []fetch.Image, err error) {
	for _, r := range reports {
		switch {
		case r.NoImage:
			return nil, fmt.Errorf("node %s: %w: %s", r.Node, fetch.ErrNoImage, r.Failed)
		case r.Runtime == "":
			return nil, fmt.Errorf("node %s has no runtime for containers: %s (install crun or runc there, or have "+
				"--slurm request other nodes)", r.Node, r.Failed)
		case r.Failed != "":
			return nil, fmt.Errorf("node %s: %s", r.Node, r.Failed)
		}
		for _, w := range wanted {
			at := slices.IndexFunc(r.Images, func(i slurm.Image) bool { return i.Ref == w.Ref })
			if at < 0 {
				return nil, fmt.Errorf("node %s: %w: %s", r.Node, fetch.ErrNoImage, w.Ref)
			}
			i := r.Images[at]
			if k := slices.IndexFunc(images, func(d fetch.Image) bool { return d.Ref == w.Ref }); k < 0 {
				images = append(images, i.Image)
			} else if images[k].ID != i.ID {
				return nil, fmt.Errorf("image %s is %s on node %s, %s on another: remove it there, or name it by its "+
					"digest", w.Ref, i.ID, r.Node, images[k].ID)
			}
		}
	}
	return images, nil
}

// putPrograms puts gantry and gantry-task where the nodes see them.
func putPrograms(dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	task, err := docker.FindTaskBinary()
	if err != nil {
		return "", err
	}
	return slurm.Put(dir, self, task)
}

// sharedDir is the directory that nodes share.
func (s *Session) sharedDir() (string, error) {
	dir := cmp.Or(s.set.Shared, s.home)
	return dir, os.MkdirAll(dir, 0o755)
}

// openSlurm makes the runtime of a run on Slurm.
func openSlurm(ctx context.Context, s *Session, o opening) (executor.Runtime, error) {
	program, err := putPrograms(filepath.Join(s.dir, "control", "slurm", "bin"))
	if err == nil {
		err = s.slurm.remember(s.dir)
	}
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	cfg := slurm.Config{RunDir: s.dir, Allocation: s.slurm.allocation, Nodes: s.slurm.nodes, Program: program,
		Linger: s.set.Bundle, Runtimes: make([]string, len(s.slurm.nodes)), Environment: s.slurm.environment}
	if cfg.Secrets.Values, err = s.set.SecretValues(); err != nil {
		return nil, err
	}
	user := stage.ProgramUser()
	cfg.Secrets.UID, cfg.Secrets.GID = user.UID, user.GID
	for i := range s.platform.Nodes {
		cfg.Names = append(cfg.Names, s.platform.Nodes[i].Name)
		for _, r := range s.slurm.reports {
			if r.Node == s.slurm.nodes[i] {
				cfg.Runtimes[i] = r.Runtime
			}
		}
	}
	for _, r := range s.slurm.reports {
		for _, f := range r.Facts {
			if f.Verdict == container.No && s.set.Strict {
				return nil, exit.Hostf("strict: node %s: %s (leave out --strict: the run then continues, with a "+
					"warning)", r.Node, f.Evidence)
			}
			if f.Verdict == container.No {
				s.view.Warn("node %s: %s: %s", r.Node, f.Evidence, f.Advice)
			}
		}
	}
	r, err := newContainers(ctx, s, o, func(context.Context, EngineWants) (container.Engine, error) {
		return slurm.Open(cfg)
	})
	if err != nil {
		return nil, err
	}
	return slurm.Runtime{Inner: r.(slurm.Inner)}, nil
}

// abandonSteps ends the job steps of the run in a directory, if its allocation exists.
func abandonSteps(ctx context.Context, dir string) ([]string, error) {
	var last lastAllocation
	text, err := os.ReadFile(usedFile(Placed(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &last)
	}
	if err != nil {
		return nil, err
	}
	a, err := allocation.Attach(ctx, last.Job)
	if errors.Is(err, allocation.ErrOver) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a.Own(last.Requested)
	return slurm.Abandon(ctx, Placed(dir), a)
}

// environment is that of the programs of an image.
func (o *onSlurm) environment(image string) ([]string, error) {
	for _, r := range o.reports {
		for _, i := range r.Images {
			if i.ID == image || i.Ref == image {
				return i.Env, nil
			}
		}
	}
	return nil, fmt.Errorf("image %s: %w", image, fetch.ErrNoImage)
}

// leave gives back an allocation that gantry requested, unless programs still run in it.
func (s *Session) leave(err error) {
	if s.slurm == nil || !s.slurm.allocation.Requested() {
		return
	}
	if e, ok := errors.AsType[*exit.Error](err); ok && e.Code == exit.Internal {
		s.view.Note("allocation %s is kept: scancel %s gives it back", s.slurm.allocation.ID(), s.slurm.allocation.ID())
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.slurm.allocation.End(ctx); err != nil {
		s.view.Warn("give allocation %s back: %v", s.slurm.allocation.ID(), err)
	}
}

// place makes the directory of a new run that is to be at path. Where nodes share another directory it lies there, and
// path is a link to it: commands find it as they find all runs.
func (s *Settings) place(path string) (string, error) {
	if s.Shared == "" {
		return path, nil
	}
	dir := filepath.Join(s.Shared, executor.HostName(filepath.Base(path), path))
	if at, err := os.Readlink(path); err == nil && at == dir {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("directory of runs: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("run directory: %w", err)
	}
	return dir, os.Symlink(dir, path)
}

// Placed is where the directory of a run lies that is found at path.
func Placed(path string) string {
	if at, err := os.Readlink(path); err == nil {
		return at
	}
	return path
}

// NodeRuntimes are the runtimes that nodes may have, the preferred first.
var NodeRuntimes = []string{oci.Capabilities.Name, docker.Capabilities.Name}
