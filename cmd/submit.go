package cmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/server"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/lock"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/report/columns"
	"gantry/sqlite/report/summary"
	"gantry/trace/shown"
)

func client(c *cli.Context) *api.Client {
	cl := api.NewClient(homeOf(c))
	if !c.Bool("quiet") {
		cl.Notify = func(message string) { fmt.Fprintln(c.App.ErrWriter, "gantry: "+message) }
	}
	return cl
}

func serverError(err error) error {
	refused := new(api.Error)
	switch coded := new(exit.Error); {
	case err == nil, errors.As(err, &coded):
		return err
	case !errors.As(err, &refused):
		return exit.With(exit.Host, err)
	}
	switch refused.Code {
	case api.Invalid, api.Unknown:
		return exit.With(exit.Input, err)
	case api.Failed:
		return exit.With(exit.Internal, err)
	}
	return exit.With(exit.Host, err)
}

func quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing but the answer and errors"}
}

func jsonFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "print JSON"} }

func submitCommand() *cli.Command {
	return &cli.Command{
		Name:      "submit",
		Usage:     "hand in workflows to the server of the directory",
		ArgsUsage: "TRACE|WORKLOAD|DIR|-...",
		Description: `Hands in the files that gantry run takes. It prints the number of each workflow as soon as that is
in the log of the server: from then on it is not lost. One command is handed in whole or not at all. If the server is
killed and started again meanwhile, the command continues by itself.

   gantry submit montage.dax
   gantry submit --inputs data --image gantry/busybox Makeflow
   gantry wait 12

gantry sbatch hands in one command, which may come after others.

Exit codes: 0 handed in, 2 wrong command line, 3 invalid input or refused, 4 no server, or it cannot take work.`,
		Flags: slices.Concat([]cli.Flag{dirFlag()}, givenFlags("of the submission, and nobody else, "), []cli.Flag{
			&cli.IntFlag{Name: "retries", Aliases: []string{"T"}, Usage: "try tasks `N` times more whose program " +
				"fails (default: as the workflow says, else as the server was told)"},
			&cli.StringFlag{Name: "tenant", Usage: "`TENANT` that the workflow counts for (default: as a workload " +
				"file says)"},
			&cli.StringFlag{Name: "class", Usage: "`CLASS`: deadline (it needs one), regular or low (default: " +
				"deadline if there is one, else regular)"},
			&cli.StringFlag{Name: "deadline", Usage: "`WHEN` it has to have ended: 2h or 3d from now, " +
				"18:00, or \"2026-12-24 18:00\""},
			&cli.StringFlag{Name: "release", Usage: "`WHEN` it may start, as the deadline (default: at " +
				"once)"},
			&cli.BoolFlag{Name: "reject-late", Usage: "have it refused if the policy finds no plan that meets its " +
				"deadline"},
			&cli.BoolFlag{Name: "no-prediction", Usage: "do not wait for a prediction of its start and end"},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the workflow (default: that of its file)"},
			quietFlag(), jsonFlag(),
		}, shared("image emulate inputs catalog site enforce-walltime container-mounts checkpoint preempt repair "+
			"max-input define results")),
		Action: onServer(submit),
	}
}

// handing is the command line of gantry submit.
type handing struct {
	*cli.Context
	set               *session.Settings
	class             planner.Class // of --class
	deadline, release planner.Time  // from now on; 0: none
}

// readHanding reads the options, with the rights of the caller.
func readHanding(c *cli.Context, about *api.Server) (*handing, error) {
	h := &handing{Context: c, set: &session.Settings{Image: cmp.Or(c.String("image"), about.Image),
		Emulate: c.Bool("emulate"), Seed: 1, TimeScale: about.TimeScale, Runtime: about.Runtime}}
	if text := c.String("class"); text != "" {
		all := []planner.Class{planner.Deadline, planner.Regular, planner.Low}
		i := slices.IndexFunc(all, func(k planner.Class) bool { return k.String() == text })
		if i < 0 {
			return nil, exit.Usagef("--class %s: choose deadline, regular or low", text)
		}
		h.class = all[i]
	}
	now := time.Now()
	for flag, to := range map[string]*planner.Time{"deadline": &h.deadline, "release": &h.release} {
		if text := c.String(flag); text != "" {
			d, err := fromNow(text, now)
			if err != nil {
				return nil, exit.Usagef("--%s %s: %w", flag, text, err)
			}
			*to = planner.Time(d)
		}
	}
	if h.deadline > 0 && h.deadline <= h.release {
		return nil, exit.Usagef("--deadline %s: it is not after --release %s", c.String("deadline"),
			c.String("release"))
	}
	return h, readGiven(c, h.set)
}

