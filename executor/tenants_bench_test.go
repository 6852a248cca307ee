package executor_test

import (
	"os"
	"testing"

	"gantry/executor"
	"gantry/executor/experiment/load"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/trace/scenario"
)

// 30,000 jobs of three tasks on the cluster of 3DSF, section 9: the largest load of its figures 9 to 13.
func BenchmarkThirtyThousandJobs(b *testing.B) {
	open := func(path string) *os.File {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
		return f
	}
	const dir = "../examples/experiments/3dsf/"
	cluster, err := scenario.ReadCluster(open(dir+"cluster.yaml"), "cluster.yaml")
	if err != nil {
		b.Fatal(err)
	}
	p, err := executor.PlatformOf(cluster)
	if err != nil {
		b.Fatal(err)
	}
	w, err := scenario.ReadWorkload(open(dir+"terasort.yaml"), dir+"terasort.yaml")
	if err != nil {
		b.Fatal(err)
	}
	w.Stream.Count = 30_000
	subs, err := load.Submissions(w, p, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, spec := range []string{"capacity", "drf", "pds", "3dsf:large=1"} {
		b.Run(spec, func(b *testing.B) {
			for b.Loop() {
				pol, err := policy.Parse(spec)
				if err != nil {
					b.Fatal(err)
				}
				declared := &predict.Declared{}
				e := &executor.Engine{Planner: planner.New(p, planner.DefaultRetryRules(), pol, declared, 1),
					Runtime: sim.New(sim.Config{Platform: p}),
					Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: declared.Declare,
						Forget: declared.Forget},
					Arrivals: append([]executor.Submission(nil), subs...)}
				res, err := e.Run(b.Context())
				if err != nil || len(res.Refused) > 0 {
					b.Fatal(err, res.Refused)
				}
			}
		})
	}
}
