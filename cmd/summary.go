package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/evidence"
	"gantry/sqlite"
	"gantry/sqlite/report/columns"
	"gantry/sqlite/report/summary"
	"gantry/trace/shown"
)

// maxLoud is how many tasks a summary names that wrote to standard error.
const maxLoud = 5

// maxSummaryFailures is how many failed tasks a summary names; show --json has all.
const maxSummaryFailures = 10

// maxSummaryImages is how many images a summary names.
const maxSummaryImages = 5

// printSummary prints the outcome of a run, or of one submission to a server if that is named, without the warnings in
// told: those were printed before. Tables of types and nodes are printed with tables, the errors of estimates with all.
func printSummary(w io.Writer, s *summary.Run, submission string, told map[string]bool, tables, all bool) {
	shown.Names(s)
	most, name := term.RowsFor(s.Tasks, len(s.Deadlines) > 0), cmp.Or(submission, s.Run)
	b := term.NewSheet(w)
	printOverview(b, s)
	if s.Brief {
		fmt.Fprintf(b, "Its tasks are too many to be summed up at once: gantry show --all %s does that. Of a server, "+
			"gantry queue --all lists submissions, and gantry show ID sums up one.\n\n", s.Run)
	} else {
		if tables || s.Workflows > 1 {
			printWorkflows(b, s, most.Workflows)
		}
		printDeadlines(b, s, most.Deadlines)
		if tables {
			printTypes(b, s, most.Types)
			printMemory(b, s.Memory)
		}
		if all {
			printEstimates(b, s)
		}
		if tables {
			printNodes(b, s, most.Nodes)
			printImages(b, s)
		}
		printSlowdowns(b, s)
	}
	for _, x := range s.Warnings {
		if told[x.Message] {
			continue
		}
		times := ""
		if x.Count > 1 {
			times = fmt.Sprintf(" (%d times)", x.Count)
		}
		fmt.Fprintf(b, "warning: %s%s\n", shown.Under(x.Message, "  "), times)
	}
	b.Also(!tables, "types of task, nodes: gantry show %s\n", name)
	fmt.Fprintf(b, "tasks: gantry show --tasks %s\n", name)
	dir := filepath.Join(filepath.Dir(s.Log), s.Run, "results")
	if submission != "" && len(s.WorkflowRow) == 1 {
		dir = filepath.Join(dir, executor.EscapeName(s.WorkflowRow[0].Name))
	}
	b.Also(isDirectory(dir), "results: %s\n", term.ShortPath(dir))
	// That of a submission is made for the answer, or not for its user to read.
	b.Also(submission == "", "log: %s\n", term.ShortPath(s.Log))
	if !s.Brief {
		printFailures(b, s, name) // last, where they are seen
	}
	_, _ = io.WriteString(w, b.String())
}

// printOverview prints the run, its progress and its measures as a whole.
func printOverview(b *term.Sheet, s *summary.Run) {
	fmt.Fprintf(b, "Run %s: %s, %s of %d done", s.Run, s.State, term.Plural(s.Done, "task"), s.Tasks)
	b.Also(s.Running > 0, ", %d running", s.Running)
	b.Also(s.Failed > 0, ", %d failed", s.Failed)
	b.Also(s.Skipped > 0, ", %d skipped", s.Skipped)
	fmt.Fprintf(b, "\n  policy %s on %s", s.Policy, s.Runtime)
	for i := 1; i < len(s.Policies); i++ {
		fmt.Fprintf(b, ", %s until %s", s.Policies[i-1].Policy, term.InstantOf(s.Policies[i].At))
	}
	b.Also(session.Capabilities(s.Runtime).Virtual || s.HostModel != nil, ", host model %s", s.HostModel)
	b.Also(s.TimeScale != 1 || s.SizeScale != 1, ", time scale %g, size scale %g", s.TimeScale, s.SizeScale)
	if s.Makespan != nil {
		fmt.Fprintf(b, ", makespan %s%s", term.Span(s.Makespan), predictedText(s))
	} else if s.Tasks > 0 {
		fmt.Fprintf(b, ", %s so far", term.Span(&s.Clock))
	}
	b.Also(s.Attempts > max(0, s.Done-s.Reused), ", %s (%s)", term.Plural(s.Attempts, "attempt"), outcomes(s.Outcomes))
	b.Also(s.Reused > 0, ", %s reused (%s of runtime)", term.Plural(s.Reused, "task"), term.Span(&s.Saved))
	b.Also(s.Starting != nil, ", container starts took %s of the time for which tasks held their nodes",
		term.Percent(s.Starting))
	b.Also(s.PeakDisk != nil, ", at most %s on disk", term.Size(s.PeakDisk))
	b.Also(s.Locality != nil && len(s.Nodes) > 1, ", %s of input bytes local", term.Percent(s.Locality))
	b.Also(s.Lost > 0, ", %s of work lost", term.Span(&s.Lost))
	for _, p := range s.Preemptions {
		fmt.Fprintf(b, "\n  %s by %s of %s, away for %s in all, %s of work lost", term.Plural(p.Count, "preemption"),
			p.How, term.Plural(p.Tasks, "task"), term.Span(&p.Away), term.Span(&p.Lost))
	}
	b.WriteString("\n\n")
}

