package cmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/executor/experiment"
	"gantry/executor/own"
	"gantry/planner/policy"
	"gantry/trace"
	"gantry/trace/reader"
	"gantry/trace/scenario"
	"gantry/trace/shown"
)

type checkOptions struct {
	json   bool
	shows  bool // the commands
	read   trace.ReadOptions
	inputs []string                   // directories with files from outside
	idle   func(*session.Facts) error // refuses options without an effect
}

func checkCommand() *cli.Command {
	var o checkOptions
	return &cli.Command{
		Name:      "check",
		Usage:     "show the content of a workflow, and every error of its file",
		ArgsUsage: "FILE|DIRECTORY|-...",
		Description: `Reads workflows: Pegasus DAX (1.8 to 3.6), Pegasus 5 YAML, WfFormat (0.1 to 1.6) and makeflows.
It also reads archives of jobs (SWF, sacct -P, Alibaba's batch_task, the Workflow Trace Archive), DOT graphs and traces
of Nextflow, and workload, cluster and experiment files, the traces that a workload file names, and looks for the other
files that they name. Formats are recognised by content, makeflows also by name. Text is UTF-8 or UTF-16, plain, gzip or
zip. A directory stands for the workflow files below it, "-" for standard input.

Errors make a workflow unusable: cycles, duplicate ids, unknown parents, truncated files, numbers that cannot be.
Warnings say which rule is then followed. --repair turns repairable errors into warnings (docs/files.md).

Of workflows with commands it lists the files of this host that gantry run reads ("reads"), the directories that
containers ask for ("mounts"), and why gantry run refuses it ("cannot run"): missing inputs, and demands that one host
cannot meet. Such a workflow can still be simulated and emulated.

--commands prints the command of every task as gantry run starts it, after variables and with its shell, in one line
that bash reads. gantry run --dry-run prints them with the options of a run.

Exit codes: 0 no errors, 2 wrong command line, 3 a file has errors or cannot be read.`,
		Flags: append(append(readFlags(&o.read), shared("catalog site enforce-walltime")...),
			&cli.StringSliceFlag{Name: "inputs", Usage: "`DIR` with input files, as for gantry run"},
			&cli.BoolFlag{Name: "commands", Usage: "print the final command of every task", Destination: &o.shows},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object per file", Destination: &o.json}),
		Action: func(c *cli.Context) error {
			o.read.Catalogs, o.read.Site = c.StringSlice("catalog"), c.String("site")
			o.read.EnforceWalltime, o.inputs = c.Bool("enforce-walltime"), c.StringSlice("inputs")
			o.idle = refuseIdleOf(c)
			return check(c.Args().Slice(), o, c.App.Writer, c.App.ErrWriter)
		},
	}
}

// readFlags are the flags of all commands that read a workflow.
func readFlags(o *trace.ReadOptions) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "repair", Usage: "repair errors: break cycles, take negative runtimes as 0, drop " +
			"bad numbers", Destination: &o.Repair},
		maxInputFlag((*byteSize)(&o.MaxInput)),
		&cli.BoolFlag{Name: "kilobytes", Usage: "file sizes are in KB, as in instances of Makeflow",
			Destination: &o.Kilobytes},
		defineFlag((*definitions)(&o.Define)),
		&cli.StringFlag{Name: "graph", Usage: "take the dependencies of processes in a trace of Nextflow from " +
			"`FILE`, its dag.dot", Destination: &o.Graph},
		&cli.Float64Flag{Name: "gflops", Usage: "sizes of tasks in DOT are operations, of which a node of speed 1 " +
			"does `N` billion a second", DefaultText: "1", Destination: &o.GFlops},
	}
}

// definitions is a flag of variables of makeflows, that may be given several times.
type definitions map[string]string

// Set reads NAME=VALUE.
func (d *definitions) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("write NAME=VALUE")
	}
	if *d == nil {
		*d = definitions{}
	}
	(*d)[name] = value
	return nil
}

func (d *definitions) String() string { return "" }

func defineFlag(to *definitions) cli.Flag {
	return &cli.GenericFlag{Name: "define", Value: to, Usage: "set `NAME=VALUE` in makeflows, over their own values; " +
		"in JX the value is JSON, else a text (may be repeated)"}
}

func maxInputFlag(to *byteSize) cli.Flag {
	f := sizeFlag("max-input", "", "read compressed files that hold up to `SIZE` of text, such as 2GB")
	f.Value, f.DefaultText = to, fmt.Sprintf("%s, or %d times the file", shown.Size(reader.MaxInput), reader.MaxRatio)
	return f
}

