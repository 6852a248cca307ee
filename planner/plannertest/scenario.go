// Package plannertest drives a planner in tests: a platform and workflows in a few lines of text, then arrivals, rounds
// and events, and the run as a picture, time across and nodes down. The invariants of a run are checked after every
// step.
//
//	nodes 2 1*1/2 4/8        2 cores; 1 core at half speed; 4 cores with 8 GB
//	A     a=3 b=2x2 c=1 ab>c three tasks, of 3 s, of 2 s on two cores, of 1 s; c after a and b
//	B @2  due=9 d=4(5)       arrives at 2 s, due at 9 s; d is estimated to run 4 s and runs 5 s
//
// Every task has a name of one letter, by which pictures show it.
package plannertest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gantry/planner"
	"gantry/planner/unit"
)

// Scenario is a platform, workflows by arrival, and how long their tasks run.
type Scenario struct {
	Platform *planner.Platform
	Flows    []*planner.WorkflowArrived // ids are given
	Names    []string                   // by task
	Est      []time.Duration            // by task: estimated run at speed 1
	Run      []time.Duration            // by task: true run at speed 1
	Scale    time.Duration              // of a column of a picture
	lines    []line
}

// line is a workflow as written.
type line struct {
	planner.Workflow
	tasks []task
	files []file
}

type task struct {
	planner.Task
	name     string
	est, run time.Duration
}

// file is read by some tasks; it comes from one of them or from outside.
type file struct {
	from  int // -1: from outside
	to    []int
	size  unit.Bytes
	homes []planner.NodeID
}

// Seconds is an instant.
func Seconds(s float64) planner.Time { return planner.Time(math.Round(s * 1e9)) }

// Parse reads a scenario. Lines are, besides comments after #:
//
//	nodes CORES[*SPEED][/GB] …        SPEED is a number or a fraction
//	groups N …                        how many of the nodes are in each group, in order; one group else
//	link MB/s [SECONDS] [overlapped]  between any two nodes: bandwidth and latency; links are free else
//	keep cpu|memory …                 resources that suspended tasks still hold
//	scale SECONDS                     of a column of a picture; 1 else
//	NAME WORD …                       a workflow
//
// Words of a workflow are @ARRIVAL, release=, due=, tenant=N, low, and
//
//	a=3        task a takes 3 s, as estimated, on one core; 0 makes it formal
//	a=3(5)x2/4 estimated 3 s, runs 5 s, on 2 cores with 4 GB
//	a=3^       it can leave a checkpoint; with ~ it may be restarted
//	a>b  ab>cd every task on the left is a parent of every one on the right
//	a>bc:5     the same, and b and c read a file of 5 MB that a writes
//	>a:5@0,1   a reads a file of 5 MB from outside, which lies on nodes 0 and 1; without @ on all
func Parse(text string) (s *Scenario, err error) {
	s = &Scenario{Platform: &planner.Platform{Groups: []string{"g0"}}, Scale: time.Second}
	var groups, link, keep []string
	at, word := 0, "" // that is read
	defer func() {
		switch x := recover().(type) {
		case nil:
		case mistake:
			s, err = nil, fmt.Errorf("line %d: %q: %w", at, word, x)
		default:
			panic(x)
		}
	}()
	for i, l := range strings.Split(text, "\n") {
		l, _, _ = strings.Cut(l, "#")
		words := strings.Fields(l)
		at, word = i+1, l
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "nodes":
			s.nodes(words[1:])
		case "groups":
			groups = words[1:]
		case "link":
			link = words[1:]
		case "keep":
			keep = words[1:]
		case "scale":
			s.Scale = time.Duration(number(words[1]) * 1e9)
		default:
			l := line{Workflow: planner.Workflow{Due: unit.Never}}
			for _, word = range words[1:] {
				l.word(word)
			}
			s.lines = append(s.lines, l)
		}
	}
	s.links(groups, link, keep)
	s.number()
	return s, nil
}

// mistake ends the parsing by a panic.
type mistake struct{ error }

func fail(format string, args ...any) { panic(mistake{fmt.Errorf(format, args...)}) }

