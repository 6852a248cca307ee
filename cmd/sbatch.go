package cmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	release "gantry"

	"github.com/urfave/cli/v2"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/sbatch"
	"gantry/cmd/internal/server"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/sqlite"
	"gantry/trace"
	"gantry/trace/shown"
)

// exitSlurm is the exit code of Slurm's commands where they fail: programs that call them expect no other.
const exitSlurm = 1

// A slurmCommand is one of Slurm's commands, also under its own name.
type slurmCommand struct {
	name, usage, text string
	action            func(x *slurmCall) error
}

func slurmCommands() []slurmCommand {
	return []slurmCommand{
		{"sbatch", "hand in a job as Slurm's command of that name does", `The job runs in a container of an image: of
--container IMAGE, or of the environment variable GANTRY_IMAGE. It works in the current directory, or that of --chdir,
and can write to nothing else. GANTRY_READ names directories that it may read, divided by colons. GANTRY_DIR is the
directory of the server. The job is a task of the workflow that --workflow or GANTRY_WORKFLOW names (default: nextflow
for jobs of Nextflow, else sbatch), and starts after other jobs if --dependency says so. --tail SECONDS says how long
the jobs take that come after it and are not submitted yet: policies rank by it. --retries N says that the job may run
again, and tries it N times more if its program fails.

   sbatch --container gantry/busybox -c 2 --mem 1G -t 10 script.sh
   sbatch --container gantry/busybox --wrap 'sort big.txt >sorted.txt'

An option that gantry cannot honour is refused, or has no effect on the job and is reported. With --wait the exit
code is the highest of those of the jobs; one that a signal or a limit ended, or that did not run, counts as 1.`,
			sbatchAction},
		{"squeue", "list jobs as Slurm's command of that name does", `Jobs that ended are listed for five minutes.

SLURM_TIME_FORMAT is how instants are written: standard, relative, or a format of strftime.

   squeue -h -o '%i %t' -t all
   squeue -j '13_[4-6]' -O JobArrayID,State`, squeueAction},
		{"scancel", "end jobs as Slurm's command of that name does", "   scancel 12 13_4 '14_[1-3,7]'", scancelAction},
		{"sacct", "list jobs that ended as Slurm's command of that name does", `Fields are ` + sbatch.Fields() + `,
or ALL. SLURM_TIME_FORMAT is how instants are written: standard, relative, or a format of strftime.

   sacct -j 12 -X -n -P -o State,ExitCode`, sacctAction},
	}
}

func (s slurmCommand) command() *cli.Command {
	return &cli.Command{Name: s.name, Usage: s.usage, ArgsUsage: "[OPTIONS AND ARGUMENTS OF SLURM]",
		SkipFlagParsing: true, // they are Slurm's
		Description:     s.text + "\n\nExit codes: 0 done, 1 not done, with the reason.",
		Action: func(c *cli.Context) error {
			x, err := newSlurmCall(c, s.name)
			if err == nil {
				err = s.action(x)
			}
			if err == nil || err.Error() == "" {
				return err
			}
			fmt.Fprintf(c.App.ErrWriter, "%s: error: %v\n", s.name, err)
			return exit.With(exitSlurm, nil)
		}}
}

// slurmCall is a call of one of Slurm's commands.
type slurmCall struct {
	*cli.Context
	name   string
	args   []string
	me     sbatch.Submitter
	client *api.Client
}

func newSlurmCall(c *cli.Context, name string) (*slurmCall, error) {
	x := &slurmCall{Context: c, name: name, args: c.Args().Slice()}
	dir, err := filepath.Abs(session.DefaultHome())
	if err != nil {
		return nil, err
	}
	x.client = api.NewClient(dir)
	x.client.Notify = func(message string) { fmt.Fprintf(c.App.ErrWriter, "%s: %s\n", name, message) }
	if x.me.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	x.me.Dir = withoutLinks(x.me.Dir)
	x.me.UID = os.Geteuid()
	x.me.User = cmp.Or(server.UserName(x.me.UID), strconv.Itoa(x.me.UID))
	x.me.Host, _ = os.Hostname()
	x.me.Host, _, _ = strings.Cut(x.me.Host, ".")
	return x, nil
}

