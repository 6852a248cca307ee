// Package emulate is the interface between gantry and its task emulator (cmd/gantry-task): the work that a task is to
// do, and a report of it. It is a leaf, and light, because the emulator starts once per task.
package emulate

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Protocol is raised whenever the interface between gantry and its emulator changes: arguments, files, exit codes. The
// emulator tells it to gantry before a run, since an emulator of another build would fail every task.
const Protocol = "gantry-task protocol 4"

// ReportFile is where the emulator leaves its report, in its working directory.
const ReportFile = "emulation.json"

// Exit codes of the emulator.
const (
	ExitOK      = 0
	ExitUsage   = 64  // no spec was named
	ExitSpec    = 65  // the spec cannot be read, or asks for the impossible
	ExitMissed  = 70  // a target was missed; one line on standard error for each
	ExitKept    = 75  // SIGTERM: progress is in CheckpointFile
	ExitStopped = 143 // SIGTERM, and no checkpoint was asked for or could be left
)

// Spec is the work of one task. The zero Spec asks for nothing, and nothing is done then. Memory is taken first and
// held to the end. Then inputs are read, CPU time is spent and outputs are written side by side, each spread over the
// run.
type Spec struct {
	// CPUNanos is the CPU time to spend, over all threads, by the CPU clock. It includes the process's own needs:
	// starting (with the container's set-up before it became this program), touching memory, reading and writing. So
	// the counters of the container show this amount.
	CPUNanos int64 `json:"cpu_nanos"`
	Threads  int   `json:"threads,omitempty"` // that share the CPU time; 0 is 1
	// RunNanos is how long the task lasts on the wall clock if its limits and its node allow it: see Run.
	RunNanos    int64  `json:"run_nanos,omitempty"`
	MemoryBytes int64  `json:"memory_bytes"` // resident set, the emulator's own included
	Inputs      []File `json:"inputs,omitempty"`
	Outputs     []File `json:"outputs,omitempty"`
	Seed        uint64 `json:"seed,omitempty"` // of the outputs' content; equal seeds and paths give equal bytes
	// Keep has SIGTERM leave a checkpoint, of CheckpointBytes or of its line of JSON if that is more; without it
	// SIGTERM just ends the task. From is the checkpoint of an earlier attempt to continue from, relative to the
	// working directory, where the outputs that it counts as written have to be, too; "" starts again.
	Keep            bool   `json:"keep,omitempty"`
	CheckpointBytes int64  `json:"checkpoint_bytes,omitempty"`
	From            string `json:"from,omitempty"`
	// Direct goes past the page cache (O_DIRECT) where the file system can, so that block I/O limits bite and no cache
	// is charged to the task. Outputs and their directories are durable before the task ends in any case.
	Direct bool `json:"direct,omitempty"`
}

// File is a file to read or write, relative to the working directory. Bytes -1 for an input is however many it has.
type File struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// Work fills in the times of a Spec from a trace: the run time on the wall, the run time on a core of speed 1, the
// cores held, and avgCPU, the percentage of one core that was busy on average. A negative avgCPU is not known: all
// cores are taken as busy. More than 100 percent per core cannot be.
func (s *Spec) Work(run, reference time.Duration, cores int64, avgCPU float64) {
	s.Threads = int(max(cores, 1))
	full := float64(100 * s.Threads)
	if avgCPU < 0 || avgCPU > full {
		avgCPU = full
	}
	s.RunNanos, s.CPUNanos = int64(run), int64(float64(reference)*avgCPU/100)
}

// Run is how long the work is spread over: RunNanos, or the CPU time of each thread if that is longer.
func (s *Spec) Run() time.Duration {
	return time.Duration(max(s.RunNanos, s.CPUNanos/int64(max(s.Threads, 1))))
}

// Validate reports why s cannot be done.
func (s *Spec) Validate() error {
	switch {
	case s.CPUNanos < 0:
		return fmt.Errorf("cpu_nanos is %d, below 0", s.CPUNanos)
	case s.RunNanos < 0:
		return fmt.Errorf("run_nanos is %d, below 0", s.RunNanos)
	case s.Threads < 0 || s.Threads > 4096:
		return fmt.Errorf("threads is %d, outside 0 to 4096", s.Threads)
	case s.CheckpointBytes < 0:
		return fmt.Errorf("checkpoint_bytes is %d, below 0", s.CheckpointBytes)
	case s.MemoryBytes < 0:
		return fmt.Errorf("memory_bytes is %d, below 0", s.MemoryBytes)
	}
	for _, f := range s.Inputs {
		if f.Path == "" || f.Bytes < -1 {
			return fmt.Errorf("input %q of %d bytes", f.Path, f.Bytes)
		}
	}
	for _, f := range s.Outputs {
		if f.Path == "" || f.Bytes < 0 {
			return fmt.Errorf("output %q of %d bytes", f.Path, f.Bytes)
		}
	}
	return nil
}

// Write writes s to a file for the emulator.
func (s *Spec) Write(path string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("task emulator's spec: %w", err)
	}
	return os.WriteFile(path, b, 0o644)
}

// ReadSpec reads and validates a spec.
func ReadSpec(path string) (*Spec, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := new(Spec)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Report is the work that the emulator did, with earlier attempts where it continued from a checkpoint.
type Report struct {
	Attempts int `json:"attempts"` // this one and those before it that left a checkpoint

	CPU    Amount `json:"cpu_nanos"` // of the whole process
	Memory Amount `json:"memory_bytes"`
	Read   Amount `json:"read_bytes"` // asked: sizes of inputs where they were given
	Write  Amount `json:"written_bytes"`

	OwnMemoryBytes int64 `json:"own_memory_bytes"` // the emulator's resident set before it took any
	// CPU time of the process until the emulator began, the container's set-up included
	StartCPUNanos int64 `json:"start_cpu_nanos"`
	// CPU time of everything but computing: starting, touching memory, reading and writing
	OwnCPUNanos int64  `json:"own_cpu_nanos"`
	Phases      Phases `json:"phases"`
	// LateNanos is by how much the task lasted longer than its Run, if by more than a clock's grain; LimitedBy is the
	// part of the work that ended last then: "cpu", "read", "write", or "start" if beginning took that long.
	LateNanos int64  `json:"late_nanos,omitempty"`
	LimitedBy string `json:"limited_by,omitempty"`

	Misses []string `json:"misses"`
}

// Amount is a quantity as it was asked for and as it was reached.
type Amount struct {
	Asked    int64 `json:"asked"`
	Achieved int64 `json:"achieved"`
}

// Phases are wall times. Reading, computing and writing go side by side, so they do not add up.
type Phases struct {
	MemoryNanos  int64 `json:"memory_nanos"`
	ReadNanos    int64 `json:"read_nanos"`    // in system calls, without the pauses between them; so is WriteNanos
	ComputeNanos int64 `json:"compute_nanos"` // until the CPU time was spent, pauses included
	WriteNanos   int64 `json:"write_nanos"`
	WallNanos    int64 `json:"wall_nanos"` // from the start of the program
}

// mostReport bounds the bytes of a report.
const mostReport = 1 << 20

// ReadReport reads the report from the directory where the emulator ran.
func ReadReport(dir string) (*Report, error) {
	const flags = os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK // whose directory it is may have replaced it
	f, err := os.OpenFile(filepath.Join(dir, ReportFile), flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := new(Report)
	if err := json.NewDecoder(io.LimitReader(f, mostReport)).Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ReportFile), err)
	}
	return r, nil
}
