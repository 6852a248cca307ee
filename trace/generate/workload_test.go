package generate_test

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/trace"
	"gantry/trace/generate"
)

// shape is all of a workflow but where it came from.
func shape(w *trace.Workflow) *trace.Workflow {
	c := *w
	c.Source, c.Label, c.Format, c.Version, c.Makespan, c.ExecutedAt = "", "", 0, "", 0, ""
	c.Tasks, c.Files = slices.Clone(w.Tasks), slices.Clone(w.Files)
	// Readers number files in the order in which tasks use them.
	slices.SortFunc(c.Files, func(a, b trace.File) int { return strings.Compare(a.Name, b.Name) })
	at := map[string]int32{}
	for i := range c.Files {
		at[c.Files[i].Name] = int32(i)
	}
	renumber := func(list []int32) (out []int32) {
		for _, f := range list {
			out = append(out, at[w.Files[f].Name])
		}
		slices.Sort(out)
		return out
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		t.Line, t.Inputs, t.Outputs = 0, renumber(t.Inputs), renumber(t.Outputs)
		t.Parents, t.Children = slices.Clip(append([]int32(nil), t.Parents...)),
			slices.Clip(append([]int32(nil), t.Children...))
	}
	return &c
}

func TestWrittenWorkflowsAreReadBackAsTheyWere(t *testing.T) {
	for _, k := range generate.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			for _, n := range []int{k.Least, 60, 333} {
				w := made(t, k.Name, max(n, k.Least), 3)
				if n == 333 {
					must(t, generate.Rescale(w, time.Hour+1))
				}
				var b bytes.Buffer
				must(t, trace.WriteWfFormat(&b, w))
				r, faults, err := trace.Read(&b, "-", trace.ReadOptions{})
				if err != nil || len(faults) > 0 {
					t.Fatalf("n %d: %v %v", n, err, faults)
				}
				if a, b := shape(w), shape(r); !reflect.DeepEqual(a, b) {
					for i := range a.Tasks {
						if !reflect.DeepEqual(a.Tasks[i], b.Tasks[i]) {
							t.Fatalf("n %d: task\n%+v was read as\n%+v", n, a.Tasks[i], b.Tasks[i])
						}
					}
					t.Fatalf("n %d: files or head differ", n)
				}
			}
		})
	}
}

func TestEqualArgumentsGiveEqualWorkflows(t *testing.T) {
	for _, k := range generate.Kinds() {
		a, b, c := made(t, k.Name, 200, 7), made(t, strings.ToUpper(k.Name), 200, 7), made(t, k.Name, 200, 8)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: two workflows of one seed differ", k.Name)
		}
		if reflect.DeepEqual(a.Tasks, c.Tasks) {
			t.Errorf("%s: workflows of two seeds are equal", k.Name)
		}
	}
}

func TestTotalsHaveTheMomentsOfTheirDistribution(t *testing.T) {
	for name, c := range map[string]struct {
		d        *generate.Distribution
		mean, sd float64
	}{
		"hyper-Gamma of the paper": {paperTotals(), 3600.0025, 1980.58},
		"lognormal":                {generate.Lognormal(2*time.Hour, 1.5), 7200, 10800},
		"constant":                 {generate.Constant(90 * time.Minute), 5400, 0},
	} {
		if math.Abs(c.d.Mean.Seconds()-c.mean) > 1e-6 {
			t.Errorf("%s: the mean is said to be %v, want %v s", name, c.d.Mean, c.mean)
		}
		xs := c.d.Draw(300_000, 11)
		var s []float64
		for _, x := range xs {
			if x <= 0 {
				t.Fatalf("%s: drew %v", name, x)
			}
			s = append(s, x.Seconds())
		}
		if mean, sd := moments(s); math.Abs(mean-c.mean) > 0.01*c.mean || math.Abs(sd-c.sd) > 0.04*c.sd+1e-6 {
			t.Errorf("%s: mean %.1f and standard deviation %.1f s, want %v and %v", name, mean, sd, c.mean, c.sd)
		}
		if again := c.d.Draw(10, 11); !slices.Equal(again, xs[:10]) {
			t.Errorf("%s: the first values depend on how many are drawn", name)
		}
	}
}

