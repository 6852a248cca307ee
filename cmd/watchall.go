package cmd

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/sqlite"
	"gantry/sqlite/report/live"
	"gantry/sqlite/report/page"
	"gantry/trace/shown"
)

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

func (l *liveAll) open() (*sqlite.DB, error) {
	return sqlite.Open(filepath.Join(l.c.String("dir"), sqlite.FileName), sqlite.ReadOnly)
}

// Over implements live.Source.
func (l *liveAll) Over(ctx context.Context) (bool, error) {
	if l.run == "" {
		return false, nil
	}
	db, err := l.open()
	if err != nil {
		return false, err
	}
	defer db.Close()
	state, err := db.State(ctx, l.run)
	return err == nil && state != sqlite.Running, err
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
	db, err := l.open()
	if err != nil {
		return session.LogError(err)
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
	dir, err := homeOf(l.c)
	if err != nil || !session.Held(filepath.Join(dir, api.LockName)) {
		return err
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
	db, err := l.open()
	if err != nil {
		return nil, session.LogError(err)
	}
	switch kind {
	case "run":
		if _, err := db.State(ctx, name); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return &liveRun{c: l.c, db: db, home: l.c.String("dir"), run: name}, nil
	case "submission":
		defer db.Close()
		id, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return nil, exit.Usagef("%s is no number of a submission", shown.Line(name))
		}
		one := &liveOne{c: l.c, id: id, open: func(ctx context.Context) (*sqlite.DB, error) {
			db, err := l.open()
			if err != nil {
				return nil, err
			}
			defer db.Close()
			return db.Extract(ctx, id)
		}}
		first, err := one.open(ctx)
		if err != nil {
			return nil, err
		}
		defer first.Close()
		run, err := first.Info(ctx, "")
		one.run = run.Name
		return one, err
	}
	return nil, exit.Usagef("there is no such page")
}

// listenAll opens the server of the page of a directory. Run is that of the gantry serve that this process is.
func listenAll(c *cli.Context, run string) (*live.Server, error) {
	all := &liveAll{c: c, run: run}
	server, err := live.Listen(c.Int("port"), all, nil)
	if err != nil {
		return nil, exit.Hostf("serve the page: %w", err)
	}
	server.Open = all.source
	return server, nil
}
