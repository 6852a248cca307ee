package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gantry/executor/emulate"
)

// haltWithin is how long a checkpoint waits for the work to halt. A thread in a longer system call does not compute,
// and its work is done again.
const haltWithin = 500 * time.Millisecond

// progress counts finished files for a checkpoint while the work continues.
type progress struct {
	mu    sync.Mutex // files count when they are whole
	files struct {
		inputs, outputs int
		read, written   int64
	}
}

// whole counts a file that was read or written.
func (p *progress) whole(files *int, sum *int64, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*files++
	*sum += bytes
}

// goOn takes in the checkpoint that the task continues from.
func (t *task) goOn(begun time.Time) error {
	t.report.Attempts, t.cpu = 1, t.spec.CPUNanos
	t.pace = newPace(begun, t.spec.Run())
	if t.spec.From == "" {
		return nil
	}
	f, err := os.Open(t.spec.From)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := emulate.ReadCheckpoint(f, t.spec)
	if err != nil {
		return fmt.Errorf("%s: %w", t.spec.From, err)
	}
	t.before = *c
	t.cpu = t.spec.CPUNanos - int64(float64(t.spec.CPUNanos)*c.CPUDone)
	t.pace = newPace(begun, time.Duration(float64(t.spec.Run())*(1-c.TimeDone)))
	t.report.Attempts = c.Attempts + 1
	t.report.Read.Achieved, t.report.Write.Achieved = c.ReadBytes, c.WrittenBytes
	return nil
}

// halts reports whether the work is to end as it is: a checkpoint is to be left, or a part of the work has failed.
func (t *task) halts() bool {
	if t.stopping.Load() {
		t.halted.Store(true)
	}
	return t.halted.Load() || t.failed.Load()
}

// await ends the process on SIGTERM.
func (t *task) await(term <-chan os.Signal) {
	<-term
	if !t.spec.Keep {
		os.Exit(emulate.ExitStopped)
	}
	t.stopping.Store(true)
	select {
	case <-t.stopped:
	case <-time.After(haltWithin):
	}
	if !t.over.CompareAndSwap(false, true) {
		return // it has just ended by itself
	}
	if err := t.leaveCheckpoint(); err != nil {
		fmt.Fprintln(os.Stderr, "gantry-task: checkpoint:", err)
		os.Exit(emulate.ExitStopped)
	}
	os.Exit(emulate.ExitKept)
}

// checkpoint is how far the task is.
func (t *task) checkpoint() emulate.Checkpoint {
	spent := processCPU()
	c := t.before
	c.Attempts++
	c.CPUNanos += spent
	c.OwnCPUNanos += max(0, spent-t.computed.Load())
	if all := t.spec.CPUNanos; all > 0 {
		c.CPUDone = min(1, c.CPUDone+float64(spent)/float64(all))
	}
	if run := t.spec.Run(); run > 0 {
		c.TimeDone = min(1, c.TimeDone+float64(t.pace.now())/float64(run))
	}
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	f := &t.progress.files
	c.Inputs, c.Outputs, c.ReadBytes, c.WrittenBytes = c.Inputs+f.inputs, c.Outputs+f.outputs, c.ReadBytes+f.read,
		c.WrittenBytes+f.written
	return c
}

// leaveCheckpoint makes the checkpoint, and the outputs that it counts, durable. The checkpoint appears by rename,
// after it was synced; the emulator then exits with emulate.ExitKept.
func (t *task) leaveCheckpoint() error {
	c := t.checkpoint()
	for _, f := range t.spec.Outputs[:c.Outputs] {
		if err := syncDir(filepath.Dir(f.Path)); err != nil {
			return err
		}
	}
	part := emulate.CheckpointFile + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	err = c.Write(f, t.spec.CheckpointBytes)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, emulate.CheckpointFile); err != nil {
		return err
	}
	return syncDir(".")
}