// report is the output of check about one file. Seconds are null where a cycle leaves them undefined.
type report struct {
	File      string             `json:"file"`
	Format    string             `json:"format"`
	Version   string             `json:"version"`
	Name      string             `json:"name"`
	Workflows int                `json:"workflows,omitempty"` // of an archive
	Left      []trace.Imputation `json:"left_out,omitempty"`
	trace.Stats
	CriticalPath *float64           `json:"critical_path_s"`
	Missing      map[string]int     `json:"missing"`
	Imputed      []trace.Imputation `json:"imputed"`
	Catalogs     []string           `json:"catalogs,omitempty"`
	Reads        []string           `json:"reads,omitempty"`     // files of this host and addresses, for a run
	Resources    []string           `json:"resources,omitempty"` // of the user's own, that tasks need
	Networked    int                `json:"networked,omitempty"` // tasks that ask for a network
	Mounts       []string           `json:"mounts,omitempty"`    // directories of this host that containers ask for
	Obstacles    []string           `json:"obstacles,omitempty"` // why gantry run would refuse it
	Commands     []taskCommand      `json:"commands,omitempty"`
	Errors       []trace.Fault      `json:"errors"`
	Warnings     []trace.Fault      `json:"warnings"`
	about        []string           // of a file that is no workflow
}

type taskCommand struct {
	Task    string `json:"task"`
	Command string `json:"command"` // "" if it is emulated
}

func check(paths []string, o checkOptions, out, notes io.Writer) error {
	if len(paths) == 0 {
		return exit.Usagef("check: name a workflow file, a directory or - for standard input")
	}
	bad, total, f := 0, 0, &session.Facts{}
	o.read.Used = map[string]bool{}
	o.read.Seen = func(w *trace.Workflow, faults []trace.Fault) { // those that a workload file names, too
		f.Workflow(&session.Settings{Image: "any"}, w)
		f.Repaired = f.Repaired || trace.Repaired(faults)
	}
	for _, p := range paths {
		files, skipped, err := trace.Find([]string{p})
		for _, s := range skipped {
			fmt.Fprintf(notes, "gantry: %s: not a workflow, skipped\n", s)
		}
		if err != nil {
			if err := unreadable(p, err).write(out, o.json); err != nil {
				return exit.With(exit.Host, err)
			}
			bad, total = bad+1, total+1
		}
		for _, file := range files {
			total++
			r := inspect(file, o)
			if len(r.Errors) > 0 {
				bad++
			}
			if err := r.write(out, o.json); err != nil {
				return exit.With(exit.Host, err)
			}
		}
	}
	if bad == 0 {
		if err := session.RefuseUnused(o.read.Define, o.read.Site, o.read.Used); err != nil {
			return err
		}
		if o.idle != nil {
			return o.idle(f)
		}
		return nil
	}
	if total == 1 {
		return exit.With(exit.Input, nil)
	}
	return exit.Inputf("errors in %d of %d files", bad, total)
}

// inspect reads a file of any kind.
func inspect(file string, o checkOptions) *report {
	if kind, r := scenarioFile(file, o.read); kind != "" {
		for option, given := range map[string]bool{"commands": o.shows, "inputs": len(o.inputs) > 0} {
			if given {
				r.Errors = append(r.Errors, trace.Fault{Rule: option, Count: 1, Message: "--" + option + " has no " +
					"effect on this " + r.Format + ": name workflows, or give it to gantry run --dry-run"})
			}
		}
		return r
	}
	std, archive := io.Reader(os.Stdin), trace.IsArchive(file)
	if file == "-" {
		std, archive = trace.Archived(std, file)
	}
	if archive {
		return inspectArchive(file, std, o.read)
	}
	var w *trace.Workflow
	var faults []trace.Fault
	var err error
	if file == "-" {
		w, faults, err = trace.Read(std, file, o.read)
	} else {
		w, faults, err = trace.Open(file, o.read)
	}
	if err != nil {
		return unreadable(file, err)
	}
	r := examine(file, w, faults)
	if len(r.Errors) == 0 {
		if r.needs(w, o.inputs); o.shows {
			r.commands(w)
		}
	}
	return r
}

