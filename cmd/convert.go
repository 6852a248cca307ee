package cmd

import (
	"io"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/session"
	"gantry/trace"
)

type convertOptions struct {
	out  string
	read trace.ReadOptions
	idle func(*session.Facts) error // refuses options without an effect
}

func convertCommand() *cli.Command {
	var o convertOptions
	return &cli.Command{
		Name:      "convert",
		Usage:     "write a workflow as WfFormat 1.5",
		ArgsUsage: "FILE|-",
		Description: `Reads the formats of gantry check. WfFormat 1.5 validates against the published schema. Nothing is
invented: values missing in the trace stay missing. Values that the schema has no place for (image, redirections,
environment, ...) are kept in properties of gantry, which it reads back.

Exit codes: 0 written, 2 wrong command line, 3 the file has errors or cannot be read.`,
		Flags: append(readFlags(&o.read),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-",
				Usage: "write to `FILE`, - for standard output", Destination: &o.out}),
		Action: exactly(1, "name one workflow file, or - for standard input", func(c *cli.Context) error {
			o.idle = refuseIdleOf(c)
			return convert(c.Args().First(), o, c.App.Writer, c.App.ErrWriter)
		}),
	}
}

func convert(path string, o convertOptions, out, notes io.Writer) error {
	o.read.Used = map[string]bool{}
	w, err := openWorkflow(path, o.read, notes)
	if err == nil {
		err = session.RefuseUnused(o.read.Define, "", o.read.Used)
	}
	if err == nil && o.idle != nil {
		facts := session.Facts{Repaired: o.read.Repair}
		facts.Workflow(&session.Settings{}, w)
		err = o.idle(&facts)
	}
	if err != nil {
		return err
	}
	return writeTo(out, o.out, func(to io.Writer) error { return trace.WriteWfFormat(to, w) })
}
