// Package server takes work for a run that is under way: it answers the requests of package api, logs submissions
// before it answers, and gives them to the engine. A served run is a run like any other whose engine has an inbox
// (executor.Inbox) and does not end while that is open.
//
// Handlers run on goroutines of their own. Their work on the run is done on the engine's goroutine, in a turn and at
// its instant: it becomes events like any others, is logged with the turn, and only then answered. So policies, replay
// and simulations know nothing of servers.
//
// A submission is acknowledged before the engine has it. The handler checks it, commits it to the table submitted of
// the log in a transaction of its own, posts it to the inbox and answers. So a submission is as quick while a round is
// planned, and a full disk refuses it cleanly. The batch with its arrival marks the row as arrived. After a crash,
// Restore returns the rows that did not arrive. Each request has a random key: a repeated request is the same
// submission.
//
// Clients read workflow files with the rights of their users, and send submissions as JSON. Bounds of the amount of
// JSON (amount.go) and CheckSubmission take these as any hostile file; then the engine's own Admitter tries them.
// Limits of waiting tasks and of the disk are checked here, when work is accepted. The draft checks limits of cores
// (planner/quota.go).
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// Config has the parts that a server connects.
type Config struct {
	DB       *sqlite.DB
	Run      *sqlite.Run
	Inbox    *executor.Inbox
	Platform *planner.Platform
	About    api.Server          // the server, but for its numbers and states
	Now      func() planner.Time // on the axis of the run
	// Check returns an error if a submission cannot run here. It fetches images and other files of the submission,
	// which may take long. It may be called for several at once.
	Check func(ctx context.Context, sub *executor.Submission) error
	// Stop has the engine start nothing more.
	Stop func()
	// Expect predicts when workflows and single tasks start and end, as of an instant after since if that can be had
	// before the end of ctx. The note says why nothing is predicted. nil: nothing ever is.
	Expect func(ctx context.Context, since time.Time) (all Expectations, note string, err error)
	// Why says why a task that could start does not, while others are under way; nil: nobody knows.
	Why   func(ctx context.Context, t planner.TaskID, others *UnderWay) string
	Owner int // the user of the server
	// Shared says that submissions run with the rights of their users. Else they have those of the server.
	Shared bool
	// Tenant says which tenant a user counts for that hands something in; nil, or "": whichever it names.
	Tenant func(user string) string
	// Allow reports whether a peer may ask; nil: every peer that can open the socket may.
	Allow func(by Peer) bool
	// Secrets keeps those of submissions; nil: there can be none.
	Secrets Secrets
	// Fault takes a message for the operator about a fault of the server's own. It may be called from any goroutine.
	Fault func(message string)
}

// Server answers requests. Its methods may be called from any goroutine.
type Server struct {
	Config
	http http.Server

	entering sync.Mutex   // held from the check of limits until the loads count the new tasks
	intake   sync.RWMutex // held for reading from when work is accepted until the engine has it
	drained  bool         // guarded by intake
	faulty   atomic.Int64 // requests whose handler panicked

	mu        sync.Mutex
	entries   map[int64]*entry        // submissions that are not over
	places    map[place]*entry        // those that have arrived
	waiters   map[int64]chan struct{} // closed when a submission may be over
	holders   map[string]int          // submissions that are not over, by the key of their secrets
	underWay  map[int]amount          // requests that hand in work, by user
	connected map[net.Conn]int        // users of connections
	open      map[int]int             // connections, by user
	reading   map[int]chan struct{}   // a place for each log that is sent, by user

	tails map[int]tails // by user; guarded by mu
}

// entry is a submission that is not over.
type entry struct {
	sqlite.Submitted
	release, due planner.Time // on the axis of the run; 0: none
	class        planner.Class
	tasks        int
	arrived      bool
	single       bool
	flow         string       // name of its workflow; of a single task: as long as that has not arrived
	planned      bool         // the policy has predicted its end
	promised     planner.Time // when it is to end by that
	text         string       // how that is to its deadline
}

// place is where a submission is in the run; its task is planner.None if it is a workflow.
type place struct {
	workflow planner.WorkflowID
	task     planner.TaskID
}

