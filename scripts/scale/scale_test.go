// Package scale simulates 100,000 tasks on 1,000 nodes, 100 of which end each second, under every greedy policy and
// fifo, and measures the cost of a run of that size in gantry: the time to plan a round, the time to log a turn, and
// memory. It fails if a round takes too long for the events in it, if the log could not keep up, or if memory is not
// bounded. docs/scale.md has the figures of a run.
package scale

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/scripts/measure"
	"gantry/sqlite"
	"gantry/trace"
)

// greedy are the policies that plan for the present instant only.
const greedy = "gbf,cpp,owm,fdws,hr,fwp,fifo,edf,3dsf,pds,dla,drf,capacity"

const (
	nodes, cores = 1000, 4 // cores of a node
	tasks        = 100_000 // of one core each
	rate         = 100.0   // ends a second
	seed         = 1
	most         = 10 * time.Millisecond // the longest that planning may take for an event
	memory       = 1500                  // MB
)

var large = flag.Bool("large", false, "simulate")

func TestScale(t *testing.T) {
	if !*large {
		t.Skip("it takes ten minutes: make scale runs it")
	}
	if err := run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func run(ctx context.Context) error {
	fmt.Printf("%d tasks on %d nodes of %d cores, %g ends a second; CPU time of the planner, wall-clock time of the "+
		"log\n\n", tasks, nodes, cores, rate)
	measure.Head(os.Stdout, "---", "load", "policy", "rounds", "mean, ms", "99 %, ms", "longest, ms",
		"longest for an event, ms", "log: a turn, ms", "log: most ends/s", "memory, MB")
	var errs []error
	for _, load := range []string{"stream", "flood"} {
		for i, spec := range strings.Split(greedy, ",") {
			// The log does not depend on the policy, so it is measured once for each load.
			r, err := simulate(ctx, load, spec, i == 0)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", load, spec, err)
			}
			logged := "| – | –"
			if i == 0 {
				logged = fmt.Sprintf("| %.2f | %.0f", ms(r.logTurn), r.logRate)
			}
			fmt.Printf("| %s | `%s` | %d | %.3f | %.3f | %.2f | %.2f %s | %d |\n", load, spec, len(r.took),
				ms(r.mean), ms(r.p99), ms(r.longest), ms(r.perEvent), logged, r.memory)
			miss := func(is bool, format string, args ...any) {
				if is {
					errs = append(errs, fmt.Errorf("%s, %s: %s", load, spec, fmt.Sprintf(format, args...)))
				}
			}
			miss(r.perEvent > most, "a round took %v for each event in it, over %v", r.perEvent, most)
			miss(i == 0 && r.logRate < rate, "the log keeps up with %.0f ends a second only", r.logRate)
			miss(r.memory > memory, "%d MB of memory, over %d", r.memory, memory)
			miss(r.ended != tasks, "%d tasks ended, of %d", r.ended, tasks)
		}
	}
	return errors.Join(errs...)
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// result has the measurements of a simulation.
type result struct {
	took                         []time.Duration // of each round
	mean, p99, longest, perEvent time.Duration
	logTurn                      time.Duration // mean of a transaction
	logRate                      float64       // ends a second that the log could take
	memory                       int           // MB, the most of the heap and the stacks
	ended                        int
	appending                    time.Duration
	turns                        int
}

// timed is a log whose transactions are timed, or none.
type timed struct {
	log executor.Store
	r   *result
}

func (t timed) Append(ctx context.Context, b executor.Batch) error {
	t.r.turns++
	if t.log == nil {
		return nil
	}
	begun := time.Now()
	err := t.log.Append(ctx, b)
	t.r.appending += time.Since(begun)
	return err
}

// simulate simulates a load under a policy, with a log as durable as that of gantry run.
func simulate(ctx context.Context, load, spec string, logged bool) (r result, err error) {
	// The planner's time is that of its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	info := sqlite.RunInfo{Name: "scale", Runtime: "null", Policy: spec, Command: os.Args, Version: "scale",
		Started: time.Now(), Seed: seed, TimeScale: 1, SizeScale: 1, Platform: platform()}
	store := timed{r: &r}
	if logged {
		dir, err := os.MkdirTemp("", "gantry-scale")
		if err != nil {
			return r, err
		}
		defer os.RemoveAll(dir)
		db, err := sqlite.Open(filepath.Join(dir, sqlite.FileName), sqlite.Durable)
		if err != nil {
			return r, err
		}
		defer db.Close()
		log, err := db.CreateRun(ctx, info)
		if err != nil {
			return r, err
		}
		defer log.Close()
		defer func() { err = errors.Join(err, log.Finish(ctx, sqlite.Finished, 0)) }()
		store.log = log
	}
	e, err := measure.Engine(&info)
	if err != nil {
		return r, err
	}
	e.Runtime, e.Store = sim.New(sim.Config{Platform: &info.Platform}), store
	e.Wall, e.Arrivals = executor.ThreadTime, submissions(load)
	e.Watch = func(_ planner.View, events []planner.Event, _ []*executor.Admission) {
		news := 0 // arrivals and ends that the round heard of
		for _, ev := range events {
			switch body := ev.Body.(type) {
			case *planner.WorkflowArrived:
				news++
			case *planner.AttemptExited:
				news++
				r.ended++
			case *planner.PlanCommitted:
				r.took = append(r.took, body.Took)
				r.perEvent = max(r.perEvent, body.Took/time.Duration(max(1, news)))
			}
		}
		if r.turns%1000 == 0 {
			r.memory = max(r.memory, inUse())
		}
	}
	if _, err := e.Run(ctx); err != nil {
		return r, err
	}
	r.memory = max(r.memory, inUse())
	slices.Sort(r.took)
	var sum time.Duration
	for _, d := range r.took {
		sum += d
	}
	r.mean, r.p99 = sum/time.Duration(len(r.took)), r.took[len(r.took)*99/100]
	r.longest = r.took[len(r.took)-1]
	r.logTurn, r.logRate = r.appending/time.Duration(r.turns), float64(r.ended)/r.appending.Seconds()
	runtime.GC() // the next one begins as this one did
	return r, nil
}

