// Package scenario reads the files that describe an experiment: workload, cluster and experiment files. Their schemas
// are in schema/.
package scenario

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gantry/trace/reader"
)

// Workload is a workload file: which workflows arrive, when, for which tenant, and how urgent they are. It lists them,
// describes a stream of them, or both.
type Workload struct {
	Name        string
	Source      string    // path of the file, "-" for standard input
	Arrivals    []Arrival // the listed ones, in file order
	Stream      *Stream   // nil: there is none
	Seed        uint64    // of every random choice of the stream; 0: not said
	Repetitions int       // how many streams of different seeds the file stands for; 0: not said, one
	// WarmUp and CoolDown are how many workflows, by arrival, metrics leave out at the start and at the end.
	WarmUp, CoolDown int
	// WarmUpTime and CoolDownTime leave out those that arrive so soon after the first, or so shortly before the last.
	WarmUpTime, CoolDownTime time.Duration
	// ScaleTimes says that arrivals, releases and deadlines are scaled with the runtimes, so that the load stays the
	// same.
	ScaleTimes bool
	Data       *Data    // of workflows that do not say themselves; nil: every node has every input file
	Preempt    *Preempt // how tasks may be preempted; nil: not said
	Results    []string // as those of Arrival, of all workflows
	// Reuse lets tasks take over outputs of earlier attempts, where tasks really run.
	Reuse    bool
	archives bool
}

// Arrival is the submission of a workflow, or of copies of it at once.
type Arrival struct {
	Trace string // path of the trace, resolved against the directory of the workload file
	// Archive says that it is an archive, whose workflows arrive as they did: those from From on, for For; 0: to its
	// end. Instances makes each instance of a task a task.
	Archive   bool
	Instances bool
	From, For time.Duration
	Name      string // unique name of the workflow in the run; "" lets gantry choose. Copy makes those of copies of it
	Copies    int    // how many of it arrive, at least 1
	Arrive    time.Duration
	Tenant    string
	Class     string        // deadline, regular or low
	Release   time.Duration // earliest start after the start of the run; 0: none
	Deadline  time.Duration // after the start of the run; 0: none
	Inputs    string        // directory with the files from outside, resolved; "" if they are to be made up
	Image     string        // container image of the tasks that name none
	Results   []string      // patterns of files that are results, beside those that no task reads
	Disk      int64         // block I/O that tasks ask for which do not say, bytes per second; 0: their share by cores
	Data      *Data         // nil: as the workload says
	Costs     *Costs        // nil: runtimes are those of the trace, divided by the speed of the node
	Line      int
}

// Costs is the cost matrix of heterogeneous scheduling (Topcuoglu et al. 2002): the runtime of each task on each node,
// by their names.
type Costs struct {
	Source  string
	Seconds map[string]map[string]time.Duration // task id → node name
}

const maxArrivals = 1_000_000

// IsWorkload reports whether a text, or its beginning, is a workload file rather than a trace.
func IsWorkload(text []byte) bool { return Kind(text) == "workload" }