func inspectArchive(file string, std io.Reader, read trace.ReadOptions) *report {
	a, faults, err := trace.OpenArchive(file, std, read)
	if err != nil {
		return unreadable(file, err)
	}
	r := examine(file, nil, faults)
	r.Format, r.Workflows, r.Tasks = a.Format.String()+" file", a.Len(), a.Tasks()
	r.about = []string{fmt.Sprintf("workflows      %d with %s, of %s", a.Len(), term.Plural(r.Tasks, "task"),
		term.Plural(a.Users, "user")),
		fmt.Sprintf("arrivals       over %s", seconds(a.Span().Seconds())),
		fmt.Sprintf("work           %.4g core hours, up to %g cores each", a.Work.Hours(), a.MostCores)}
	for _, i := range a.Left {
		r.about = append(r.about, fmt.Sprintf("left out       %d: %s", i.Count, i.Rule))
	}
	if len(r.Errors) == 0 {
		r.Imputed, r.Left = append(r.Imputed, a.Imputed...), a.Left
		for _, i := range a.Imputed {
			r.about = append(r.about, fmt.Sprintf("to be imputed  %s of %d: %s", i.Field, i.Count, i.Rule))
		}
	}
	return r
}

// commands lists the commands of all tasks, with or without an image.
func (r *report) commands(w *trace.Workflow) {
	all := executor.Admitter{Image: "any"}
	for i := range w.Tasks {
		spec := all.Program(&w.Tasks[i])
		r.Commands = append(r.Commands, taskCommand{spec.Name, executor.CommandLine(&spec)})
	}
}

// needs lists the files that gantry run would read on this host, and its reasons to refuse the workflow.
func (r *report) needs(w *trace.Workflow, inputs []string) {
	r.Catalogs, r.Obstacles = w.Catalogs, append(r.Obstacles, w.Obstacles...)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.SubWorkflow {
			r.Obstacles = append(r.Obstacles, fmt.Sprintf("%s:%d: task %s is a sub-workflow", r.File, t.Line, t.ID))
		}
		if t.Network {
			r.Networked++
		}
		for text := range strings.SplitSeq(t.Tokens, ",") {
			if name, _, _ := strings.Cut(text, ":"); name != "" && name != "none" &&
				!slices.Contains(r.Resources, name) {
				r.Resources = append(r.Resources, name)
			}
		}
	}
	for _, c := range w.Containers {
		for _, m := range c.Mounts {
			if !slices.Contains(r.Mounts, m) {
				r.Mounts = append(r.Mounts, m)
			}
		}
		if path, ok := strings.CutPrefix(c.Image, "file://"); ok {
			r.Reads = append(r.Reads, path)
		}
	}
	sub := &executor.Submission{Workflow: w, Name: w.Label, Dirs: inputs}
	// Tasks with a command run, with any image.
	files, err := (&executor.Admitter{Image: "any", SafeNames: true}).Outside(sub)
	if err != nil {
		r.Obstacles = append(r.Obstacles, err.Error())
		return
	}
	files = slices.DeleteFunc(files, func(f executor.Outside) bool { return !f.Program })
	search := stage.Search{User: stage.Caller().Rights()}
	found, missing, _ := search.Locate(context.Background(), sub, files)
	for _, f := range files {
		if src := found[f.File]; src != (executor.Source{}) {
			r.Reads = append(r.Reads, cmp.Or(src.Path, src.URL))
		}
	}
	for _, m := range missing {
		r.Obstacles = append(r.Obstacles, session.MissingFile(m))
	}
}

