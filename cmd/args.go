package cmd

import (
	"math"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/trace/reader"
)

// separated is a list each of whose texts may be several, with commas between them.
func separated(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, strings.Split(text, ",")...)
	}
	return all
}

// interspersed lets a command's flags stand behind its arguments too; the flag library stops at the first argument.
// args are those of the process, the name of the command at 1; all words after "--" are arguments.
func interspersed(args []string, commands []*cli.Command) []string {
	if len(args) < 2 {
		return args
	}
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[1]) })
	if i < 0 || commands[i].SkipFlagParsing {
		return args
	}
	takesValue := map[string]bool{}
	for _, f := range commands[i].Flags {
		doc, ok := f.(cli.DocGenerationFlag)
		for _, name := range f.Names() {
			takesValue[name] = ok && doc.TakesValue()
		}
	}
	flags, rest := []string{}, []string{}
	for at := 2; at < len(args); at++ {
		a := args[at]
		if a == "--" {
			if commands[i].HasName("run") && len(rest) == 0 {
				rest = []string{commandWord}
			}
			rest = append(rest, args[at+1:]...)
			break
		}
		if len(a) < 2 || a[0] != '-' {
			rest = append(rest, a)
			continue
		}
		name := strings.TrimLeft(a, "-")
		if slices.Contains(cli.HelpFlag.Names(), name) { // with arguments, the library looks for a topic
			return []string{args[0], args[1], "--help"}
		}
		flags = append(flags, a)
		if !takesValue[name] {
			continue
		}
		if at++; at == len(args) {
			return slices.Concat(args[:2], flags) // its value is missing, which the library says
		}
		flags = append(flags, args[at])
	}
	return slices.Concat(args[:2], flags, []string{"--"}, rest)
}

// withinBounds refuses options whose numbers are too large to be computed with, whose texts are empty, and that have no
// effect.
func withinBounds(c *cli.Context) error {
	if c.Command.Name == "run" {
		if err := readDefaults(c); err != nil {
			return err
		}
	}
	for _, f := range c.Command.Flags {
		name, x, most := f.Names()[0], 0.0, 1e9
		switch f.(type) {
		case *cli.IntFlag:
			x = float64(c.Int(name))
		case *cli.Float64Flag:
			x = c.Float64(name)
		case *cli.DurationFlag:
			x, most = c.Duration(name).Seconds(), reader.MaxTime.Seconds()
		case *cli.StringFlag: // an empty GANTRY_DIR holds for all commands alike
			if c.IsSet(name) && c.String(name) == "" && name != "dir" {
				return exit.Usagef("--%s: its value is empty, as of a variable that is not set; leave it out for the "+
					"default", name)
			}
		}
		if !(math.Abs(x) <= most) { // NaN, too
			return exit.Usagef("--%s %v: %w", name, c.Value(name), reader.Above(most))
		}
	}
	return refuseIdle(c, nil, nil)
}
