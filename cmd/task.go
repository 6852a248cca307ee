package cmd

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/executor"
	"gantry/sqlite"
	"gantry/trace"
)

// taskFlags are those of gantry submit that say something of a single task only.
func taskFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.Float64Flag{Name: "gpus", Usage: "with --task: `N` GPUs that it holds, or a part of one such as " +
			"0.5"},
		&cli.StringSliceFlag{Name: "need", Usage: "with --task: `NAME[:COUNT]` of a --resource of the server that it " +
			"needs (may be repeated)"},
		&cli.StringSliceFlag{Name: "after", Usage: "with --task: start it once submission `ID` has succeeded; with " +
			"ID:ended once that has ended in any way, with ID:failed once it has failed (may be repeated)"},
		&cli.StringSliceFlag{Name: "input", Usage: "with --task: `FILE` that it reads: an output of an earlier task " +
			"by name, or a file of this directory (may be repeated)"},
		&cli.StringSliceFlag{Name: "output", Usage: "with --task: `FILE` that it writes; it is a result (may be " +
			"repeated)"},
		&cli.StringFlag{Name: "workflow", Usage: "with --task: `NAME` of the workflow that it belongs to (default: " +
			"tasks)"},
		&cli.StringFlag{Name: "kind", Usage: "with --task: `TYPE` by which its runtime is estimated from earlier " +
			"tasks (default: its name)"},
		&cli.DurationFlag{Name: "estimate", Usage: "with --task: `TIME` that it is declared to take, where " +
			"nothing is known of its type"},
		&cli.StringFlag{Name: "stdin", Usage: "with --task: `FILE` that its standard input is read from"},
		&cli.StringFlag{Name: "stdout", Usage: "with --task: `FILE` that its standard output goes to; it is a result"},
		&cli.StringFlag{Name: "stderr", Usage: "with --task: `FILE` that its standard error goes to; it is a result"},
	}, singleFlags("with --task: ")...)
}

// dependencies reads ID, ID:ended and ID:failed.
func dependencies(all []string) (out []api.Dependency, err error) {
	for _, text := range all {
		number, how, given := strings.Cut(text, ":")
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil || id < 1 || given && how != "ended" && how != "failed" {
			return nil, exit.Usagef("--after %s: write the number that gantry submit printed, or as 12:ended or "+
				"12:failed", text)
		}
		out = append(out, api.Dependency{ID: id, Ended: how == "ended", Failed: how == "failed"})
	}
	return out, nil
}

// task makes the submission of the task on the command line.
func (h *handing) task(c *cli.Context) (*api.Task, error) {
	name, programs := c.String("task"), session.Capabilities(h.Runtime).Programs
	if name == "" || c.NArg() == 0 || c.Args().First() == "" {
		return nil, exit.Usagef("submit --task NAME: the name and the command of the task are needed: " +
			"gantry submit --task NAME --image IMAGE -- COMMAND")
	}
	if h.Image == "" && !h.Emulate && programs {
		return nil, exit.Usagef("submit --task %s: name the image that its command runs in with --image", name)
	}
	t := trace.Task{ID: name, Name: name, Kind: cmp.Or(c.String("kind"), name), Command: c.Args().Slice(),
		Image: h.Image, Cores: c.Float64("cpus"), Retries: h.retries, TimeLimit: c.Duration("time-limit"), Env: h.Env,
		Runtime: c.Duration("estimate"), Tokens: strings.Join(c.StringSlice("need"), ","),
		Known: trace.Cores | trace.Command}
	if t.Runtime > 0 {
		t.Known |= trace.Runtime
	}
	var ok bool
	if t.GPUs, ok = trace.GPUs(c.Float64("gpus")); !ok {
		return nil, exit.Usagef("--gpus %g: give a whole number, or a part of a GPU such as 0.5", c.Float64("gpus"))
	}
	readMemory(c, &t)
	if h.Emulate {
		t.Command, t.Image = nil, ""
	}
	w := &trace.Workflow{Name: c.String("workflow"), Label: c.String("workflow"), Source: "gantry submit --task"}
	if len(h.Mounts) > 0 {
		w.Containers, t.Container = []trace.Container{{Name: name, Image: t.Image, Mounts: h.Mounts}}, 1
	}
	if err := taskFiles(c, w, &t); err != nil {
		return nil, err
	}
	w.Tasks = []trace.Task{t}
	trace.Impute(w, trace.Defaults{})
	sub := &executor.Submission{Name: name, Workflow: w}
	if err := h.classify(sub); err != nil {
		return nil, err
	}
	sub.At, sub.Release = sub.Release, 0 // until then it is in no workflow
	if programs {
		if err := locateInputs(c, sub); err != nil {
			return nil, err
		}
	}
	after, err := dependencies(separated(c.StringSlice("after")))
	if err != nil {
		return nil, err
	}
	task := &api.Task{Workflow: w.Name, After: after}
	if task.Definition, err = sqlite.EncodeSubmission(sub); err != nil {
		return nil, exit.Internalf("task %s: %w", name, err)
	}
	return task, nil
}

// taskFiles gives a task its files.
func taskFiles(c *cli.Context, w *trace.Workflow, t *trace.Task) error {
	at := map[string]int32{}
	file := func(flag, name string, written bool) error {
		k, known := at[name]
		switch {
		case !trace.SafeName(name):
			return exit.Usagef("--%s %q: file names are relative and without \"..\"", flag, name)
		case known && (written || w.Files[k].Producer == 0):
			return exit.Usagef("--%s %s: a task reads a file or writes it, once", flag, name)
		case known:
			return nil
		}
		at[name] = int32(len(w.Files))
		f := trace.File{Name: name, Producer: -1}
		if written {
			f.Producer, f.Keep = 0, trace.KeepAlways
			t.Outputs = append(t.Outputs, at[name])
		} else {
			t.Inputs = append(t.Inputs, at[name])
		}
		w.Files = append(w.Files, f)
		return nil
	}
	for _, list := range []struct {
		flag    string
		names   []string
		written bool
	}{{"input", c.StringSlice("input"), false}, {"stdin", []string{c.String("stdin")}, false},
		{"output", c.StringSlice("output"), true}, {"stdout", []string{c.String("stdout")}, true},
		{"stderr", []string{c.String("stderr")}, true}} {
		for _, name := range list.names {
			if name == "" && !c.IsSet(list.flag) {
				continue
			}
			if err := file(list.flag, name, list.written); err != nil {
				return err
			}
		}
	}
	t.Stdin, t.Stdout, t.Stderr = c.String("stdin"), c.String("stdout"), c.String("stderr")
	return nil
}

// locateInputs finds the input files that exist, as the caller may read them. Others have to be outputs of earlier
// tasks, which the server knows.
func locateInputs(c *cli.Context, sub *executor.Submission) error {
	here, err := filepath.Abs(".")
	if err != nil {
		return exit.With(exit.Host, err)
	}
	sub.Inputs = here
	if _, err := locate(c.Context, sub); err != nil {
		return err
	}
	sub.Inputs = ""
	if len(c.StringSlice("after")) > 0 || c.String("workflow") != "" {
		return nil
	}
	for i, x := range sub.Sources {
		if f := &sub.Workflow.Files[i]; f.Producer < 0 && x.Path == "" {
			if _, err := os.Lstat(f.Name); err == nil {
				return exit.Inputf("--input %s: it is in this directory, but you may not read it, or it is no "+
					"ordinary file", f.Name)
			}
			return exit.Inputf("--input %s: it is not in this directory; if an earlier task writes it, name that "+
				"with --after, or their workflow with --workflow", f.Name)
		}
	}
	return nil
}
