package session

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/executor/experiment/load"
	"gantry/trace"
	"gantry/trace/scenario"
	"gantry/trace/shown"
)

// Inputs makes submissions of the workflows on the command line.
type Inputs struct {
	load.Loader
	Paths      []string
	Alone      *scenario.Workload // instead of Paths: a stream of it, whose repetitions nobody counts
	Single     *trace.Workflow    // instead of Paths: commands of the command line
	Seed       uint64             // of streams whose file says none
	repetition int                // of streams, counted from 0
	// repetitions is how many a workload file stands for, the most if there are several files; 0 if none was read.
	repetitions int
	reuse       bool // a workload file asks for it
	workloads   bool // one was read
	Preempt     func(subs []executor.Submission) error
	Given       map[string]string // variables of makeflows that the command line has
	GivenSite   string            // the site of catalogs that it has
	// warmUp and coolDown count workflows that metrics leave out; they are of the one workload file that was given.
	warmUp, coolDown int
}

// load reads workflows as the options say, for the nodes of the plan.
func (p *Planning) load(in *Inputs, o *Options) ([]executor.Submission, error) {
	set := p.Set
	in.Seed, in.repetition = set.Seed, max(1, set.Repetition)-1
	in.Platform, in.Count, in.Warn = p.Platform, set.Count, p.View.Warn
	in.TimeScale = max(set.TimeScale, math.SmallestNonzeroFloat64)
	if err := o.ReadAs(set, in); err != nil {
		return nil, err
	}
	subs, err := in.submissions()
	if err != nil {
		return nil, err
	}
	return subs, exit.Or(exit.Usage, in.Preempt(subs))
}

// Load reads workflows as the options say, for the nodes of the plan, draws all of them, and refuses options that have
// no effect on them.
func (p *Planning) Load(in *Inputs, o *Options) ([]executor.Submission, error) {
	subs, err := p.load(in, o)
	if err != nil {
		return nil, err
	}
	facts := Facts{Workloads: in.workloads, Repaired: in.Repaired}
	for i := range subs {
		if err := subs[i].Make(); err != nil {
			return nil, exit.With(exit.Input, err)
		}
		facts.Take(p.Set, &subs[i])
	}
	return subs, o.Refuse(p.Set, &facts)
}

// submissions reads all workflows before anything runs: one that is wrong stops everything.
func (in *Inputs) submissions() ([]executor.Submission, error) {
	if in.Alone != nil {
		subs, err := in.workload(in.Alone, true)
		return in.Order(subs), exit.Or(exit.Input, err)
	}
	if in.Single != nil {
		w, err := in.Checked(in.Single.Source, in.Single, nil)
		if err != nil {
			return nil, exit.With(exit.Input, err)
		}
		return []executor.Submission{{Workflow: w, Name: w.Label, Inputs: in.Inputs, Dirs: in.Dirs}}, in.effective()
	}
	if len(in.Paths) == 0 {
		return nil, exit.Usagef("no workflow given: name trace files, workload files or directories, or - for " +
			"standard input")
	}
	files, skipped, err := trace.Find(in.Paths)
	for _, s := range skipped {
		in.Warn("%s: not a workflow trace, skipped", s)
	}
	if err != nil {
		return nil, exit.With(exit.Input, trace.Plain(err))
	}
	var subs []executor.Submission
	for _, f := range files {
		more, err := in.file(f, len(files) == 1)
		if err != nil {
			return nil, exit.Or(exit.Input, err)
		}
		subs = append(subs, more...)
	}
	return in.Order(subs), in.effective()
}

// effective refuses patterns of results, variables and a site that had no effect on the workflows that were read.
func (in *Inputs) effective() error {
	if err := in.Unmet(); err != nil {
		return exit.With(exit.Input, err)
	}
	return RefuseUnused(in.Given, in.GivenSite, in.Used)
}