func (h *handing) workflows(about *api.Server) ([]executor.Submission, error) {
	p := &session.Planning{Set: h.set, Platform: &planner.Platform{}, View: term.New(h.Bool("quiet"))}
	if err := json.Unmarshal(about.Platform, p.Platform); err != nil {
		return nil, exit.Internalf("the nodes of the server: %w", err)
	}
	o := sessionOptions(h.Context, "")
	o.Refuse = func(set *session.Settings, f *session.Facts) error {
		f.Due = true // --deadline gives one
		return refuseIdle(h.Context, set, f)
	}
	subs, err := p.Load(&session.Inputs{Paths: h.Args().Slice()}, &o)
	if err != nil {
		return nil, err
	}
	late := h.Bool("reject-late")
	for i := range subs {
		if err := h.settle(&subs[i]); err != nil {
			return nil, err
		}
		late = late && subs[i].Due == 0
	}
	if late {
		return nil, exit.Usagef("--reject-late: no workflow has a deadline; give one with --deadline")
	}
	if session.Capabilities(h.set.Runtime).Programs {
		if err := p.Locate(h.Context.Context, subs); err != nil {
			return nil, err
		}
	}
	for i := range subs {
		if len(h.set.Mounts) > 0 && !h.set.Emulate {
			executor.AddMounts(subs[i].Workflow, "--mount", h.set.Mounts)
		}
	}
	return subs, nil
}

// fromNow reads an instant to come: a duration such as 2h, a time of day, the next one, or a date with a time.
func fromNow(text string, now time.Time) (time.Duration, error) {
	if d, err := durationOf(text); err == nil {
		if d <= 0 {
			return 0, errors.New("it has to be in the future")
		}
		return d, nil
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.Local)
			if !at.After(now) {
				at = at.AddDate(0, 0, 1)
			}
			return at.Sub(now), nil
		}
	}
	if t, ok := dateOf(text); ok {
		if !t.After(now) {
			return 0, errors.New("it is past")
		}
		return t.Sub(now), nil
	}
	return 0, errors.New("give a duration such as 90m, 2h or 3d, a time such as 18:00, or 2026-12-24 18:00")
}

// settle writes the options of the command line into a workflow and its tasks: the server gets the workflow alone.
func (h *handing) settle(sub *executor.Submission) error {
	sub.Name, sub.Tenant = cmp.Or(h.String("name"), sub.Name), cmp.Or(h.String("tenant"), sub.Tenant)
	sub.Release = cmp.Or(h.release, sub.Release)
	if h.deadline > 0 {
		sub.Due, sub.Class = h.deadline, planner.Deadline
	}
	if h.IsSet("class") {
		sub.Class = h.class
	}
	if sub.Class == planner.Deadline && sub.Due == 0 {
		return exit.Usagef("--class deadline: %s has no deadline; give one with --deadline", sub.Name)
	}
	sub.RejectLate = sub.RejectLate || h.Bool("reject-late")
	w := *sub.Workflow // others may share it
	w.Tasks = slices.Clone(w.Tasks)
	sub.Workflow = &w
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if h.IsSet("retries") {
			t.Retries = h.Int("retries")
		}
		if h.set.Emulate {
			t.Command, t.Shell, t.Expand, t.Renames = nil, false, false, nil
			continue
		}
		if len(t.Command) == 0 {
			continue
		}
		t.Image, t.Env = cmp.Or(t.Image, h.String("image")), executor.MergeEnv(t.Env, h.set.Env)
	}
	return nil
}

