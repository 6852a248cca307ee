package predict_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/predict"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

// Equation 4 of 3DSF.
func TestLeakyReLU(t *testing.T) {
	for x, want := range map[float64]float64{-2: -0.2, 0: 0, 3: 3} {
		if got := predict.LeakyReLU(x, 0.1); got != want {
			t.Errorf("f(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestRidgeRecoversALine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var x [][]float64
	var y []float64
	for range 200 {
		a, b := r.Float64()*1e9, r.Float64()
		// the third feature never differs
		x, y = append(x, []float64{a, b, 7}), append(y, 3+2e-9*a-0.5*b+r.NormFloat64()*0.01)
	}
	line := predict.FitRidge(x, y, 1e-6)
	for _, p := range [][]float64{{0, 0, 7}, {5e8, 1, 7}, {2e9, 0.5, 9}} {
		if got, want := line.Predict(p), 3+2e-9*p[0]-0.5*p[1]; math.Abs(got-want) > 0.02 {
			t.Errorf("at %v: %v, want %v", p, got, want)
		}
	}
	// A penalty as heavy as the data halves the slopes; exact on standardised features: w / (1 + lambda).
	if got := predict.FitRidge([][]float64{{-1}, {1}}, []float64{-2, 2},
		1).Predict([]float64{1}); math.Abs(got-1) > 1e-12 {
		t.Errorf("with penalty 1: %v, want 1", got)
	}
}

func TestPerceptronLearnsACurve(t *testing.T) {
	curve := func(a, b float64) float64 { return math.Sin(3*a) + a*b }
	r := rand.New(rand.NewPCG(2, 2))
	var x [][]float64
	var y []float64
	for range 400 {
		a, b := r.Float64()*2-1, r.Float64()*2-1
		x, y = append(x, []float64{a, b}), append(y, curve(a, b))
	}
	m := predict.FitMLP(x, y, 1)
	line := predict.FitRidge(x, y, 1e-6)
	var worst, sum, straight float64
	for range 500 {
		a, b := r.Float64()*1.8-0.9, r.Float64()*1.8-0.9
		e := math.Abs(m.Predict([]float64{a, b}) - curve(a, b))
		worst, sum = max(worst, e), sum+e
		straight += math.Abs(line.Predict([]float64{a, b}) - curve(a, b))
	}
	if sum/500 > 0.05 || worst > 0.3 || straight < 4*sum {
		t.Errorf("mean error %v, worst %v; of a line %v", sum/500, worst, straight/500)
	}
	if again := predict.FitMLP(x, y, 1); !reflect.DeepEqual(again, m) {
		t.Error("the same samples and seed gave another network")
	}
	if other := predict.FitMLP(x, y, 2); reflect.DeepEqual(other.Parameters, m.Parameters) {
		t.Error("the seed changes nothing")
	}
}

// measured makes samples of a kind whose work is a function of its input, times lognormal noise; what is declared of it
// is always 10 s.
func measured(kind string, n int, noise float64, seed uint64, work func(gigabytes float64) float64) []predict.Sample {
	r := rand.New(rand.NewPCG(seed, 9))
	out := make([]predict.Sample, n)
	for i := range out {
		gb, speed := 0.1+0.9*r.Float64(), []float64{0.5, 1, 2}[r.IntN(3)]
		w := work(gb) * math.Exp(noise*r.NormFloat64())
		out[i] = predict.Sample{Kind: kind, Declared: time.Duration(10e9 / speed), Ran: time.Duration(w / speed * 1e9),
			Peak: unit.Bytes(50e6 + 200e6*gb),
			Features: predict.Features{Input: unit.Bytes(gb * 1e9), CPU: 1000, Memory: 1 << 30, Speed: speed,
				Load: r.IntN(4)}}
	}
	return out
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func score(t *testing.T, scores []predict.Score, by predict.Method) predict.Score {
	t.Helper()
	for _, s := range scores {
		if s.By == by {
			return s
		}
	}
	t.Fatalf("no score of %s", by)
	return predict.Score{}
}

func TestEachKindGetsTheMethodThatPredictsItBest(t *testing.T) {
	kinds := map[string]func(gb float64) float64{
		"exact":    func(gb float64) float64 { return 5 + 20*gb },                   // as declared
		"constant": func(float64) float64 { return 3 },                              // whatever is read
		"linear":   func(gb float64) float64 { return 1 + 20*gb },                   // of what is read
		"curved":   func(gb float64) float64 { return 1 + 8*math.Pow(2*gb-1.1, 2) }, // falls, then rises
	}
	want := map[string]predict.Method{"exact": predict.ByDeclared, "constant": predict.ByHistory,
		"linear": predict.ByRidge, "curved": predict.ByPerceptron}
	var samples, test []predict.Sample
	for _, kind := range []string{"exact", "constant", "linear", "curved"} {
		samples = append(samples, measured(kind, 200, 0.05, 1, kinds[kind])...)
		test = append(test, measured(kind, 100, 0.05, 2, kinds[kind])...)
	}
	for _, list := range [][]predict.Sample{samples, test} {
		for i := range list {
			if list[i].Kind == "exact" {
				list[i].Declared = list[i].Ran
			}
		}
	}
	fits := predict.Fit(samples, 1)
	m := fits.Model(predict.Auto)
	for kind, method := range want {
		if got := m.Kinds[kind].Picked; got != method {
			t.Errorf("%s is predicted by %s, want %s: %v", kind, got, method, m.Kinds[kind].Errors)
		}
	}
	scores := fits.Evaluate(test)
	auto := score(t, scores, predict.Auto)
	if *auto.Runtime > 6 || *auto.Memory > 3 || *auto.Remaining > 14 {
		t.Errorf("errors of runtime %.1f %%, memory %.1f %%, remaining %.1f %%", *auto.Runtime, *auto.Memory,
			*auto.Remaining)
	}
	for _, by := range []predict.Method{predict.ByDeclared, predict.MeanOf, predict.ByHistory, predict.ByRidge,
		predict.ByPerceptron} {
		if s := score(t, scores, by); s.Samples != 400 || *s.Runtime < *auto.Runtime {
			t.Errorf("%s: error %.1f %% of %d, auto %.1f %%", by, *s.Runtime, s.Samples, *auto.Runtime)
		}
	}
	if again := predict.Fit(samples[200:400], 1).Model(predict.Auto); !bytes.Equal(encode(t, again.Kinds["constant"]),
		encode(t, m.Kinds["constant"])) {
		t.Error("the same samples gave another model")
	}
}

// Where runtimes scatter by factors, what tells runtimes best need not tell best what is left of a run: auto picks for
// each, also what is declared.
func TestWhatIsLeftHasAMethodOfItsOwn(t *testing.T) {
	work := func(gb float64) float64 { return 4 + 20*gb }
	samples, test := measured("noisy", 300, 1, 5, work), measured("noisy", 1000, 1, 6, work)
	fits := predict.Fit(samples, 1)
	scores := fits.Evaluate(test)
	auto := score(t, scores, predict.Auto)
	for _, by := range []predict.Method{predict.ByDeclared, predict.MeanOf, predict.ByHistory, predict.ByRidge,
		predict.ByPerceptron} {
		if s := score(t, scores, by); *auto.Remaining > 1.05**s.Remaining || *auto.Runtime > 1.05**s.Runtime {
			t.Errorf("%s: errors of runtime %.1f %%, of what was left %.1f %%; auto %.1f %%, %.1f %%", by, *s.Runtime,
				*s.Remaining, *auto.Runtime, *auto.Remaining)
		}
	}
	k := fits.Model(predict.Auto).Kinds["noisy"]
	for method, e := range k.RemainingErrors {
		if len(k.RemainingErrors) != 4 || e < k.RemainingErrors[k.RemainingPicked] {
			t.Errorf("picked %s for what is left, but %s has %v", k.RemainingPicked, method, k.RemainingErrors)
		}
	}
}

// On exchangeable data nine of ten measurements lie in the interval: within 3 points for 2000 draws by this seed,
// whatever the method.
func TestIntervalsCoverWhatTheySay(t *testing.T) {
	line := func(gb float64) float64 { return 1 + 20*gb }
	fits := predict.Fit(measured("k", 400, 0.3, 3, line), 1)
	for _, s := range fits.Evaluate(measured("k", 2000, 0.3, 4, line)) {
		if s.By == predict.ByDeclared || s.By == predict.MeanOf {
			if s.Covered != nil {
				t.Errorf("%s has an interval", s.By)
			}
			continue
		}
		if math.Abs(*s.Covered-90) > 3 {
			t.Errorf("%s: %.1f %% lie in the interval of 90 %%", s.By, *s.Covered)
		}
	}
}

// world is a state with one workflow of tasks that read that many bytes each.
func world(t *testing.T, inputs ...unit.Bytes) (planner.View, planner.Event) {
	t.Helper()
	p := &planner.Platform{Nodes: []planner.Node{{Speed: 1, Capacity: unit.Vector{1000, 1 << 30, 1}}}}
	s := planner.NewState(p, planner.DefaultRetryRules())
	a := &planner.WorkflowArrived{}
	for i, size := range inputs {
		a.Files = append(a.Files, planner.File{ID: planner.FileID(i), Size: size, Producer: planner.None})
		a.Tasks = append(a.Tasks, planner.Task{ID: planner.TaskID(i), Need: unit.Vector{1000, 1 << 30, 0},
			Inputs: []planner.FileID{planner.FileID(i)}})
	}
	plannertest.Order(a)
	e := planner.Event{Seq: 1, Body: a}
	if err := s.Apply(e); err != nil {
		t.Fatal(err)
	}
	return s.View(), e
}

func TestTrainedEstimates(t *testing.T) {
	fits := predict.Fit(measured("linear", 200, 0.05, 1, func(gb float64) float64 { return 1 + 20*gb }), 1)
	model := &predict.Model{} // as it comes back from the log
	if err := json.Unmarshal(encode(t, fits.Model(predict.ByRidge)), model); err != nil {
		t.Fatal(err)
	}
	declared := &predict.Declared{Startup: time.Second}
	tr := &predict.Trained{Declared: declared, Model: model}
	tr.Name(0, "linear")
	tr.Name(1, "never seen")
	v, arrived := world(t, 1e8, 5e8, 1e9)
	tr.Observe(v, arrived)
	for i := range 3 {
		declared.Declare(planner.TaskID(i), 42*time.Second, nil, planner.SourceDeclared)
	}
	for i, want := range []float64{3, 11, 21} {
		for _, speed := range []float64{1, 0.5} {
			task := v.Task(planner.TaskID(i))
			e := tr.Run(task, &planner.Node{Speed: speed})
			if got := (e.Run - time.Second).Seconds(); math.Abs(got-want/speed) > 0.05*want/speed ||
				e.Source != planner.SourceTrained || e.Samples != 200 || e.Spread <= 0 {
				t.Errorf("task %d at speed %v: %+v, want %v s", i, speed, e, want/speed)
			}
			if again := tr.Run(task, &planner.Node{Speed: speed}); again != e {
				t.Errorf("asked again: %+v, not %+v", again, e)
			}
		}
	}
	// What is left falls with what has run, and does not vanish when the run lasts longer than any before.
	last := time.Duration(math.MaxInt64)
	for _, ran := range []time.Duration{0, 5 * time.Second, 10 * time.Second} {
		left := tr.Remaining(v.Task(1), &planner.Node{Speed: 1}, ran)
		if want := 11*time.Second - ran; left >= last || left < want-2*time.Second || left > want+2*time.Second {
			t.Errorf("after %v: %v left", ran, left)
		}
		last = left
	}
	if left := tr.Remaining(v.Task(1), &planner.Node{Speed: 1}, 80*time.Second); left != 10*time.Second {
		t.Errorf("after 80 s: %v left, want an eighth", left)
	}
	cold := *v.Task(0)
	cold.Kind = 1
	if e := tr.Run(&cold, &planner.Node{Speed: 1}); e.Source != planner.SourceDeclared || e.Run != 43*time.Second {
		t.Errorf("a kind that was never seen: %+v", e)
	}
}

// Limits are above all peaks that were measured; what was not trained on keeps what is declared.
func TestMemoryLimits(t *testing.T) {
	line := func(gb float64) float64 { return 1 + 20*gb }
	samples := append(measured("k", 40, 0.3, 3, line), measured("few", 39, 0.3, 4, line)...)
	largest := unit.Bytes(0)
	for _, s := range samples[:40] {
		largest = max(largest, s.Peak)
	}
	model := predict.Fit(samples, 1).Model(predict.Auto)
	for _, c := range []struct {
		name, kind string
		of         predict.Features
		ok         bool
	}{
		{"as trained", "k", predict.Features{Input: 5e8, CPU: 1000, Memory: 1 << 30}, true},
		{"on other cores", "k", predict.Features{Input: 5e8, CPU: 4000, Memory: 1 << 30}, true},
		{"a larger input", "k", predict.Features{Input: 2e9, CPU: 1000, Memory: 1 << 30}, false},
		{"a smaller input", "k", predict.Features{Input: 1e6, CPU: 1000, Memory: 1 << 30}, false},
		{"more is declared", "k", predict.Features{Input: 5e8, CPU: 1000, Memory: 2 << 30}, false},
		{"39 peaks", "few", predict.Features{Input: 5e8, CPU: 1000, Memory: 1 << 30}, false},
		{"never seen", "none", predict.Features{Input: 5e8, CPU: 1000, Memory: 1 << 30}, false},
	} {
		limit, ok := model.MemoryLimit(c.kind, &c.of)
		if ok != c.ok || ok && (limit < largest*12/10 || limit > largest*4) {
			t.Errorf("%s: limit %d, %v; the largest peak is %d", c.name, limit, ok, largest)
		}
	}
}

// Page cache fills a limit: limits do not rise from training to training by it.
func TestPeaksThatReachTheLimitDoNotRaiseIt(t *testing.T) {
	const declared = 2e9
	limit := unit.Bytes(declared)
	for range 5 {
		var samples []predict.Sample
		for range 60 {
			samples = append(samples, predict.Sample{Kind: "k", Ran: time.Second, Peak: limit - 4096,
				Features: predict.Features{Input: 1e9, CPU: 1000, Memory: limit, Speed: 1}})
		}
		model := predict.Fit(samples, 1).Model(predict.Auto)
		next, ok := model.MemoryLimit("k", &predict.Features{Input: 1e9, CPU: 1000, Memory: limit})
		if !ok || next < declared*0.999 || next > declared*1.001 {
			t.Fatalf("limit %d, %v; %d was declared", next, ok, int64(declared))
		}
		limit = next
	}
}

// peaksOf are kinds of peaks, in bytes, by the size of the input in GB.
var peaksOf = map[string]func(r *rand.Rand, gb float64) float64{
	"constant":        lognormal(0),
	"normal":          func(r *rand.Rand, _ float64) float64 { return 1e8 * max(0.05, 1+0.3*r.NormFloat64()) },
	"lognormal 0.05":  lognormal(0.05),
	"lognormal 0.5":   lognormal(0.5),
	"lognormal 1":     lognormal(1),
	"Pareto 3":        pareto(3),
	"Pareto 2":        pareto(2),
	"Pareto 1.5":      pareto(1.5),
	"a quarter is 10": mixed(0.25, 10, 0.05),
	"a seventh is 3":  mixed(1.0/7, 3, 0.05),
	"a 20th is 3":     mixed(0.05, 3, 0.05),
	"a 50th is 3":     mixed(0.02, 3, 0.05),
	"a 100th is 3":    mixed(0.01, 3, 0.05),
	"line":            func(r *rand.Rand, gb float64) float64 { return (0.1 + 2*gb) * lognormal(0.1)(r, gb) },
	"wide line":       func(r *rand.Rand, gb float64) float64 { return (0.1 + 2*gb) * lognormal(0.5)(r, gb) },
	"heavy line":      func(r *rand.Rand, gb float64) float64 { return (0.1 + 2*gb) * pareto(2)(r, gb) },
	"curve":           func(r *rand.Rand, gb float64) float64 { return (0.1 + 3*gb*gb) * lognormal(0.1)(r, gb) },
}

func lognormal(sigma float64) func(r *rand.Rand, gb float64) float64 {
	return func(r *rand.Rand, _ float64) float64 { return 1e8 * math.Exp(sigma*r.NormFloat64()) }
}

func pareto(shape float64) func(r *rand.Rand, gb float64) float64 {
	return func(r *rand.Rand, _ float64) float64 { return 1e8 * math.Pow(1-r.Float64(), -1/shape) }
}

// mixed has a share of tasks that need several times as much as the others.
func mixed(share, times, sigma float64) func(r *rand.Rand, gb float64) float64 {
	return func(r *rand.Rand, _ float64) float64 {
		x := lognormal(sigma)(r, 0)
		if r.Float64() < share {
			x *= times
		}
		return x
	}
}

// withPeaks draws n attempts of kind k.
func withPeaks(r *rand.Rand, n int, peak func(r *rand.Rand, gb float64) float64, declared unit.Bytes) []predict.Sample {
	out := make([]predict.Sample, n)
	for i := range out {
		gb := 0.1 + 0.9*r.Float64()
		out[i] = predict.Sample{Kind: "k", Ran: time.Second, Peak: unit.Bytes(peak(r, gb)),
			Features: predict.Features{Input: unit.Bytes(gb * 1e9), CPU: 1000, Memory: declared, Speed: 1}}
	}
	return out
}

// Of 1,000 attempts that a model was not trained on at most 10 run out of memory in their first try, however the peaks
// are spread, for each of 200 models of each kind of peaks, with few peaks and with many. So much memory is declared
// that no limit is left out for it.
func TestFewAttemptsRunOutOfPredictedMemory(t *testing.T) {
	const declared = 1 << 60
	for name, peak := range peaksOf {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{40, 100, 1000} {
				worst, sum := 0, 0
				for seed := range seedtest.Same(t, 200) {
					r := rand.New(rand.NewPCG(seed, uint64(n)))
					samples := withPeaks(r, n, peak, declared)
					method, kept := predict.ByHistory, unit.Bytes(0)
					if strings.HasSuffix(name, "line") && seed%2 == 1 {
						method = predict.ByRidge
					}
					model, over := predict.FitPeaks(samples, seed, method), 0
					for _, s := range withPeaks(r, 1000, peak, declared) {
						limit, ok := kept, kept > 0 // the median has one limit for all
						if !ok {
							limit, ok = model.MemoryLimit("k", &s.Features)
						}
						if ok && s.Peak > limit {
							over++
						}
						if ok && method == predict.ByHistory {
							kept = limit
						}
					}
					worst, sum = max(worst, over), sum+over
				}
				if t.Logf("%d peaks: %.3f %% ran out of memory, %.1f %% of the worst model", n,
					float64(sum)/float64(10*seedtest.Times(200)), float64(worst)/10); worst > 10 {
					t.Errorf("%d of 1,000 attempts ran out of memory that a model of %d peaks predicted", worst, n)
				}
			}
		})
	}
}

// Where peaks are alike, most of what is declared is saved, also with few peaks.
func TestPredictedMemorySavesWhatIsDeclaredInVain(t *testing.T) {
	const declared = 2e9 // 20 times a usual peak
	for _, c := range []struct {
		kind  string
		n     int
		saved float64 // of what is declared, at least
	}{
		{"constant", 40, 0.7}, {"lognormal 0.05", 40, 0.7}, {"lognormal 0.05", 1000, 0.9}, {"normal", 100, 0.6},
		{"line", 1000, 0.8}, {"Pareto 1.5", 40, 0},
	} {
		r := rand.New(rand.NewPCG(1, uint64(c.n)))
		model := predict.FitPeaks(withPeaks(r, c.n, peaksOf[c.kind], declared), 1, predict.ByRidge)
		sum := 0.0
		for _, s := range withPeaks(r, 1000, peaksOf[c.kind], declared) {
			if limit, ok := model.MemoryLimit("k", &s.Features); ok {
				sum += 1 - float64(limit)/declared
			}
		}
		if t.Logf("%s, %d peaks: %.1f %% saved", c.kind, c.n, sum/10); sum/1000 < c.saved {
			t.Errorf("%s: with %d peaks %.1f %% of the declared memory is saved", c.kind, c.n, sum/10)
		}
	}
}

func TestFewSamplesAreNoReasonToFail(t *testing.T) {
	for n := range 12 {
		for _, method := range predict.Methods() {
			samples := measured("k", n, 0.1, 1, func(float64) float64 { return 5 })
			for i := range samples { // all alike but for the noise
				samples[i].Ran = time.Duration(float64(samples[i].Ran) * samples[i].Features.Speed)
				samples[i].Features = predict.Features{Speed: 1}
			}
			fits := predict.Fit(samples, 1)
			m := fits.Model(method)
			if (m.Kinds["k"] != nil) != (n > 0) {
				t.Fatalf("%d samples: %v", n, m.Kinds)
			}
			for _, s := range fits.Evaluate(measured("other", 3, 0.1, 1, func(float64) float64 { return 5 })) {
				if s.Samples != 3 || math.Abs(*s.Runtime-100) > 30 { // declared, 10 s
					t.Errorf("%d samples of another kind, %s: error %v of %d", n, s.By, *s.Runtime, s.Samples)
				}
			}
			if k := m.Kinds["k"]; k != nil && k.Runtime != nil {
				if p := k.Runtime.Predict(&samples[0].Features); !(p > 3 && p < 7) {
					t.Errorf("%d samples, %s: %v", n, method, p)
				}
			}
		}
	}
}

// What policies ask: a hundred thousand tasks of many sizes, over and over.
func BenchmarkTrainedRun(b *testing.B) {
	for _, method := range []predict.Method{predict.ByRidge, predict.ByPerceptron} {
		b.Run(string(method), func(b *testing.B) {
			model := predict.Fit(measured("k", 300, 0.1, 1, func(gb float64) float64 { return 1 + 20*gb }),
				1).Model(method)
			tr := &predict.Trained{Declared: &predict.Declared{}, Model: model}
			tr.Name(0, "k")
			p := &planner.Platform{Nodes: []planner.Node{{Speed: 1, Capacity: unit.Vector{1000, 1 << 30, 1}}}}
			s := planner.NewState(p, planner.DefaultRetryRules())
			a := &planner.WorkflowArrived{}
			const n = 10_000
			for i := range n {
				a.Files = append(a.Files, planner.File{ID: planner.FileID(i), Size: unit.Bytes(i * 1e5),
					Producer: planner.None})
				a.Tasks = append(a.Tasks, planner.Task{ID: planner.TaskID(i), Need: unit.Vector{1000, 1 << 30, 0},
					Inputs: []planner.FileID{planner.FileID(i)}})
			}
			plannertest.Order(a)
			e := planner.Event{Seq: 1, Body: a}
			if err := s.Apply(e); err != nil {
				b.Fatal(err)
			}
			tr.Observe(s.View(), e)
			v, node := s.View(), &p.Nodes[0]
			i := 0
			for b.Loop() {
				if tr.Run(v.Task(planner.TaskID(i%n)), node).Source != planner.SourceTrained {
					b.Fatal(fmt.Sprint("task ", i%n, " is not predicted"))
				}
				i++
			}
		})
	}
}

// Training on a kind of 1000 samples, cross-validation and all.
func BenchmarkFit(b *testing.B) {
	samples := measured("k", 1000, 0.1, 1, func(gb float64) float64 { return 1 + 20*gb })
	for b.Loop() {
		predict.Fit(samples, 1)
	}
}