// ReadWorkload reads a workload file, YAML (or JSON, which is YAML); its schema is schema/workload.schema.json.
//
//	name: morning
//	workflows:
//	  - trace: montage.dax      # relative to this file
//	    name: m                 # with copies above 1: m-1, m-2, …
//	    arrive: 0s
//	    tenant: alice
//	    class: regular          # deadline, regular or low; deadline if there is a deadline
//	    release: 0s
//	    deadline: 100s          # after the start of the run
//	    inputs: data            # directory with the files from outside
//	    image: busybox
//	    results: ["*.vcf"]      # files that are results beside those that no task reads; at the top: of all workflows
//	    disk: 20MB/s            # block I/O of tasks that do not ask for any themselves
//	    copies: 1
//	    archive: kth.swf.gz     # instead of trace: its workflows arrive as they did,
//	    from: 24h               # those from a day after the first one on,
//	    for: 1h                 # for an hour, the first at arrive
//	    instances: true         # each instance of a task is a task
//	    data: {replicas: 2}     # where its input files lie; see Data
//	    costs: costs.csv        # header task,node,seconds; or in place {t1: {fast-1: 14s, slow: 16s}}
//	seed: 7                     # without it --seed
//	repetitions: 3              # streams of different seeds that the file stands for; 1
//	warm_up: 1000               # workflows, by arrival, that metrics leave out at the start; or a time after the
//	                            # first arrival: 50000s; 0
//	cool_down: 1000             # at the end, or a time before the last arrival; 0
//	data: {block: 64MB}         # of all workflows that do not say themselves
//	preempt: {checkpoint: input} # how tasks may leave their place; see Preempt
//	scale_times: true           # arrivals, releases and deadlines take part in --time-scale; usual for streams
//
// The keys of a stream, at the same level, are described at Stream. Durations are those of Go ("90s", "1h30m"). Unknown
// keys are refused. The first fault is returned as an error with its line. The traces themselves are not opened.
func ReadWorkload(r io.Reader, source string) (*Workload, error) {
	w := &Workload{Source: source}
	if err := read(r, "workload", source, func(y *doc, root *reader.Node) { y.workload(w, root) }); err != nil {
		return nil, err
	}
	return w, nil
}

// Listed is how many workflows are listed, copies counted.
func (w *Workload) Listed() (n int) {
	for i := range w.Arrivals {
		n += w.Arrivals[i].Copies
	}
	return n
}

// Copy is the name of a copy, counted from 0.
func (a *Arrival) Copy(i int) string { return copied{a.Name, a.Copies, a.Line}.nth(i) }

// ForgetLines leaves out where things stand, for a workload that is not read from its file as it is.
func (w *Workload) ForgetLines() {
	for i := range w.Arrivals {
		w.Arrivals[i].Line = 0
	}
	if s := w.Stream; s != nil {
		s.Line, s.Arrivals.Line = 0, 0
		for i := range s.Mix {
			s.Mix[i].Line = 0
		}
	}
}

func (y *doc) workload(w *Workload, root *reader.Node) {
	listed := 0
	stream := &Stream{Files: true, Line: y.Line(root)}
	ofStream := y.streamKeys(stream)
	has := y.keyed(root, "the workload", append([]yamlKey{
		{"name", y.string(&w.Name)},
		{"workflows", func(v *reader.Node) {
			y.Sequence(v, "workflows", func(v *reader.Node) { y.arrival(w, v, &listed) })
		}},
		{"seed", y.seed(&w.Seed)},
		{"repetitions", y.count(&w.Repetitions, "repetitions", 1, 100_000)},
		{"warm_up", y.margin(&w.WarmUp, &w.WarmUpTime, "warm_up")},
		{"cool_down", y.margin(&w.CoolDown, &w.CoolDownTime, "cool_down")},
		{"data", y.data(&w.Data)},
		{"preempt", y.preempt(&w.Preempt)},
		{"results", y.patterns(&w.Results)},
		{"reuse", y.bool(&w.Reuse, "reuse")},
		{"scale_times", y.bool(&w.ScaleTimes, "scale_times")},
	}, ofStream...))
	if has == nil {
		return
	}
	if line, mix := has["mix"]; mix {
		stream.Line = line
		w.Stream = stream
		y.checkStream(stream)
	} else if !y.Faults.HasErrors() { // a mix may have been meant
		for _, k := range ofStream {
			if line, ok := has[k.name]; ok {
				y.Faults.Fail("no-mix", line, "", "%s is of a stream, whose workflows mix describes; there is no mix",
					k.name)
			}
		}
	}
	if _, said := has["scale_times"]; !said {
		w.ScaleTimes = w.Stream != nil || w.archives
	}
	if y.Faults.HasErrors() {
		return
	}
	names := make([]copied, len(w.Arrivals))
	for i := range w.Arrivals {
		a := &w.Arrivals[i]
		names[i] = copied{a.Name, a.Copies, a.Line}
	}
	y.unique("workflow", names)
	all := listed
	if w.Stream != nil {
		all += w.Stream.Count
	}
	switch {
	case all == 0:
		y.Faults.Fail("no-workflows", y.Line(root), "", "a workload needs at least one workflow: list them as "+
			"workflows, or describe a stream by mix and count")
	case all > maxArrivals:
		y.Faults.Fail("too-many", y.Line(root), "", "more than %d workflows", maxArrivals)
	case w.WarmUp+w.CoolDown >= all:
		y.Faults.Fail("nothing-left", y.Line(root), "", "warm_up %d and cool_down %d leave nothing of %d workflows "+
			"to measure", w.WarmUp, w.CoolDown, all)
	}
}