func submit(c *cli.Context, cl *api.Client) error {
	about, err := cl.About(c.Context)
	if err != nil {
		return err
	}
	h, err := readHanding(c, about)
	if err != nil {
		return err
	}
	subs, err := h.workflows(about)
	if err != nil {
		return err
	}
	req := &api.Submit{Secrets: map[string][]byte{}}
	for i := range subs {
		definition, err := sqlite.EncodeSubmission(&subs[i])
		if err != nil {
			return exit.Internalf("workflow %s: %w", subs[i].Name, err)
		}
		req.Workflows = append(req.Workflows, api.Workflow{Name: subs[i].Name, Definition: definition})
	}
	secrets, err := h.set.SecretValues()
	if err != nil {
		return err
	}
	for name, value := range secrets {
		req.Secrets[name] = []byte(value)
	}
	a, err := cl.Submit(c.Context, req)
	if err != nil {
		return err
	}
	return acknowledge(c, cl, a, subs)
}

// acknowledge prints the numbers of submissions, then their expected runtimes and ends.
func acknowledge(c *cli.Context, cl *api.Client, a *api.Accepted, subs []executor.Submission) (err error) {
	for i, id := range a.IDs {
		switch {
		case c.Bool("json"):
		case c.Bool("quiet"):
			fmt.Fprintln(c.App.Writer, id)
		default:
			fmt.Fprintf(c.App.Writer, "%d: %s, %s\n", id, shown.Line(a.Names[i]),
				term.Plural(len(subs[i].Workflow.Tasks), "task"))
		}
	}
	var expected []*api.Status
	if c.Bool("reject-late") || !c.Bool("quiet") && !c.Bool("no-prediction") {
		expected, err = foretold(c, cl, a.IDs)
	}
	asJSON(c, struct { // also if nothing is expected of it
		*api.Accepted
		Submissions []*api.Status `json:"submissions,omitempty"`
	}{a, expected})
	return err
}

// mostForetold bounds the lines of predictions.
const mostForetold = 20

// foretold returns the expectations of submissions, and prints them as text. It fails if any was refused.
func foretold(c *cli.Context, cl *api.Client, ids []int64) (all []*api.Status, late error) {
	text := !c.Bool("quiet") && !c.Bool("json")
	for i, id := range ids {
		if i == mostForetold && !c.Bool("reject-late") {
			if text {
				fmt.Fprintf(c.App.Writer, "gantry queue shows the expectations of the others\n")
			}
			break
		}
		st, err := cl.Expected(c.Context, id)
		if err != nil {
			return all, serverError(fmt.Errorf("it is handed in, but nothing is predicted of it: %w", err))
		}
		all = append(all, st)
		switch {
		case st.State == sqlite.Refused:
			late = exit.With(exit.Input, nil)
			fmt.Fprintf(c.App.ErrWriter, "gantry: %d: %s is refused: no plan of the policy meets its deadline\n", st.ID,
				shown.Line(st.Name))
		case text:
			fmt.Fprintf(c.App.Writer, "%d: %s\n", st.ID, shown.Line(expectation(st)))
		}
	}
	return all, late
}

func expectation(st *api.Status) string {
	x := st.Expected
	if x == nil {
		if st.Over {
			return st.State
		}
		return "nothing is predicted yet"
	}
	var text []string
	within := func(at, low, high *time.Time) string {
		if low == nil || high == nil || clockOf(low) == clockOf(high) {
			return clockOf(at)
		}
		return fmt.Sprintf("%s (%s to %s with a probability of 80 %%)", clockOf(at), clockOf(low), clockOf(high))
	}
	if x.Start != nil {
		text = append(text, "expected to start "+within(x.Start, x.StartLow, x.StartHigh))
	}
	if !x.End.IsZero() {
		end := "to end " + within(&x.End, &x.Low, &x.High)
		if x.Start == nil {
			end = "expected " + end
		}
		text = append(text, end)
	}
	if st.Due != nil {
		due := "due " + clockOf(st.Due)
		if x.Late != nil && *x.Late {
			due += ", which will be missed"
		} else if x.Late != nil {
			due += ", which will be met"
		}
		text = append(text, due)
	}
	if x.Note != "" {
		text = append(text, x.Note)
	}
	return strings.Join(text, ", ")
}

