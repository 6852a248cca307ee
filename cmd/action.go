package cmd

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/planner/policy"
	"gantry/sqlite"
	"gantry/trace/reader"
)

// onLog is the action of a command that reads the log, or that of the submission that its arguments name.
func onLog(read func(c *cli.Context, db *sqlite.DB) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		db, err := readLog(c)
		if err != nil {
			return err
		}
		defer db.Close()
		return session.LogError(read(c, db))
	}
}

// onServer is the action of a command that asks the server of --dir.
func onServer(ask func(c *cli.Context, cl *api.Client) error) cli.ActionFunc {
	return func(c *cli.Context) error { return serverError(ask(c, client(c))) }
}

// onSubmission is the action of a command that asks the server about one submission, by its number.
func onSubmission(ask func(c *cli.Context, cl *api.Client, id int64) error) cli.ActionFunc {
	return exactly(1, "name one submission by the number that gantry submit printed", func(c *cli.Context) error {
		id, err := submission(c)
		if err != nil {
			return err
		}
		return onServer(func(c *cli.Context, cl *api.Client) error { return ask(c, cl, id) })(c)
	})
}

// taking has a command refuse more arguments than it takes. Instead is the advice.
func taking(most int, instead string, do cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() > most && most > 0 {
			return exit.Usagef("%s: %s", c.Command.Name, instead)
		} else if c.NArg() > most {
			return exit.Usagef("%s takes no arguments%s", c.Command.Name, instead)
		}
		return do(c)
	}
}

// exactly has a command refuse fewer and more arguments than it takes. Wanted names these.
func exactly(n int, wanted string, do cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() != n {
			return exit.Usagef("%s: %s", c.Command.Name, wanted)
		}
		return do(c)
	}
}

// asJSON prints a value for programs if --json asks for that.
func asJSON(c *cli.Context, v any) bool {
	if c.Bool("json") {
		term.PrintJSON(c.App.Writer, v)
	}
	return c.Bool("json")
}

// separated is a list each of whose texts may be several, with commas between them.
func separated(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, strings.Split(text, ",")...)
	}
	return all
}

// policiesIn are those of a list of policies, with commas between them. A part that is the name of none is a parameter
// of the one before, as in exec:./mine.py,epsilon=0.2.
func policiesIn(texts []string) (all []string) {
	for _, part := range separated(texts) {
		name, _, _ := strings.Cut(part, ":")
		_, err := policy.Named(name)
		if n := len(all); err != nil && n > 0 && strings.Contains(all[n-1], ":") {
			all[n-1] += "," + part
		} else {
			all = append(all, part)
		}
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

// bounds are those of options whose values are numbers, from the least to the most; 0 is no bound above.
var bounds = []struct {
	flags       string
	least, most float64
}{
	{"lines held-out time-scale size-scale grace startup time-limit", 0, 0},
	{"count starts jobs repetitions repetition", 1, 0},
	{"retries", 0, math.MaxInt16}, {"port", 0, math.MaxUint16},
	{"cpus cores", 0.001, 1e6}, {"workflows tenants", 1, 100}, {"nodes", 1, 50}, {"chains", 1, 1e5}, {"steps", 1, 1e7},
}

// withinBounds refuses options whose numbers are outside of their bounds or too large to be computed with, whose texts
// are empty, and that have no effect.
func withinBounds(c *cli.Context) error {
	if c.Command.Name == "run" || c.Command.Name == "map" {
		if err := readDefaults(c); err != nil {
			return err
		}
	}
	for _, f := range c.Command.Flags {
		name, x, most := f.Names()[0], 0.0, 1e9
		if !c.IsSet(name) {
			continue
		}
		switch f.(type) {
		case *cli.IntFlag:
			x = float64(c.Int(name))
		case *cli.Float64Flag:
			x = c.Float64(name)
		case *cli.DurationFlag:
			x, most = c.Duration(name).Seconds(), reader.MaxTime.Seconds()
		case *cli.StringFlag: // an empty GANTRY_DIR holds for all commands alike
			if c.String(name) == "" && name != "dir" {
				return exit.Usagef("--%s: %w", name, errEmpty)
			}
			continue
		default:
			continue
		}
		if math.IsNaN(x) {
			return exit.Usagef("--%s %v: not a number", name, c.Value(name))
		} else if math.Abs(x) > most {
			return exit.Usagef("--%s %v: %w", name, c.Value(name), reader.Above(most))
		}
		for _, b := range bounds {
			if slices.Contains(strings.Fields(b.flags), name) && (x < b.least || b.most > 0 && x > b.most) {
				upTo := ""
				if b.most > 0 {
					upTo = fmt.Sprintf(" to %.0f", b.most)
				}
				return exit.Usagef("--%s %v: give a number from %g%s", name, c.Value(name), b.least, upTo)
			}
		}
	}
	return refuseIdle(c, nil, nil)
}

// errEmpty refuses the empty value of an option.
var errEmpty = errors.New("its value is empty, as of a variable that is not set; leave it out for the default")

// byteSize is the value of an option that is an amount of bytes above 0; 0 is none.
type byteSize int64

// Set reads an amount such as 2GB.
func (b *byteSize) Set(text string) error {
	if text == "" {
		return errEmpty
	}
	n, err := reader.Bytes(text)
	if err == nil && n <= 0 {
		err = errors.New("it has to be a size above 0, such as 64MB")
	}
	*b = byteSize(n)
	return err
}

func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*b), 10)
}

// Get implements flag.Getter.
func (b *byteSize) Get() any { return int64(*b) }

// sizeFlag is an option of an amount of bytes. Its default is that of the text; "": there is none.
func sizeFlag(name, usual, usage string) *cli.GenericFlag {
	f := &cli.GenericFlag{Name: name, Value: new(byteSize), DefaultText: usual, Usage: usage}
	if usual != "" {
		_ = f.Value.Set(usual) // it is one
	}
	return f
}

// sizeOf is the value of an option of an amount of bytes; 0: none is given.
func sizeOf(c *cli.Context, name string) int64 { return int64(*c.Generic(name).(*byteSize)) }
