package early_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/cmd/gantry/early"
)

// TestMain is gantry where it runs as a child of a test: it says when it is up, and waits for a signal.
func TestMain(m *testing.M) {
	if os.Getenv("GANTRY_EARLY_TEST") == "" {
		os.Exit(m.Run())
	}
	early.Begin()
	fmt.Println("up")
	time.Sleep(time.Minute)
}

// A signal ends gantry in order from the moment on that the process has a handler, whoever's that is.
func TestASignalEndsARunInOrderFromTheFirstMoment(t *testing.T) {
	for _, c := range []struct {
		command string
		signal  syscall.Signal
		later   bool // wait until Begin has returned
		code    int  // -1: the signal ends it
	}{
		{"run", syscall.SIGTERM, false, early.Stopped},
		{"run", syscall.SIGTERM, true, early.Stopped},
		{"resume", syscall.SIGINT, false, early.Stopped},
		{"serve", syscall.SIGTERM, false, early.Stopped},
		{"run", syscall.SIGHUP, false, early.Stopped},
		{"show", syscall.SIGTERM, true, -1},
	} {
		t.Run(fmt.Sprintf("%s %v %v", c.command, c.signal, c.later), func(t *testing.T) {
			// What this process handles its children have by default, also where nohup ignores it.
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			for range 20 {
				var told strings.Builder
				cmd := exec.Command(os.Args[0], "--flag", c.command, "show")
				cmd.Env = append(os.Environ(), "GANTRY_EARLY_TEST=1")
				cmd.Stderr = &told
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if c.later {
					_, _ = bufio.NewReader(out).ReadString('\n')
				} else {
					end := time.Now().Add(time.Minute)
					for !catches(cmd.Process.Pid, c.signal) && time.Now().Before(end) {
						continue
					}
				}
				_ = cmd.Process.Signal(c.signal)
				_ = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != c.code ||
					(code == early.Stopped) != strings.Contains(told.String(), "before anything was started") {
					t.Fatalf("it ends with %v, and says %q", cmd.ProcessState, told.String())
				}
			}
		})
	}
}

// catches reports whether the process has a handler for a signal.
func catches(pid int, s syscall.Signal) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "SigCgt:")
	var mask uint64
	_, _ = fmt.Sscanf(rest, "%x", &mask)
	return mask>>(s-1)&1 != 0
}
