package sqlite

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/s2"

	"gantry/executor"
	"gantry/planner"
	"gantry/trace"
)

const (
	// s2Magic is the first byte of a definition that S2 compressed: no format is as high. S2 takes a fourth of the time
	// of Zstandard for data as small as this.
	s2Magic = 0xff
	// largestDefinition bounds the unpacked size of a definition, in bytes: some 700 for each task.
	largestDefinition = 1 << 30
	// packedLess is how much less of a definition S2 may make: S2 wants the memory at once that a beginning asks for.
	packedLess = 256
	// packFrom is the size from which on definitions are packed, in bytes. S2 saves little of smaller ones.
	packFrom = 4 << 10
)

// admits reports whether an event comes with an admission.
func admits(body planner.Body) bool {
	kind := body.Kind()
	return kind == planner.KindWorkflowArrived || kind == planner.KindWorkflowGrown
}

// definition is an admission as JSON. All that admission decided is kept: on replay nothing is decided again.
type definition struct {
	Submission *executor.Submission
	Arrived    *planner.WorkflowArrived
	First      planner.TaskID // the others follow it
	Spec       *executor.WorkflowSpec
	Files      []*executor.FileSpec
	Tasks      []definedTask
	Kinds      []string
}

// definedTask is a task that gives its files by their positions in the definition.
type definedTask struct {
	*executor.TaskSpec
	Workflow        struct{} `json:",omitzero"` // that of the definition
	Name, Kind      string   // "": the id and the type in the trace
	Inputs, Outputs []int
}

// link gives the tasks of an admission their children, as their parents tell them. Parents of tasks that were added to
// a workflow may be elsewhere.
func link(a *executor.Admission) error {
	if w := a.Submission.Workflow; w != nil {
		if err := w.Link(); err != nil {
			return err
		}
	}
	tasks := a.Arrived.Tasks
	for i := range tasks {
		tasks[i].Children = nil
	}
	for i := range tasks {
		for _, p := range tasks[i].Parents {
			k := sort.Search(len(tasks), func(k int) bool { return tasks[k].ID >= p })
			if k < len(tasks) && tasks[k].ID == p {
				tasks[k].Children = append(tasks[k].Children, tasks[i].ID)
			}
		}
	}
	return nil
}

// taskIn is task i as its trace has it; one without members if there is no trace.
func taskIn(a *executor.Admission, i int) *trace.Task {
	if w := a.Submission.Workflow; w != nil && i < len(w.Tasks) {
		return &w.Tasks[i]
	}
	return new(trace.Task)
}

func encodeAdmission(a *executor.Admission) ([]byte, error) {
	d := definition{Submission: &a.Submission, Arrived: &a.Arrived, Spec: a.Spec, Files: a.Files, Kinds: a.Kinds,
		Tasks: make([]definedTask, len(a.Tasks))}
	if len(a.Arrived.Tasks) > 0 {
		d.First = a.Arrived.Tasks[0].ID
	}
	place := make(map[*executor.FileSpec]int, len(a.Files))
	for i, f := range a.Files {
		place[f] = i
	}
	for i, t := range a.Tasks {
		if t.Workflow != a.Spec {
			return nil, fmt.Errorf("task %s is not the workflow's", t.Name)
		}
		x := definedTask{TaskSpec: t, Name: t.Name, Kind: t.Kind}
		if from := taskIn(a, i); t.Name == from.ID && t.Kind == from.Kind {
			x.Name, x.Kind = "", ""
		}
		for k, files := range [...][]*executor.FileSpec{t.Inputs, t.Outputs} {
			places := [...]*[]int{&x.Inputs, &x.Outputs}[k]
			for _, f := range files {
				at, ok := place[f]
				if !ok {
					return nil, fmt.Errorf("task %s refers to a file that is not the workflow's", t.Name)
				}
				*places = append(*places, at)
			}
		}
		d.Tasks[i] = x
	}
	text, err := json.Marshal(&d, submissionJSON, json.FormatNilSliceAsNull(true))
	if err == nil && len(text) > largestDefinition {
		err = fmt.Errorf("the %d tasks of workflow %s take more than %d MiB in the log: divide it", len(a.Tasks),
			a.Submission.Name, largestDefinition>>20)
	}
	if err != nil {
		return nil, err
	}
	return pack(text)
}

// pack compresses a text, if that pays.
func pack(text []byte) ([]byte, error) {
	if len(text) < packFrom {
		return text, nil
	}
	most := s2.MaxEncodedLen(len(text))
	if most < 0 {
		return nil, errors.New("it is too large")
	}
	packed := make([]byte, 1+most)
	packed[0] = s2Magic
	packed = packed[:1+len(s2.Encode(packed[1:], text))]
	if len(text) > packedLess*len(packed) {
		return text, nil
	}
	return bytes.Clone(packed), nil
}

// UnpackedSize is how many bytes Unpack makes of a definition, as that itself claims.
func UnpackedSize(blob []byte) int {
	n := len(blob)
	if n > 0 && blob[0] == s2Magic {
		n, _ = s2.DecodedLen(blob[1:]) // Unpack refuses a wrong length
	}
	return n
}

// Unpack returns the JSON of a definition, which may be packed: a text of more than most bytes is an error then.
func Unpack(blob []byte, most int) ([]byte, error) {
	if len(blob) == 0 || blob[0] != s2Magic {
		return blob, nil
	}
	n, err := s2.DecodedLen(blob[1:])
	if err == nil && (n > most || n > packedLess*len(blob)) {
		err = fmt.Errorf("%d bytes of it are to be %d", len(blob), n)
	}
	if err != nil {
		return nil, err
	}
	return s2.Decode(nil, blob[1:])
}

func decodeAdmission(blob []byte) (_ *executor.Admission, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("its definition is damaged: %w", err)
		}
	}()
	text, err := Unpack(blob, largestDefinition)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(text, []byte("{")) {
		return nil, errors.New("another build of gantry wrote it: use that build")
	}
	a := new(executor.Admission)
	d := definition{Submission: &a.Submission, Arrived: &a.Arrived}
	if err := json.Unmarshal(text, &d, submissionJSON); err != nil {
		return nil, err
	}
	if d.Spec == nil || slices.Contains(d.Files, nil) || len(d.Tasks) != len(a.Arrived.Tasks) {
		return nil, errors.New("it lacks the workflow, a file or a task")
	}
	a.Spec, a.Files, a.Kinds, a.Tasks = d.Spec, d.Files, d.Kinds, make([]*executor.TaskSpec, len(d.Tasks))
	for i, x := range d.Tasks {
		if x.TaskSpec == nil {
			return nil, fmt.Errorf("task %d has no members", i)
		}
		t, from := x.TaskSpec, taskIn(a, i)
		t.Workflow, t.Name, t.Kind = a.Spec, cmp.Or(x.Name, from.ID), cmp.Or(x.Kind, from.Kind)
		for k, places := range [...][]int{x.Inputs, x.Outputs} {
			files := [...]*[]*executor.FileSpec{&t.Inputs, &t.Outputs}[k]
			for _, at := range places {
				if at < 0 || at >= len(a.Files) {
					return nil, fmt.Errorf("task %s refers to file %d of %d", t.Name, at, len(a.Files))
				}
				*files = append(*files, a.Files[at])
			}
		}
		a.Tasks[i] = t
		a.Arrived.Tasks[i].ID, a.Arrived.Tasks[i].Workflow = d.First+planner.TaskID(i), a.Spec.ID
	}
	return a, link(a)
}
