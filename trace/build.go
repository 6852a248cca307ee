package trace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"gantry/trace/reader"
	"gantry/trace/shown"
)

// builder collects the finds of a reader and resolves them into a Workflow. Readers of all formats feed the same one.
type builder struct {
	wf     *Workflow
	opt    ReadOptions
	faults reader.Faults
	names
	uses []fileUse // parallel to wf.Files
	more map[int32][]int32
	// listed are the sizes that a replica catalogue gives; they count for files whose uses give none.
	listed map[string]listedSize
	edges  []edge
	late   []lateEdge
	// quietTwins: the format has every edge twice, so that duplicates are no fault.
	quietTwins bool
	lacks      bool // room for more
	line       int  // on which the workflow, or its list of tasks, begins
	cat        catalogs
	given      profiles // of the last task, reused
	// noFileEdges: the format's files are no specification of data flow (WfFormat 0.x records system calls).
	noFileEdges bool
}

func newBuilder(wf *Workflow, opt ReadOptions) *builder {
	return &builder{wf: wf, opt: opt, names: newNames(), more: map[int32][]int32{}, listed: map[string]listedSize{},
		cat: catalogs{programs: map[*executable]int32{}, obstacles: map[string]bool{}, without: map[string]int{},
			spare: map[int32]int{}}}
}

// fileUse has the sizes that the uses of one file give.
type fileUse struct {
	out, in       int64 // by the first producer that gives it; the largest of the consumers
	hasOut, hasIn bool
	differs       bool
	reads, writes int32 // the last task that does, from 1 on
}

type listedSize struct {
	text string
	line int
}

type edge struct {
	parent, child int32
	line          int32
}

// uses notes a variable of a makeflow.
func (o *ReadOptions) uses(name string) {
	if o.Used != nil && !o.Used[name] {
		o.Used[name] = true
	}
}

// lateEdge names a task that was not defined yet.
type lateEdge struct {
	parent, child string
	line          int
}

// label is the base name of a file without the endings that tell its format.
func label(source string) string {
	if source == "-" {
		return ""
	}
	base := path.Base(source)
	for {
		ext := path.Ext(base)
		switch strings.ToLower(ext) {
		case ".gz", ".zip", ".xml", ".dax", ".adag", ".json", ".yml", ".yaml", ".makeflow", ".mf",
			".jx", ".swf", ".csv", ".tsv", ".txt", ".dot", ".parquet":
			base = strings.TrimSuffix(base, ext)
		default:
			return base
		}
	}
}

// Memory that a task, a file and so on take, in bytes, before and after references are resolved.
const (
	taskKept       = 464
	fileKept       = 216
	edgeKept       = 60
	factKept       = 48
	executableKept = 400
	sameKept       = 110
)

// keep counts bytes that are kept.
func (b *builder) keep(bytes int) { b.lacks = b.in != nil && !b.in.Keep(bytes) }

// full returns, and reports once, that the workflow takes more memory than a file of its size may.
func (b *builder) full(line int) bool {
	if b.lacks && !b.faults.Ended() {
		b.faults.Fail("bound", line, "", "%s", b.in.TooMuch())
	}
	return b.faults.Ended()
}

// same returns one copy of equal strings.
func (b *builder) same(s string) string { return b.sameAs(b.number(s)) }

// sameAs is same of a text that has a number.
func (b *builder) sameAs(n int32) string {
	x := &b.all[n]
	if !x.counted {
		x.counted = true
		b.keep(sameKept + len(x.text))
	}
	return x.text
}

// task adds a task and returns it, or nil where the id is missing or taken.
func (b *builder) task(id string, line int) *Task { return b.taskAs(b.number(id), line) }