func (y *doc) arrival(w *Workload, v *reader.Node, listed *int) {
	a, archive := Arrival{Line: y.Line(v), Copies: 1}, ""
	if y.keyed(v, "a workflow", []yamlKey{
		{"trace", y.string(&a.Trace)},
		{"archive", func(v *reader.Node) { a.Archive = true; y.string(&archive)(v) }},
		{"from", y.duration(&a.From, "from")},
		{"for", y.duration(&a.For, "for")},
		{"instances", y.bool(&a.Instances, "instances")},
		{"name", y.string(&a.Name)},
		{"arrive", y.duration(&a.Arrive, "arrive")},
		{"tenant", y.string(&a.Tenant)},
		{"class", y.class(&a.Class)},
		{"release", y.duration(&a.Release, "release")},
		{"deadline", y.duration(&a.Deadline, "deadline")},
		{"inputs", y.string(&a.Inputs)},
		{"image", y.string(&a.Image)},
		{"results", y.patterns(&a.Results)},
		{"disk", y.amount(&a.Disk, "disk", "/s")},
		{"data", y.data(&a.Data)},
		{"copies", y.count(&a.Copies, "copies", 1, maxArrivals)},
		{"costs", func(v *reader.Node) { a.Costs = y.costs(v) }},
	}) == nil {
		return
	}
	switch {
	case a.Archive && (a.Trace != "" || a.Name != "" || a.Copies > 1 || a.Deadline+a.Release > 0 || a.Costs != nil):
		y.Faults.Fail("bad-source", a.Line, "", "archive excludes trace, name, copies, release, deadline and costs: "+
			"its workflows have names and times of their own")
	case !a.Archive && (a.From+a.For > 0 || a.Instances):
		y.Faults.Fail("bad-source", a.Line, "", "from, for and instances are for an archive")
	case a.Archive:
		a.Trace = archive
	}
	switch {
	case a.Trace == "":
		y.Faults.Fail("missing-trace", a.Line, "", "a workflow without its trace; give the path of one")
		return
	case a.Class == "" && a.Deadline > 0:
		a.Class = "deadline"
	case a.Class == "":
		a.Class = "regular"
	case a.Class == "deadline" && a.Deadline == 0:
		y.Faults.Fail("missing-deadline", a.Line, "", "a workflow of class deadline needs a deadline")
	}
	if a.Deadline > 0 && a.Deadline <= max(a.Arrive, a.Release) {
		y.Faults.Fail("bad-deadline", a.Line, "", "deadline %v is not after arrival %v and release %v; all count "+
			"from the start of the run",
			a.Deadline, a.Arrive, a.Release)
	}
	if *listed += a.Copies; *listed > maxArrivals {
		y.Faults.Fail("too-many", a.Line, "", "more than %d workflows", maxArrivals)
		y.Stop()
		return
	}
	a.Trace, a.Inputs = y.below(a.Trace), y.below(a.Inputs)
	y.keep(arrivalKept+len(a.Trace)+len(a.Inputs), v)
	w.archives = w.archives || a.Archive
	w.Arrivals = append(w.Arrivals, a)
}

// margin reads a number of workflows, or a time.
func (y *doc) margin(count *int, span *time.Duration, what string) func(*reader.Node) {
	return func(v *reader.Node) {
		text := y.Text(v)
		if n, err := strconv.Atoi(text); err == nil && n >= 0 && n <= maxArrivals {
			*count = n
			return
		}
		d, err := reader.Duration(text)
		if err != nil {
			y.Faults.Fail("bad-number", y.Line(v), "", "%s is %q, but has to be a number of workflows from 0 to %d, "+
				"or a time such as 50000s up to 876000h", what, text, maxArrivals)
			return
		}
		*span = d
	}
}

