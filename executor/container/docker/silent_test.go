package docker_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/executor/container"
	"gantry/executor/container/control"
	"gantry/executor/container/evidence"
	"gantry/planner"
)

// An engine that does not answer one request, or does not know what it did, holds up neither a run nor its end.
func TestSilentEngine(t *testing.T) {
	t.Parallel()
	engine(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, r *rig, g *gate)
	}{
		{"a start has an effect but no answer", func(t *testing.T, r *rig, g *gate) {
			g.onRequest(func(w http.ResponseWriter, req *http.Request) bool {
				if strings.HasSuffix(req.URL.Path, "/start") {
					_ = lateStart(t, strings.Split(req.URL.Path, "/")[3])
					return silence(req)
				}
				return false
			})
			a := r.launch(r.sh("echo out > out", r.file("out")), nil)
			r.wants(r.exit(a), planner.OK)
		}},
		{"a start has neither", func(t *testing.T, r *rig, g *gate) {
			g.onRequest(func(_ http.ResponseWriter, req *http.Request) bool {
				return strings.HasSuffix(req.URL.Path, "/start") && silence(req)
			})
			r.wants(r.exit(r.launch(r.sh("true"), nil)), planner.Lost, "does not answer")
		}},
		{"the engine misses an end", func(t *testing.T, r *rig, g *gate) {
			// It says what it said when the program ran.
			g.onRequest(func(w http.ResponseWriter, req *http.Request) bool {
				path := req.URL.Path
				if strings.HasSuffix(path, "/json") && !strings.HasSuffix(path, "/containers/json") {
					_, err := w.Write([]byte(`{"State":{"Status":"running","Running":true}}`))
					return err == nil
				}
				return strings.HasSuffix(path, "/wait") && silence(req)
			})
			a, b := r.launch(r.sh("echo out > out", r.file("out")), nil), r.launch(r.sh("exit 7"), nil)
			r.wants(r.exit(a), planner.OK)
			r.wants(r.exit(b), planner.ExitCode, "exit code 7")
		}},
		// An engine that is killed while it starts a container finds the container created, and a process of that name.
		{"the engine misses a start, and the program ended", func(t *testing.T, r *rig, g *gate) {
			g.onRequest(forgottenStart(t, r, 0))
			r.wants(r.exit(r.launch(r.sh("true"), nil)), planner.OK)
		}},
		{"the engine misses a start, and the program did not end", func(t *testing.T, r *rig, g *gate) {
			g.onRequest(forgottenStart(t, r, -1))
			r.wants(r.exit(r.launch(r.sh("true"), nil)), planner.Lost)
		}},
		{"a removal has no answer", func(t *testing.T, r *rig, g *gate) {
			g.onRequest(func(_ http.ResponseWriter, req *http.Request) bool {
				return req.Method == http.MethodDelete && silence(req)
			})
			r.wants(r.exit(r.launch(r.sh("true"), nil)), planner.OK)
			begun := time.Now()
			if err := r.Close(); err == nil || !strings.Contains(err.Error(), "gantry clean") {
				t.Errorf("the end of the run says %v", err)
			}
			if took := time.Since(begun); took > 2*silentPatience {
				t.Errorf("the end of the run took %v", took)
			}
		}},
		// An engine that was stopped while it cleared up may need a restart before it can remove a container.
		{"what an earlier gantry left is not removed", func(t *testing.T, r *rig, g *gate) {
			r.launched(r.sh("sleep 300"))
			r.must(r.Close())
			e, name := r.engine(), r.containers()[0]
			defer e.Close()
			r.must(e.Signal(r.ctx, name, "SIGKILL"))
			for {
				c, err := e.Inspect(r.ctx, name)
				r.must(err)
				if c.Status != evidence.Running {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			g.onRequest(func(w http.ResponseWriter, req *http.Request) bool {
				if req.Method != http.MethodDelete {
					return false
				}
				http.Error(w, `{"message":"failed to remove root filesystem: device or resource busy"}`,
					http.StatusInternalServerError)
				return true
			})
			begun := time.Now()
			s := r.successor()
			s.wants(s.exit(s.launch(s.sh("true"), nil)), planner.OK)
			if err := s.Close(); err == nil || !strings.Contains(err.Error(), "restart") {
				t.Errorf("the end of the run says %v", err)
			}
			if took := time.Since(begun); took > 2*silentPatience { // the engine asks for a minute
				t.Errorf("it took %v", took)
			}
			g.onRequest(nil)
			s = s.successor()
			s.must(s.Close())
			if left := s.containers(); len(left) > 0 {
				t.Errorf("containers %v are left", left)
			}
		}},
		{"a start has no answer when the run ends", func(t *testing.T, r *rig, g *gate) {
			asked := make(chan bool, 10)
			g.onRequest(func(_ http.ResponseWriter, req *http.Request) bool {
				if !strings.HasSuffix(req.URL.Path, "/start") {
					return false
				}
				asked <- true
				return silence(req)
			})
			r.launch(r.sh("true"), nil)
			<-asked
			if err := r.Close(); err == nil || !strings.Contains(err.Error(), "without an answer") {
				t.Errorf("the end of the run says %v", err)
			}
		}},
		{"an attempt is killed while its container is made", func(t *testing.T, r *rig, g *gate) {
			asked, killed := make(chan bool, 10), make(chan bool)
			g.onRequest(func(_ http.ResponseWriter, req *http.Request) bool {
				if strings.HasSuffix(req.URL.Path, "/containers/create") {
					asked <- true
					<-killed
				}
				return false
			})
			a := r.launch(r.sh("true"), nil)
			<-asked
			r.must(r.Kill(r.ctx, a, planner.Preempted, 0))
			close(killed)
			r.wants(r.exit(a), planner.Preempted)
			waitFor(t, func() bool { return len(r.containers()) == 0 })
		}},
		{"the answer is lost when a container is made", func(t *testing.T, r *rig, g *gate) {
			g.onRequest(func(_ http.ResponseWriter, req *http.Request) bool {
				if !strings.HasSuffix(req.URL.Path, "/containers/create") {
					return false
				}
				made := httptest.NewRecorder()
				g.proxy.ServeHTTP(made, req.WithContext(context.WithoutCancel(req.Context())))
				if made.Code != http.StatusCreated {
					t.Errorf("create: %d: %s", made.Code, made.Body)
				}
				return silence(req)
			})
			r.wants(r.exit(r.launch(r.sh("true"), nil)), planner.Lost, "does not answer")
			waitFor(t, func() bool { return len(r.containers()) == 0 })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			r := newRigAt(t, g.host, func(cfg *container.Config) { cfg.Patience = silentPatience })
			c.test(t, r, g)
		})
	}
}

// silentPatience is longer than an engine takes to start a container on a host with a load of 20.
const silentPatience = 20 * time.Second

// silence answers a request when nobody waits any longer.
func silence(req *http.Request) bool {
	<-req.Context().Done()
	return true
}

// forgottenStart refuses to start containers, as an engine does that has killed itself in the middle of it. The program
// ran, and ended with a code if that is not negative.
func forgottenStart(t *testing.T, r *rig, code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasSuffix(req.URL.Path, "/start") {
			return false
		}
		dir := control.Dir(filepath.Join(r.config.Dir, "control", "a0"))
		if err := dir.Claim(control.Launcher, time.Now()); err != nil {
			t.Error(err)
		}
		if code >= 0 {
			account := fmt.Sprintf("exit %d %d\n", code, time.Now().UnixNano())
			if err := os.WriteFile(filepath.Join(string(dir), "end"), []byte(account), 0o644); err != nil {
				t.Error(err)
			}
		}
		http.Error(w, `{"message":"id already in use"}`, http.StatusInternalServerError)
		return true
	}
}