func (e *entry) place() place {
	if e.single {
		return place{e.Workflow, e.Task}
	}
	return place{e.Workflow, planner.None}
}

// over reports whether a submission that has arrived is over.
func (e *entry) over(v planner.View) bool {
	if e.single {
		return v.Phase(e.Task).Ended()
	}
	left, _ := v.Progress(e.Workflow)
	return left == 0
}

// UnderWay counts the attempts under way at the time of a request, and names the tasks of the first.
type UnderWay struct {
	Names []string
	Count int
}

// mostNamed bounds Names.
const mostNamed = 5

// Expectations are those of workflows and of single tasks.
type Expectations struct {
	Of      map[Expected]Expectation
	Unknown string // why instants are not known; "" if all are
}

// Expected is a workflow by its name, or a single task that has arrived. One that has not is to have a workflow of its
// own.
type Expected struct {
	Workflow string         // "" of a task
	Task     planner.TaskID // planner.None of a workflow
}

func (x *Expectations) of(e *entry) (f Expectation, known bool) {
	of := Expected{e.flow, planner.None}
	if e.single && e.arrived {
		of = Expected{Task: e.Task}
	}
	f, known = x.Of[of]
	return f, known
}

// Expectation is when something is expected to start and end, on the axis of the run, each within an interval.
// Unit.Never means not known. The zero value means that it cannot start on the nodes as they are.
type Expectation struct{ Start, StartLow, StartHigh, End, Low, High planner.Time }

// New returns a server. Restore adds the submissions in the log that are not over.
func New(cfg Config) *Server {
	s := &Server{Config: cfg, entries: map[int64]*entry{}, places: map[place]*entry{},
		waiters: map[int64]chan struct{}{}, holders: map[string]int{}, tails: map[int]tails{},
		underWay: map[int]amount{}, connected: map[net.Conn]int{}, open: map[int]int{},
		reading: map[int]chan struct{}{}}
	if s.Fault == nil {
		s.Fault = func(string) {}
	}
	mux := http.NewServeMux()
	for pattern, f := range map[string]handler{
		"GET /server":                    s.about,
		"POST /submissions":              s.submit,
		"GET /submissions":               s.queue,
		"GET /submissions/{id}":          ofOne(s.status),
		"DELETE /submissions/{id}":       ofOne(s.cancel),
		"GET /submissions/{id}/expected": ofOne(s.expected),
		"GET /submissions/{id}/log":      ofOne(s.log),
		"GET /tenants":                   s.tenants,
		"GET /nodes":                     s.listNodes,
		"POST /nodes/{name}":             administering(s, s.changeNode),
		"POST /drain":                    administering(s, s.drain),
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+api.Prefix+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, f) })
	}
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.admit(w, r)
		readWithin(w, 0)
		mux.ServeHTTP(w, r)
	})
	s.http.ReadHeaderTimeout, s.http.ReadTimeout = 10*time.Second, 5*time.Minute
	s.http.MaxHeaderBytes = 16 << 10
	s.http.ConnState = s.count
	s.http.ErrorLog = log.New(faults(s.Fault), "", 0)
	s.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		by, err := peerOf(c)
		if err != nil {
			return ctx // no peer: every request is refused
		}
		return context.WithValue(ctx, peerKey{}, by)
	}
	return s
}

type peerKey struct{}

// Bounds of each user.
const (
	mostOpen    = 1000 // connections
	mostReading = 2    // logs that are sent at once
)

// count closes connections that a user has beyond its bound.
func (s *Server) count(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		by, err := peerOf(c)
		if err != nil {
			by.UID = -1 // it is refused whatever it asks
		}
		s.connected[c] = by.UID
		if s.open[by.UID]++; s.open[by.UID] > mostOpen {
			_ = c.Close()
		}
	case http.StateClosed:
		uid := s.connected[c]
		delete(s.connected, c)
		if s.open[uid]--; s.open[uid] == 0 {
			delete(s.open, uid)
		}
	}
}

// turn waits until a user may read one more log. Done gives the place back; it is nil if the request ends before.
func (s *Server) turn(ctx context.Context, uid int) (done func()) {
	s.mu.Lock()
	places := s.reading[uid]
	if places == nil {
		places = make(chan struct{}, mostReading)
		s.reading[uid] = places
	}
	s.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }
	case <-ctx.Done():
		return nil
	}
}

