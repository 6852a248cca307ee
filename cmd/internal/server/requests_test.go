package server_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gantry/cmd/api"
	"gantry/cmd/internal/serve"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/trace"
	"gantry/trace/scenario"
)

// desk is a server of a run on the null runtime, where tasks end as they start.
type desk struct {
	*testing.T
	*api.Client
	dir  string
	stop func()
}

// open opens a desk for a run on some nodes, or for the run that the directory has.
func open(t *testing.T, dir, nodes string) *desk {
	t.Helper()
	cluster, err := scenario.ReadCluster(strings.NewReader("nodes: ["+nodes+"]"), "nodes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	executor.FillDisk(cluster)
	set := &session.Settings{Policy: "cpp", TimeScale: 1, SizeScale: 1, Runtime: "null", Serve: true, Cluster: cluster}
	with := serve.Options{Why: func(l *sqlite.Life) string { return l.Waits[0].Reason },
		Differing: func(string, *session.Settings) ([]string, error) { return nil, nil }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, set, session.Options{Home: dir, Name: "lab", View: term.New(true)}, with)
	}()
	d := &desk{t, api.NewClient(dir), dir, sync.OnceFunc(func() { cancel(); <-ended })}
	t.Cleanup(d.stop)
	for {
		if _, err := d.About(t.Context()); err == nil {
			return d
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatal(err)
		default: // its host is busy
		}
	}
}

// must wants no error.
func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// refuses wants an error of the server's with a code and a text.
func (d *desk) refuses(err error, code api.Code, text string) {
	d.Helper()
	refused := new(api.Error)
	if !errors.As(err, &refused) || refused.Code != code || !strings.Contains(refused.Message, text) {
		d.Errorf("%v, want %s: %q", err, code, text)
	}
}

// tasks is a submission of some tasks of 20 s on a core, as edit says.
func (d *desk) tasks(n int, edit func(s *executor.Submission)) []byte {
	d.Helper()
	s := &executor.Submission{Name: "w", Workflow: &trace.Workflow{Name: "w", Label: "w"}}
	for i := range n {
		s.Workflow.Tasks = append(s.Workflow.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: "k", Cores: 1, Retries: -1,
			Runtime: 20 * time.Second})
	}
	if edit != nil {
		edit(s)
	}
	definition, err := sqlite.EncodeSubmission(s)
	d.must(err)
	return definition
}

// single is a single task, which may come after others.
func (d *desk) single(edit func(s *executor.Submission), after ...api.Dependency) api.Task {
	d.Helper()
	return api.Task{Workflow: "w", Definition: d.tasks(1, edit), After: after, Reads: []string{"/data/in"},
		Writes: []string{"/data/out"}, Labels: api.Labels{"of": "a test"}}
}

// task hands in a single task.
func (d *desk) task(edit func(s *executor.Submission), after ...api.Dependency) (int64, error) {
	a, err := d.Submit(d.Context(), &api.Submit{Tasks: []api.Task{d.single(edit, after...)}})
	if err != nil {
		return 0, err
	}
	return a.IDs[0], nil
}

// inAnHour has work arrive then.
func inAnHour(s *executor.Submission) { s.At = 3600e9 }

