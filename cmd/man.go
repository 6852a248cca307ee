package cmd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	release "gantry"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
)

func manCommand() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "write the manual pages: gantry.1 and one for each command",
		ArgsUsage: "DIRECTORY",
		Description: `   gantry man ~/.local/share/man/man1
   man gantry-run

Exit codes: 0 written, 2 wrong command line, 4 a page cannot be written.`,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return exit.Usagef("man: name the directory of the pages")
			}
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
		},
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

// writeMan writes a page in the macros of man(7).
func writeMan(w io.Writer, p helpPage) error {
	var b strings.Builder
	name := strings.ReplaceAll(p.name, " ", "-")
	fmt.Fprintf(&b, ".TH \"%s\" 1 \"\" \"gantry %s\" \"User Commands\"\n", strings.ToUpper(roff(name)),
		roff(release.Build()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n", roff(name), roff(p.usage),
		roff(p.synopsis))
	for i, paragraph := range paragraphs(p.text) {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		for _, l := range paragraph {
			switch {
			case !l.example:
				b.WriteString(roff(l.text) + "\n")
			case l.comment == "":
				fmt.Fprintf(&b, ".RS\n.nf\n%s\n.fi\n.RE\n", roff(l.text))
			default:
				fmt.Fprintf(&b, ".RS\n.TP\n.B %s\n%s\n.RE\n", roff(l.text), roff(l.comment))
			}
		}
	}
	for _, part := range []struct {
		title string
		terms []entry
	}{{"COMMANDS", p.commands}, {"OPTIONS", p.options}} {
		if len(part.terms) > 0 {
			fmt.Fprintf(&b, ".SH %s\n", part.title)
		}
		for _, t := range part.terms {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(t.name), roff(t.meaning))
		}
	}
	if len(p.commands) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		var also []string
		for _, t := range p.commands {
			also = append(also, roff("gantry-"+t.name)+"(1)")
		}
		b.WriteString(strings.Join(also, ", ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
