package docker_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/container/oci"
	"gantry/executor/runtimetest"
	"gantry/planner"
	"gantry/planner/unit"
)

// busybox is an image of make images.
const busybox = "gantry/busybox:latest"

// built is the directory of programs that tests build.
var built = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "gantry-built") })

// taskBinary builds the task emulator, unless $GANTRY_TASK names one, or $GANTRY_TEST_BIN the directory of one.
var taskBinary = sync.OnceValues(func() (string, error) {
	if os.Getenv(docker.TaskBinaryEnv) != "" {
		return docker.FindTaskBinary()
	}
	if bin := os.Getenv("GANTRY_TEST_BIN"); bin != "" {
		return filepath.Join(bin, "gantry-task"), nil
	}
	dir, err := built()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "gantry-task")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "gantry/cmd/gantry-task")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	if os.Getenv(archiveEnv) != "" {
		if err := oci.Enter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := runtimetest.SideBySide(m)
	if dir, err := built(); err == nil {
		os.RemoveAll(dir)
	}
	removeStore()
	os.Exit(code)
}

// rig is a runtime over the real engine.
type rig struct {
	*container.Runtime
	t      testing.TB
	ctx    context.Context
	host   string // of the engine
	config container.Config
	wf     *executor.WorkflowSpec
	next   planner.AttemptID
	files  planner.FileID
	seen   []planner.Body
	mu     sync.Mutex // of warned
	warned map[string]string
}

// engine skips without a Docker Engine.
func engine(t testing.TB) {
	t.Helper()
	if daemonless(t) && os.Getenv(archiveEnv) != "" {
		return
	}
	cli, err := docker.Connect(t.Context(), "")
	if err != nil {
		t.Skipf("needs a Docker Engine: %v", err)
	}
	defer cli.Close()
	if _, err := cli.ImageInspect(t.Context(), busybox); err != nil {
		t.Skipf("needs the image %s (make images): %v", busybox, err)
	}
}

// settings is the configuration of a run with one node of one core, or of as many as change makes.
func settings(t testing.TB, change func(*container.Config)) container.Config {
	t.Helper()
	engine(t)
	binary, err := taskBinary()
	must(t, err)
	capacity := unit.Vector{unit.CPU: 2000, unit.Memory: 1 << 30, unit.Disk: unit.Unlimited}
	name := fmt.Sprintf("test-%s-%x", strings.ToLower(strings.Map(letters, t.Name())), time.Now().UnixNano()&0xffffff)
	dir := filepath.Join(t.TempDir(), name)
	must(t, os.Mkdir(dir, 0o755))
	cfg := container.Config{Run: name, Dir: dir, TaskBinary: binary, Version: "test",
		Platform: &planner.Platform{Nodes: []planner.Node{{ID: 0, Name: "n0", Capacity: capacity, Speed: 1}},
			Groups:    []string{""},
			Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

func newRig(t testing.TB, change func(*container.Config)) *rig {
	t.Helper()
	return open(t, "", settings(t, change))
}

// newRigAt makes a rig on the engine at host.
func newRigAt(t testing.TB, host string, change func(*container.Config)) *rig {
	t.Helper()
	return open(t, host, settings(t, change))
}

// open makes a runtime on the engine at host, or on what around makes of that; its containers are gone when the test
// ends.
func open(t testing.TB, host string, cfg container.Config, around ...func(container.Engine) container.Engine) *rig {
	t.Helper()
	r := &rig{t: t, ctx: t.Context(), wf: &executor.WorkflowSpec{Name: "wf"}, warned: map[string]string{}}
	cfg.Warn = func(rule, message string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.warned[rule] = message
	}
	r.host, r.config = host, cfg
	if daemonless(t) {
		id := storedBusybox(t)
		r.config.Image = func(name string) string {
			if name == busybox {
				return id
			}
			return ""
		}
		cfg = r.config
	}
	e := r.engine()
	for _, f := range around {
		e = f(e)
	}
	rt, err := container.New(t.Context(), e, cfg)
	must(t, err)
	r.Runtime = rt
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		r.host, r.config.Patience = "", 0 // the way there may be closed, and the engine still start a container
		if _, err := container.Clean(context.Background(), r.engine(), filepath.Dir(cfg.Dir), cfg.Run,
			true); err != nil {
			t.Error(err)
		}
	})
	return r
}

// engine makes an engine of the rig's kind, for another gantry or somebody else.
func (r *rig) engine() container.Engine {
	r.t.Helper()
	var e container.Engine
	var err error
	if daemonless(r.t) {
		e, err = oci.Open(oci.Config{Dirs: []string{r.config.Dir}, Images: store})
	} else {
		e, err = docker.Open(context.Background(), r.host, r.config.TaskBinary, r.config.Patience)
	}
	r.must(err)
	return e
}

// warnings are all that gantry has warned of.
func (r *rig) warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.warned))
}

func (r *rig) must(err error) {
	r.t.Helper()
	must(r.t, err)
}