// taskAs is task by the number of the id.
func (b *builder) taskAs(n int32, line int) *Task {
	id := b.all[n].text
	if len(id) > reader.MaxName {
		b.faults.Fail("bound", line, id, "%s", reader.TooLongName)
		return nil
	}
	if id == "" {
		b.faults.Fail("missing-id", line, "", "a task without an id; give it one")
		return nil
	}
	if old := b.all[n].task; old >= 0 {
		b.faults.Fail("duplicate-id", line, id, "task id %s is taken by the task on line %d; ids have to be unique", id,
			b.wf.Tasks[old].Line)
		return nil
	}
	b.keep(taskKept + len(id))
	b.all[n].task = int32(len(b.wf.Tasks))
	b.wf.Tasks = append(grown(b.in, b.wf.Tasks), Task{ID: id, Line: line, Retries: -1})
	return b.last()
}

// last is the task that was added last.
func (b *builder) last() *Task { return &b.wf.Tasks[len(b.wf.Tasks)-1] }

// file returns the index of a logical file.
func (b *builder) file(name string) int32 { return b.fileAs(b.number(name)) }

// fileAs is file by the number of the name.
func (b *builder) fileAs(number int32) int32 {
	x := &b.all[number]
	if x.file >= 0 {
		return x.file
	}
	if name := b.cleaned(x.text); name != x.text {
		f := b.file(name)
		b.all[number].file = f
		return f
	}
	if len(x.text) > reader.MaxName && !b.faults.Ended() {
		b.faults.Fail("bound", b.last().Line, b.last().ID, "%s", reader.TooLongName)
	}
	x.file = int32(len(b.wf.Files))
	b.keep(fileKept + len(x.text))
	b.wf.Files = append(grown(b.in, b.wf.Files), File{Name: x.text, Producer: -1})
	b.uses = append(grown(b.in, b.uses), fileUse{})
	return x.file
}

// cleaned is the name that a file has however it is written: ./q and d//x are q and d/x, a directory has no slash at
// its end. Mere identifiers stay.
func (b *builder) cleaned(name string) string {
	if b.wf.OpaqueNames || strings.IndexByte(name, '/') < 0 {
		return name
	}
	return path.Clean(name)
}

// reads adds an input to the last task, once.
func (b *builder) reads(f int32) int32 {
	if me := int32(len(b.wf.Tasks)); b.uses[f].reads != me {
		b.keep(edgeKept)
		b.uses[f].reads, b.last().Inputs = me, append(b.last().Inputs, f)
	}
	return f
}

// writes adds an output to the last task, once.
func (b *builder) writes(f int32) int32 {
	t, me := b.last(), int32(len(b.wf.Tasks))
	if b.uses[f].writes == me {
		return f
	}
	b.uses[f].writes = me
	if p := b.wf.Files[f].Producer; p < 0 {
		b.wf.Files[f].Producer = me - 1
	} else if b.more[f] = append(b.more[f], me-1); len(b.more[f]) == 1 {
		b.faults.Warn("several-producers", t.Line, t.ID, "file %s is written by tasks %s and %s: a task that reads it "+
			"is ordered after them only as far as the explicit dependencies say", b.wf.Files[f].Name, b.wf.Tasks[p].ID,
			t.ID)
	}
	b.keep(edgeKept)
	t.Outputs = append(t.Outputs, f)
	return f
}

// catalogue notes the size that a replica catalogue gives of a file.
func (b *builder) catalogue(name, size string, line int) {
	b.keep(fileKept + len(name))
	b.listed[b.cleaned(name)] = listedSize{size, line}
}

// size notes the size that a use of file f gives.
func (b *builder) size(f int32, text string, produced bool, line int) {
	n, err := reader.Count(text, b.opt.sizeScale)
	b.sizeRead(f, text, n, err, produced, line)
}

// sizeRead is size of a number that was read.
func (b *builder) sizeRead(f int32, text string, n int64, err error, produced bool, line int) {
	if err != nil {
		b.faults.Judge(b.opt.Repair, "bad-number", line, b.lastID(), "taken as unknown", "size %q of file %s is %v",
			text, b.wf.Files[f].Name, err)
		return
	}
	b.bytes(f, n, produced, line)
}

// lastID is the id of the last task, "" before the first.
func (b *builder) lastID() string {
	if len(b.wf.Tasks) > 0 {
		return b.last().ID
	}
	return ""
}

