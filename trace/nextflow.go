package trace

import (
	"errors"
	"os"
	"strings"
	"time"

	"gantry/trace/reader"
)

// readNextflow reads a trace of Nextflow: a task a line, tabs between columns, which its user chose. Numbers are for
// people, or raw: milliseconds and bytes. It tells no dependencies; opt.Graph has those of processes.
func (b *builder) readNextflow() {
	b.wf.OpaqueNames, b.line = true, 1
	t := reader.NewTable(b.in, '\t', &b.faults)
	if !t.Next() || !t.Header("name|process", "realtime|duration|complete") {
		return
	}
	n, columns := nextflow{b: b, t: t}, len(t.Fields)
	for t.Next() && !b.full(t.Line) {
		if t.Whole(columns, b.opt.Repair) {
			n.row()
		}
	}
	if n.last > n.first && n.first > 0 {
		b.wf.Makespan = n.last - n.first
	}
	switch {
	case b.opt.Graph != "":
		n.graph(b.opt.Graph)
	case len(b.wf.Tasks) > 1:
		b.faults.Warn("no-dependencies", 1, "", "a trace of Nextflow tells no dependencies: its tasks wait for none; "+
			"--graph dag.dot has those of its processes")
	}
}

// nextflow has the tasks of a trace by their processes.
type nextflow struct {
	b           *builder
	t           *reader.Table
	tags        []string // by task
	first, last time.Duration
}

func (n *nextflow) text(names string) string {
	if f := string(n.t.Field(names)); f != "-" {
		return f
	}
	return ""
}

// row reads a task. Attempts that did not end well are left out: another one did.
func (n *nextflow) row() {
	b, line := n.b, n.t.Line
	name := n.text("name|process")
	if status := n.text("status"); status != "" && status != "COMPLETED" && status != "CACHED" {
		b.faults.Warn("unwell", line, name, "task %s is %s: attempts that did not end well are left out", name, status)
		return
	}
	kind, tag := strings.TrimSpace(name), n.text("tag")
	if i := strings.IndexByte(kind, '('); i > 0 && strings.HasSuffix(kind, ")") {
		if tag == "" {
			tag = kind[i+1 : len(kind)-1]
		}
		kind = strings.TrimSpace(kind[:i])
	}
	if process := n.text("process"); process != "" {
		kind = process
	}
	id := name
	if _, taken := b.taskOf(id); taken {
		id += "#" + n.text("task_id|hash|native_id")
	}
	t := b.task(id, line)
	if t == nil {
		return
	}
	t.Name, t.Kind = b.same(name), b.same(kind)
	b.keep(len(tag))
	n.tags = append(n.tags, tag)
	n.numbers(t)
}

func (n *nextflow) numbers(t *Task) {
	b, line := n.b, n.t.Line
	start, complete := n.instant("submit|start"), n.instant("complete")
	if text := n.text("realtime|duration"); text != "" {
		d, err := nextflowTime(text)
		if err != nil {
			b.badNumber(t, "realtime", text, err, line)
		} else {
			t.Runtime, t.Known = d, t.Known|Runtime
		}
	} else if from := n.instant("start"); from > 0 && complete >= from {
		t.Runtime, t.Known = complete-from, t.Known|Runtime
	}
	if start > 0 && (n.first == 0 || start < n.first) {
		n.first = start
	}
	n.last = max(n.last, complete)
	if text := n.text("cpus"); text != "" {
		b.cores(t, text, line)
	}
	if text := strings.TrimSuffix(n.text("%cpu"), "%"); text != "" {
		if t.AvgCPU = b.positive(t, "%cpu", text, 100*reader.MaxCores, line); t.AvgCPU > 0 {
			t.Known |= AvgCPU
		}
	}
	for _, c := range []struct {
		is    Fields
		names string
	}{{Memory, "peak_rss|rss|memory"}, {ReadBytes, "read_bytes|rchar"}, {WrittenBytes, "write_bytes|wchar"}} {
		if text := n.text(c.names); text != "" {
			bytes, err := reader.BinaryBytes(text, 1)
			b.measured(t, c.is, c.names, text, bytes, err, line)
		}
	}
}