func predictedText(s *summary.Run) string {
	if len(s.Predictions) == 0 || s.Predictions[0].Scope != sqlite.ScopeRun {
		return ""
	}
	p := &s.Predictions[0]
	text := " (predicted " + term.Span(&p.Expected)
	if p.High > p.Low {
		text += fmt.Sprintf(", %s to %s", term.Span(&p.Low), term.Span(&p.High))
	}
	if p.At > 0 {
		text += fmt.Sprintf(", when it was resumed at %s", term.Span(&p.At))
	}
	return text + ")"
}

// predicted has the predictions for workflows or types of task, by name.
func predicted(s *summary.Run, scope string) map[string]*sqlite.Span {
	all := map[string]*sqlite.Span{}
	for i := range s.Predictions {
		if p := &s.Predictions[i]; p.Scope == scope {
			all[p.Name] = &p.Expected
		}
	}
	return all
}

func printWorkflows(b *term.Sheet, s *summary.Run, most int) {
	expected := predicted(s, sqlite.ScopeWorkflow)
	columns.List(b, s.WorkflowRow, most, "workflow|state|-tasks|-done|-wait|?-predicted|-makespan|-response",
		func(f summary.Workflow) []any {
			return []any{f.Name, f.State, f.Tasks, f.Done, f.Wait, expected[f.Name], f.Makespan, f.Response}
		})
}

func printTypes(b *term.Sheet, s *summary.Run, most int) {
	expected := predicted(s, sqlite.ScopeKind)
	columns.List(b, s.Kinds, most, "type|-tasks|-estimated|?-predicted|-measured|-min|-max|-CPU|-peak memory|-read|"+
		"-written|?-GPU|?-peak GPU memory", func(k summary.Kind) []any {
		return []any{k.Kind, k.Tasks, k.Estimated, expected[k.Kind], k.Measured, k.Shortest, k.Longest, k.CPU,
			k.PeakMemory, k.Read, k.Written, k.GPU, k.PeakGPUMemory}
	})
}

// printMemory prints how much of the memory that tasks held they used.
func printMemory(b *term.Sheet, m *summary.Memory) {
	if m == nil {
		return
	}
	fmt.Fprintf(b, "Memory: %.3g GB·h held, %.3g of it (%.0f %%) used, %.3g wasted", m.Held, m.Used,
		100*m.Used/m.Held, m.Wasted)
	b.Also(m.Saved != 0, "; %.3g (%.0f %%) saved against declared", m.Saved, 100*m.Saved/(m.Held+m.Saved))
	b.Also(m.OutOfMemory > 0, "; %s ran out of it", term.Plural(m.OutOfMemory, "attempt"))
	fmt.Fprint(b, "\n\n")
}

// printEstimates prints how wrong the estimates of each source were.
func printEstimates(b *term.Sheet, s *summary.Run) {
	columns.List(b, s.Estimates, 0, "estimates|-tasks|-estimated/measured|-min|-max|-mean error",
		func(e summary.Estimate) []any {
			return []any{e.Source, e.Attempts, term.Ratio(e.Ratio), term.Ratio(e.Lowest), term.Ratio(e.Highest),
				term.Percent(e.Error)}
		})
}

func printNodes(b *term.Sheet, s *summary.Run, most int) {
	columns.List(b, s.Nodes, most, "node|-cores|-speed|-attempts|-cores held|-cores used",
		func(n summary.Node) []any {
			cores := any("unlimited")
			if n.Cores != nil {
				cores = *n.Cores
			}
			return []any{n.Node, cores, n.Speed, n.Attempts, term.Percent(n.Held), term.Percent(n.Used)}
		})
}

// printSlowdowns prints slowdown and response of a run of several workflows.
func printSlowdowns(b *term.Sheet, s *summary.Run) {
	if m := s.Metrics; m["workflows"] > 1 {
		fmt.Fprintf(b, "  %g workflows count: slowdown %.4g (sd %.3g), response %s (sd %s), %.3g in the system "+
			"(mean); gantry report %s\n", m["workflows"],
			m["slowdown_mean"], m["slowdown_sd"], term.Meant(m["response_mean"]), term.Meant(m["response_sd"]),
			m["in_system_mean"], s.Run)
		if of := ofTenants(m); of != "" {
			fmt.Fprintf(b, "  %s\n", of)
		}
		b.WriteString("\n")
	}
}