// readWithin lets a client take that long to read the answer; 0 is as long as it likes.
func readWithin(w http.ResponseWriter, d time.Duration) {
	at := time.Time{}
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(at) // tests answer to no connection
}

// How long clients may take to read answers, and logs.
const (
	answerTime = time.Minute
	logTime    = 5 * time.Minute
)

// Restore takes in the submissions in the log that are not over, before Serve. It returns those that have not arrived,
// by arrival.
func (s *Server) Restore(ctx context.Context, v planner.View) ([]executor.Submission, error) {
	waiting, err := s.Run.Waiting(ctx)
	if err != nil {
		return nil, err
	}
	var subs []executor.Submission
	for _, row := range waiting {
		sub, err := restored(&row)
		if err != nil {
			return nil, err
		}
		subs = append(subs, *sub)
		s.add(row, sub)
	}
	entered, err := s.Run.Entered(ctx)
	if err != nil {
		return nil, err
	}
	present := map[planner.WorkflowID]bool{}
	for _, w := range v.Present() {
		present[w] = true
	}
	for _, row := range entered {
		if row.State == sqlite.Arrived && present[row.Workflow] {
			s.addArrived(v, row)
		}
	}
	s.sweepSecrets()
	return subs, nil
}

// addArrived takes in a submission that has arrived, unless it is over.
func (s *Server) addArrived(v planner.View, row sqlite.Submitted) {
	flow := v.Workflow(row.Workflow)
	e := &entry{Submitted: row, flow: row.Name, release: flow.Release, due: flow.Due, class: flow.Class, arrived: true,
		single: row.Kind == sqlite.KindTask, tasks: 1}
	if e.over(v) {
		return
	}
	if !e.single {
		e.tasks = 0
		for range v.All(row.Workflow) {
			e.tasks++
		}
	}
	if e.due == unit.Never {
		e.due = 0
	}
	s.entries[row.ID], s.places[e.place()] = e, e
	s.holdLocked(&row)
}

// add takes in a submission that was accepted.
func (s *Server) add(row sqlite.Submitted, sub *executor.Submission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[row.ID] = &entry{Submitted: row, flow: sub.Name, release: sub.Release, due: sub.Due, class: sub.Class,
		tasks: len(sub.Workflow.Tasks), single: row.Kind == sqlite.KindTask}
	s.holdLocked(&row)
}

// Serve answers requests until Close. The listener is closed with it.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// farewell is how long Close waits for answers to be read.
const farewell = 5 * time.Second