// scenarioFile is the report of a workload, cluster or experiment file; of another file the kind is "".
func scenarioFile(file string, read trace.ReadOptions) (kind string, r *report) {
	if file == "-" || trace.IsMakeflow(file) {
		return "", nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", nil
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if kind = scenario.Kind(head); kind == "" || err != nil {
		return "", nil
	}
	about, err := scenario.Check(kind, io.MultiReader(bytes.NewReader(head), f), file, read,
		func(spec string) error {
			_, err := policy.Parse(own.In(filepath.Dir(file), spec))
			return err
		})
	var combined error
	if err == nil && kind == "experiment" {
		combined = checkCombinations(file)
	}
	var wrong *scenario.FileError
	switch {
	case combined != nil:
		r = examine(file, nil, []trace.Fault{{Severity: trace.Error, Rule: "combination", Count: 1,
			Message: strings.TrimPrefix(combined.Error(), "experiment "+file+": ")}})
	case errors.As(err, &wrong):
		r = examine(file, nil, wrong.Faults)
	case err != nil:
		r = unreadable(file, err)
	default:
		r = examine(file, nil, nil)
	}
	r.Format, r.Name, r.about = kind+" file", about.Name, about.Lines
	return kind, r
}

// checkCombinations checks the values of the factors of an experiment that has no other faults.
func checkCombinations(file string) error {
	x, err := readExperiment(file, false, "")
	if err == nil && x.Runtime != "" {
		x.On(session.Counterpart(x.Runtime), x.Runtime)
	}
	if err == nil {
		err = (&experiment.Runner{File: x}).Check()
	}
	return err
}

// unreadable is the report of a file that could not be opened or read.
func unreadable(file string, err error) *report {
	return examine(file, nil, []trace.Fault{{Severity: trace.Error, Rule: "unreadable", Count: 1,
		Message: trace.Plain(err).Error()}})
}

func (r *report) write(out io.Writer, asJSON bool) error {
	if asJSON {
		term.PrintJSON(out, r)
		return nil
	}
	return r.print(out)
}

func openText(path string) (*os.File, error) {
	if err := trace.CheckFile(path); err != nil {
		return nil, trace.Plain(err)
	}
	f, err := os.Open(path)
	return f, trace.Plain(err)
}

func readText(path string) ([]byte, error) {
	f, err := openText(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func examine(file string, w *trace.Workflow, faults []trace.Fault) *report {
	r := &report{File: file, Format: "unknown", Stats: trace.Stats{Known: map[string]int{}},
		Missing: map[string]int{}, Imputed: []trace.Imputation{}, Errors: []trace.Fault{}, Warnings: []trace.Fault{}}
	for _, f := range faults {
		if f.Severity == trace.Error {
			r.Errors = append(r.Errors, f)
		} else {
			r.Warnings = append(r.Warnings, f)
		}
	}
	if w == nil {
		return r
	}
	r.Stats, r.Format, r.Version, r.Name = w.Stats(), w.Format.String(), w.Version, w.Name
	if !r.Cyclic {
		r.CriticalPath = &r.CriticalPathSeconds
	}
	for _, f := range trace.Fields(0).Each() {
		name := f.String()
		r.Missing[name] = r.Tasks - r.Known[name]
	}
	r.Missing[fileSize] = r.Files - r.Sized
	if len(r.Errors) == 0 {
		r.Imputed = append(r.Imputed, trace.Impute(w, trace.Defaults{})...)
		// These depend on where the workflow runs.
		bare := trace.Imputation{Field: trace.Memory.String(), Rule: "share of the node it runs on, by cores"}
		empty := trace.Imputation{Field: trace.Command.String(), Rule: "none: the task is emulated by its numbers"}
		for i := range w.Tasks {
			if t := &w.Tasks[i]; !(t.Known | t.Imputed).Has(trace.Memory) {
				bare.Count++
			}
			if !w.Tasks[i].Known.Has(trace.Command) {
				empty.Count++
			}
		}
		for _, x := range []trace.Imputation{bare, empty} {
			if x.Count > 0 {
				r.Imputed = append(r.Imputed, x)
			}
		}
	}
	return r
}

func (r *report) print(out io.Writer) error {
	var b term.Sheet
	verdict := "ok"
	if n := len(r.Errors); n > 0 {
		verdict = term.Plural(n, "error")
	} else if n := len(r.Warnings); n > 0 {
		verdict = "ok, " + term.Plural(n, "warning")
	}
	if len(r.Errors) == 0 && len(r.Obstacles) > 0 {
		verdict += "; gantry run refuses it"
	}
	fmt.Fprintf(&b, "%s: %s\n", shown.Line(r.File), verdict)
	for i, line := range r.about {
		if i == 0 {
			fmt.Fprintf(&b, "  format         %s%s\n", r.Format, inQuotes(" ", r.Name))
		}
		fmt.Fprintf(&b, "  %s\n", line)
	}
	if r.Format != "unknown" && !strings.HasSuffix(r.Format, " file") {
		r.printWorkflow(&b)
	}
	list(&b, "catalogs", strings.Join(r.Catalogs, ", "))
	if len(r.Resources) > 0 {
		list(&b, "needs", strings.Join(r.Resources, ", ")+": gantry run --resource NAME=COUNT of each")
	}
	if r.Networked > 0 {
		list(&b, "network", "asked for by "+term.Plural(r.Networked, "task")+": gantry run --network asked")
	}
	list(&b, "reads", r.Reads...)
	list(&b, "mounts", r.Mounts...)
	list(&b, "cannot run", r.Obstacles...)
	printFaults(&b, "error", r.Errors)
	printFaults(&b, "warning", r.Warnings)
	for _, x := range r.Commands {
		tellCommand(&b, x.Task, x.Command)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *report) printWorkflow(b *term.Sheet) {
	version := fmt.Sprintf("%.80s", cmp.Or(r.Version, "(no version)"))
	list(b, "format", fmt.Sprintf("%s %s%s", r.Format, shown.Line(version), inQuotes(", workflow ", r.Name)))
	tasks, sizes, path := "0", "none with a size", "undefined"
	if r.Tasks > 0 {
		tasks = fmt.Sprintf("%d of %s, %s", r.Tasks, term.Plural(r.Kinds, "type"), term.Plural(r.Edges, "edge"))
		if r.FileEdges > 0 {
			tasks += fmt.Sprintf(" (%d only by files)", r.FileEdges)
		}
		tasks += ", " + term.Plural(r.Components, "component")
	}
	if r.CriticalPath != nil {
		path = seconds(*r.CriticalPath)
	}
	runtime := seconds(r.RuntimeSeconds) + ", critical path " + path
	if r.Tasks > 0 && r.Known[trace.Runtime.String()] == 0 {
		runtime = "unknown"
	}
	if r.Sized > 0 {
		sizes = fmt.Sprintf("%d with a size: %s", r.Sized, shown.Size(r.Bytes))
	}
	list(b, "tasks", tasks)
	list(b, "shape", fmt.Sprintf("%s, width %d", term.Plural(r.Levels, "level"), r.Width))
	list(b, "runtime", runtime)
	list(b, "files", fmt.Sprintf("%d, %s", r.Files, sizes))
	list(b, "known", shares(r.Known, r.Tasks, 0))
	list(b, "missing", shares(r.Missing, r.Tasks, r.Files))
	for _, i := range r.Imputed {
		list(b, "to be imputed", fmt.Sprintf("%s of %s: %s", i.Field, term.Plural(i.Count, "task"), i.Rule))
	}
}

// fileSize is the field of files that workflows may lack.
const fileSize = "file-size"

// maxListed is how many files of a kind check prints.
const maxListed = 50

// list prints the lines of a name, of many the first, and none of one empty line.
func list(b *term.Sheet, name string, items ...string) {
	for i, item := range items {
		switch {
		case i == maxListed:
			fmt.Fprintf(b, "  %-14s and %d more (--json lists all)\n", name, len(items)-i)
			return
		case item != "":
			fmt.Fprintf(b, "  %-14s %s\n", name, shown.Under(item, "    "))
		}
	}
}

func printFaults(b *term.Sheet, kind string, faults []trace.Fault) {
	for _, f := range faults {
		fmt.Fprintf(b, "  %s: ", kind)
		b.Also(f.Line > 0, "line %d: ", f.Line)
		fmt.Fprintf(b, "%s: %s", f.Rule, shown.Under(f.Message, "    "))
		b.Also(f.Count > 1, " (%d times; the first is shown)", f.Count)
		b.WriteString("\n")
	}
}

// shares says how many tasks have each field, or files their size.
func shares(counts map[string]int, tasks, files int) string {
	var parts []string
	share := func(name string, of int) {
		if n := counts[name]; n > 0 && n == of {
			parts = append(parts, name+" of all")
		} else if n > 0 {
			parts = append(parts, fmt.Sprintf("%s of %d", name, n))
		}
	}
	for _, f := range trace.Fields(0).Each() {
		share(f.String(), tasks)
	}
	share(fileSize, files)
	return strings.Join(parts, ", ")
}

// seconds writes a duration in seconds and, if it is long, in hours.
func seconds(s float64) string {
	text := fmt.Sprintf("%.10g s", s)
	if s >= 600 && s < 9e9 {
		text += fmt.Sprintf(" (%s)", time.Duration(s*float64(time.Second)).Round(time.Second))
	}
	return text
}

// openWorkflow reads a workflow for a command that needs it whole: error faults end the command, warnings go to
// notes.
func openWorkflow(path string, o trace.ReadOptions, notes io.Writer) (*trace.Workflow, error) {
	w, faults, err := trace.Open(path, o)
	if err != nil {
		return nil, exit.With(exit.Input, trace.Plain(err))
	}
	var errs []string
	for _, f := range faults {
		if f.Severity == trace.Error {
			errs = append(errs, path+": "+f.String())
		} else {
			fmt.Fprintf(notes, "gantry: %s: %s\n", path, f)
		}
	}
	if len(errs) > 0 {
		return nil, exit.Inputf("%s", strings.Join(errs, "\n"))
	}
	if o.Repair && !trace.Repaired(faults) {
		return nil, exit.Inputf("--repair has no effect here: there was nothing to repair; leave it out")
	}
	return w, nil
}

// inQuotes is a name in quotes behind a text; nothing if there is no name.
func inQuotes(before, name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%s%.80q", before, name)
}
