package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/server"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/sqlite"
	"gantry/sqlite/export"
)

// exporting names the runs to export, and the place.
type exporting struct {
	c    *cli.Context
	db   *sqlite.DB
	info sqlite.RunInfo // of the first run
	runs []string
	to   string
	into bool // to is a directory
}

// exporters has the formats, each with its line of the description. Tables take several runs.
var exporters = []struct {
	name, about string
	tables      *export.Format
	write       func(*exporting) error
}{
	{"csv", "a row for each attempt, with its task, and for each task without one; into a directory: tasks.csv and " +
		"attempts.csv", &export.CSV, nil},
	{"parquet", "the same tables for pandas, R, DuckDB ...; into a directory: tasks.parquet, attempts.parquet",
		&export.Parquet, nil},
	{"json", "one object: runs, tasks, attempts; into a directory: tasks.json, attempts.json", &export.JSON, nil},
	{"trace", "trace.txt with the columns and units of Nextflow, a row for each attempt", nil, (*exporting).trace},
	{"wfformat", "WfFormat 1.5 of the run, with machines and measured runtimes", nil, (*exporting).wfformat},
	{"rocrate", "Workflow Run RO-Crate of a container run, into a new directory, with inputs and results", nil,
		(*exporting).rocrate},
	{"otlp", "traces of OpenTelemetry in the JSON encoding of OTLP, a request in each line", nil, (*exporting).otlp},
}

func exportFormats() []string {
	var names []string
	for _, e := range exporters {
		names = append(names, e.name)
	}
	return names
}

