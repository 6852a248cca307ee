package sqlite

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gantry/executor"
	"gantry/planner"
	"gantry/trace"
)

// A definition is an admission as a gzipped sequence of JSON values, one a line: a head with the counts, then the files and tasks of the
// trace, of the planner and of the executor, under the names of their Go fields. All that admission decided is kept: on replay nothing is
// decided again. Lines, rather than one value, bound the memory that a workflow of 100,000 tasks takes on its way.
const definitionFormat = 1

type definitionHead struct {
	Format     int
	Submission executor.Submission // without its workflow
	Trace      *trace.Workflow     // without tasks and files
	Workflow   planner.Workflow
	Spec       *executor.WorkflowSpec
	Kinds      []string
	Lines      [6]int // of each section below, in their order; -1 for a nil slice
}

// definedTask is a TaskSpec with its files by position in Admission.Files; the fields of the embedded one that are named again here are
// hidden from JSON.
type definedTask struct {
	*executor.TaskSpec
	Workflow bool // has the workflow of the admission
	Inputs   []int32
	Outputs  []int32
}

func encodeAdmission(a *executor.Admission) ([]byte, error) {
	head := definitionHead{Format: definitionFormat, Submission: a.Submission, Workflow: a.Arrived.Workflow, Spec: a.Spec, Kinds: a.Kinds}
	head.Submission.Workflow = nil
	var from trace.Workflow
	if a.Submission.Workflow != nil {
		from = *a.Submission.Workflow
		bare := from
		bare.Tasks, bare.Files = nil, nil
		head.Trace = &bare
	}
	head.Lines = [...]int{lines(from.Files), lines(from.Tasks), lines(a.Arrived.Files), lines(a.Arrived.Tasks), lines(a.Files), lines(a.Tasks)}

	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(zip, 1<<16)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&head); err != nil {
		return nil, err
	}
	place := make(map[*executor.FileSpec]int32, len(a.Files))
	for i, f := range a.Files {
		place[f] = int32(i)
	}
	refer := func(files []*executor.FileSpec) (refs []int32, err error) {
		if files != nil {
			refs = make([]int32, len(files))
		}
		for i, f := range files {
			at, ok := place[f]
			if !ok {
				return nil, errors.New("a task refers to a file that is not the workflow's")
			}
			refs[i] = at
		}
		return refs, nil
	}
	if err := errors.Join(encodeAll(enc, from.Files), encodeAll(enc, from.Tasks), encodeAll(enc, a.Arrived.Files),
		encodeAll(enc, a.Arrived.Tasks), encodeAll(enc, a.Files)); err != nil {
		return nil, err
	}
	for _, t := range a.Tasks {
		d := definedTask{TaskSpec: t, Workflow: t.Workflow != nil}
		if t.Workflow != nil && t.Workflow != a.Spec {
			return nil, fmt.Errorf("task %s is not the workflow's", t.Name)
		}
		if d.Inputs, err = refer(t.Inputs); err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Name, err)
		}
		if d.Outputs, err = refer(t.Outputs); err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Name, err)
		}
		if err := enc.Encode(&d); err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Name, err)
		}
	}
	if err := errors.Join(buffered.Flush(), zip.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func decodeAdmission(blob []byte) (*executor.Admission, error) {
	zip, err := gzip.NewReader(bytes.NewReader(blob))
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(zip)
	var head definitionHead
	if err := dec.Decode(&head); err != nil {
		return nil, err
	}
	if head.Format != definitionFormat {
		return nil, fmt.Errorf("it has format %d, this gantry reads %d: use the gantry that wrote it", head.Format, definitionFormat)
	}
	a := &executor.Admission{Submission: head.Submission, Spec: head.Spec, Kinds: head.Kinds, Arrived: planner.WorkflowArrived{Workflow: head.Workflow}}
	from := head.Trace
	if from == nil {
		from = new(trace.Workflow)
	}
	a.Submission.Workflow = head.Trace
	var tasks []definedTask
	if err := errors.Join(decodeAll(dec, &from.Files, head.Lines[0]), decodeAll(dec, &from.Tasks, head.Lines[1]),
		decodeAll(dec, &a.Arrived.Files, head.Lines[2]), decodeAll(dec, &a.Arrived.Tasks, head.Lines[3]),
		decodeAll(dec, &a.Files, head.Lines[4]), decodeAll(dec, &tasks, head.Lines[5])); err != nil {
		return nil, err
	}
	deref := func(refs []int32) (files []*executor.FileSpec, err error) {
		if refs != nil {
			files = make([]*executor.FileSpec, len(refs))
		}
		for i, at := range refs {
			if at < 0 || int(at) >= len(a.Files) {
				return nil, fmt.Errorf("file %d of %d", at, len(a.Files))
			}
			files[i] = a.Files[at]
		}
		return files, nil
	}
	if tasks != nil {
		a.Tasks = make([]*executor.TaskSpec, len(tasks))
	}
	for i, d := range tasks {
		if d.TaskSpec == nil {
			d.TaskSpec = new(executor.TaskSpec)
		}
		if d.Workflow {
			d.TaskSpec.Workflow = a.Spec
		}
		if d.TaskSpec.Inputs, err = deref(d.Inputs); err != nil {
			return nil, fmt.Errorf("task %s refers to %w", d.Name, err)
		}
		if d.TaskSpec.Outputs, err = deref(d.Outputs); err != nil {
			return nil, fmt.Errorf("task %s refers to %w", d.Name, err)
		}
		a.Tasks[i] = d.TaskSpec
	}
	return a, nil
}

func lines[T any](s []T) int {
	if s == nil {
		return -1
	}
	return len(s)
}

func encodeAll[T any](enc *json.Encoder, s []T) error {
	for i := range s {
		if err := enc.Encode(&s[i]); err != nil {
			return err
		}
	}
	return nil
}

func decodeAll[T any](dec *json.Decoder, s *[]T, n int) error {
	if n < 0 {
		return nil
	}
	*s = make([]T, 0, min(n, 1<<20)) // a damaged count must not exhaust the memory
	for range n {
		var v T
		if err := dec.Decode(&v); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		*s = append(*s, v)
	}
	return nil
}
