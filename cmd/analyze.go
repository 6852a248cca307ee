package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/sqlite"
	"gantry/sqlite/report/summary"
	"gantry/trace/shown"
)

// analysis is the output about the failures of a run.
type analysis struct {
	Run    string            `json:"run"`
	State  sqlite.State      `json:"state"`
	Tasks  workCounts        `json:"tasks"`
	First  *firstFailure     `json:"first_failure"` // nil: none
	Others []summary.Failure `json:"other_failures"`
}

type firstFailure struct {
	summary.Failure
	Command string       `json:"command"`
	Ended   *sqlite.Span `json:"ended_s"`
	Blocked []string     `json:"blocked"` // WORKFLOW/TASK
	Dir     string       `json:"work_directory,omitempty"`
	Error   string       `json:"stderr_tail"`
	Output  string       `json:"stdout_tail"`
	Repeat  string       `json:"repeat,omitempty"` // a command
	program string
	label   string
}

func analyze(c *cli.Context, db *sqlite.DB) error {
	stats, err := statisticsOf(c.Context, db, c.Args().First())
	if err != nil {
		return err
	}
	summary, err := summary.Of(c.Context, db, stats.Run)
	if err != nil {
		return err
	}
	failures := summary.Failures
	a := &analysis{Run: stats.Run, State: stats.State, Tasks: stats.Tasks, Others: failures}
	if len(failures) > 0 {
		a.Others = failures[1:]
		if a.First, err = firstOf(c, db, stats.Run, failures[0]); err != nil {
			return err
		}
	}
	if !asJSON(c, a) {
		_, _ = io.WriteString(term.Unfolded(c.App.Writer), a.String())
	}
	if a.First != nil {
		return exit.With(exit.TasksFailed, nil)
	}
	return nil
}

func firstOf(c *cli.Context, db *sqlite.DB, run string, f summary.Failure) (*firstFailure, error) {
	first := &firstFailure{Failure: f}
	life, err := taskOf(c, db, run, f.Workflow+"/"+f.Task)
	if err != nil {
		return nil, err
	}
	first.Command, first.program, first.label = life.Command, programText(life), life.Label
	if first.Blocked, err = blockedBy(c.Context, db, life); err != nil {
		return nil, session.LogError(err)
	}
	last := life.Last()
	if last == nil {
		return first, nil
	}
	first.Ended = last.Ended
	if !session.Capabilities(life.Runtime).Programs {
		return first, nil
	}
	first.Dir = workDir(homeOf(c), run, life.Workflow, life.Task, last.Try)
	for name, to := range map[string]*string{".command.err": &first.Error, ".command.out": &first.Output} {
		*to, err = stage.Last(first.Dir, name, c.Int("lines"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, exit.Hostf("read the output of task %s: %w", life.Task, err)
		}
	}
	if life.Command != "" {
		words := []string{"gantry", "shell", run, life.Workflow + "/" + life.Task}
		if c.IsSet("dir") {
			words = slices.Insert(words, 2, "--dir", homeOf(c))
		}
		first.Repeat = "echo 'sh .command.sh' | " + executor.QuoteLine(words)
	}
	return first, nil
}

// blockedBy lists the tasks that depend on a task, directly or not, and are not done, in the order of their numbers.
func blockedBy(ctx context.Context, db *sqlite.DB, l *sqlite.Life) ([]string, error) {
	return sqlite.RowsOf[string](ctx, db, `WITH RECURSIVE of(run, child, parent) AS MATERIALIZED (
			SELECT o.run, o.task, e.parent FROM runs r JOIN tasks t ON t.run = r.id AND t.task = ?2
			JOIN tasks o ON o.run = t.run AND o.workflow = t.workflow
			JOIN edges e ON e.run = o.run AND e.child = o.task WHERE r.name = ?1),
		below(run, task) AS (SELECT run, child FROM of WHERE parent = ?2 UNION SELECT of.run, of.child FROM below b
			JOIN of ON of.parent = b.task)
		SELECT w.name || '/' || t.name FROM below b JOIN tasks t ON t.run = b.run AND t.task = b.task
		JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow WHERE t.state <> 'done' ORDER BY t.task`,
		l.Run, l.ID)
}

// mostNamed bounds the tasks and failures that a text names; JSON has all.
const mostNamed = 10

// String is the analysis for people.
func (a *analysis) String() string {
	var b term.Sheet
	of := func(n int) string {
		if a.Tasks.Total == 0 {
			return "0"
		}
		return fmt.Sprintf("%d (%.1f %%)", n, 100*float64(n)/float64(a.Tasks.Total))
	}
	fmt.Fprintf(&b, "%s: %s\n\n", a.Run, a.State)
	fmt.Fprintf(&b, "  tasks       %d\n  succeeded   %s\n  failed      %s\n  incomplete  %s\n\n", a.Tasks.Total,
		of(a.Tasks.Succeeded), of(a.Tasks.Failed), of(a.Tasks.Incomplete))
	f := a.First
	shown.Names(&a.Others)
	if f == nil {
		b.WriteString("No task failed.\n")
		return b.String()
	}
	task := executor.QuoteLine([]string{f.Workflow + "/" + f.Task})
	shown.Names(&f.Failure)
	shown.Names(&f.Blocked)
	fmt.Fprintf(&b, "First failure: %s/%s (%s), %s", f.Workflow, f.Task, shown.Line(f.label),
		term.Plural(f.Attempts, "attempt"))
	b.Also(f.Node != "", ", the last on %s", f.Node)
	b.Also(f.Ended != nil, ", ended at %s", term.Span(f.Ended))
	fmt.Fprintf(&b, "\n  %s\n", how(f.Outcome, f.ExitCode, f.Message))
	b.Also(len(f.Blocked) > 0, "  It blocked %s: %s\n", term.Plural(len(f.Blocked), "task"),
		term.NamesOf(f.Blocked, mostNamed))
	b.Also(f.program != "", "\n%s", f.program)
	for _, s := range []struct{ name, text string }{{"standard error", f.Error}, {"standard output", f.Output}} {
		b.Also(s.text != "", "\n  The last lines of its %s:\n    %s\n", s.name,
			strings.ReplaceAll(s.text, "\n", "\n    "))
	}
	b.WriteString("\n")
	b.Also(f.Dir != "", "  work directory: %s\n", f.Dir)
	b.Also(f.Repeat != "", "  repeat it:      %s\n", f.Repeat)
	fmt.Fprintf(&b, "  its history:    gantry explain %s %s\n", a.Run, task)
	if n := len(a.Others); n > 0 {
		fmt.Fprintf(&b, "\n%s:\n", term.Plural(n, "further failure"))
		for _, x := range a.Others[:min(n, mostNamed)] {
			fmt.Fprintf(&b, "  %s/%s: %s\n", x.Workflow, x.Task, how(x.Outcome, x.ExitCode, x.Message))
		}
		b.Also(n > mostNamed, "  and %d more: gantry analyze --json %s\n", n-mostNamed, a.Run)
	}
	return b.String()
}