// printFailures prints tasks that failed and tasks whose success is in doubt.
func printFailures(b *term.Sheet, s *summary.Run, name string) {
	var suspect []summary.Failure
	var loud []string
	for _, f := range s.Doubts {
		if f.Message == evidence.WroteStderr {
			loud = append(loud, f.Workflow+"/"+f.Task)
		} else {
			suspect = append(suspect, f)
		}
	}
	if n := len(loud); n > 0 {
		fmt.Fprintf(b, "\n%s that succeeded wrote to standard error: %s: gantry logs %s TASK\n", term.Plural(n, "task"),
			term.NamesOf(loud, maxLoud), name)
	}
	for _, of := range []struct {
		title string
		tasks []summary.Failure
	}{{"suspect", suspect}, {"failed", s.Failures}} {
		if len(of.tasks) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n", of.title)
		for i, f := range of.tasks {
			if i == maxSummaryFailures {
				fmt.Fprintf(b, "  ... %d more\n", len(of.tasks)-i)
				break
			}
			fmt.Fprintf(b, "  %s/%s on %s: %s\n", f.Workflow, f.Task, f.Node, how(f.Outcome, f.ExitCode, f.Message))
		}
		fmt.Fprintf(b, "  reasons: gantry explain %s TASK; output: gantry logs %s TASK\n", name, name)
	}
}

func printImages(b *term.Sheet, s *summary.Run) {
	for i, x := range s.Images {
		if i == maxSummaryImages && len(s.Images) > i+1 {
			fmt.Fprintf(b, "  ... %s\n", term.Plural(len(s.Images)-i, "more image"))
			break
		}
		fmt.Fprintf(b, "image %s, %s\n", term.ImageName(x.Ref, x.Name()), x.Source)
	}
}

// printDeadlines prints which deadlines were met, and how far the ends of tasks were from the plan.
func printDeadlines(b *term.Sheet, s *summary.Run, most int) {
	if len(s.Deadlines) == 0 {
		return
	}
	late, refused := 0, 0
	for _, d := range s.Deadlines {
		if d.Late {
			late++
		}
		if d.State == "refused" {
			refused++
		}
	}
	columns.List(b, s.Deadlines, most, "deadline of|-due|-predicted end|-end|-to spare|",
		func(d summary.Deadline) []any {
			verdict, spare := "", (*sqlite.Span)(nil)
			switch {
			case d.State == "failed" || d.State == "cancelled" || d.State == "refused":
				verdict = d.State
			case d.Ended != nil:
				spare = new(d.Due - *d.Ended)
				if verdict = "met"; d.Late {
					verdict = "missed"
				}
			}
			return []any{d.Name, &d.Due, d.Predicted, d.Ended, spare, verdict}
		})
	fmt.Fprintf(b, "  %d of %s late", late, term.Plural(len(s.Deadlines)-refused, "workflow"))
	b.Also(refused > 0, ", %d refused", refused)
	b.Also(len(s.Remappings) > 0, "; %s", outcomes(s.Remappings))
	if p := s.Plan; p != nil {
		fmt.Fprintf(b, "; tasks ended %s from the plan in the mean, at most %s", term.Span(p.Off), term.Span(p.Most))
	}
	b.WriteString("\n\n")
}

// how describes the end of an attempt in one line.
func how(outcome string, exit *int, message string) string {
	text := outcome
	if outcome == "ok" && message != "" {
		text = ""
	}
	if outcome == "exit-code" && exit != nil {
		text = fmt.Sprintf("exit code %d", *exit)
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(message), "\n"); strings.HasPrefix(line, text) {
		text = line
	} else if line != "" {
		text += ": " + line
	}
	return text
}

func outcomes(counts []summary.Count) string {
	var parts []string
	for _, c := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", c.Count, c.Name))
	}
	return strings.Join(parts, ", ")
}

// readLog opens the log of the runs, or of the one submission, that the command line names.
func readLog(c *cli.Context) (*sqlite.DB, error) {
	db, err := openLog(c, c.Args().Slice()...)
	if err == nil && db.OfOne() && c.NArg() > 1 {
		return nil, errors.Join(exit.Usagef("%s: a submission is read alone: name its number and nothing else",
			c.Command.Name), db.Close())
	}
	return db, err
}

