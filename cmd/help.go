package cmd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	release "gantry"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/trace/spelling"
)

// helpWidth is how wide help is printed: as wide as the terminal, but lines of more than 100 columns are hard to read.
func helpWidth() int {
	if n := term.Width(os.Stdout); n > 0 {
		return min(n, 100)
	}
	return 80
}

// printHelp replaces the flag library's printer: help fits the terminal.
func printHelp(w io.Writer, _ string, of any) {
	switch x := of.(type) {
	case *cli.App:
		writeHelp(w, appHelp(x), helpWidth())
	case *cli.Command:
		writeHelp(w, commandHelp(x), helpWidth())
	}
}

// helpPage is the help of gantry or of one of its commands; man pages have the same text.
type helpPage struct {
	name, usage, synopsis string
	// text has paragraphs, divided by blank lines. Lines that begin with three spaces are examples.
	text     string
	commands []entry
	options  []entry
}

// entry is a word with its meaning, and the title of its group.
type entry struct{ name, meaning, group string }

func appHelp(app *cli.App) helpPage {
	return helpPage{name: app.Name, usage: app.Usage, synopsis: "gantry COMMAND [OPTIONS] [ARGUMENTS]",
		text: app.Description, commands: commandTerms(app, false), options: optionTerms(app.Flags)}
}

func commandHelp(c *cli.Command) helpPage {
	synopsis, options := "gantry "+c.Name, optionTerms(c.Flags)
	if len(options) > 0 {
		synopsis += " [OPTIONS]"
	}
	return helpPage{name: "gantry " + c.Name, usage: c.Usage, synopsis: strings.TrimSpace(synopsis + " " + c.ArgsUsage),
		text: c.Description, options: options}
}

func optionTerms(flags []cli.Flag) []entry {
	var terms []entry
	flags = slices.DeleteFunc(slices.Clone(flags), func(f cli.Flag) bool {
		return slices.Contains(f.Names(), "help") // every command has it
	})
	for _, f := range flags {
		doc, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		value, meaning := valueOf(doc)
		terms = append(terms, entry{flagNames(f, value), meaning + defaultOf(f, doc), groupOf(f, len(flags))})
	}
	slices.SortStableFunc(terms, func(a, b entry) int {
		at := func(e entry) int {
			return slices.IndexFunc(optionGroups, func(g [2]string) bool { return g[0] == e.group })
		}
		return at(a) - at(b)
	})
	return terms
}

// optionGroups order the options of a command with many. The first has those that people use first, the last all that
// are not named.
var optionGroups = [][2]string{
	{"Options", "policy cluster time-scale inputs image runtime name dir dry-run watch quiet json"},
	{"Workflows", "count repetition size-scale emulate catalog site enforce-walltime container-mounts define repair " +
		"max-input fit seed"},
	{"Failures and deadlines", "retry retries fail-fast reject-late checkpoint preempt grace on-end"},
	{"Commands and files", "env env-file secret mount shell pull results results-dir reuse scratch max-output disk " +
		"tmp"},
	{"Estimates and predictions", "estimator predict-memory errors host-model startup no-prediction noise replay " +
		"measured"},
	{"Slurm", "slurm-job shared node-runtime"},
	{"Other options", ""},
}

// groupOf is the heading under which the help of a command with many options lists an option.
func groupOf(f cli.Flag, of int) string {
	const many = 30
	i := len(optionGroups) - 1
	if of < many {
		i = 0
	} else if k := slices.IndexFunc(optionGroups, func(g [2]string) bool {
		return slices.Contains(strings.Fields(g[1]), f.Names()[0])
	}); k >= 0 {
		i = k
	}
	return optionGroups[i][0]
}

