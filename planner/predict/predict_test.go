package predict_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/predict"
)

var reference = &planner.Node{Speed: 1}

// estimates of n tasks declared to run d, by workflows of ten tasks.
func estimates(t *testing.T, model string, seed uint64, n int, d time.Duration) []time.Duration {
	t.Helper()
	m, err := predict.ParseErrorModel(model)
	must(t, err)
	m.Seed = seed
	est := &predict.Declared{Model: m}
	out := make([]time.Duration, n)
	for i := range out {
		task := &planner.Task{ID: planner.TaskID(i), Workflow: planner.WorkflowID(i / 10)}
		est.Declare(task.ID, d, nil, planner.SourceDeclared)
		out[i] = est.Run(task, reference).Run
	}
	return out
}

func mean(d []time.Duration) float64 {
	var sum float64
	for _, x := range d {
		sum += x.Seconds()
	}
	return sum / float64(len(d))
}

func TestStaticErrorMultiplies(t *testing.T) {
	for _, e := range estimates(t, "static:0.1", 1, 50, 30*time.Second) {
		if e != 3*time.Second {
			t.Fatalf("estimate %v, want 3s", e)
		}
	}
}

func TestRandomErrorIIsOneFactorPerWorkflow(t *testing.T) {
	got := estimates(t, "random1:2", 1, 40_000, 100*time.Second)
	distinct := map[time.Duration]bool{}
	for i, e := range got {
		if e != got[i/10*10] {
			t.Fatalf("tasks of one workflow have estimates %v and %v", e, got[i/10*10])
		}
		if e <= 0 || e > 400*time.Second {
			t.Fatalf("estimate %v is not in (0, 400 s]", e)
		}
		distinct[e] = true
	}
	if len(distinct) < 3900 {
		t.Errorf("%d factors for 4000 workflows", len(distinct))
	}
	if m := mean(got); math.Abs(m-200) > 6 { // three standard errors are 5.5
		t.Errorf("mean %v s, want 200", m)
	}
}

func TestRandomErrorIIForgetsTheRuntime(t *testing.T) {
	short, long := estimates(t, "random2:5", 1, 20_000, time.Second), estimates(t, "random2:5", 1, 20_000, time.Hour)
	for i := range short {
		if short[i] != long[i] {
			t.Fatalf("task %d: %v for a second, %v for an hour", i, short[i], long[i])
		}
		if short[i] <= 0 || short[i] > 10*time.Second {
			t.Fatalf("estimate %v is not in (0, 10 s]", short[i])
		}
	}
	if m := mean(short); math.Abs(m-5) > 0.07 {
		t.Errorf("mean %v s, want 5", m)
	}
	if zero := estimates(t, "random2:5", 1, 10, 0); zero[3] != 0 {
		t.Errorf("a task of no runtime is estimated at %v", zero[3])
	}
}

// Estimates are uniform within 60 s of the runtime, and above 0: the relative error of short tasks is the larger one.
func TestShortTasksHaveTheMoreVariableErrors(t *testing.T) {
	for run, want := range map[time.Duration][3]float64{time.Second: {0, 61, 30.5}, time.Minute: {0, 120, 60},
		10 * time.Minute: {540, 660, 600}} {
		got := estimates(t, "short:60", 1, 20_000, run)
		low, high := slices.Min(got).Seconds(), slices.Max(got).Seconds()
		if width := want[1] - want[0]; low <= want[0] || low > want[0]+width/1000 || high > want[1] ||
			high < want[1]-width/1000 || math.Abs(mean(got)-want[2]) > width/100 {
			t.Errorf("%v: from %v to %v s, mean %v; want %v", run, low, high, mean(got), want)
		}
	}
	if zero := estimates(t, "short:60", 1, 1, 0); zero[0] != 0 {
		t.Errorf("a task of no runtime is estimated at %v", zero[0])
	}
}

func TestErrorsOfOneSeedDifferByTheFactorOnly(t *testing.T) {
	for _, kind := range []string{"random1:", "random2:"} {
		one, ten := estimates(t, kind+"1", 4, 1000, 50*time.Second), estimates(t, kind+"10", 4, 1000, 50*time.Second)
		other := estimates(t, kind+"1", 5, 1000, 50*time.Second)
		same := 0
		for i := range one {
			if d := ten[i] - 10*one[i]; d < -10 || d > 10 {
				t.Fatalf("%s: %v and %v", kind, one[i], ten[i])
			}
			if one[i] == other[i] {
				same++
			}
		}
		if same > 10 {
			t.Errorf("%s: %d of 1000 estimates do not depend on the seed", kind, same)
		}
	}
}

