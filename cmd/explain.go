package cmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/sqlite"
	"gantry/trace/shown"
)

func explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "show why a task waits or waited, failed, or ran where it did",
		ArgsUsage: "[RUN] TASK",
		Description: `Without RUN it is the latest run. TASK is the name of a task in its trace, WORKFLOW/NAME if
several workflows have it, or #ID; gantry show --tasks lists them. Everything comes from the log, so it
works during a run, after it and after a crash.

Exit codes: 0 explained, 2 wrong command line, 3 no such run or task, 4 the log cannot be read.`,
		Flags: []cli.Flag{dirFlag(), &cli.BoolFlag{Name: "json", Usage: "print one JSON object"}},
		Action: func(c *cli.Context) error {
			db, life, err := findTask(c)
			if err != nil {
				return err
			}
			defer db.Close()
			if asJSON(c, life) {
				return nil
			}
			name := life.Run
			if db.OfOne() {
				name = c.Args().First()
			}
			explain(c.App.Writer, life, name)
			return nil
		},
	}
}

// step is a line of a task's history. Lines of one instant are in the order of rank: an end is the reason for a wait or
// a start.
type step struct {
	at   sqlite.Span
	rank int
	text string
}

const (
	arrival = iota
	ending
	wait
	order
	start
	instantEnding // of an attempt that took no time
)

// explain prints the state of a task and the reason for it, then its history. Name is that of the run or submission.
func explain(w io.Writer, l *sqlite.Life, name string) {
	program := programText(l)
	task := executor.QuoteLine([]string{l.Task})
	shown.Names(l)
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s (%s, #%d) of run %s: %s\n", l.Workflow, l.Task, l.Label, l.ID, l.Run, verdict(l))
	b.WriteString(program + "\n")

	steps := []step{{l.Arrived, arrival, "its workflow " + l.Workflow + " arrived"}}
	if l.Release > l.Arrived {
		steps = append(steps, step{l.Release, arrival, "its workflow was released"})
	}
	steps = append(steps, parentSteps(l)...)
	for _, x := range l.Waits {
		steps = append(steps, step{x.Since, wait, waiting(l, &x)})
	}
	for _, n := range l.Notes {
		text := n.Topic
		if !n.Task {
			text += " of its workflow"
		}
		if n.Instant != nil && *n.Instant != n.At {
			text += " " + term.Span(n.Instant)
		}
		if n.Text != "" {
			text += ": " + n.Text
		}
		steps = append(steps, step{n.At, wait, text})
	}
	for i := range l.Reuses {
		u := &l.Reuses[i]
		steps = append(steps, step{u.At, arrival, reused(u)})
	}
	for i := range l.Attempts {
		steps = append(steps, attemptSteps(l, &l.Attempts[i])...)
	}
	for i := range l.Suspensions {
		steps = append(steps, suspensionSteps(l, &l.Suspensions[i])...)
	}
	slices.SortStableFunc(steps, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.rank, y.rank))
	})
	for _, s := range steps {
		fmt.Fprintf(&b, "  %10.3f s  %s\n", time.Duration(s.at).Seconds(), s.text)
	}
	if last := l.Last(); last != nil && last.Outcome != "" && last.Outcome != "ok" {
		fmt.Fprintf(&b, "\n  output: gantry logs %s %s\n", name, task)
	}
	_, _ = io.WriteString(w, b.String())
}

// programText has the needs of a task, its image, its command and its files, of many the first.
func programText(l *sqlite.Life) string {
	var b term.Sheet
	fmt.Fprintf(&b, "  needs %s", term.Cores(l.CPU))
	b.Also(l.Memory > 0, ", %s of memory", term.Size(&l.Memory))
	b.Also(l.Disk > 0, ", %s/s of disk", term.Size(&l.Disk))
	b.Also(l.TimeLimit != nil, ", at most %s", term.Span(l.TimeLimit))
	for _, x := range l.Besides {
		fmt.Fprintf(&b, ", %s", x)
	}
	b.Also(l.Imputed != "", " (not in the workflow, imputed: %s)", strings.ReplaceAll(l.Imputed, ",", ", "))
	b.WriteString("\n")
	b.Also(l.Image != "", "  runs in %s\n", shown.Line(term.ImageName(l.Image, l.Digest)))
	b.Also(l.Command != "", "  command: %s\n", shown.Under(l.Command, "    "))
	b.Also(len(l.Inputs) > 0, "  reads %s\n", shown.Line(term.NamesOf(l.Inputs, mostNamed)))
	b.Also(len(l.Outputs) > 0, "  writes %s\n", shown.Line(term.NamesOf(l.Outputs, mostNamed)))
	return b.String()
}

