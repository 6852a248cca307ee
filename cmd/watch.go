package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/executor/lock"
	"gantry/sqlite"
	"gantry/sqlite/report/live"
	"gantry/sqlite/report/page"
)

func watchCommand() *cli.Command {
	return &cli.Command{
		Name:      "watch",
		Usage:     "serve a page of all runs and submissions, or of a run while it is under way",
		ArgsUsage: "[RUN|ID]",
		Description: `Without RUN it lists the runs of the directory, and the queue, tenants and nodes of its server. It
has a page of each run and submission, and ends with Ctrl-C. The page of a run is that of gantry report --html and
follows it; the number of a submission to a server shows that alone. Then the command ends with the run, or with Ctrl-C,
which does not affect it. It prints an address on this host: open it in a browser. The address has a token: a request
without it gets nothing, and no request can change anything.

   gantry watch                             the directory
   gantry watch RUN
   gantry run --watch montage.dax

Exit codes: 0 the run has ended or Ctrl-C, 2 wrong command line, 3 no such run or it has ended, 4 the log cannot be
read or the port is in use.`,
		Flags:  append(shared("port"), dirFlag()),
		Action: taking(1, "name one run", watch),
	}
}

// pageOf opens the server of --watch; nil without.
func pageOf(c *cli.Context) func(db *sqlite.DB, run string) (*live.Server, error) {
	if !c.Bool("watch") {
		return nil
	}
	return func(_ *sqlite.DB, run string) (*live.Server, error) {
		if c.Command.Name == "serve" {
			return listenAll(c, run)
		}
		return listen(c, &liveRun{c: c, run: run})
	}
}

// watch serves the page of a run that another gantry works on, or of a submission to a server.
func watch(c *cli.Context) error {
	name := c.Args().First()
	if name == "" {
		return watchAll(c)
	}
	db, err := readLog(c)
	if err != nil {
		return err
	}
	defer db.Close()
	run, err := db.Info(c.Context, name)
	if err != nil {
		return session.LogError(err)
	}
	l := &liveRun{c: c, run: run.Name}
	if db.OfOne() {
		l.submission = name
	}
	if over, err := l.Over(c.Context); err != nil {
		return serverError(err)
	} else if over {
		ended, named := "submission "+name+" has ended", name
		if l.submission == "" {
			state, _ := db.State(c.Context, run.Name) // it was just read
			ended, named = fmt.Sprintf("run %s has ended (%s)", run.Name, state), run.Name
		}
		return exit.Inputf("%s: gantry report %s --html FILE writes its page", ended, named)
	}
	if l.submission == "" && !session.Capabilities(run.Runtime).Virtual &&
		!lock.OfRun(filepath.Join(c.String("dir"), run.Name)) {
		fmt.Fprintf(c.App.ErrWriter, "gantry: nobody works on run %s: it was killed; gantry resume %s continues it\n",
			run.Name, run.Name)
	}
	server, err := listen(c, l)
	return serveUntilOver(c, server, err)
}

func watchAll(c *cli.Context) error {
	db, err := openLog(c)
	if err == nil {
		db.Close()
	} else if !lock.Taken(filepath.Join(homeOf(c), api.LockName)) {
		return err // no server has more to say
	}
	server, err := listenAll(c, "")
	return serveUntilOver(c, server, err)
}

// serveUntilOver prints the address of a page, and serves it until its run or submission is over, or a signal comes.
func serveUntilOver(c *cli.Context, server *live.Server, err error) error {
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%s\n", server.URL())
	ctx, stop := exit.OnSignal(c.Context)
	defer stop()
	if err := server.Serve(ctx); err != nil {
		return exit.Hostf("serve the page: %w", err)
	}
	return nil
}

func listen(c *cli.Context, of live.Source) (*live.Server, error) {
	server, err := live.Listen(c.Int("port"), of)
	if err != nil {
		return nil, exit.Hostf("serve the page: %w", err)
	}
	return server, nil
}

// liveRun is a run of the log, or one submission to a server, as a source of pages. Each has the log as it is then, as
// far as the caller may read it.
type liveRun struct {
	c          *cli.Context
	run        string
	submission string // its number; "": it is the run
	ran        page.Ran
}

// later has no other policies yet.
func later(context.Context, string) (*page.Others, error) {
	return &page.Others{Note: session.OtherLater, Policies: []page.Other{}}, nil
}

func (l *liveRun) Page() ([]byte, string, error) {
	if l.submission != "" {
		return page.Document("submission " + l.submission)
	}
	return page.Document(l.run)
}

// Over asks the log, or the server if that is not the caller's to read.
func (l *liveRun) Over(ctx context.Context) (bool, error) {
	id, _ := strconv.ParseInt(l.submission, 10, 64)
	db, err := sqlite.Open(filepath.Join(l.c.String("dir"), sqlite.FileName), sqlite.ReadOnly)
	switch {
	case err != nil && id > 0:
		st, err := api.NewClient(homeOf(l.c)).Status(ctx, id)
		return err == nil && st.Over, err
	case err != nil:
		return false, session.LogError(err)
	}
	defer db.Close()
	if id > 0 {
		o, err := db.Outcome(ctx, id)
		return err == nil && o.Over(), session.LogError(err)
	}
	state, err := db.State(ctx, l.run)
	return err == nil && state != sqlite.Running, session.LogError(err)
}

