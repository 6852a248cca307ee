package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/evidence"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/trace"
)

// soon expects whatever runs to end soon.
type soon struct{ *predict.Declared }

func (soon) Remaining(*planner.Task, *planner.Node, time.Duration) time.Duration {
	return 50 * time.Millisecond
}

// losing is a runtime of containers that loses node 1 once a container waits there while the first task runs.
type losing struct {
	*container.Runtime
	r      *rig
	engine container.Engine
	on     map[planner.NodeID]bool // nodes on which starts were prepared
	after  []planner.NodeID        // the same, once node 1 is lost
	first  string                  // the work directory of the first task
	lost   bool
	until  time.Time
}

func (l *losing) Prepare(ctx context.Context, soon []executor.Preparation) error {
	for _, s := range soon {
		l.on[s.Node] = true
		if l.lost {
			l.after = append(l.after, s.Node)
		}
	}
	return l.Runtime.Prepare(ctx, soon)
}

func (l *losing) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	if l.lost {
		return l.Runtime.Next(ctx, until)
	}
	bodies, err := l.Runtime.Next(ctx, min(until, l.Now().Add(50*time.Millisecond)))
	if err != nil || len(bodies) > 0 || !l.wait() {
		return bodies, err
	}
	l.lost = true
	l.r.must(os.WriteFile(filepath.Join(l.first, "released"), nil, 0o644)) // its children may start from now on
	return []planner.Body{planner.NodeChanged{Node: 1}}, nil
}

// wait reports whether the container of the first task runs, and one on node 1 that was started ahead.
func (l *losing) wait() bool {
	all, err := l.engine.List(l.r.ctx, container.LabelDir, l.r.config.Dir)
	l.r.must(err)
	if time.Now().After(l.until) {
		l.r.t.Fatalf("no container is started ahead on node 1 but on %v: %v", l.on, all)
	}
	running := 0
	for _, c := range all {
		if c.Status == evidence.Running {
			running++
		}
	}
	return running == 2 && l.on[1]
}

// What waits on a node that is lost is given up, and its task runs on the node that is left, once.
func TestWhatWaitsOnALostNodeIsGivenUp(t *testing.T) {
	if onOne(t, TestWhatWaitsOnALostNodeIsGivenUp) {
		return
	}
	r := newRig(t, func(c *container.Config) {
		c.Platform.Nodes[0].Capacity[unit.CPU] = 1000 // a task each
		twoNodes(c)
		c.Ahead = true
	})
	task := func(id, script string, parents ...int32) trace.Task {
		return trace.Task{ID: id, Name: id, Kind: "sh", Cores: 1, Retries: -1, Runtime: time.Second,
			Known: trace.Runtime, Command: []string{script}, Shell: true, Image: busybox, Parents: parents}
	}
	w := &trace.Workflow{Name: "wf", Label: "wf", Tasks: []trace.Task{
		task("first", "until [ -e released ]; do sleep 0.1; done"), task("a", "true", 0), task("b", "true", 0)}}
	w.Tasks[0].Children = []int32{1, 2}
	pol, err := policy.Parse("heft")
	r.must(err)
	e := r.engine()
	defer e.Close()
	l := &losing{Runtime: r.Runtime, r: r, engine: e, on: map[planner.NodeID]bool{},
		until: time.Now().Add(2 * time.Minute),
		first: filepath.Join(r.config.Dir, "work", "wf", "first-1")}
	declared := &predict.Declared{}
	var began []planner.NodeID
	run := &executor.Engine{Runtime: l, Planner: planner.New(r.config.Platform, planner.DefaultRetryRules(), pol,
		soon{declared}, 1), Arrivals: []executor.Submission{{Name: "wf", Workflow: w}},
		Admit: &executor.Admitter{Platform: r.config.Platform, TimeScale: 1, SizeScale: 1, Declare: declared.Declare},
		Watch: func(v planner.View, events []planner.Event, _ []*executor.Admission) {
			for _, ev := range events {
				if s, ok := ev.Body.(planner.AttemptStarted); ok {
					began = append(began, v.Attempt(s.Attempt).Node)
				}
			}
		}}
	_, err = run.Run(t.Context())
	r.must(err)
	left, failed := run.Planner.View().Progress(0)
	if !l.lost || left != 0 || failed != 0 || len(began) != 3 || began[1] != 0 || began[2] != 0 {
		t.Errorf("lost: %v; %d tasks left, %d failed; they began on nodes %v, want 0 alone", l.lost, left, failed,
			began)
	}
	for _, n := range l.after {
		if n == 1 {
			t.Errorf("after the loss starts were prepared on nodes %v, want 0 alone", l.after)
		}
	}
	r.must(r.Close())
	if names := r.containers(); len(names) > 0 {
		t.Errorf("containers left: %v", names)
	}
}