func withoutLinks(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// asked answers requests for help and the version; it reports whether there was one.
func (x *slurmCall) asked(a sbatch.Ask) bool {
	switch a {
	case sbatch.Help:
		_ = cli.ShowCommandHelp(x.Context, x.name) // it is one of the commands
		return true
	case sbatch.Version:
		fmt.Fprintf(x.App.Writer, "gantry %s, in place of slurm 22.05\n", release.Build())
		return true
	}
	return false
}

func (x *slurmCall) note(notes []string) {
	for _, n := range notes {
		fmt.Fprintf(x.App.ErrWriter, "%s: gantry: %s\n", x.name, n)
	}
}

func sbatchAction(x *slurmCall) error {
	j, err := sbatch.Parse(x.args, sbatch.Host{Dir: x.me.Dir, Env: os.LookupEnv, Real: withoutLinks,
		Read: func(path string) ([]byte, error) {
			f, err := openText(path)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return io.ReadAll(io.LimitReader(f, sbatch.MaxScript+1))
		},
		Stdin: func() ([]byte, error) { return io.ReadAll(io.LimitReader(os.Stdin, sbatch.MaxScript+1)) }})
	if err != nil || x.asked(j.Ask) {
		return err
	}
	x.note(j.Notes)
	after, err := x.after(j)
	if err != nil {
		return err
	}
	req, err := x.request(j, after)
	if err != nil {
		return err
	}
	a, err := x.client.Submit(x.Context.Context, req)
	if err != nil {
		return fmt.Errorf("job %s is not handed in: %w", j.Name, err)
	}
	switch {
	case j.Parsable:
		fmt.Fprintln(x.App.Writer, a.IDs[0])
	case !j.Quiet:
		fmt.Fprintln(x.App.Writer, "Submitted batch job", a.IDs[0])
	}
	if !j.Wait {
		return nil
	}
	return x.wait(a.IDs)
}

// wait waits for jobs. The exit code is the highest of theirs.
func (x *slurmCall) wait(ids []int64) error {
	code := 0
	for _, id := range ids {
		st, err := x.client.Wait(x.Context.Context, id)
		if err != nil {
			return err
		}
		row := jobOf(st)
		code = max(code, row.Waited())
	}
	if code != 0 {
		return exit.With(code, nil)
	}
	return nil
}

// after finds the submissions that a job comes after: of an array all elements.
func (x *slurmCall) after(j *sbatch.Job) (out []api.Dependency, err error) {
	if len(j.After) == 0 {
		return nil, nil
	}
	sel := &sbatch.Select{}
	for _, a := range j.After {
		sel.Jobs = append(sel.Jobs, a.Dependency)
	}
	rows, err := x.jobs(sel, api.QueueOf{All: true, Brief: true})
	if err != nil {
		return nil, err
	}
	for _, a := range j.After {
		d := api.Dependency{ID: a.ID, Ended: a.When == sbatch.AfterAny, Failed: a.When == sbatch.AfterNotOK}
		known := len(out)
		for i := range rows {
			if rows[i].Is(a.Dependency) {
				d.ID = rows[i].ID
				out = append(out, d)
			}
		}
		switch {
		case len(out) > known:
		case a.Index >= 0:
			return nil, fmt.Errorf("--dependency: there is no job %s", a.Dependency)
		default:
			out = append(out, d) // there is none, as the server will say
		}
	}
	return out, nil
}

// request makes the request for a job: a single task for each element of its array.
func (x *slurmCall) request(j *sbatch.Job, after []api.Dependency) (*api.Submit, error) {
	image := cmp.Or(j.Container, os.Getenv("GANTRY_IMAGE"))
	if image == "" {
		return nil, errors.New("the job has no image to run in: name one with --container, #SBATCH --container or " +
			"the environment variable GANTRY_IMAGE")
	}
	mounts := []string{executor.InPlace(j.Dir, true)}
	for _, dir := range filepath.SplitList(os.Getenv("GANTRY_READ")) {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("GANTRY_READ: %q is not an absolute path", dir)
		}
		if dir = withoutLinks(dir); dir != j.Dir {
			mounts = append(mounts, executor.InPlace(dir, false))
		}
	}
	req := &api.Submit{AtMost: j.AtMost}
	for element := range max(1, len(j.Array)) {
		t := trace.Task{ID: executor.EscapeName(j.Name), Name: j.Name, Kind: sbatch.Kind(j.Name),
			Cores: float64(j.CPUs), MemoryBytes: j.Memory, Command: j.Argv(x.me, element), Image: image,
			Env: executor.MergeEnv(nil, j.Export), TimeLimit: j.Limit, Tail: j.Tail, Container: 1, Tokens: j.Licenses,
			GPUs: int32(j.GPUs), Retries: j.Retries,
			Known: trace.Cores | trace.Command | trace.Image}
		if j.Memory > 0 {
			t.Known |= trace.Memory
		}
		name := cmp.Or(j.Workflow, os.Getenv("GANTRY_WORKFLOW"), sbatch.Workflow(j.Name))
		w := &trace.Workflow{Name: name, Label: name, Source: "sbatch", Tasks: []trace.Task{t},
			Containers: []trace.Container{{Name: "sbatch", Image: image, Mounts: mounts, Source: "sbatch"}}}
		trace.Impute(w, trace.Defaults{})
		sub := &executor.Submission{Name: name, Tenant: j.Account, Workflow: w}
		definition, err := sqlite.EncodeSubmission(sub)
		if err != nil {
			return nil, err
		}
		task := api.Task{Workflow: name, Definition: definition, After: after, Labels: jobLabels(j, element)}
		task.Reads, task.Writes = j.Files()
		req.Tasks = append(req.Tasks, task)
	}
	return req, nil
}