// instant reads a time since 1970, as Nextflow writes it: in words, or in milliseconds. 0 is not known.
func (n *nextflow) instant(names string) time.Duration {
	text := n.text(names)
	if ms, ok := reader.Digits(text); ok && ms < 9e12 {
		return time.Duration(ms) * time.Millisecond
	}
	at, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil || at.Year() < 1970 || at.Year() > 2200 {
		return 0
	}
	return time.Duration(at.UnixNano())
}

// nextflowTime reads 4m 19s, 733ms, 1d 2h, or milliseconds.
func nextflowTime(text string) (time.Duration, error) {
	if ms, err := reader.Float(text, reader.MaxTime.Seconds()*1000); err == nil {
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	sum := 0.0
	for part := range strings.FieldsSeq(text) {
		at := strings.IndexFunc(part, func(r rune) bool { return r >= 'a' && r <= 'z' })
		unit, ok := map[string]float64{"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[part[max(0, at):]]
		if at < 1 || !ok {
			return 0, errors.New("not a time such as 4m 19s")
		}
		x, err := reader.Float(part[:at], reader.MaxTime.Seconds())
		if err != nil {
			return 0, err
		}
		sum += x * unit
	}
	if sum > reader.MaxTime.Seconds() {
		return 0, reader.Above(reader.MaxTime.Seconds())
	}
	return seconds(sum), nil
}

// graph takes the dependencies of processes from a DOT file of Nextflow, in which other nodes are channels. A task
// waits for those of a process before it with the same tag, or else for all of it.
func (n *nextflow) graph(path string) {
	b := n.b
	f, err := os.Open(path)
	if err != nil {
		b.faults.Fail("graph", 0, "", "--graph %v", Plain(err))
		return
	}
	defer f.Close()
	in := reader.Open(f, b.opt.MaxInput)
	label, next := map[string]string{}, map[string][]string{}
	d := &dotReader{faults: &reader.Faults{}}
	d.node = func(id string, line int) { in.Keep(sameKept + len(id)) }
	d.about = func(id string, attrs map[string]string, line int) { label[id] = attrs["label"] }
	d.edge = func(from, to string, attrs map[string]string, line int) {
		if !in.Keep(edgeKept + len(from) + len(to)) {
			d.faults.Fail("bound", line, "", "%s", in.TooMuch())
			return
		}
		next[from] = append(next[from], to)
	}
	if d.read(in); d.faults.HasErrors() {
		b.faults.Fail("graph", 0, "", "--graph %s: %s", path, d.faults.Sorted()[0])
		return
	}
	of := map[string][]int32{} // tasks by process
	for i := range b.wf.Tasks {
		kind := b.wf.Tasks[i].Kind
		of[kind] = append(of[kind], int32(i))
	}
	tasks := map[string][]int32{} // by node
	for id := range label {
		if all := of[label[id]]; len(all) > 0 {
			tasks[id] = all
		}
	}
	if len(tasks) == 0 && len(b.wf.Tasks) > 0 {
		b.faults.Fail("graph", 0, "", "--graph %s: none of its nodes has the name of a process of the trace, such as "+
			"%s", path, b.wf.Tasks[0].Kind)
	}
	b.quietTwins = true
	for id, from := range tasks {
		seen, open := map[string]bool{}, next[id]
		for len(open) > 0 && !b.full(0) {
			to := open[len(open)-1]
			open = open[:len(open)-1]
			if seen[to] {
				continue
			}
			seen[to] = true
			if all := tasks[to]; len(all) > 0 {
				n.join(from, all)
				continue
			}
			open = append(open[:len(open):len(open)], next[to]...)
		}
	}
}

// join lets tasks of a process wait for those of one before it.
func (n *nextflow) join(from, to []int32) {
	byTag := map[string][]int32{}
	for _, p := range from {
		byTag[n.tags[p]] = append(byTag[n.tags[p]], p)
	}
	for _, c := range to {
		parents := byTag[n.tags[c]]
		if n.tags[c] == "" || len(parents) == 0 {
			parents = from
		}
		for _, p := range parents {
			if n.b.full(0) {
				return
			}
			if p != c {
				n.b.follows(p, c, n.b.wf.Tasks[c].Line)
			}
		}
	}
}
