package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/sqlite/report/study"
	"gantry/sqlite/results"
	"gantry/trace"
)

// isResults reports whether an argument is a file of results, in either form, and no run. No run has a / in its name.
func isResults(arg string) bool {
	if strings.Contains(arg, "/") || strings.HasSuffix(arg, ".sqlite") || strings.HasSuffix(arg, ".jsonl") {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular() && results.IsResults(arg)
}

// writeStudy writes a page of results.
func writeStudy(c *cli.Context) error {
	text, err := study.WritePage(c.Context, c.StringSlice("study"), c.Args().Slice(), c.String("out"),
		"gantry "+strings.Join(os.Args[1:], " "), c.IsSet("html"))
	var output *study.OutputError
	switch {
	case errors.As(err, &output):
		return exit.Hostf("report: %w", err)
	case err != nil:
		return exit.Inputf("report: %w", trace.Plain(err))
	}
	write := func(w io.Writer) error { _, err := w.Write(text); return err }
	if !c.IsSet("html") {
		return write(c.App.Writer)
	}
	if err := writeTo(c, c.String("html"), write); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "wrote %s: open it in a browser\n", c.String("html"))
	return nil
}

// dotsKept bounds the workflows of each combination in a short file.
const dotsKept = 250

// saveResults writes the short form of one file of results.
func saveResults(c *cli.Context) error {
	if c.NArg() != 1 {
		return exit.Usagef("report --save: name one file of results")
	}
	set, err := results.Load(c.Context, c.Args().First())
	if err != nil {
		return exit.With(exit.Input, err)
	}
	var studies []*study.Study
	for _, path := range c.StringSlice("study") {
		s, err := study.Read(path)
		if err != nil {
			return exit.With(exit.Input, trace.Plain(err))
		}
		studies = append(studies, s)
	}
	keep := func(metric string) bool {
		for _, s := range studies {
			if s.Keeps(metric) {
				return true
			}
		}
		return len(studies) == 0
	}
	return writeTo(c, c.String("save"), func(w io.Writer) error { return set.WriteShort(w, keep, dotsKept) })
}
