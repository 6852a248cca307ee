package server

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/reader"
)

// Bounds of submissions.
const (
	longestText = 256            // bytes of names of tenants and workflows
	longest     = reader.MaxTime // of runtimes and times to wait
	mostBlocks  = 1_000_000      // that the files of a workflow are split into
	most        = int64(1) << 60 // bytes
)

// CheckSubmission returns the first fault of a submission that a client sent. Readers of traces make no such faults; a
// client that is broken or hostile may send anything, and no later code looks again.
func CheckSubmission(s *executor.Submission, nodes int) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("workflow %q: %w", s.Name, fmt.Errorf(format, args...))
	}
	switch w := s.Workflow; {
	case w == nil:
		return bad("it is none")
	case !plainText(s.Name) || s.Name == "":
		return errors.New("a workflow has no name, or one that is too long")
	case !plainText(s.Tenant):
		return bad("the name of its tenant has more than %d bytes, or is no text", longestText)
	case s.Class > planner.Deadline:
		return bad("it has class %d", s.Class)
	case s.Population != 0:
		return bad("it arrives when others have ended, which only gantry run knows")
	case !inTime(time.Duration(s.At), time.Duration(s.Release), time.Duration(s.Due)):
		return bad("its arrival, release or deadline is out of range")
	case s.Costs != nil && len(s.Costs) != len(w.Tasks):
		return bad("%d tasks have costs for %d", len(w.Tasks), len(s.Costs))
	case s.Sources != nil && len(s.Sources) != len(w.Files):
		return bad("%d files have sources for %d", len(w.Files), len(s.Sources))
	case s.Sources == nil && s.Inputs != "" && len(w.Files) > 0:
		return bad("its files have no sources, and the server looks for none")
	case s.Preempt != nil && (s.Preempt.Checkpoint < 0 || s.Preempt.Checkpoint > most):
		return bad("its checkpoints have %d bytes", s.Preempt.Checkpoint)
	case !w.Format.Exists():
		return bad("it has format %d", w.Format)
	}
	for i, c := range s.Costs {
		if c != nil &&
			(len(c) != nodes || slices.ContainsFunc(c, func(n int64) bool { return !inTime(time.Duration(n)) })) {
			return bad("the costs of task %d do not fit the nodes", i)
		}
	}
	for _, dir := range append([]string{s.Inputs}, s.Dirs...) {
		if dir != "" && !filepath.IsAbs(dir) {
			return bad("its directory of inputs %q is not absolute", dir)
		}
	}
	for _, x := range s.Sources {
		if x.Path != "" && !filepath.IsAbs(x.Path) || strings.ContainsRune(x.Path, 0) || x.Size < 0 || x.Size > most {
			return bad("the source %q of a file is not a path, or has no size", x.Path)
		}
	}
	if err := cmp.Or(checkFiles(s), checkTasks(s.Workflow)); err != nil {
		return bad("%w", err)
	}
	return nil
}

