package policy

import (
	"maps"
	"slices"
	"strings"

	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/order"
	"gantry/planner/rank"
	"gantry/planner/retain"
)

const thesis = "Wang, MOWS (thesis, National Chiao Tung University), section 5-1-1"

// The phases of online workflow management for tasks over several processors, each with its parts (Wang, MOWS, chapter
// 3).
var (
	prioritize = Param{"prioritize", []string{"cpws", "sws"},
		"which ready tasks enter the waiting queue: cpws, those of a workflow by rank, each once all above it have; " +
			"sws, all"}
	queue = Param{"queue", []string{"rank-hybd", "swf", "fcfs"},
		"order of the waiting queue: rank-hybd, lowest rank first, highest first if all tasks are of one workflow; " +
			"swf, by the estimated remaining time of the workflow, then highest rank; fcfs, as they became ready"}
	rearrange = Param{"rearrange", []string{"none", "easy", "conservative", "priority"},
		"which tasks may pass others in the queue: none; easy, those that do not delay the first; conservative, by " +
			"the earliest start on the profiles of all clusters, one by one; priority, those that delay none before " +
			"them on one profile of all clusters"}
	allocate = Param{"allocate", []string{"aa", "all-eft"},
		"which cluster: aa, where the task finishes first of those with room now if there are several, and of all " +
			"if there is one; all-eft, of all"}
	preempt = Param{"preempt", []string{"never", "lower-rank"},
		"lower-rank: a task may take the place of one of its workflow with lower rank, which was started before it " +
			"was ready, if it then finishes earlier; that one continues later, elsewhere if it leaves a checkpoint"}
)

// Beyond the phases.
var mixedParams = []Param{
	{"copy", []string{"written", "allocated"}, "where copies overlap other work they begin once the file is " +
		"written, to all clusters that could need it, or once its consumer is allocated"},
	{"limit", []string{"3", "0..1000"}, "with lower-rank: how often a task may be preempted"},
	{"floor", []string{"0.05", "0.0..1.0"}, "with lower-rank: share of its stay that a preempted task must have " +
		"before it"},
}

// Mixed is online workflow management for tasks over several processors, in one combination of phases.
type Mixed struct {
	planner.Pipeline[alloc.WaitingQueue]
	observers []planner.Observer
}

// Suspends implements planner.Suspender.
func (m *Mixed) Suspends() {}

// Observe implements planner.Observer.
func (m *Mixed) Observe(v planner.View, e planner.Event) {
	for _, o := range m.observers {
		o.Observe(v, e)
	}
}

func newMixed(p Params) planner.Policy {
	ranks := &rank.Upward{}
	q := &order.Waiting{
		Entry: &rank.Entry{Ranks: ranks, InOrder: p["prioritize"] == "cpws"},
		Order: map[string]order.Discipline{"fcfs": order.FirstCome, "rank-hybd": order.RankHybrid,
			"swf": order.ShortestWorkflow}[p["queue"]],
	}
	if q.Order == order.ShortestWorkflow {
		q.Remaining = &order.RemainingTimes{}
	}
	kept := &retain.Allocated{Requeue: q}
	a := &alloc.Rigid{
		Rearrange: map[string]alloc.Rearrangement{"none": alloc.InOrder, "easy": alloc.EASY,
			"conservative": alloc.PerCluster, "priority": alloc.PriorityBased}[p["rearrange"]],
		Choose:   map[string]alloc.Allocation{"aa": alloc.Adaptive, "all-eft": alloc.AllEarliestFinish}[p["allocate"]],
		OnDemand: p["copy"] == "allocated",
	}
	m := &Mixed{Pipeline: planner.Pipeline[alloc.WaitingQueue]{Retain: kept, Queue: q, Allocate: a},
		observers: []planner.Observer{q, kept}}
	if p["preempt"] == "lower-rank" {
		a.Preemption = &alloc.Preemption{Ranks: ranks, Limit: int(p.Number("limit")), Floor: p.Number("floor"),
			Claims: kept}
		m.observers = append(m.observers, a.Preemption)
	}
	return m
}

// combined is a row that has its parts of the phases.
func combined(name, title, about string, parts ...string) Row {
	fixed := Params{}
	for i, phase := range []Param{prioritize, queue, rearrange, allocate, preempt} {
		fixed[phase.Name] = parts[i]
	}
	params := mixedParams
	if fixed["preempt"] == "never" {
		params = params[:1]
	}
	return Row{Name: name, Title: title, Source: thesis, About: about, Params: params,
		New: func(p Params) planner.Policy {
			maps.Copy(p, fixed)
			return newMixed(p)
		}}
}

// variants is the row of OWM with several of its variants at once, as in owm-mp+swf+backfilling; false if name is none.
func variants(name string) (Row, bool) {
	parts := []string{"cpws", "rank-hybd", "none", "aa", "never"}
	words := strings.Split(name, "+")
	if words[0] != "owm-mp" {
		return Row{}, false
	}
	for i, w := range words[1:] {
		if slices.Contains(words[1:i+1], w) {
			return Row{}, false
		}
		switch w {
		case "swf":
			parts[1] = "swf"
		case "backfilling":
			parts[2] = "priority"
		case "preemptive":
			parts[0], parts[4] = "sws", "lower-rank"
		case "all-eft":
			parts[3] = "all-eft"
		default:
			return Row{}, false
		}
	}
	return combined(name, name, strings.Join(parts, ", "), parts...), len(words) > 2
}

// mixed has the policies for mixed-parallel workflows on several clusters: a row for each that the thesis compares, and
// one for any combination of phases.
func mixed() []Row {
	return []Row{
		combined("owm-mp", "online workflow management, mixed-parallel",
			"Tasks over several processors of one cluster: cpws, rank-hybd, none, aa (see pipeline). What follows + "+
				"is changed; several are, as in owm-mp+swf+backfilling.", "cpws", "rank-hybd", "none", "aa", "never"),
		combined("owm-mp+swf", "OWM(SWF)",
			"owm-mp with the shortest workflow first: cpws, swf, none, aa.", "cpws", "swf", "none", "aa", "never"),
		combined("owm-mp+backfilling", "OWM(backfilling)",
			"owm-mp with priority-based backfilling: cpws, rank-hybd, priority, aa.", "cpws", "rank-hybd", "priority",
			"aa", "never"),
		combined("owm-mp+preemptive", "OWM(preemptive)",
			"owm-mp in which every ready task enters the queue, and may preempt: sws, rank-hybd, none, aa, lower-rank.",
			"sws", "rank-hybd", "none", "aa", "lower-rank"),
		combined("owm-mp+all-eft", "OWM(All-EFT)",
			"owm-mp that always looks at all clusters: cpws, rank-hybd, none, all-eft.", "cpws", "rank-hybd", "none",
			"all-eft", "never"),
		combined("mows", "mixed-parallel online workflow scheduling",
			"All four of the thesis's methods: sws, swf, priority, all-eft, lower-rank.", "sws", "swf", "priority",
			"all-eft", "lower-rank"),
		{
			Name: "pipeline", Title: "online workflow management by phases",
			Source: "Wang, MOWS (thesis, National Chiao Tung University), chapter 3",
			About: "Any combination of the parts of its phases, as in pipeline:sws,swf,easy,aa,lower-rank; a phase " +
				"that is not named has its first part.",
			Only:   []Condition{{"limit", "preempt", "lower-rank"}, {"floor", "preempt", "lower-rank"}},
			Params: append([]Param{prioritize, queue, rearrange, allocate, preempt}, mixedParams...), New: newMixed,
		},
	}
}
