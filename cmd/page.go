package cmd

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/executor/lock"
	"gantry/planner/policy"
	"gantry/sqlite"
	"gantry/sqlite/report/page"
	"gantry/trace/shown"
)

// pageOptions has the parts of a page that are not in the log of the runs below home.
func pageOptions(home string) page.Options {
	return page.Options{Now: time.Now(), Command: executor.Written,
		Left: func(run, runtime string) bool {
			return !session.Capabilities(runtime).Virtual && !lock.OfRun(filepath.Join(home, run))
		},
		Output: func(run, workflow, task string, try int) []string {
			dir := workDir(home, run, workflow, task, try)
			return append(lastLines(dir, ".command.out"), lastLines(dir, ".command.err")...)
		}}
}

// tailLines and tailWidth are how much a page shows of each stream of an attempt that failed.
const tailLines, tailWidth = 12, 340

// lastLines are those of a file in a work directory; nil if it cannot be read.
func lastLines(dir, name string) []string {
	text, err := stage.Last(dir, name, tailLines)
	if err != nil || text == "" {
		return nil
	}
	lines := strings.Split(shown.Text(text), "\n")
	for i := range lines {
		lines[i] = shown.Short(lines[i], tailWidth)
	}
	return lines
}

// policyNames reads the policies to simulate for a page; nil: they are chosen.
func policyNames(text string) ([]string, error) {
	switch text {
	case "":
		return nil, nil
	case "none":
		return []string{}, nil
	}
	names := policiesIn([]string{text})
	for _, name := range names {
		if _, err := policy.Parse(name); err != nil {
			return nil, exit.Usagef("--policies: %w", err)
		}
	}
	return names, nil
}

func resultsDir(home, run string) string { return filepath.Join(home, run, "results") }

// resultsFor finds the results of runs below home, with their addresses as seen from a page in a file.
func resultsFor(home, file string) func(run string, flows []string) ([]page.Result, int) {
	return func(run string, flows []string) ([]page.Result, int) {
		dir := resultsDir(home, run)
		at, err := filepath.Abs(filepath.Dir(file))
		to, err2 := filepath.Abs(dir)
		if rel, err3 := filepath.Rel(at, to); file != "-" && errors.Join(err, err2, err3) == nil {
			return page.ResultsIn(dir, "./"+(&url.URL{Path: filepath.ToSlash(rel)}).EscapedPath()+"/", flows)
		}
		return page.ResultsIn(dir, "", flows)
	}
}

// writePage writes the page of runs to the file of --html, whole or not at all.
func writePage(c *cli.Context, db *sqlite.DB) error {
	file, names := c.String("html"), make([]string, max(1, c.NArg()))
	for i := range names {
		info, err := db.Info(c.Context, c.Args().Get(i))
		if err != nil {
			return err
		}
		names[i] = info.Name
	}
	o := pageOptions(c.String("dir"))
	policies, err := policyNames(c.String("policies"))
	if err != nil {
		return err
	}
	o.Results = resultsFor(c.String("dir"), file)
	o.Others = (&session.Rehearsal{Log: db, Only: policies}).Others
	write := func(w io.Writer) error { return page.Write(c.Context, w, db, names, o) }
	if err := writeTo(c.App.Writer, file, write); err != nil {
		return err
	}
	if file == "-" {
		return nil
	}
	fmt.Fprintf(c.App.Writer, "wrote %s: open it in a browser\n", file)
	return nil
}
