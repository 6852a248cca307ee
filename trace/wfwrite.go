package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Execution is what really happened in one run of a workflow, for WriteExecution.
type Execution struct {
	Makespan   time.Duration
	ExecutedAt time.Time
	Machines   []Machine
	Tasks      []TaskExecution // parallel to Workflow.Tasks
	System     string          // name of the runtime system; "" is gantry
	Version    string          // of the runtime system
}

// Machine is a node that ran tasks.
type Machine struct {
	Name         string // node name; made into a host name where it is none
	System       string // linux, macos or windows; "" if not known
	Architecture string
	Release      string
	MemoryBytes  int64
	Cores        int64
	SpeedMHz     int64
	Vendor       string
}

// TaskExecution is what was measured of the attempt of a task that counts. Known says which of the numbers were.
type TaskExecution struct {
	Ran          bool // false: it was never run, and nothing is written
	Runtime      time.Duration
	ExecutedAt   time.Time
	Machine      string // Machine.Name; "" if not known
	Cores        float64
	AvgCPU       float64 // percent of one core
	ReadBytes    int64
	WrittenBytes int64
	MemoryBytes  int64
	Known        Fields // Cores, AvgCPU, ReadBytes, WrittenBytes, Memory
}

// WriteWfFormat writes w as WfFormat 1.5. What the trace does not tell is left out, and so is all that Impute filled
// in. The schema demands a makespan and a start time as soon as there is a runtime: where the trace has none they are 0
// and "unknown". It demands a runtime of whatever else execution.tasks tells: facts of a task without one stand in
// specification.tasks, in the same words.
//
// Ids that the schema does not allow are replaced; originalId (task) and originalFileIds (specification) keep them,
// image, stdin, stdout, stderr, env, retries, phase, timeLimitInSeconds, diskBytesPerSecond, category and subWorkflow
// what else the schema has no place for, opaqueFileIds and dataDependencies how file ids are meant. Read reads it all.
func WriteWfFormat(w io.Writer, wf *Workflow) error { return write(w, wf, nil) }

// WriteExecution writes w and what really happened as WfFormat 1.5; nothing that the trace itself says of runtimes,
// memory or I/O is written, only what was measured.
func WriteExecution(w io.Writer, wf *Workflow, e *Execution) error { return write(w, wf, e) }

type object = map[string]any // keys are written sorted

