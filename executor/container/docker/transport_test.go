package docker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// newHost is an engine of which only the connections are real, and counted. It tells its name, and answers as a test
// says.
func newHost(t *testing.T, answer http.HandlerFunc) (at string, connections *atomic.Int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "docker.sock")
	l, err := net.Listen("unix", path)
	must(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") })
	mux.HandleFunc("/", answer)
	connections = &atomic.Int64{}
	server := &http.Server{Handler: mux, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return "unix://" + path, connections
}

func cores(t *testing.T, cli *client.Client) {
	t.Helper()
	if info, err := cli.Info(t.Context()); err != nil || info.NCPU != 3 {
		t.Errorf("%d cores, %v", info.NCPU, err)
	}
}

func TestConnectionsToTheEngineAreUsedAgain(t *testing.T) {
	t.Parallel()
	at, connections := newHost(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"NCPU": 3}`) })
	cli, err := docker.Connect(t.Context(), at)
	must(t, err)
	for range 20 {
		cores(t, cli)
	}
	if n := connections.Load(); n != 1 {
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
	if n := connections.Load(); n > 16 { // one may be made while another becomes free
		t.Errorf("%d connections for 8 requests at once", n)
	}
}

// A request ends with its context before and after its answer has begun, and one whose answer is not read to its end
// spoils no other.
func TestRequestsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	at, _ := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info") {
			fmt.Fprint(w, `{"NCPU": 3}`)
			return
		}
		if r.URL.Query().Get("follow") == "" {
			close(asked)
			<-r.Context().Done()
		}
		for r.Context().Err() == nil { // as long as somebody listens
			fmt.Fprintln(w, time.Now())
		}
	})
	cli, err := docker.Connect(t.Context(), at)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := cli.ContainerLogs(ctx, "c", container.LogsOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before the answer began: %v", err)
	}
	for _, cancelled := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		body, err := cli.ContainerLogs(ctx, "c", container.LogsOptions{Follow: true})
		must(t, err)
		if _, err := body.Read(make([]byte, 10)); err != nil {
			t.Error(err)
		}
		if cancelled {
			cancel()
			if _, err := io.Copy(io.Discard, body); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled after the answer began: %v", err)
			}
		}
		body.Close()
		cores(t, cli)
		cancel()
	}
}

func TestAnswerThatStopsInTheMiddleIsAnError(t *testing.T) {
	t.Parallel()
	at, _ := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"NCPU": `)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	e, err := docker.Open(t.Context(), at, "", 2*time.Second)
	must(t, err)
	defer e.Close()
	if _, err := e.Host(t.Context()); err == nil || !strings.Contains(err.Error(), runtime.ErrNoAnswer.Error()) {
		t.Errorf("an answer that never ends: %v", err)
	}
}
