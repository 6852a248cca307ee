package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Execution describes one run of a workflow, for WriteExecution.
type Execution struct {
	Makespan   time.Duration
	ExecutedAt time.Time
	Machines   []Machine
	Tasks      []TaskExecution // parallel to Workflow.Tasks
	Simulated  bool            // nothing was measured: the numbers of the trace are written too
	System     string          // name of the runtime system; "" is gantry
	Version    string          // of the runtime system
	Estimates  *Estimates      // nil: not known
}

// Machine is a node that ran tasks.
type Machine struct {
	Name         string // node name; made into a host name where it is none
	System       string // linux, macos or windows; "" if not known
	Architecture string
	Release      string
	MemoryBytes  int64
	Cores        int64
	SpeedMHz     int64   // of simulated nodes 1000 at speed 1
	Speed        float64 // against a machine on which runtimes count; 0: not known
	Vendor       string
}

// TaskExecution has the measurements of the attempt of a task that counts. Known says which numbers were measured.
type TaskExecution struct {
	Ran bool // false: it was never run, and nothing is written
	// ReusedFrom is the run whose results the task has taken over; then it did not run.
	ReusedFrom   string
	Runtime      time.Duration
	Work         time.Duration // of which Runtime is the time at Speed, rounded down; 0: not known
	Speed        float64       // of the machine
	Overhead     time.Duration // before and after it, as long as the machine was taken
	MemoryNeeded int64         // that the task asked for; 0: nothing
	ExecutedAt   time.Time
	Machine      string // Machine.Name; "" if not known
	Cores        float64
	AvgCPU       float64 // percent of one core
	ReadBytes    int64
	WrittenBytes int64
	MemoryBytes  int64
	Known        Fields // Cores, AvgCPU, ReadBytes, WrittenBytes, Memory
}

// WriteWfFormat writes w as WfFormat 1.5. Unknown values are left out, and so are imputed ones. The schema demands a
// makespan and a start time as soon as there is a runtime: where the trace has none they are 0 and "unknown". It
// demands a runtime of each task in execution.tasks: facts of a task without one stand in specification.tasks, in the
// same words.
//
// Ids that the schema does not allow are replaced; originalId (task) and originalFileIds (specification) keep them,
// image, stdin, stdout, stderr, env, retries, phase, timeLimitInSeconds, diskLimitInBytes, diskBytesPerSecond,
// category, overheadInSeconds, estimateInSeconds, expectedInputInBytes, memoryNeededInBytes, relativeSpeed, subWorkflow
// and estimates keep the rest that the schema has no place for, opaqueFileIds and dataDependencies how file ids are
// meant. Read reads it all.
func WriteWfFormat(w io.Writer, wf *Workflow) error { return WriteExecution(w, wf, nil) }

type object = map[string]any // keys are written sorted

// wfWriter writes one WfFormat file piece by piece, so that a large one never lies in memory whole.
type wfWriter struct {
	*bufio.Writer
	wf    *Workflow
	e     *Execution // nil: the numbers of the trace are written
	tasks []string   // ids that the schema allows, by index in wf.Tasks
	err   error      // the first one; Flush reports those of the Writer
}

// WriteExecution writes wf and its execution as WfFormat 1.5, with measured runtimes, memory and I/O. It writes those
// of the trace only if they were simulated.
func WriteExecution(to io.Writer, wf *Workflow, e *Execution) error {
	w := &wfWriter{Writer: bufio.NewWriterSize(to, 64<<10), wf: wf, e: e,
		tasks: allowed(len(wf.Tasks), func(i int) string { return wf.Tasks[i].ID }, "-_.")}
	head := object{"name": cmp.Or(wf.Name, wf.Label, "workflow"), "schemaVersion": "1.5",
		"description": "written by gantry"}
	if e != nil {
		head["runtimeSystem"] = object{"name": cmp.Or(e.System, "gantry"), "version": cmp.Or(e.Version, "unknown")}
	}
	w.open(head)
	w.WriteString("\"workflow\": {\"specification\": {\n")
	w.specification()
	w.WriteString("}")
	for i := range wf.Tasks {
		if w.executed(i) {
			w.WriteString(",\n\"execution\": ")
			w.execution()
			break
		}
	}
	w.WriteString("}}\n")
	return cmp.Or(w.err, w.Flush())
}

// value writes v as JSON, and a line end.
func (w *wfWriter) value(v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	w.err = cmp.Or(w.err, enc.Encode(v))
}

// open writes an object that has at least one key and leaves it open for more.
func (w *wfWriter) open(v object) {
	text, err := json.Marshal(v)
	w.err = cmp.Or(w.err, err)
	w.WriteString(strings.TrimSuffix(string(text), "}"))
	w.WriteString(",\n")
}

// list writes a key and the list of n values, each on a line of its own, without those that are nil.
func (w *wfWriter) list(key string, n int, value func(i int) object) {
	fmt.Fprintf(w, "%q: [\n", key)
	first := true
	for i := range n {
		if v := value(i); v != nil {
			if !first {
				w.WriteString(",")
			}
			first = false
			w.value(v)
		}
	}
	w.WriteString("]")
}

