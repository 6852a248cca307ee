package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"gantry/trace/reader"
)

// Archive has the workflows of an archive, which arrived at a cluster over time. Jobs of batch systems are workflows of
// one task. It is kept in little memory, and each workflow is made when it is asked for.
type Archive struct {
	Source, Label string
	Format        Format
	Users         int
	MostCores     float64
	Work          time.Duration // of all tasks, times their cores
	Left          []Imputation  // what was left out, and why
	Imputed       []Imputation

	jobs   []archivedJob // by arrival
	rows   []archivedTask
	edges  []int32 // parents, by position in their workflow
	prefix string  // of the names of jobs that are numbers
	task   string  // likewise of tasks; where each job is one task, its name
	single bool    // each job is one task
	split  bool    // each instance is a task
	texts  names
}

type archivedJob struct {
	at       time.Duration // after the first one
	id       int64         // see key
	tenant   int32         // number of a text
	from, to int32         // rows
}

type archivedTask struct {
	id            int64
	run, estimate time.Duration // estimate 0: its user gave none
	memory        int64         // 0: unknown
	cores         float32       // 0: unknown
	kind          int32         // number of a text
	job           int32
	edges         int32 // end of those of this task; they begin where those of the row before end
	instances     int32
}

// Memory that rows take, until the archive is read.
const (
	archivedKept = 80
	jobKept      = 80
)

// Mosts of archives.
const (
	maxInstances = 100_000
	maxArchived  = math.MaxInt32 / 2
)

// archiver reads an archive.
type archiver struct {
	*Archive
	in     *reader.Input
	opt    ReadOptions
	faults reader.Faults
	of     map[int64]int32 // jobs by key

	// of the Workflow Trace Archive
	room    int64           // bytes that may be kept
	tasks   map[wtaID]int32 // rows by task, in the order of the file, from 1 on
	parents [][]int64       // by row
	places  []int32         // in its workflow, by row
}

// IsArchive reports whether a format is one of archives.
func (f Format) IsArchive() bool { return formats[f].archive != nil }