func (in *Inputs) file(path string, alone bool) ([]executor.Submission, error) {
	var archive bool
	var std io.Reader // standard input
	if path != "-" {
		archive = trace.IsArchive(path)
	} else {
		std, archive = trace.Archived(os.Stdin, "-")
	}
	if archive {
		in.Standard = std
		return in.workload(&scenario.Workload{Source: path, ScaleTimes: true,
			Arrivals: []scenario.Arrival{{Trace: path, Archive: true, Copies: 1}}}, alone)
	}
	text, workload, err := sniffWorkload(path, std)
	if err != nil {
		return nil, err
	}
	if workload {
		w, err := scenario.ReadWorkload(bytes.NewReader(text), path)
		if err != nil {
			return nil, err
		}
		w.Seed = cmp.Or(w.Seed, in.Seed)
		in.workloads = true
		in.repetitions = max(in.repetitions, w.Repetitions)
		in.reuse = in.reuse || w.Reuse
		in.Results = slices.Concat(in.Results, w.Results)
		if of := max(1, w.Repetitions); in.repetition >= of {
			return nil, exit.Usagef("--repetition %d: %s stands for %d (its key repetitions)", in.repetition+1,
				path, of)
		}
		return in.workload(w, alone)
	}
	var w *trace.Workflow
	if path == "-" {
		var faults []trace.Fault
		if w, faults, err = trace.Read(bytes.NewReader(text), "-", in.ReadOptions); err == nil {
			w, err = in.Checked(path, w, faults)
		}
	} else {
		w, err = in.Trace(path)
	}
	if err != nil {
		return nil, err
	}
	return []executor.Submission{{Workflow: w, Name: w.Label, Inputs: in.Inputs, Dirs: in.Dirs}}, nil
}

// workload makes the submissions of a workload. If it is alone, it says how many of them metrics leave out.
func (in *Inputs) workload(w *scenario.Workload, alone bool) ([]executor.Submission, error) {
	in.Lean = in.Lean && alone
	subs, err := in.Workload(w, in.repetition)
	if err != nil {
		return nil, err
	}
	warmUp, coolDown, err := load.Window(w, subs, in.TimeScale)
	switch {
	case err != nil && in.Count == 0:
		return nil, err
	case err != nil: // --count asks for a few on purpose
		in.Warn("%v; all count", err)
	case warmUp+coolDown > 0 && !alone:
		in.Warn("%s: warm_up and cool_down count only where a workload file is alone, and are left out", w.Source)
	default:
		in.warmUp, in.coolDown = warmUp, coolDown
	}
	return subs, nil
}

// sniffed is how much of a text distinguishes a workload from a trace.
const sniffed = 1 << 16

// sniffWorkload distinguishes a workload from a trace by the beginning of its text, which it opens if it is not open.
// The text is whole for a workload and for standard input.
func sniffWorkload(path string, open io.Reader) (text []byte, workload bool, err error) {
	if trace.IsMakeflow(path) {
		return nil, false, nil
	}
	r := open
	if r == nil {
		f, err := os.Open(path)
		if err != nil {
			return nil, false, err
		}
		defer f.Close()
		r = f
	}
	head, err := io.ReadAll(io.LimitReader(r, sniffed))
	workload = scenario.IsWorkload(head)
	if err == nil && (workload || open != nil) {
		var rest []byte
		rest, err = io.ReadAll(r)
		head = append(head, rest...)
	}
	return head, workload, err
}

// InputsDirs are the directories of --inputs as paths that hold anywhere.
func InputsDirs(dirs []string) (first string, more []string, err error) {
	for i, dir := range dirs {
		if dir, err = filepath.Abs(dir); err != nil {
			return "", nil, exit.With(exit.Input, err)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return "", nil, exit.Inputf("--inputs %s: it is not a directory", dir)
		}
		if i == 0 {
			first = dir
		} else {
			more = append(more, dir)
		}
	}
	return first, more, nil
}

// idle refuses --inputs if none of its directories has a file that the workflows read from outside.
func (in *Inputs) idle(subs []executor.Submission) error {
	for _, dir := range append([]string{in.Inputs}, in.Dirs...) {
		for i := range subs {
			if dir == "" || slices.ContainsFunc(subs[i].Sources, func(x executor.Source) bool {
				return strings.HasPrefix(x.Path, strings.TrimSuffix(dir, "/")+"/")
			}) {
				return nil
			}
		}
	}
	return exit.Inputf("--inputs has no effect here: no file that these workflows read from outside is in %s; "+
		"leave it out", strings.Join(append([]string{in.Inputs}, in.Dirs...), ", "))
}

