// Package logtest writes logs of runs that never were, through the public surface of package sqlite, for tests of
// readers of logs.
package logtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/trace"
)

// Second is a second on the axis of a run.
const Second = planner.Time(time.Second)

// Info describes a run on a cluster of two nodes, n1 and n2, of two cores each.
func Info(name string) sqlite.RunInfo {
	capacity := unit.Vector{unit.CPU: 2000, unit.Memory: 4 << 30, unit.Disk: unit.Unlimited}
	return sqlite.RunInfo{Name: name, Runtime: "docker", Policy: "heft", Command: []string{"gantry", "run",
		"diamond.dax"}, Version: "0.1",
		Started: time.Date(2026, 11, 21, 10, 30, 0, 250_000_000, time.UTC), Seed: 7, TimeScale: 1, SizeScale: 1,
		Platform: planner.Platform{Nodes: []planner.Node{
			{ID: 0, Name: "n1", Capacity: capacity, Speed: 1}, {ID: 1, Name: "n2", Capacity: capacity, Speed: 0.5}},
			Groups: []string{""}},
		Host: &sqlite.Host{Name: "calm", System: "linux", Architecture: "x86_64", Release: "6.1", Cores: 4, MHz: 2400,
			Vendor: "AMD", Model: "AMD EPYC 7763", Memory: 8 << 30}}
}

// Log is a run under construction: each call appends one batch.
type Log struct {
	*sqlite.Run
	tb       testing.TB
	admit    *executor.Admitter
	seq      uint64
	attempts planner.AttemptID
	queued   map[planner.AttemptID]planner.Time
}

// New begins a run in db.
func New(tb testing.TB, db *sqlite.DB, info sqlite.RunInfo) *Log {
	tb.Helper()
	run, err := db.CreateRun(context.Background(), info)
	if err != nil {
		tb.Fatal(err)
	}
	return &Log{Run: run, tb: tb, admit: &executor.Admitter{Platform: &info.Platform, TimeScale: 1, SizeScale: 1},
		queued: map[planner.AttemptID]planner.Time{}}
}

// Event appends one event.
func (l *Log) Event(at planner.Time, body planner.Body, admissions ...*executor.Admission) {
	l.tb.Helper()
	l.seq++
	if err := l.Append(context.Background(), executor.Batch{Events: []planner.Event{{Seq: l.seq, At: at, Body: body}},
		Admissions: admissions}); err != nil {
		l.tb.Fatal(err)
	}
}

// Arrive admits a workflow whose task i has the parents given, and returns the id of its first task. Task i is called
// <kind>_<i>, needs one core and writes one file that its children read; the first task reads a file from outside.
func (l *Log) Arrive(at planner.Time, name string, kinds []string, parents [][]int32) planner.TaskID {
	l.tb.Helper()
	a := admission(l.admit, at, name, kinds, parents)
	l.Event(at, &a.Arrived, a)
	return a.Arrived.Tasks[0].ID
}

// Admission makes the admission of Arrive at the beginning of a run.
func Admission(name string, kinds []string, parents [][]int32) *executor.Admission {
	platform := Info("").Platform
	return admission(&executor.Admitter{Platform: &platform, TimeScale: 1, SizeScale: 1}, 0, name, kinds, parents)
}

func admission(by *executor.Admitter, at planner.Time, name string, kinds []string,
	parents [][]int32) *executor.Admission {
	w := &trace.Workflow{Name: name, Label: name, Source: name + ".dax", Format: trace.DAX, Version: "3.6",
		Tasks: make([]trace.Task, len(kinds)),
		Files: []trace.File{{Name: "in.dat", Size: 1000, Sized: true, Producer: -1}}}
	for i, kind := range kinds {
		w.Files = append(w.Files, trace.File{Name: fmt.Sprintf("out/%d.dat", i), Size: int64(i+1) * 1000, Sized: true,
			Producer: int32(i)})
		t := &w.Tasks[i]
		*t = trace.Task{ID: fmt.Sprintf("%s_%d", kind, i), Name: kind, Kind: kind, Parents: parents[i],
			Outputs: []int32{int32(i) + 1}, Retries: -1, Runtime: time.Duration(i+1) * time.Second, Cores: 1,
			MemoryBytes: 32 << 20, Known: trace.Runtime | trace.Cores, Imputed: trace.Memory}
		if len(parents[i]) == 0 {
			t.Inputs = []int32{0}
		}
		for _, q := range parents[i] {
			t.Inputs = append(t.Inputs, q+1)
			w.Tasks[q].Children = append(w.Tasks[q].Children, int32(i))
		}
	}
	a, err := by.Admit(&executor.Submission{Workflow: w, Name: name, Tenant: "alice", At: at, Release: at,
		Due: unit.Never}, at)
	if err != nil {
		panic(err) // any host can run it
	}
	return a
}