// openLog opens the log below --dir for reading, or that of a submission alone if one of the names is its number.
func openLog(c *cli.Context, names ...string) (*sqlite.DB, error) {
	path := filepath.Join(c.String("dir"), sqlite.FileName)
	// It is not opened for that: closing it would take the locks of a writer in this process away.
	if err := unix.Access(path, unix.R_OK); errors.Is(err, fs.ErrPermission) {
		return askForLog(c, slices.Concat(names, c.Args().Slice()))
	}
	db, err := sqlite.Open(path, sqlite.ReadOnly)
	if err != nil {
		return nil, session.LogError(err)
	}
	for _, name := range names {
		// Commands about several runs take these as a whole.
		whole := c.Command.Name == "compare" || c.Command.Name == "report" && c.NArg() > 1
		one, err := submissionIn(c.Context, db, name, whole)
		if err != nil || one != nil {
			return one, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// submissionIn returns the log of a submission alone if name is its number, and no run has that name; else nil. With
// whole, nil too: the number then names the run that has it.
func submissionIn(ctx context.Context, db *sqlite.DB, name string, whole bool) (*sqlite.DB, error) {
	id, err := strconv.ParseInt(name, 10, 64)
	if err != nil || id < 1 {
		return nil, nil
	}
	if _, err := db.State(ctx, name); err == nil {
		return nil, nil
	}
	if whole {
		_ = db.Name(ctx, id) // the caller reports an unknown number
		return nil, nil
	}
	if _, err := db.Submitted(ctx, id); errors.As(err, new(*sqlite.Unknown)) {
		return nil, nil // the caller reports an unknown number
	}
	one, err := db.Extract(ctx, id)
	return one, session.LogError(err)
}

// ofTenants prints the measures of loads with several tenants, as far as they are known.
func ofTenants(m map[string]float64) string {
	var parts []string
	if x, ok := m["qos_rate"]; ok {
		parts = append(parts, fmt.Sprintf("%.4g %% of jobs with a deadline in time", 100*x))
	}
	if x, ok := m["locality_rate"]; ok {
		parts = append(parts, fmt.Sprintf("%.4g %% of bytes read locally", 100*x))
	}
	if x, ok := m["jain"]; ok {
		parts = append(parts, fmt.Sprintf("%.4g job units/s, Jain's index of tenants %.3g", m["throughput"], x))
	}
	return strings.Join(parts, ", ")
}

// askForLog gets the log of a submission from the server, for a user that may not read the whole.
func askForLog(c *cli.Context, names []string) (*sqlite.DB, error) {
	id := int64(0)
	for _, arg := range names {
		if n, err := strconv.ParseInt(arg, 10, 64); err == nil && n > 0 {
			id = n
			break
		}
	}
	if id == 0 {
		return nil, exit.Usagef("%s: the log in %s is of several users, and you may not read all of it: name one "+
			"of your submissions by its number (gantry queue --all lists them)", c.Command.Name, c.String("dir"))
	}
	file, err := api.NewClient(homeOf(c)).Log(c.Context, id)
	if err != nil {
		return nil, serverError(err)
	}
	at, err := os.MkdirTemp("", "gantry-submission-")
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	path := filepath.Join(at, sqlite.FileName)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return nil, exit.With(exit.Host, errors.Join(err, os.RemoveAll(at)))
	}
	db, err := sqlite.OpenExtract(path, id)
	if err != nil {
		return nil, exit.With(exit.Host, errors.Join(err, os.RemoveAll(at)))
	}
	return db, nil
}

// manyTasks is the size from which a simulation is not summed up when it ends: that took more than a tenth of its time.
const manyTasks = 20_000

func summarise(ctx context.Context, c *cli.Context, o session.Outcome) error {
	if c.Bool("quiet") && !c.Bool("json") {
		return nil
	}
	w, v := c.App.Writer, o.Engine.Planner.View()
	tasks, flows := term.Plural(v.Tasks(), "task"), term.Plural(v.Workflows(), "workflow")
	if o.Server {
		o.View.Note("%s: %s, %s, %d failed or skipped", o.Name, flows, tasks, o.Failed)
		return nil
	}
	if o.DB == nil {
		span := time.Duration(o.Result.Ended)
		if v.Workflows() > 0 { // as the log counts
			span = o.Result.Ended.Sub(v.Workflow(0).Arrived)
		}
		fmt.Fprintf(w, "makespan %s, %s of %s, %d failed or skipped (no log)\n", span.Round(time.Millisecond), tasks,
			flows, o.Failed)
		return nil
	}
	on, most := session.Capabilities(o.Set.Runtime), math.MaxInt
	if on.Virtual && !c.Bool("json") {
		most = manyTasks
	}
	s, err := summary.Within(context.WithoutCancel(ctx), o.DB, o.Name, most)
	if err != nil || asJSON(c, s) {
		return err
	}
	// People who run programs look at files and failures first.
	printSummary(w, s, "", o.View.Told(), !on.Programs, false)
	return nil
}