func (l *liveRun) Data(ctx context.Context) ([]byte, bool, error) {
	over, err := l.Over(ctx)
	if err != nil {
		return nil, false, err
	}
	db, err := openLog(l.c, l.submission)
	if err != nil {
		return nil, false, err
	}
	defer db.Close()
	o := pageOptions(l.c.String("dir"))
	o.Live, o.Others, o.Ran = true, later, &l.ran
	o.Results = func(run string, flows []string) ([]page.Result, int) {
		return page.ResultsIn(resultsDir(l.c.String("dir"), run), "results/", flows)
	}
	// The driver hands each row over between two goroutines if it may have to stop in between.
	data, _, err := page.Data(context.WithoutCancel(ctx), db, l.run, o)
	return data, over, err
}

// File implements live.Files.
func (l *liveRun) File(name string) (*os.File, error) {
	return page.OpenResult(resultsDir(l.c.String("dir"), l.run), name)
}

// Bounds of the page of a directory.
const (
	mostRuns  = 1000
	listShare = 0.05 // of the time that passes, for asking
)

// listing is the data of the page of a directory.
type listing struct {
	Written string            `json:"written"`
	Dir     string            `json:"dir"`
	Over    bool              `json:"over"`
	Runs    []sqlite.Overview `json:"runs"` // the newest first
	More    int               `json:"more"` // older ones
	Queue   *api.Queue        `json:"queue"`
	Tenants *api.Tenants      `json:"tenants"`
	Nodes   []api.Node        `json:"nodes"`
	Notes   []string          `json:"notes"`
}

// liveAll is the directory of runs as a source of pages: its server, if there is one, and the runs in the log, as far
// as the caller may read it.
type liveAll struct {
	c    *cli.Context
	run  string // of the server that this process is; "": the page is never over
	data []byte
	due  time.Time // when it may be made again
}

func (l *liveAll) Page() ([]byte, string, error) { return page.List(l.c.String("dir")) }

// Over implements live.Source.
func (l *liveAll) Over(ctx context.Context) (bool, error) {
	if l.run == "" {
		return false, nil
	}
	return (&liveRun{c: l.c, run: l.run}).Over(ctx)
}

// Data implements live.Source.
func (l *liveAll) Data(ctx context.Context) ([]byte, bool, error) {
	over, err := l.Over(ctx)
	if err != nil {
		return nil, false, err
	}
	if time.Now().Before(l.due) && !over {
		return l.data, false, nil
	}
	began := time.Now()
	x := listing{Written: began.UTC().Format(time.RFC3339), Dir: l.c.String("dir"), Over: over,
		Runs: []sqlite.Overview{}, Notes: []string{}}
	failed := errors.Join(l.readRuns(ctx, &x), l.askServer(ctx, &x))
	if failed != nil && x.Queue == nil && len(x.Runs) == 0 {
		return nil, over, failed
	} else if failed != nil {
		x.Notes = append(x.Notes, failed.Error())
	}
	l.data, err = page.Packed(&x)
	l.due = time.Now().Add(time.Duration(float64(time.Since(began)) / listShare))
	return l.data, over, err
}

func (l *liveAll) readRuns(ctx context.Context, x *listing) error {
	db, err := openLog(l.c)
	if err != nil {
		return err
	}
	defer db.Close()
	runs, err := db.Runs(ctx)
	if err != nil {
		return session.LogError(err)
	}
	x.More = max(0, len(runs)-mostRuns)
	x.Runs = append(x.Runs, runs[:len(runs)-x.More]...)
	for i := range x.Runs {
		x.Runs[i].State = stateNow(l.c.String("dir"), &x.Runs[i])
	}
	return nil
}

// askServer asks the server of the directory, if there is one.
func (l *liveAll) askServer(ctx context.Context, x *listing) (err error) {
	dir := homeOf(l.c)
	if !lock.Taken(filepath.Join(dir, api.LockName)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cl := api.NewClient(dir)
	if x.Queue, err = cl.Queue(ctx, api.QueueOf{All: true}); err != nil {
		return err
	}
	var err2 error
	x.Tenants, err = cl.Tenants(ctx)
	x.Nodes, err2 = cl.Nodes(ctx)
	x.Queue.Server.Platform = nil
	return errors.Join(err, err2)
}

// source opens run/NAME and submission/NUMBER.
func (l *liveAll) source(ctx context.Context, path string) (live.Source, error) {
	kind, name, _ := strings.Cut(path, "/")
	submission := ""
	if kind == "submission" {
		submission = name
	}
	db, err := openLog(l.c, submission)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	switch {
	case db.OfOne():
		info, err := db.Info(ctx, "")
		return &liveRun{c: l.c, run: info.Name, submission: name}, session.LogError(err)
	case kind == "run":
		_, err = db.State(ctx, name)
		return &liveRun{c: l.c, run: name}, session.LogError(err)
	}
	return nil, exit.Usagef("there is no such page: %q", path)
}

// listenAll opens the server of the page of a directory. Run is that of the gantry serve that this process is.
func listenAll(c *cli.Context, run string) (*live.Server, error) {
	all := &liveAll{c: c, run: run}
	server, err := listen(c, all)
	if err == nil {
		server.Open = all.source
	}
	return server, err
}