// Tasks of another tenant or another class are of another workflow. A task that arrives later is in none until then,
// and tasks that come after others wait with the server also when it starts again.
func TestSingleTasksHaveTenants(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, "{name: n, cores: 4}")
	_, err := d.ChangeNode(t.Context(), "n", api.ChangeNode{To: api.NodeDrained})
	d.must(err)
	lab := func(s *executor.Submission) { s.Tenant = "lab" }
	_, err = d.Submit(t.Context(), &api.Submit{Tasks: []api.Task{d.single(lab), d.single(lab)}})
	d.must(err)
	for i, edit := range []func(s *executor.Submission){lab,
		func(s *executor.Submission) { s.Tenant, s.Class = "lab", planner.Low },
		func(s *executor.Submission) { s.Tenant = "other" }, lab, inAnHour} {
		if id, err := d.task(edit); err != nil || id != int64(i+3) {
			t.Fatalf("task %d has number %d, %v", i+3, id, err)
		}
	}
	_, err = d.task(nil, api.Dependency{ID: 1}, api.Dependency{ID: 7, Ended: true})
	d.must(err)
	d.stop()
	d = open(t, dir, "{name: n, cores: 4}")
	q, err := d.Queue(t.Context(), api.QueueOf{})
	if err != nil || len(q.Submissions) != 8 || q.Server.Waiting != 8 || q.Server.Run != "lab" {
		t.Fatalf("%+v, %v", q, err)
	}
	first, seventh, last := q.Submissions[0], q.Submissions[6], q.Submissions[7]
	if first.Tenant != "lab" || first.Class != "regular" || first.Labels["of"] != "a test" ||
		!strings.Contains(seventh.Reason, "it is released at") ||
		last.Reason != "it comes after 1, 7 in whatever way it ends" {
		t.Errorf("%+v\n%+v\n%+v", first, seventh, last)
	}
	db, err := sqlite.Open(filepath.Join(dir, sqlite.FileName), sqlite.ReadOnly)
	d.must(err)
	defer db.Close()
	got, err := sqlite.RowOf[string](t.Context(), db, "SELECT group_concat(workflow, ' ') FROM (SELECT "+
		"coalesce(workflow, '-') AS workflow FROM submitted ORDER BY id)")
	if err != nil || got != "0 0 0 1 2 0 - -" {
		t.Errorf("the workflows of the tasks are %s, %v", got, err)
	}
	for _, id := range []int64{1, 7} { // one that has arrived, and one that has not
		if st, err := d.Cancel(t.Context(), id); err != nil || !st.Over || st.State != sqlite.Cancelled {
			t.Errorf("%d is cancelled: %+v, %v", id, st, err)
		}
	}
	if st, err := d.Wait(t.Context(), 8); err != nil || st.State != "cancelled" ||
		!strings.Contains(st.Message, "it comes after submission 1,") {
		t.Errorf("what comes after: %+v, %v", st, err)
	}
	_, err = d.Log(t.Context(), 7)
	d.refuses(err, api.Unknown, "was cancelled before it arrived")
	all, err := d.Tenants(t.Context())
	if err != nil || len(all.Tenants) != 2 || all.Tenants[0].Workflows+all.Tenants[1].Workflows != 3 {
		t.Errorf("%+v, %v", all, err)
	}
}

// Each single task is expected to start and end on its own, and what cannot start keeps nothing else from being
// predicted.
func TestSingleTasksArePredicted(t *testing.T) {
	d := open(t, t.TempDir(), "{name: big, cores: 4}, {name: small, cores: 1}")
	_, err := d.ChangeNode(t.Context(), "big", api.ChangeNode{To: api.NodeDrained})
	d.must(err)
	expected := func(edit func(s *executor.Submission), after ...api.Dependency) (int64, *api.Expected) {
		t.Helper()
		id, err := d.task(edit, after...)
		d.must(err)
		for {
			st, err := d.Expected(t.Context(), id)
			if d.must(err); st.Expected != nil {
				return id, st.Expected
			} // a busy host has no time for a prediction
		}
	}
	wide := func(s *executor.Submission) { s.Workflow.Tasks[0].Cores = 4 }
	first, a := expected(wide)
	_, b := expected(wide, api.Dependency{ID: first})
	third, c := expected(inAnHour)
	_, e := expected(nil, api.Dependency{ID: third})
	if !a.End.IsZero() || !b.End.IsZero() || !strings.Contains(a.Note, "cannot start on the nodes as they are") {
		t.Errorf("what cannot start is expected %+v and %+v", a, b)
	}
	if c.Start == nil || e.Start == nil || time.Until(*c.Start) < 50*time.Minute || e.Start.Before(c.End) ||
		e.End.Before(*e.Start) {
		t.Errorf("the third is expected %+v, the fourth %+v", c, e)
	}
}

