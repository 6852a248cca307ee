package session

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/experiment/load"
	"gantry/trace"
	"gantry/trace/scenario"
)

// Inputs makes submissions of the workflows on the command line.
type Inputs struct {
	load.Loader
	Paths      []string
	Alone      *scenario.Workload // instead of Paths: a stream of it, whose repetitions nobody counts
	Single     *trace.Workflow    // instead of Paths: commands of the command line
	Seed       uint64             // of streams whose file says none
	repetition int                // of streams, counted from 0
	// repetitions is how many a workload file stands for, the most if there are several files; 0 if none was read.
	repetitions int
	reuse       bool // a workload file asks for it
	workloads   bool // one was read
	All         bool // repetitions are run
	Preempt     func(subs []executor.Submission) error
	Given       map[string]string // variables of makeflows that the command line has
	// warmUp and coolDown count workflows that metrics leave out; they are of the one workload file that was given.
	warmUp, coolDown int
	Stdin            func() ([]byte, error) // reads standard input once; nil: it is read as it is
}

// Submissions reads all workflows before anything runs: one that is wrong stops everything.
func (in *Inputs) Submissions() ([]executor.Submission, error) {
	if in.Alone != nil {
		subs, err := in.workload(in.Alone, true)
		if err != nil {
			return nil, exit.With(exit.Input, err)
		}
		return in.Order(subs), nil
	}
	if in.Single != nil {
		w, err := in.Checked(in.Single.Source, in.Single, nil)
		if err == nil {
			err = in.Unmet()
		}
		if err != nil {
			return nil, exit.With(exit.Input, err)
		}
		return []executor.Submission{{Workflow: w, Name: w.Label, Inputs: in.Inputs, Dirs: in.Dirs}}, nil
	}
	if len(in.Paths) == 0 {
		return nil, exit.Usagef("no workflow given: name trace files, workload files or directories, or - for " +
			"standard input")
	}
	files, skipped, err := trace.Find(in.Paths)
	for _, s := range skipped {
		in.Warn("%s: not a workflow trace, skipped", s)
	}
	if err != nil {
		return nil, exit.With(exit.Input, trace.Plain(err))
	}
	var subs []executor.Submission
	for _, f := range files {
		more, err := in.file(f, len(files) == 1)
		if _, ok := errors.AsType[*exit.Error](err); ok {
			return nil, err
		} else if err != nil {
			return nil, exit.With(exit.Input, err)
		}
		subs = append(subs, more...)
	}
	if err := in.Unmet(); err != nil {
		return nil, exit.With(exit.Input, err)
	}
	if err := RefuseUnused(in.Given, in.Used); err != nil {
		return nil, err
	}
	return in.Order(subs), nil
}

func (in *Inputs) file(path string, alone bool) ([]executor.Submission, error) {
	if path != "-" && trace.IsArchive(path) {
		return in.workload(&scenario.Workload{Source: path, ScaleTimes: true,
			Arrivals: []scenario.Arrival{{Trace: path, Archive: true, Copies: 1}}}, alone)
	}
	text, workload, err := in.sniff(path)
	if err != nil {
		return nil, err
	}
	if workload {
		w, err := scenario.ReadWorkload(bytes.NewReader(text), path)
		if err != nil {
			return nil, err
		}
		if w.Seed == 0 {
			w.Seed = in.Seed
		}
		in.workloads = true
		in.repetitions = max(in.repetitions, w.Repetitions)
		in.reuse = in.reuse || w.Reuse
		in.Results = append(in.Results[:len(in.Results):len(in.Results)], w.Results...)
		if of := max(1, w.Repetitions); in.repetition >= of {
			return nil, exit.Usagef("--repetition %d: %s stands for %d (its key repetitions)", in.repetition+1,
				path, of)
		}
		return in.workload(w, alone)
	}
	var w *trace.Workflow
	if path == "-" {
		var faults []trace.Fault
		if w, faults, err = trace.Read(bytes.NewReader(text), "-", in.Options()); err == nil {
			w, err = in.Checked(path, w, faults)
		}
	} else {
		w, err = in.Trace(path)
	}
	if err != nil {
		return nil, err
	}
	return []executor.Submission{{Workflow: w, Name: w.Label, Inputs: in.Inputs, Dirs: in.Dirs}}, nil
}

// workload makes the submissions of a workload. If it is alone, it says how many of them metrics leave out.
func (in *Inputs) workload(w *scenario.Workload, alone bool) ([]executor.Submission, error) {
	in.Lean = in.Lean && alone
	subs, err := in.Workload(w, in.repetition)
	if err != nil {
		return nil, err
	}
	warmUp, coolDown, err := load.Window(w, subs, in.TimeScale)
	switch {
	case err != nil && in.Count == 0:
		return nil, err
	case err != nil: // --count asks for a few on purpose
		in.Warn("%v; all count", err)
	case warmUp+coolDown > 0 && !alone:
		in.Warn("%s: warm_up and cool_down count only where a workload file is alone, and are left out", w.Source)
	default:
		in.warmUp, in.coolDown = warmUp, coolDown
	}
	return subs, nil
}

// sniff is sniffWorkload, but standard input can be read again.
func (in *Inputs) sniff(path string) (text []byte, workload bool, err error) {
	if path != "-" || in.Stdin == nil {
		return sniffWorkload(path)
	}
	text, err = in.Stdin()
	return text, scenario.IsWorkload(text[:min(len(text), sniffed)]), err
}

// sniffed is how much of a text distinguishes a workload from a trace.
const sniffed = 1 << 16

// sniffWorkload distinguishes a workload from a trace by the beginning of its text. The text is whole for a workload
// and for standard input.
func sniffWorkload(path string) (text []byte, workload bool, err error) {
	if trace.IsMakeflow(path) {
		return nil, false, nil
	}
	f := os.Stdin
	if path != "-" {
		if f, err = os.Open(path); err != nil {
			return nil, false, err
		}
		defer f.Close()
	}
	head, err := io.ReadAll(io.LimitReader(f, sniffed))
	workload = scenario.IsWorkload(head)
	if err == nil && (workload || path == "-") {
		var rest []byte
		rest, err = io.ReadAll(f)
		head = append(head, rest...)
	}
	return head, workload, err
}

// InputsDirs are the directories of --inputs as paths that hold anywhere.
func InputsDirs(dirs []string) (first string, more []string, err error) {
	for i, dir := range dirs {
		if dir, err = inputsDir(dir); err != nil {
			return "", nil, err
		}
		if i == 0 {
			first = dir
		} else {
			more = append(more, dir)
		}
	}
	return first, more, nil
}

func inputsDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", exit.With(exit.Input, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", exit.Inputf("--inputs %s: it is not a directory", abs)
	}
	return abs, nil
}