// flagNames lists the names of a flag as they are typed, short ones first.
func flagNames(f cli.Flag, value string) string {
	names := slices.Clone(f.Names())
	slices.SortStableFunc(names, func(a, b string) int { return min(len(a), 2) - min(len(b), 2) })
	for i, n := range names {
		names[i] = dashed(n)
	}
	return strings.TrimSpace(strings.Join(names, ", ") + " " + value)
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// valueOf takes the name of a flag's value out of its usage, where it stands in backquotes. The
// usage keeps it, unless it is the beginning, before a colon.
func valueOf(f cli.DocGenerationFlag) (value, usage string) {
	usage = f.GetUsage()
	if !f.TakesValue() {
		return "", usage
	}
	if before, rest, ok := strings.Cut(usage, "`"); ok {
		if name, after, ok := strings.Cut(rest, "`"); ok {
			if meaning, ok := strings.CutPrefix(after, ": "); ok && before == "" {
				return name, meaning
			}
			return name, before + name + after
		}
	}
	switch f.(type) {
	case *cli.IntFlag, *cli.Uint64Flag:
		return "N", usage
	case *cli.DurationFlag:
		return "DURATION", usage
	}
	return "VALUE", usage
}

func defaultOf(f cli.Flag, doc cli.DocGenerationFlag) string {
	var notes []string
	text := doc.GetDefaultText()
	switch x := f.(type) {
	case *cli.BoolFlag:
		if text == "false" {
			text = ""
		}
	case *cli.StringFlag:
		if text == "" || x.DefaultText == "" {
			text = x.Value
		}
	case *cli.IntFlag, *cli.Uint64Flag, *cli.Float64Flag, *cli.DurationFlag:
		if text == "0" || text == "0s" {
			text = ""
		}
	}
	if text != "" {
		notes = append(notes, "default: "+text)
	}
	for _, v := range doc.GetEnvVars() {
		notes = append(notes, "environment: "+v)
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, ", ") + ")"
}

func writeHelp(w io.Writer, p helpPage, width int) {
	var b strings.Builder
	b.WriteString(term.Hang("", "    ", p.name+" - "+p.usage, width) + "\n\n")
	b.WriteString(term.Hang("", "    ", "Usage: "+p.synopsis, width) + "\n")
	if text := strings.Trim(p.text, "\n"); text != "" {
		for paragraph := range strings.SplitSeq(text, "\n\n") {
			b.WriteString("\n")
			writeParagraph(&b, paragraph, width)
		}
	}
	writeTerms(&b, p.commands, width)
	writeTerms(&b, p.options, width)
	_, _ = io.WriteString(w, b.String())
}

// writeParagraph writes the lines of prose as one, and those of examples as they stand.
func writeParagraph(b *strings.Builder, text string, width int) {
	prose := ""
	end := func() {
		if prose != "" {
			b.WriteString(term.Hang("", "", prose, width) + "\n")
		}
		prose = ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		if example, ok := strings.CutPrefix(line, "   "); ok {
			end()
			b.WriteString(term.Hang("    ", "        ", example, width) + "\n")
		} else {
			prose = strings.TrimSpace(prose + " " + line)
		}
	}
	end()
}

// writeTerms writes words with their meanings, each group below its title.
func writeTerms(b *strings.Builder, terms []entry, width int) {
	column := 0
	for _, t := range terms {
		if n := utf8.RuneCountInString(t.name) + 4; n <= width*2/5 {
			column = max(column, n)
		}
	}
	column = max(column, 6)
	for i, t := range terms {
		if i == 0 || t.group != terms[i-1].group {
			b.WriteString("\n" + t.group + ":\n")
		}
		line := "  " + t.name
		if n := utf8.RuneCountInString(line); n+2 <= column {
			line += strings.Repeat(" ", column-n)
		} else {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", column)
		}
		b.WriteString(term.Hang(line, strings.Repeat(" ", column), t.meaning, width) + "\n")
	}
}

func helpCommand() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "show the help of a command",
		ArgsUsage: "[COMMAND]",
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return cli.ShowAppHelp(c)
			}
			name := c.Args().First()
			command := c.App.Command(name)
			if command == nil {
				return unknownCommand(c.App, name)
			}
			printHelp(c.App.Writer, "", command)
			return nil
		},
	}
}

func printVersion(c *cli.Context) { fmt.Fprintln(c.App.Writer, "gantry "+release.Build()) }

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "show the version of gantry",
		Action: taking(0, "", func(c *cli.Context) error {
			printVersion(c)
			return nil
		}),
	}
}

// unknownCommand suggests the command that may have been meant.
func unknownCommand(app *cli.App, name string) error {
	var names []string
	for _, c := range app.Commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return exit.Usagef("unknown command %q; %s", name, spelling.Hint(name, names))
}

