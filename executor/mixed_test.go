package executor_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/order"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/rank"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// rigid reads tasks as "A1 10 15,45 A2 5 10,30:A1": name, processors, cost on each cluster, and after a colon the
// parents. Every edge has a file of its own whose copy between clusters takes the given seconds.
func rigid(name, text string, copies int64) executor.Submission {
	w := &trace.Workflow{Name: name, Label: name}
	sub := executor.Submission{Name: name, Workflow: w}
	index := map[string]int32{}
	fields := strings.Fields(text)
	for i := 0; i+2 < len(fields); i += 3 {
		t := trace.Task{ID: fields[i], Kind: fields[i], Retries: -1}
		fmt.Sscan(fields[i+1], &t.Cores)
		costs, parents, _ := strings.Cut(fields[i+2], ":")
		var row []int64
		for _, c := range strings.Split(costs, ",") {
			var s int64
			fmt.Sscan(c, &s)
			row = append(row, s*second)
		}
		sub.Costs = append(sub.Costs, row)
		id := int32(len(w.Tasks))
		index[t.ID] = id
		for _, p := range strings.FieldsFunc(parents, func(r rune) bool { return r == ',' }) {
			from := index[p]
			t.Parents = append(t.Parents, from)
			w.Tasks[from].Children = append(w.Tasks[from].Children, id)
			if copies > 0 {
				f := int32(len(w.Files))
				w.Files = append(w.Files, trace.File{Name: p + "-" + t.ID, Size: copies * 1000, Sized: true,
					Producer: from})
				w.Tasks[from].Outputs = append(w.Tasks[from].Outputs, f)
				t.Inputs = append(t.Inputs, f)
			}
		}
		w.Tasks = append(w.Tasks, t)
	}
	return sub
}

// clusters has one node for each number of processors; a kilobyte takes a second between two of them.
func clusters(overlapped bool, cores ...int64) *planner.Platform {
	p := &planner.Platform{Overlapped: overlapped}
	for i, n := range cores {
		p.Groups = append(p.Groups, fmt.Sprint("R", i+1))
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: p.Groups[i], Group: planner.GroupID(i),
			Speed:    1,
			Capacity: unit.Vector{1000 * n, unit.Unlimited, unit.Unlimited}})
	}
	for range cores {
		row := make([]unit.BytesPerSecond, len(cores))
		for j := range row {
			row[j] = 1000
		}
		p.Bandwidth, p.Latency = append(p.Bandwidth, row), append(p.Latency, make([]int64, len(cores)))
	}
	return p
}

// stays simulates and returns what ran, such as "A1 R1[0,15]", by start and then by name, and when each workflow ended.
func stays(t *testing.T, p *planner.Platform, spec string, subs ...executor.Submission) (got []string, ends []float64) {
	t.Helper()
	e := enginetest.New(t, p, enginetest.Policy(t, spec), slices.Clone(subs)...)
	e.Admit.Preempt = scenario.Preempt{LargestInput: true}
	type stay struct {
		start planner.Time
		text  string
	}
	var all []stay
	tellExits(e, func(task string, a *planner.Attempt, x *planner.AttemptExited) {
		all = append(all, stay{x.Usage.Started, fmt.Sprintf("%s %s[%v,%v]", task, p.Nodes[a.Node].Name,
			x.Usage.Started.Seconds(), x.Usage.Ended.Seconds())})
	})
	enginetest.Run(t, e)
	slices.SortFunc(all, func(a, b stay) int {
		if a.start != b.start {
			return int(a.start - b.start)
		}
		return strings.Compare(a.text, b.text)
	})
	for _, s := range all {
		got = append(got, s.text)
	}
	v := e.Planner.View()
	for w := range v.Workflows() {
		_, ended := v.Times(planner.WorkflowID(w))
		ends = append(ends, ended.Seconds())
	}
	return got, ends
}

func expectStays(t *testing.T, p *planner.Platform, spec, want string, ends []float64, subs ...executor.Submission) {
	t.Helper()
	got, ended := stays(t, p, spec, subs...)
	if s := strings.Join(got, " "); s != want {
		t.Errorf("%s:\ngot  %s\nwant %s", spec, s, want)
	}
	if !slices.Equal(ended, ends) {
		t.Errorf("%s: workflows end at %v, want %v", spec, ended, ends)
	}
}