// The one datum of the source: at 300 % a task estimated at 100 runs between 1 and 700.
func TestUniformUncertaintyIsOfReality(t *testing.T) {
	m, err := predict.ParseErrorModel("uniform:3")
	must(t, err)
	low, high, sum := math.Inf(1), 0.0, 0.0
	const n = 20_000
	for i := range planner.TaskID(n) {
		a := m.Actual(i, 100*time.Second).Seconds()
		low, high, sum = min(low, a), max(high, a), sum+a
	}
	if low < 1 || low > 1.5 || high > 700 || high < 699.5 || math.Abs(sum/n-350.5) > 5 {
		t.Errorf("from %v to %v, mean %v; want 1 to 700, 350.5", low, high, sum/n)
	}
	if est := estimates(t, "uniform:3", 1, 1, 100*time.Second); est[0] != 100*time.Second {
		t.Errorf("estimated at %v, want as declared", est[0])
	}
}

func TestErrorModelsAreReadAndWritten(t *testing.T) {
	for _, text := range []string{"none", "static:0.1", "random1:2", "random2:10", "short:60", "uniform:3"} {
		if m, err := predict.ParseErrorModel(text); err != nil || m.String() != text {
			t.Errorf("%s: %v, %v", text, m, err)
		}
	}
	for _, text := range []string{"", "static", "static:", "static:0", "static:-1", "static:NaN", "static:1e9",
		"random3:1", "none:1", "random1:x"} {
		if m, err := predict.ParseErrorModel(text); err == nil {
			t.Errorf("%q is taken as %v", text, m)
		}
	}
}

func TestSourcesTellWhereAnEstimateIsFrom(t *testing.T) {
	declared := &predict.Declared{Startup: time.Second}
	declared.Declare(0, 10*time.Second, nil, planner.SourceDeclared)
	wrong := &predict.Declared{Model: predict.ErrorModel{Kind: predict.Static, Factor: 2}}
	wrong.Declare(0, 10*time.Second, nil, planner.SourceDeclared)
	task := &planner.Task{ID: 0}
	slow := &planner.Node{Speed: 0.5}
	for _, c := range []struct {
		name string
		got  planner.Estimate
		want planner.Estimate
	}{
		{"declared", declared.Run(task, reference), planner.Estimate{Run: 11 * time.Second,
			Source: planner.SourceDeclared}},
		{"declared on a slow node", declared.Run(task, slow), planner.Estimate{Run: 21 * time.Second,
			Source: planner.SourceDeclared}},
		{"erroneous", wrong.Run(task, slow), planner.Estimate{Run: 40 * time.Second, Source: planner.SourceErroneous}},
		{"never declared", declared.Run(&planner.Task{ID: 9}, reference), planner.Estimate{Run: time.Second,
			Source: planner.SourceDefault}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, c.got, c.want)
		}
	}
}

// The last three tasks took 10, 20 and 30 where 8, 16 and 16 were estimated: a correction by 1.5. Older ones do not
// count.
func TestRatioIsThatOfTheLastPairs(t *testing.T) {
	r := predict.NewRatio(3)
	if r.Value() != 1 {
		t.Errorf("ratio of nothing is %v", r.Value())
	}
	for _, p := range [][2]uint64{{1000, 1}, {1, 1000}, {10, 8}, {20, 16}, {30, 16}} {
		r.Add(time.Duration(p[0]), exact.Int(p[1]))
	}
	if r.Value() != 1.5 || r.Len() != 3 {
		t.Errorf("ratio of the last %d is %v, want 1.5 of 3", r.Len(), r.Value())
	}
	for d, want := range map[time.Duration]time.Duration{0: 0, 1: 2, 2: 3, 1e18: 15e17, math.MaxInt64: math.MaxInt64} {
		if got := r.Of(d); got != want {
			t.Errorf("%d corrected is %d, want %d", d, got, want)
		}
	}
	for range 3 {
		r.Add(math.MaxInt64, exact.Int(math.MaxUint64))
	}
	if got := r.Of(10); got != 5 {
		t.Errorf("10 over two is %d", got)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