// Plan appends a round that orders nothing and says why tasks wait.
func (l *Log) Plan(at planner.Time, waits ...planner.Wait) {
	l.tb.Helper()
	l.Event(at, &planner.PlanCommitted{Round: int64(l.seq), Reasons: waits, Took: 50 * time.Microsecond})
}

// Start orders an attempt and starts its program half a second later.
func (l *Log) Start(at planner.Time, t planner.TaskID, try int32, n planner.NodeID,
	estimate time.Duration) planner.AttemptID {
	l.tb.Helper()
	a := l.attempts
	l.attempts++
	l.queued[a] = at
	l.Event(at, &planner.PlanCommitted{Round: int64(l.seq), Took: 70 * time.Microsecond,
		Orders: []planner.Order{{Kind: planner.OrderStart,
			Attempt: a, Task: t, Node: n, Hold: unit.Vector{unit.CPU: 1000, unit.Memory: 64 << 20}, Try: try,
			Until: at.Add(estimate),
			Est:   planner.Estimate{Run: estimate, Spread: estimate / 10, Source: planner.SourceDeclared}}}})
	l.Event(at+Second/2, planner.AttemptStarted{Attempt: a})
	return a
}

// Exit ends an attempt that Start began.
func (l *Log) Exit(at planner.Time, a planner.AttemptID, outcome planner.Outcome, code int, message string) {
	l.tb.Helper()
	q := l.queued[a]
	ran := at.Sub(q + Second/2)
	l.Event(at, &planner.AttemptExited{Attempt: a, Outcome: outcome, ExitCode: code, Ran: ran, Message: message,
		Usage: planner.Usage{
			Queued: q, Staged: q + Second/4, Created: q + Second/3, Started: q + Second/2, Ended: at,
			CPUUser:    ran * 3 / 4,
			CPUSystem:  ran / 8,
			PeakMemory: 50e6, ReadBytes: 2e6, WrittenBytes: 1e6, ReadOps: 20, WriteOps: 10,
			Missing: planner.CounterThrottled,
			Applied: planner.Limits{CPUMillicores: 1000, Memory: 64 << 20, MemorySwap: 64 << 20, PIDs: 100}}})
}

// Diamond is a whole run: workflow "diamond" of four tasks, where one of the middle ones fails at first for want of
// memory.
func Diamond(tb testing.TB, db *sqlite.DB, name string) {
	tb.Helper()
	l := New(tb, db, Info(name))
	t := l.Arrive(0, "diamond", []string{"split", "work", "work", "join"}, [][]int32{nil, {0}, {0}, {1, 2}})
	wait := func(i planner.TaskID, r planner.Reason) planner.Wait { return planner.Wait{Task: t + i, Reason: r} }
	parents := planner.Reason{Code: planner.WaitsForParents}
	a := l.Start(0, t, 1, 0, 2*time.Second)
	l.Plan(0, wait(1, parents), wait(2, parents), wait(3, parents))
	l.Exit(2*Second, a, planner.OK, 0, "")
	b := l.Start(2*Second, t+1, 1, 0, 3*time.Second)
	l.Plan(2*Second, wait(2, planner.Reason{Code: planner.NoNodeFree, Dim: unit.Memory}))
	c := l.Start(3*Second, t+2, 1, 1, 3*time.Second)
	l.Exit(4*Second, c, planner.OutOfMemory, 137, "memory.events shows 1 oom_kill under a limit of 64 MiB")
	l.Plan(4*Second, wait(2, planner.Reason{Code: planner.NoNodeFree, Dim: unit.CPU}))
	l.Exit(5*Second, b, planner.OK, 0, "")
	c = l.Start(5*Second, t+2, 2, 1, 3*time.Second)
	l.Exit(9*Second, c, planner.OK, 0, "")
	d := l.Start(9*Second, t+3, 1, 0, 4*time.Second)
	l.Exit(14*Second, d, planner.OK, 0, "")
	if err := l.Warn("buffered-writes", "the kernel does not account buffered writes on cgroup v1"); err != nil {
		tb.Fatal(err)
	}
	if err := l.Finish(context.Background(), sqlite.Finished, 0); err != nil {
		tb.Fatal(err)
	}
}
