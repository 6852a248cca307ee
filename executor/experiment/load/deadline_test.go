package load_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/experiment/load"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// twoPhases is the job of Lim et al. 2017, figure 2: three tasks, a dummy task, two tasks.
func twoPhases() *trace.Workflow {
	w := &trace.Workflow{Name: "w", Label: "w"}
	for _, seconds := range []int{0, 4, 6, 8, 10, 5} {
		w.Tasks = append(w.Tasks, trace.Task{ID: string(rune('0' + len(w.Tasks))), Cores: 1,
			Runtime: time.Duration(seconds) * time.Second})
	}
	for _, e := range [][2]int32{{1, 0}, {2, 0}, {3, 0}, {0, 4}, {0, 5}} {
		w.Tasks[e[0]].Children = append(w.Tasks[e[0]].Children, e[1])
		w.Tasks[e[1]].Parents = append(w.Tasks[e[1]].Parents, e[0])
	}
	return w
}

func TestTimeAloneIsThatOfTheLongestReadyTaskFirst(t *testing.T) {
	for slots, want := range map[int]time.Duration{1: 33 * time.Second, 2: 20 * time.Second, 4: 18 * time.Second} {
		got, err := load.Alone(twoPhases(), processors(slots))
		if err != nil || got != want {
			t.Errorf("%d slots: %v, %v; want %v", slots, got, err, want)
		}
	}
	fast := &planner.Platform{Nodes: []planner.Node{{ID: 0, Capacity: unit.Cores(1), Speed: 1},
		{ID: 1, Capacity: unit.Cores(1), Speed: 2}}}
	// 8 on the fast node until 4, 6 on the slow one until 6; 4 on the fast one until 6; 10 on the fast one until 11, 5
	// on the slow one too.
	if got, err := load.Alone(twoPhases(), fast); err != nil || got != 11*time.Second {
		t.Errorf("nodes of two speeds: %v, %v; want 11 s", got, err)
	}
	w := twoPhases()
	w.Tasks[2].Cores = 3
	if _, err := load.Alone(w, processors(2)); err == nil ||
		!strings.Contains(err.Error(), "no node of the cluster can hold") {
		t.Errorf("%v", err)
	}
}

// slots is a cluster of the paper: nodes of two cores.
func slots(nodes int) *planner.Platform {
	p := processors(nodes)
	for i := range p.Nodes {
		p.Nodes[i].Capacity = unit.Cores(2)
	}
	return p
}

func TestStreamsOfRMDCWFAreAsTable1Says(t *testing.T) {
	for name, c := range map[string]struct{ work, interval float64 }{"cybershake": {1551, 22}, "ligo": {13300, 180},
		"genome": {160213, 2290}} {
		t.Run(name, func(t *testing.T) {
			w := open(t, "../../../examples/experiments/rm-dcwf/"+name+".yaml")
			w.Stream.Count = 3000
			subs := submissions(t, w, slots(50), 0)
			work, laterS, later, em, sizes := 0.0, 0.0, 0, 0.0, map[int]int{}
			for i := range subs {
				s := &subs[i]
				work += load.Work(s.Workflow).Seconds() / 3000
				start := s.At
				if s.Release > 0 {
					start = s.Release
					after := s.Release.Sub(s.At)
					if after < time.Second || after > 50000*time.Second || after%time.Second != 0 {
						t.Fatalf("%s may start %v after its arrival", s.Name, after)
					}
					later++
					laterS += after.Seconds()
				}
				alone, err := load.Alone(s.Workflow, slots(50))
				must(t, err)
				if s.Due%1e9 != 0 || s.Class != planner.Deadline {
					t.Fatalf("%s is due at %v, class %v", s.Name, s.Due, s.Class)
				}
				x := s.Due.Sub(start).Seconds() / alone.Seconds()
				if x < 1 || x > 5+1/alone.Seconds() {
					t.Fatalf("%s: deadline %v times the time alone", s.Name, x)
				}
				em += x / 3000
				sizes[[]int{30, 50, 100}[nearest(len(s.Workflow.Tasks), 30, 50, 100)]]++
			}
			if math.Abs(work-c.work) > 1e-3*c.work {
				t.Errorf("mean work %v s, want %v", work, c.work)
			}
			if later < 1350 || later > 1650 || math.Abs(laterS/float64(later)-25000) > 1200 || math.Abs(em-3) > 0.1 {
				t.Errorf("%d of 3000 start later, by %v s on average; mean multiplier %v", later, laterS/float64(later),
					em)
			}
			if sizes[30] != 1000 || sizes[50] != 1000 || sizes[100] != 1000 {
				t.Errorf("sizes %v", sizes)
			}
			if got := subs[2999].At.Seconds() / 3000; math.Abs(got-c.interval) > 0.08*c.interval {
				t.Errorf("one arrives every %v s, want %v", got, c.interval)
			}
		})
	}
}

func nearest(x int, among ...int) (best int) {
	for i := range among {
		if d := among[i] - x; d*d < (among[best]-x)*(among[best]-x) {
			best = i
		}
	}
	return best
}

func TestDeadlinesCountFromTheEarliestStart(t *testing.T) {
	for rule, want := range map[string]planner.Time{"{after: 5s}": 18e9, "{factor: 2}": 49e9, "{multiplier: 2}": 49e9,
		"{multiplier: 1.51}": 41e9} {
		path := file(t, "w.json", `{"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [
			{"name": "a", "id": "a", "parents": [], "children": ["b"]}, {"name": "b", "id": "b", "parents": ["a"], "children": []}]},
			"execution": {"makespanInSeconds": 18, "executedAt": "2024-01-01T00:00:00Z", "tasks": [
			{"id": "a", "runtimeInSeconds": 8, "coreCount": 1}, {"id": "b", "runtimeInSeconds": 10, "coreCount": 1}]}}}`)
		subs := submissions(t, parse(t, "count: 1\nmix: [{trace: "+path+"}]\nreleases: {after: 13s}\ndeadlines: "+rule),
			processors(2), 0)
		if subs[0].Release != 13e9 || subs[0].Due != want {
			t.Errorf("%s: may start at %v and is due at %v, want 13 s and %v", rule, subs[0].Release, subs[0].Due, want)
		}
	}
}

func TestWarmUpByTimeLeavesOutWhatArrivesInIt(t *testing.T) {
	var subs []executor.Submission
	for i := range 100 {
		subs = append(subs, executor.Submission{At: planner.Time(10+i) * 1e9})
	}
	w := &scenario.Workload{Source: "w.yaml", WarmUp: 3, WarmUpTime: 20 * time.Second, CoolDownTime: 5 * time.Second}
	if early, late, err := load.Window(w, subs, 0); early != 20 || late != 5 || err != nil {
		t.Errorf("%d and %d, %v; want 20 and 5", early, late, err)
	}
	w.CoolDownTime = 90 * time.Second
	if _, _, err := load.Window(w, subs, 0); err == nil ||
		!strings.Contains(err.Error(), "leave nothing to measure of 100 workflows that arrive within 1m39s") {
		t.Error(err)
	}
	w.ScaleTimes = true
	if early, late, err := load.Window(w, subs, 0.5); early != 10 || late != 45 || err != nil {
		t.Errorf("%d and %d, %v; want 10 and 45", early, late, err)
	}
}