// inUse is the memory of gantry, in MB, garbage included.
func inUse() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int((m.HeapInuse + m.StackInuse) >> 20)
}

func platform() planner.Platform {
	p := planner.Platform{Groups: []string{""}}
	for i := range nodes {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("n", i+1),
			Speed: 1 + float64(i%5)/10, Capacity: unit.Vector{unit.CPU: cores * 1000, unit.Memory: 16 << 30,
				unit.Disk: unit.Unlimited}})
	}
	return p
}

// submissions makes the workflows: a stream of 1,000, of layers, that arrive as fast as the nodes can take them; or a
// flood of 100, of independent tasks, that arrive in the first seconds, so that up to all tasks are ready.
func submissions(kind string) (subs []executor.Submission) {
	r := rand.New(rand.NewPCG(seed, 11))
	mean := float64(nodes*cores) / rate * 1.2 // seconds on a node of speed 1; the mean speed is 1.2
	workflows, span := 1000, float64(tasks)/rate
	if kind == "flood" {
		workflows, span = 100, 5
	}
	for i := range workflows {
		n := tasks*(i+1)/workflows - tasks*i/workflows
		w := &trace.Workflow{Name: fmt.Sprint("w", i), Label: "w", Tasks: make([]trace.Task, n)}
		const layer = 10
		for t := range w.Tasks {
			w.Tasks[t] = trace.Task{ID: fmt.Sprint("t", t), Kind: fmt.Sprint("k", t%5), Cores: 1, Retries: -1,
				Runtime: time.Duration(-math.Log(1-r.Float64())*mean*1e3) * time.Millisecond}
			if kind == "stream" && t >= layer {
				p := (t/layer-1)*layer + r.IntN(layer)
				w.Tasks[p].Children = append(w.Tasks[p].Children, int32(t))
				w.Tasks[t].Parents = append(w.Tasks[t].Parents, int32(p))
			}
		}
		subs = append(subs, executor.Submission{At: planner.Time(span * float64(i) / float64(workflows) * 1e9),
			Name: w.Name, Tenant: fmt.Sprint("tenant", i%8), Workflow: w})
	}
	return subs
}