func write(to io.Writer, wf *Workflow, e *Execution) error {
	out := bufio.NewWriterSize(to, 64<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	first := true
	line := func(v any) error {
		if !first {
			out.WriteString(",")
		}
		first = false
		return enc.Encode(v)
	}
	list := func(key string) {
		first = true
		text, _ := json.Marshal(key)
		out.Write(text)
		out.WriteString(": [\n")
	}
	head := object{"name": cmp.Or(wf.Name, wf.Label, "workflow"), "schemaVersion": "1.5",
		"description": "written by gantry"}
	if e != nil {
		head["runtimeSystem"] = object{"name": cmp.Or(e.System, "gantry"), "version": cmp.Or(e.Version, "unknown")}
	}
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	out.Write(text[:len(text)-1])
	out.WriteString(",\n\"workflow\": {\"specification\": {\n")

	tasks := wf.taskIDs()
	files, altered := wf.fileIDs()
	if len(altered) > 0 {
		text, err := json.Marshal(altered)
		if err != nil {
			return err
		}
		out.WriteString("\"originalFileIds\": ")
		out.Write(text)
		out.WriteString(",\n")
	}
	if wf.OpaqueNames {
		out.WriteString("\"opaqueFileIds\": true,\n")
	}
	if len(wf.unsaid()) > 0 {
		out.WriteString("\"dataDependencies\": false,\n")
	}
	list("tasks")
	for i := range wf.Tasks {
		t := &wf.Tasks[i]
		v := object{"name": cmp.Or(t.Name, t.ID), "id": tasks[i], "parents": pick(tasks, t.Parents),
			"children": pick(tasks, t.Children)}
		if len(t.Inputs) > 0 {
			v["inputFiles"] = pick(files, t.Inputs)
		}
		if len(t.Outputs) > 0 {
			v["outputFiles"] = pick(files, t.Outputs)
		}
		if t.ID != tasks[i] {
			v["originalId"] = t.ID
		}
		extend(v, t)
		if !executed(t, e, i) {
			maps.Copy(v, facts(t, e == nil))
		}
		if err := line(v); err != nil {
			return err
		}
	}
	out.WriteString("],\n")
	list("files")
	for i := range wf.Files {
		if f := &wf.Files[i]; f.Sized && !f.Imputed {
			if err := line(object{"id": files[i], "sizeInBytes": f.Size}); err != nil {
				return err
			}
		}
	}
	out.WriteString("]}")

	some := false
	for i := range wf.Tasks {
		some = some || executed(&wf.Tasks[i], e, i)
	}
	if some {
		at, span := cmp.Or(wf.ExecutedAt, "unknown"), wf.Makespan
		if e != nil {
			at, span = e.ExecutedAt.Format(time.RFC3339Nano), e.Makespan
		}
		text, err := json.Marshal(object{"makespanInSeconds": span.Seconds(), "executedAt": at})
		if err != nil {
			return err
		}
		out.WriteString(",\n\"execution\": ")
		out.Write(text[:len(text)-1])
		out.WriteString(",\n")
		list("tasks")
		for i := range wf.Tasks {
			t := &wf.Tasks[i]
			if !executed(t, e, i) {
				continue
			}
			v := facts(t, e == nil)
			if e != nil {
				maps.Copy(v, measured(&e.Tasks[i]))
			} else {
				v["runtimeInSeconds"] = t.Runtime.Seconds()
			}
			v["id"] = tasks[i]
			if err := line(v); err != nil {
				return err
			}
		}
		out.WriteString("]")
		if e != nil && len(e.Machines) > 0 {
			out.WriteString(",\n")
			list("machines")
			for _, m := range e.Machines {
				if err := line(machine(m)); err != nil {
					return err
				}
			}
			out.WriteString("]")
		}
		out.WriteString("}")
	}
	out.WriteString("}}\n")
	return out.Flush()
}

// executed reports whether a task has an entry in execution.tasks.
func executed(t *Task, e *Execution, i int) bool {
	if e != nil {
		return i < len(e.Tasks) && e.Tasks[i].Ran
	}
	return t.Known.Has(Runtime)
}

// extend adds what the schema has no place for.
func extend(v object, t *Task) {
	for key, s := range map[string]string{"stdin": t.Stdin, "stdout": t.Stdout, "stderr": t.Stderr, "category": t.Kind,
		"image": t.Image} {
		if s != "" {
			v[key] = s
		}
	}
	if len(t.Env) > 0 {
		env := map[string]string{}
		for _, e := range t.Env {
			name, value, _ := strings.Cut(e, "=")
			env[name] = value
		}
		v["env"] = env
	}
	if t.Retries >= 0 {
		v["retries"] = t.Retries
	}
	if t.Phase > 0 {
		v["phase"] = t.Phase
	}
	if t.DiskBps > 0 {
		v["diskBytesPerSecond"] = t.DiskBps
	}
	if t.TimeLimit > 0 {
		v["timeLimitInSeconds"] = t.TimeLimit.Seconds()
	}
	if t.SubWorkflow {
		v["subWorkflow"] = true
	}
	if t.Known.Has(Cores) && t.Cores < 1 { // the schema wants at least 1 in execution.tasks
		v["coreCount"] = t.Cores
	}
}

// facts are the command of a task and, with numbers, what the trace says of it.
func facts(t *Task, numbers bool) object {
	v := object{}
	if t.Known.Has(Command) && len(t.Command) > 0 && t.Command[0] != "" {
		c := object{"program": t.Command[0], "shell": t.Shell}
		if t.Expand {
			c = object{"program": strings.Join(t.Command, " "), "shell": true, "arguments": []string{}}
		} else if slices.Contains(t.Command[1:], "") { // the schema has no empty arguments
			c["argv"] = t.Command
		} else {
			c["arguments"] = append([]string{}, t.Command[1:]...)
		}
		v["command"] = c
	}
	if !numbers {
		return v
	}
	add := func(f Fields, key string, x any) {
		if t.Known.Has(f) {
			v[key] = x
		}
	}
	if t.Cores >= 1 {
		add(Cores, "coreCount", t.Cores)
	}
	add(AvgCPU, "avgCPU", t.AvgCPU)
	add(Memory, "memoryInBytes", t.MemoryBytes)
	add(ReadBytes, "readBytes", t.ReadBytes)
	add(WrittenBytes, "writtenBytes", t.WrittenBytes)
	return v
}

func measured(x *TaskExecution) object {
	v := object{"runtimeInSeconds": x.Runtime.Seconds()}
	if !x.ExecutedAt.IsZero() {
		v["executedAt"] = x.ExecutedAt.Format(time.RFC3339Nano)
	}
	if x.Machine != "" {
		v["machines"] = []string{hostName(x.Machine)}
	}
	add := func(f Fields, key string, y any) {
		if x.Known.Has(f) {
			v[key] = y
		}
	}
	if x.Cores >= 1 {
		add(Cores, "coreCount", x.Cores)
	}
	add(AvgCPU, "avgCPU", x.AvgCPU)
	add(ReadBytes, "readBytes", x.ReadBytes)
	add(WrittenBytes, "writtenBytes", x.WrittenBytes)
	add(Memory, "memoryInBytes", x.MemoryBytes)
	return v
}

func machine(m Machine) object {
	v := object{"nodeName": hostName(m.Name)}
	if slices.Contains([]string{"linux", "macos", "windows"}, m.System) {
		v["system"] = m.System
	}
	if m.Architecture != "" {
		v["architecture"] = m.Architecture
	}
	if m.Release != "" {
		v["release"] = m.Release
	}
	if m.MemoryBytes > 0 {
		v["memoryInBytes"] = m.MemoryBytes
	}
	cpu := object{}
	if m.Cores > 0 {
		cpu["coreCount"] = m.Cores
	}
	if m.SpeedMHz > 0 {
		cpu["speedInMHz"] = m.SpeedMHz
	}
	if m.Vendor != "" {
		cpu["vendor"] = m.Vendor
	}
	if len(cpu) > 0 {
		v["cpu"] = cpu
	}
	return v
}

// hostName makes a name one that a host may have.
func hostName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, s)
	s = strings.Trim(s[:min(len(s), 63)], "-.")
	return cmp.Or(s, "node")
}

