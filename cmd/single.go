package cmd

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/sqlite"
	"gantry/sqlite/report/summary"
	"gantry/trace"
	"gantry/trace/shown"
)

// commandWord is the first argument of gantry run if a command follows.
const commandWord = "--"

func ofCommand(c *cli.Context) bool { return c.Args().First() == commandWord }

// singleFlags are the demands of commands that no workflow tells.
func singleFlags(when string) []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Name: "cpus", Value: 1, Usage: when + "`CORES` that it may use"},
		sizeFlag("memory", "", when+"`SIZE` of memory that it may use, such as 1G (default: the share of a node by "+
			"cores)"),
		&cli.DurationFlag{Name: "time-limit", Usage: when + "`TIME` after which it is ended, such as 2h"},
	}
}

// single is the command of the command line as a workflow. It works in the current directory.
func single(c *cli.Context, set *session.Settings) (*trace.Workflow, error) {
	argv := c.Args().Tail()
	if len(argv) == 0 || argv[0] == "" {
		return nil, exit.Usagef("run --: a command is needed: gantry run --image IMAGE -- COMMAND")
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	here = withoutLinks(here)
	user := stage.ProgramUser()
	_, err = user.Rights().Directory(here, true)
	writes := err == nil
	if !writes {
		if _, err := user.Rights().Directory(here, false); err != nil {
			return nil, exit.Hostf("run -- in %s: %w", here, err)
		}
		fmt.Fprintf(c.App.ErrWriter, "warning: the command runs as user %d, and may only read %s\n", user.UID, here)
	}
	set.Mounts = append(set.Mounts, executor.InPlace(here, writes))
	t := trace.Task{ID: cmp.Or(executor.EscapeName(filepath.Base(argv[0])), "command"), Cores: c.Float64("cpus"),
		Retries: -1, TimeLimit: c.Duration("time-limit"), Known: trace.Cores | trace.Command,
		Command: slices.Concat([]string{"/bin/sh", "-c", `cd "$0" && exec "$@"`, here}, argv)}
	t.Name, t.Kind = t.ID, t.ID
	if n := c.Int("retries"); n > 0 {
		t.Retries = n
	}
	readMemory(c, &t)
	w := &trace.Workflow{Name: "command", Label: "command", Source: "gantry run --", Tasks: []trace.Task{t}}
	trace.Impute(w, trace.Defaults{})
	return w, nil
}

// readMemory gives a task the memory of the command line, if that says it.
func readMemory(c *cli.Context, t *trace.Task) {
	if t.MemoryBytes = sizeOf(c, "memory"); t.MemoryBytes > 0 {
		t.Known |= trace.Memory
	}
}

// runSingle runs the command of the command line, and prints its output as it comes.
func runSingle(c *cli.Context, set *session.Settings) error {
	w, err := single(c, set)
	if err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return begin(c, set, sqlite.Durable, c.String("name"), w)
	}
	name := cmp.Or(c.String("name"), session.NewName())
	if err := c.Set("quiet", "true"); err != nil { // all output is that of the command
		return exit.With(exit.Internal, err)
	}
	over, told := make(chan struct{}), sync.WaitGroup{}
	told.Go(func() { tellOutput(c, name, w, over) })
	err = begin(c, set, sqlite.Durable, name, w)
	close(over)
	told.Wait()
	if exit.CodeOf(err) == exit.TasksFailed {
		err = exit.With(exit.TasksFailed, fmt.Errorf("%s; more: gantry explain %s %s", whyFailed(c, name), name,
			w.Tasks[0].Name))
	}
	return err
}

// whyFailed is how the command of a run failed, which its output may not say.
func whyFailed(c *cli.Context, run string) string {
	db, err := openLog(c)
	if err != nil {
		return err.Error()
	}
	defer db.Close()
	s, err := summary.Of(c.Context, db, run)
	switch {
	case err != nil:
		return err.Error()
	case len(s.Failures) == 0:
		return "the command failed"
	}
	return how(s.Failures[0].Outcome, s.Failures[0].ExitCode, shown.Line(s.Failures[0].Message))
}

// tellOutput prints the output of all attempts of a command until they are over.
func tellOutput(c *cli.Context, run string, w *trace.Workflow, over <-chan struct{}) {
	to := streamsTo(c)
	defer tellDropped(c, to, &sqlite.Attempt{})
	for try, last := 1, false; !last; {
		select {
		case <-over:
			last = true
		case <-time.After(followEvery):
		}
		for next := true; next; {
			_, err := os.Stat(workDir(c.String("dir"), run, w.Name, w.Tasks[0].ID, try+1))
			next = err == nil
			for _, s := range to {
				// An output that cannot be read was not written.
				_ = s.more(workDir(c.String("dir"), run, w.Name, w.Tasks[0].ID, try))
				if next {
					s.at = 0
				}
			}
			if next {
				try++
			}
		}
	}
}
