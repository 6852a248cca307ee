package main

import (
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"gantry/trace"
)

type convertOptions struct {
	to, out string
	read    trace.ReadOptions
}

func convertCommand() *cli.Command {
	var o convertOptions
	return &cli.Command{
		Name:      "convert",
		Usage:     "write a workflow as WfFormat 1.5",
		ArgsUsage: "FILE|-",
		Description: `Reads what check reads and writes WfFormat 1.5 that validates against the published schema. Nothing is made up: what the trace
does not tell is left out. What the schema has no place for (image, redirections, environment, ...) is kept in properties of its own,
which gantry reads back.

Exit codes: 0 written, 2 wrong command line, 3 the file has errors or cannot be read.`,
		Flags: append(readFlags(&o.read),
			&cli.StringFlag{Name: "to", Value: "wfformat", Usage: "format to write: wfformat", Destination: &o.to},
			&cli.StringFlag{Name: "o", Aliases: []string{"output"}, Value: "-", Usage: "write to `FILE`, - for standard output", Destination: &o.out}),
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 1 {
				return failf(exitUsage, "convert: name one workflow file, or - for standard input")
			}
			return convert(c.Args().First(), o, c.App.Writer, c.App.ErrWriter)
		},
	}
}

func convert(path string, o convertOptions, out, notes io.Writer) (err error) {
	if o.to != "wfformat" {
		return failf(exitUsage, "convert: unknown format %q; there is wfformat", o.to)
	}
	w, err := openWorkflow(path, o.read, notes)
	if err != nil {
		return err
	}
	if o.out == "-" {
		if err := trace.WriteWfFormat(out, w); err != nil {
			return failf(exitHost, "writing %s as WfFormat: %w", path, err)
		}
		return nil
	}
	// A file beside it takes the text first: the target is whole or as it was.
	f, err := os.CreateTemp(filepath.Dir(o.out), ".gantry-convert-*")
	if err != nil {
		return failf(exitHost, "writing %s: %w", o.out, err)
	}
	defer os.Remove(f.Name())
	if err = trace.WriteWfFormat(f, w); err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), o.out)
	}
	if err != nil {
		return failf(exitHost, "writing %s: %w", o.out, err)
	}
	return nil
}
