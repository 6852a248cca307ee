package slurm_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/slurm"
	"gantry/executor/container/slurm/allocation"
	"gantry/executor/container/slurm/slurmtest"
	"gantry/executor/runtimetest"
	"gantry/planner"
	"gantry/planner/unit"
)

// busybox is an image of make images.
const busybox = "gantry/busybox:latest"

func TestMain(m *testing.M) { slurmtest.Main(m) }

// site is a Slurm with an allocation, and what its nodes say.
type site struct {
	*slurmtest.Cluster
	allocation *allocation.Allocation
	dir        string // that all nodes see
	program    string
	reports    []slurm.Report
}

// newSite brings Slurm up, with an allocation of all nodes, which have containers of that runtime.
func newSite(t *testing.T, runtime string) *site {
	t.Helper()
	c := slurmtest.Up(t)
	if exec.Command("docker", "image", "inspect", busybox).Run() != nil {
		t.Skipf("needs the image %s (make images)", busybox)
	}
	s := &site{Cluster: c, dir: t.TempDir()}
	t.Setenv("GANTRY_IMAGES", filepath.Join(s.dir, "images"))
	s.request(t)
	built := slurmtest.Programs(t)
	var err error
	if s.program, err = slurm.Put(filepath.Join(s.dir, "bin"), filepath.Join(built, "gantry"),
		filepath.Join(built, "gantry-task")); err != nil {
		t.Fatal(err)
	}
	check := slurm.Check{Dir: s.dir, Program: s.program, Nodes: c.Nodes,
		Args: []string{"--runtime", runtime, "--pull", "never", "--images",
			`[{"Ref": "` + busybox + `"}]`}}
	if s.reports, err = check.Ask(t.Context(), s.allocation); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.reports {
		if r.Failed != "" {
			t.Fatalf("node %s: %s", r.Node, r.Failed)
		}
	}
	return s
}

// request takes all nodes.
func (s *site) request(t *testing.T) {
	t.Helper()
	a, err := allocation.Attach(t.Context(), s.Allocate(t, fmt.Sprintf("--nodes=%d", len(s.Nodes))))
	if err != nil {
		t.Fatal(err)
	}
	s.allocation = a
	t.Cleanup(func() { _ = exec.Command("scancel", a.ID()).Run() }) // it may have ended
}

// rig is a runtime on it.
type rig struct {
	executor.Runtime
	t      *testing.T
	site   *site
	engine *slurm.Engine
	config container.Config
	wf     *executor.WorkflowSpec
	next   planner.AttemptID
	files  planner.FileID
	seen   []planner.Body
}

func (s *site) newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp(s.dir, "run-")
	if err != nil {
		t.Fatal(err)
	}
	p := &planner.Platform{Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}
	for i, name := range s.Nodes {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: name, Speed: 1,
			Capacity: unit.Vector{unit.CPU: 2000, unit.Memory: 1 << 30, unit.Disk: unit.Unlimited}})
	}
	r := &rig{t: t, site: s, wf: &executor.WorkflowSpec{Name: "wf"},
		config: container.Config{Run: filepath.Base(dir), Dir: dir, Platform: p, Version: "test",
			TaskBinary: filepath.Join(s.dir, "bin", "gantry-task"), Starts: 8,
			Image: func(string) string { return s.image() }}}
	r.open()
	return r
}

// image is the ID of the image of the nodes.
func (s *site) image() string {
	if len(s.reports[0].Images) == 0 {
		return busybox
	}
	return s.reports[0].Images[0].ID
}

