package crashtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A run that is asked to stop, or whose terminal or reader goes away, leaves no container, and can be resumed.
func TestSignalsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	needImage(t)
	gantry := build(t)
	for _, c := range []struct {
		name    string
		signals []syscall.Signal
	}{{"SIGTERM", []syscall.Signal{syscall.SIGTERM}}, {"SIGHUP", []syscall.Signal{syscall.SIGHUP}},
		{"SIGINT three times", []syscall.Signal{syscall.SIGINT, syscall.SIGINT, syscall.SIGINT}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// What this process handles its children have by default, also where nohup ignores it.
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			r := &run{binary: gantry, name: "stopped", home: t.TempDir()}
			t.Cleanup(r.removeContainers)
			// The task ends at once where the test has put a file for it.
			free := filepath.Join(r.home, "inputs")
			task := map[string]any{"id": "wait", "name": "wait", "parents": []string{}, "children": []string{},
				"inputFiles":  []string{"free"},
				"outputFiles": []string{}, "runtimeInSeconds": 1, "memoryInBytes": 16e6,
				"command": map[string]any{"program": "sh", "arguments": []string{"-c",
					"trap 'exit 1' TERM; until [ -s free ]; do sleep 0.1; done"}}}
			doc, err := json.Marshal(map[string]any{"name": "stopped", "schemaVersion": "1.5",
				"workflow": map[string]any{
					"specification": map[string]any{"tasks": []any{task},
						"files": []any{map[string]any{"id": "free", "sizeInBytes": 0}}},
					"execution": map[string]any{"makespanInSeconds": 1, "executedAt": "2026-01-01T00:00:00Z",
						"tasks": []any{task}}}})
			source := filepath.Join(r.home, "stopped.json")
			for _, e := range []error{err, os.WriteFile(source, doc, 0o644), os.Mkdir(free, 0o755),
				os.WriteFile(filepath.Join(free, "free"), nil, 0o644)} {
				if e != nil {
					t.Fatal(e)
				}
			}
			p := r.gantry("run", "--name", r.name, "--runtime", "docker", "--image", image, "--inputs", free, source)
			// Nobody reads what it prints.
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			read.Close()
			p.cmd.Stdout, p.cmd.Stderr = write, write
			p.start(t)
			write.Close()
			for end := time.Now().Add(patience); !r.runs(t); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("no container began")
				}
			}
			for _, s := range c.signals {
				if err := p.cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond) // two of a kind at once are one to the kernel
			}
			if code, _ := p.wait(t); code != 130 {
				t.Errorf("it ends with %d, not with 130", code)
			}
			r.noContainers(t)
			if state := r.state(t); state != "interrupted" {
				t.Errorf("the run is %q", state)
			}
			if err := os.WriteFile(filepath.Join(r.home, "runs", r.name, "nodes", "host", "stopped", "free"),
				[]byte("now\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if code, out := r.gantry("resume", "--quiet", r.name).wait(t); code != 0 {
				t.Errorf("gantry resume ends with %d:\n%s", code, out)
			}
			r.noContainers(t)
		})
	}
}

// runs reports whether a container of the run runs.
func (r *run) runs(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("docker", "ps", "-q", "--filter", r.label()).Output()
	if err != nil {
		t.Fatal(err)
	}
	return len(bytes.TrimSpace(out)) > 0
}

// Where the Docker Engine has gone away, nothing can be killed: gantry ends all the same, and the run is resumed when
// the engine is back.
func TestInterruptEndsWithoutTheEngine(t *testing.T) {
	t.Parallel()
	const engine = "/var/run/docker.sock"
	needImage(t)
	if c, err := net.Dial("unix", engine); err != nil {
		t.Skipf("needs a Docker Engine at %s: %v", engine, err)
	} else {
		c.Close()
	}
	r := &run{binary: build(t), name: "left", home: t.TempDir()}
	t.Cleanup(r.removeContainers)
	socket := filepath.Join(r.home, "engine.sock")
	gone := forward(t, socket, engine)
	task := map[string]any{"id": "wait", "name": "wait", "parents": []string{}, "children": []string{},
		"inputFiles": []string{}, "outputFiles": []string{},
		"runtimeInSeconds": 1, "memoryInBytes": 16e6, "command": map[string]any{"program": "sleep",
			"arguments": []string{"5"}}}
	doc, err := json.Marshal(map[string]any{"name": "left", "schemaVersion": "1.5", "workflow": map[string]any{
		"specification": map[string]any{"tasks": []any{task}, "files": []any{}},
		"execution": map[string]any{"makespanInSeconds": 1, "executedAt": "2026-01-01T00:00:00Z",
			"tasks": []any{task}}}})
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(r.home, "left.json")
	if err := os.WriteFile(source, doc, 0o644); err != nil {
		t.Fatal(err)
	}
	p := r.gantry("run", "--name", r.name, "--runtime", "docker", "--image", image, source)
	p.cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+socket)
	p.start(t)
	for end := time.Now().Add(patience); !r.runs(t); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no container began")
		}
	}
	gone()
	ended := make(chan struct{})
	go func() { // signals that nobody has taken yet become one
		for {
			_ = p.cmd.Process.Signal(syscall.SIGINT)
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	code, out := p.wait(t)
	close(ended)
	if code != 130 || !strings.Contains(out, "left as they are") {
		t.Errorf("it ends with %d, not with 130:\n%s", code, out)
	}
	if state := r.state(t); state != "interrupted" {
		t.Errorf("the run is %q", state)
	}
	if code, out := r.gantry("resume", "--quiet", r.name).wait(t); code != 0 {
		t.Errorf("gantry resume ends with %d:\n%s", code, out)
	}
	r.noContainers(t)
}

// forward listens at a socket and forwards connections to another, until the function it returns is called.
func forward(t *testing.T, at, to string) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	stop = sync.OnceFunc(func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
	})
	t.Cleanup(stop)
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", to)
			if err != nil {
				near.Close()
				continue
			}
			mu.Lock()
			open = append(open, near, far)
			mu.Unlock()
			go func() { _, _ = io.Copy(far, near); far.Close() }()
			go func() { _, _ = io.Copy(near, far); near.Close() }()
		}
	}()
	return stop
}