func plainText(s string) bool {
	return len(s) <= longestText && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

func hasZero(s string) bool { return strings.ContainsRune(s, 0) }

func inTime(all ...time.Duration) bool {
	return !slices.ContainsFunc(all, func(d time.Duration) bool { return d < 0 || d > longest })
}

func checkFiles(s *executor.Submission) error {
	w := s.Workflow
	seen := make(map[string]bool, len(w.Files))
	for i := range w.Files {
		f := &w.Files[i]
		switch {
		case f.Name == "" || seen[f.Name] || !utf8.ValidString(f.Name) || strings.ContainsRune(f.Name, 0):
			return fmt.Errorf("the name of file %d, %q, is no name or that of another one", i, f.Name)
		case f.Size < 0 || f.Size > most:
			return fmt.Errorf("file %q has %d bytes", f.Name, f.Size)
		case f.Producer < -1 || int(f.Producer) >= len(w.Tasks):
			return fmt.Errorf("file %q is written by task %d of %d", f.Name, f.Producer, len(w.Tasks))
		case f.Program() != "" && (!trace.SafeName(f.Program()) || trace.ReservedName(f.Program())):
			return fmt.Errorf("file %q is program %q, which is no name in the directory of a task", f.Name, f.Program())
		case f.Keep > trace.KeepNever:
			return fmt.Errorf("file %q is kept in way %d", f.Name, f.Keep)
		}
		seen[f.Name] = true
	}
	if d := s.Data; d != nil && (d.Block < 0 || d.Replicas < 0 || blocksOf(s) > mostBlocks) {
		return errors.New("its files are split into too many blocks")
	}
	return nil
}

// blocksOf counts the blocks of files by the sizes that the client gives, until they are too many.
func blocksOf(s *executor.Submission) (n int64) {
	for i := range s.Workflow.Files {
		size := s.Workflow.Files[i].Size
		if s.Sources != nil {
			size = max(size, s.Sources[i].Size)
		}
		if s.Data != nil && s.Data.Block > 0 && n <= mostBlocks {
			n += size / int64(s.Data.Block)
		}
	}
	return n
}

func checkTasks(w *trace.Workflow) error {
	seen := make(map[string]bool, len(w.Tasks))
	written := 0
	for i := range w.Tasks {
		t := &w.Tasks[i]
		numbers := []float64{t.Cores, t.AvgCPU}
		switch {
		case t.ID == "" || seen[t.ID] || !utf8.ValidString(t.ID):
			return fmt.Errorf("the id of task %d, %q, is none or that of another one", i, t.ID)
		case !indices(t.Parents, len(w.Tasks)):
			return fmt.Errorf("task %s depends on tasks that are not there, or on one twice", t.ID)
		case !indices(t.Inputs, len(w.Files)), !indices(t.Outputs, len(w.Files)):
			return fmt.Errorf("task %s has files that are not there, or one twice", t.ID)
		case !inTime(t.Runtime, t.Estimate, t.Overhead, t.TimeLimit, t.Tail):
			return fmt.Errorf("task %s: its runtime, overhead or limit of time is out of range", t.ID)
		case slices.ContainsFunc(numbers, func(x float64) bool { return !(x >= 0 && x <= 1e6) }): // NaN, too
			return fmt.Errorf("task %s: its cores or its use of them are out of range", t.ID)
		case min(t.MemoryBytes, t.ReadBytes, t.WrittenBytes, t.DiskBps, t.DiskLimit) < 0,
			max(t.MemoryBytes, t.ReadBytes, t.WrittenBytes, t.DiskBps, t.DiskLimit) > most:
			return fmt.Errorf("task %s: its memory or its bytes are out of range", t.ID)
		case t.GPUs < 0, t.GPUs > unit.WholeGPU && t.GPUs%unit.WholeGPU > 0, t.GPUs > planner.MostGPUs*unit.WholeGPU:
			return fmt.Errorf("task %s: it asks for %g GPUs", t.ID, float64(t.GPUs)/unit.WholeGPU)
		case t.Retries < -1 || t.Retries > math.MaxInt16 || t.Phase < 0 || int(t.Phase) > len(w.Tasks):
			return fmt.Errorf("task %s: its retries or its phase are out of range", t.ID)
		case t.Container < 0 || int(t.Container) > len(w.Containers):
			return fmt.Errorf("task %s runs in container %d of %d", t.ID, t.Container, len(w.Containers))
		case t.Expand && len(t.Command) != 2:
			return fmt.Errorf("task %s: its command is not a program and one text of arguments", t.ID)
		case slices.ContainsFunc(slices.Concat(t.Command, t.Env, []string{t.Image, t.Kind, t.Name}), hasZero):
			return fmt.Errorf("task %s: its command has a zero byte", t.ID)
		case slices.ContainsFunc(t.Env, func(s string) bool { return strings.IndexByte(s, '=') < 1 }):
			return fmt.Errorf("task %s: its environment has a variable without a name or a value", t.ID)
		}
		seen[t.ID] = true
		for _, f := range t.Outputs {
			if w.Files[f].Producer != int32(i) {
				return fmt.Errorf("task %s writes a file that another one writes", t.ID)
			}
		}
		written += len(t.Outputs)
	}
	for i := range w.Files {
		if w.Files[i].Producer >= 0 {
			written--
		}
	}
	if written != 0 {
		return errors.New("its tasks and files do not agree on what writes what")
	}
	return nil
}

// indices reports whether all are below n and distinct.
func indices(all []int32, n int) bool {
	if len(all) == 0 {
		return true
	}
	all = slices.Sorted(slices.Values(all))
	return all[0] >= 0 && int(all[len(all)-1]) < n && len(slices.Compact(all)) == len(all)
}
