package cmd

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/sqlite/report/columns"
	"gantry/trace"
	"gantry/trace/generate"
)

func generateCommand() *cli.Command {
	return &cli.Command{
		Name:      "generate",
		Usage:     "write a synthetic workflow as WfFormat",
		ArgsUsage: "KIND",
		Description: `KIND is one of --list:

   an application  with the structure, runtimes and file sizes of the Pegasus WorkflowGenerator
   an exemplar     a job of 3DSF's evaluation, such as terasort, pi or telecom
   random          a layered DAG with the parameters of daggen
   mapreduce       a job of N map tasks and a random number of reduce tasks
   mixed           a DAG of tasks on several processors (Wang, MOWS); its costs by cluster need a workload file

The same arguments and seed always give the same file. An application that cannot have exactly the number of tasks
asked for gets slightly fewer, and a line on standard error says so.

Exit codes: 0 written, 2 wrong command line, 4 the file cannot be written.`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "list", Usage: "list the kinds: other names (ALSO), the fewest tasks (LEAST), and " +
				"how many tasks a workflow has if N are asked for (TASKS)"},
			&cli.IntFlag{Name: "tasks", Aliases: []string{"n"}, Usage: "number of tasks"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of all random choices"},
			&cli.DurationFlag{Name: "total-runtime", Usage: "scale runtimes so that they sum to this, such as 1h30m",
				DefaultText: "as generated"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-",
				Usage: "write to `FILE`, - for standard output"},
		}, parameterFlags()...),
		Action: func(c *cli.Context) error {
			if c.Bool("list") {
				if err := refuseBut(c, "--list generates nothing", "list"); err != nil {
					return err
				}
				return listKinds(c.App.Writer)
			}
			w, err := generated(c)
			if err != nil {
				return exit.Usagef("generate: %w", err)
			}
			return writeTo(c.App.Writer, c.String("output"), func(to io.Writer) error {
				return trace.WriteWfFormat(to, w)
			})
		},
	}
}

// generated makes the workflow that the command line asks for.
func generated(c *cli.Context) (*trace.Workflow, error) {
	if c.NArg() != 1 {
		var names []string
		for _, k := range generate.Kinds() {
			names = append(names, k.Name)
		}
		return nil, fmt.Errorf("name one kind of workflow: %s", strings.Join(names, ", "))
	}
	kind, tasks, total := c.Args().First(), c.Int("tasks"), c.Duration("total-runtime")
	k, err := generate.Find(kind)
	switch {
	case err != nil:
		return nil, err
	case !c.IsSet("tasks"):
		return nil, fmt.Errorf("say how many tasks with --tasks; %s takes %d or more", k.Name, k.Least)
	case c.IsSet("total-runtime") && total <= 0:
		return nil, fmt.Errorf("--total-runtime is %v, but has to be above 0", total)
	}
	params, err := parameters(c, &k)
	if err != nil {
		return nil, err
	}
	w, err := generate.New(kind, tasks, c.Uint64("seed"), generate.Options{Parameters: params})
	if err == nil && total > 0 {
		err = generate.Rescale(w, total)
	}
	if err != nil {
		return nil, err
	}
	if n := len(w.Tasks); n != tasks && !strings.EqualFold(kind, "mapreduce") {
		fmt.Fprintf(c.App.ErrWriter, "gantry: %s asked for with %d tasks has %d\n", strings.ToLower(w.Name), tasks, n)
	}
	return w, nil
}

// parameterFlags are the parameters that kinds declare. Of one that two kinds share the usage has both.
func parameterFlags() (flags []cli.Flag) {
	for _, key := range generate.Keys() {
		var usage, usual []string
		var p *generate.Param
		var truth bool
		names := generate.KindsWith(key)
		for _, name := range names {
			k, _ := generate.Find(name)
			p = k.Param(key)
			about, value := p.About, ""
			value, truth = k.Default(p)
			if len(names) > 1 {
				about, value = name+": "+about, value+" ("+name+")"
			}
			usage, usual = append(usage, about), append(usual, value)
		}
		of, about := "parameters of "+strings.Join(names, " and "), strings.Join(usage, "; ")
		switch {
		case p.NoFlag:
		case truth:
			flags = append(flags, &cli.BoolFlag{Name: p.Flag(), Category: of, Usage: about})
		default:
			flags = append(flags, &cli.StringFlag{Name: p.Flag(), Category: of, Usage: "`" + p.Value + "`: " + about,
				DefaultText: strings.Join(usual, ", ")})
		}
	}
	return flags
}

func parameters(c *cli.Context, k *generate.Kind) (generate.Parameters, error) {
	choices := k.Choices()
	for _, key := range generate.Keys() {
		flag := strings.ReplaceAll(key, "_", "-")
		if !c.IsSet(flag) {
			continue
		}
		if k.Param(key) == nil {
			return nil, fmt.Errorf("--%s is for %s, not for %s", flag, strings.Join(generate.KindsWith(key), " and "),
				k.Name)
		}
		if err := choices.Set(key, fmt.Sprint(c.Value(flag))); err != nil {
			return nil, errors.New("--" + strings.Replace(err.Error(), key, flag, 1))
		}
	}
	if choices == nil {
		return nil, nil
	}
	return choices.Parameters(rand.New(rand.NewPCG(0, 0))), nil
}

func listKinds(out io.Writer) error {
	rows := [][]string{{"KIND", "ALSO", "LEAST", "TASKS", "WHAT IT IS"}}
	for _, k := range generate.Kinds() {
		rows = append(rows, []string{k.Name, k.Also, strconv.Itoa(k.Least), k.Count, k.About})
	}
	return columns.Print(out, 0, "", rows, nil) // whole lines are folded to the terminal
}