// wanted describes the values that a flag takes.
func wanted(flags []cli.Flag, name string) string {
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return "give another value"
	}
	switch flags[i].(type) {
	case *cli.DurationFlag:
		return "give a duration such as 90s"
	case *cli.BoolFlag:
		return "give true or false"
	case *cli.Float64Flag:
		return "give a number"
	case *cli.UintFlag, *cli.Uint64Flag:
		return "give a whole number from 0"
	}
	return "give a whole number"
}

// usageError describes an error of the command line in one line. The flag library always writes flags with one dash.
func usageError(app *cli.App, args []string) cli.OnUsageErrorFunc {
	return func(c *cli.Context, err error, _ bool) error {
		of, flags := "gantry", app.Flags
		if c.Command != nil && app.Command(c.Command.Name) != nil {
			of, flags = "gantry "+c.Command.Name, c.Command.Flags
		}
		text := err.Error()
		if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
			return exit.Usagef("%s has no option %s; %s", of, typed(name, args), nearestFlag(name, flags, of))
		}
		if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
			return exit.Usagef("%s needs a value (see %s --help)", typed(name, args), of)
		}
		if before, rest, ok := strings.Cut(strings.Replace(text, " for -", " for flag -", 1), " for flag -"); ok {
			name, reason, _ := strings.Cut(rest, ": ")
			if reason == "parse error" {
				reason = wanted(flags, name)
			}
			return exit.Usagef("%s for %s: %s (see %s --help)", before, typed(name, args), reason, of)
		}
		return exit.Usagef("%w (see %s --help)", err, of)
	}
}

// typed is a flag as it stands on the command line.
func typed(name string, args []string) string {
	for _, a := range args {
		if flag, _, _ := strings.Cut(a, "="); strings.HasPrefix(flag, "-") && strings.TrimLeft(flag, "-") == name {
			return flag
		}
	}
	return dashed(name)
}

func nearestFlag(name string, flags []cli.Flag, of string) string {
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	if near := spelling.Nearest(name, names); near != "" {
		return "did you mean " + dashed(near) + "?"
	}
	return fmt.Sprintf("see %s --help", of)
}

func manCommand() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "write the manual pages: gantry.1 and one for each command",
		ArgsUsage: "DIRECTORY",
		Description: `   gantry man ~/.local/share/man/man1
   man gantry-run

Exit codes: 0 written, 2 wrong command line, 4 a page cannot be written.`,
		Action: exactly(1, "name the directory of the pages", func(c *cli.Context) error {
			dir := c.Args().First()
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return exit.Hostf("man: %w", err)
			}
			pages := []helpPage{appHelp(c.App)}
			for _, command := range c.App.Commands {
				pages = append(pages, commandHelp(command))
			}
			for _, p := range pages {
				path := filepath.Join(dir, strings.ReplaceAll(p.name, " ", "-")+".1")
				if err := writeWhole(path, func(w io.Writer) error { return writeMan(w, p) }); err != nil {
					return exit.Hostf("man: write %s: %w", path, err)
				}
			}
			fmt.Fprintf(c.App.Writer, "%d pages in %s\n", len(pages), dir)
			return nil
		}),
	}
}

// roff escapes characters with a meaning to the formatter: backslashes, hyphens, and a dot or an apostrophe at the
// beginning of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// writeMan writes a page in the macros of man(7). Its text is that of --help.
func writeMan(w io.Writer, p helpPage) error {
	var b, help strings.Builder
	name := roff(strings.ReplaceAll(p.name, " ", "-"))
	fmt.Fprintf(&b, ".TH \"%s\" 1 \"\" \"gantry %s\" \"User Commands\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n",
		strings.ToUpper(name), roff(release.Build()), name, roff(p.usage))
	writeHelp(&help, p, 72)
	_, text, _ := strings.Cut(help.String(), "\n\n") // the first paragraph is the name
	for line := range strings.Lines(text) {
		b.WriteString(roff(line))
	}
	b.WriteString(".fi\n")
	for i, t := range p.commands {
		if i == 0 {
			b.WriteString(".SH SEE ALSO\n")
		}
		b.WriteString(roff("gantry-"+t.name) + "(1)\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
