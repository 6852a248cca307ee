// Package slurmtest brings up a Slurm cluster of four virtual nodes for a test, and disturbs it.
package slurmtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Cluster is a Slurm that scripts/slurm brought up, for one test alone.
type Cluster struct {
	Dir   string   // configuration, logs and state
	Nodes []string // v1 to v4, or other names if another cluster of the script has these
}

// Patience is how long a test waits for Slurm to notice something: on a busy host slurmctld takes up to two minutes to
// find that a node is gone. It bounds failing tests; others continue at once.
const Patience = 3 * time.Minute

// Long leaves out, with -short, a test that takes a minute or more on a cluster.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes minutes on a Slurm cluster: make test-long")
	}
}

// Up brings a cluster up, sets SLURM_CONF for the test, and ends the cluster with it. Tests are skipped on hosts that
// cannot have one.
func Up(t testing.TB) *Cluster {
	t.Helper()
	path := os.Getenv("PATH") + ":/usr/sbin:/sbin"
	t.Setenv("PATH", path)
	for _, c := range []string{"slurmctld", "slurmd", "munged", "srun", "scontrol"} {
		if _, err := exec.LookPath(c); err != nil {
			t.Skipf("no %s here: make slurm installs Slurm from the distribution", c)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("a Slurm cluster of virtual nodes needs root: make test runs this test as root")
	}
	// The paths of sockets below are bounded, so t.TempDir is too long.
	parent, err := os.MkdirTemp("/tmp", "slurm-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(parent, 0o711); err != nil { // jobs of other users reach their scripts through it
		t.Fatal(err)
	}
	c := &Cluster{Dir: filepath.Join(parent, "s")}
	script := filepath.Join(root(t), "scripts", "slurm")
	t.Setenv("SLURM_CONF", filepath.Join(c.Dir, "slurm.conf"))
	for _, name := range []string{"SLURM_JOB_ID", "SLURM_JOBID"} {
		t.Setenv(name, "") // restores it afterwards
		os.Unsetenv(name)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, log := range c.logs() {
				out, _ := exec.Command("tail", "-n", "20", log).Output()
				t.Logf("%s:\n%s", filepath.Base(log), out)
			}
		}
		if out, err := exec.Command(script, "down", c.Dir).CombinedOutput(); err != nil {
			t.Errorf("scripts/slurm down: %v\n%s", err, out)
		}
		if err := os.Remove(parent); err != nil {
			t.Errorf("scripts/slurm down left something: %v", err)
		}
	})
	if out, err := exec.Command(script, "up", c.Dir).CombinedOutput(); err != nil {
		t.Fatalf("scripts/slurm up: %v\n%s", err, out)
	}
	c.Nodes = strings.Fields(c.Command(t, "sinfo", "-h", "-N", "-o", "%N"))
	return c
}

// root returns the directory of the project: tests run in that of their package.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("this test does not run below the directory of the project")
		}
	}
}

func (c *Cluster) logs() []string {
	logs, _ := filepath.Glob(filepath.Join(c.Dir, "log", "*.log"))
	return logs
}

// Command runs a command of Slurm and returns its output, without space around.
func (c *Cluster) Command(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Allocate requests an allocation of whole nodes with options of salloc, and returns its number.
func (c *Cluster) Allocate(t testing.TB, options ...string) string {
	t.Helper()
	said := c.Command(t, "salloc", append([]string{"--no-shell", "--no-kill", "--exclusive", "--mem=0"}, options...)...)
	_, id, ok := strings.Cut(said, "Granted job allocation ")
	if id, _, _ = strings.Cut(id, "\n"); !ok {
		t.Fatalf("salloc granted nothing: %s", said)
	}
	return id
}

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for: %s", Patience, what)
		}
	}
}

// KillNode kills the slurmd of a node. Slurm notices after SlurmdTimeout; steps of the node go on.
func (c *Cluster) KillNode(t testing.TB, node string) {
	t.Helper()
	c.kill(t, "slurmd."+node+".pid")
}

// StartNode starts the slurmd of a node again.
func (c *Cluster) StartNode(t testing.TB, node string) {
	t.Helper()
	c.Command(t, "slurmd", "-f", filepath.Join(c.Dir, "slurm.conf"), "-N", node)
}

// StartMunge starts munged again, and any other daemon that has ended.
func (c *Cluster) StartMunge(t testing.TB) {
	t.Helper()
	c.Command(t, filepath.Join(root(t), "scripts", "slurm"), "up", c.Dir)
}

// SetDown sets a node down, as an administrator does: Slurm kills the steps of the node.
func (c *Cluster) SetDown(t testing.TB, node string) {
	t.Helper()
	c.Command(t, "scontrol", "update", "nodename="+node, "state=down", "reason=test")
}

// Resume sets a node up again.
func (c *Cluster) Resume(t testing.TB, node string) {
	t.Helper()
	_ = exec.Command("scontrol", "update", "nodename="+node, "state=resume").Run() // refused if it came back by itself
	Eventually(t, "node "+node+" is up", func() bool {
		out, err := exec.Command("sinfo", "-h", "-N", "-n", node, "-t", "idle,mixed,allocated", "-o", "%N").Output()
		return err == nil && strings.TrimSpace(string(out)) == node
	})
}

// KillController kills slurmctld. Steps under way go on.
func (c *Cluster) KillController(t testing.TB) {
	t.Helper()
	c.kill(t, "slurmctld.pid")
}

// StartController starts slurmctld again, and waits until it answers.
func (c *Cluster) StartController(t testing.TB) {
	t.Helper()
	c.Command(t, "slurmctld", "-f", filepath.Join(c.Dir, "slurm.conf"))
	Eventually(t, "slurmctld answers", func() bool { return exec.Command("scontrol", "ping").Run() == nil })
}

// KillMunge kills munged: from then on no command of Slurm can identify its caller.
func (c *Cluster) KillMunge(t testing.TB) {
	t.Helper()
	c.kill(t, filepath.Join("munge", "pid"))
}

// kill kills the daemon whose id a file below the cluster's directory has, and waits for its end.
func (c *Cluster) kill(t testing.TB, file string) {
	t.Helper()
	pid := c.process(t, file)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the end of process "+strconv.Itoa(pid), func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			return true
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(rest, "Z")
	})
	if err := os.Remove(filepath.Join(c.Dir, file)); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

// process waits for the id of a daemon in its file: a daemon writes it after the command that starts it has returned.
func (c *Cluster) process(t testing.TB, file string) (pid int) {
	t.Helper()
	Eventually(t, "an id in "+file, func() bool {
		text, err := os.ReadFile(filepath.Join(c.Dir, file))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	return pid
}

// programs is the directory of gantry and gantry-task that this package built, "" before.
var programs string

var buildPrograms = sync.OnceValue(func() (err error) {
	if programs, err = os.MkdirTemp("", "gantry-programs"); err != nil {
		return err
	}
	for _, name := range []string{"gantry", "gantry-task"} {
		build := exec.Command("go", "build", "-o", filepath.Join(programs, name), "gantry/cmd/"+name)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	return nil
})

// Programs builds gantry and gantry-task for the tests of a package, and returns their directory. Main removes it.
// Nothing is built where $GANTRY_TEST_BIN is the directory of those that were just built.
func Programs(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("GANTRY_TEST_BIN"); bin != "" {
		return bin
	}
	if err := buildPrograms(); err != nil {
		t.Fatal(err)
	}
	return programs
}

// Main is TestMain of packages that call Programs.
func Main(m *testing.M) {
	code := m.Run()
	if programs != "" {
		os.RemoveAll(programs)
	}
	os.Exit(code)
}
