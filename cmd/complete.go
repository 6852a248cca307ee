package cmd

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/planner/policy"
	"gantry/sqlite"
)

// completeWord is the hidden first argument by which the shells' scripts ask for completions. The words of the command
// line follow, the last of them is being typed. The answer is a line for each candidate, with its meaning after a tab;
// where there is none the shell offers files.
const completeWord = "__complete"

// shells have the scripts of gantry completion; they ask gantry itself.
var shells = map[string]string{
	"bash": `_gantry() {
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _gantry gantry
`,
	"zsh": `#compdef gantry
_gantry() {
    local -a found
    found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    [[ -n ${found[1]} ]] && compadd -- "${(@)found%%$'\t'*}" || _files
}
compdef _gantry gantry
`,
	"fish": `function __gantry_complete
    set -l words (commandline -opc)
    set -l found ($words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null)
    test -n "$found"; and printf '%s\n' $found; or __fish_complete_path (commandline -ct)
end
complete -c gantry -f -a '(__gantry_complete)'
`,
}

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script of a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: `The script completes commands, options, policies, runs, tasks and files. Put one of these lines
into the file that your shell reads at its start:

   source <(gantry completion bash)      in ~/.bashrc
   source <(gantry completion zsh)       in ~/.zshrc, after compinit
   gantry completion fish | source       in ~/.config/fish/config.fish

Exit codes: 0 printed, 2 wrong command line.`,
		Action: func(c *cli.Context) error {
			script, ok := shells[c.Args().First()]
			if !ok || c.NArg() != 1 {
				return exit.Usagef("completion: name a shell: bash, zsh or fish")
			}
			_, err := io.WriteString(term.Raw(c.App.Writer), script)
			return err
		},
	}
}

// complete prints the completions of the last word.
func complete(app *cli.App, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	var found []entry
	switch command := app.Command(words[0]); {
	case len(words) == 1:
		found = commandTerms(app, true)
	case command != nil:
		found = completeCommand(app, command, words[1:len(words)-1], last)
	}
	for _, t := range found {
		if strings.HasPrefix(t.name, last) {
			fmt.Fprintf(term.Unfolded(app.Writer), "%s\t%s\n", t.name, t.meaning)
		}
	}
}

func commandTerms(app *cli.App, aliases bool) []entry {
	var terms []entry
	for _, c := range app.Commands {
		for i, name := range c.Names() {
			if !c.Hidden && (i == 0 || aliases) {
				terms = append(terms, entry{name, c.Usage, c.Category})
			}
		}
	}
	return terms
}

func completeCommand(app *cli.App, command *cli.Command, before []string, last string) []entry {
	dir, runs := session.DefaultHome(), 0
	var waiting cli.Flag // for its value
	for _, w := range before {
		switch {
		case waiting != nil:
			if slices.Contains(waiting.Names(), "dir") {
				dir = w
			}
			waiting = nil
		case len(w) > 1 && w[0] == '-':
			waiting = valueFlag(command, strings.TrimLeft(w, "-"))
		default:
			runs++
		}
	}
	switch {
	case waiting != nil:
		return flagValues(waiting.Names()[0], dir)
	case strings.HasPrefix(last, "-"):
		return optionNames(command)
	}
	switch arguments := command.ArgsUsage; {
	case command.Name == "help":
		return commandTerms(app, true)
	case command.Name == "completion":
		return []entry{{name: "bash"}, {name: "zsh"}, {name: "fish"}}
	case strings.HasSuffix(arguments, "TASK") && runs > 0:
		return taskNames(dir, before[len(before)-1])
	case strings.Contains(arguments, "RUN"):
		return runNames(dir)
	}
	return nil
}

func valueFlag(c *cli.Command, name string) cli.Flag {
	for _, f := range c.Flags {
		if doc, ok := f.(cli.DocGenerationFlag); ok && doc.TakesValue() && slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func optionNames(c *cli.Command) []entry {
	terms := []entry{{name: "--help", meaning: "show help"}}
	for _, f := range c.Flags {
		if doc, ok := f.(cli.DocGenerationFlag); ok {
			_, usage := valueOf(doc)
			for _, n := range f.Names() {
				terms = append(terms, entry{name: dashed(n), meaning: usage})
			}
		}
	}
	return terms
}

func flagValues(flag, dir string) []entry {
	words := func(all ...string) (terms []entry) {
		for _, w := range all {
			terms = append(terms, entry{name: w})
		}
		return terms
	}
	switch flag {
	case "policy", "against":
		var terms []entry
		for _, r := range policy.Table() {
			name := r.Name
			if r.Read != nil {
				name += ":"
			}
			terms = append(terms, entry{name: name, meaning: r.Title})
		}
		return terms
	case "replay":
		return runNames(dir)
	case "format":
		return words(exportFormats()...)
	case "runtime":
		return words(session.RuntimeNames(session.RealTime)...)
	case "preempt":
		return words("freeze", "restart")
	}
	return nil
}

// runNames lists the runs of the log in dir; none if there is no log.
func runNames(dir string) []entry {
	var terms []entry
	withLog(dir, func(db *sqlite.DB) {
		if runs, err := db.Runs(context.Background()); err == nil {
			for _, r := range runs {
				terms = append(terms, entry{name: r.Run,
					meaning: string(r.State) + ", " + term.Named(r.Workflows, r.Names)})
			}
		}
	})
	return terms
}

// taskNames lists how the first thousand tasks of a run may be named: by their names in the trace if the run has one
// workflow, else as WORKFLOW/NAME.
func taskNames(dir, run string) []entry {
	var terms []entry
	withLog(dir, func(db *sqlite.DB) {
		ctx := context.Background()
		id, _, err := db.Find(ctx, run)
		if err != nil {
			return
		}
		_ = sqlite.EachRow(ctx, db, func(name *string) error {
			terms = append(terms, entry{name: *name})
			return nil
		}, `SELECT iif((SELECT count(*) FROM workflows WHERE run = t.run AND state <> 'continued') = 1, t.name,
			w.name || '/' || t.name) FROM tasks t JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow
			WHERE t.run = ? AND t.state <> 'continued' ORDER BY t.task LIMIT 1000`, id)
	})
	return terms
}

func withLog(dir string, read func(*sqlite.DB)) {
	db, err := sqlite.Open(filepath.Join(dir, sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return
	}
	defer db.Close()
	read(db)
}