// specification writes the content of workflow.specification.
func (w *wfWriter) specification() {
	files, altered := allowed(len(w.wf.Files), func(i int) string { return w.wf.Files[i].Name }, "-_./:"), object{}
	for i, id := range files {
		if name := w.wf.Files[i].Name; id != name {
			altered[id] = name
		}
	}
	if len(altered) > 0 {
		w.WriteString("\"originalFileIds\": ")
		w.value(altered)
		w.WriteString(",\n")
	}
	if w.wf.OpaqueNames {
		w.WriteString("\"opaqueFileIds\": true,\n")
	}
	if len(w.wf.unsaid()) > 0 {
		w.WriteString("\"dataDependencies\": false,\n")
	}
	w.list("tasks", len(w.wf.Tasks), func(i int) object {
		t := &w.wf.Tasks[i]
		v := object{"name": cmp.Or(t.Name, t.ID), "id": w.tasks[i], "parents": pick(w.tasks, t.Parents),
			"children": pick(w.tasks, t.Children)}
		if len(t.Inputs) > 0 {
			v["inputFiles"] = pick(files, t.Inputs)
		}
		if len(t.Outputs) > 0 {
			v["outputFiles"] = pick(files, t.Outputs)
		}
		if t.ID != w.tasks[i] {
			v["originalId"] = t.ID
		}
		extend(v, t)
		if w.e != nil && i < len(w.e.Tasks) {
			setKnown(v, "reusedFrom", w.e.Tasks[i].ReusedFrom)
		}
		if !w.executed(i) {
			maps.Copy(v, facts(t, w.e == nil || w.e.Simulated))
		}
		return v
	})
	w.WriteString(",\n")
	w.list("files", len(w.wf.Files), func(i int) object {
		f := &w.wf.Files[i]
		if !f.Sized || f.Imputed {
			return nil
		}
		return object{"id": files[i], "sizeInBytes": f.Size}
	})
}

func (w *wfWriter) execution() {
	at, span := cmp.Or(w.wf.ExecutedAt, "unknown"), w.wf.Makespan
	if w.e != nil {
		at, span = w.e.ExecutedAt.Format(time.RFC3339Nano), w.e.Makespan
	}
	w.open(object{"makespanInSeconds": span.Seconds(), "executedAt": at})
	hosts := w.hosts()
	w.list("tasks", len(w.wf.Tasks), func(i int) object {
		if !w.executed(i) {
			return nil
		}
		t := &w.wf.Tasks[i]
		v := facts(t, w.e == nil || w.e.Simulated)
		if w.e != nil {
			maps.Copy(v, measured(&w.e.Tasks[i], hosts))
		} else {
			v["runtimeInSeconds"] = t.Runtime.Seconds()
			setKnown(v, "overheadInSeconds", t.Overhead.Seconds())
		}
		v["id"] = w.tasks[i]
		return v
	})
	if w.e != nil && w.e.Estimates != nil {
		w.WriteString(",\n\"estimates\": ")
		w.estimates(w.e.Estimates)
	}
	if w.e != nil && len(w.e.Machines) > 0 {
		w.WriteString(",\n")
		w.list("machines", len(w.e.Machines), func(i int) object { return machine(&w.e.Machines[i], hosts) })
	}
	w.WriteString("}")
}

func (w *wfWriter) estimates(e *Estimates) {
	estimator := "declared"
	if e.Learn {
		estimator = "learned"
	}
	w.open(object{"estimator": estimator, "startInSeconds": e.Start.Seconds()})
	w.list("from", len(e.From), func(i int) object {
		m := &e.From[i]
		v := object{"category": m.Kind, "runtimeInSeconds": m.Runtime.Seconds()}
		setKnown(v, "inputInBytes", m.InputBytes)
		setKnown(v, "millicores", m.Millicores)
		setKnown(v, "memoryInBytes", m.MemoryBytes)
		setKnown(v, "relativeSpeed", m.Speed)
		setKnown(v, "declaredInSeconds", m.Declared.Seconds())
		return v
	})
	w.WriteString("}")
}

// executed reports whether a task has an entry in execution.tasks.
func (w *wfWriter) executed(i int) bool {
	if w.e != nil {
		return i < len(w.e.Tasks) && w.e.Tasks[i].Ran
	}
	return w.wf.Tasks[i].Known.Has(Runtime)
}

// setKnown adds a value, unless it is zero: that is unknown.
func setKnown[T comparable](v object, key string, x T) {
	if x != *new(T) {
		v[key] = x
	}
}