func TestRescaledRuntimesSumToTheTotalAndKeepTheirProportions(t *testing.T) {
	for _, total := range []time.Duration{1, 999, time.Millisecond, time.Hour + 1, 250 * 365 * 24 * time.Hour} {
		w := made(t, "sipht", 97, 2)
		before, sum := slices.Clone(w.Tasks), generate.Total(w)
		must(t, generate.Rescale(w, total))
		if got := generate.Total(w); got != total {
			t.Errorf("rescaled to %v, runtimes sum to %v", total, got)
		}
		for i := range before {
			want := float64(before[i].Runtime) / float64(sum) * float64(total)
			if got := float64(w.Tasks[i].Runtime); math.Abs(got-want) > 1+1e-12*want {
				t.Errorf("total %v: task %d has %v ns rather than %v", total, i, got, want)
			}
		}
	}
	empty := &trace.Workflow{Label: "w", Tasks: make([]trace.Task, 3)}
	if err := generate.Rescale(empty, time.Hour); err == nil || !strings.Contains(err.Error(), "no runtimes") {
		t.Errorf("a workflow without runtimes: error %v", err)
	}
	if err := generate.Rescale(made(t, "montage", 25, 1), 0); err == nil {
		t.Error("a total of 0 is accepted")
	}
}

func TestPoissonArrivals(t *testing.T) {
	at := func(a generate.Arrivals, n int, seed uint64) []time.Duration {
		t.Helper()
		ts, err := a(n, seed, 30*time.Minute)
		must(t, err)
		return ts
	}
	const n = 100_000
	ts := at(generate.Poisson(98, false), n, 4)
	gaps, last := []float64{}, time.Duration(0)
	for _, x := range ts {
		gaps = append(gaps, (x - last).Seconds())
		last = x
	}
	if mean, sd := moments(gaps); math.Abs(mean-3600/98.) > 0.5 || math.Abs(sd-3600/98.) > 0.8 || slices.Min(gaps) < 0 {
		t.Errorf("gaps of mean %v and standard deviation %v s, want %v of both", mean, sd, 3600/98.)
	}
	if fast := at(generate.Poisson(196, false), n, 4); math.Abs(2*fast[n-1].Seconds()/last.Seconds()-1) > 1e-9 {
		t.Error("twice the rate does not halve the times of the same seed")
	}
	// 49 % of 100 with half an hour of work each: 98 an hour.
	if u := at(generate.Utilised(0.49, 100, false), n, 4); !slices.Equal(u, ts) {
		t.Error("utilisation 0.49 of 100 nodes, workflows of half an hour: not 98 an hour")
	}
	// 49,000 hours of work for 49 nodes' worth take a thousand hours, whatever was drawn.
	for _, a := range []generate.Arrivals{generate.Poisson(98, true), generate.Utilised(0.49, 100, true)} {
		if exact := at(a, 98_000, 4); (exact[97_999] - 1000*time.Hour).Abs() > time.Microsecond {
			t.Errorf("98,000 exact arrivals take %v, want 1000h", exact[97_999])
		}
	}
	if slices.Equal(at(generate.Poisson(98, false), 10, 5), ts[:10]) {
		t.Error("two seeds give the same arrivals")
	}
}

func TestOtherArrivals(t *testing.T) {
	for name, c := range map[string]struct {
		a    generate.Arrivals
		want []time.Duration
	}{
		"at once":  {generate.AtOnce(), []time.Duration{0, 0, 0}},
		"every":    {generate.Every(time.Minute), []time.Duration{0, time.Minute, 2 * time.Minute}},
		"recorded": {generate.Recorded([]time.Duration{5, 9, 1, 1}), []time.Duration{1, 1, 5}},
	} {
		if got, err := c.a(3, 1, 0); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v %v, want %v", name, got, err, c.want)
		}
	}
	for name, a := range map[string]generate.Arrivals{
		"interval too long": generate.Every(math.MaxInt64 / 2),
		"no work":           generate.Utilised(0.5, 1, false),
	} {
		if ts, err := a(3, 1, 0); err == nil {
			t.Errorf("%s: accepted, arrivals %v", name, ts)
		}
	}
}

func TestWorkloadIOfThePaper(t *testing.T) {
	p := plan(t, load{Workflows: 3000, Mix: workloadI(), Totals: paperTotals(),
		Arrivals: generate.Utilised(0.98, 100, false)}, 1)
	kinds, classes, all := map[string]int{}, [3]int{}, 0
	for i, r := range p.Recipes {
		kinds[r.Kind]++
		switch n := r.Tasks; {
		case n%2 != 0:
			t.Errorf("workflow %d has an odd size, %d", i, n)
		case n >= 30 && n <= 38:
			classes[0]++
		case n >= 40 && n < 200:
			classes[1]++
		case n >= 200 && n <= 600:
			classes[2]++
		default:
			t.Errorf("workflow %d has size %d", i, n)
		}
		if w := p.Workflow(t, i); generate.Total(w) != p.Totals[i] {
			t.Fatalf("workflow %d has a total of %v, want %v", i, generate.Total(w), p.Totals[i])
		}
		all += r.Tasks
	}
	if kinds["montage"] != 1000 || kinds["inspiral"] != 1000 || kinds["sipht"] != 1000 ||
		classes != [3]int{2250, 600, 150} {
		t.Errorf("kinds %v, size classes %v; want 1000 of each, and 2250, 600, 150", kinds, classes)
	}
	if all < 200_000 || all > 216_000 {
		t.Errorf("%d tasks, want about 208,000", all)
	}
	if hours := p.Arrive[2999].Hours(); hours < 28.5 || hours > 32.7 || !slices.IsSorted(p.Arrive) {
		t.Errorf("the last of 3000 arrives after %v h, want about 3000/98 = 30.6", hours)
	}
}

