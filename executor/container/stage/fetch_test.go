package stage_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gantry/executor/container/stage"
)

// A server that falls silent in the middle of a file is given up on, and not asked again.
func TestASilentServerIsGivenUp(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("some"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	x := &stage.Fetcher{Dir: t.TempDir(), Own: func(string) error { return nil }, Patience: time.Second,
		Wait: func(context.Context, time.Duration) error { return nil }}
	_, err := x.Fetch(t.Context(), server.URL)
	if err == nil || !strings.Contains(err.Error(), "the server sends nothing for 1s") || asked.Load() > 1 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}

// A server that sends without end fills no disk to the last block, and leaves nothing behind.
func TestAServerThatSendsWithoutEnd(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 1 << 10 { // a gigabyte, if nobody stops it
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	x := &stage.Fetcher{Dir: t.TempDir(), Own: func(string) error { return nil }, Spare: 1 << 60,
		Wait: func(context.Context, time.Duration) error { return nil }}
	_, err := x.Fetch(t.Context(), server.URL)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it is fetched: %v", err)
	}
	if left, err := os.ReadDir(x.Dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left (%v)", left, err)
	}
}
