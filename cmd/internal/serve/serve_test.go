package serve_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// lab is a directory with a server on the null runtime, where tasks end as they start.
type lab struct {
	*testing.T
	*api.Client
	dir   string
	set   session.Settings
	with  serve.Options
	view  *term.Progress
	stop  context.CancelFunc
	ended chan error
}

func newLab(t *testing.T, policy, cluster string) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "lab") // TMPDIR may be another user's, and a group's server is below root's alone
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, Client: api.NewClient(dir), dir: dir, set: session.Settings{Policy: policy, TimeScale: 1,
		SizeScale: 1, Runtime: "null", Serve: true, Cluster: nodes(t, cluster)}}
	l.with.Why = func(life *sqlite.Life) string { return life.Waits[len(life.Waits)-1].Reason }
	l.with.Differing = func(string, *session.Settings) ([]string, error) { return []string{"it differs"}, nil }
	t.Cleanup(func() {
		l.end()
		os.RemoveAll(dir)
	})
	return l
}

func nodes(t *testing.T, text string) *scenario.Cluster {
	t.Helper()
	c, err := scenario.ReadCluster(strings.NewReader("nodes: ["+text+"]"), "nodes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	executor.FillDisk(c)
	return c
}

// serve starts a server, and waits until it answers or has ended.
func (l *lab) serve() error {
	l.Helper()
	l.view = term.New(false)
	ctx, stop := context.WithCancel(l.Context())
	set, ended := l.set, make(chan error, 1)
	l.stop, l.ended = stop, ended
	go func() {
		ended <- serve.Run(ctx, &set, session.Options{Home: l.dir, Name: "lab", View: l.view}, l.with)
	}()
	for {
		if _, err := os.Lstat(filepath.Join(l.dir, api.SocketName)); err == nil { // which a server that ends removes
			_, err := l.About(l.Context())
			return err
		}
		select {
		case err := <-ended:
			l.ended = nil
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// end ends the server with work left.
func (l *lab) end() {
	if l.ended != nil {
		l.stop()
		<-l.ended
		l.ended = nil
	}
}

// submit hands in a workflow of some tasks of 10 s, as edit says.
func (l *lab) submit(key string, tasks int, edit func(s *executor.Submission)) (*api.Accepted, error) {
	l.Helper()
	s := &executor.Submission{Name: "w", Workflow: &trace.Workflow{Name: "w", Label: "w"}}
	for i := range tasks {
		s.Workflow.Tasks = append(s.Workflow.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: "k", Cores: 1, Retries: -1,
			Runtime: 10 * time.Second})
	}
	if edit != nil {
		edit(s)
	}
	definition, err := sqlite.EncodeSubmission(s)
	if err != nil {
		l.Fatal(err)
	}
	return l.Submit(l.Context(), &api.Submit{Key: key, Workflows: []api.Workflow{{Name: "w", Definition: definition}}})
}

// says wants an error with a text.
func (l *lab) says(err error, text string) {
	l.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		l.Errorf("%v, want %q", err, text)
	}
}

// must wants none.
func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// inAnHour has a workflow start no earlier than in an hour, on one core, and end within two hours.
func inAnHour(s *executor.Submission) { s.Class, s.Release, s.Due = planner.Deadline, 3600e9, 7200e9 }

// Work that waits for its release is predicted: three tasks of 10 s on two cores end 20 s after it.
func TestWorkIsExpected(t *testing.T) {
	l := newLab(t, "rm-dcwf", "{name: a, cores: 2}")
	l.must(l.serve())
	_, err := l.submit("k", 3, inAnHour)
	l.must(err)
	st, err := l.Expected(t.Context(), 1)
	l.must(err)
	e := st.Expected
	if e == nil || e.Start == nil || !e.Start.Equal(*st.Release) || e.End.Sub(*e.Start) != 20*time.Second ||
		!e.Low.Equal(e.High) || *e.Late {
		t.Errorf("it is expected %+v, and released at %v", e, st.Release)
	}
	_, err = l.submit("late", 1, func(s *executor.Submission) { s.Workflow.Tasks[0].Cores = 3 })
	l.says(err, "3 cores")
	_, err = l.submit("now", 1, nil)
	l.must(err)
	st, err = l.Wait(t.Context(), 2)
	if l.must(err); st.Done != 1 || !st.Over {
		t.Errorf("what can start at once: %+v", st)
	}
}

// A server that continues keeps the work and the nodes of its run, and says what differs.
func TestARunContinuesOnItsNodes(t *testing.T) {
	l := newLab(t, "cpp", "{name: a, cores: 2, memory: 4GB}, {name: b, cores: 1}")
	l.must(l.serve())
	_, err := l.submit("k", 1, inAnHour)
	l.must(err)
	l.end()
	l.set.Cluster = nodes(t, "{name: a, cores: 1, memory: 2GB}")
	l.must(l.serve())
	if told := fmt.Sprint(l.view.Told()); !strings.Contains(told, "it differs") {
		t.Errorf("%s: it does not say what differs", told)
	}
	all, err := l.Nodes(t.Context())
	if l.must(err); len(all) != 2 || all[0].Cores != 2 || all[1].Drained {
		t.Errorf("nodes: %+v", all)
	}
	q, err := l.Queue(t.Context(), api.QueueOf{})
	if l.must(err); len(q.Submissions) != 1 || q.Submissions[0].State != "waiting" {
		t.Errorf("%+v", q)
	}
}

// A request that is repeated, as its answer was lost, is the same submission: no drain refuses it.
func TestARepeatedRequestIsNotRefused(t *testing.T) {
	l := newLab(t, "cpp", "{name: a, cores: 4}")
	l.must(l.serve())
	again := func(when string) {
		t.Helper()
		if a, err := l.submit("one", 2, inAnHour); err != nil || len(a.IDs) != 1 || a.IDs[0] != 1 ||
			a.Names[0] != "w-1" {
			t.Errorf("%s the request is answered %+v (%v)", when, a, err)
		}
	}
	again("at first")
	l.end()
	l.must(l.serve())
	again("after a restart")
	l.must(l.Drain(t.Context(), api.Drain{}))
	again("while the server takes no more work")
}

// With a group the directory is root's, and its members may pass it.
func TestAServerOfAGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a server of several users needs root")
	}
	l := newLab(t, "cpp", "{name: a, cores: 1}")
	for says, with := range map[string]serve.Options{
		"this host has no such group":         {Group: "no-such-group"},
		"write USER=TENANT":                   {Group: "0", Tenants: []string{"root"}},
		"this host has no user no-such-user":  {Group: "0", Tenants: []string{"no-such-user=x"}},
		"counts for lab already":              {Group: "0", Tenants: []string{"root=lab", "0=other"}},
		"without --group all work is that of": {Tenants: []string{"root=lab"}},
	} {
		l.with.Group, l.with.Tenants = with.Group, with.Tenants
		l.says(l.serve(), says)
	}
	l.with.Group, l.with.Tenants, l.set.Reuse = "0", []string{"root=lab"}, true
	l.says(l.serve(), "--reuse: with --group all users would share")
	l.set.Reuse = false
	mine := filepath.Join(l.dir, "mine")
	l.must(os.WriteFile(mine, nil, 0o666))
	l.must(os.Lchown(mine, 47001, 0))
	l.says(l.serve(), "mine is not root's: a server of one user was started here")
	l.must(os.Lchown(mine, 0, 0))
	l.must(os.Chmod(l.dir, 0o777))
	l.says(l.serve(), "others than root may write to directory "+l.dir)
	l.must(os.Chmod(l.dir, 0o755))
	l.must(l.serve())
	for path, mode := range map[string]os.FileMode{l.dir: 0o750, mine: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode(), err, mode)
		}
	}
	l.must(l.Drain(t.Context(), api.Drain{}))
	l.must(<-l.ended)
	l.ended = nil
}
