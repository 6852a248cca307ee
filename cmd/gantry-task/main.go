// Command gantry-task does the work that a trace records of a task: the same CPU time, the same memory, the same files
// read and these written. It runs inside the task's container, measures itself, writes emulation.json and exits with 70
// if it missed a target. On SIGTERM it leaves a checkpoint, if it was asked to, and exits with 75; started with one it
// continues from there.
//
//	gantry-task SPEC.json
//
// It starts once per task, so it does not follow the CPU quota of its control group, which it would look for in files.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	_ "gantry/executor/container/launch/first" // launches tasks before main is reached
	"gantry/executor/emulate"
)

func main() {
	args := os.Args[1:]
	if len(args) == 1 && args[0] == "protocol" {
		fmt.Println(emulate.Protocol)
		return
	}
	if len(args) > 0 && args[0] == "sees" {
		os.Exit(sees(args[1:]))
	}
	// The first process of a container gets no signal that it does not ask for, and Go ends it at those that it has not
	// asked for yet.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	os.Exit(run(args, stop))
}

// sees returns the number of the first path, from 1 on, that leads to another file than the text has, "DEVICE INODE
// PATH"; 0 if none does.
func sees(expected []string) int {
	for i, text := range expected {
		var device, inode uint64
		var path string
		var st unix.Stat_t
		if n, _ := fmt.Sscan(text, &device, &inode, &path); n < 3 || unix.Stat(path, &st) != nil ||
			uint64(st.Dev) != device || st.Ino != inode {
			return i + 1
		}
	}
	return 0
}

// run does the work and returns the exit code. A task that leaves a checkpoint ends the process instead.
func run(args []string, stop <-chan os.Signal) int {
	began := time.Now()
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: gantry-task SPEC.json (does the work of one emulated task in the current "+
			"directory)")
		return emulate.ExitUsage
	}
	debug.SetGCPercent(-1) // little is allocated in all, and a collector would cost CPU time of its own

	spec, err := emulate.ReadSpec(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gantry-task: spec:", err)
		return emulate.ExitSpec
	}
	t := &task{spec: spec, stopped: make(chan struct{})}
	if err := t.goOn(began); err != nil {
		fmt.Fprintln(os.Stderr, "gantry-task: spec:", err)
		return emulate.ExitSpec
	}
	go t.await(stop)
	t.report.StartCPUNanos = processCPU()
	// Each thread at work keeps its processor of the Go runtime; one more is for the rest of the program.
	runtime.GOMAXPROCS(max(spec.Threads, 1) + 3)
	t.work()
	if !t.over.CompareAndSwap(false, true) {
		select {} // a checkpoint is being left
	}
	t.report.Phases.WallNanos = int64(time.Since(began))
	if err := t.leaveReport(); err != nil {
		t.missf("report: %v", err)
	}
	for _, m := range t.report.Misses {
		fmt.Fprintln(os.Stderr, "gantry-task: missed: "+m)
	}
	if len(t.report.Misses) > 0 {
		return emulate.ExitMissed
	}
	return emulate.ExitOK
}

// task is one emulated task at work.
type task struct {
	spec     *emulate.Spec
	report   emulate.Report
	pace     *pace
	reading  []byte        // buffers for I/O, aligned to pages
	writing  []byte        //
	held     []byte        // the memory asked for
	giving   time.Duration // how long giving that back takes
	computed atomic.Int64  // CPU nanoseconds spent on purpose
	ownThen  int64         // and others, when computing ended; 0: there was none
	toWrite  atomic.Int64  // bytes of outputs
	toRead   int64         // bytes of inputs
	hasRead  int64
	allRead  atomic.Bool
	writes   int64 // toWrite at the begin

	hasWritten int64
	paused     time.Duration // while writing

	before   emulate.Checkpoint // of earlier attempts
	cpu      int64              // CPU nanoseconds to spend in this one
	progress progress
	mu       sync.Mutex    // of report.Misses
	failed   atomic.Bool   // there is a miss
	stopping atomic.Bool   // SIGTERM came, and a checkpoint is wanted
	halted   atomic.Bool   // work was left for it
	stopped  chan struct{} // closed when the work has halted for it
	over     atomic.Bool   // how it ends is decided: by itself, or with a checkpoint
}

func (t *task) missf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed.Store(true)
	t.report.Misses = append(t.report.Misses, fmt.Sprintf(format, args...))
}

// work takes the memory, does the three parts of the work side by side, and gives the memory back at the end of the
// run. A miss ends it: outputs of a task without its inputs would only deceive.
func (t *task) work() {
	begun := time.Now()
	t.takeMemory()
	t.report.Phases.MemoryNanos = int64(time.Since(begun))
	t.look()
	parts := []struct {
		name  string
		do    func()
		ended time.Duration
	}{{name: emulate.LimitedByRead, do: t.read}, {name: emulate.LimitedByWrite, do: t.write},
		{name: emulate.LimitedByCPU, do: t.compute}}
	last, started := emulate.LimitedByStart, t.pace.now()
	if !t.failed.Load() {
		var wg sync.WaitGroup
		for i := range parts {
			wg.Go(func() {
				runtime.LockOSThread() // it sleeps without telling the Go runtime
				parts[i].do()
				parts[i].ended = t.pace.now()
			})
		}
		wg.Wait()
	}
	for ended := started; len(parts) > 0; parts = parts[1:] {
		if p := &parts[0]; p.ended > ended+time.Millisecond {
			last, ended = p.name, p.ended
		}
	}
	for t.pace.now() < t.pace.run-t.giving && !t.halts() {
		t.pace.pause(t.pace.run - t.giving)
	}
	if t.halted.Load() { // for a checkpoint: this is the end of the work
		close(t.stopped)
		select {}
	}
	t.account()
	if t.held != nil {
		unix.Munmap(t.held)
	}
	for t.pace.now() < t.pace.run && !t.failed.Load() {
		t.pace.pause(t.pace.run)
	}
	if late := t.pace.now() - t.pace.run; t.pace.run > 0 && late > emulate.Late(t.pace.run) {
		t.report.LateNanos, t.report.LimitedBy = int64(late), last
	}
}

func (t *task) leaveReport() error {
	if t.report.Misses == nil {
		t.report.Misses = []string{}
	}
	b, err := json.MarshalIndent(&t.report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(emulate.ReportFile+".part", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(emulate.ReportFile+".part", emulate.ReportFile)
}