// Wang, MOWS, figures 3-4 and 3-5, as far as the text fixes the example: with the shortest workflow first A ends
// earlier, B as early.
func TestShortestWorkflowFirstEndsTheShorterWorkflowEarlier(t *testing.T) {
	a := rigid("A", "A1 10 15,45 A2 5 10,30:A1 A3 5 15,35:A1 A4 4 10,30:A2,A3", 0)
	b := rigid("B", "B1 10 30,10 B2 5 40,20:B1 B3 5 45,25:B1 B4 6 5,35:B1 B5 5 30,10:B2,B3 B6 5 5,5:B4,B5", 0)
	p := clusters(true, 10, 10)
	expectStays(t, p, "owm-mp", "A1 R1[0,15] B1 R2[0,10] B2 R2[10,30] B3 R2[10,35] B4 R1[15,20] A2 R1[20,30] A3 "+
		"R1[20,35] A4 R1[35,45] B5 R2[35,45] B6 R1[45,50]", []float64{45, 50}, a, b)
	expectStays(t, p, "owm-mp+swf", "A1 R1[0,15] B1 R2[0,10] B2 R2[10,30] B3 R2[10,35] A2 R1[15,25] A3 R1[15,30] A4 "+
		"R1[30,40] B4 R1[30,35] B5 R2[35,45] B6 R1[45,50]", []float64{40, 50}, a, b)
}

// Ranks and estimated remaining times of the examples of sections 3-1, 3-3 and 3-4 as their workflows arrive.
func TestRanksAndRemainingTimesOfTheThesisExamples(t *testing.T) {
	a := rigid("A", "A1 10 15,45 A2 5 10,30:A1 A3 5 15,35:A1 A4 4 10,30:A2,A3", 0)
	b := rigid("B", "B1 10 30,10 B2 5 40,20:B1 B3 5 45,25:B1 B4 6 5,35:B1 B5 5 30,10:B2,B3 B6 5 5,5:B4,B5", 0)
	for _, c := range []struct {
		p         *planner.Platform
		subs      []executor.Submission
		ranks     []float64
		remaining []float64
	}{
		{clusters(true, 10, 10), []executor.Submission{a, b}, []float64{75, 40, 45, 20, 80, 55, 60, 25, 25, 5},
			[]float64{40, 50}},
		{clusters(true, 2), []executor.Submission{rigid("A", "A1 1 10 A2 1 5", 0)}, []float64{10, 5}, []float64{10}},
		{clusters(true, 4, 4), []executor.Submission{rigid("A", "A1 4 15,35 A2 4 20,40:A1 A3 4 33,45:A1 A4 4 "+
			"66,18:A2 A5 4 2,18:A3,A4", 5)},
			[]float64{122, 92, 54, 57, 10}, []float64{70}},
		{clusters(true, 4, 4, 4), []executor.Submission{rigid("A", "A1 4 15,25,30 A2 4 15,25,30:A1 A3 4 5,30,45:A1 "+
			"A4 4 15,40,15:A1 A5 4 35,45,30:A2 A6 4 45,30,30:A3,A4 A7 4 15,40,40:A5,A6", 5)},
			[]float64{131.667, 101.667, 103.333, 100, 73.333, 71.667, 31.667}, []float64{85}},
	} {
		declared := &predict.Declared{}
		admit := &executor.Admitter{Platform: c.p, TimeScale: 1, SizeScale: 1, Declare: declared.Declare,
			Forget: declared.Forget}
		ranks, times := &rank.Upward{}, &order.RemainingTimes{}
		var got, left []float64
		pl := planner.New(c.p, planner.DefaultRetryRules(), planFunc(func(cy *planner.Cycle) {
			ranks.Update(cy)
			times.Update(cy, ranks)
			for _, w := range cy.Present() {
				left = append(left, times.Of(w).Seconds())
				for _, task := range cy.Workflow(w).Tasks {
					got = append(got, math.Round(ranks.Of(cy.Task(task)).Float()/float64(ranks.Scale())/1e6)/1e3)
				}
			}
		}), declared, 1)
		for i := range c.subs {
			adm, err := admit.Admit(&c.subs[i], 0)
			must(t, err)
			must(t, pl.Apply(planner.Event{Seq: pl.Seq() + 1, Body: &adm.Arrived}))
		}
		if _, err := pl.Plan(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.ranks) {
			t.Errorf("ranks %v, want %v", got, c.ranks)
		}
		if !slices.Equal(left, c.remaining) {
			t.Errorf("remaining times %v, want %v", left, c.remaining)
		}
	}
}

