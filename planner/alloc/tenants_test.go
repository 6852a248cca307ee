package alloc_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// job is a workflow of one task.
type job struct {
	name   string
	at     int // seconds
	run    int
	due    int // 0: none
	low    bool
	tenant string
	cores  float64
	memory int64
	disk   int64 // bytes per second
	reads  int64 // bytes of a file from outside
	homes  *executor.Placement
}

func (j *job) submission() executor.Submission {
	w := &trace.Workflow{Name: j.name, Label: j.name, Tasks: []trace.Task{{ID: j.name, Kind: "k", Cores: j.cores,
		MemoryBytes: j.memory,
		DiskBps:     j.disk, Retries: -1, Runtime: time.Duration(j.run) * time.Second}}}
	if j.reads > 0 {
		w.Files = []trace.File{{Name: "in", Size: j.reads, Sized: true, Producer: -1}}
		w.Tasks[0].Inputs = []int32{0}
	}
	s := executor.Submission{At: planner.Time(j.at) * 1e9, Name: j.name, Workflow: w, Tenant: j.tenant, Data: j.homes}
	switch {
	case j.due > 0:
		s.Class, s.Due = planner.Deadline, planner.Time(j.due)*1e9
	case j.low:
		s.Class = planner.Low
	}
	return s
}

// nodes is a platform of like nodes that keep what keeps says of suspended tasks.
func nodes(count int, capacity unit.Vector, keeps unit.Mask) *planner.Platform {
	p := &planner.Platform{Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}
	for i := range count {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("n", i+1), Capacity: capacity,
			Speed: 1, Keeps: keeps})
	}
	return p
}

// serve runs jobs under a policy, and tells in a line per event what happened: the second, the event, the job, the node
// of a start.
func serve(t *testing.T, spec string, p *planner.Platform, jobs []job) (lines []string, notes []planner.Note) {
	t.Helper()
	arrivals := make([]executor.Submission, len(jobs))
	for i := range jobs {
		arrivals[i] = jobs[i].submission()
	}
	return observe(t, spec, p, arrivals)
}

func serveAll(t *testing.T, spec string, p *planner.Platform, arrivals ...executor.Submission) []string {
	t.Helper()
	lines, _ := observe(t, spec, p, arrivals)
	return lines
}

func observe(t *testing.T, spec string, p *planner.Platform, arrivals []executor.Submission) (lines []string,
	notes []planner.Note) {
	t.Helper()
	e := enginetest.New(t, p, enginetest.Policy(t, spec), arrivals...)
	slices.SortStableFunc(e.Arrivals, func(a, b executor.Submission) int { return int((a.At - b.At) / 1e9) })
	names := map[planner.TaskID]string{}
	e.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
		for _, a := range admitted {
			for i := range a.Tasks {
				names[a.Arrived.Tasks[i].ID] = a.Tasks[i].Name
			}
		}
		for _, ev := range events {
			say := func(what string, a planner.AttemptID) {
				line := fmt.Sprintf("%g %s %s", ev.At.Seconds(), what, names[v.Attempt(a).Task])
				if what == "start" {
					line += " " + p.Nodes[v.Attempt(a).Node].Name
				}
				lines = append(lines, line)
			}
			switch b := ev.Body.(type) {
			case planner.AttemptStarted:
				say("start", b.Attempt)
			case planner.AttemptSuspended:
				say("suspend", b.Attempt)
			case planner.AttemptResumed:
				say("resume", b.Attempt)
			case *planner.AttemptExited:
				say(b.Outcome.String(), b.Attempt)
			case *planner.PlanCommitted:
				notes = append(notes, b.Notes...)
			}
		}
	}
	res, err := e.Run(t.Context())
	if err != nil || len(res.Refused) > 0 {
		t.Fatal(err, res.Refused)
	}
	return lines, notes
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nexpected\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// only keeps the lines that have one of the words.
func only(lines []string, words ...string) (out []string) {
	for _, l := range lines {
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(l, w) }) {
			out = append(out, l)
		}
	}
	return out
}