// extend adds the values that the schema has no place for.
func extend(v object, t *Task) {
	setKnown(v, "category", t.Kind)
	for _, f := range wfFields {
		if f.give == nil {
			continue
		}
		if x := reflect.ValueOf(f.give(t)); x.IsValid() && !x.IsZero() {
			v[f.key] = x.Interface()
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
	if t.Known.Has(Cores) && t.Cores < 1 { // the schema wants at least 1 in execution.tasks
		v["coreCount"] = t.Cores
	}
}

// facts are the command of a task and, with numbers, the numbers that the trace gives.
func facts(t *Task, numbers bool) object {
	v := object{}
	if t.Known.Has(Command) && len(t.Command) > 0 && t.Command[0] != "" {
		c := object{"program": t.Command[0], "shell": t.Shell}
		if t.Expand {
			c = object{"program": strings.Join(t.Command, " "), "shell": true, "arguments": []string{}}
		} else if t.Shell && len(t.Command) > 1 {
			c["shell"], c["arguments"] = quoted(t.Command[1:]), []string{}
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
	amounts(v, t.Known, t.Cores, t.AvgCPU, t.MemoryBytes, t.ReadBytes, t.WrittenBytes)
	return v
}

// amounts adds those of these that are known.
func amounts(v object, known Fields, cores, avgCPU float64, memory, read, written int64) {
	add := func(f Fields, key string, x any) {
		if known.Has(f) {
			v[key] = x
		}
	}
	if cores >= 1 {
		add(Cores, "coreCount", cores)
	}
	add(AvgCPU, "avgCPU", avgCPU)
	add(Memory, "memoryInBytes", memory)
	add(ReadBytes, "readBytes", read)
	add(WrittenBytes, "writtenBytes", written)
}

func measured(x *TaskExecution, hosts map[string]string) object {
	v := object{"runtimeInSeconds": runtimeSeconds(x)}
	if !x.ExecutedAt.IsZero() {
		v["executedAt"] = x.ExecutedAt.Format(time.RFC3339Nano)
	}
	setKnown(v, "overheadInSeconds", x.Overhead.Seconds())
	setKnown(v, "memoryNeededInBytes", x.MemoryNeeded)
	if x.Machine != "" {
		v["machines"] = []string{hosts[x.Machine]}
	}
	amounts(v, x.Known, x.Cores, x.AvgCPU, x.MemoryBytes, x.ReadBytes, x.WrittenBytes)
	return v
}

// runtimeSeconds writes a runtime. Of known work it has so many digits that Read finds the work again, to the
// nanosecond: tasks that are alike stay so.
func runtimeSeconds(x *TaskExecution) any {
	if x.Work == 0 {
		return x.Runtime.Seconds()
	}
	run := new(big.Rat).Quo(new(big.Rat).SetInt64(int64(x.Work)), ratio(x.Speed))
	n, unit := new(big.Int).Mul(run.Num(), big.NewInt(1e9)), big.NewInt(1e18)
	whole, rest := n.Quo(n, run.Denom()).QuoRem(n, unit, new(big.Int))
	return json.Number(strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%018d", whole, rest), "0"), "."))
}

func machine(m *Machine, hosts map[string]string) object {
	v := object{"nodeName": hosts[m.Name]}
	if slices.Contains([]string{"linux", "macos", "windows"}, m.System) {
		v["system"] = m.System
	}
	setKnown(v, "architecture", m.Architecture)
	setKnown(v, "release", m.Release)
	setKnown(v, "memoryInBytes", m.MemoryBytes)
	cpu := object{}
	setKnown(cpu, "coreCount", m.Cores)
	setKnown(cpu, "speedInMHz", m.SpeedMHz)
	setKnown(cpu, "relativeSpeed", m.Speed)
	setKnown(cpu, "vendor", m.Vendor)
	if len(cpu) > 0 {
		v["cpu"] = cpu
	}
	return v
}

// hosts returns a name for every machine that a host may have and no other machine has.
func (w *wfWriter) hosts() map[string]string {
	hosts, taken := map[string]string{}, map[string]bool{}
	if w.e == nil {
		return hosts
	}
	for _, m := range w.e.Machines {
		name := hostName(m.Name)
		for k := 2; taken[name]; k++ {
			suffix := fmt.Sprint("-", k)
			name = hostName(m.Name)
			name = name[:min(len(name), 63-len(suffix))] + suffix
		}
		hosts[m.Name], taken[name] = name, true
	}
	return hosts
}

// hostName makes a name one that a host may have.
func hostName(s string) string {
	s = replaced(s, "-.", '-')
	return cmp.Or(strings.Trim(s[:min(len(s), 63)], "-."), "node")
}

// replaced has another character in place of those that are neither letters, digits nor among others.
func replaced(s, others string, by rune) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(others, r) {
			return r
		}
		return by
	}, s)
}

// allowed returns, for each of n names, one that the schema allows and that no other has.
func allowed(n int, name func(i int) string, others string) []string {
	ids, taken := make([]string, n), make(map[string]bool, n)
	for i := range ids {
		taken[name(i)] = true
	}
	for i := range ids {
		ids[i] = replaced(name(i), others, '_')
		for ids[i] != name(i) && taken[ids[i]] {
			ids[i] += "_"
		}
		taken[ids[i]] = true
	}
	return ids
}

func pick(names []string, at []int32) []string {
	out := make([]string, len(at))
	for i, x := range at {
		out[i] = names[x]
	}
	return out
}