// What the log says of those that wait is their estimated start and cluster in the table of that example. A third
// cluster has room for a last task alone, without which nobody would look at all of the queue.
func TestPriorityBasedBackfillingTellsEstimatedStarts(t *testing.T) {
	p := clusters(true, 10, 6, 1)
	subs := []executor.Submission{rigid("O1", "O1 6 20,90,1", 0), rigid("O2", "O2 6 90,12,1", 0),
		rigid("T1", "T1 8 10,10,1", 0), rigid("T2", "T2 4 15,25,1", 0),
		rigid("T3", "T3 4 30,30,1", 0), rigid("T4", "T4 6 5,5,1", 0), rigid("T5", "T5 1 500,500,1", 0)}
	rec := runRigid(t, "pipeline:fcfs,priority", p, subs, false, false)
	got := map[planner.TaskID]string{}
	for _, ev := range rec.events {
		if pc, ok := ev.Body.(*planner.PlanCommitted); ok && ev.At == 0 {
			for _, w := range pc.Reasons {
				if w.Reason.Code == planner.PlannedLater {
					got[w.Task] = fmt.Sprintf("%s at %v", p.Nodes[w.Reason.Node].Name, w.Reason.At.Seconds())
				}
			}
		}
	}
	if want := (map[planner.TaskID]string{2: "R1 at 20", 4: "R2 at 12", 5: "R1 at 30"}); !reflect.DeepEqual(got, want) {
		t.Errorf("estimated %v, want %v", got, want)
	}
}

// A case of figure 3-6: by the profiles of the clusters, one by one, C may go ahead of B, since A is on all of them. It
// then takes the place of B on the third, where A is not. One profile of the whole system keeps B where it was.
func TestBackfillingPerClusterMayDelayWhatOneProfileDoesNot(t *testing.T) {
	jobs := []executor.Submission{rigid("O", "O 4 99,99,11", 0), rigid("A", "A 4 10,5,10", 0), rigid("B", "B 8 1,1,10",
		0), rigid("C", "C 4 25,30,15", 0)}
	for i := range jobs[1:] {
		jobs[i+1].At = planner.Time(second)
	}
	p := clusters(true, 4, 4, 8)
	expectStays(t, p, "pipeline:fcfs,conservative", "O R3[0,11] A R2[1,6] C R3[1,16] B R3[16,26]",
		[]float64{11, 6, 26, 16}, jobs...)
	expectStays(t, p, "pipeline:fcfs,priority", "O R3[0,11] A R2[1,6] C R1[1,26] B R3[11,21]", []float64{11, 6, 21, 26},
		jobs...)
}

// Figures 3-11 and 3-12: every task takes a whole cluster, copies and the migration take 5.
func TestPreemptionTakesTheBestOfBothWaysToEnter(t *testing.T) {
	a := rigid("A", "A1 4 15,35 A2 4 20,40:A1 A3 4 33,45:A1 A4 4 66,18:A2 A5 4 2,18:A3,A4", 5)
	p := clusters(true, 4, 4)
	expectStays(t, p, "pipeline:sws", "A1 R1[0,15] A2 R1[15,35] A3 R2[20,65] A4 R2[65,83] A5 R1[88,90]", []float64{90},
		a)
	expectStays(t, p, "pipeline:cpws", "A1 R1[0,15] A2 R1[15,35] A3 R1[35,68] A4 R2[40,58] A5 R1[68,70]", []float64{70},
		a)
	expectStays(t, p, "pipeline:sws,lower-rank", "A1 R1[0,15] A2 R1[15,35] A3 R2[20,35] A3 R1[40,62] A4 R2[40,58] "+
		"A5 R1[63,65]", []float64{65}, a)
	// The bounds of preemption: two thirds of A3 are left.
	for _, spec := range []string{"pipeline:sws,lower-rank,limit=0", "pipeline:sws,lower-rank,floor=0.67"} {
		expectStays(t, p, spec, "A1 R1[0,15] A2 R1[15,35] A3 R2[20,65] A4 R2[65,83] A5 R1[88,90]", []float64{90}, a)
	}
	for _, spec := range []string{"mows", "mows:limit=1,floor=0.66", "owm-mp+swf+backfilling+preemptive+all-eft"} {
		expectStays(t, p, spec, "A1 R1[0,15] A2 R1[15,35] A3 R2[20,35] A3 R1[40,62] A4 R2[40,58] A5 R1[63,65]",
			[]float64{65}, a)
	}
}

// Figures 3-14 and 3-15: every task takes a whole cluster, copies take 5.
func TestAllEarliestFinishWaitsForABusyCluster(t *testing.T) {
	a := rigid("A", "A1 4 15,25,30 A2 4 15,25,30:A1 A3 4 5,30,45:A1 A4 4 15,40,15:A1 A5 4 35,45,30:A2 A6 4 "+
		"45,30,30:A3,A4 A7 4 15,40,40:A5,A6", 5)
	p := clusters(true, 4, 4, 4)
	expectStays(t, p, "pipeline:sws,aa", "A1 R1[0,15] A3 R1[15,20] A2 R2[20,45] A4 R3[20,35] A6 R3[35,65] A5 "+
		"R1[50,85] A7 R1[85,100]", []float64{100}, a)
	expectStays(t, p, "pipeline:sws,all-eft", "A1 R1[0,15] A3 R1[15,20] A2 R1[20,35] A4 R3[20,35] A5 R1[35,70] A6 "+
		"R3[35,65] A7 R1[70,85]", []float64{85}, a)
}

