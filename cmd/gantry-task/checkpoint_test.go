package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gantry/executor/emulate"
)

// interrupted runs the emulator in dir and sends it SIGTERM once ready says so.
func interrupted(t *testing.T, dir string, s emulate.Spec, ready func(pid int) bool) ended {
	t.Helper()
	must(t, s.Write(filepath.Join(dir, "spec.json")))
	cmd := exec.Command(binary, "spec.json")
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	must(t, cmd.Start())
	for deadline := time.Now().Add(2 * time.Minute); !ready(cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			cmd.Process.Kill()
			t.Fatal("the task did not get as far as it was to get")
		}
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), stderr.String(), cmd.ProcessState.UserTime() +
		cmd.ProcessState.SystemTime(), 0}
}

// cpuOf is the CPU time of a process so far.
func cpuOf(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	b = b[bytes.LastIndexByte(b, ')')+2:]
	var user, system int64
	fmt.Sscanf(string(b), "%s %d %d %d %d %d %d %d %d %d %d %d %d", new(string), new(int), new(int), new(int), new(int),
		new(int), new(int), new(int), new(int), new(int), new(int), &user, &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}

func checkpointIn(t *testing.T, dir string, s *emulate.Spec) *emulate.Checkpoint {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, emulate.CheckpointFile))
	must(t, err)
	defer f.Close()
	c, err := emulate.ReadCheckpoint(f, s)
	must(t, err)
	return c
}

// goOnIn makes what the attempt in dir left the start of one in another directory.
func goOnIn(t *testing.T, dir string, s *emulate.Spec) (string, *emulate.Checkpoint) {
	t.Helper()
	c := checkpointIn(t, dir, s)
	to := t.TempDir()
	keep := func(from, name string) {
		b, err := os.ReadFile(filepath.Join(dir, from))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, name), b, 0o644))
	}
	keep(emulate.CheckpointFile, "from")
	for _, f := range s.Outputs[:c.Outputs] {
		keep(f.Path, f.Path)
	}
	s.From = "from"
	return to, c
}

func TestTheCPUTimeOfAllAttemptsIsWhatWasAsked(t *testing.T) {
	const asked = 900 * time.Millisecond
	s := emulate.Spec{CPUNanos: int64(asked), Threads: 2, MemoryBytes: 20 << 20, Keep: true, CheckpointBytes: 100_000}
	dir, spent := t.TempDir(), time.Duration(0)
	for try, after := range []time.Duration{300 * time.Millisecond, 300 * time.Millisecond} {
		e := interrupted(t, dir, s, func(pid int) bool { return cpuOf(pid) >= after })
		if e.code != emulate.ExitKept {
			t.Fatalf("exit code %d, %s", e.code, e.stderr)
		}
		if n := size(t, filepath.Join(dir, emulate.CheckpointFile)); n != s.CheckpointBytes {
			t.Errorf("the checkpoint has %d bytes", n)
		}
		spent += e.cpu
		var c *emulate.Checkpoint
		if dir, c = goOnIn(t, dir, &s); c.Attempts != try+1 || c.Done(&s) < 0.25*float64(try+1) || c.Done(&s) > 0.95 {
			t.Errorf("after attempt %d: %+v", try+1, c)
		}
	}
	e, r := emulated(t, dir, s)
	spent += e.cpu
	if e.code != emulate.ExitOK || r.Attempts != 3 {
		t.Fatalf("exit code %d, %s, attempt %d", e.code, e.stderr, r.Attempts)
	}
	// The kernel also counts what each process takes to begin before its own clock is read, and to leave its
	// checkpoint.
	if off := spent - asked; off < -20*time.Millisecond || off > 90*time.Millisecond {
		t.Errorf("asked for %v, %v were spent in all", asked, spent)
	}
	if off := time.Duration(r.CPU.Achieved) - asked; r.CPU.Asked < int64(asked)-1000 ||
		r.CPU.Asked > int64(asked)+1000 || off < -20*time.Millisecond || off > 20*time.Millisecond {
		t.Errorf("reported %+v of %v", r.CPU, asked)
	}
}