// reused says from which attempt a task took over results, or why from none.
func reused(u *sqlite.Reuse) string {
	text := ""
	if u.Continued {
		text = "the run was continued: "
	}
	switch {
	case u.Attempt == nil && u.Continued:
		return text + "the task runs, as " + u.Reason
	case u.Attempt == nil:
		return "results are not reused: " + u.Reason
	case u.Run == "":
		return text + "its results stay"
	}
	from := "run " + u.Run
	if u.Try != nil {
		from = fmt.Sprintf("task %s of run %s, attempt %d", u.Task, u.Run, *u.Try)
	}
	return text + fmt.Sprintf("takes over the results of %s, which ran %s", from, term.Span(u.Ran))
}

// verdict is the state of the task in one line.
func verdict(l *sqlite.Life) string {
	last := l.Last()
	switch l.State {
	case "done":
		if n := len(l.Reuses); n > 0 && l.Reuses[n-1].Run != "" {
			return "done: " + reused(&l.Reuses[n-1])
		}
		if last == nil {
			return "done"
		}
		if last.Node == "" {
			return "done, in no time: a task without runtime and files takes no place"
		}
		took := last.Ran
		if took != nil && last.Before != nil {
			took = new(*took + *last.Before)
		}
		text := fmt.Sprintf("done on %s, in %s", last.Node, term.Span(took))
		if n := len(l.Attempts); n > 1 {
			text += fmt.Sprintf(", at attempt %d", last.Try)
		}
		return text
	case "failed":
		return fmt.Sprintf("failed, %s; the last on %s: %s", term.Plural(len(l.Attempts), "attempt"), last.Node,
			how(last.Outcome, last.ExitCode, last.Message))
	case "skipped":
		if l.Flow == "cancelled" {
			return "skipped: its workflow was cancelled"
		}
		if l.Flow == "refused" {
			return "skipped: its workflow was refused, as it would have been late"
		}
		if len(l.Blame) > 0 {
			return "skipped, because a task before it failed: " + relatives(l.Blame)
		}
		return "skipped: the run ended before it could start"
	case "running", "starting", "suspended":
		return fmt.Sprintf("%s on %s, attempt %d", l.State, last.Node, last.Try)
	}
	if left := slices.DeleteFunc(slices.Clone(l.Parents),
		func(p sqlite.Relative) bool { return p.State == "done" }); len(left) > 0 {
		return fmt.Sprintf("waits for %s: %s", term.Plural(len(left), "parent"), relatives(left))
	}
	if n := len(l.Waits); n > 0 {
		return "waits: " + waiting(l, &l.Waits[n-1])
	}
	if l.RunState == sqlite.Running {
		return "ready; the next round of planning decides"
	}
	return "was ready when the run was " + string(l.RunState)
}

func relatives(all []sqlite.Relative) string {
	const most = 5
	var parts []string
	for _, r := range all[:min(most, len(all))] {
		state := r.State
		if r.State == "failed" && r.Outcome != "" {
			state = r.Outcome
		}
		parts = append(parts, r.Task+" ("+state+")")
	}
	return term.Named(len(all), parts)
}

