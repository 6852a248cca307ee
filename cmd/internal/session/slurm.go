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
	"gantry/trace/scenario"
)

// Bounds of the containers that start at once by default: each node works on some, and srun takes processes here.
const (
	startsPerNode = 4
	mostStarts    = 128
)

// onSlurm is a run on Slurm.
type onSlurm struct {
	set        *Settings
	home       string // the directory of runs
	allocation *allocation.Allocation
	nodes      []string // of the allocation, by their place in the platform
	reports    []slurm.Report
}

// allocate finds the allocation of a new run, and has its nodes be those of the run.
func allocate(ctx context.Context, s *Session) (err error) {
	o := s.onSlurm()
	if err := o.find(ctx, s.opts.SlurmJob); err != nil {
		return slurmError(err)
	}
	s.slurm = o
	if s.opts.Placed {
		return o.place()
	}
	cluster, err := clusterOf(o.allocation.ID(), o.allocation.Nodes(), s.Set.Cluster, s.opts.Cluster)
	if err != nil {
		return err
	}
	s.Set.Cluster = cluster
	if !s.opts.Starts {
		s.Set.Starts = min(mostStarts, startsPerNode*len(cluster.Nodes))
	}
	for _, n := range cluster.Nodes {
		o.nodes = append(o.nodes, n.Name)
	}
	return nil
}

// place has each node of the cluster be one of the allocation.
func (o *onSlurm) place() error {
	p, err := executor.PlatformOf(o.set.Cluster)
	if err != nil {
		return err
	}
	if o.nodes, err = matchNodes(p, o.allocation); err != nil {
		return exit.With(exit.Input, err)
	}
	if i := slices.Index(o.nodes, ""); i >= 0 {
		return exit.Inputf("no node of allocation %s is left for node %s of the cluster (%s, %s of memory): request "+
			"more nodes, or larger ones", o.allocation.ID(), p.Nodes[i].Name, term.Cores(p.Nodes[i].Capacity[unit.CPU]),
			term.Size(&p.Nodes[i].Capacity[unit.Memory]))
	}
	return nil
}

func (p *Planning) onSlurm() *onSlurm { return &onSlurm{set: p.Set, home: p.Home} }

// usedFile has the number of the allocation that a run used last.
func usedFile(runDir string) string { return filepath.Join(runDir, "allocation") }

// reallocate finds an allocation for a run that continues: the one that is named, the last one, or the one around
// gantry. Its nodes take the places of those that the run began with.
func reallocate(ctx context.Context, s *Session) (err error) {
	o := s.onSlurm()
	if err := o.findAgain(ctx, s.opts.SlurmJob, s.Dir); err != nil {
		return slurmError(err)
	}
	s.slurm = o
	o.nodes, err = matchNodes(s.Platform, o.allocation)
	return exit.Or(exit.Host, err)
}