// 3DSF, section 7.1, on two servers that are free at 0 and at 60.
func TestMaximalWaitingTimeAgainstEarliestDeadline(t *testing.T) {
	p := nodes(2, unit.Vector{1000, unit.Unlimited, unit.Unlimited}, 0)
	jobs := []job{{name: "busy", run: 60, due: 61}, {name: "a", run: 100, due: 180}, {name: "b", run: 550, due: 600}}
	// busy has a deadline too, as all that has one comes before what has none.
	emwtf, _ := serve(t, "pds:never", p, jobs)
	expect(t, emwtf, "0 start busy n1", "0 start b n2", "60 ok busy", "60 start a n1", "160 ok a", "550 ok b")
	edf, _ := serve(t, "pds:edf,never", p, jobs)
	expect(t, edf, "0 start busy n1", "0 start a n2", "60 ok busy", "60 start b n1", "100 ok a", "610 ok b")
}

// crowd fills 8 CPUs: r1 low 2 since 0, r2 low 3 since 5, r3 high 2 since 2, all for CPU, r4 low 1 for memory since 6.
// r1 ends first.
func crowd(next int, more ...job) []job {
	return append([]job{
		{name: "r1", at: 0, run: 10 + next, low: true, cores: 2, memory: 1 << 30},
		{name: "r2", at: 5, run: 500, low: true, cores: 3, memory: 1 << 30},
		{name: "r3", at: 2, run: 500, cores: 2, memory: 1 << 30},
		{name: "r4", at: 6, run: 500, low: true, cores: 1, memory: 40 << 30},
	}, more...)
}

func TestPreemptionTakesTheNewestAlikeOfLowPriorityFirst(t *testing.T) {
	p := nodes(1, unit.Vector{8000, 64 << 30, unit.Unlimited}, 0)
	for _, c := range []struct {
		name  string
		cores float64
		slack int
		want  []string
	}{
		{"two of low priority are enough", 4, 10, []string{"10 suspend r2", "10 suspend r1", "10 start d n1"}},
		{"high priority goes last", 7, 10, []string{"10 suspend r2", "10 suspend r1", "10 suspend r4", "10 suspend r3",
			"10 start d n1"}},
		{"what ends in time is waited for", 2, 40, []string{"40 start d n1"}},
		{"what ends in time frees too little", 4, 40, []string{"10 suspend r2", "10 suspend r1", "10 start d n1"}},
		{"nothing to wait for in time", 2, 29, []string{"10 suspend r2", "10 start d n1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := job{name: "d", at: 10, run: 5, due: 10 + 5 + c.slack, cores: c.cores, memory: 1 << 30}
			lines, _ := serve(t, "pds", p, crowd(30, d))
			expect(t, slices.DeleteFunc(only(lines, "suspend", "start d"),
				func(l string) bool { return strings.HasPrefix(l, "15 ") }), c.want...)
			end := fmt.Sprint(15+c.slack, " ")
			if at := only(lines, "ok d"); len(at) != 1 || at[0] > end && len(at[0]) >= len(end)+4 {
				t.Errorf("d ends at %v, due at %s", at, end)
			}
		})
	}
}

func TestSuspendedJobsGoOnFirstInTheOrderOfTheirSuspension(t *testing.T) {
	p := nodes(1, unit.Vector{4000, unit.Unlimited, unit.Unlimited}, 0)
	lines, notes := serve(t, "3dsf", p, []job{
		{name: "old", at: 0, run: 100, low: true, cores: 2}, {name: "new", at: 1, run: 100, low: true, cores: 2},
		{name: "d", at: 10, run: 20, due: 31, cores: 4}, {name: "later", at: 11, run: 5, cores: 1},
	})
	expect(t, lines, "0 start old n1", "1 start new n1", "10 suspend new", "10 suspend old", "10 start d n1", "30 ok d",
		"30 resume new", "30 resume old",
		"120 ok old", "120 start later n1", "121 ok new", "125 ok later")
	var preempted []string
	for _, n := range notes {
		if n.Topic == "preemption" {
			preempted = append(preempted, n.Text)
		}
	}
	expect(t, preempted, "makes room on n1 (freeze) for task 2 of workflow 2, which has a deadline",
		"makes room on n1 (freeze) for task 2 of workflow 2, which has a deadline")
}

func TestDeadlineJobsAreNeverSuspended(t *testing.T) {
	p := nodes(1, unit.Vector{2000, unit.Unlimited, unit.Unlimited}, 0)
	for _, spec := range []string{"pds", "pds:leave", "3dsf"} {
		lines, _ := serve(t, spec, p, []job{{name: "first", run: 100, due: 1000, cores: 2}, {name: "tight", at: 1,
			run: 10, due: 12, cores: 2}})
		expect(t, lines, "0 start first n1", "100 ok first", "100 start tight n1", "110 ok tight")
	}
}