// parentSteps are the ends of the parents; of many, only the last, for which the task waited longest.
func parentSteps(l *sqlite.Life) (steps []step) {
	ended := slices.DeleteFunc(slices.Clone(l.Parents), func(p sqlite.Relative) bool {
		return p.State != "done" || p.Ended == nil
	})
	if n := len(ended); n > 0 && len(l.Parents) > 5 {
		last := ended[n-1]
		return []step{{*last.Ended, ending, fmt.Sprintf("%d of its %d parents had ended, the last %s%s", n,
			len(l.Parents), last.Task, on(last.Node))}}
	}
	for i, p := range ended {
		text := fmt.Sprintf("its parent %s ended%s", p.Task, on(p.Node))
		if i == len(l.Parents)-1 {
			text += ": ready"
		}
		steps = append(steps, step{*p.Ended, ending, text})
	}
	return steps
}

func waiting(l *sqlite.Life, x *sqlite.Waiting) string {
	held := ""
	if x.Holds > 0 {
		when, names := "then", term.Named(x.Holds, x.Held)
		if x.Now {
			when = "now"
		}
		if len(x.Held) == 0 {
			names = term.Plural(x.Holds, "task")
		}
		held = fmt.Sprintf("; running %s: %s", when, names)
	}
	switch x.Reason {
	case "no-node-free":
		short := map[string]string{"cpu": term.Cores(l.CPU), "memory": term.Size(&l.Memory) + " of memory",
			"disk": term.Size(&l.Disk) + "/s of disk", "gpu": "as many GPUs"}
		if l.GPUs < 1 {
			short["gpu"] = fmt.Sprintf("%g of one GPU", l.GPUs)
		}
		return "no node has " + cmp.Or(short[x.Dim], "enough") + " free" + held
	case "planned-later":
		text := fmt.Sprintf("policy %s has planned it for %s", l.PolicyAt(x.Since), term.Span(x.Until))
		if x.Node != "" { // of nodes that are alike the one is chosen when the task starts
			text += " on " + x.Node
		}
		return text
	case "outranked":
		return "policy " + l.PolicyAt(x.Since) + " keeps free resources for tasks before it" + held
	case "not-yet-released":
		return "its workflow is released at " + term.Span(x.Until)
	case "unplaced":
		return "policy " + l.PolicyAt(x.Since) + " gave it no place in this round"
	}
	return cmp.Or(plainReasons[x.Reason], x.Reason)
}

// plainReasons are reasons for waiting that depend on nothing else.
var plainReasons = map[string]string{
	"waits-for-parents": "not all of its parents have ended",
	"waits-for-files":   "its input files do not all exist yet",
	"draining":          "gantry was stopping and started no more tasks",
	"no-node": "no node can take it now: those that could are drained, cut down or gone (gantry show, gantry node " +
		"resume)",
	"tokens-held": "others hold the tokens that it needs (--resource)",
}

// suspensionSteps are a preemption of the task, and its end.
func suspensionSteps(l *sqlite.Life, s *sqlite.Suspension) []step {
	effect := map[string]string{"freeze": "freezes it", "checkpoint": "stops it with a checkpoint",
		"restart": "ends it, to start again"}[s.How]
	steps := []step{{s.Ordered, order, fmt.Sprintf("attempt %d: policy %s preempts it: %s", s.Try,
		l.PolicyAt(s.Ordered), effect)}}
	if s.Since == nil {
		return steps
	}
	kept := "nothing is lost"
	if s.Kept != nil && s.How == "checkpoint" {
		kept = fmt.Sprintf("%.1f %% of the task is kept", 100**s.Kept)
	}
	if s.Lost != nil && *s.Lost > 0 {
		kept = term.Span(s.Lost) + " of work is lost"
	}
	steps = append(steps, step{*s.Since, start, fmt.Sprintf("attempt %d: left %s (%s): %s", s.Try, s.Node, s.How,
		kept)})
	if s.How == "freeze" {
		steps[1].text = fmt.Sprintf("attempt %d: frozen on %s: %s", s.Try, s.Node, kept)
	}
	if s.Until != nil {
		steps = append(steps, step{*s.Until, start, fmt.Sprintf("attempt %d: its suspension of %s ended", s.Try,
			term.Span(new(*s.Until-*s.Since)))})
	}
	return steps
}