func exportCommand() *cli.Command {
	lines := ""
	for _, e := range exporters {
		lines += fmt.Sprintf("   %-9s %s\n", e.name, e.about)
	}
	return &cli.Command{
		Name:      "export",
		Usage:     "write a run for other programs: CSV, Parquet, JSON, WfFormat, RO-Crate ...",
		ArgsUsage: "[RUN...]",
		Description: `Without RUN it is the latest run. csv, parquet and json take several runs: the columns run and
policy tell them apart. Columns and types are the same for all runs, simulated or not.

` + lines + `
Units are in the names of columns of CSV and Parquet. In trace.txt instants are UTC, rchar and wchar are bytes of
block I/O. wfformat of a run with several workflows needs --workflow NAME, or a directory, which gets a file for each.

Exit codes: 0 written, 2 wrong command line, 3 no log, run or workflow, 4 the log cannot be read or the file not be
written.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "format", Aliases: []string{"F"}, Value: "csv",
				Usage: "`FORMAT`: " + strings.Join(exportFormats(), ", ")},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"},
				Usage: "write to `FILE`, or into a directory (default: standard output)"},
			&cli.StringFlag{Name: "workflow", Usage: "wfformat, rocrate: only the workflow `NAME`"},
		},
		Action: exportRun,
	}
}

func exportRun(c *cli.Context) error {
	format := c.String("format")
	k := slices.Index(exportFormats(), format)
	switch {
	case k < 0:
		return exit.Usagef("unknown format %q: use one of %s", format, strings.Join(exportFormats(), ", "))
	case c.NArg() > 1 && exporters[k].tables == nil:
		return exit.Usagef("--format %s describes one run: name one; csv, parquet and json take several", format)
	}
	db, err := readLog(c)
	if err != nil {
		return err
	}
	defer db.Close()
	to := c.String("output")
	e := &exporting{c: c, db: db, to: to, into: isDirectory(to)}
	for i := range max(1, c.NArg()) {
		info, err := db.Info(c.Context, c.Args().Get(i))
		switch {
		case err != nil:
			return session.LogError(err)
		case slices.Contains(e.runs, info.Name):
			return exit.Usagef("run %s is named twice: name each run once", info.Name)
		case i == 0:
			e.info = info
		}
		e.runs = append(e.runs, info.Name)
	}
	if tables := exporters[k].tables; tables != nil {
		return e.tables(format, tables)
	}
	return exporters[k].write(e)
}

// write writes one file; into a directory it goes under a name.
func (e *exporting) write(name string, write func(io.Writer) error) error {
	to := e.to
	if e.into {
		to = filepath.Join(to, name)
	}
	return writeTo(e.c.App.Writer, to, write)
}

// tables writes one file with both tables, or into a directory a file of each.
func (e *exporting) tables(format string, of *export.Format) error {
	write := func(name string, write export.Writer) error {
		return e.write(name, func(w io.Writer) error { return write(e.c.Context, w, e.db, e.runs...) })
	}
	if !e.into {
		return write("", of.Both)
	}
	if err := write("tasks."+format, of.Tasks); err != nil {
		return err
	}
	return write("attempts."+format, of.Attempts)
}

func (e *exporting) otlp() error {
	return e.write(e.info.Name+".otlp.jsonl", func(w io.Writer) error {
		return export.OTLP(e.c.Context, w, e.db, e.info.Name)
	})
}

func (e *exporting) trace() error {
	return e.write("trace.txt", func(w io.Writer) error {
		return export.Nextflow(e.c.Context, w, e.db, e.info.Name, session.Capabilities(e.info.Runtime))
	})
}

// rocrate writes a directory, whole or not at all.
func (e *exporting) rocrate() error {
	on := session.Capabilities(e.info.Runtime)
	if !on.Programs {
		return exit.Inputf("run %s was on %s: no program ran, so there is no provenance to export; use json or "+
			"wfformat", e.info.Name, e.info.Runtime)
	}
	names, err := e.workflows()
	switch {
	case err != nil:
		return err
	case len(names) > 1:
		return exit.Usagef("run %s has %s: choose one with --workflow", e.info.Name,
			term.Plural(len(names), "workflow"))
	case e.to == "" || e.to == "-":
		return exit.Usagef("--format rocrate needs a new directory: -o DIR")
	}
	home := filepath.Join(e.c.String("dir"), e.info.Name)
	results := filepath.Join(home, "results", executor.EscapeName(names[0]))
	o := export.ROCrateOptions{Workflow: names[0], On: on}
	if o.Estimates, err = session.Estimates(e.c.Context, e.db, &e.info); err != nil {
		return session.LogError(err)
	}
	o.Open = func(f *executor.FileSpec, by *executor.User) (*os.File, error) {
		user := stage.Caller().Rights()
		switch {
		case f.Produced:
			return stage.OpenIn(results, path.Clean("/" + f.Name)[1:])
		case by != nil:
			user = stage.User(*by)
		}
		return user.Open(f.External)
	}
	if st, err := os.Stat(home); err == nil {
		if owner, ok := st.Sys().(*syscall.Stat_t); ok {
			o.Agent = server.UserName(int(owner.Uid))
		}
	}
	to := filepath.Clean(e.to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return exit.Hostf("write %s: %w", to, err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(to), ".gantry-*")
	if err != nil {
		return exit.Hostf("write %s: %w", to, err)
	}
	defer os.RemoveAll(fresh)
	if err := export.ROCrate(e.c.Context, fresh, e.db, e.info.Name, o); err != nil {
		return session.LogError(fmt.Errorf("write %s: %w", to, err))
	}
	if err := errors.Join(os.Chmod(fresh, 0o755), os.Rename(fresh, to)); err != nil {
		return exit.Hostf("write %s: %w; the directory must be new or empty", to, err)
	}
	return nil
}

func (e *exporting) workflows() ([]string, error) {
	names, err := sqlite.RowsOf[string](e.c.Context, e.db, `SELECT w.name FROM runs r JOIN workflows w ON w.run = r.id
		WHERE r.name = ? AND w.state <> 'continued' ORDER BY w.arrived_ns, w.workflow`, e.info.Name)
	if err != nil {
		return nil, session.LogError(err)
	}
	if name := e.c.String("workflow"); name != "" {
		if !slices.Contains(names, name) {
			return nil, exit.Inputf("run %s has no workflow %q; it has %s", e.info.Name, name,
				strings.Join(names, ", "))
		}
		names = []string{name}
	}
	if len(names) == 0 {
		return nil, exit.Inputf("run %s has no workflow yet", e.info.Name)
	}
	return names, nil
}

func (e *exporting) wfformat() error {
	names, err := e.workflows()
	switch {
	case err != nil:
		return err
	case len(names) > 1 && !e.into:
		return exit.Usagef("run %s has %s: choose one with --workflow, or give a directory with -o", e.info.Name,
			term.Plural(len(names), "workflow"))
	}
	estimates, err := session.Estimates(e.c.Context, e.db, &e.info)
	if err != nil {
		return session.LogError(err)
	}
	write, err := export.WfFormat(e.c.Context, e.db, e.info.Name, session.Capabilities(e.info.Runtime), estimates)
	if err != nil {
		return session.LogError(err)
	}
	for _, name := range names {
		err := e.write(executor.EscapeName(name)+".json", func(w io.Writer) error { return write(w, name) })
		if err != nil {
			return err
		}
	}
	return nil
}

// isDirectory reports whether a path means a directory, one that is yet to be made included.
func isDirectory(path string) bool {
	if strings.HasSuffix(path, "/") {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// writeTo writes a file whole or not at all, or to out if path is "" or "-".
func writeTo(out io.Writer, path string, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		return session.LogError(write(term.Raw(out)))
	}
	if dir := filepath.Dir(path); dir != "." {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return exit.Hostf("write %s: %w", path, err)
		}
	}
	if err := writeWhole(path, write); err != nil {
		return session.LogError(fmt.Errorf("write %s: %w", path, err))
	}
	return nil
}

// writeWhole writes a file that is whole or as it was: another beside it takes the text first. A device or a pipe takes
// it at once.
func writeWhole(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".gantry-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