// A job that became too late is found behind one that is not and has no room, also if tasks were added to it.
func TestLateJobsAreFoundAnywhereInTheQueue(t *testing.T) {
	p := nodes(1, unit.Vector{2000, unit.Unlimited, unit.Unlimited}, 0)
	jobs := func(run int) []executor.Submission { // of the last deadline job
		busy, wide := job{name: "busy", run: 90, cores: 1}, job{name: "wide", at: 1, run: 10, cores: 2, due: 200}
		last := job{name: "last", at: 2, run: run, cores: 1, due: 210}
		next := job{name: "next", at: 12, run: 1, cores: 1}
		return []executor.Submission{busy.submission(), wide.submission(), last.submission(), next.submission()}
	}
	for _, spec := range []string{"pds:order=edf,room=never", "3dsf:order=edf,room=never"} {
		expect(t, only(serveAll(t, spec, p, jobs(30)...), "start"), "0 start busy n1", "12 start next n1",
			"90 start wide n1", "100 start last n1")
		expect(t, only(serveAll(t, spec, p, jobs(201)...), "start"), "0 start busy n1", "12 start last n1",
			"90 start next n1", "213 start wide n1")
		more := job{name: "more", at: 5, run: 173, cores: 1}
		added := more.submission()
		added.Name, added.Grows = "last", &executor.Growth{Of: 2, After: []planner.TaskID{2}}
		expect(t, only(serveAll(t, spec, p, slices.Insert(jobs(30), 3, added)...), "start"), "0 start busy n1",
			"12 start last n1", "42 start more n1", "90 start next n1", "215 start wide n1")
	}
}

func TestFrozenTasksKeepTheirMemoryAndThoseThatLeaveDoNot(t *testing.T) {
	p := nodes(1, unit.Vector{4000, 8 << 30, unit.Unlimited}, unit.Of(unit.Memory))
	jobs := []job{{name: "r", run: 100, low: true, cores: 1, memory: 6 << 30}, {name: "d", at: 10, run: 10, due: 30,
		cores: 1, memory: 4 << 30}}
	lines, _ := serve(t, "pds:freeze", p, jobs)
	expect(t, lines, "0 start r n1", "100 ok r", "100 start d n1", "110 ok d")
	for _, spec := range []string{"pds:leave", "pds"} { // freezing frees no memory
		lines, _ = serve(t, spec, p, jobs)
		expect(t, lines, "0 start r n1", "10 preempted r", "10 start d n1", "20 ok d", "20 start r n1", "110 ok r")
	}
}

func TestTheTenantWithTheLeastDominantShareIsServedNext(t *testing.T) {
	// 3DSF's table 1 on a node: 24 CPUs, 36 GB, 54 MB/s, four jobs of each tenant and more than fit.
	p := nodes(1, unit.Vector{24000, 36e9, 54e6}, 0)
	const emulator = executor.EmulatorMemory
	var jobs []job
	for i := range 6 {
		jobs = append(jobs, job{name: fmt.Sprint("a", i), tenant: "a", run: 100, cores: 2, memory: 4e9 - emulator,
			disk: 3e6},
			job{name: fmt.Sprint("b", i), tenant: "b", run: 100, cores: 3, memory: 2e9 - emulator, disk: 6e6},
			job{name: fmt.Sprint("c", i), tenant: "c", run: 100, cores: 1, memory: 3e9 - emulator, disk: 6e6})
	}
	for spec, want := range map[string]string{"drf:stop": "acbacbacbac", "drf:stop,dims=2": "cabcabcacb",
		"drf:dims=2": "cabcabcacba", "3dsf:stop": "acbacbacbac"} {
		lines, _ := serve(t, spec, p, jobs)
		order := ""
		for _, l := range lines {
			if strings.HasPrefix(l, "0 start ") {
				order += l[len("0 start "):][:1]
			}
		}
		if order != want {
			t.Errorf("%s serves %s, expected %s", spec, order, want)
		}
	}
}