func number(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		fail("%s is no number", text)
	}
	return x
}

func (s *Scenario) nodes(words []string) {
	for _, w := range words {
		w, gb, memory := strings.Cut(w, "/")
		cores, speed, fast := strings.Cut(w, "*")
		if memory && fast { // 1*1/2 is a fraction, 1*1/2/8 has 8 GB
			var over string
			over, gb, memory = strings.Cut(gb, "/")
			speed += "/" + over
		}
		n := planner.Node{ID: planner.NodeID(len(s.Platform.Nodes)), Speed: 1, Capacity: unit.Vector{
			int64(number(cores) * 1000), unit.Unlimited, unit.Unlimited}}
		n.Name = fmt.Sprint("n", n.ID)
		if memory {
			n.Capacity[unit.Memory] = int64(number(gb) * 1e9)
		}
		if over, under, fraction := strings.Cut(speed, "/"); fast {
			if n.Speed = number(over); fraction {
				n.Speed /= number(under)
			}
		}
		s.Platform.Nodes = append(s.Platform.Nodes, n)
	}
}

func (s *Scenario) links(groups, link, keep []string) {
	p := s.Platform
	at := 0
	for g, w := range groups {
		n := int(number(w))
		if at+n > len(p.Nodes) {
			fail("groups %v: there are %d nodes", groups, len(p.Nodes))
		}
		if g > 0 {
			p.Groups = append(p.Groups, fmt.Sprint("g", g))
		}
		for ; n > 0; n-- {
			p.Nodes[at].Group = planner.GroupID(g)
			at++
		}
	}
	var rate unit.BytesPerSecond
	var latency int64
	for i, w := range link {
		switch {
		case w == "overlapped":
			p.Overlapped = true
		case i == 0:
			rate = unit.BytesPerSecond(number(w) * 1e6)
		default:
			latency = int64(number(w) * 1e9)
		}
	}
	for range p.Groups {
		p.Bandwidth = append(p.Bandwidth, slices.Repeat([]unit.BytesPerSecond{rate}, len(p.Groups)))
		p.Latency = append(p.Latency, slices.Repeat([]int64{latency}, len(p.Groups)))
	}
	for _, w := range keep {
		d, ok := map[string]unit.Dim{"cpu": unit.CPU, "memory": unit.Memory}[w]
		if !ok {
			fail("keep %s: say cpu or memory", w)
		}
		for n := range p.Nodes {
			p.Nodes[n].Keeps |= unit.Of(d)
		}
	}
}

func (l *line) word(w string) {
	if at, ok := strings.CutPrefix(w, "@"); ok {
		l.Arrived = Seconds(number(at))
		return
	}
	if strings.Contains(w, ">") {
		l.edge(w)
		return
	}
	name, value, given := strings.Cut(w, "=")
	switch {
	case w == "low":
		l.Class = planner.Low
	case !given:
		fail("not known")
	case name == "release":
		l.Release = Seconds(number(value))
	case name == "due":
		l.Class, l.Due = planner.Deadline, Seconds(number(value))
	case name == "tenant":
		l.Tenant = planner.TenantID(number(value))
	case utf8.RuneCountInString(name) != 1:
		fail("tasks have names of one letter")
	default:
		l.task(name, value)
	}
}

func (l *line) task(name, value string) {
	t := task{name: name, Task: planner.Task{Need: unit.Cores(1), Retries: planner.None}}
	for {
		if v, ok := strings.CutSuffix(value, "^"); ok {
			value, t.Checkpointable = v, true
		} else if v, ok := strings.CutSuffix(value, "~"); ok {
			value, t.Restartable = v, true
		} else {
			break
		}
	}
	value, gb, memory := strings.Cut(value, "/")
	value, cores, wide := strings.Cut(value, "x")
	est, run, wrong := strings.Cut(strings.TrimSuffix(value, ")"), "(")
	if !wrong {
		run = est
	}
	t.est, t.run = time.Duration(Seconds(number(est))), time.Duration(Seconds(number(run)))
	if wide {
		t.Need[unit.CPU] = int64(number(cores) * 1000)
	}
	if memory {
		t.Need[unit.Memory] = int64(number(gb) * 1e9)
	}
	if t.est == 0 && t.run == 0 {
		t.Formal, t.Need = true, unit.Vector{}
	}
	l.tasks = append(l.tasks, t)
}

