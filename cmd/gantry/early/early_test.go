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
	fmt.Println("up")
	time.Sleep(time.Minute)
}

// A signal ends gantry in order as soon as it reads its input.
func TestASignalEndsARunInOrder(t *testing.T) {
	for _, c := range []struct {
		command string
		signal  syscall.Signal
		code    int // -1: the signal ends it
	}{
		{"run", syscall.SIGTERM, early.Stopped},
		{"resume", syscall.SIGINT, early.Stopped},
		{"serve", syscall.SIGTERM, early.Stopped},
		{"run", syscall.SIGHUP, early.Stopped},
		{"show", syscall.SIGTERM, -1},
	} {
		t.Run(fmt.Sprintf("%s %v", c.command, c.signal), func(t *testing.T) {
			// What this process handles its children have by default, also where nohup ignores it.
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
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
			_, _ = bufio.NewReader(out).ReadString('\n')
			_ = cmd.Process.Signal(c.signal)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code ||
				(code == early.Stopped) != strings.Contains(told.String(), "before anything was started") {
				t.Fatalf("it ends with %v, and says %q", cmd.ProcessState, told.String())
			}
		})
	}
}