func TestCapacitiesOfQueues(t *testing.T) {
	p := nodes(1, unit.Vector{10000, 10e9, unit.Unlimited}, 0)
	const emulator = executor.EmulatorMemory
	var jobs []job
	for i := range 20 {
		jobs = append(jobs, job{name: fmt.Sprint("a", i), tenant: "a", run: 10, cores: 1, memory: 1e9 - emulator},
			job{name: fmt.Sprint("b", i), tenant: "b", run: 10, cores: 1, memory: 1e9 - emulator})
	}
	first := func(spec string, jobs []job) map[string]int {
		lines, _ := serve(t, spec, p, jobs)
		n := map[string]int{}
		for _, l := range lines {
			if strings.HasPrefix(l, "0 start ") {
				n[l[len("0 start "):][:1]]++
			}
		}
		return n
	}
	for spec, want := range map[string]map[string]int{"capacity": {"a": 5, "b": 5}, "capacity:shares=4/1": {"a": 8,
		"b": 2}} {
		if got := first(spec, jobs); !maps.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", spec, got, want)
		}
	}
	// What one queue leaves the other may use, unless it must not.
	alone := append(slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return j.tenant == "b" }),
		job{name: "b", tenant: "b", run: 10, cores: 1, memory: 1e9 - emulator})
	for spec, want := range map[string]map[string]int{"capacity": {"a": 9, "b": 1}, "capacity:elastic=no": {"a": 5,
		"b": 1}} {
		if got := first(spec, alone); !maps.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", spec, got, want)
		}
	}
}

func TestWithAStopAtTheFirstMisfitOtherQueuesWaitToo(t *testing.T) {
	p := nodes(1, unit.Vector{4000, unit.Unlimited, unit.Unlimited}, 0)
	lines, _ := serve(t, "capacity:misfit=stop,by=dominant", p, []job{{name: "a1", tenant: "a", run: 10, cores: 3},
		{name: "b1", at: 1, tenant: "b", run: 10, cores: 2},
		{name: "a2", at: 2, tenant: "a", run: 1, cores: 1}})
	expect(t, lines, "0 start a1 n1", "10 ok a1", "10 start a2 n1", "10 start b1 n1", "11 ok a2", "20 ok b1")
}

// The first node has its heartbeats at 0, 4, 8 s, the second at 2, 6, 10 s.
func TestNodesAreGivenTasksAtTheirHeartbeats(t *testing.T) {
	p := nodes(2, unit.Vector{2000, unit.Unlimited, unit.Unlimited}, 0)
	var jobs []job
	for i := range 5 {
		jobs = append(jobs, job{name: fmt.Sprint("a", i+1), at: 1, run: 9, cores: 1})
	}
	for _, spec := range []string{"capacity:heartbeat=4", "3dsf:heartbeat=4"} {
		lines, _ := serve(t, spec, p, jobs)
		expect(t, only(lines, "start"), "2 start a1 n2", "2 start a2 n2", "4 start a3 n1", "4 start a4 n1",
			"14 start a5 n2")
	}
	// A node that reports its room before the deadline job has to start is waited for; else others make room where a
	// heartbeat comes now.
	full := []job{{name: "low", low: true, run: 9, cores: 2}, {name: "due", at: 3, run: 5, due: 20, cores: 2}}
	lines, _ := serve(t, "3dsf:heartbeat=4", p, full)
	expect(t, lines, "2 start low n2", "4 start due n1", "9 ok due", "11 ok low")
	// Of tasks whose data is elsewhere a node gets one a heartbeat.
	p.Join(0, 0, 1e9, 0)
	for seed := range uint64(20) {
		var remote []job
		for i := range 2 {
			remote = append(remote, job{name: fmt.Sprint("r", i+1), at: 1, run: 5, cores: 1, reads: 1e6,
				homes: &executor.Placement{Rule: executor.Random, Block: 1 << 40, Replicas: 1, Seed: seed}})
		}
		one, _ := serve(t, "capacity:heartbeat=4", p, remote)
		anyOf, _ := serve(t, "capacity:heartbeat=4,remote=any", p, remote)
		if n := len(only(anyOf, "start", "n2")); n != 2 {
			t.Errorf("seed %d: %d tasks on the node of the first heartbeat: %v", seed, n, anyOf)
		}
		if fmt.Sprint(one) != fmt.Sprint(anyOf) {
			return
		}
	}
	t.Error("no placement makes one a heartbeat another thing than any number")
}