// slurmLabel is the label with the attributes of a job that squeue prints.
const slurmLabel = "slurm"

// jobNote is the value of the label.
type jobNote struct {
	sbatch.About
	After   []string `json:"after,omitempty"`
	Element *int     `json:"element,omitempty"` // position in the array
	Index   int      `json:"index,omitempty"`   // number in the array
}

func jobLabels(j *sbatch.Job, element int) api.Labels {
	n := jobNote{About: j.About}
	for _, a := range j.After {
		n.After = append(n.After, a.String())
	}
	if j.Array != nil {
		n.Element, n.Index = &element, j.Array[element]
	}
	text, _ := json.Marshal(n) // it can be written
	return api.Labels{slurmLabel: string(text)}
}

func jobOf(st *api.Status) sbatch.Row {
	r := sbatch.Row{ID: st.ID, User: cmp.Or(st.User, strconv.Itoa(st.UID)), UID: st.UID, Node: st.Node, Peak: st.Peak,
		CPUTime: st.CPU, Submitted: st.Submitted, Reason: st.Reason, By: st.CancelledBy,
		About: sbatch.About{Name: st.Name, Account: st.Tenant, CPUs: 1}}
	var n jobNote
	if text := st.Labels[slurmLabel]; text != "" && json.Unmarshal([]byte(text), &n) == nil {
		if r.About, r.After = n.About, n.After; n.Element != nil {
			r.ArrayID, r.Index = st.ID-int64(*n.Element), n.Index
		}
	}
	r.Partition = cmp.Or(r.Partition, "main")
	shown.Names(&r)
	for to, at := range map[*time.Time]*time.Time{&r.Started: st.Started, &r.Ended: st.Ended} {
		if at != nil {
			*to = *at
		}
	}
	if st.Expected != nil {
		r.Ends = st.Expected.End
		if st.Expected.Start != nil {
			r.Begins = *st.Expected.Start
		}
	}
	r.State = slurmState(st)
	switch {
	case st.Signal != 0:
		r.Signal = syscall.Signal(st.Signal)
	case st.Exit != nil:
		r.Exit = max(0, *st.Exit)
	}
	switch {
	case r.State == sbatch.Running: // also one that is being ended
		r.Reason = ""
	case r.State == sbatch.Pending && r.Reason == api.Throttled:
		r.Reason = "JobArrayTaskLimit"
	case r.State == sbatch.Pending && r.Reason == "":
		r.Reason = "Resources"
		if len(r.After) > 0 {
			r.Reason = "Dependency"
		}
	case r.State == sbatch.Failed && r.Signal != 0:
		name := r.Signal.String()
		r.Reason = fmt.Sprintf("RaisedSignal:%d(%s%s)", r.Signal, strings.ToUpper(name[:1]), name[1:])
	case r.State == sbatch.Failed:
		r.Reason = "NonZeroExitCode"
	case r.State == sbatch.Timeout:
		r.Reason = "TimeLimit"
	case r.State == sbatch.OutOfMemory:
		r.Reason = "OutOfMemory"
	}
	return r
}

