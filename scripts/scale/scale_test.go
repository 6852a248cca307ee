// Package scale simulates 100,000 tasks on 1,000 nodes, 100 of which end each second, under every greedy policy and
// fifo, and measures the cost of a run of that size in gantry: the time to plan a round, the time to log a turn, and
// memory. It fails if a round takes longer than -most for each event in it, if the log could not keep up, or if memory
// is not bounded. docs/scale.md has the figures of a run.
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

type options struct {
	nodes, tasks int
	rate         float64 // ends a second
	policies     string
	seed         uint64
	most         time.Duration
	memory       int // MB
}

var (
	large = flag.Bool("large", false, "simulate")
	o     options
)

func init() {
	flag.IntVar(&o.nodes, "nodes", 1000, "nodes, of four cores each")
	flag.IntVar(&o.tasks, "tasks", 100_000, "tasks, of one core each")
	flag.Float64Var(&o.rate, "rate", 100, "tasks that end in a second")
	flag.StringVar(&o.policies, "policies", greedy, "policies, separated by commas")
	flag.Uint64Var(&o.seed, "seed", 1, "of runtimes and structures")
	flag.DurationVar(&o.most, "most", 10*time.Millisecond, "the longest that planning may take for an event")
	flag.IntVar(&o.memory, "memory", 1500, "the most memory, in MB")
}

func TestScale(t *testing.T) {
	if !*large {
		t.Skip("it takes ten minutes: make scale runs it")
	}
	if err := o.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const cores = 4 // of a node

func (o *options) run(ctx context.Context) error {
	if o.nodes < 1 || o.tasks < 1000 || o.rate <= 0 {
		return errors.New("-nodes: 1 or more, -tasks: 1000 or more, -rate: more than 0")
	}
	fmt.Printf("%d tasks on %d nodes of %d cores, %g ends a second; CPU time of the planner, wall-clock time of the "+
		"log\n\n", o.tasks, o.nodes, cores, o.rate)
	measure.Head(os.Stdout, "---", "load", "policy", "rounds", "mean, ms", "99 %, ms", "longest, ms",
		"longest for an event, ms", "log: a turn, ms", "log: most ends/s", "memory, MB")
	var errs []error
	for _, load := range []string{"stream", "flood"} {
		for i, spec := range strings.Split(o.policies, ",") {
			// The log does not depend on the policy, so it is measured once for each load.
			r, err := o.measure(ctx, load, spec, i == 0)
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
			miss(r.perEvent > o.most, "a round took %v for each event in it, over %v", r.perEvent, o.most)
			miss(i == 0 && r.logRate < o.rate, "the log keeps up with %.0f ends a second only", r.logRate)
			miss(r.memory > o.memory, "%d MB of memory, over %d", r.memory, o.memory)
			miss(r.ended != o.tasks, "%d tasks ended, of %d", r.ended, o.tasks)
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

// measure simulates a load under a policy, with a log as durable as that of gantry run.
func (o *options) measure(ctx context.Context, load, spec string, logged bool) (r result, err error) {
	// The planner's time is that of its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	info := sqlite.RunInfo{Name: "scale", Runtime: "null", Policy: spec, Command: os.Args, Version: "scale",
		Started: time.Now(), Seed: int64(o.seed), TimeScale: 1, SizeScale: 1, Platform: o.platform()}
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
	e.Wall, e.Arrivals = executor.ThreadTime, o.load(load)
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

func (o *options) platform() planner.Platform {
	p := planner.Platform{Groups: []string{""}}
	for i := range o.nodes {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("n", i+1),
			Speed: 1 + float64(i%5)/10, Capacity: unit.Vector{unit.CPU: cores * 1000, unit.Memory: 16 << 30,
				unit.Disk: unit.Unlimited}})
	}
	return p
}

// load makes the workflows: a stream of 1,000, of layers, that arrive as fast as the nodes can take them; or a flood
// of 100, of independent tasks, that arrive in the first seconds, so that up to all tasks are ready.
func (o *options) load(kind string) (subs []executor.Submission) {
	r := rand.New(rand.NewPCG(o.seed, 11))
	mean := float64(o.nodes*cores) / o.rate * 1.2 // seconds on a node of speed 1; the mean speed is 1.2
	workflows, span := 1000, float64(o.tasks)/o.rate
	if kind == "flood" {
		workflows, span = 100, 5
	}
	for i := range workflows {
		n := o.tasks*(i+1)/workflows - o.tasks*i/workflows
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
