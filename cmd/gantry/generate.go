package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/trace"
	"gantry/trace/generate"
)

type generateOptions struct {
	kind, format, out string
	tasks             int
	seed              uint64
	total             time.Duration
	random            generate.Daggen
	reduce            generate.MapReduce
	mixed             generate.Mixed
	ccr               float64
	processors        string
}

func generateCommand() *cli.Command {
	o := generateOptions{random: generate.DefaultDaggen, reduce: generate.DefaultMapReduce,
		mixed: generate.DefaultMixed}
	list := false
	const ofRandom, ofJobs, ofMixed = "random workflows", "MapReduce jobs", "mixed-parallel workflows"
	return &cli.Command{
		Name:      "generate",
		Usage:     "write a synthetic workflow as DAX or WfFormat",
		ArgsUsage: "KIND",
		Description: `KIND is one of --list:

   an application  with the structure, runtimes and file sizes of the Pegasus WorkflowGenerator
   random          a layered DAG with the parameters of daggen
   mapreduce       a job of N map tasks and a random number of reduce tasks
   mixed           a DAG of tasks on several processors (Wang, MOWS); its costs by cluster need a workload file

The same arguments and seed always give the same file. An application that cannot have exactly the number of tasks
asked for gets slightly fewer, and a line on standard error says so.

Exit codes: 0 written, 2 wrong command line, 4 the file cannot be written.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "list", Usage: "list the kinds and their sizes", Destination: &list},
			&cli.IntFlag{Name: "tasks", Aliases: []string{"n"}, Usage: "number of tasks", Destination: &o.tasks},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of all random choices", Destination: &o.seed},
			&cli.DurationFlag{Name: "total-runtime", Usage: "scale runtimes so that they sum to this, such as 1h30m",
				DefaultText: "as generated",
				Destination: &o.total},
			&cli.StringFlag{Name: "format", Usage: "dax or wfformat", DefaultText: "by the ending of FILE, else dax",
				Destination: &o.format},
			&cli.StringFlag{Name: "o", Aliases: []string{"output"}, Value: "-",
				Usage: "write to `FILE`, - for standard output", Destination: &o.out},
			&cli.Float64Flag{Name: "fat", Category: ofRandom, Value: o.random.Fat,
				Usage:       "width: a level has about tasks^fat tasks, 0 to 1",
				Destination: &o.random.Fat},
			&cli.Float64Flag{Name: "density", Category: ofRandom, Value: o.random.Density,
				Usage:       "share of the level before that a task may depend on, 0 to 1",
				Destination: &o.random.Density},
			&cli.Float64Flag{Name: "regular", Category: ofRandom, Value: o.random.Regular,
				Usage:       "1: levels of one size, 0: up to twice as large or tiny",
				Destination: &o.random.Regular},
			&cli.IntFlag{Name: "jump", Category: ofRandom, Value: o.random.Jump,
				Usage: "how many levels a dependency may span", Destination: &o.random.Jump},
			&cli.Float64Flag{Name: "ccr", Category: ofRandom,
				Usage: "work on data of size d: 1 a·d, 2 a·d·log d, 3 d^1.5, 0 a mix; of mixed: mean communication " +
					"cost " +
					"(at 1 MB/s) over mean computation cost", DefaultText: "0; of mixed: 1", Destination: &o.ccr},
			&cli.Float64Flag{Name: "shape", Category: ofMixed, Value: o.mixed.Shape,
				Usage:       "above 1 short with many tasks side by side, below 1 long",
				Destination: &o.mixed.Shape},
			&cli.IntFlag{Name: "out-degree", Category: ofMixed, Value: o.mixed.OutDegree,
				Usage: "most immediate descendants of a task", Destination: &o.mixed.OutDegree},
			&cli.Float64Flag{Name: "wdag", Category: ofMixed, Value: o.mixed.WDAG,
				Usage: "mean cost of the tasks, in seconds", Destination: &o.mixed.WDAG},
			&cli.StringFlag{Name: "processors", Category: ofMixed, Value: fmt.Sprintf("%d..%d", o.mixed.Processors[0],
				o.mixed.Processors[1]),
				Usage: "how many a task takes, such as 4 or 1..4", Destination: &o.processors},
			&cli.DurationFlag{Name: "map-time", Category: ofJobs, Value: o.reduce.LongestMap,
				Usage:       "longest map time: whole seconds up to it are equally likely",
				Destination: &o.reduce.LongestMap},
			&cli.BoolFlag{Name: "slots", Category: ofJobs,
				Usage:       "reduce tasks take memory and map tasks a core: slots of their own",
				Destination: &o.reduce.Slots},
		},
		Action: func(c *cli.Context) error {
			if list {
				return listKinds(c.App.Writer)
			}
			if c.Args().Len() != 1 {
				return failf(exitUsage, "generate: name one kind of workflow: %s", kindNames())
			}
			o.kind = c.Args().First()
			k, err := generate.Find(o.kind)
			if err != nil {
				return failf(exitUsage, "generate: %w", err)
			}
			if !c.IsSet("tasks") {
				return failf(exitUsage, "generate: say how many tasks with --tasks; %s takes %d or more", k.Name,
					k.Least)
			}
			if c.IsSet("total-runtime") && o.total <= 0 {
				return failf(exitUsage, "generate: --total-runtime is %v, but has to be above 0", o.total)
			}
			for _, name := range []string{"shape", "out-degree", "wdag", "processors"} {
				if c.IsSet(name) && k.Name != "mixed" {
					return failf(exitUsage, "generate: --%s is for mixed", name)
				}
			}
			if err := o.readMixed(c.IsSet("ccr"), k.Name); err != nil {
				return failf(exitUsage, "generate: %w", err)
			}
			for _, name := range []string{"fat", "density", "regular", "jump", "ccr"} {
				if c.IsSet(name) && k.Name != "random" && (name != "ccr" || k.Name != "mixed") {
					return failf(exitUsage, "generate: --%s is for random workflows; the structure of %s follows "+
						"from the number of tasks", name, k.Name)
				}
			}
			for _, name := range []string{"map-time", "slots"} {
				if c.IsSet(name) && k.Name != "mapreduce" {
					return failf(exitUsage, "generate: --%s is for mapreduce", name)
				}
			}
			return writeGenerated(o, raw(c), c.App.ErrWriter)
		},
	}
}

// readMixed reads what mixed and random share, and the range of processors.
func (o *generateOptions) readMixed(ccr bool, kind string) error {
	switch {
	case ccr && kind == "mixed":
		o.mixed.CCR = o.ccr
	case ccr && o.ccr != math.Trunc(o.ccr):
		return fmt.Errorf("--ccr is %v, but of random workflows has to be 0, 1, 2 or 3", o.ccr)
	case ccr:
		o.random.CCR = int(o.ccr)
	}
	low, high, ok := strings.Cut(o.processors, "..")
	if !ok {
		high = low
	}
	least, err := strconv.Atoi(low)
	most, err2 := strconv.Atoi(high)
	if err != nil || err2 != nil {
		return fmt.Errorf("--processors is %q, but has to be a number such as 4, or a range such as 1..4", o.processors)
	}
	o.mixed.Processors = [2]int{least, most}
	return nil
}

func kindNames() string {
	var names []string
	for _, k := range generate.Kinds() {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

func listKinds(out io.Writer) error {
	var table strings.Builder // whole lines are folded to the terminal
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tALSO\tLEAST\tTASKS\tWHAT IT IS")
	for _, k := range generate.Kinds() {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", k.Name, k.Also, k.Least, k.Count, k.About)
	}
	t.Flush()
	_, err := io.WriteString(out, table.String())
	return err
}

func writeGenerated(o generateOptions, out, notes io.Writer) error {
	if o.format == "" {
		o.format = "dax"
		if strings.EqualFold(filepath.Ext(o.out), ".json") {
			o.format = "wfformat"
		}
	}
	write := map[string]func(io.Writer, *trace.Workflow) error{"dax": trace.WriteDAX,
		"wfformat": trace.WriteWfFormat}[o.format]
	if write == nil {
		return failf(exitUsage, "generate: unknown format %q; there are dax and wfformat", o.format)
	}
	w, err := generate.New(o.kind, o.tasks, o.seed, generate.Options{Daggen: &o.random, MapReduce: &o.reduce,
		Mixed: &o.mixed})
	if err != nil {
		return failf(exitUsage, "generate: %w", err)
	}
	if o.total > 0 {
		if err := generate.Rescale(w, o.total); err != nil {
			return failf(exitUsage, "generate: %w", err)
		}
	}
	if n := len(w.Tasks); n != o.tasks && !strings.EqualFold(o.kind, "mapreduce") {
		fmt.Fprintf(notes, "gantry: %s asked for with %d tasks has %d\n", strings.ToLower(w.Name), o.tasks, n)
	}
	if o.out == "-" {
		to := bufio.NewWriter(out)
		if err = write(to, w); err == nil {
			err = to.Flush()
		}
		if err != nil {
			return failf(exitHost, "writing %s: %w", w.Label, err)
		}
		return nil
	}
	if err := writeWhole(o.out, func(f io.Writer) error { return write(f, w) }); err != nil {
		return failf(exitHost, "writing %s: %w", o.out, err)
	}
	return nil
}