// bytes notes the size that a use of file f gives as a number.
func (b *builder) bytes(f int32, n int64, produced bool, line int) {
	id := b.lastID()
	if n < 0 {
		b.faults.Warn("negative-size", line, id, "file %s has size %d: the sign is dropped", b.wf.Files[f].Name, n)
		n = -n
	}
	u := &b.uses[f]
	if (u.hasOut && u.out != n || u.hasIn && u.in != n) && !u.differs {
		u.differs = true
		b.faults.Warn("size-differs", line, id, "file %s is said to have %s, and another size elsewhere: its "+
			"producer's size is taken, for a "+
			"file from outside the largest", b.wf.Files[f].Name, shown.Size(n))
	}
	switch {
	case !produced:
		u.in, u.hasIn = max(u.in, n), true
	case !u.hasOut:
		u.out, u.hasOut = n, true
	}
}

// depends adds the edge parent → child by ids.
func (b *builder) depends(parent, child string, line int) {
	p, okP := b.taskOf(parent)
	c, okC := b.taskOf(child)
	if okP && okC {
		b.follows(p, c, line)
		return
	}
	b.keep(3*edgeKept + len(parent) + len(child))
	b.late = append(b.late, lateEdge{parent, child, line})
}

// follows adds an edge between tasks.
func (b *builder) follows(parent, child int32, line int) {
	b.keep(edgeKept)
	b.edges = append(grown(b.in, b.edges), edge{parent, child, int32(line)})
}

func (b *builder) runtime(t *Task, text string, line int) {
	d, err := reader.Seconds(text)
	switch {
	case err != nil:
		b.badNumber(t, "runtime", text, err, line)
		return
	case d < 0:
		b.faults.Judge(b.opt.Repair, "negative-runtime", line, t.ID, "taken as 0", "task %s has runtime %s s", t.ID,
			text)
		if b.opt.Repair {
			d = 0
		}
	}
	t.Runtime = d
	t.Known |= Runtime
}

// badNumber reports a number that cannot be.
func (b *builder) badNumber(t *Task, what, text string, err error, line int) {
	b.faults.Judge(b.opt.Repair, "bad-number", line, t.ID, "taken as unknown", "%s %q of task %s is %v", what, text,
		t.ID, err)
}

// positive reads a number from 0 to most and returns 0 where it is none; 0 itself is "not known".
func (b *builder) positive(t *Task, what, text string, most float64, line int) float64 {
	x, err := reader.Float(text, most)
	if err != nil {
		b.badNumber(t, what, text, err, line)
		return 0
	}
	return x
}

// whole is positive of a whole number.
func (b *builder) whole(t *Task, what, text string, most float64, line int) float64 {
	x := b.positive(t, what, text, most, line)
	if x != math.Trunc(x) {
		b.badNumber(t, what, text, errors.New("not a whole number"), line)
		return 0
	}
	return x
}

func (b *builder) cores(t *Task, text string, line int) {
	if x := b.positive(t, "cores", text, reader.MaxCores, line); x > 0 {
		t.Cores = x
		t.Known |= Cores
	}
}

// amount reads a byte count; 0 is returned, and false, where it is none.
func (b *builder) amount(t *Task, what, text string, scale int64, line int) (int64, bool) {
	n, err := reader.Count(text, scale)
	return n, b.isAmount(t, what, text, n, err, line)
}

// isAmount reports whether an amount is a number and not negative, with a fault if not.
func (b *builder) isAmount(t *Task, what, text string, n int64, err error, line int) bool {
	if err == nil && n < 0 {
		err = fmt.Errorf("negative")
	}
	if err != nil {
		b.badNumber(t, what, text, err, line)
	}
	return err == nil
}

// memory takes the peak memory.
func (b *builder) memory(t *Task, text string, scale int64, line int) {
	n, err := reader.Count(text, scale)
	b.measured(t, Memory, "memory", text, n, err, line)
}