func queueCommand() *cli.Command {
	return &cli.Command{
		Name:  "queue",
		Usage: "list submissions that run and wait at the server of the directory",
		Description: `   gantry queue
   gantry queue --all      also those that ended, the latest 1000
   gantry queue --tenants  by tenant: held cores and memory, tasks that wait, dominant share, Jain's index of the shares

Of a tenant: "workflows" have arrived in the run, "present" ones have not ended; "waiting" and "running" are tasks,
"cores" and "memory" are held by these. "share" is the largest share that it holds of the
resources of all nodes, "of" the resource. "mean wait" and "longest" are times from arrival to first start of workflows
that have started; "oldest" is how long one waits that has not.

Exit codes: 0 listed, 2 wrong command line, 4 no server.`,
		Flags: []cli.Flag{
			dirFlag(),
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "also list submissions that ended"},
			&cli.BoolFlag{Name: "tenants", Usage: "list tenants: tasks, held resources, dominant shares, times that " +
				"workflows waited, limits"},
			quietFlag(),
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			return taking(0, "; gantry show "+c.Args().First()+" shows one submission", onServer(queue))(c)
		},
	}
}

func queue(c *cli.Context, cl *api.Client) error {
	if c.Bool("tenants") {
		t, err := cl.Tenants(c.Context)
		if err == nil && !asJSON(c, t) {
			printTenants(c, t)
		}
		return err
	}
	q, err := cl.Queue(c.Context, api.QueueOf{All: c.Bool("all")})
	if err == nil && !asJSON(c, q) {
		printQueue(c, q)
	}
	return err
}

func printQueue(c *cli.Context, q *api.Queue) {
	w := c.App.Writer
	draining := ""
	if q.Server.Draining {
		draining = ", draining"
	}
	fmt.Fprintf(w, "Run %s, policy %s on %s%s: %s, %s running, %d waiting\n", q.Server.Run, q.Server.Policy,
		q.Server.Runtime, draining, term.Plural(q.Server.Workflows, "workflow"), term.Plural(q.Server.Running, "task"),
		q.Server.Waiting)
	const titles = "-id|name|user|tenant|state|-tasks|-done|-running|-failed|start|end|due|why"
	columns.List(w, q.Submissions, 0, titles, queued)
	if q.More > 0 {
		fmt.Fprintf(w, "and %d more\n", q.More)
	}
	if q.Older {
		fmt.Fprintln(w, "Older ones are not listed: gantry show ID shows one.")
	}
}

func queued(s api.Status) []any {
	user := cmp.Or(s.User, strconv.Itoa(s.UID))
	if s.Veiled {
		return []any{s.ID, s.Name, user, "-", s.State, "-", "-", "-", "-", "-", "-", "-", ""}
	}
	start, end, due := clockOf(s.Started), clockOf(s.Ended), clockOf(s.Due)
	if x := s.Expected; x != nil {
		if !x.End.IsZero() {
			end = "~" + clockOf(&x.End)
		}
		if x.Start != nil {
			start = "~" + clockOf(x.Start)
		}
		if x.Late != nil && *x.Late {
			due += " (late)"
		}
	}
	return []any{s.ID, s.Name, user, s.Tenant, s.State, s.Tasks, s.Done, s.Running, s.Failed, start, end, due,
		cmp.Or(s.Message, s.Reason)}
}

