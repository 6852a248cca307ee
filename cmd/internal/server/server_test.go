package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/trace"
)

// Who asks for what panics gets an answer at once, and the operator gets what was asked and where it failed. The server
// continues.
func TestAHandlerThatPanics(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(dir, OwnerOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	told := make(chan string, 1)
	s := New(Config{Fault: func(message string) { told <- message },
		Allow: func(Peer) bool { panic("no such shelf") }})
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	for range 2 {
		_, err := api.NewClient(dir).Status(t.Context(), 7)
		refused := new(api.Error)
		if !errors.As(err, &refused) || refused.Code != api.Failed ||
			!strings.HasPrefix(refused.Message, "GET /v2/submissions/7 failed by a fault of gantry's own") {
			t.Fatalf("the client gets %v", err)
		}
		text := <-told
		for _, want := range []string{"GET /v2/submissions/7 of user ", "no such shelf", "TestAHandlerThatPanics"} {
			if !strings.Contains(text, want) {
				t.Errorf("the operator is not told %q:\n%s", want, text)
			}
		}
	}
}

// What cannot be written as JSON is a fault like any other, and never an answer that went well.
func TestAnAnswerThatCannotBeWritten(t *testing.T) {
	s, w, r := New(Config{}), httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v2/server", nil)
	func() {
		defer s.admit(w, r)
		answer(w, http.StatusOK, json.RawMessage("{"))
	}()
	if w.Code == http.StatusOK || !strings.Contains(w.Body.String(), `"code":"failed"`) {
		t.Errorf("it answers %d %s", w.Code, w.Body)
	}
}

// A client whose server said why it ends says so when no other one comes.
func TestAServerThatHasEnded(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(dir, OwnerOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	s := New(Config{Owner: os.Geteuid()})
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, errors.Join(l.Unlink(), fmt.Errorf("%w: the disk is full", executor.ErrClosed)))
	})
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	cl, said := api.NewClient(dir), []string{}
	cl.Patience, cl.Silence = 200*time.Millisecond, 100*time.Millisecond
	told := make(chan string, 10)
	cl.Notify = func(text string) { told <- text }
	err = cl.Drain(t.Context(), api.Drain{})
	if !errors.Is(err, api.ErrNoServer) || !strings.Contains(err.Error(), "the server has ended (the run takes no "+
		"more requests: the disk is full)") {
		t.Errorf("the client says %v", err)
	}
	for len(told) > 0 {
		said = append(said, <-told)
	}
	if len(said) != 1 || !strings.Contains(said[0], "the server does not answer") {
		t.Errorf("meanwhile it says %q", said)
	}
}

