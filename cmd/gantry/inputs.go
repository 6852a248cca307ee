package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gantry/executor"
	"gantry/planner"
	"gantry/trace"
)

// maxShown is how many faults of a file are printed.
const maxShown = 10

// inputs says how what stands on the command line becomes submissions.
type inputs struct {
	paths    []string
	dir      string // of the files from outside; "" if the file that names the workflow does not say either
	image    string
	repair   bool
	platform *planner.Platform
	warn     func(format string, args ...any)
}

// submissions reads all workflows before anything runs: one that is wrong stops everything.
func (in *inputs) submissions() ([]executor.Submission, error) {
	if len(in.paths) == 0 {
		return nil, failf(exitUsage, "no workflow given: name trace files, workload files or directories, or - for standard input")
	}
	files, skipped, err := trace.Find(in.paths)
	if err != nil {
		return nil, fail(exitInput, err)
	}
	for _, s := range skipped {
		in.warn("%s: not a workflow trace, skipped", s)
	}
	if len(files) == 0 {
		return nil, failf(exitInput, "%s: no workflow traces there", strings.Join(in.paths, ", "))
	}
	var subs []executor.Submission
	for _, f := range files {
		more, err := in.read(f)
		if err != nil {
			return nil, err
		}
		subs = append(subs, more...)
	}
	slices.SortStableFunc(subs, func(a, b executor.Submission) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	uniqueNames(subs)
	return subs, nil
}

func (in *inputs) read(path string) ([]executor.Submission, error) {
	if path == "-" {
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return nil, failf(exitInput, "standard input: %w", err)
		}
		if trace.IsWorkload(text) {
			return in.workload(bytes.NewReader(text), "-")
		}
		w, err := in.load(path, func() (*trace.Workflow, []trace.Fault, error) {
			return trace.Read(bytes.NewReader(text), "-", trace.ReadOptions{Repair: in.repair})
		})
		if err != nil {
			return nil, err
		}
		return []executor.Submission{{Workflow: w, Name: w.Label, Inputs: in.dir}}, nil
	}
	head, err := readHead(path)
	if err != nil {
		return nil, fail(exitInput, err)
	}
	if trace.IsWorkload(head) {
		f, err := os.Open(path)
		if err != nil {
			return nil, fail(exitInput, err)
		}
		defer f.Close()
		return in.workload(f, path)
	}
	w, err := in.trace(path)
	if err != nil {
		return nil, err
	}
	return []executor.Submission{{Workflow: w, Name: w.Label, Inputs: in.dir}}, nil
}

// readHead reads enough of a file to tell a workload from a trace.
func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<16))
}

func (in *inputs) trace(path string) (*trace.Workflow, error) {
	return in.load(path, func() (*trace.Workflow, []trace.Fault, error) {
		return trace.Open(path, trace.ReadOptions{Repair: in.repair})
	})
}

// load reads one trace, tells its warnings, and fills in what it lacks by the stated rules.
func (in *inputs) load(path string, read func() (*trace.Workflow, []trace.Fault, error)) (*trace.Workflow, error) {
	w, faults, err := read()
	if err != nil {
		return nil, fail(exitInput, err)
	}
	var wrong []string
	for _, f := range faults {
		line := path
		if f.Line > 0 {
			line = fmt.Sprintf("%s:%d", path, f.Line)
		}
		if f.Severity == trace.Error {
			wrong = append(wrong, fmt.Sprintf("%s: %s", line, f.Message))
		} else if f.Rule != "unsafe-path" { // admission refuses those where they matter
			in.warn("%s: %s", line, f.Message)
		}
	}
	if len(wrong) > 0 {
		more := ""
		if n := len(wrong) - maxShown; n > 0 {
			wrong, more = wrong[:maxShown], fmt.Sprintf("\n  and %d more: gantry check shows all", n)
		}
		return nil, failf(exitInput, "%s cannot be run:\n  %s%s", path, strings.Join(wrong, "\n  "), more)
	}
	if len(w.Tasks) == 0 {
		return nil, failf(exitInput, "%s: the workflow has no tasks", path)
	}
	trace.Impute(w, trace.Defaults{})
	return w, nil
}

func (in *inputs) workload(r io.Reader, source string) ([]executor.Submission, error) {
	wl, err := trace.ReadWorkload(r, source)
	if err != nil {
		return nil, fail(exitInput, err)
	}
	subs := make([]executor.Submission, len(wl.Arrivals))
	read := map[[2]string]*trace.Workflow{} // copies share what they were read from
	for i := range wl.Arrivals {
		a := &wl.Arrivals[i]
		w := read[[2]string{a.Trace, a.Image}]
		if w == nil {
			if w, err = in.trace(a.Trace); err != nil {
				return nil, err
			}
			for t := range w.Tasks {
				if w.Tasks[t].Image == "" {
					w.Tasks[t].Image = a.Image
				}
			}
			read[[2]string{a.Trace, a.Image}] = w
		}
		sub := &subs[i]
		*sub = executor.Submission{At: planner.Time(a.Arrive), Workflow: w, Name: a.Name, Tenant: a.Tenant, Release: planner.Time(a.Release),
			Due: planner.Time(a.Deadline), Inputs: in.dir}
		if sub.Name == "" {
			sub.Name = w.Label
		}
		if a.Inputs != "" {
			if sub.Inputs, err = filepath.Abs(a.Inputs); err != nil {
				return nil, fail(exitInput, err)
			}
		}
		switch a.Class {
		case "deadline":
			sub.Class = planner.Deadline
		case "low":
			sub.Class = planner.Low
		}
		if sub.Costs, err = in.costs(a, w); err != nil {
			return nil, failf(exitInput, "%s:%d: %w", source, a.Line, err)
		}
	}
	return subs, nil
}

// costs resolves a cost matrix, whose rows are tasks and whose columns are nodes, both by name. Tasks it does not name keep the runtime of
// their trace.
func (in *inputs) costs(a *trace.Arrival, w *trace.Workflow) ([][]int64, error) {
	if a.Costs == nil {
		return nil, nil
	}
	out := make([][]int64, len(w.Tasks))
	left := maps.Clone(a.Costs.Seconds)
	for i := range w.Tasks {
		row, ok := left[w.Tasks[i].ID]
		if !ok {
			continue
		}
		delete(left, w.Tasks[i].ID)
		out[i] = make([]int64, len(in.platform.Nodes))
		for n := range in.platform.Nodes {
			d, ok := row[in.platform.Nodes[n].Name]
			if !ok {
				return nil, fmt.Errorf("costs %s: task %s has no cost on node %s of the cluster", a.Costs.Source, w.Tasks[i].ID, in.platform.Nodes[n].Name)
			}
			out[i][n] = int64(d)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		return nil, fmt.Errorf("costs %s: %s has no task %q", a.Costs.Source, a.Trace, id)
	}
	return out, nil
}

// uniqueNames makes the names of workflows usable as directories, and different.
func uniqueNames(subs []executor.Submission) {
	seen := map[string]bool{}
	for i := range subs {
		base := executor.EscapeName(subs[i].Name)
		name := base
		for n := 2; seen[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		seen[name] = true
		subs[i].Name = name
	}
}
