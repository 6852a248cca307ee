package crashtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// engine is a Docker Engine of the test's own, which it may stop, kill and start again.
type engine struct {
	dir, host string
	cmd       *exec.Cmd
	ended     chan struct{}
	mu        sync.Mutex
	succeeded map[string]int // by run and task, as the engine told
}

// newEngine starts an engine with the test's image, and ends it with the test.
func newEngine(t *testing.T) *engine {
	t.Helper()
	path, err := exec.LookPath("dockerd")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and dockerd, to start a Docker Engine of its own")
	}
	dir, err := os.MkdirTemp("", "gantry-engine-") // t.TempDir is too long a path for a socket
	must(t, err)
	e := &engine{dir: dir, host: "unix://" + filepath.Join(dir, "d.sock"), succeeded: map[string]int{}}
	t.Cleanup(func() {
		e.stop(syscall.SIGTERM)
		e.endContainerd()
		e.endShims()
		for range 20 { // mounts of containers go a little later
			if os.RemoveAll(dir) == nil {
				break
			}
			unmountBelow(dir)
			time.Sleep(100 * time.Millisecond)
		}
	})
	e.start(t, path)
	save := exec.Command("docker", "save", image)
	load := exec.Command("docker", "-H", e.host, "load")
	pipe, err := save.StdoutPipe()
	must(t, err)
	load.Stdin = pipe
	must(t, save.Start())
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("load %s: %v %s", image, err, out)
	}
	if err := save.Wait(); err != nil {
		t.Skipf("needs a Docker Engine with the image %s (make images): %v", image, err)
	}
	return e
}

// start starts the engine. One that gives up is started again: dockerd allows its containerd 15 s, in which a busy host
// may not get it up.
func (e *engine) start(t *testing.T, path string) {
	t.Helper()
	for tries := 1; ; tries++ {
		ended := e.tryStart(t, path)
		if ended == nil {
			break
		}
		if tries == 5 {
			t.Fatalf("dockerd ends, five times:\n%s", ended)
		}
		e.endContainerd()
	}
	e.listen(t)
}

// tryStart returns the end of its log if the engine has ended.
func (e *engine) tryStart(t *testing.T, path string) (ended []byte) {
	t.Helper()
	logFile, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(t, err)
	defer logFile.Close()
	_ = os.Remove(filepath.Join(e.dir, "pid")) // of one that was killed
	_ = os.Remove(filepath.Join(e.dir, "x", "containerd", "containerd.pid"))
	_ = os.Remove(filepath.Join(e.dir, "x", "containerd", "containerd.sock"))
	e.cmd = exec.Command(path, "--host", e.host, "--data-root", filepath.Join(e.dir, "data"), "--exec-root",
		filepath.Join(e.dir, "x"),
		"--pidfile", filepath.Join(e.dir, "pid"), "--bridge=none", "--iptables=false", "--ip6tables=false")
	e.cmd.Stdout, e.cmd.Stderr = logFile, logFile
	must(t, e.cmd.Start())
	e.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { _ = cmd.Wait(); close(ended) }(e.cmd, e.ended)
	for tries := 0; !e.answers(); tries++ {
		time.Sleep(50 * time.Millisecond)
		select {
		case <-e.ended:
			text, _ := os.ReadFile(logFile.Name())
			return append([]byte("it ended: "), tail(text)...)
		default:
		}
		if tries > int(patience/(50*time.Millisecond)) { // not by the clock: the host may be stopped meanwhile
			text, _ := os.ReadFile(logFile.Name())
			t.Fatalf("dockerd does not answer:\n%s", tail(text))
		}
	}
	return nil
}

func (e *engine) answers() bool {
	c, err := net.Dial("unix", filepath.Join(e.dir, "d.sock"))
	if err != nil {
		return false // the docker command takes as much CPU time as the engine that starts
	}
	c.Close()
	return exec.Command("docker", "-H", e.host, "version").Run() == nil
}

// said is what the engine has and the end of its log, for whoever looks into a failure.
func (e *engine) said() string {
	all, _ := exec.Command("docker", "-H", e.host, "ps", "--all", "--no-trunc").CombinedOutput()
	text, _ := os.ReadFile(filepath.Join(e.dir, "log"))
	return fmt.Sprintf("containers:\n%s\nthe engine said:\n%s", all, tail(text))
}

func tail(text []byte) []byte { return text[max(0, len(text)-3000):] }

func (e *engine) stop(s syscall.Signal) {
	_ = e.cmd.Process.Signal(s)
	select {
	case <-e.ended:
	case <-time.After(40 * time.Second):
		_ = e.cmd.Process.Kill()
		<-e.ended
	}
}

// endContainerd ends the containerd that dockerd had started, which outlives a dockerd that was killed.
func (e *engine) endContainerd() {
	text, err := os.ReadFile(filepath.Join(e.dir, "x", "containerd", "containerd.pid"))
	if err != nil {
		return
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		return
	}
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if strings.Contains(string(cmdline), e.dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// endShims ends the parents of containers that a containerd which was killed left behind.
func (e *engine) endShims() {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		var pid int
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "containerd-shim") ||
			!strings.Contains(string(text), e.dir+"/") {
			continue
		}
		if _, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// unmountBelow unmounts what an engine that was killed left mounted.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			_ = syscall.Unmount(f[1], syscall.MNT_DETACH)
		}
	}
}

// restart ends the engine by a signal and starts it again.
func (e *engine) restart(t *testing.T, s syscall.Signal) {
	t.Helper()
	e.stop(s)
	e.endContainerd() // it ends with its parent; whoever reads its pid file before it is reaped takes it for alive
	e.start(t, e.cmd.Path)
}

// restartHost is to the engine as if its host was restarted: nothing that it had mounted is mounted any more.
func (e *engine) restartHost(t *testing.T) {
	t.Helper()
	e.stop(syscall.SIGTERM)
	e.endContainerd()
	e.endShims()
	unmountBelow(filepath.Join(e.dir, "data"))
	e.start(t, e.cmd.Path)
}

// listen counts, by what the engine says, how often the program of each task ended well: a witness that gantry has no
// hand in.
func (e *engine) listen(t *testing.T) {
	t.Helper()
	cmd := exec.Command("docker", "-H", e.host, "events", "--filter", "type=container", "--filter", "event=die",
		"--format", "{{json .Actor.Attributes}}")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var a map[string]string
			if json.Unmarshal(lines.Bytes(), &a) == nil && a["exitCode"] == "0" {
				e.mu.Lock()
				e.succeeded[a["gantry.run"]+"/"+a["gantry.task"]]++
				e.mu.Unlock()
			}
		}
		_ = cmd.Wait()
	}()
}

// successes is how often the program of a task ended well.
func (e *engine) successes(run, task string) int {
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.succeeded[run+"/"+task]
}