func (o *onSlurm) findAgain(ctx context.Context, job, runDir string) (err error) {
	if job == "" {
		if last, err := os.ReadFile(usedFile(runDir)); err == nil {
			if o.allocation, err = allocation.Attach(ctx, string(last)); err == nil {
				return nil
			}
			if a, inside, e := allocation.Inside(ctx); inside {
				o.allocation = a
				return e
			}
			return fmt.Errorf("%w: name another allocation with --slurm-job", err)
		}
	}
	return o.find(ctx, job)
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
		return nil, fmt.Errorf("no node of allocation %s is as large as those of the run (%s, "+
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

// find attaches to the allocation that is named, or to the one around gantry.
func (o *onSlurm) find(ctx context.Context, job string) (err error) {
	if job != "" {
		if n, err := strconv.Atoi(job); err != nil || n < 1 {
			return exit.Usagef("--slurm-job %s: give the number of a Slurm job; squeue --me lists yours", job)
		}
		o.allocation, err = allocation.Attach(ctx, job)
		return err
	}
	inside := false
	if o.allocation, inside, err = allocation.Inside(ctx); err == nil && !inside {
		return exit.Usagef("--runtime slurm: gantry does not run in an allocation of Slurm: run it in one (salloc " +
			"--no-kill -N4 --exclusive --mem=0 gantry run ..., or sbatch), or name one (--slurm-job ID)")
	}
	return err
}

// clusterOf makes a cluster of the nodes of an allocation. Facts that Slurm lacks, such as their speeds, come from the
// nodes of the same names in a cluster file.
func clusterOf(id string, nodes []allocation.Node, file *scenario.Cluster, given bool) (*scenario.Cluster, error) {
	out := &scenario.Cluster{Name: "slurm-" + id}
	matched := false
	if given {
		out.Links, out.Overlapped = file.Links, file.Overlapped
	}
	for _, n := range nodes {
		x := scenario.ClusterNode{Name: n.Name, Speed: 1}
		if given {
			at := slices.IndexFunc(file.Nodes, func(f scenario.ClusterNode) bool { return f.Name == n.Name })
			if at >= 0 {
				x, matched = file.Nodes[at], true
			}
		}
		if x.GPUs > 0 {
			return nil, exit.Inputf("--cluster: node %s has key gpus, but gantry does not give out GPUs of Slurm's "+
				"nodes: leave it out", n.Name)
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

// check makes a check of nodes, with a directory for their answers, which done removes.
func (o *onSlurm) check() (c slurm.Check, done func(), err error) {
	root := cmp.Or(o.set.Shared, o.home)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return c, nil, err
	}
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
func fetchOnNodes(ctx context.Context, i *images, _ fetch.Options, wanted []fetch.Wanted) ([]fetch.Image, error) {
	o := i.slurm
	c, done, err := o.check()
	if err != nil {
		return nil, err
	}
	defer done()
	c.Args = []string{"--pull", o.set.Pull}
	if o.set.NodeRuntime != "" {
		c.Args = append(c.Args, "--runtime", o.set.NodeRuntime)
	}
	if o.set.outbound() {
		c.Args = append(c.Args, "--network")
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	c.Args = append(c.Args, "--images", string(text))
	c.Nodes = slices.DeleteFunc(slices.Clone(o.nodes), func(n string) bool { return n == "" })
	var images []fetch.Image
	if o.reports, err = c.Ask(ctx, o.allocation); err == nil {
		images, err = agreed(o.reports, wanted)
	}
	return images, err
}

// agreed are the images that all nodes have.
func agreed(reports []slurm.Report, wanted []fetch.Wanted) (images []fetch.Image, err error) {
	for _, r := range reports {
		switch {
		case r.NoImage:
			return nil, fmt.Errorf("node %s: %w: %s", r.Node, fetch.ErrNoImage, r.Failed)
		case r.Runtime == "":
			return nil, fmt.Errorf("node %s has no runtime for containers: %s (install crun or runc there, or "+
				"request other nodes)", r.Node, r.Failed)
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

func openSlurm(ctx context.Context, s *Session, o opening) (executor.Runtime, error) {
	program, err := putPrograms(filepath.Join(s.Dir, "control", "slurm", "bin"))
	if err == nil {
		err = os.WriteFile(usedFile(s.Dir), []byte(s.slurm.allocation.ID()), 0o644) // for when it continues
	}
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	cfg := slurm.Config{RunDir: s.Dir, Allocation: s.slurm.allocation, Nodes: s.slurm.nodes, Program: program,
		Runtimes: make([]string, len(s.slurm.nodes)), Environment: s.slurm.environment}
	if cfg.Secrets.Values, err = s.Set.SecretValues(); err != nil {
		return nil, err
	}
	user := stage.ProgramUser()
	cfg.Secrets.UID, cfg.Secrets.GID = user.UID, user.GID
	for i := range s.Platform.Nodes {
		cfg.Names = append(cfg.Names, s.Platform.Nodes[i].Name)
		for _, r := range s.slurm.reports {
			if r.Node == s.slurm.nodes[i] {
				cfg.Runtimes[i] = r.Runtime
			}
		}
	}
	for _, r := range s.slurm.reports {
		for _, f := range r.Facts {
			if f.Verdict == container.No && s.Set.Strict {
				return nil, exit.Hostf("strict: node %s: %s (leave out --strict: the run then continues, with a "+
					"warning)", r.Node, f.Evidence)
			}
			if f.Verdict == container.No {
				s.View.Warn("node %s: %s: %s", r.Node, f.Evidence, f.Advice)
			}
		}
	}
	open := func(context.Context, EngineWants) (container.Engine, error) { return slurm.Open(cfg) }
	return openEngine(open).runtime(ctx, s, o)
}

// abandonSteps ends the job steps of the run in a directory, if its allocation exists.
func abandonSteps(ctx context.Context, dir string) ([]string, error) {
	last, err := os.ReadFile(usedFile(Placed(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	a, err := allocation.Attach(ctx, string(last))
	if errors.Is(err, allocation.ErrOver) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
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
