package cmd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gantry/cmd/internal/session"
	"gantry/executor/sim/hostmodel"
)

func TestCalibrate(t *testing.T) {
	long(t)
	t.Run("docker", func(t *testing.T) {
		needsDocker(t)
		testCalibrate(t, "docker")
	})
	t.Run("oci", func(t *testing.T) {
		needsOCI(t)
		noDocker(t)
		testCalibrate(t, "oci")
	})
}

// testCalibrate measures this host with the containers of a runtime.
func testCalibrate(t *testing.T, runtime string) {
	home := t.TempDir()
	args := []string{"calibrate", "--quick", "--runtime", runtime, "--dir", home}
	unquiet := somebodyElse(t, home)
	code, _, errs := invoke(t, args...)
	unquiet()
	if code != exitHost || !strings.Contains(errs, "--force") || strings.Contains(errs, "wider") {
		t.Fatalf("somebody else computed, and it ends with %d:\n%s", code, errs)
	}
	db := logIn(t, home)
	if rows, err := db.HostModels(t.Context(), ""); err != nil || len(rows) != 0 {
		t.Errorf("%d models are stored, %v", len(rows), err)
	}
	args = append(args, "--force")
	code, out, errs := invoke(t, args...)
	for try := 2; try <= 6 && code == exitHost && strings.Contains(errs, "the host was too busy"); try++ {
		nothingIsLeft(t, home) // other tests disturbed it
		code, out, errs = invoke(t, args...)
	}
	if code != exitOK {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	for _, w := range []string{"to start its program", "programs lose", "It is kept in"} {
		if !strings.Contains(out, w) {
			t.Errorf("it does not say %q:\n%s", w, out)
		}
	}
	m, row, err := session.FindHostModel(t.Context(), db, runtime, home)
	must(t, err)
	if row.Engine == "" || time.Since(row.Created) > time.Hour || m.Measured.Containers < 40 ||
		m.Phases.Start.Wall.BaseNanos < 1e6 || m.Emulator.StartCPUNanos < 1e5 ||
		len(m.Phases.Start.Slowdown.Factor) < 2 || m.Phases.Copy.Wall.FileNanos+m.Phases.Copy.Wall.ByteNanos == 0 ||
		len(m.Interference.Factor) < 2 {
		t.Errorf("%+v, %+v", row, m)
	}
	nothingIsLeft(t, home)
}

// somebodyElse keeps a core busy from when a calibration is in the midst of its work, until it is told to end.
func somebodyElse(t *testing.T, home string) (end func()) {
	t.Helper()
	busy := exec.Command("sh", "-c", "while :; do :; done")
	over := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if begun, _ := filepath.Glob(filepath.Join(home, "calibrate-*", "work", "lab", "t9-1")); len(begun) > 0 {
				if err := busy.Start(); err != nil {
					t.Error(err)
				}
				return
			}
		}
	})
	return func() {
		close(over)
		work.Wait()
		if busy.Process != nil {
			_ = busy.Process.Kill()
			_ = busy.Wait()
		}
	}
}

func nothingIsLeft(t *testing.T, home string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(home, "calibrate-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	out, err := exec.Command("docker", "ps", "-a", "--format", `{{.Label "gantry.dir"}}`).Output()
	if err == nil && strings.Contains(string(out), home) {
		t.Errorf("containers are left: %s", out)
	}
}

func TestAnInterruptedTrialLeavesNothing(t *testing.T) {
	needsOCI(t)
	needsTask(t)
	beside(t)
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		t.Run("calibrate "+signal.String(), func(t *testing.T) {
			home := testInterruptedTrial(t, signal, "calibrate-*/*/lab/t2-1", "calibrate", "--quick")
			db := logIn(t, home)
			if rows, err := db.HostModels(t.Context(), ""); err != nil || len(rows) != 0 {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		})
		t.Run("doctor "+signal.String(), func(t *testing.T) {
			testInterruptedTrial(t, signal, "doctor-*/*/doctor/frozen-1", "doctor")
		})
	}
}

// testInterruptedTrial sends a signal to a command that tries containers once a directory below the returned home is
// there, and expects that nothing is left.
func testInterruptedTrial(t *testing.T, signal os.Signal, midst string, command ...string) (home string) {
	t.Helper()
	home = t.TempDir()
	cmd := gantryProcess(t, append(command, "--runtime", "oci", "--dir", home)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	for begun := false; !begun; {
		select {
		case <-ended:
			t.Fatalf("it ended before it could be interrupted: %s", said.String())
		case <-time.After(10 * time.Millisecond):
		}
		in, _ := filepath.Glob(filepath.Join(home, midst))
		begun = len(in) > 0
	}
	dirs, _ := filepath.Glob(filepath.Join(home, command[0]+"-*"))
	name := filepath.Base(dirs[0])
	if out := expect(t, exitOK, nil, "clean", "--dir", home, name); strings.Contains(out, "deleted") {
		t.Errorf("it is under way, and was cleaned: %s", out)
	}
	_ = cmd.Process.Signal(signal)
	if <-ended; signal == os.Interrupt && cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("%v: %s", cmd.ProcessState, said.String())
	}
	if signal == os.Kill {
		// A program that was just being started may hold the directory for a moment more.
		eventually(t, func() (bool, any) {
			out := expect(t, exitOK, nil, "clean", "--dir", home, name)
			return strings.Contains(out, "deleted files of run "+name), out
		})
	}
	nothingIsLeft(t, home)
	return home
}

func TestRunsNameTheirHostModel(t *testing.T) {
	home := t.TempDir()
	flow := written(t, "one.dax", oneTask)
	simulate := func(name string, more ...string) {
		t.Helper()
		expect(t, exitOK, []string{"host model "}, slices.Concat([]string{"simulate", "--dir", home, "--name", name},
			more, []string{flow})...)
	}
	simulate("ideal")
	if code, out, _ := invoke(t, "ls", "--dir", home); code != exitOK || strings.Contains(out, "host model") {
		t.Errorf("there is no host model, and ls prints a column for it:\n%s", out)
	}
	keepModel(t, home, "docker", nil)
	simulate("quiet")
	busy := hostFile(t, func(m *hostmodel.Model) {
		m.Host.Name, m.Measured.At = "noisy", time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
		m.Measured.Warnings = []string{"other programs used 1.2 of 4 cores"}
	})
	simulate("loud", "--host-model", busy)
	const loud = "host model noisy 2031-02-03 04:05 (busy)"
	expect(t, exitOK, []string{"host model none"}, "show", "--dir", home, "ideal")
	expect(t, exitOK, []string{loud}, "show", "--dir", home, "loud")
	expect(t, exitOK, []string{`"host_model":{"host":"noisy","cores":4,"measured":"2031-02-03T04:05:06Z",` +
		`"warnings":["other programs used 1.2 of 4 cores"]}`}, "show", "--json", "--dir", home, "loud")
	expect(t, exitOK, []string{`"host_model":{"host":"noisy"`, `"host_model":null`}, "ls", "--json", "--dir", home)
	expect(t, exitOK, []string{"noisy 2031-02-03 04:05 (busy)", "none"}, "ls", "--dir", home)
	expect(t, exitOK, []string{loud, "host model none"}, "compare", "--dir", home, "loud", "ideal")
	expect(t, exitOK, []string{`"host_model":{"host":"noisy"`}, "compare", "--json", "--dir", home, "quiet", "loud")
}