func TestWholeOutputsAreNotWrittenAgain(t *testing.T) {
	s := emulate.Spec{Seed: 5, Keep: true, Inputs: []emulate.File{{Path: "in", Bytes: 1000}}}
	for i := range 200 {
		s.Outputs = append(s.Outputs, emulate.File{Path: fmt.Sprint("out", i), Bytes: 100_001})
	}
	plain := t.TempDir()
	put(t, filepath.Join(plain, "in"), 1000)
	if e, _ := emulated(t, plain, s); e.code != emulate.ExitOK {
		t.Fatal(e.stderr)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "in"), 1000)
	e := interrupted(t, dir, s, func(int) bool {
		_, err := os.Stat(filepath.Join(dir, "out20"))
		return err == nil
	})
	if e.code != emulate.ExitKept {
		t.Fatalf("exit code %d, %s", e.code, e.stderr)
	}
	next, c := goOnIn(t, dir, &s)
	if c.Inputs != 1 || c.Outputs < 20 || c.Outputs == len(s.Outputs) || c.ReadBytes != 1000 {
		t.Fatalf("%+v", c)
	}
	was, err := os.Stat(filepath.Join(next, "out0"))
	must(t, err)
	e, r := emulated(t, next, s) // there is no input any more: it was read
	if e.code != emulate.ExitOK || r.Read != (emulate.Amount{Asked: 1000, Achieved: 1000}) ||
		r.Write.Asked != r.Write.Achieved || r.Write.Asked != 200*100_001 {
		t.Fatalf("exit code %d, %s, %+v", e.code, e.stderr, r)
	}
	if is, err := os.Stat(filepath.Join(next, "out0")); err != nil || !os.SameFile(was, is) ||
		!is.ModTime().Equal(was.ModTime()) {
		t.Error("an output that was there was written again")
	}
	for _, f := range s.Outputs {
		want, err1 := os.ReadFile(filepath.Join(plain, f.Path))
		got, err2 := os.ReadFile(filepath.Join(next, f.Path))
		if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s differs from that of an uninterrupted task (%v, %v)", f.Path, err1, err2)
		}
	}
	os.Remove(filepath.Join(next, "out3"))
	if e, r := emulated(t, next, s); e.code != emulate.ExitMissed || len(r.Misses) != 1 {
		t.Errorf("without an output of an earlier attempt: exit code %d, %q", e.code, r.Misses)
	}
}

func TestAWaitGoesOnWhereItWas(t *testing.T) {
	s := emulate.Spec{RunNanos: int64(time.Second), Keep: true}
	dir := t.TempDir()
	began := time.Now()
	if e := interrupted(t, dir, s,
		func(int) bool { return time.Since(began) > 500*time.Millisecond }); e.code != emulate.ExitKept {
		t.Fatalf("exit code %d, %s", e.code, e.stderr)
	}
	dir, c := goOnIn(t, dir, &s)
	if d := c.Done(&s); d <= 0 || d >= 1 {
		t.Fatalf("%v done", d)
	}
	if e, r := emulated(t, dir, s); e.code != emulate.ExitOK || float64(r.Phases.WallNanos) < (1-c.Done(&s))*1e9 ||
		r.Phases.WallNanos > 990e6 {
		t.Errorf("exit code %d; of %v left it waited %v", e.code, 1-c.Done(&s), time.Duration(r.Phases.WallNanos))
	}
}

func TestABadCheckpointIsRefused(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "no line": `{"version":1}`, "no JSON": "x\n",
		"version":  `{"version":9,"attempts":1}` + "\n",
		"fraction": `{"version":2,"attempts":1,"cpu_done":1.5}` + "\n",
		"count":    `{"version":2,"attempts":1,"outputs":1}` + "\n",
		"sum":      `{"version":2,"attempts":1,"cpu_nanos":-1}` + "\n"} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "from"), []byte(text), 0o644))
		must(t, (&emulate.Spec{From: "from"}).Write(filepath.Join(dir, "spec.json")))
		if e := invoke(t, dir, "spec.json"); e.code != emulate.ExitSpec || e.stderr == "" {
			t.Errorf("%s: exit code %d, %q", name, e.code, e.stderr)
		}
	}
}
