package docker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	runtime "gantry/executor/container"
	"gantry/executor/container/docker"
)

// host is an engine of which only the connections are real.
type host struct {
	t      *testing.T
	path   string
	server *http.Server
	conns  atomic.Int64 // accepted so far
	logs   http.HandlerFunc
	info   http.HandlerFunc // nil: it is answered
}

func newHost(t *testing.T) (*host, *client.Client) {
	t.Helper()
	h := &host{t: t, path: filepath.Join(t.TempDir(), "docker.sock")}
	h.up()
	t.Cleanup(func() { h.server.Close() })
	cli, err := docker.Connect(t.Context(), "unix://"+h.path)
	if err != nil {
		t.Fatal(err)
	}
	return h, cli
}

func (h *host) up() {
	h.t.Helper()
	l, err := net.Listen("unix", h.path)
	if err != nil {
		h.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") })
	mux.HandleFunc("/v1.41/info", func(w http.ResponseWriter, r *http.Request) {
		if h.info != nil {
			h.info(w, r)
			return
		}
		fmt.Fprint(w, `{"NCPU": 3}`)
	})
	mux.HandleFunc("/v1.41/containers/c/logs", func(w http.ResponseWriter, r *http.Request) { h.logs(w, r) })
	h.server = &http.Server{Handler: mux, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			h.conns.Add(1)
		}
	}}
	go h.server.Serve(l)
}

func cores(t *testing.T, cli *client.Client) {
	t.Helper()
	if info, err := cli.Info(t.Context()); err != nil || info.NCPU != 3 {
		t.Errorf("%d cores, %v", info.NCPU, err)
	}
}

func TestConnectionsToTheEngineAreUsedAgain(t *testing.T) {
	t.Parallel()
	h, cli := newHost(t)
	for range 20 {
		cores(t, cli)
	}
	if n := h.conns.Load(); n != 1 {
		t.Errorf("%d connections for requests one after the other", n)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				cores(t, cli)
			}
		})
	}
	wg.Wait()
	if n := h.conns.Load(); n > 16 { // one may be made while another becomes free
		t.Errorf("%d connections for 8 requests at once", n)
	}
}

func TestEngineIsFoundAgainAfterItsEnd(t *testing.T) {
	t.Parallel()
	h, cli := newHost(t)
	cores(t, cli)
	h.server.Close()
	if _, err := cli.Info(t.Context()); err == nil {
		t.Error("an engine that ended answers")
	}
	h.up()
	cores(t, cli)
}

func TestCancelledRequestEnds(t *testing.T) {
	t.Parallel()
	h, cli := newHost(t)
	asked, done := make(chan struct{}), make(chan struct{})
	h.logs = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") != "" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		asked <- struct{}{}
		<-done
	}
	defer close(done)
	for _, answered := range []bool{false, true} { // before and after the answer began
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		body, err := cli.ContainerLogs(ctx, "c", container.LogsOptions{Follow: answered})
		if err == nil {
			_, err = body.Read(make([]byte, 1))
			body.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after the answer began: %v: %v", answered, err)
		}
	}
	cores(t, cli)
}

func TestAnswerThatStopsInTheMiddleIsAnError(t *testing.T) {
	t.Parallel()
	h, _ := newHost(t)
	h.info = func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"NCPU": `)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	e, err := docker.Open(t.Context(), "unix://"+h.path, "", 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Host(t.Context()); err == nil || !strings.Contains(err.Error(), runtime.ErrNoAnswer.Error()) {
		t.Errorf("an answer that never ends: %v", err)
	}
}

func TestAnswerThatIsNotReadToItsEndSpoilsNoOther(t *testing.T) {
	t.Parallel()
	h, cli := newHost(t)
	h.logs = func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil { // as long as somebody listens
			if _, err := fmt.Fprintln(w, time.Now()); err != nil {
				return
			}
		}
	}
	body, err := cli.ContainerLogs(t.Context(), "c", container.LogsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := body.Read(make([]byte, 10)); err != nil {
		t.Error(err)
	}
	body.Close()
	for range 3 {
		cores(t, cli)
	}
}