// measured takes a number of bytes that was read; a memory of 0 says "too short to be sampled" and is not known.
func (b *builder) measured(t *Task, is Fields, name, text string, n int64, err error, line int) {
	if !b.isAmount(t, name, text, n, err, line) || is == Memory && n == 0 {
		return
	}
	switch t.Known |= is; is {
	case Memory:
		t.MemoryBytes = n
	case ReadBytes:
		t.ReadBytes = n
	default:
		t.WrittenBytes = n
	}
}

// resolve turns references into indices, adds the edges that only files imply and checks that the graph is acyclic.
func (b *builder) resolve() {
	b.wf.Label = cmp.Or(b.wf.Label, b.wf.Name, "workflow")
	if b.line == 0 && !b.faults.HasErrors() {
		b.faults.Fail("no-tasks", 1, "", "the workflow has no list of tasks; an empty one will do")
	}
	b.resolveLate()
	b.locate()
	b.sizes()
	b.link(b.edges)
	b.acyclic(nil)
	if implied := b.implied(); len(implied) > 0 {
		b.edges = append(b.edges, implied...)
		b.link(b.edges)
		b.wf.FileEdges = len(implied)
		b.acyclic(implied)
	}
	if b.noFileEdges {
		b.dropUnordered()
	}
	b.unsafeNames()
	b.bounded()
	b.length()
	if !b.faults.HasErrors() {
		b.tellNoEffect()
	}
}

// length refuses a workflow that takes longer than times are read, however many cores there are.
func (b *builder) length() {
	sum := 0.0
	for i := range b.wf.Tasks {
		sum += b.wf.Tasks[i].Runtime.Seconds()
	}
	if most := reader.MaxTime.Seconds(); sum > most && !b.faults.HasErrors() {
		if path := b.wf.Stats().CriticalPathSeconds; path > most {
			b.faults.Fail("bad-number", max(b.line, 1), "", "the tasks of the critical path run for %.4g s: %v", path,
				reader.Above(most))
		}
	}
}

// dropUnordered removes the inputs that need not be there when their reader starts: in formats whose files tell no
// dependencies, tasks read files of tasks that they do not wait for.
func (b *builder) dropUnordered() {
	if b.wf.cycle() != nil {
		return // that is an error
	}
	s := search{wf: b.wf, budget: searchBudget}
	for i := range b.wf.Tasks {
		c, t := int32(i), &b.wf.Tasks[i]
		t.Inputs = slices.DeleteFunc(t.Inputs, func(f int32) bool {
			p := b.wf.Files[f].Producer
			if p < 0 || s.budget <= 0 {
				return false
			}
			writers := slices.DeleteFunc(append([]int32{p}, b.more[f]...), func(w int32) bool { return w == c })
			if len(writers) == 0 || s.anyPrecedes(writers, c) || s.budget <= 0 {
				return false
			}
			b.faults.Warn("unordered-input", t.Line, t.ID,
				"task %s reads %s, which it does not wait for (task %s writes it): taken as not read",
				t.ID, b.wf.Files[f].Name, b.wf.Tasks[writers[0]].ID)
			return true
		})
	}
}

func (b *builder) resolveLate() {
	for _, l := range b.late {
		p, okP := b.taskOf(l.parent)
		c, okC := b.taskOf(l.child)
		switch {
		case (!okC || !okP) && b.faults.Ended(): // it may be in the part that was not read
		case !okC:
			b.faults.Judge(b.opt.Repair, "unknown-child", l.line, l.child, "the dependency is dropped",
				"there is no task %s, which should depend on %s", shown.Quote(l.child), shown.Quote(l.parent))
		case !okP:
			b.faults.Judge(b.opt.Repair, "unknown-parent", l.line, l.child, "the dependency is dropped",
				"task %s depends on %s, which is no task", l.child, shown.Quote(l.parent))
		default:
			b.edges = append(b.edges, edge{p, c, int32(l.line)})
		}
	}
	b.late = nil
}