// IsArchive reports whether a file is an archive by its beginning.
func IsArchive(path string) bool {
	if info, err := os.Stat(path); err != nil || info.IsDir() || isWTA(path) {
		return err == nil && isWTA(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	_, archive := Archived(f, path)
	return archive
}

// Archived looks at the beginning of a text. It returns all of it again, and whether it is an archive.
func Archived(r io.Reader, source string) (io.Reader, bool) {
	in := bufio.NewReaderSize(r, reader.Window)
	head, _ := in.Peek(reader.Window) // errors come again
	format, err := sniff(reader.Open(bytes.NewReader(head), 0).Reader, source)
	return in, err == nil && format.IsArchive()
}

// OpenArchive reads an archive, from std if path is "-". The faults are as those of Read; with error faults it must not
// be used.
func OpenArchive(path string, std io.Reader, opt ReadOptions) (*Archive, []Fault, error) {
	if path == "-" {
		return ReadArchive(std, path, opt)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() || isWTA(path) {
		return readWTA(path, opt)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return ReadArchive(f, path, opt)
}

// ReadArchive reads an archive of one file.
func ReadArchive(r io.Reader, source string, opt ReadOptions) (*Archive, []Fault, error) {
	in := reader.Open(r, opt.MaxInput)
	x := newArchiver(source, opt)
	x.in, x.texts.in = in, in
	var err error
	if x.Format, err = sniff(in.Reader, source); err != nil {
		x.faults.Damage(err, 1)
	}
	if read := formats[x.Format].archive; read != nil {
		read(x)
	}
	x.finish()
	if in.Err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", source, in.Err)
	}
	return x.Archive, x.faults.Sorted(), nil
}

func newArchiver(source string, opt ReadOptions) *archiver {
	return &archiver{Archive: &Archive{Source: source, Label: cmp.Or(label(source), "archive"), texts: newNames(),
		split: opt.Instances}, opt: opt, of: map[int64]int32{}}
}

// key is that of an id: the number that it is, without a prefix, or below 0 the number of the text.
func (x *archiver) key(id []byte, prefix string) int64 {
	if rest, ok := bytes.CutPrefix(id, []byte(prefix)); ok && (len(rest) == 1 || len(rest) > 1 && rest[0] != '0') {
		if n, ok := reader.Digits(rest); ok {
			return n
		}
	}
	return -int64(x.text(id))
}

// text is the number of a text, as that of the names of kinds, tenants and tasks.
func (x *archiver) text(text []byte) int32 {
	before := len(x.texts.all)
	n := x.texts.numberOf(text)
	if before < len(x.texts.all) && len(text) > reader.MaxName {
		x.faults.Fail("bound", 0, "", "%s", reader.TooLongName)
	}
	if before < len(x.texts.all) {
		x.keep(sameKept+len(text), 0)
	}
	return n
}

func (a *Archive) textOf(id int64, prefix string) string {
	if id < 0 && a.Format != WTA {
		return a.texts.text(int32(-id))
	}
	return prefix + strconv.FormatInt(id, 10)
}

// keep counts memory.
func (x *archiver) keep(bytes, line int) {
	if x.in == nil {
		if x.room -= int64(bytes); x.room < -20<<20 && !x.faults.Ended() {
			x.faults.Fail("bound", line, "", "what it describes takes more memory than 20 times its size and 64 MB")
		}
	} else if !x.in.Keep(bytes) && !x.faults.Ended() {
		x.faults.Fail("bound", line, "", "%s", x.in.TooMuch())
	}
}

// leave notes that a line or job was left out.
func (x *archiver) leave(why string) { x.Left = counted(x.Left, "left out", why) }

func counted(all []Imputation, field, rule string) []Imputation {
	for i := range all {
		if all[i].Rule == rule && all[i].Field == field {
			all[i].Count++
			return all
		}
	}
	return append(all, Imputation{field, rule, 1})
}

// job returns the index of the job with that key, and whether it is a new one. A job is as early as its first task.
func (x *archiver) job(id int64, at time.Duration, tenant int32, line int) (job int32, fresh bool) {
	if k, ok := x.of[id]; ok {
		x.jobs[k].at = min(x.jobs[k].at, at)
		return k, false
	}
	x.keep(jobKept, line)
	job = int32(len(x.jobs))
	x.of[id] = job
	x.jobs = append(grown(x.in, x.jobs), archivedJob{at: at, id: id, tenant: tenant})
	return job, true
}

// row adds a task.
func (x *archiver) row(t archivedTask, line int) {
	x.keep(archivedKept, line)
	if len(x.rows) >= maxArchived {
		x.faults.Fail("bound", line, "", "more than %d tasks", maxArchived)
		return
	}
	x.rows = append(grown(x.in, x.rows), t)
}

// finish sorts jobs by arrival, and counts what is imputed.
func (x *archiver) finish() {
	x.of = nil
	if len(x.jobs) == 0 && !x.faults.HasErrors() {
		x.faults.Fail("no-tasks", 1, "", "no job of the archive has run")
	}
	x.eachJob(func(from, to int) {
		job := &x.jobs[x.rows[from].job]
		job.from, job.to = int32(from), int32(to)
	})
	slices.SortStableFunc(x.jobs, func(a, b archivedJob) int { return cmp.Compare(a.at, b.at) })
	users := map[int32]bool{}
	for i := range slices.Backward(x.jobs) {
		x.jobs[i].at -= x.jobs[0].at
		users[x.jobs[i].tenant] = true
	}
	x.Users = len(users)
	x.tally()
}

// eachJob sorts rows by job, and calls each with those of every job.
func (x *archiver) eachJob(each func(from, to int)) {
	slices.SortStableFunc(x.rows, func(a, b archivedTask) int { return cmp.Compare(a.job, b.job) })
	for from, to := 0, 0; from < len(x.rows); from = to {
		for to < len(x.rows) && x.rows[to].job == x.rows[from].job {
			to++
		}
		each(from, to)
	}
}

// tally counts cores and work, and what is not known.
func (x *archiver) tally() {
	work := 0.0
	var estimates, cores, memory int
	for i := range x.rows {
		t := &x.rows[i]
		x.MostCores = max(x.MostCores, float64(t.cores))
		work += t.run.Seconds() * max(1, float64(t.cores)) * float64(x.instances(t))
		if t.estimate == 0 {
			estimates++
		}
		if t.cores == 0 {
			cores++
		}
		if t.memory == 0 {
			memory++
		}
	}
	x.Work = time.Duration(min(work*1e9, math.MaxInt64/2))
	for _, i := range []Imputation{{"estimate", "the runtime itself", estimates}, {"cores", ruleOneCore, cores},
		{"memory", "share of the node it runs on, by cores", memory}} {
		if i.Count > 0 {
			x.Imputed = append(x.Imputed, i)
		}
	}
	if span := x.Span(); span > reader.MaxTime && !x.faults.HasErrors() {
		x.faults.Fail("bad-number", 1, "", "arrivals are spread over %.4g s: %v", span.Seconds(),
			reader.Above(reader.MaxTime.Seconds()))
	}
}

// Len is how many workflows there are.
func (a *Archive) Len() int { return len(a.jobs) }

// Tasks is how many tasks they have.
func (a *Archive) Tasks() (n int) {
	for i := range a.rows {
		n += int(a.instances(&a.rows[i]))
	}
	return n
}

// Span is the time from the first arrival to the last.
func (a *Archive) Span() time.Duration {
	if len(a.jobs) == 0 {
		return 0
	}
	return a.jobs[len(a.jobs)-1].at
}

// At is when workflow i arrives, after the first one.
func (a *Archive) At(i int) time.Duration { return a.jobs[i].at }

// From is the first workflow that arrives at a time or later.
func (a *Archive) From(at time.Duration) int {
	i, _ := slices.BinarySearchFunc(a.jobs, at, func(j archivedJob, at time.Duration) int {
		return cmp.Or(cmp.Compare(j.at, at), 1)
	})
	return i
}

// Name is that of workflow i, which no other has.
func (a *Archive) Name(i int) string { return a.Label + "-" + a.textOf(a.jobs[i].id, a.prefix) }

// Tenant is the user of workflow i; "" if the archive has none.
func (a *Archive) Tenant(i int) string { return a.texts.text(a.jobs[i].tenant) }

// Workflow makes workflow i.
func (a *Archive) Workflow(i int) *Workflow {
	job := &a.jobs[i]
	w := &Workflow{Name: a.Name(i), Source: a.Source, Format: a.Format}
	w.Label = w.Name
	rows := a.rows[job.from:job.to]
	w.Tasks = make([]Task, 0, len(rows))
	first := make([]int32, 0, len(rows)+1) // task of each row
	for k := range rows {
		first = append(first, int32(len(w.Tasks)))
		a.tasks(w, &rows[k])
	}
	first = append(first, int32(len(w.Tasks)))
	if len(a.edges) > 0 || a.split {
		a.link(w, int(job.from), first)
	}
	return w
}

// tasks adds those of a row.
func (a *Archive) tasks(w *Workflow, row *archivedTask) {
	t := Task{ID: a.task, Kind: a.texts.text(row.kind), Runtime: row.run, Estimate: row.estimate,
		MemoryBytes: row.memory, Cores: float64(row.cores), Retries: -1, Known: Runtime}
	if !a.single {
		t.ID = a.taskName(row)
	}
	t.Name = t.ID
	if row.cores > 0 {
		t.Known |= Cores
	}
	if row.memory > 0 {
		t.Known |= Memory
	}
	n := a.instances(row)
	if n > 1 { // tasks of one row are done when all are, which a task for form says
		id := t.ID
		for k := range n {
			t.ID = fmt.Sprintf("%s.%d", id, k+1)
			w.Tasks = append(w.Tasks, t)
		}
		t = Task{ID: id, Name: id, Kind: t.Kind, Retries: -1, Known: Runtime}
	}
	w.Tasks = append(w.Tasks, t)
}

// taskName is the id of the task of a row, where jobs have several.
func (a *Archive) taskName(row *archivedTask) string {
	if row.id < 0 {
		return a.texts.text(int32(-row.id))
	}
	return a.task + strconv.FormatInt(row.id, 10)
}

// instances is how many tasks a row stands for.
func (a *Archive) instances(row *archivedTask) int32 {
	if !a.split {
		return 1
	}
	return max(1, row.instances)
}

// link sets parents and children.
func (a *Archive) link(w *Workflow, from int, first []int32) {
	begin := int32(0)
	if from > 0 {
		begin = a.rows[from-1].edges
	}
	var edges []edge
	for k := range len(first) - 1 {
		row, last := &a.rows[from+k], first[k+1]-1
		for child := first[k]; child <= last; child++ {
			if child == last && last > first[k] {
				break
			}
			if last > first[k] {
				edges = append(edges, edge{parent: child, child: last})
			}
			for _, p := range a.edges[begin:row.edges] {
				edges = append(edges, edge{parent: first[p+1] - 1, child: child})
			}
		}
		begin = row.edges
	}
	b := builder{wf: w, quietTwins: true}
	b.link(edges)
}
