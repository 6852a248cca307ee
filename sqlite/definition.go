package sqlite

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"

	"gantry/executor"
	"gantry/planner"
	"gantry/trace"
)

// A definition is an admission as a stream of gob: its format, a head with the counts, then the files and tasks of the trace, of the
// planner and of the executor, so many to a message. Large ones and those of real runs are gzip'ed. All that admission decided is kept: on replay nothing
// is decided again. Messages of bounded size, rather than one, bound the memory that a workflow of 100,000 tasks takes on its way.
const (
	definitionFormat = 2
	definitionPart   = 1000
	definitionLarge  = 2000 // tasks
)

type definitionHead struct {
	Submission executor.Submission // without its workflow
	Trace      *trace.Workflow     // without tasks and files
	Workflow   planner.Workflow
	Spec       *executor.WorkflowSpec
	Kinds      []string
	Counts     [6]int // of each section below, in their order; -1 for a nil slice
}

// definedTask is a TaskSpec with its files by position in Admission.Files, in place of the pointers.
type definedTask struct {
	Task     executor.TaskSpec
	Workflow bool // has the workflow of the admission
	Inputs   []int32
	Outputs  []int32
}

// definer encodes definitions, one after the other in the same memory.
type definer struct {
	out   bytes.Buffer
	files []executor.FileSpec // a part of them
	tasks []definedTask       // a part of them
	refs  []int32
	place map[*executor.FileSpec]int32
}

func encodeAdmission(a *executor.Admission, compress bool) ([]byte, error) {
	return new(definer).encode(a, compress)
}

func (d *definer) encode(a *executor.Admission, compress bool) ([]byte, error) {
	head := definitionHead{Submission: a.Submission, Workflow: a.Arrived.Workflow, Spec: a.Spec, Kinds: a.Kinds}
	head.Submission.Workflow = nil
	var from trace.Workflow
	if a.Submission.Workflow != nil {
		from = *a.Submission.Workflow
		bare := from
		bare.Tasks, bare.Files = nil, nil
		head.Trace = &bare
	}
	d.out.Reset()
	if d.place == nil {
		d.place = map[*executor.FileSpec]int32{}
	}
	clear(d.place)
	for i, f := range a.Files {
		d.place[f] = int32(i)
	}
	head.Counts = [...]int{count(from.Files), count(from.Tasks), count(a.Arrived.Files), count(a.Arrived.Tasks), count(a.Files), count(a.Tasks)}

	var to io.Writer = &d.out
	finish := func() error { return nil }
	if compress {
		zip, err := gzip.NewWriterLevel(&d.out, gzip.BestSpeed)
		if err != nil {
			return nil, err
		}
		buffered := bufio.NewWriterSize(zip, 1<<16)
		to, finish = buffered, func() error { return errors.Join(buffered.Flush(), zip.Close()) }
	}
	enc := gob.NewEncoder(to)
	if err := errors.Join(enc.Encode(definitionFormat), enc.Encode(&head), encodeAll(enc, from.Files), encodeAll(enc, from.Tasks),
		encodeAll(enc, a.Arrived.Files), encodeAll(enc, a.Arrived.Tasks), d.encodeFiles(enc, a), d.encodeTasks(enc, a), finish()); err != nil {
		return nil, err
	}
	return bytes.Clone(d.out.Bytes()), nil
}

func (d *definer) encodeFiles(enc *gob.Encoder, a *executor.Admission) error {
	for part := range slices.Chunk(a.Files, definitionPart) {
		d.files = d.files[:0]
		for _, f := range part {
			d.files = append(d.files, *f)
		}
		if err := enc.Encode(d.files); err != nil {
			return err
		}
	}
	return nil
}

func (d *definer) encodeTasks(enc *gob.Encoder, a *executor.Admission) error {
	for part := range slices.Chunk(a.Tasks, definitionPart) {
		d.tasks, d.refs = d.tasks[:0], d.refs[:0]
		for _, t := range part {
			if t.Workflow != nil && t.Workflow != a.Spec {
				return fmt.Errorf("task %s is not the workflow's", t.Name)
			}
			in, inErr := d.refer(t.Inputs)
			out, outErr := d.refer(t.Outputs)
			if err := errors.Join(inErr, outErr); err != nil {
				return fmt.Errorf("task %s: %w", t.Name, err)
			}
			def := definedTask{Task: *t, Workflow: t.Workflow != nil, Inputs: in, Outputs: out}
			def.Task.Workflow, def.Task.Inputs, def.Task.Outputs = nil, nil, nil
			d.tasks = append(d.tasks, def)
		}
		if err := enc.Encode(d.tasks); err != nil {
			return err
		}
	}
	return nil
}