// combinations has every way to put the phases together.
func combinations() (specs []string) {
	specs = []string{"pipeline:"}
	for _, phase := range [][]string{{"cpws", "sws"}, {"rank-hybd", "swf", "fcfs"}, {"none", "easy", "conservative",
		"priority"}, {"aa", "all-eft"}, {"never", "lower-rank"},
		{"written", "allocated"}} {
		var next []string
		for _, s := range specs {
			for _, part := range phase {
				next = append(next, s+part+",")
			}
		}
		specs = next
	}
	for i := range specs {
		specs[i] = strings.TrimSuffix(specs[i], ",")
	}
	return specs
}

// forgetful is a policy in whose every round the draft was touched, to no effect: what it kept of the queue has to be
// found again.
type forgetful struct{ planner.Policy }

func (f forgetful) Plan(ctx context.Context, c *planner.Cycle) error {
	for a := range c.UnderWay() {
		if t := c.Attempt(a).Task; c.Phase(t) == planner.Running {
			mark := c.Draft.Mark()
			if err := c.Draft.Preempt(t, c.Vacates(t)); err != nil {
				return err
			}
			c.Draft.Rollback(mark)
			break
		}
	}
	return f.Policy.Plan(ctx, c)
}

func (f forgetful) Observe(v planner.View, e planner.Event) {
	f.Policy.(planner.Observer).Observe(v, e)
}

// What backfilling reserved in a round is kept for the next one. Tasks cost differently on every cluster, and those of
// some loads end otherwise than estimated.
func TestReservationsThatAreKeptAreThoseThatWouldBeFoundAnew(t *testing.T) {
	for i, spec := range combinations() {
		if !strings.Contains(spec, "priority") || !seedtest.Takes(i/2) {
			continue
		}
		p, subs := thesisLoad(t, 8, 30*time.Second)
		p.Overlapped = i%4 < 2
		subs = subs[i%9*10:][:10]
		a, b := runRigid(t, spec, p, subs, false, i%3 == 0), runRigid(t, spec, p, subs, true, i%3 == 0)
		for k := range a.events {
			if k >= len(b.events) || !reflect.DeepEqual(a.events[k], b.events[k]) {
				t.Fatalf("%s, overlapped %v: of %d and %d events number %d differs: %v: %+v", spec, p.Overlapped,
					len(a.events), len(b.events), k, a.events[k].At, a.events[k].Body)
			}
		}
	}
}

// runRigid simulates tasks over several processors and checks that the rules were kept; uncertain ones take up to three
// times as long as estimated.
func runRigid(t *testing.T, spec string, p *planner.Platform, subs []executor.Submission, forgets,
	uncertain bool) (rec record) {
	t.Helper()
	pol, err := policy.Parse(spec)
	must(t, err)
	if forgets {
		pol = forgetful{pol}
	}
	declared := &predict.Declared{}
	e := &executor.Engine{Runtime: sim.New(sim.Config{Platform: p}), Planner: planner.New(p,
		planner.DefaultRetryRules(), pol, declared, 1),
		Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1,
			Preempt: scenario.Preempt{LargestInput: true},
			Declare: func(id planner.TaskID, run time.Duration, on []time.Duration, s planner.Source) {
				estimates := slices.Clone(on)
				for i := range estimates {
					if uncertain {
						estimates[i] = estimates[i] * time.Duration(1+id%5) / 3
					}
				}
				declared.Declare(id, run, estimates, s)
			}},
		Arrivals: slices.Clone(subs)}
	for i := range e.Arrivals {
		e.Arrivals[i].At -= subs[0].At
	}
	rec.watch(e)
	enginetest.Run(t, e)
	rec.verify(t, spec, p)
	return rec
}

func TestNoTaskIsPreemptedMoreOftenThanTheLimit(t *testing.T) {
	p, subs := thesisLoad(t, 4, 100*time.Second)
	most := func(spec string) (most int) {
		count := map[planner.TaskID]int{}
		for _, ev := range runRigid(t, spec, p, subs[:30], false, false).events {
			if pc, ok := ev.Body.(*planner.PlanCommitted); ok {
				for _, o := range pc.Orders {
					if o.Kind == planner.OrderCheckpoint {
						count[o.Task]++
						most = max(most, count[o.Task])
					}
				}
			}
		}
		return most
	}
	for limit := range 3 {
		if n := most(fmt.Sprintf("mows:floor=0,limit=%d", limit)); n != limit {
			t.Errorf("a task is preempted %d times, limit %d", n, limit)
		}
	}
}
