package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/server/api"
	"gantry/sqlite"
)

func archiveCommand() *cli.Command {
	return &cli.Command{
		Name:  "archive",
		Usage: "move old submissions from the log of a server to an archive",
		Description: `Moves the workflows that ended before DATE, with their tasks, attempts and measurements, to the
log DIR/archive/gantry.sqlite. It works while the server runs, too. If it is killed, give it again: nothing is lost.

   gantry archive --before 2026-11-01
   gantry show 7                           finds submission 7 in the archive
   gantry ls --dir gantry-runs/archive     every command reads the archive as any log

The log keeps what a server needs to continue: events, definitions, and how each submission ended. Estimates no longer
learn from archived tasks, and --reuse no longer finds their results. Files stay where they are.

Exit codes: 0 moved, 2 wrong command line, 3 there is no log, 4 the log or the archive cannot be written, 75 another
gantry archives.`,
		Flags: []cli.Flag{
			dirFlag(),
			&cli.StringFlag{Name: "before", Usage: "move what ended before `DATE`: 2026-11-01, 2026-11-01 18:00, or " +
				"as long ago as 30d or 12h"},
			quietFlag(),
		},
		Action: archive,
	}
}

func archive(c *cli.Context) error {
	if c.NArg() > 0 || !c.IsSet("before") {
		return failf(exitUsage, "archive: say what is old, as with --before 2026-11-01; it takes no arguments")
	}
	before, err := instantBefore(c.String("before"), time.Now())
	if err != nil {
		return failf(exitUsage, "--before %s: %w", c.String("before"), err)
	}
	home, db, err := logToWrite(c)
	if err != nil {
		return err
	}
	defer db.Close()
	dir := filepath.Join(home, sqlite.ArchiveDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(exitHost, err)
	}
	giveToCaller(dir)
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fail(exitHost, err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return failf(exitHeld, "another gantry archives the log of %s: wait until it has ended", home)
	}
	sum, err := db.Archive(c.Context, filepath.Join(dir, sqlite.FileName), before)
	if err != nil {
		return fail(exitHost, err)
	}
	giveToCaller(filepath.Join(dir, sqlite.FileName))
	if err := linkRuns(c, home, dir); err != nil {
		return fail(exitHost, err)
	}
	if !isLocked(filepath.Join(home, api.LockName)) {
		if err := db.Shrink(); err != nil {
			return fail(exitHost, err)
		}
	}
	if !c.Bool("quiet") {
		fmt.Fprintf(c.App.Writer, "moved %s (%s, %s) to %s\n", plural(sum.Workflows, "workflow"),
			plural(sum.Submissions, "submission"), plural(sum.Tasks, "task"), filepath.Join(dir, sqlite.FileName))
	}
	return nil
}

// linkRuns lets commands find the files of archived runs beside the archive.
func linkRuns(c *cli.Context, home, dir string) error {
	db, err := sqlite.Open(filepath.Join(dir, sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Each(c.Context, func(scan sqlite.Scan) error {
		var name string
		if err := scan(&name); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(home, name)); err != nil {
			return nil // its files were removed
		}
		if err := os.Symlink(filepath.Join("..", name), filepath.Join(dir, name)); err != nil &&
			!errors.Is(err, os.ErrExist) {
			return err
		}
		return nil
	}, "SELECT name FROM runs")
}

// instantBefore reads a date, or how long ago something was.
func instantBefore(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.DateTime, time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	d, err := durationOf(text)
	if err != nil || d < 0 {
		return time.Time{}, errors.New("it is no date such as 2026-11-01, and no duration such as 30d or 12h")
	}
	return now.Add(-d), nil
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
