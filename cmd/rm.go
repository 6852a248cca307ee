package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/executor"
	"gantry/executor/lock"
	"gantry/sqlite"
)

func rmCommand() *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "remove runs: their rows in the log, files, containers and control groups",
		ArgsUsage: "[RUN...]",
		Description: `RUN is the whole name of a run. Its results are removed too. A run that another gantry
works on is left alone. Models that were trained on a run stay; estimates no longer learn from it. --before removes the
runs that ended before a date, with all that was submitted to them. It also removes submissions that ended before it
from the queue of a running server; their tasks stay in its run.

   gantry rm merry-bohr-6b14
   gantry rm --before 2026-11-01
   gantry rm --before 30d

Exit codes: 0 removed, 2 wrong command line, 3 no such run, 4 the log, the files or Docker cannot be used, 75 another
gantry works on a run.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.BoolFlag{Name: "force", Usage: "remove a simulation that the log has as running: its gantry was " +
				"killed"},
			&cli.StringFlag{Name: "before", Usage: "remove the runs that ended before `DATE` (2026-11-01), or so " +
				"long ago (30d, 12h)"},
		},
		Action: func(c *cli.Context) error {
			if (c.NArg() == 0) != c.IsSet("before") {
				return exit.Usagef("rm: name the runs to remove (gantry ls lists them), or say --before DATE")
			}
			home := homeOf(c)
			db, err := session.OpenToWrite(home)
			if err != nil {
				return err
			}
			defer db.Close()
			runs := c.Args().Slice()
			var before time.Time
			if c.IsSet("before") {
				if before, err = instantBefore(c.String("before"), time.Now()); err != nil {
					return exit.Usagef("--before %s: %w", c.String("before"), err)
				}
				if runs, err = db.Ended(c.Context, before); err != nil {
					return session.LogError(err)
				}
			}
			for _, run := range runs {
				if over, err := db.Overview(c.Context, run); err == nil {
					if err := session.Enter(over.Runtime); err != nil {
						return err
					}
				}
			}
			for _, run := range runs {
				if err := remove(c.Context, db, home, run, c.Bool("force")); err != nil {
					return err
				}
				fmt.Fprintf(c.App.Writer, "removed run %s\n", run)
			}
			if !c.IsSet("before") {
				return nil
			}
			n, err := db.RemoveSubmitted(before)
			if n > 0 {
				fmt.Fprintf(c.App.Writer, "removed %d submissions\n", n)
			}
			return session.LogError(err)
		},
	}
}

// remove removes a run. The rows go last: until then the same command can be repeated.
func remove(ctx context.Context, db *sqlite.DB, home, run string, force bool) error {
	if run == "" || run != executor.EscapeName(run) {
		return exit.Inputf("rm: there is no run %q (gantry ls lists them)", run)
	}
	dir := filepath.Join(home, run)
	over, err := db.Overview(ctx, run)
	switch {
	case errors.As(err, new(*sqlite.Unknown)):
		// Somebody deleted the rows: only the directory of the run with its lock is left.
		if _, gone := os.Stat(filepath.Join(dir, "lock")); gone != nil {
			return exit.With(exit.Input, err)
		}
		over = nil
	case err != nil:
		return session.LogError(err)
	}
	held := exit.Heldf("rm: another gantry works on run %s: stop it first, or wait until it has ended", run)
	if lock.OfRun(dir) {
		return held
	}
	if over != nil && session.Capabilities(over.Runtime).Virtual && over.State == sqlite.Running && !force {
		return exit.Heldf("rm: the log has simulation %s as running: wait until it has ended, or use --force "+
			"if its gantry was killed", run)
	}
	if over == nil || session.Capabilities(over.Runtime).Adopts {
		names := session.RuntimeNames(session.AnyRuntime)
		if over != nil {
			names = []string{over.Runtime}
		}
		_, err := session.CleanRuns(ctx, home, run, names, true)
		if row := session.RuntimeNamed(names[0]); over != nil && row != nil && row.Abandon != nil && err == nil {
			_, err = row.Abandon(ctx, dir)
		}
		ended := over != nil && (over.State == sqlite.Finished || over.State == sqlite.Failed)
		if err != nil && !ended { // a run that ended left no container
			return exit.Hostf("rm: containers of run %s: %w", run, err)
		}
	}
	if d, err := os.Open(dir); err == nil { // a gantry that resumes the run now is turned away
		defer d.Close()
		if lock.Take(d) != nil {
			return held
		}
	}
	session.UnlinkLatest(home, run)
	err = os.RemoveAll(session.Placed(dir))
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return exit.Hostf("rm: files of run %s: %w", run, err)
	}
	if over == nil {
		return nil
	}
	return exit.Or(exit.Host, db.Remove(ctx, run))
}

// instantBefore reads a date, or how long ago something was.
func instantBefore(text string, now time.Time) (time.Time, error) {
	if at, ok := dateOf(text); ok {
		return at, nil
	}
	d, err := durationOf(text)
	if err != nil || d < 0 {
		return time.Time{}, errors.New("it is no date such as 2026-11-01, and no duration such as 30d or 12h")
	}
	return now.Add(-d), nil
}

// dateOf reads a date, with a time of day or without.
func dateOf(text string) (at time.Time, ok bool) {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.DateTime,
		time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, true
		}
	}
	return at, false
}

// durationOf reads a duration, such as 90m or 2d.
func durationOf(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	d, err := time.ParseDuration(days + "h")
	if err == nil && (d*24)/24 != d {
		err = errors.New("it is too long")
	}
	return d * 24, err
}
