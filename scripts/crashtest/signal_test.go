package crashtest

import (
	"os"
	"path/filepath"
	"strings"
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
			r := &run{binary: gantry, name: "stopped", home: t.TempDir()}
			t.Cleanup(r.removeContainers)
			// The task ends at once where the test has put a file for it.
			free := filepath.Join(r.home, "inputs")
			source := filepath.Join(r.home, "stopped.json")
			writeFlow(t, source, image, map[string]int64{"free": 0}, step{id: "wait", in: []string{"free"}, seconds: 1,
				script: "trap 'exit 1' TERM; until [ -s free ]; do sleep 0.1; done"})
			must(t, os.Mkdir(free, 0o755))
			write(t, filepath.Join(free, "free"), "")
			p := r.gantry("run", "--name", r.name, "--runtime", "docker", "--inputs", free, source)
			// Nobody reads what it prints.
			reader, writer, err := os.Pipe()
			must(t, err)
			reader.Close()
			p.cmd.Stdout, p.cmd.Stderr = writer, writer
			p.start(t)
			writer.Close()
			r.untilBegun(t)
			for _, s := range c.signals {
				must(t, p.cmd.Process.Signal(s))
				time.Sleep(50 * time.Millisecond) // two of a kind at once are one to the kernel
			}
			if code, _ := p.wait(t); code != 130 {
				t.Errorf("it ends with %d, not with 130", code)
			}
			r.noContainers(t)
			if state := r.state(t); state != "interrupted" {
				t.Errorf("the run is %q", state)
			}
			write(t, filepath.Join(r.home, "runs", r.name, "nodes", "host", "stopped", "free"), "now\n")
			if code, out := r.gantry("resume", "--quiet", r.name).wait(t); code != 0 {
				t.Errorf("gantry resume ends with %d:\n%s", code, out)
			}
			r.noContainers(t)
		})
	}
}

// untilBegun waits until a container of the run runs.
func (r *run) untilBegun(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, err := r.docker("ps", "-q", "--filter", r.label())
		if err != nil || time.Now().After(end) {
			t.Fatalf("no container began: %v", err)
		}
		if out != "" {
			return
		}
	}
}

// Where the Docker Engine has gone away, nothing can be killed: gantry ends all the same, and the run is resumed when
// the engine is back.
func TestInterruptEndsWithoutTheEngine(t *testing.T) {
	t.Parallel()
	needImage(t)
	e := newEngine(t)
	r := &run{binary: build(t), name: "left", home: t.TempDir(), host: e.host}
	source := filepath.Join(r.home, "left.json")
	writeFlow(t, source, image, nil, step{id: "wait", script: "sleep 5", seconds: 1})
	p := r.gantry("run", "--name", r.name, "--runtime", "docker", source)
	p.start(t)
	r.untilBegun(t)
	e.stop(syscall.SIGKILL)
	e.endContainerd()
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
	e.start(t, e.cmd.Path)
	if code, out := r.gantry("resume", "--quiet", r.name).wait(t); code != 0 {
		t.Errorf("gantry resume ends with %d:\n%s", code, out)
	}
	r.noContainers(t)
}