// The requests of one user together take a bounded memory, whatever they claim, until they are answered.
func TestWhatAUserHandsInAtOnceIsBounded(t *testing.T) {
	most := mostAmount
	t.Cleanup(func() { mostAmount = most })
	mostAmount.objects, mostAmount.elements = most.objects>>10, most.elements>>10
	list := []byte(`{"Name":"w","Workflow":{"Tasks":[{"ID":"a","Command":["x"` + strings.Repeat(`,""`, 9<<10) + `]}]}}`)
	s, refused := New(Config{Platform: &planner.Platform{}}), new(api.Error)
	hand := func(by Peer, n int) (done func(), err error) {
		take, done := s.taking(by)
		req := &api.Submit{Key: "k"}
		for range n {
			req.Workflows = append(req.Workflows, api.Workflow{Name: "w", Definition: list})
		}
		_, err = s.itemsOf(req, by, take)
		return done, err
	}
	done, err := hand(Peer{UID: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	end, err := hand(Peer{UID: 1}, 1)
	if !errors.As(err, &refused) || refused.Code != api.Full {
		t.Errorf("a second request under way: %v", err)
	}
	end()
	if end, err = hand(Peer{UID: 2}, 1); err != nil {
		t.Errorf("a request of another user: %v", err)
	}
	end()
	done()
	if end, err = hand(Peer{UID: 1}, 2); !errors.As(err, &refused) || refused.Code != api.Invalid {
		t.Errorf("two at once: %v", err)
	}
	end()
	if len(s.underWay) > 0 {
		t.Errorf("at the end %v is under way", s.underWay)
	}
	many := `{"workflows":[{}` + strings.Repeat(",{}", 3<<10) + "]}"
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(many))
	take, done := s.taking(Peer{})
	defer done()
	if _, err := readWork(r, take); !errors.As(err, &refused) || refused.Code != api.Invalid {
		t.Errorf("a request of three thousand workflows: %v", err)
	}
}

// Ten thousand tasks may come after the same ten thousand: each of those is looked up once, and no more than that.
func TestDependenciesOfARequestAreBounded(t *testing.T) {
	s, by := New(Config{}), Peer{UID: 1} // without a log, a query of which panics
	known := earlier{}
	var after []executor.Dependency
	for id := range int64(api.MaxTogether) {
		o := &sqlite.Outcome{Submitted: sqlite.Submitted{ID: id, UID: 1, State: "running"}}
		known[id], after = o, append(after, executor.Dependency{ID: id})
	}
	if left, err := s.dependencies(t.Context(), after, by, known); err != nil || len(left) != len(after) {
		t.Errorf("%d are left, %v", len(left), err)
	}
	refused := new(api.Error)
	_, err := s.dependencies(t.Context(), []executor.Dependency{{ID: 1 << 40}}, by, known)
	if !errors.As(err, &refused) || refused.Code != api.Invalid {
		t.Errorf("one more: %v", err)
	}
}

// A task may come after a submission to an earlier run that was cancelled before it arrived.
func TestATaskMayComeAfterWhatNeverArrived(t *testing.T) {
	known := earlier{7: {Submitted: sqlite.Submitted{ID: 7, Run: "before", UID: 1,
		State: sqlite.Cancelled, Workflow: planner.None, Task: planner.None}}}
	left, err := New(Config{}).dependencies(t.Context(), []executor.Dependency{{ID: 7, Ended: true}}, Peer{UID: 1},
		known)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// Earlier tasks are read while nobody else waits, and not again at once.
func TestTailsAreReadOutsideOfTheLock(t *testing.T) {
	s, by := New(Config{}), Peer{UID: 1} // without a log, a query of which panics
	k := kind{"w", "k"}
	s.tails[1] = tails{time.Now(), map[kind]time.Duration{k: time.Hour}}
	s.entering.Lock()
	defer s.entering.Unlock()
	h := handed{single: true, more: options{Workflow: "w", Reads: []string{"/x"}},
		sub: &executor.Submission{Workflow: &trace.Workflow{Tasks: []trace.Task{{ID: "a", Kind: "k"}}}}}
	if got := s.tailsFor(t.Context(), []handed{h}, by); got[k] != time.Hour {
		t.Errorf("it learns %v", got)
	}
	h.more.Reads = nil
	if got := s.tailsFor(t.Context(), []handed{h}, by); got != nil {
		t.Errorf("it learns %v, which no task needs", got)
	}
}

// A user has a bounded number of connections, and others have theirs.
func TestConnectionsOfAUserAreBounded(t *testing.T) {
	s, open := New(Config{}), func(c net.Conn) bool { return c.SetDeadline(time.Now()) == nil }
	var all []net.Conn
	for range mostOpen + 2 {
		c, _ := net.Pipe()
		defer c.Close()
		s.count(c, http.StateNew)
		all = append(all, c)
	}
	if !open(all[mostOpen-1]) || open(all[mostOpen]) {
		t.Error("another number of connections is open")
	}
	for _, c := range all {
		s.count(c, http.StateClosed)
	}
	if len(s.open)+len(s.connected) > 0 {
		t.Errorf("at the end %v are open", s.open)
	}
}

// deadlined notes until when an answer may be read.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.until = at
	return nil
}

// Clients that do not read their answers hold neither the answers nor a place of others.
func TestClientsThatDoNotReadAreLeft(t *testing.T) {
	s, w := New(Config{}), &deadlined{ResponseRecorder: httptest.NewRecorder()}
	if answer(w, http.StatusOK, 1); time.Until(w.until) <= 0 {
		t.Error("an answer may take for ever to be read")
	}
	for range mostReading {
		if s.turn(t.Context(), 1) == nil {
			t.Fatal("there is no place")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if s.turn(ctx, 1) != nil {
		t.Error("a user reads one log more than it may")
	}
	if s.turn(t.Context(), 2) == nil {
		t.Error("another user waits for it")
	}
}