// A run is changed under way by those who may; a submission is ended, and has a log of its own.
func TestARunIsAdministered(t *testing.T) {
	d := open(t, t.TempDir(), "{name: n, cores: 4, memory: 4GB}")
	n, err := d.ChangeNode(t.Context(), "n", api.ChangeNode{To: api.NodeSet, Cores: 0.5})
	if err != nil || n.Cores != 0.5 || n.Memory != 4e9 {
		t.Errorf("%+v, %v", n, err)
	}
	for _, x := range []struct {
		node string
		to   api.ChangeNode
		code api.Code
		says string
	}{{"x", api.ChangeNode{To: api.NodeWhole}, api.Unknown, "no node x"},
		{"n", api.ChangeNode{To: api.NodeSet, Cores: 9}, api.Invalid, "at most what it had"},
		{"n", api.ChangeNode{To: "up"}, api.Invalid, "not drained, whole or set"}} {
		_, err := d.ChangeNode(t.Context(), x.node, x.to)
		d.refuses(err, x.code, x.says)
	}
	later := func(s *executor.Submission) { s.Release = 3600e9 }
	a, err := d.Submit(t.Context(), &api.Submit{Key: "k", Workflows: []api.Workflow{
		{Name: "one", Definition: d.tasks(1, nil)}, {Name: "two", Definition: d.tasks(2, later)}}})
	if err != nil || fmt.Sprint(a.Names) != "[one-1 two-2]" {
		t.Fatalf("%+v, %v", a, err)
	}
	_, err = d.ChangeNode(t.Context(), "n", api.ChangeNode{To: api.NodeWhole})
	d.must(err)
	if st, err := d.Wait(t.Context(), 1); err != nil || st.State != "done" || st.Done != 1 || st.Node != "n" {
		t.Errorf("%+v, %v", st, err)
	}
	if log, err := d.Log(t.Context(), 1); err != nil || !strings.HasPrefix(string(log), "SQLite format 3") {
		t.Errorf("%d bytes of a log, %v", len(log), err)
	}
	flow := func(w api.Workflow, secrets map[string][]byte) *api.Submit {
		w.Name, w.Definition = "w", d.tasks(1, nil)
		return &api.Submit{Workflows: []api.Workflow{w}, Secrets: secrets}
	}
	longName := func(s *executor.Submission) { s.Workflow.Tasks[0].ID = strings.Repeat("x", 257) }
	single := func(n int, x api.Task) *api.Submit {
		x.Definition = d.tasks(n, nil)
		return &api.Submit{Tasks: []api.Task{x}}
	}
	again := flow(api.Workflow{}, nil)
	again.Key = "k"
	for says, req := range map[string]*api.Submit{
		"not both":               {Workflows: []api.Workflow{{}}, Tasks: []api.Task{{}}},
		"nothing is handed in":   {},
		"at most 64 bytes":       {Key: strings.Repeat("k", 65)},
		"cannot be read":         {Workflows: []api.Workflow{{Name: "w", Definition: []byte("x")}}},
		"was one of 2":           again,
		"starts no programs":     flow(api.Workflow{}, map[string][]byte{"a": nil}),
		"may have 24 labels":     flow(api.Workflow{Labels: api.Labels{"a": strings.Repeat("x", 9<<10)}}, nil),
		"does not plan ahead":    flow(api.Workflow{RejectLate: true}, nil),
		"is not absolute, or ha": single(1, api.Task{Reads: []string{"in"}}),
		"a single task is one":   single(2, api.Task{}),
		"at most 256 bytes":      {Tasks: []api.Task{d.single(longName)}},
		"it never fails":         single(1, api.Task{After: []api.Dependency{{ID: 1, Failed: true}}}),
	} {
		_, err := d.Submit(t.Context(), req)
		d.refuses(err, api.Invalid, says)
	}
	_, err = d.task(nil, api.Dependency{ID: 99})
	d.refuses(err, api.Unknown, "there is no submission 99")
	if st, err := d.Cancel(t.Context(), 2); err != nil || st.State != "cancelled" ||
		st.Message != executor.OnRequest {
		t.Errorf("%+v, %v", st, err)
	}
	for of, want := range map[*api.QueueOf]string{{}: "", {All: true}: "1 2 ", {All: true, IDs: []int64{2, 9}}: "1 2 ",
		{All: true, Users: []int{-1}}: ""} {
		q, err := d.Queue(t.Context(), *of)
		got := ""
		for _, st := range q.Submissions {
			got += fmt.Sprint(st.ID, " ")
		}
		if err != nil || got != want {
			t.Errorf("of %+v it lists %q, %v", of, got, err)
		}
	}
	d.must(d.Drain(t.Context(), api.Drain{Now: true}))
}