func (l *line) named(names string) (out []int) {
	for _, r := range names {
		i := slices.IndexFunc(l.tasks, func(t task) bool { return t.name == string(r) })
		if i < 0 {
			fail("task %c stands nowhere before", r)
		}
		out = append(out, i)
	}
	return out
}

func (l *line) edge(w string) {
	w, file1, data := strings.Cut(w, ":")
	left, right, _ := strings.Cut(w, ">")
	from, to := l.named(left), l.named(right)
	for _, p := range from {
		for _, c := range to {
			l.tasks[c].Parents = append(l.tasks[c].Parents, planner.TaskID(p))
			l.tasks[p].Children = append(l.tasks[p].Children, planner.TaskID(c))
		}
	}
	if !data {
		return
	}
	if len(from) == 0 {
		from = []int{-1}
	}
	size, homes, _ := strings.Cut(file1, "@")
	f := file{to: to, size: unit.Bytes(number(size) * 1e6)}
	for h := range strings.FieldsFuncSeq(homes, func(r rune) bool { return r == ',' }) {
		f.homes = append(f.homes, planner.NodeID(number(h)))
	}
	for _, f.from = range from {
		l.files = append(l.files, f)
	}
}

// number gives ids, by arrival.
func (s *Scenario) number() {
	slices.SortStableFunc(s.lines, func(a, b line) int { return cmp.Compare(a.Arrived, b.Arrived) })
	files := planner.FileID(0)
	for w, l := range s.lines {
		first := planner.TaskID(len(s.Names))
		b := &planner.WorkflowArrived{Workflow: l.Workflow}
		b.Workflow.ID = planner.WorkflowID(w)
		for i := range l.tasks {
			t := l.tasks[i].Task
			t.ID, t.Workflow = first+planner.TaskID(i), b.Workflow.ID
			for _, links := range [...]*[]planner.TaskID{&t.Parents, &t.Children} {
				slices.Sort(*links)
				*links = slices.Compact(*links)
				for k := range *links {
					(*links)[k] += first
				}
			}
			b.Tasks = append(b.Tasks, t)
			s.Names, s.Est, s.Run = append(s.Names, l.tasks[i].name), append(s.Est, l.tasks[i].est),
				append(s.Run, l.tasks[i].run)
		}
		for _, f := range l.files {
			id := files + planner.FileID(len(b.Files))
			pf := planner.File{ID: id, Size: f.size, Producer: planner.None, Homes: f.homes}
			if f.from >= 0 {
				pf.Producer = first + planner.TaskID(f.from)
				b.Tasks[f.from].Outputs = append(b.Tasks[f.from].Outputs, id)
			}
			for _, t := range f.to {
				b.Tasks[t].Inputs = append(b.Tasks[t].Inputs, id)
			}
			b.Files = append(b.Files, pf)
		}
		files += planner.FileID(len(b.Files))
		Order(b)
		s.Flows = append(s.Flows, b)
	}
}

// Order gives a workflow the topological order of its tasks, those that become free first in front.
func Order(b *planner.WorkflowArrived) {
	missing := make([]int, len(b.Tasks))
	b.Workflow.Tasks = make([]planner.TaskID, 0, len(b.Tasks))
	for i := range b.Tasks {
		if missing[i] = len(b.Tasks[i].Parents); missing[i] == 0 {
			b.Workflow.Tasks = append(b.Workflow.Tasks, b.Tasks[i].ID)
		}
	}
	for at := 0; at < len(b.Workflow.Tasks); at++ {
		first := b.Tasks[0].ID
		for _, c := range b.Tasks[b.Workflow.Tasks[at]-first].Children {
			if missing[c-first]--; missing[c-first] == 0 {
				b.Workflow.Tasks = append(b.Workflow.Tasks, c)
			}
		}
	}
}