func slurmState(st *api.Status) sbatch.State {
	state := st.State
	if st.Over && st.Failed > 0 && state != sqlite.Cancelled {
		state = "failed" // a workflow of one task has the state of its other tasks
	}
	failed, known := slurmFailures[st.Outcome]
	switch {
	case state == "running" && st.Node == "": // it is waiting for its next try
		return sbatch.Pending
	case state == sqlite.Cancelled && !st.Over: // it is ending
		return sbatch.Running
	case state == "failed" && known:
		return failed
	}
	return slurmStates[state]
}

// slurmStates are Slurm's words for states of submissions; others are pending.
var slurmStates = map[string]sbatch.State{"running": sbatch.Running, "suspended": sbatch.Suspended,
	"done": sbatch.Completed, sqlite.Cancelled: sbatch.Cancelled, "skipped": sbatch.Cancelled,
	"refused": sbatch.Cancelled, "failed": sbatch.Failed}

// slurmFailures are those for outcomes of tasks that failed otherwise than by their exit code.
var slurmFailures = map[string]sbatch.State{"timed-out": sbatch.Timeout, "out-of-memory": sbatch.OutOfMemory,
	"lost": sbatch.NodeFail, "host-error": sbatch.NodeFail, "preempted": sbatch.Preempted}

// keepEnded is how long squeue lists jobs after their end: Slurm's default.
const keepEnded = 300 * time.Second