// taskIDs returns an id of every task that the schema allows and no other task has.
func (w *Workflow) taskIDs() []string {
	ids := make([]string, len(w.Tasks))
	taken := make(map[string]bool, len(w.Tasks))
	for i := range w.Tasks {
		taken[w.Tasks[i].ID] = true
	}
	for i := range w.Tasks {
		ids[i] = allowed(w.Tasks[i].ID, "-_.", taken)
	}
	return ids
}

// fileIDs does the same for files, and returns the replaced ones with what they stand for.
func (w *Workflow) fileIDs() (ids []string, altered map[string]string) {
	ids, altered = make([]string, len(w.Files)), map[string]string{}
	taken := make(map[string]bool, len(w.Files))
	for i := range w.Files {
		taken[w.Files[i].Name] = true
	}
	for i := range w.Files {
		name := w.Files[i].Name
		if ids[i] = allowed(name, "-_./:", taken); ids[i] != name {
			altered[ids[i]] = name
		}
	}
	return ids, altered
}

// allowed replaces the characters that are neither letters, digits nor among others by _, and makes the result unique.
func allowed(id, others string, taken map[string]bool) string {
	safe := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(others, r) {
			return r
		}
		return '_'
	}, id)
	if safe == id {
		return id
	}
	for taken[safe] {
		safe += "_"
	}
	taken[safe] = true
	return safe
}

func pick(names []string, at []int32) []string {
	out := make([]string, len(at))
	for i, x := range at {
		out[i] = names[x]
	}
	return out
}