// sizes decides the size of each file: its producer's, else the largest that a consumer gives.
func (b *builder) sizes() {
	sum := 0.0
	for i := range b.uses {
		f, u := &b.wf.Files[i], b.uses[i]
		if l, ok := b.listed[f.Name]; ok && !u.hasOut && !u.hasIn {
			b.size(int32(i), l.text, false, l.line)
			u = b.uses[i]
		}
		switch {
		case u.hasOut:
			f.Size, f.Sized = u.out, true
		case u.hasIn:
			f.Size, f.Sized = u.in, true
		}
		sum += float64(f.Size)
	}
	for i := range b.wf.Tasks {
		t := &b.wf.Tasks[i]
		sum += float64(t.MemoryBytes) + float64(t.ReadBytes) + float64(t.WrittenBytes)
	}
	if sum > 1<<62 {
		b.faults.Fail("bad-number", max(b.line, 1), "", "sizes of files, memory and bytes of I/O sum to %.3g bytes: "+
			"above the bound of %d", sum, int64(1)<<62)
	}
}

// link sorts the edges, drops self edges and duplicates, and fills Parents and Children.
func (b *builder) link(edges []edge) {
	slices.SortFunc(edges, byChild)
	tasks, kept := b.wf.Tasks, edges[:0]
	for i := range tasks {
		tasks[i].Parents = nil
	}
	for _, e := range edges {
		child := &tasks[e.child]
		if e.parent == e.child {
			b.faults.Warn("self-edge", int(e.line), child.ID, "task %s is its own parent: the dependency is dropped",
				child.ID)
			continue
		}
		if n := len(child.Parents); n > 0 && child.Parents[n-1] == e.parent {
			if !b.quietTwins {
				b.faults.Warn("duplicate-edge", int(e.line), child.ID,
					"task %s is said twice to depend on %s: once is enough", child.ID, tasks[e.parent].ID)
			}
			continue
		}
		kept, child.Parents = append(kept, e), append(child.Parents, e.parent)
	}
	b.edges = kept
	_ = b.wf.Link() // edges are of tasks
}

// byChild orders edges by child, parent and line.
func byChild(x, y edge) int {
	switch {
	case x.child != y.child:
		return int(x.child) - int(y.child)
	case x.parent != y.parent:
		return int(x.parent) - int(y.parent)
	}
	return int(x.line) - int(y.line)
}

// acyclic checks the graph; implied are the edges that files add to it. A cycle is an error naming it, or, by repair,
// is broken by dropping the edges that lead back in a depth-first walk in file order.
func (b *builder) acyclic(implied []edge) {
	cycle := b.wf.cycle()
	if cycle == nil {
		return
	}
	if !b.opt.Repair {
		// The line is that of an edge of the cycle, and the first task of the message is its child.
		e := b.edge(cycle[len(cycle)-1], cycle[0])
		cause, pairs := "", map[[2]int32]bool{}
		for i, c := range cycle {
			pairs[[2]int32{cycle[(i+len(cycle)-1)%len(cycle)], c}] = true
		}
		for _, x := range implied {
			if pairs[[2]int32{x.parent, x.child}] {
				cause = fmt.Sprintf(" (%s reads what %s writes)", b.wf.Tasks[x.child].ID, b.wf.Tasks[x.parent].ID)
				break
			}
		}
		b.faults.Fail("cycle", cmp.Or(int(e.line), b.wf.Tasks[cycle[0]].Line), b.wf.Tasks[cycle[0]].ID,
			"tasks wait for each other: %s%s (--repair: the edges that lead back are dropped)", b.wf.path(cycle), cause)
		return
	}
	back := b.wf.backEdges()
	drop := make(map[[2]int32]bool, len(back))
	for _, e := range back {
		drop[[2]int32{e.parent, e.child}] = true
	}
	unread := map[[2]int32]bool{}
	for i := range b.wf.Tasks { // an input that cannot be there would bring the dependency back
		t := &b.wf.Tasks[i]
		t.Inputs = slices.DeleteFunc(t.Inputs, func(f int32) bool {
			e := [2]int32{b.wf.Files[f].Producer, int32(i)}
			if !drop[e] || len(b.more[f]) > 0 {
				return false
			}
			unread[e] = true
			return true
		})
	}
	for _, e := range back {
		x, t, nor := b.edge(e.parent, e.child), &b.wf.Tasks[e.child], ""
		if unread[[2]int32{e.parent, e.child}] {
			nor = ", nor reads what it writes"
		}
		b.faults.Repaired("cycle", int(x.line), t.ID,
			"cycle broken: task %s no longer waits for %s%s", t.ID, b.wf.Tasks[e.parent].ID, nor)
	}
	dropped := func(e edge) bool { return drop[[2]int32{e.parent, e.child}] }
	b.wf.FileEdges -= len(implied) - len(slices.DeleteFunc(implied, dropped))
	b.link(slices.DeleteFunc(b.edges, dropped))
}

