package executor_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/trace"
)

// layered is a workflow of about n tasks in levels of random width, each task behind one to three of the level before,
// on one core each.
func layered(r *rand.Rand, n int, mean time.Duration) *trace.Workflow {
	w := &trace.Workflow{Name: "layered", Label: "layered", Tasks: make([]trace.Task, 0, n)}
	first, last := 0, 0 // the level before
	for len(w.Tasks) < n {
		width := min(1+r.IntN(2*int(math.Sqrt(float64(n)))), n-len(w.Tasks))
		begin := len(w.Tasks)
		for range width {
			i := len(w.Tasks)
			run := time.Duration(-math.Log(1-r.Float64())*float64(mean/time.Millisecond)) * time.Millisecond
			w.Tasks = append(w.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: fmt.Sprint("k", i%5), Cores: 1,
				Retries: -1, Runtime: run})
			for range min(1+r.IntN(3), last-first) {
				p := int32(first + r.IntN(last-first))
				if k := len(w.Tasks[p].Children); k > 0 && w.Tasks[p].Children[k-1] == int32(i) {
					continue
				}
				w.Tasks[p].Children = append(w.Tasks[p].Children, int32(i))
				w.Tasks[i].Parents = append(w.Tasks[i].Parents, p)
			}
		}
		first, last = begin, len(w.Tasks)
	}
	return w
}

// mix is a stream like that of Ilyushkin and Epema 2018: three quarters of 30 to 38 tasks, a fifth of 40 to 198, the
// rest of 200 to 600, 70 tasks in the mean, Poisson arrivals at the given utilisation of the given processors.
func mix(seed uint64, workflows, processors int, utilisation float64) (subs []executor.Submission, tasks int) {
	r := rand.New(rand.NewPCG(seed, 3))
	const mean = 52 * time.Second
	var at float64
	for i := range workflows {
		n := 30 + r.IntN(9)
		switch x := r.Float64(); {
		case x > 0.95:
			n = 200 + r.IntN(401)
		case x > 0.75:
			n = 40 + r.IntN(159)
		}
		w := layered(r, n, mean)
		tasks += len(w.Tasks)
		at += -math.Log(1-r.Float64()) * 69.4 * mean.Seconds() / (float64(processors) * utilisation)
		subs = append(subs, executor.Submission{At: planner.Time(at * 1e9), Name: fmt.Sprint("w", i), Workflow: w})
	}
	return subs, tasks
}

func processors(n int) *planner.Platform {
	speeds := make([]float64, n)
	for i := range speeds {
		speeds[i] = 1
	}
	return single(speeds...)
}

func streamEngine(tb testing.TB, p *planner.Platform, spec string, est *predict.Declared,
	subs []executor.Submission) *executor.Engine {
	tb.Helper()
	pol, err := policy.Parse(spec)
	must(tb, err)
	return &executor.Engine{Runtime: sim.New(sim.Config{Platform: p}), Planner: planner.New(p,
		planner.DefaultRetryRules(), pol, est, 1),
		Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: est.Declare,
			Forget: est.Forget},
		Arrivals: append([]executor.Submission(nil), subs...)}
}

// One plan for 1,000 workflows that are present at once, about 70,000 tasks.
func BenchmarkWHEFTPlan(b *testing.B) {
	subs, tasks := mix(1, 1000, 100, 1)
	half := make([]float64, 100)
	for i := range half {
		half[i] = 1.5 - float64(i/50)
	}
	for name, p := range map[string]*planner.Platform{"100x1": processors(100), "1x100": slots(100),
		"50x1.5+50x0.5": single(half...)} {
		for _, spec := range []string{"wheft", "heft"} {
			b.Run(name+"/"+spec, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					est := &predict.Declared{}
					e := streamEngine(b, p, spec, est, nil)
					for i := range subs {
						adm, err := e.Admit.Admit(&subs[i], 0)
						must(b, err)
						must(b, e.Planner.Apply(planner.Event{Seq: uint64(i + 1), Body: &adm.Arrived}))
					}
					b.StartTimer()
					if _, err := e.Planner.Plan(b.Context(), 0); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tasks), "ns/task")
			})
		}
	}
}