// open makes the runtime, as a gantry does that begins or resumes.
func (r *rig) open() {
	r.t.Helper()
	cfg := slurm.Config{RunDir: r.config.Dir, Allocation: r.site.allocation, Names: r.site.Nodes, Nodes: r.site.Nodes,
		Program: r.site.program, Every: time.Second}
	for _, report := range r.site.reports {
		cfg.Runtimes = append(cfg.Runtimes, report.Runtime)
	}
	e, err := slurm.Open(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	runtime, err := container.New(r.t.Context(), e, r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	r.engine, r.Runtime = e, runtime
	r.t.Cleanup(func() {
		if err := runtime.Close(); err != nil {
			r.t.Error(err)
		}
	})
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// sh is a task that runs a script.
func (r *rig) sh(script string) *executor.TaskSpec {
	return &executor.TaskSpec{Workflow: r.wf, Name: fmt.Sprintf("task %d", r.next), Kind: "sh",
		Command: []string{script}, Shell: true, Image: busybox}
}

func (r *rig) launch(node int, spec *executor.TaskSpec) executor.Launch {
	r.t.Helper()
	l := executor.Launch{Attempt: r.next, Task: planner.TaskID(r.next), Try: 1, Node: planner.NodeID(node),
		Hold: unit.Vector{unit.CPU: 1000, unit.Memory: 64 << 20}, Queued: r.Now(), Spec: spec}
	r.next++
	r.must(r.Start(r.t.Context(), l))
	return l
}

// until waits for a body, and keeps it and those before it.
func (r *rig) until(f func(planner.Body) bool) planner.Body {
	r.t.Helper()
	for at := 0; ; {
		for ; at < len(r.seen); at++ {
			if f(r.seen[at]) {
				return r.seen[at]
			}
		}
		bodies, err := r.Next(r.t.Context(), r.Now().Add(slurmtest.Patience))
		r.must(err)
		if len(bodies) == 0 {
			r.t.Fatalf("nothing happened for %v", slurmtest.Patience)
		}
		r.seen = append(r.seen, bodies...)
	}
}

func (r *rig) exit(l executor.Launch) *planner.AttemptExited {
	r.t.Helper()
	x := r.until(func(b planner.Body) bool {
		x, ok := b.(*planner.AttemptExited)
		return ok && x.Attempt == l.Attempt
	}).(*planner.AttemptExited)
	r.must(r.Forget(r.t.Context(), l.Attempt))
	return x
}

// wants fails unless the attempt ended in that class, and its message says all that.
func (r *rig) wants(x *planner.AttemptExited, o planner.Outcome, says ...string) {
	r.t.Helper()
	if x.Outcome != o {
		r.t.Fatalf("%v with exit code %d (%s), not %v", x.Outcome, x.ExitCode, x.Message, o)
	}
	for _, s := range says {
		if !strings.Contains(x.Message, s) {
			r.t.Errorf("message %q does not say %q", x.Message, s)
		}
	}
}

// work is the work directory of a task's first try.
func (r *rig) work(t *executor.TaskSpec) string {
	return filepath.Join(r.config.Dir, "work", "wf", executor.EscapeName(t.Name)+"-1")
}

func TestContract(t *testing.T) {
	runtimes := []string{"oci", "docker"}
	if testing.Short() {
		runtimes = runtimes[:1]
	}
	for _, runtime := range runtimes {
		t.Run(runtime, func(t *testing.T) {
			s := newSite(t, runtime)
			uses, _ := filepath.Glob(filepath.Join(s.dir, "images", "uses", "*"))
			if runtime == "oci" { // which has a store: nobody removes its images while the allocation lasts
				if text, _ := os.ReadFile(strings.Join(uses, "")); !strings.Contains(string(text),
					`"slurm-allocation:`+s.allocation.ID()+`"`) {
					t.Errorf("the nodes note no use of their images: %v, %s", uses, text)
				}
			}
			s.Nodes, s.reports = s.Nodes[:2], s.reports[:2] // a run begins with a step on each
			runtimetest.Run(t, func(t *testing.T) runtimetest.Setup { return s.newRig(t).setup() })
			if _, err := exec.LookPath("slirp4netns"); err == nil && runtime == "oci" {
				t.Run("network", func(t *testing.T) { s.newRig(t).network() })
			}
		})
	}
}

// network runs a task with a network, and one without.
func (r *rig) network() {
	with := r.sh("grep tap0 /proc/net/dev")
	with.Network = true
	r.wants(r.exit(r.launch(0, with)), planner.OK)
	r.wants(r.exit(r.launch(0, r.sh("! grep tap0 /proc/net/dev"))), planner.OK)
}

// setup is what the contract needs.
func (r *rig) setup() runtimetest.Setup {
	n := 0
	return runtimetest.Setup{Runtime: r.Runtime, Capabilities: &slurm.Capabilities, Nodes: len(r.site.Nodes),
		Hold: unit.Vector{unit.CPU: 1000, unit.Memory: 64 << 20}, Workflow: r.wf,
		Task: func(t *testing.T, w runtimetest.Work) *executor.TaskSpec {
			n++
			if w == runtimetest.Steady {
				return &executor.TaskSpec{Workflow: r.wf, Name: fmt.Sprint(n), Kind: "e", Cores: 1, Run: time.Minute}
			}
			s := r.sh(map[runtimetest.Work]string{runtimetest.Short: "true", runtimetest.Long: "sleep 300",
				runtimetest.Failing: "exit 1", runtimetest.Held: "until [ -e released ]; do sleep 0.1; done"}[w])
			s.Name = fmt.Sprint(n)
			return s
		},
		Release: func(t *testing.T, held *executor.TaskSpec) {
			r.must(os.WriteFile(filepath.Join(r.work(held), "released"), nil, 0o644))
		},
		File: func(t *testing.T) *executor.FileSpec {
			r.files++
			path := filepath.Join(r.config.Dir, "nodes", r.site.Nodes[0], "wf", "f")
			r.must(os.MkdirAll(filepath.Dir(path), 0o755))
			r.must(os.WriteFile(path, []byte("content"), 0o644))
			return &executor.FileSpec{ID: r.files, Name: "f", Produced: true, Final: true}
		}}
}