// maxMissing is how many missing files an error lists.
const maxMissing = 20

// Locate finds the files from outside. A file that a program needs and that is nowhere is an error, as are mounts of
// catalogs to which the user does not consent.
func (p *Planning) Locate(ctx context.Context, subs []executor.Submission) error {
	if err := checkMounts(subs, p.Set.Emulate || p.Set.ContainerMounts); err != nil {
		return err
	}
	adm, search := p.Admitter(), stage.Search{User: stage.Caller().Rights()}
	for i := range subs {
		sub := &subs[i]
		files, err := adm.Outside(sub)
		if err != nil {
			return exit.With(exit.Input, err)
		}
		sources, missing, err := search.Locate(ctx, sub, files)
		if err != nil {
			return exit.With(exit.Interrupted, err)
		}
		if len(missing) > 0 {
			return exit.Inputf("%s", notFound(sub.Name, missing))
		}
		sub.Sources = sources
		if err := checkArchives(ctx, p.Set, sub.Workflow); err != nil {
			return err
		}
	}
	return nil
}

// checkArchives refuses archives of images whose checksums differ from those in catalogs.
func checkArchives(ctx context.Context, set *Settings, w *trace.Workflow) error {
	for _, c := range w.Containers {
		path, archive := strings.CutPrefix(c.Image, "file://")
		if !archive || set.Emulate {
			continue
		}
		if err := stage.Caller().Rights().Check(ctx, path, c.SHA256); err != nil {
			return exit.Inputf("container %s: image %s: %w", c.Name, path, err)
		}
	}
	return nil
}

// Remote reports whether a file is at an address, and was not fetched yet.
func Remote(x executor.Source) bool { return x.URL != "" && x.Path == "" }

// spareOfUsers is how much of the disk files that users have fetched leave free.
const spareOfUsers = 1 << 30

// FetchSources fetches the files that are at addresses, before the run is in the log, and refuses a run whose inputs do
// not fit on the disk.
func (p *Planning) FetchSources(ctx context.Context, dir string, subs []executor.Submission) error {
	adm, owner := p.Admitter(), stage.Caller()
	get := &stage.Fetcher{Dir: filepath.Join(dir, stage.FetchedDir), Own: owner.Takes, Wait: stage.Sleep,
		Begin:    func(url string) { p.View.Note("fetching %s", url) },
		Progress: p.View.Arriving("input file", "fetching")}
	if len(subs) == 1 && subs[0].By != nil { // a file that is fetched again is that of the same user
		get.Dir, get.Spare = filepath.Join(get.Dir, strconv.Itoa(subs[0].By.UID)), spareOfUsers
	}
	ctx, stop := exit.OnSignal(ctx)
	defer stop()
	for i := range subs {
		sub := &subs[i]
		if slices.ContainsFunc(sub.Sources, Remote) {
			files, err := adm.Outside(sub)
			if err != nil {
				return exit.With(exit.Input, err)
			}
			files = slices.DeleteFunc(files, func(f executor.Outside) bool { return !Remote(sub.Sources[f.File]) })
			search := stage.Search{User: RightsOf(sub, owner), Fetch: get.Fetch}
			found, missing, err := search.Locate(ctx, sub, files)
			p.View.End()
			switch {
			case ctx.Err() != nil:
				return exit.Stoppedf("stopped; nothing was started")
			case err != nil:
				return exit.Hostf("fetch the inputs of workflow %s: %w; nothing was started", sub.Name, err)
			case len(missing) > 0:
				return exit.Inputf("%s", notFound(sub.Name, missing))
			}
			for _, f := range files {
				sub.Sources[f.File] = found[f.File]
			}
		}
	}
	return p.checkRoom(dir, subs)
}

// muchInput is the size from which an input may be one with holes, which its copy has, too.
const muchInput = 64 << 20