// sh is a real task that runs a script on busybox.
func (r *rig) sh(script string, files ...*executor.FileSpec) *executor.TaskSpec {
	return &executor.TaskSpec{Workflow: r.wf, Name: fmt.Sprintf("task %d/é", r.next), Kind: "sh",
		Command: []string{script}, Shell: true,
		Image: busybox, Outputs: files}
}

// emulated is a task without a command.
func (r *rig) emulated() *executor.TaskSpec {
	return &executor.TaskSpec{Workflow: r.wf, Name: fmt.Sprintf("emulated %d", r.next), Kind: "e", Cores: 1}
}

func (r *rig) file(name string) *executor.FileSpec {
	r.files++
	return &executor.FileSpec{ID: r.files, Name: name, Produced: true, Final: true}
}

func (r *rig) launch(spec *executor.TaskSpec, change func(*executor.Launch)) planner.AttemptID {
	r.t.Helper()
	l := executor.Launch{Attempt: r.next, Task: planner.TaskID(r.next), Try: 1, Node: 0,
		Hold:   unit.Vector{unit.CPU: 1000, unit.Memory: 64 << 20},
		Queued: r.Now(), Spec: spec}
	if change != nil {
		change(&l)
	}
	r.next++
	r.must(r.Start(r.ctx, l))
	return l.Attempt
}

// until waits for a body and keeps it and those before it.
func (r *rig) until(f func(planner.Body) bool) planner.Body {
	r.t.Helper()
	for at := 0; ; {
		for ; at < len(r.seen); at++ {
			if f(r.seen[at]) {
				return r.seen[at]
			}
		}
		bodies, err := r.Next(r.ctx, r.Now().Add(10*time.Minute))
		r.must(err)
		if len(bodies) == 0 {
			r.t.Fatal("nothing happened for ten minutes")
		}
		r.seen = append(r.seen, bodies...)
	}
}

func (r *rig) started(a planner.AttemptID) {
	r.t.Helper()
	r.until(func(b planner.Body) bool { return b == planner.AttemptStarted{Attempt: a} })
}

func (r *rig) exit(a planner.AttemptID) *planner.AttemptExited {
	r.t.Helper()
	x := r.until(func(b planner.Body) bool {
		x, ok := b.(*planner.AttemptExited)
		return ok &&
			x.Attempt == a
	}).(*planner.AttemptExited)
	r.must(r.Forget(r.ctx, a))
	return x
}

// work is the work directory of a task's first try.
func (r *rig) work(t *executor.TaskSpec) string {
	return filepath.Join(r.config.Dir, "work", executor.EscapeName(t.Workflow.Name), executor.EscapeName(t.Name)+"-1")
}

func (r *rig) node(n int, name string) string {
	return filepath.Join(r.config.Dir, "nodes", r.config.Platform.Nodes[n].Name, "wf", name)
}

func (r *rig) read(path string) string {
	r.t.Helper()
	b, err := os.ReadFile(path)
	r.must(err)
	return string(b)
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

func TestContract(t *testing.T) {
	t.Parallel() // executor/container/oci has that of an OCI runtime
	runtimetest.Run(t, func(t *testing.T) runtimetest.Setup {
		r := newRig(t, twoNodes)
		n := 0
		return runtimetest.Setup{Runtime: r.Runtime, Capabilities: capabilities(t), Nodes: 2,
			Hold:     unit.Vector{unit.CPU: 1000, unit.Memory: 32 << 20},
			Workflow: r.wf,
			Task: func(t *testing.T, w runtimetest.Work) *executor.TaskSpec {
				n++
				if w == runtimetest.Steady {
					return &executor.TaskSpec{Workflow: r.wf, Name: fmt.Sprint(n), Kind: "e", Cores: 1,
						Run: time.Minute}
				}
				s := r.sh(map[runtimetest.Work]string{runtimetest.Short: "true", runtimetest.Long: "sleep 300",
					runtimetest.Failing: "exit 1",
					runtimetest.Held:    "until [ -e released ]; do sleep 0.1; done"}[w])
				s.Name = fmt.Sprint(n)
				return s
			},
			Release: func(t *testing.T, held *executor.TaskSpec) {
				r.must(os.WriteFile(filepath.Join(r.work(held), "released"), nil, 0o644))
			},
			File: func(t *testing.T) *executor.FileSpec {
				f := r.file("f")
				r.must(os.MkdirAll(filepath.Dir(r.node(0, "f")), 0o755))
				r.must(os.WriteFile(r.node(0, "f"), []byte("content"), 0o644))
				return f
			}}
	})
}

// twoNodes makes nodes n0 and n1, of different groups.
func twoNodes(c *container.Config) {
	p := c.Platform
	n := p.Nodes[0]
	n.ID, n.Name, n.Group = 1, "n1", 1
	p.Nodes, p.Groups = append(p.Nodes, n), []string{"a", "b"}
	p.Bandwidth = [][]unit.BytesPerSecond{{0, 0}, {0, 0}}
	p.Latency = [][]int64{{0, 0}, {0, 0}}
}