func TestWorkloadIIOfThePaper(t *testing.T) {
	mix, seen := workloadII(t), map[generate.Daggen]int{}
	recipes, err := mix.Draw(1000, 1)
	must(t, err)
	for i := range recipes {
		seen[*recipes[i].Params.(*generate.Daggen)]++
	}
	if len(seen) != 3*2*2 { // jump, regular, fat
		t.Errorf("%d combinations of parameters, want 12: %v", len(seen), seen)
	}
	for d, n := range seen {
		if d.Density != 0.1 || n < 40 {
			t.Errorf("%d of 1000 workflows have %+v", n, d)
		}
	}
}

func TestOneChoiceOfALoadLeavesTheOthersAsTheyWere(t *testing.T) {
	base := load{Workflows: 200, Mix: workloadI(), Totals: paperTotals(),
		Arrivals: generate.Poisson(98, false)}
	want := plan(t, base, 6)
	totals := base
	totals.Totals = generate.Constant(time.Hour)
	if p := plan(t, totals, 6); !reflect.DeepEqual(p.Recipes, want.Recipes) || !slices.Equal(p.Arrive, want.Arrive) {
		t.Error("other totals change workflows or arrivals")
	}
	arrivals := base
	arrivals.Arrivals = generate.AtOnce()
	if p := plan(t, arrivals, 6); !reflect.DeepEqual(p.Recipes, want.Recipes) || !slices.Equal(p.Totals, want.Totals) {
		t.Error("other arrivals change workflows or totals")
	}
	kinds := base
	kinds.Mix.Sources = []generate.Source{{Fraction: 1, Kind: "montage"}, {Fraction: 9, Kind: "random",
		Choices: choices(t, "random", "jump", "1", "2")}}
	p := plan(t, kinds, 6)
	for i := range p.Recipes {
		if p.Recipes[i].Tasks != want.Recipes[i].Tasks || p.Recipes[i].Seed != want.Recipes[i].Seed {
			t.Fatalf("other kinds change the size of workflow %d from %d to %d", i, want.Recipes[i].Tasks,
				p.Recipes[i].Tasks)
		}
	}
	if !slices.Equal(p.Arrive, want.Arrive) || !slices.Equal(p.Totals, want.Totals) {
		t.Error("other kinds change arrivals or totals")
	}
	if p := plan(t, base, 7); reflect.DeepEqual(p.Recipes, want.Recipes) || slices.Equal(p.Totals, want.Totals) ||
		slices.Equal(p.Arrive, want.Arrive) {
		t.Error("another seed leaves something as it was")
	}
}

func TestMixOfFilesAndGenerators(t *testing.T) {
	own := made(t, "montage", 25, 1)
	before := generate.Total(own)
	l := load{Workflows: 10, Totals: paperTotals(), Arrivals: generate.AtOnce(),
		Mix: generate.Mix{Sizes: []generate.SizeClass{{Fraction: 1, Min: 31, Max: 31}},
			Sources: []generate.Source{{Fraction: 3, Workflow: own}, {Fraction: 2, Kind: "cybershake"}}}}
	p := plan(t, l, 1)
	files := 0
	for i := range p.Recipes {
		w := p.Workflow(t, i)
		if w.Name == "Montage" {
			files++
		}
		if generate.Total(w) != p.Totals[i] {
			t.Errorf("workflow %d has a total of %v, want %v", i, generate.Total(w), p.Totals[i])
		}
	}
	if files != 6 || generate.Total(own) != before {
		t.Errorf("%d of 10 workflows are copies, want 6; the total of the original is %v, was %v", files,
			generate.Total(own), before)
	}
}

func TestBadLoadsAreRefusedWithAReason(t *testing.T) {
	sizes := []generate.SizeClass{{Fraction: 1, Min: 30, Max: 40}}
	of := func(s ...generate.Source) generate.Mix { return generate.Mix{Sizes: sizes, Sources: s} }
	montage := generate.Source{Fraction: 1, Kind: "montage"}
	for want, mix := range map[string]generate.Mix{
		"no generator": of(generate.Source{Fraction: 1, Kind: "monta"}),
		"at least 13":  {Sizes: []generate.SizeClass{{1, 5, 40, false}}, Sources: []generate.Source{montage}},
	} {
		if _, err := mix.Draw(1, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", mix, err, want)
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