// edge finds an edge that there is; b.edges is sorted.
func (b *builder) edge(parent, child int32) edge {
	i, _ := slices.BinarySearchFunc(b.edges, edge{parent: parent, child: child}, byChild)
	return b.edges[i]
}

// path writes a cycle as "a -> b -> a", at most a dozen names of it.
func (w *Workflow) path(cycle []int32) string {
	const most = 12
	var s strings.Builder
	for i, t := range cycle {
		if i == most {
			fmt.Fprintf(&s, "… %d more … -> ", len(cycle)-most)
			break
		}
		s.WriteString(w.Tasks[t].ID + " -> ")
	}
	return s.String() + w.Tasks[cycle[0]].ID
}

// searchBudget bounds the tasks looked at while the producers of files with several of them are distinguished.
const searchBudget = 20_000_000

// implied returns the edges that only files tell: from the one task that writes a file to those that read it. Where
// several tasks write it, the explicit edges decide: if one of the writers precedes the reader, nothing is added; if
// none does, the reader waits for all writers that do not depend on it, and a warning says so.
func (b *builder) implied() []edge {
	if b.noFileEdges {
		return nil
	}
	var out []edge
	s := search{wf: b.wf, budget: searchBudget}
	for i := range b.wf.Tasks {
		c, t := int32(i), &b.wf.Tasks[i]
		for _, f := range t.Inputs {
			p := b.wf.Files[f].Producer
			if p < 0 {
				continue
			}
			rest := b.more[f]
			if len(rest) == 0 {
				if _, ok := slices.BinarySearch(t.Parents, p); p != c && !ok {
					out = append(out, edge{p, c, int32(t.Line)})
				}
				continue
			}
			var writers []int32
			if s.budget > 0 {
				writers = slices.DeleteFunc(append([]int32{p}, rest...), func(w int32) bool { return w == c })
				if s.anyPrecedes(writers, c) {
					continue
				}
			}
			if s.budget <= 0 {
				b.faults.Warn("ambiguous-producer", t.Line, t.ID,
					"task %s reads %s, which %d tasks write: too many to tell which is meant, so that only "+
						"the explicit dependencies count", t.ID, b.wf.Files[f].Name, len(rest)+1)
				continue
			}
			n := len(out)
			for _, w := range writers {
				if !s.anyPrecedes([]int32{c}, w) {
					out = append(out, edge{w, c, int32(t.Line)})
					b.keep(edgeKept)
				}
			}
			if b.full(t.Line) {
				return nil
			}
			if len(out) > n {
				b.faults.Warn("ambiguous-producer", t.Line, t.ID,
					"task %s reads %s, which %d tasks write, none of them before it by explicit dependencies: "+
						"it waits for all of them that do not depend on it", t.ID, b.wf.Files[f].Name, len(writers))
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	slices.SortFunc(out, byChild)
	return slices.CompactFunc(out, func(x, y edge) bool { return x.child == y.child && x.parent == y.parent })
}

// unsaid returns the dependencies that a reader would take from the files of w although w does not have them, as its
// format says that files tell none.
func (w *Workflow) unsaid() []edge {
	b := builder{wf: w, more: map[int32][]int32{}}
	for i := range w.Tasks {
		for _, f := range w.Tasks[i].Outputs {
			if w.Files[f].Producer != int32(i) {
				b.more[f] = append(b.more[f], int32(i))
			}
		}
	}
	return b.implied()
}

// search asks which tasks precede others. Levels prune it: an ancestor is on a lower level.
type search struct {
	wf     *Workflow
	budget int
	level  []int32
	stamp  []int32
	round  int32
	stack  []int32
}

// anyPrecedes reports whether one of the tasks is an ancestor of c.
func (s *search) anyPrecedes(tasks []int32, c int32) bool {
	for _, p := range tasks {
		if _, ok := slices.BinarySearch(s.wf.Tasks[c].Parents, p); ok {
			return true
		}
	}
	if s.level == nil {
		s.level, _ = s.wf.levels()
		s.stamp = make([]int32, len(s.wf.Tasks))
	}
	s.round += 2
	s.budget -= len(tasks)
	goal, seen := s.round, s.round-1
	lowest := int32(len(s.wf.Tasks))
	for _, p := range tasks {
		s.stamp[p] = goal
		lowest = min(lowest, s.level[p])
	}
	s.stack = append(s.stack[:0], c)
	for len(s.stack) > 0 && s.budget > 0 {
		t := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		for _, p := range s.wf.Tasks[t].Parents {
			s.budget--
			if s.stamp[p] == goal {
				return true
			}
			if s.stamp[p] != seen && s.level[p] > lowest {
				s.stamp[p] = seen
				s.stack = append(s.stack, p)
			}
		}
	}
	return false
}

// Inside says how a file comes to a task from where names may not lead.
const Inside = `a makeflow shows an input as NAME by PATH->NAME; --inputs DIR finds it by its base name, and --mount ` +
	`DIR:/path:ro shows its directory; an output has a relative name without ".."`

// unsafeNames warns of files that could leave a task's directory, and refuses names that gantry uses there.
func (b *builder) unsafeNames() {
	if b.wf.OpaqueNames {
		return
	}
	for i := range b.wf.Files {
		f := &b.wf.Files[i]
		safe, reserved := SafeName(f.Name), ReservedName(f.Name)
		if safe && !reserved {
			continue
		}
		t := Task{}
		if f.Producer >= 0 {
			t = b.wf.Tasks[f.Producer]
		}
		if reserved {
			b.faults.Fail("reserved-name", t.Line, t.ID, "file %s has a name that gantry uses itself in the task's "+
				"directory: rename it", shown.Quote(f.Name))
		} else {
			b.faults.Warn("unsafe-path", t.Line, t.ID, "file name %s leaves the task's directory: check and "+
				"simulate go on, gantry run refuses the workflow; %s", shown.Quote(f.Name), Inside)
		}
	}
}

// SafeName reports whether a logical file name stays below the directory that it is used in: it is relative, has no
// ".." that leads out, no NUL, and names something.
func SafeName(name string) bool {
	if name == "" || strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) {
		return false
	}
	clean := path.Clean(name)
	return clean != "." && clean != ".." && !strings.HasPrefix(clean, "../")
}

// ReservedName reports whether a logical file name is one of gantry's own in the directory of a task.
func ReservedName(name string) bool {
	top, _, _ := strings.Cut(path.Clean(name), "/")
	return strings.HasPrefix(top, ".command.") || top == ".exitcode" || top == "emulation.json" ||
		top == "emulation.json.part"
}

// span reads a duration in a number of units, rounded to nanoseconds; 0 where it is none.
func (b *builder) span(t *Task, what, text string, unit time.Duration, line int) time.Duration {
	return time.Duration(math.Round(b.positive(t, what, text, float64(reader.MaxTime/unit), line) * float64(unit)))
}

// limit reads a wall-clock limit in a number of units.
func (b *builder) limit(t *Task, what, text string, unit time.Duration, line int) {
	if d := b.span(t, what, text, unit, line); d > 0 {
		t.TimeLimit = d
	}
}
