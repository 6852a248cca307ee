package docker_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	types "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"gantry/executor"
	"gantry/executor/container/control"
	"gantry/planner"
)

// gate stands before the engine and holds up requests and answers.
type gate struct {
	host    string
	mu      sync.Mutex // of what follows: tests change it while requests come
	request func(w http.ResponseWriter, r *http.Request) (taken bool)
	answer  func(r *http.Request)
	proxy   *httputil.ReverseProxy // to the engine
	server  *http.Server
}

func (g *gate) onRequest(f func(w http.ResponseWriter, r *http.Request) (taken bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.request = f
}

func (g *gate) onAnswer(f func(r *http.Request)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = f
}

func (g *gate) now() (request func(w http.ResponseWriter, r *http.Request) bool, answer func(r *http.Request)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.request, g.answer
}

func newGate(t *testing.T) *gate {
	engine(t)
	const socket = "/var/run/docker.sock"
	if _, err := os.Stat(socket); err != nil {
		t.Skip("needs the Docker Engine at /var/run/docker.sock to stand in front of it")
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
	g := &gate{host: "unix://" + filepath.Join(t.TempDir(), "docker.sock"), proxy: proxy}
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	proxy.ModifyResponse = func(resp *http.Response) error {
		if _, answer := g.now(); answer != nil && strings.HasSuffix(resp.Request.URL.Path, "/containers/json") {
			b, err := io.ReadAll(resp.Body) // what the engine says now
			if err != nil {
				return err
			}
			resp.Body = io.NopCloser(bytes.NewReader(b))
			answer(resp.Request)
		}
		return nil
	}
	g.up(t)
	return g
}

// up listens, until the server is closed: then it is as if the engine was stopped.
func (g *gate) up(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", strings.TrimPrefix(g.host, "unix://"))
	must(t, err)
	g.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if request, _ := g.now(); request == nil || !request(w, r) {
			g.proxy.ServeHTTP(w, r)
		}
	})}
	go g.server.Serve(l)
	t.Cleanup(func() { g.server.Close() })
}

// diedBeforeStart leaves what a gantry leaves that is killed when its request to start a container has not reached the
// engine yet.
func diedBeforeStart(t *testing.T, g *gate) (r *rig, l executor.Launch, id string) {
	t.Helper()
	asked, gone := make(chan string, 100), make(chan struct{})
	g.onRequest(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasSuffix(req.URL.Path, "/start") {
			return false
		}
		asked <- strings.Split(req.URL.Path, "/")[3]
		<-gone
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			c.Close()
		}
		return true
	})
	r = newRigAt(t, g.host, nil)
	r.launch(r.sh("echo ran >> effect; echo out > out", r.file("out")), func(x *executor.Launch) { l = *x })
	id = <-asked
	closed := make(chan error)
	go func() { closed <- r.Close() }()
	time.Sleep(100 * time.Millisecond)
	close(gone)
	r.must(<-closed)
	g.onRequest(nil)
	if got := r.containers(); len(got) != 1 {
		t.Fatalf("containers %v: not the one that was made", got)
	}
	return r, l, id
}

// lateStart is the start that the former gantry asked for. It returns when the container has ended.
func lateStart(t *testing.T, id string) error {
	cli, err := client.NewClientWithOpts(client.WithAPIVersionNegotiation())
	if err != nil {
		t.Error(err)
		return err
	}
	defer cli.Close()
	if err := cli.ContainerStart(context.Background(), id, types.StartOptions{}); err != nil {
		return err
	}
	ended, failed := cli.ContainerWait(context.Background(), id, types.WaitConditionNotRunning)
	select {
	case <-ended:
		return nil
	case err := <-failed:
		return err
	}
}

func TestStartAfterRecoveryFindsNothing(t *testing.T) {
	t.Parallel()
	r, l, id := diedBeforeStart(t, newGate(t))
	s := r.successor(l)
	s.wants(s.exit(l.Attempt), planner.Lost)
	waitFor(t, func() bool { return len(s.containers()) == 0 })
	if err := lateStart(t, id); err == nil {
		t.Error("the container that was given up was started")
	}
}

func TestStartBetweenGivingUpAndRemovalNeverBegins(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	r, l, id := diedBeforeStart(t, g)
	late := make(chan error, 100)
	g.onRequest(func(_ http.ResponseWriter, req *http.Request) bool {
		if req.Method == http.MethodDelete && strings.Contains(req.URL.Path, id) {
			late <- lateStart(t, id)
		}
		return false
	})
	s := r.successor(l)
	s.wants(s.exit(l.Attempt), planner.Lost)
	if err := <-late; err != nil {
		t.Errorf("the late start: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.work(l.Spec), "effect")); err == nil {
		t.Error("the program of a lost attempt ran")
	}
	waitFor(t, func() bool { return len(r.containers()) == 0 })
}

func TestStartBetweenListAndGivingUpIsAdopted(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	r, l, id := diedBeforeStart(t, g)
	late := make(chan error, 100)
	g.onAnswer(func(*http.Request) {
		late <- lateStart(t, id)
		g.onAnswer(nil)
	})
	s := r.successor(l)
	s.wants(s.exit(l.Attempt), planner.OK)
	if err := <-late; err != nil {
		t.Errorf("the late start: %v", err)
	}
	if got := s.read(filepath.Join(s.work(l.Spec), "effect")); got != "ran\n" {
		t.Errorf("the program left %q: it did not run once", got)
	}
	if got := s.read(s.node(0, "out")); got != "out\n" {
		t.Errorf("output %q", got)
	}
}

func TestGivenUpTwiceIsLost(t *testing.T) {
	t.Parallel()
	r, l, _ := diedBeforeStart(t, newGate(t))
	// A gantry that dies between giving up and removing leaves its claim.
	r.must(control.Dir(filepath.Join(r.config.Dir, "control", "a0")).Claim(control.Gantry, time.Now()))
	s := r.successor(l)
	s.wants(s.exit(l.Attempt), planner.Lost)
	s.must(s.Close())
	if got := r.containers(); len(got) > 0 {
		t.Errorf("containers %v are left", got)
	}
}
