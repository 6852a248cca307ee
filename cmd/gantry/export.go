package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/executor"
	"gantry/sqlite/export"
)

var exportFormats = []string{"csv", "json", "trace", "wfformat"}

func exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write a run for other programs: CSV, JSON, Nextflow's trace.txt, WfFormat",
		ArgsUsage: "write a run as CSV, JSON, trace.txt of Nextflow, or WfFormat",
		Description: `Without RUN it is the latest run.

   csv       a row for each attempt, with its task; into a directory: tasks.csv and attempts.csv
   json      one object: summary, tasks, attempts
   trace     trace.txt with the columns and units of Nextflow, a row for each attempt
   wfformat  WfFormat 1.5 of the run, with machines and measured runtimes

Units are in the names of CSV columns. In trace.txt instants are UTC, rchar and wchar are bytes of block I/O. wfformat
of a run with several workflows needs --workflow NAME, or a directory, which gets a file for each.

Exit codes: 0 written, 2 wrong command line, 3 no log, run or workflow, 4 the log cannot be read or the file not be
written.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "format", Aliases: []string{"F"}, Value: "csv", Usage: strings.Join(exportFormats,
				", ")},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"},
				Usage: "write to `FILE`, or into a directory (default: standard output)"},
			&cli.StringFlag{Name: "workflow", Usage: "wfformat: only the workflow `NAME`"},
			&cli.BoolFlag{Name: "raw", Usage: "trace: write milliseconds and bytes"},
			&cli.BoolFlag{Name: "extended", Usage: "trace: add queue_wait, pred_realtime, policy and fail_class"},
		},
		Action: exportRun,
	}
}

func exportRun(c *cli.Context) error {
	format := c.String("format")
	switch {
	case c.NArg() > 1:
		return failf(exitUsage, "export: name one run")
	case !slices.Contains(exportFormats, format):
		return failf(exitUsage, "unknown format %q: use csv, json, trace or wfformat", format)
	case c.IsSet("workflow") && format != "wfformat":
		return failf(exitUsage, "--workflow needs --format wfformat")
	case (c.Bool("raw") || c.Bool("extended")) && format != "trace":
		return failf(exitUsage, "--raw and --extended need --format trace")
	}
	db, err := readLog(c)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := c.Context
	info, err := db.Info(ctx, c.Args().First())
	if err != nil {
		return logError(err)
	}
	run, to := info.Name, c.String("output")
	into := isDirectory(to)
	switch format {
	case "csv":
		if into {
			if err := writeTo(c, filepath.Join(to, "tasks.csv"), func(w io.Writer) error {
				return export.Tasks(ctx, w,
					db, run)
			}); err != nil {
				return err
			}
			return writeTo(c, filepath.Join(to, "attempts.csv"), func(w io.Writer) error {
				return export.Attempts(ctx,
					w, db, run)
			})
		}
		return writeTo(c, to, func(w io.Writer) error { return export.CSV(ctx, w, db, run) })
	case "json":
		if into {
			to = filepath.Join(to, run+".json")
		}
		return writeTo(c, to, func(w io.Writer) error { return export.JSON(ctx, w, db, run) })
	case "trace":
		if into {
			to = filepath.Join(to, "trace.txt")
		}
		o := export.NextflowOptions{Raw: c.Bool("raw"), Extended: c.Bool("extended"), On: runtimeOf(info.Runtime)}
		return writeTo(c, to, func(w io.Writer) error { return export.Nextflow(ctx, w, db, run, o) })
	}
	names, err := export.Workflows(ctx, db, run)
	if err != nil {
		return logError(err)
	}
	if name := c.String("workflow"); name != "" {
		if !slices.Contains(names, name) {
			return failf(exitInput, "run %s has no workflow %q; it has %s", run, name, strings.Join(names, ", "))
		}
		names = []string{name}
	}
	switch {
	case len(names) == 0:
		return failf(exitInput, "run %s has no workflow yet", run)
	case len(names) > 1 && !into:
		return failf(exitUsage, "run %s has %s: choose one with --workflow, or give a directory with -o", run,
			plural(len(names), "workflow"))
	}
	for _, name := range names {
		file := to
		if into {
			file = filepath.Join(to, executor.EscapeName(name)+".json")
		}
		if err := writeTo(c, file, func(w io.Writer) error {
			return export.WfFormat(ctx, w, db, run, name,
				runtimeOf(info.Runtime))
		}); err != nil {
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

// writeTo writes a file whole or not at all, or to standard output if path is "" or "-".
func writeTo(c *cli.Context, path string, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		if err := write(raw(c)); err != nil {
			return logError(err)
		}
		return nil
	}
	if dir := filepath.Dir(path); dir != "." {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return failf(exitHost, "write %s: %w", path, err)
		}
	}
	if err := writeWhole(path, write); err != nil {
		return logError(fmt.Errorf("write %s: %w", path, err))
	}
	return nil
}
