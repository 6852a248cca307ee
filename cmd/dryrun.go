package cmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/sqlite/report/columns"
	"gantry/trace/shown"
)

// tellCommand writes the command of a task in one line.
func tellCommand(b io.Writer, task, command string) {
	fmt.Fprintf(b, "%s: %s\n", shown.Line(task), shown.Line(cmp.Or(command, "emulated")))
}

func printDry(c *cli.Context, d *session.DryRun) {
	w := c.App.Writer
	if asJSON(c, d) || c.Bool("quiet") {
		return
	}
	fmt.Fprintf(w, "This run would start %s on %s, policy %s", term.Plural(len(d.Steps), "task"), d.Size, d.Policy)
	if len(d.Reused) > 0 {
		fmt.Fprintf(w, ", and take over the results of %s", term.Plural(len(d.Reused), "task"))
	}
	fmt.Fprint(w, ". Nothing is started.\n\n")
	t := columns.New(w, "-order|workflow|task|node|-starts|-runs|-ends|-cores|-memory|image")
	for i, x := range d.Steps {
		memory := any("any")
		if x.Memory > 0 {
			memory = &x.Memory
		}
		t.Row(i+1, x.Workflow, x.Task, x.Node, x.Start, x.Begin, x.End, float64(x.Millicores)/1000, memory,
			cmp.Or(x.Image, "emulated"))
	}
	t.End()
	t = columns.New(w, "image|here as|the run would")
	for _, x := range d.Images {
		id, does := "-", "use it"
		if x.ID != "" {
			id = strings.TrimPrefix(x.ID, "sha256:")[:12]
		}
		if x.Action != "present" {
			does = x.Action + " it"
		}
		t.Row(x.Image, id, does)
	}
	t.End()
	var commands strings.Builder
	for _, x := range d.Reused {
		tellCommand(&commands, "reused  "+x.Workflow+"/"+x.Task+" (run "+x.Run+")", x.Command)
	}
	for _, x := range d.Steps {
		task := x.Workflow + "/" + x.Task
		if d.Reuse {
			task = "run     " + task
		}
		if x.Reason != "" {
			task += " (" + x.Reason + ")"
		}
		if x.Command != "" || d.Reuse {
			tellCommand(&commands, task, x.Command)
		}
	}
	if commands.Len() > 0 {
		fmt.Fprintln(w, commands.String())
	}
	t = columns.New(w, "workflow|input|from|-size")
	for _, x := range d.Inputs {
		t.Row(x.Workflow, x.File, cmp.Or(x.Path, "made up"), &x.Bytes)
	}
	t.End()
	fmt.Fprintln(w, d.Expected)
	if d.Warning != "" {
		fmt.Fprintf(w, "warning: %s\n", d.Warning)
	}
	if d.Reuse && len(d.Steps) > 0 {
		fmt.Fprintln(w, "A task that makes what it made before lets those after it take over results, too.")
	}
}