// onDisk is how many bytes the copy of a file or a directory takes, at most its size.
func onDisk(src executor.Source) int64 {
	st, err := os.Stat(src.Path)
	if err != nil || src.Size < muchInput {
		return src.Size
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && !st.IsDir() {
		return min(src.Size, sys.Blocks*512)
	}
	if used, err := stage.DiskUse(stage.MostFiles, src.Path); err == nil {
		return min(src.Size, used)
	}
	return src.Size
}

// checkRoom refuses a run whose inputs do not fit on the disk of a directory, which need not be there yet: those that
// are copied, and those that are made up with the size that the trace says.
func (p *Planning) checkRoom(dir string, subs []executor.Submission) error {
	adm := p.Admitter()
	var copied, madeUp float64
	for i := range subs {
		sub := &subs[i]
		files, err := adm.Outside(sub)
		if err != nil {
			return exit.With(exit.Input, err)
		}
		for _, f := range files {
			if sub.Sources == nil || sub.Sources[f.File] == (executor.Source{}) {
				madeUp += float64(sub.Workflow.Files[f.File].Size) * p.Set.SizeScale
			}
		}
		for _, src := range sub.Sources {
			copied += float64(onDisk(src))
		}
	}
	dir = existing(dir)
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return exit.Hostf("run directory: %w", err)
	}
	free := float64(disk.Bavail) * float64(disk.Bsize)
	if copied+madeUp <= free {
		return nil
	}
	advice := "free some, or choose another --dir"
	if madeUp > 0 {
		advice = fmt.Sprintf("%s of them are made up for emulated tasks: make these smaller with --size-scale, or %s",
			shown.Size(int64(madeUp)), advice)
	}
	return exit.Hostf("the inputs have %s, and the disk of %s has room for %s: %s; nothing was started",
		shown.Size(int64(copied+madeUp)), dir, shown.Size(int64(free)), advice)
}

// existing is a directory, or the nearest above it that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// checkMounts refuses directories of the host that containers of catalogs ask for, unless the user consents.
func checkMounts(subs []executor.Submission, consent bool) error {
	var asked []string
	for i := range subs {
		for _, c := range subs[i].Workflow.Containers {
			for _, m := range c.Mounts {
				if !slices.Contains(asked, m) {
					asked = append(asked, m)
				}
			}
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if !consent {
		return exit.Inputf("containers of the catalogs ask for directories of this host (HOST:CONTAINER):\n  %s\n"+
			"--container-mounts lets them read these", strings.Join(asked, "\n  "))
	}
	for _, m := range asked {
		if _, err := os.Stat(executor.ParseMount(m).From); err != nil {
			return exit.Inputf("mount %s of a container: %w", m, err)
		}
	}
	return nil
}

// MissingFile says where a file was looked for.
func MissingFile(m stage.Missing) string {
	var looked []string
	for _, l := range m.Looked {
		looked = append(looked, l.Where+": "+l.Why)
	}
	if len(looked) == 0 {
		looked = append(looked, "no catalog names it, and the workflow comes from standard input")
	}
	return fmt.Sprintf("input %s of task %s:\n    %s", m.File, m.Task, strings.Join(looked, "\n    "))
}

// notFound says which files are missing and where gantry looked for them.
func notFound(workflow string, missing []stage.Missing) string {
	var b strings.Builder
	verb := "found"
	for _, m := range missing {
		if slices.ContainsFunc(m.Looked, func(l stage.Look) bool { return l.Why != "no such file" }) {
			verb = "read"
		}
	}
	fmt.Fprintf(&b, "workflow %s cannot start: %s cannot be %s\n", workflow, term.Plural(len(missing), "input file"),
		verb)
	for i, m := range missing {
		if i == maxMissing {
			fmt.Fprintf(&b, "  and %d more: gantry check lists them\n", len(missing)-i)
			break
		}
		fmt.Fprintf(&b, "  %s\n", MissingFile(m))
	}
	b.WriteString("give their directory with --inputs DIR, name them in a replica catalog, or put them beside the " +
		"workflow; --emulate makes up all files")
	return b.String()
}

// RightsOf are the rights with which files of a submission are read.
func RightsOf(sub *executor.Submission, otherwise stage.Owner) stage.User {
	if sub.By != nil {
		return stage.User(*sub.By)
	}
	return otherwise.Rights()
}