// refer gives files by their position in the workflow.
func (d *definer) refer(files []*executor.FileSpec) ([]int32, error) {
	begin := len(d.refs)
	for _, f := range files {
		at, ok := d.place[f]
		if !ok {
			return nil, errors.New("it refers to a file that is not the workflow's")
		}
		d.refs = append(d.refs, at)
	}
	return d.refs[begin:len(d.refs):len(d.refs)], nil
}

// gzipMagic is what gzip'ed data begins with; no gob of a small number does.
var gzipMagic = []byte{0x1f, 0x8b}

func decodeAdmission(blob []byte) (*executor.Admission, error) {
	var text io.Reader = bytes.NewReader(blob)
	if bytes.HasPrefix(blob, gzipMagic) {
		zip, err := gzip.NewReader(text)
		if err != nil {
			return nil, err
		}
		text = bufio.NewReader(zip)
		if first, err := text.(*bufio.Reader).Peek(1); err == nil && first[0] == '{' {
			return nil, fmt.Errorf("it has format 1, this gantry reads %d: use the gantry that wrote it", definitionFormat)
		}
	}
	dec := gob.NewDecoder(text)
	format := 0
	if err := dec.Decode(&format); err != nil {
		return nil, err
	}
	if format != definitionFormat {
		return nil, fmt.Errorf("it has format %d, this gantry reads %d: use the gantry that wrote it", format, definitionFormat)
	}
	var head definitionHead
	if err := dec.Decode(&head); err != nil {
		return nil, err
	}
	a := &executor.Admission{Submission: head.Submission, Spec: head.Spec, Kinds: head.Kinds, Arrived: planner.WorkflowArrived{Workflow: head.Workflow}}
	from := head.Trace
	if from == nil {
		from = new(trace.Workflow)
	}
	a.Submission.Workflow = head.Trace
	var files []executor.FileSpec
	var tasks []definedTask
	if err := errors.Join(decodeAll(dec, &from.Files, head.Counts[0]), decodeAll(dec, &from.Tasks, head.Counts[1]),
		decodeAll(dec, &a.Arrived.Files, head.Counts[2]), decodeAll(dec, &a.Arrived.Tasks, head.Counts[3]),
		decodeAll(dec, &files, head.Counts[4]), decodeAll(dec, &tasks, head.Counts[5])); err != nil {
		return nil, err
	}
	for i := range files {
		a.Files = append(a.Files, &files[i])
	}
	deref := func(refs []int32) (of []*executor.FileSpec, err error) {
		for _, at := range refs {
			if at < 0 || int(at) >= len(a.Files) {
				return nil, fmt.Errorf("file %d of %d", at, len(a.Files))
			}
			of = append(of, a.Files[at])
		}
		return of, nil
	}
	for i := range tasks {
		d := &tasks[i]
		if d.Workflow {
			d.Task.Workflow = a.Spec
		}
		var err error
		if d.Task.Inputs, err = deref(d.Inputs); err != nil {
			return nil, fmt.Errorf("task %s refers to %w", d.Task.Name, err)
		}
		if d.Task.Outputs, err = deref(d.Outputs); err != nil {
			return nil, fmt.Errorf("task %s refers to %w", d.Task.Name, err)
		}
		a.Tasks = append(a.Tasks, &d.Task)
	}
	return a, nil
}

func count[T any](s []T) int {
	if s == nil {
		return -1
	}
	return len(s)
}

func encodeAll[T any](enc *gob.Encoder, s []T) error {
	for part := range slices.Chunk(s, definitionPart) {
		if err := enc.Encode(part); err != nil {
			return err
		}
	}
	return nil
}

func decodeAll[T any](dec *gob.Decoder, s *[]T, n int) error {
	if n < 0 {
		return nil
	}
	*s = make([]T, 0, min(n, 1<<20)) // a damaged count must not exhaust the memory
	for len(*s) < n {
		var part []T
		if err := dec.Decode(&part); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if len(part) == 0 {
			return errors.New("a part of it is empty")
		}
		*s = append(*s, part...)
	}
	return nil
}