// The paper's block: 128 MiB at 131.072 MB/s take 1.024 s to move.
func TestJudgmentWaitsForTheNodeWithTheDataOrMovesIt(t *testing.T) {
	p := nodes(2, unit.Vector{1000, unit.Unlimited, unit.Unlimited}, 0)
	p.Join(0, 0, 131_072_000, 0)
	// Which node holds the only replica is drawn: find a seed for the first.
	var home *executor.Placement
	for seed := range uint64(100) {
		pl := &executor.Placement{Rule: executor.Random, Block: 1 << 40, Replicas: 1, Seed: seed}
		if lines, _ := serve(t, "dla", p, []job{{name: "t", run: 10, reads: 134_217_728,
			homes: pl}}); lines[0] == "0 start t n1" {
			home = pl
			break
		}
	}
	if home == nil {
		t.Fatal("no seed places the block on the first node")
	}
	busy := func(run int) []job {
		return []job{{name: "busy", run: run, cores: 1, due: 0}, {name: "t", at: 1, run: 10, reads: 134_217_728,
			homes: home}}
	}
	lines, notes := serve(t, "dla", p, busy(2)) // released in 1 s
	expect(t, lines, "0 start busy n1", "2 ok busy", "2 start t n1", "12 ok t")
	if len(notes) != 1 || notes[0].Topic != "data" || notes[0].Text != "waits for n1, which holds its data and is "+
		"released in 1s: moving it to n2 takes 1.024s" {
		t.Errorf("notes %+v", notes)
	}
	lines, notes = serve(t, "dla", p, busy(3)) // released in 2 s
	expect(t, lines, "0 start busy n1", "2.024 start t n2", "3 ok busy", "12.024 ok t")
	if len(notes) != 1 || notes[0].Text != "moves its data to n2 in 1.024s: n1, which holds it, is released in 2s" {
		t.Errorf("notes %+v", notes)
	}
	// However many wait, and none of them began, those behind them are served.
	crowded := busy(2)
	for i := range 12 {
		crowded = append(crowded, crowded[1])
		crowded[i+2].name = fmt.Sprint("more", i)
	}
	crowded = append(crowded, job{name: "small", at: 1, run: 3})
	for _, spec := range []string{"dla", "dla:batch=3", "3dsf"} {
		lines, _ = serve(t, spec, p, crowded)
		expect(t, only(lines, "small", " t"), "1 start small n2", "2 start t n1", "4 ok small", "12 ok t")
	}
	// Within a hop the other node of the rack is as good as the one that holds the data, and idler.
	for _, spec := range []string{"dla:hops=1", "dla:hops=2", "3dsf:hops=1"} {
		lines, _ = serve(t, spec, p, busy(2))
		expect(t, lines, "0 start busy n1", "2 ok busy", "2.024 start t n2", "12.024 ok t")
	}
	// A task that reads little goes where there is room.
	lines, _ = serve(t, "dla:large=200", p, busy(2))
	expect(t, lines, "0 start busy n1", "2 ok busy", "2.024 start t n2", "12.024 ok t")
}

func TestTheSuiteTellsWhichModulesServeAJob(t *testing.T) {
	p := nodes(2, unit.Vector{2000, unit.Unlimited, unit.Unlimited}, 0)
	_, notes := serve(t, "3dsf:large=10", p, []job{{name: "plain", run: 10}, {name: "data", run: 10, reads: 20e6},
		{name: "due", at: 5, run: 10, due: 40, reads: 10e6},
		{name: "hopeless", at: 6, run: 10, due: 7}})
	var got []string
	for _, n := range notes {
		if n.Topic == "module" || n.Topic == "deadline" {
			got = append(got, fmt.Sprintf("%d %s: %s", n.Workflow, n.Topic, n.Text))
		}
	}
	expect(t, got, "0 module: regular job: DRF; no task reads 10 MB (at most 0 MB): no DLAforBT",
		"1 module: regular job: DRF; a task reads 20 MB, at least 10 MB: DLAforBT",
		"2 module: deadline job: PDSonQueue; a task reads 10 MB, at least 10 MB: DLAforBT",
		"2 deadline: may wait 25s; too little is known yet to expect a wait",
		"3 module: deadline job: PDSonQueue; no task reads 10 MB (at most 0 MB): no DLAforBT",
		"3 deadline: cannot end in time: 9s too late by its estimates; too little is known yet to expect a wait")
}