// on is where something was; empty for a task that takes no place.
func on(node string) string {
	if node == "" {
		return ""
	}
	return " on " + node
}

// attemptSteps are the beginning and the end of an attempt.
func attemptSteps(l *sqlite.Life, a *sqlite.Attempt) []step {
	if a.Node == "" && a.Ended != nil {
		return []step{{*a.Ended, instantEnding, fmt.Sprintf("attempt %d: done at once", a.Try)}}
	}
	var steps []step
	if a.Queued != nil {
		var text term.Sheet
		fmt.Fprintf(&text, "attempt %d: policy %s starts it on %s", a.Try, l.PolicyAt(*a.Queued), a.Node)
		if a.Estimate != nil && a.Source == "default" {
			fmt.Fprintf(&text, ", planned as %s: its runtime is not known", term.Span(a.Estimate))
		} else if a.Estimate != nil {
			fmt.Fprintf(&text, ", estimated %s", term.Span(a.Estimate))
			text.Also(a.Spread != nil, " ± %s", term.Span(a.Spread))
			fmt.Fprintf(&text, " (%s", a.Source)
			if a.Samples != nil && *a.Samples > 0 {
				fmt.Fprintf(&text, ", %s", term.Plural(*a.Samples, "sample"))
			}
			text.WriteString(")")
		}
		text.Also(a.HoldMemory != l.Memory && a.HoldMemory > 0, ", with %s of memory", term.Size(&a.HoldMemory))
		text.Also(a.GPUs != "", ", GPUs %s", a.GPUs)
		steps = append(steps, step{*a.Queued, order, text.String()})
	}
	if a.Started != nil {
		var text term.Sheet
		fmt.Fprintf(&text, "attempt %d: the program runs", a.Try)
		if a.Done != nil {
			fmt.Fprintf(&text, " on from a checkpoint, with %.1f %% of the task done", 100**a.Done)
			text.Also(above0(a.Moved), " (%s came from another node)", term.Size(a.Moved))
		}
		text.Also(above0(a.Copied), ", after copying %s from other nodes", term.Size(a.Copied))
		steps = append(steps, step{*a.Started, start, text.String()})
	}
	if a.Ended != nil && a.Outcome != "" {
		var text, used term.Sheet
		fmt.Fprintf(&text, "attempt %d: %s", a.Try, how(a.Outcome, a.ExitCode, ""))
		text.Also(a.Outcome == "ok" || a.Ran != nil, " after %s", term.Span(a.Ran))
		text.Also(a.Measured != nil && a.Estimate != nil && a.Source != "default" && a.Outcome == "ok",
			" (%s with container start, comparable to the estimate)", term.Span(a.Measured))
		if a.CPUUser != nil && a.CPUSystem != nil {
			fmt.Fprintf(&used, ", %s of CPU", term.Span(new(*a.CPUUser+*a.CPUSystem)))
		}
		used.Also(a.PeakMemory != nil, ", %s at most", term.Size(a.PeakMemory))
		used.Also(a.AppliedMemory != nil, ", limit %s", term.Size(a.AppliedMemory))
		used.Also(a.Read != nil && a.Written != nil, ", %s read, %s written", term.Size(a.Read), term.Size(a.Written))
		used.Also(a.GPU != nil, ", %s of GPU", term.Span(a.GPU))
		used.Also(a.PeakGPUMemory != nil, ", %s of GPU memory at most", term.Size(a.PeakGPUMemory))
		if used.Len() > 0 {
			text.WriteString(";" + used.String()[1:])
		}
		text.Also(a.Message != "", "\n                %s", strings.ReplaceAll(strings.TrimSpace(a.Message), "\n",
			"\n                "))
		rank := ending
		if a.Queued != nil && *a.Ended <= *a.Queued || a.Started != nil && *a.Ended <= *a.Started {
			rank = instantEnding
		}
		steps = append(steps, step{*a.Ended, rank, text.String()})
	}
	return steps
}

// above0 reports whether an amount is known, and not nothing.
func above0(n *int64) bool { return n != nil && *n > 0 }