// Close has the server answer all waiting requests, and ends Serve.
func (s *Server) Close() error {
	s.mu.Lock()
	for id := range s.waiters {
		s.wakeLocked(id)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

// handler makes the answer to a request: a value for JSON, or a handler that writes it.
type handler func(ctx context.Context, r *http.Request, by Peer) (any, error)

// ofOne is a handler of requests about one submission.
func ofOne(f func(ctx context.Context, id int64, r *http.Request, by Peer) (any, error)) handler {
	return func(ctx context.Context, r *http.Request, by Peer) (any, error) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil || id < 1 {
			return nil, invalidf("%q is no id of a submission: gantry submit prints it", r.PathValue("id"))
		}
		return f(ctx, id, r, by)
	}
}

// administering is a handler of requests that only root and the user of the server may make.
func administering[T any](s *Server, f func(ctx context.Context, r *http.Request, req *T) (any, error)) handler {
	return func(ctx context.Context, r *http.Request, by Peer) (any, error) {
		if by.UID != 0 && by.UID != s.Owner {
			return nil, &api.Error{Code: api.Denied, Message: "only root and the user of the server may do that"}
		}
		req := new(T)
		if err := json.NewDecoder(r.Body).Decode(req); err != nil {
			return nil, invalidf("the request cannot be read: %v", err)
		}
		return f(ctx, r, req)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, f handler) {
	r.Body = http.MaxBytesReader(w, r.Body, api.MaxRequest)
	by, known := r.Context().Value(peerKey{}).(Peer)
	var out any
	var err error = &api.Error{Code: api.Denied, Message: "this server belongs to another user"}
	if known && (s.Allow == nil || s.Allow(by)) {
		out, err = f(r.Context(), r, by)
	}
	if err != nil {
		refuse(w, err)
	} else if h, ok := out.(http.HandlerFunc); ok {
		h(w, r)
	} else {
		answer(w, http.StatusOK, out)
	}
}

// mostStacks bounds how many faults are printed with their stacks: a client may repeat a request that causes one.
const mostStacks = 100

// admit answers a request whose handler panicked, and tells the operator, since only the operator can act on a fault.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) {
	fault := recover()
	if fault == nil {
		return
	}
	by, _ := r.Context().Value(peerKey{}).(Peer)
	text := fmt.Sprintf("%s %s of user %d failed by a fault of gantry's own: %v", r.Method, r.URL, by.UID, fault)
	if s.faulty.Add(1) <= mostStacks {
		text += "\n" + string(debug.Stack())
	}
	s.Fault(text)
	refuse(w, fmt.Errorf("%s %s failed by a fault of gantry's own, and may have been carried out or not (gantry queue "+
		"and gantry show say); gantry serve has printed the fault, for its operator to report", r.Method, r.URL.Path))
}

// faults takes in the lines of a logger.
type faults func(message string)

func (f faults) Write(line []byte) (int, error) {
	f(strings.TrimSpace(string(line)))
	return len(line), nil
}

func refuse(w http.ResponseWriter, err error) {
	status, refused := http.StatusBadRequest, new(api.Error)
	if !errors.As(err, &refused) {
		refused = &api.Error{Code: api.Failed, Message: err.Error()}
		switch {
		case errors.Is(err, executor.ErrClosed):
			refused.Code = api.Ending
		case sqlite.IsDisk(err):
			refused.Code = api.Full
		case errors.As(err, new(*sqlite.Unknown)):
			refused.Code = api.Unknown
		}
	}
	if refused.Code == api.Full {
		status = http.StatusInsufficientStorage
	}
	answer(w, status, refused)
}

func answer(w http.ResponseWriter, status int, out any) {
	text, err := json.Marshal(out)
	if err != nil {
		panic(fmt.Errorf("write the answer: %w", err)) // nothing of it is under way
	}
	readWithin(w, answerTime)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that is gone asks again
}

// invalidf is the answer to a request that is wrong.
func invalidf(format string, args ...any) error {
	return &api.Error{Code: api.Invalid, Message: fmt.Sprintf(format, args...)}
}

// readWork reads the body of a request that hands in work.
func readWork(r *http.Request, take func(amount) error) (req api.Submit, err error) {
	n := r.ContentLength
	if n < 0 || n > api.MaxRequest {
		n = api.MaxRequest
	}
	if err := take(amount{bytes: int(n)}); err != nil {
		return req, err
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return req, invalidf("the request cannot be read: %v", err)
	}
	a, err := amountOf(text)
	if err != nil {
		return req, invalidf("the request cannot be read: %v", err)
	}
	if err := take(a); err != nil {
		return req, err
	}
	if err := json.Unmarshal(text, &req); err != nil {
		return req, invalidf("the request cannot be read: %v", err)
	}
	return req, nil
}

func (s *Server) drain(_ context.Context, _ *http.Request, req *api.Drain) (any, error) {
	s.Drain()
	if req.Now {
		s.Stop()
	}
	return struct{}{}, nil
}

// Drain takes no more work, and lets the engine end when its work is done.
func (s *Server) Drain() {
	s.intake.Lock()
	s.drained = true
	s.intake.Unlock()
	s.Inbox.Close()
}

// Drained reports whether the server takes no more work.
func (s *Server) Drained() bool {
	s.intake.RLock()
	defer s.intake.RUnlock()
	return s.drained
}

func (s *Server) about(ctx context.Context, _ *http.Request, _ Peer) (any, error) {
	about := s.About
	about.Draining = s.Drained()
	err := s.Inbox.Ask(ctx, func(in *executor.Intake) error {
		v := in.View()
		about.Workflows, about.Running = len(v.Present())+len(in.Coming()), v.UnderWayCount()
		for _, n := range waiting(in) {
			about.Waiting += n
		}
		return nil
	})
	return &about, err
}