// jobs are those that may be meant, by number: those that are named with all elements of their arrays.
func (x *slurmCall) jobs(sel *sbatch.Select, of api.QueueOf) (rows []sbatch.Row, err error) {
	for _, name := range sel.Users {
		if len(sel.Jobs) > 0 {
			break // that one is of another user is no reason not to know it
		}
		if u, err := user.Lookup(name); err == nil {
			name = u.Uid
		}
		uid, err := strconv.Atoi(name)
		if err != nil || len(sel.Users) > api.MaxAsked/2 {
			of.Users = nil // Select knows
			break
		}
		of.Users = append(of.Users, uid)
	}
	ids := []int64{}
	for _, d := range sel.Jobs {
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	parts := [][]int64{nil} // all
	if len(ids) > 0 {
		parts = slices.Collect(slices.Chunk(ids, api.MaxAsked/2))
	}
	seen := map[int64]bool{}
	for _, part := range parts {
		of.IDs = part
		q, err := x.client.Queue(x.Context.Context, of)
		if err != nil {
			return nil, err
		}
		if q.More > 0 {
			x.note([]string{fmt.Sprintf("left out, though not over: %s; name jobs by number", term.Plural(q.More,
				"job"))})
		}
		for i := range q.Submissions {
			if st := &q.Submissions[i]; !seen[st.ID] {
				seen[st.ID] = true
				rows = append(rows, jobOf(st))
			}
		}
	}
	slices.SortFunc(rows, func(a, b sbatch.Row) int { return cmp.Compare(a.ID, b.ID) })
	return rows, nil
}

func squeueAction(x *slurmCall) error {
	q, err := sbatch.ParseQueue(x.args, x.me.User, os.LookupEnv)
	if err != nil || x.asked(q.Ask) {
		return err
	}
	x.note(q.Notes)
	rows, err := x.jobs(&q.Select, api.QueueOf{All: q.Select.Ended() || len(q.Select.Jobs) > 0})
	if err != nil {
		return err
	}
	now := time.Now()
	rows = slices.DeleteFunc(rows, func(r sbatch.Row) bool {
		return r.State.Ended() && now.Sub(r.Ended) > keepEnded
	})
	// As Slurm: an error if the only job that is asked for is not known.
	if len(q.Select.Jobs) == 1 && !slices.ContainsFunc(rows, func(r sbatch.Row) bool {
		return (&sbatch.Select{Jobs: q.Select.Jobs}).Match(&r)
	}) {
		return fmt.Errorf("invalid job id specified: %s", q.Select.Jobs[0])
	}
	return q.Print(x.App.Writer, rows, now)
}

func sacctAction(x *slurmCall) error {
	a, err := sbatch.ParseAccount(x.args, x.me.User, os.LookupEnv, time.Now())
	if err != nil || x.asked(a.Ask) {
		return err
	}
	x.note(a.Notes)
	rows, err := x.jobs(&a.Select, api.QueueOf{All: true, Brief: true})
	if err != nil {
		return err
	}
	return a.Print(x.App.Writer, rows, time.Now())
}

func scancelAction(x *slurmCall) error {
	c, err := sbatch.ParseCancel(x.args, x.me.User)
	if err != nil || x.asked(c.Ask) {
		return err
	}
	x.note(c.Notes)
	rows, err := x.jobs(&c.Select, api.QueueOf{All: len(c.Select.Jobs) > 0, Brief: true})
	if err != nil {
		return err
	}
	for i := range slices.Backward(rows) { // no element of an array starts where another one has just ended
		if !c.Select.Match(&rows[i]) {
			continue
		}
		if _, err := x.client.Cancel(x.Context.Context, rows[i].ID); err != nil {
			return fmt.Errorf("job %d: %w", rows[i].ID, err)
		}
	}
	for _, d := range c.Select.Jobs {
		if !c.Quiet && !slices.ContainsFunc(rows, func(r sbatch.Row) bool { return r.Is(d) }) {
			return fmt.Errorf("kill job error on job id %s: invalid job id specified", d)
		}
	}
	return nil
}

func slurmLinksCommand() *cli.Command {
	return &cli.Command{
		Name:      "slurm-links",
		Usage:     "make links named sbatch, squeue, scancel and sacct to put on the PATH",
		ArgsUsage: "DIR",
		Description: `Workflow systems that speak to Slurm then hand in their jobs to the gantry that serves --dir.
The printed line sets the environment of a shell:

   eval "$(gantry slurm-links ~/gantry-slurm)"

Exit codes: 0 made, 2 wrong command line, 4 DIR has other files of these names, or cannot be written.`,
		Flags:  []cli.Flag{dirFlag()},
		Action: exactly(1, "name one directory for the links", slurmLinks),
	}
}

func slurmLinks(c *cli.Context) error {
	dir := c.Args().First()
	self, err := os.Executable()
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	for _, s := range slurmCommands() {
		path := filepath.Join(dir, s.name)
		if err == nil {
			if to, e := os.Readlink(path); e == nil && to == self {
				continue
			}
			err = os.Symlink(self, path)
		}
	}
	if err != nil {
		return exit.Hostf("links to gantry: %w", err)
	}
	fmt.Fprintf(c.App.Writer, "export PATH=%s:\"$PATH\" GANTRY_DIR=%s\n", executor.Quote([]string{dir}),
		executor.Quote([]string{homeOf(c)}))
	return nil
}