func (y *doc) patterns(to *[]string) func(*reader.Node) {
	return func(v *reader.Node) {
		y.Sequence(v, "results", func(v *reader.Node) {
			var text string
			y.string(&text)(v)
			if y.keep(64+len(text), v); text == "" {
				y.Faults.Fail("bad-pattern", y.Line(v), "", "results has an empty pattern")
			}
			*to = append(*to, text)
		})
	}
}

func (y *doc) class(to *string) func(*reader.Node) {
	return y.word(to, "class", "deadline", "regular", "low")
}

// below is a path that counts from the directory of the file; none and standard input stay.
func (y *doc) below(path string) string { return below(y.dir, path) }

func below(dir, path string) string {
	if filepath.IsAbs(path) || path == "-" || path == "" {
		return path
	}
	return filepath.Join(dir, path)
}

// costs reads a cost matrix, in place or from the CSV file that is named.
func (y *doc) costs(v *reader.Node) *Costs {
	if !y.IsMapping(v) {
		c, err := readCosts(y.below(y.Text(v)))
		if err != nil {
			y.Faults.Fail("costs", y.Line(v), "", "costs %v", err)
		}
		return c
	}
	c := &Costs{Seconds: map[string]map[string]time.Duration{}}
	y.Mapping(v, "costs", func(task string, v *reader.Node) {
		y.Mapping(v, "costs of task "+task, func(node string, v *reader.Node) {
			var d time.Duration
			y.duration(&d, "cost of "+task+" on "+node)(v)
			if !c.add(task, node, d) {
				y.Faults.Fail("duplicate-key", y.Line(v), task, "the cost of task %s on node %s is given twice", task,
					node)
			}
		})
	})
	return c
}

// add reports whether the cost was not there yet.
func (c *Costs) add(task, node string, d time.Duration) bool {
	if c.Seconds[task] == nil {
		c.Seconds[task] = map[string]time.Duration{}
	}
	_, ok := c.Seconds[task][node]
	c.Seconds[task][node] = d
	return !ok
}

func readCosts(path string) (*Costs, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, absent(path, err))
	}
	defer f.Close()
	in := reader.Open(f, 0)
	c := &Costs{Source: path, Seconds: map[string]map[string]time.Duration{}}
	names := map[string]string{}
	r := csv.NewReader(in)
	r.FieldsPerRecord, r.TrimLeadingSpace, r.Comment, r.ReuseRecord = 3, true, '#', true
	for first := true; ; first = false {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			if first {
				return nil, fmt.Errorf("%s: it is empty; the first line is task,node,seconds", path)
			}
			return c, nil
		}
		if errors.Is(err, csv.ErrFieldCount) {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("%s: line %d has other fields than task,node,seconds", path, line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		line, _ := r.FieldPos(0)
		if first {
			if rec[0] != "task" || rec[1] != "node" || rec[2] != "seconds" {
				return nil, fmt.Errorf("%s: line %d: the header has to be task,node,seconds", path, line)
			}
			continue
		}
		d, err := reader.Seconds(rec[2])
		if err == nil && d < 0 {
			err = errors.New("negative")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: seconds %q of task %s is %w", path, line, rec[2], rec[0], err)
		}
		for i, name := range rec[:2] { // a record is one string: its names would keep all of it
			if len(name) > reader.MaxName {
				return nil, fmt.Errorf("%s: line %d: %s", path, line, reader.TooLongName)
			}
			if _, ok := names[name]; !ok {
				if !in.Keep(costKept + len(name)) {
					return nil, fmt.Errorf("%s: line %d: %s", path, line, in.TooMuch())
				}
				name = strings.Clone(name)
				names[name] = name
			}
			rec[i] = names[name]
		}
		if !c.add(rec[0], rec[1], d) {
			return nil, fmt.Errorf("%s: line %d: task %s on node %s is given twice", path, line, rec[0], rec[1])
		}
	}
}
