package cmd

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/sqlite"
	"gantry/trace"
)

func mapCommand() *cli.Command {
	return &cli.Command{
		Name:      "map",
		Usage:     "run a command for each row of a table, or each line of a file, in containers under limits",
		ArgsUsage: "[TEMPLATE]",
		Description: `Takes a table whose first row has the names of its columns, and a template in which {NAME} is a
value of the row and {#} its number. {NAME/} is the last part of a path, {NAME//} all before it, {NAME.} is without its
ending, and {NAME/.} both. {{x}} is {x}.

   gantry map --csv samples.csv --image biocontainers/bwa 'bwa mem ref.fa {sample}.fq >{sample}.sam'
   gantry map --tsv samples.tsv --outputs '{id}.bam' --cpus 4 --memory 8G 'sort.sh {id} {file/}'
   gantry map --commands todo.txt --image gantry/busybox   a command a line
   gantry map --csv samples.csv --dry-run 'bwa mem ref.fa {sample}.fq'   the commands; nothing is started

Each is a task that waits for no other one, and has the demands of --cpus, --memory and --time-limit. The shell takes
a value as one text, whatever is in it; a template in which that cannot be had is refused. It is not safe to build the
text of another language from values, as in sh -c or awk: hand them over as arguments.

Words of a command that name a file in --inputs, or beside the table, are input files; its output by > and the names
of --outputs are results. Options are those of gantry run, and so are its exit codes.`,
		Flags: append(append(runFlags(), singleFlags("")...),
			&cli.StringFlag{Name: "csv", Usage: "take the rows of `FILE`, with commas between columns"},
			&cli.StringFlag{Name: "tsv", Usage: "take the rows of `FILE`, with tabs between columns"},
			&cli.StringFlag{Name: "commands", Usage: "take a command from each line of `FILE`"},
			&cli.StringSliceFlag{Name: "outputs", Usage: "with a table: each command writes `NAME`, a template, too " +
				"(may be repeated)"}),
		Action: func(c *cli.Context) error {
			set, err := enter(c)
			if err != nil {
				return err
			}
			w, err := mapped(c)
			if err != nil {
				return err
			}
			return begin(c, set, sqlite.Durable, c.String("name"), w)
		},
	}
}

func mapped(c *cli.Context) (*trace.Workflow, error) {
	l, path := &trace.CommandList{Template: c.Args().First(), Outputs: c.StringSlice("outputs"),
		Task: trace.Task{Cores: c.Float64("cpus"), TimeLimit: c.Duration("time-limit"), Known: trace.Cores}}, ""
	given := 0
	for name, comma := range map[string]rune{"csv": ',', "tsv": '\t', "commands": 0} {
		if c.IsSet(name) {
			given++
			path, l.Comma = c.String(name), comma
		}
	}
	switch {
	case given != 1:
		return nil, exit.Usagef("map: name one of --csv, --tsv and --commands")
	case l.Comma == 0 && (c.NArg() > 0 || len(l.Outputs) > 0):
		return nil, exit.Usagef("map: --commands takes neither a template nor --outputs: its lines are the commands")
	case l.Comma != 0 && c.NArg() != 1:
		return nil, exit.Usagef("map: give one template, in quotes: gantry map --csv FILE 'COMMAND {COLUMN}'")
	}
	readMemory(c, &l.Task)
	dirs := append(c.StringSlice("inputs"), filepath.Dir(path))
	l.Exists = func(name string) bool {
		for _, dir := range dirs {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return true
			}
		}
		return false
	}
	f, err := openText(path)
	if err != nil {
		return nil, exit.With(exit.Input, err)
	}
	defer f.Close()
	w, faults, err := l.Read(f, path, sizeOf(c, "max-input"))
	if err != nil {
		return nil, exit.With(exit.Input, err)
	}
	for _, fault := range faults {
		if fault.Severity == trace.Error {
			return nil, exit.Inputf("map: %s: %v", path, fault)
		}
		fmt.Fprintf(c.App.ErrWriter, "gantry: %s: %v\n", path, fault)
	}
	return w, nil
}
