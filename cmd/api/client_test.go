package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gantry/cmd/api"
)

// serve answers the requests of a client at the socket of a directory, until the returned function is called, which
// leaves the socket.
func serve(t *testing.T, dir string, answer func(w http.ResponseWriter, request string)) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(dir, api.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		path := strings.TrimPrefix(r.URL.String(), api.Prefix)
		answer(w, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, path, body)))
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return func() { s.Close() }
}

// Each call is one request; a wait is repeated until the submission is over.
func TestCallsAreRequests(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	var asked []string
	over := false
	serve(t, dir, func(w http.ResponseWriter, request string) {
		asked = append(asked, request)
		if strings.HasSuffix(request, "/nodes") {
			fmt.Fprint(w, `[{"name":"a"}]`)
			return
		}
		fmt.Fprintf(w, `{"id":7,"over":%v,"ids":[7],"policy":"heft"}`, over)
		over = strings.Contains(request, "wait=")
	})
	c := api.NewClient(dir)
	call := func(want string, err error) {
		t.Helper()
		if got := asked[len(asked)-1]; err != nil || got != want {
			t.Errorf("%q (%v), want %q", got, err, want)
		}
	}
	a, err := c.Submit(ctx, &api.Submit{Key: "k", Workflows: []api.Workflow{{Name: "w"}}})
	if call(`POST /submissions {"key":"k","workflows":[{"name":"w","definition":null}]}`, err); a.IDs[0] != 7 {
		t.Errorf("%+v", a)
	}
	_, err = c.Queue(ctx, api.QueueOf{All: true, Brief: true, IDs: []int64{1, 2}, Users: []int{3}})
	call("GET /submissions?of="+url.QueryEscape(`{"all":true,"ids":[1,2],"users":[3],"brief":true}`), err)
	_, err = c.Cancel(ctx, 7)
	call("DELETE /submissions/7", err)
	_, err = c.Status(ctx, 7)
	call("GET /submissions/7", err)
	_, err = c.Expected(ctx, 7)
	call("GET /submissions/7/expected", err)
	_, err = c.ChangeNode(ctx, "a/b", api.ChangeNode{To: api.NodeSet, Cores: 2})
	call(`POST /nodes/a%2Fb {"to":"set","cores":2}`, err)
	_, err = c.About(ctx)
	call("GET /server", err)
	_, err = c.Tenants(ctx)
	call("GET /tenants", err)
	all, err := c.Nodes(ctx)
	if call("GET /nodes", err); len(all) != 1 || all[0].Name != "a" {
		t.Errorf("%+v", all)
	}
	file, err := c.Log(ctx, 7)
	if call("GET /submissions/7/log", err); !strings.HasPrefix(string(file), `{"id":7`) {
		t.Errorf("%q", file)
	}
	call("POST /drain {\"now\":true}", c.Drain(ctx, api.Drain{Now: true}))
	n := len(asked)
	st, err := c.Wait(ctx, 7)
	if call("GET /submissions/7?wait=20s", err); !st.Over || len(asked) != n+2 {
		t.Errorf("%+v after %d requests", st, len(asked)-n)
	}
}

func TestQueriesAreBounded(t *testing.T) {
	for says, of := range map[string]string{"invalid character": "x", "cannot unmarshal": `{"ids":["x"]}`,
		"may for 500": `{"users":[0` + strings.Repeat(",1", 500) + "]}"} {
		if _, err := api.ReadQueueOf(url.Values{"of": {of}}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if q, err := api.ReadQueueOf(nil); err != nil || !reflect.DeepEqual(q, api.QueueOf{}) {
		t.Errorf("nothing is asked for: %+v, %v", q, err)
	}
}

// A refusal is returned as it is, once, and an answer of something else is named.
func TestRefusalsAreNotRepeated(t *testing.T) {
	dir := t.TempDir()
	var status int
	var text string
	asked := 0
	serve(t, dir, func(w http.ResponseWriter, _ string) {
		asked++
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	})
	for _, c := range []struct {
		status int
		text   string
		code   api.Code
		says   string
	}{
		{400, `{"code":"invalid","message":"no policy x"}`, api.Invalid, "no policy x"},
		{404, "not found", api.Failed, "the server answers 404 Not Found to GET /server: is it another version?"},
	} {
		status, text, asked = c.status, c.text, 0
		_, err := api.NewClient(dir).About(t.Context())
		refused, ok := errors.AsType[*api.Error](err)
		if err == nil || !strings.Contains(err.Error(), c.says) || ok && refused.Code != c.code || asked != 1 {
			t.Errorf("%d requests: %v, want %s", asked, err, c.says)
		}
	}
}

// A client waits for the next server where one ends or has ended, hears of one that is slow, and says where none is.
func TestAClientWaitsForTheNextServer(t *testing.T) {
	dir := t.TempDir()
	if _, err := api.NewClient(dir).About(t.Context()); !errors.Is(err, api.ErrNoServer) ||
		!strings.Contains(err.Error(), "start one with gantry serve") {
		t.Errorf("of no server: %v", err)
	}
	stop := serve(t, dir, func(w http.ResponseWriter, _ string) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(api.Error{Code: api.Ending, Message: "the disk is full"})
	})
	c, told := api.NewClient(dir), make(chan string, 9)
	c.Notify, c.Patience, c.Silence = func(text string) { told <- text }, time.Millisecond, time.Hour
	if _, err := c.About(t.Context()); !errors.Is(err, api.ErrNoServer) ||
		!strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("of one that ends: %v", err)
	}
	if text := <-told; !strings.Contains(text, "trying for 1ms") {
		t.Errorf("it says %q", text)
	}
	stop()
	next := api.NewClient(dir)
	next.Notify = func(text string) { told <- text }
	done := make(chan error)
	go func() {
		_, err := next.About(t.Context())
		done <- err
	}()
	if text := <-told; !strings.Contains(text, "no gantry serves "+dir+" any more, though it left its socket") {
		t.Errorf("it says %q", text)
	}
	if err := os.Remove(filepath.Join(dir, api.SocketName)); err != nil {
		t.Fatal(err)
	}
	slow, free := make(chan struct{}), make(chan struct{})
	serve(t, dir, func(w http.ResponseWriter, request string) {
		if strings.Contains(request, "/drain") {
			close(slow)
			<-free
		}
		fmt.Fprint(w, "{}")
	})
	if err := <-done; err != nil {
		t.Error(err)
	}
	patient := api.NewClient(dir)
	patient.Notify, patient.Silence = func(text string) { told <- text }, time.Millisecond
	go func() { done <- patient.Drain(t.Context(), api.Drain{}) }()
	<-slow
	if text := <-told; !strings.Contains(text, "the server has not answered for 1ms: it fetches") {
		t.Errorf("it says %q", text)
	}
	close(free)
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := patient.About(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("of a request that is given up: %v", err)
	}
}