// clockOf is an instant for people: the time of today, else the date, too.
func clockOf(t *time.Time) string {
	if t == nil {
		return "-"
	}
	at, now := t.Local(), time.Now()
	if at.Year() == now.Year() && at.YearDay() == now.YearDay() {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// submission returns the id that the argument of a command names.
func submission(c *cli.Context) (id int64, err error) {
	if id, err = strconv.ParseInt(c.Args().First(), 10, 64); err != nil || id < 1 {
		hint := ""
		if c.Command.Name == "cancel" {
			hint = "; Ctrl-C, or SIGTERM to its gantry, stops a run, and gantry drain a server"
		}
		return 0, exit.Usagef("%s %s: it is no number of a submission; gantry queue lists them%s",
			c.Command.Name, shown.Line(c.Args().First()), hint)
	}
	return id, nil
}

func waitCommand() *cli.Command {
	return &cli.Command{
		Name:      "wait",
		Usage:     "wait until a submission has ended",
		ArgsUsage: "ID",
		Description: `Prints how it ended, and which tasks that succeeded wrote to standard error or left an empty
output. If the server is killed and started again meanwhile, the command continues by
itself. A submission that ended is found in the log when no server is there.

   gantry wait --results-dir montage 12

Exit codes: 0 all its tasks succeeded, 1 tasks failed or it was cancelled, 2 wrong command line, 3 no such submission,
or it was refused, 4 no server, or the results cannot be copied.`,
		Flags: []cli.Flag{dirFlag(), resultsDirFlag("when it has ended, over files of their names"), quietFlag(),
			jsonFlag()},
		Action: onSubmission(func(c *cli.Context, cl *api.Client, id int64) error {
			set, home := &session.Settings{}, homeOf(c)
			if err := readResultsDir(c, set); err != nil {
				return err
			}
			if err := session.MakeResultsDir(home, set.ResultsDir); err != nil {
				return err
			}
			st, err := cl.Wait(c.Context, id)
			if errors.Is(err, api.ErrNoServer) {
				st, err = loggedStatus(c, id, err)
			}
			if err != nil {
				return err
			}
			err = ended(c, st)
			tellDoubts(c, st)
			if set.ResultsDir == "" || st.Results == "" { // it was refused
				return err
			}
			return placeResults(c, filepath.Join(home, st.Results), set.ResultsDir, err)
		}),
	}
}

// placeResults copies the results of a submission that ended, with an error or without.
func placeResults(c *cli.Context, from, to string, outcome error) error {
	err, said := session.PlaceResults(from, to), "results are in "+term.ShortPath(to)
	if _, missing := os.Lstat(from); errors.Is(missing, fs.ErrNotExist) {
		err, said = nil, "it has no results"
	}
	if err != nil {
		code := new(exit.Error)
		if errors.As(outcome, &code) {
			return exit.With(code.Code, err)
		}
		return exit.With(exit.Host, err)
	}
	if !c.Bool("quiet") {
		fmt.Fprintln(c.App.ErrWriter, said)
	}
	return outcome
}

// tellDoubts names the tasks of a finished submission that may not have meant to succeed, as gantry run does at its
// end.
func tellDoubts(c *cli.Context, st *api.Status) {
	if st.State != "done" || st.Tasks > mostSummed || c.Bool("json") || c.Bool("quiet") {
		return
	}
	db, err := openLog(c)
	if err != nil {
		return // how it ended is known
	}
	defer db.Close()
	if doubts, err := summary.Doubts(c.Context, db, st.ID); err == nil {
		b := term.NewSheet(c.App.ErrWriter)
		printFailures(b, &summary.Run{Doubts: doubts}, c.Args().First())
		fmt.Fprint(c.App.ErrWriter, b.String())
	}
}

// loggedStatus is how a submission has ended by the log; an error, which is that of the server, if it has not.
func loggedStatus(c *cli.Context, id int64, noServer error) (*api.Status, error) {
	db, err := sqlite.Open(filepath.Join(c.String("dir"), sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return nil, noServer
	}
	defer db.Close()
	o, err := db.Outcome(c.Context, id)
	if err != nil {
		return nil, exit.With(exit.Input, err)
	}
	info, err := db.Info(c.Context, o.Run)
	if err != nil {
		return nil, session.LogError(err)
	}
	st := server.StatusOf(o, info.Started)
	if !st.Over {
		return nil, fmt.Errorf("%w\nsubmission %d is %s", noServer, id, st.State)
	}
	return st, nil
}

// ended prints how a submission ended, and is the exit code of gantry wait.
func ended(c *cli.Context, st *api.Status) error {
	if !asJSON(c, st) && !c.Bool("quiet") {
		text := fmt.Sprintf("%d: %s %s", st.ID, shown.Line(st.Name), st.State)
		if st.Tasks > 0 {
			text += fmt.Sprintf(", %d of %s done", st.Done, term.Plural(st.Tasks, "task"))
		}
		if st.Failed > 0 {
			text += fmt.Sprintf(", %d failed or skipped", st.Failed)
		}
		if st.Message != "" {
			text += ": " + shown.Under(st.Message, "  ")
		}
		fmt.Fprintln(c.App.Writer, text)
	}
	switch {
	case st.State == sqlite.Refused:
		return exit.With(exit.Input, nil)
	case st.State == "done":
		return nil
	}
	return exit.With(exit.TasksFailed, nil)
}

func cancelCommand() *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "withdraw a submission: end its tasks, start nothing more",
		ArgsUsage: "ID",
		Description: `Tasks that have ended stay as they are.

Exit codes: 0 it is cancelled, or had ended before, 2 wrong command line, 3 no such submission, 4 no server, or the
submission is another user's.`,
		Flags: []cli.Flag{dirFlag(), quietFlag(), jsonFlag()},
		Action: onSubmission(func(c *cli.Context, cl *api.Client, id int64) error {
			st, err := cl.Cancel(c.Context, id)
			if err == nil && !asJSON(c, st) && !c.Bool("quiet") {
				fmt.Fprintf(c.App.Writer, "%d: %s %s\n", st.ID, shown.Line(st.Name), st.State)
			}
			return err
		}),
	}
}

func drainCommand() *cli.Command {
	return &cli.Command{
		Name:  "drain",
		Usage: "let the server of the directory end: it takes no more work",
		Description: `Waits until the server has ended: when all submissions are done, or with --now when the running
tasks have ended.

Exit codes: 0 it ended, 2 wrong command line, 4 no server.`,
		Flags: []cli.Flag{
			dirFlag(),
			&cli.BoolFlag{Name: "now", Usage: "start nothing more; waiting tasks are left to the next gantry serve"},
			&cli.BoolFlag{Name: "no-wait", Usage: "do not wait until it has ended"},
			quietFlag(),
		},
		Action: func(c *cli.Context) error {
			return taking(0, "; gantry cancel "+c.Args().First()+" withdraws a submission", onServer(drain))(c)
		},
	}
}

func drain(c *cli.Context, cl *api.Client) error {
	err := cl.Drain(c.Context, api.Drain{Now: c.Bool("now")})
	if err != nil || c.Bool("no-wait") {
		return err
	}
	for lock.Taken(filepath.Join(homeOf(c), api.LockName)) {
		select {
		case <-c.Context.Done():
			return exit.With(exit.Interrupted, c.Context.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

func printTenants(c *cli.Context, q *api.Tenants) {
	w := c.App.Writer
	columns.List(w, q.Tenants, 0, "tenant|-workflows|-present|-waiting|-running|-cores|-memory|-share|of|-mean wait|"+
		"-longest|-oldest", func(x api.Tenant) []any {
		if x.Others {
			return []any{"(others)", "", x.Present, x.Waiting, x.Running, x.Cores, &x.Memory, "", "", "", "", ""}
		}
		return []any{cmp.Or(x.Name, "-"), x.Workflows, x.Present, x.Waiting, x.Running, x.Cores, &x.Memory,
			fmt.Sprintf("%.1f %%", 100*x.Share), x.Dominant, waitText(x.MeanWait), waitText(x.MaxWait),
			waitText(x.Oldest)}
	})
	if q.Jain > 0 {
		fmt.Fprintf(w, "Jain's index of the dominant shares: %.3f\n", q.Jain)
	}
}

// waitText is a time of waiting for people.
func waitText(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
