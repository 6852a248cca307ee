// Command gantry-task does the work that a trace records of a task: the same CPU time, the same memory, the same files
// read and these written. It runs inside the task's container, measures itself, writes emulation.json and exits with 70
// if it missed a target. On SIGTERM it leaves a checkpoint, if it was asked to, and exits with 75; started with one it
// goes on from there.
//
//	gantry-task SPEC.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"gantry/executor/docker/launch"
	"gantry/executor/emulate"
)

func main() {
	args := os.Args[1:]
	if len(args) == 1 && args[0] == "protocol" {
		fmt.Println(emulate.Protocol)
		return
	}
	if len(args) > 0 && args[0] == "launch" { // begins the program of a real task
		os.Exit(launch.Main(args[1:]))
	}
	// The first process of a container gets no signal that it does not ask for, and Go ends it at those that it has not
	// asked for yet.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if len(args) == 0 {
		os.Exit(run(args, stop))
	}
	switch args[0] {
	case "exec": // of a container that an earlier gantry made
		os.Exit(launch.Old(args[1:]))
	case "emulate": // CONTROL UID:GID SPEC.json, as the task of a container
		if len(args) != 4 {
			fmt.Fprintln(os.Stderr, "usage: gantry-task emulate CONTROL UID:GID SPEC.json")
			os.Exit(emulate.ExitUsage)
		}
		j, code := launch.Enter(args[1], args[2])
		if code == 0 {
			code = run(args[3:], stop)
			j.Ended(syscall.WaitStatus(code << 8))
		}
		os.Exit(code)
	case "attempt": // SPEC.json, of a container that an earlier gantry made
		if _, code := launch.Enter("", ""); code != 0 {
			os.Exit(code)
		}
		args = args[1:]
	}
	os.Exit(run(args, stop))
}

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
	if err := t.goOn(); err != nil {
		fmt.Fprintln(os.Stderr, "gantry-task: spec:", err)
		return emulate.ExitSpec
	}
	go t.await(stop)
	t.report.StartCPUNanos = processCPU()
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
	buffer   []byte       // for I/O, aligned to pages
	held     []byte       // the memory asked for
	computed atomic.Int64 // CPU nanoseconds spent on purpose
	writes   int64        // and those not, when what was kept back for writing is spent; 0: nothing was computed

	before   emulate.Checkpoint // of earlier attempts
	cpu      int64              // CPU nanoseconds to spend in this one
	progress progress
	stopping atomic.Bool   // SIGTERM came, and a checkpoint is wanted
	stopped  chan struct{} // closed when the work has halted for it
	over     atomic.Bool   // how it ends is decided: by itself, or with a checkpoint
}

func (t *task) missf(format string, args ...any) {
	t.report.Misses = append(t.report.Misses, fmt.Sprintf(format, args...))
}

// work goes through the phases. A miss ends it after its phase: outputs of a task without its inputs would only
// deceive.
func (t *task) work() {
	p := &t.report.Phases
	for _, phase := range []struct {
		do   func()
		took *int64
	}{{t.takeMemory, &p.MemoryNanos}, {t.read, &p.ReadNanos}, {t.compute, &p.ComputeNanos}, {t.write, &p.WriteNanos}} {
		start := time.Now()
		phase.do()
		*phase.took = int64(time.Since(start))
		if len(t.report.Misses) > 0 {
			break
		}
	}
	t.topUp()
	t.account()
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
