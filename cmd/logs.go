package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/executor/lock"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/trace/shown"
)

// followEvery is how often logs -f looks for more.
const followEvery = 200 * time.Millisecond

func logsCommand() *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print the output of a task: its standard output, then its standard error",
		ArgsUsage: "[RUN] TASK",
		Description: `Without RUN it is the latest run. TASK is the name of a task in its trace, WORKFLOW/NAME if
several workflows have it, or #ID; gantry show --tasks lists them. RUN may be the number of a submission to a server; of
one that has a single task it is enough. Standard output of the
task goes to standard output, its standard error to standard error. On a terminal, control characters are
made visible (^[ for escape); in a pipe or a file, all bytes are as the task wrote them.

   gantry logs RUN TASK
   gantry logs --follow TASK
   gantry logs --attempt 1 RUN TASK 2>/dev/null
   gantry logs --command TASK               the command that it ran

Exit codes: 0 printed, 2 wrong command line, 3 no such run, task or attempt, 4 the files cannot be read.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.IntFlag{Name: "attempt", Usage: "attempt `N` from 1 (default: the last)"},
			&cli.BoolFlag{Name: "command", Usage: "print the command of the task instead, as its workflow has it"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "continue until the attempt has ended"},
		},
		Action: logs,
	}
}

// findTask finds the task that the arguments [RUN] TASK name. The caller closes the log.
func findTask(c *cli.Context) (*sqlite.DB, *sqlite.Life, error) {
	args := c.Args().Slice()
	switch len(args) {
	case 1:
		args = []string{"", args[0]}
	case 2:
	default:
		return nil, nil, exit.Usagef("usage: gantry %s [RUN] TASK", c.Command.Name)
	}
	db, err := openLog(c, c.Args().First())
	if err != nil {
		return nil, nil, err
	}
	if c.NArg() == 1 && db.OfOne() {
		if args, err = onlyTask(c, db); err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
	}
	life, err := taskOf(c, db, args[0], args[1])
	if err == nil {
		return db, life, nil
	}
	return nil, nil, errors.Join(err, db.Close())
}

// taskOf reads a task, with its command and its files.
func taskOf(c *cli.Context, db *sqlite.DB, run, task string) (*sqlite.Life, error) {
	life, err := db.Task(c.Context, run, task)
	if err != nil {
		return nil, session.LogError(err)
	}
	t, err := db.Spec(c.Context, life)
	if err != nil || t == nil {
		return life, session.LogError(err)
	}
	life.Command, life.Inputs, life.Outputs = executor.Written(t), fileNames(t.Inputs), fileNames(t.Outputs)
	return life, nil
}

func fileNames(files []*executor.FileSpec) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return names
}

// onlyTask names the task of a submission that has only one, as the arguments of findTask.
func onlyTask(c *cli.Context, db *sqlite.DB) (args []string, err error) {
	id := c.Args().First()
	_, run, err := db.Find(c.Context, id)
	if err != nil {
		return nil, session.LogError(err)
	}
	names, err := sqlite.RowsOf[string](c.Context, db, "SELECT workflow || '/' || task FROM v_tasks WHERE run = ?", run)
	if err != nil {
		return nil, session.LogError(err)
	}
	if len(names) != 1 {
		return nil, exit.Usagef("submission %s has %s: name one with gantry %s %s TASK; gantry show --tasks %s "+
			"lists them", id, term.Plural(len(names), "task"), c.Command.Name, id, id)
	}
	return []string{id, names[0]}, nil
}

func workDir(home, run, workflow, task string, try int) string {
	return filepath.Join(home, run, "work", executor.EscapeName(workflow),
		executor.EscapeName(task)+"-"+strconv.Itoa(try))
}

func logs(c *cli.Context) error {
	db, life, err := findTask(c)
	if err != nil {
		return err
	}
	defer db.Close()
	if c.Bool("command") {
		fmt.Fprintln(term.Screened(c.App.Writer, os.Stdout), cmp.Or(life.Command, "emulated"))
		return nil
	}
	if !session.Capabilities(life.Runtime).Programs {
		return exit.Inputf("run %s was on %s: no program ran, so there is no output", life.Run, life.Runtime)
	}
	if n := len(life.Reuses); len(life.Attempts) == 0 && n > 0 && life.Reuses[n-1].Try != nil {
		u := &life.Reuses[n-1]
		return exit.Inputf("task %s of run %s %s: gantry logs %s %s", life.Task, life.Run, reused(u), u.Run, u.Task)
	}
	if len(life.Attempts) == 0 {
		return exit.Inputf("task %s of run %s has not been started (it is %s): gantry explain %s %s says why",
			life.Task, life.Run, life.State, life.Run, life.Task)
	}
	attempt := life.Last()
	if try := c.Int("attempt"); c.IsSet("attempt") {
		k := slices.IndexFunc(life.Attempts, func(a sqlite.Attempt) bool { return a.Try == try })
		if k < 0 {
			return exit.Inputf("task %s of run %s has %s, no attempt %d", life.Task, life.Run,
				term.Plural(len(life.Attempts), "attempt"), try)
		}
		attempt = &life.Attempts[k]
	}
	dir := workDir(c.String("dir"), life.Run, life.Workflow, life.Task, attempt.Try)
	streams := streamsTo(c)
	defer tellDropped(c, streams, attempt)
	ctx, stop := exit.OnSignal(c.Context)
	defer stop()
	for {
		ended, missing := !c.Bool("follow"), 0
		if !ended {
			if ended, err = attemptEnded(c, db, life, attempt.Attempt); err != nil {
				return err
			}
		}
		for _, s := range streams {
			if err := s.more(dir); errors.Is(err, os.ErrNotExist) {
				missing++
			} else if err != nil {
				return exit.Hostf("read the output of task %s: %w", life.Task, err)
			}
		}
		switch {
		case ended && !c.Bool("follow") && streams[0].at+streams[1].at == 0:
			return silence(c, life, attempt, dir, missing == len(streams))
		case ended:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// silence says why an attempt printed nothing.
func silence(c *cli.Context, life *sqlite.Life, a *sqlite.Attempt, dir string, missing bool) error {
	_, err := os.Stat(dir)
	switch {
	case missing && (err != nil || a.Outcome != planner.OK.String()):
		return exit.Inputf("attempt %d of task %s left no output in %s: it did not start, or its files were removed",
			a.Try, life.Task, dir)
	case missing:
		fmt.Fprintf(c.App.ErrWriter, "gantry: task %s was emulated and printed nothing\n", shown.Line(life.Task))
	case a.Outcome == "":
		fmt.Fprintf(c.App.ErrWriter, "gantry: attempt %d of task %s has printed nothing so far\n", a.Try, life.Task)
	default:
		fmt.Fprintf(c.App.ErrWriter, "gantry: attempt %d of task %s printed nothing (it ended as %s)\n", a.Try,
			life.Task, a.Outcome)
	}
	return nil
}

// tellDropped ends the output, and says how many bytes were not kept.
func tellDropped(c *cli.Context, streams []*stream, a *sqlite.Attempt) {
	for _, s := range streams {
		if v, ok := s.to.(*term.Visible); ok {
			_ = v.Flush()
		}
	}
	if a.Dropped != nil && *a.Dropped > 0 {
		fmt.Fprintf(c.App.ErrWriter, "gantry: %s more were not kept (gantry run --max-output)\n", term.Size(a.Dropped))
	}
}

// attemptEnded reports whether the log has the end of an attempt, or nobody is left to write it.
func attemptEnded(c *cli.Context, db *sqlite.DB, life *sqlite.Life, attempt int64) (bool, error) {
	now, err := db.Task(c.Context, life.Run, fmt.Sprintf("#%d", life.ID))
	if err != nil {
		return false, session.LogError(err)
	}
	ended := slices.ContainsFunc(now.Attempts, func(a sqlite.Attempt) bool {
		return a.Attempt == attempt && a.Outcome != ""
	})
	return ended || now.RunState != sqlite.Running || !lock.OfRun(filepath.Join(c.String("dir"), life.Run)), nil
}

// stream is a file that is printed as it grows.
type stream struct {
	name string
	to   io.Writer
	at   int64
}

func streamsTo(c *cli.Context) []*stream {
	return []*stream{{name: ".command.out", to: term.Screened(c.App.Writer, os.Stdout)},
		{name: ".command.err", to: term.Screened(c.App.ErrWriter, os.Stderr)}}
}

// more prints the bytes added since, of the file in a work directory.
func (s *stream) more(dir string) error {
	f, err := stage.OpenIn(dir, s.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(s.at, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(s.to, f)
	s.at += n
	return err
}
