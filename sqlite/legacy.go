package sqlite

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gantry/executor"
	"gantry/planner"
	"gantry/trace"
)

// Definitions in logs of formats 1 to 6 are streams of values under the names of Go fields: a head, then the files and
// tasks of the trace, of the planner and of the executor. Definition format 1 is JSON, a value to a line; definition
// format 2 is gob, many values to a message. Fields that are newer stay zero.

type legacyHead struct {
	Submission executor.Submission // without its workflow
	Trace      *trace.Workflow     // without tasks and files
	Workflow   planner.Workflow
	Spec       *executor.WorkflowSpec
	Kinds      []string
	Lines      [6]int // of each section, in their order; -1 for a nil slice
	Counts     [6]int // the same in definition format 2
}

// legacyTask is a task with its files by position.
type legacyTask struct {
	Task            executor.TaskSpec
	Workflow        bool // has the workflow of the admission
	Inputs, Outputs []int32
}

// legacyLine is a legacyTask as JSON: its members hide those of the same names in TaskSpec.
type legacyLine struct {
	executor.TaskSpec
	Workflow        bool
	Inputs, Outputs []int32
}

func decodeLegacy(blob []byte) (*executor.Admission, error) {
	lines := bytes.HasPrefix(blob, []byte("{"))
	var dec interface{ Decode(any) error } = json.NewDecoder(bytes.NewReader(blob))
	if !lines {
		dec = gob.NewDecoder(bytes.NewReader(blob))
		format := 0
		if err := dec.Decode(&format); err != nil || format != 2 {
			return nil, fmt.Errorf("its format is not one of those up to %d, which this gantry reads: use the "+
				"gantry that wrote it", definitionFormat)
		}
	}
	var head legacyHead
	if err := dec.Decode(&head); err != nil {
		return nil, err
	}
	counts := head.Counts
	if lines {
		counts = head.Lines
	}
	a := &executor.Admission{Submission: head.Submission, Spec: head.Spec, Kinds: head.Kinds,
		Arrived: planner.WorkflowArrived{Workflow: head.Workflow}}
	from := head.Trace
	if from == nil {
		from = new(trace.Workflow)
	}
	a.Submission.Workflow = head.Trace
	var files []executor.FileSpec
	var tasks []legacyTask
	var taskLines []legacyLine
	err := errors.Join(section(dec, &from.Files, counts[0], lines), section(dec, &from.Tasks, counts[1], lines),
		section(dec, &a.Arrived.Files, counts[2], lines), section(dec, &a.Arrived.Tasks, counts[3], lines),
		section(dec, &files, counts[4], lines))
	if lines {
		err = errors.Join(err, section(dec, &taskLines, counts[5], lines))
	} else {
		err = errors.Join(err, section(dec, &tasks, counts[5], lines))
	}
	if err != nil {
		return nil, err
	}
	for _, t := range taskLines {
		tasks = append(tasks, legacyTask{t.TaskSpec, t.Workflow, t.Inputs, t.Outputs})
	}
	a.Files = pointers(files)
	for i := range tasks {
		t := &tasks[i]
		if t.Workflow {
			t.Task.Workflow = a.Spec
		}
		var inErr, outErr error
		t.Task.Inputs, inErr = filesAt(a, t.Inputs)
		t.Task.Outputs, outErr = filesAt(a, t.Outputs)
		if err := errors.Join(inErr, outErr); err != nil {
			return nil, fmt.Errorf("task %s refers to %w", t.Task.Name, err)
		}
		a.Tasks = append(a.Tasks, &t.Task)
	}
	return a, nil
}

// section reads n values of a stream.
func section[T any](dec interface{ Decode(any) error }, s *[]T, n int, lines bool) error {
	if n >= 0 {
		*s = make([]T, 0, min(n, mostRows)) // a damaged count must not exhaust the memory
	}
	for len(*s) < n {
		part := make([]T, 1)
		var err error
		if lines {
			err = dec.Decode(&part[0])
		} else {
			err = dec.Decode(&part)
		}
		switch {
		case errors.Is(err, io.EOF) || err == nil && len(part) == 0:
			return errTruncated
		case err != nil:
			return err
		}
		*s = append(*s, part...)
	}
	return nil
}

func filesAt(a *executor.Admission, positions []int32) (files []*executor.FileSpec, err error) {
	for _, at := range positions {
		if at < 0 || int(at) >= len(a.Files) {
			return nil, fmt.Errorf("file %d of %d", at, len(a.Files))
		}
		files = append(files, a.Files[at])
	}
	return files, nil
}
