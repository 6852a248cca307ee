// Package cmd is the command gantry: a file for each subcommand, with options, a call and output. Main is all of it,
// for the main package of another module, too, whose policies join the table by policy.Register (docs/own-policies.md).
package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"

	release "gantry"
	"gantry/cgroup/thread"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/sqlite"
	"gantry/trace/shown"
)

// Main is the command gantry. It does not return.
func Main() { thread.Main(func() { os.Exit(gantry()) }) }

func gantry() int {
	args := os.Args
	name := filepath.Base(args[0]) // of a command of Slurm's, by a link
	if slices.ContainsFunc(slurmCommands(), func(c slurmCommand) bool { return c.name == name }) {
		args = append([]string{"gantry", name}, args[1:]...)
	}
	return run(args)
}

func run(args []string) int {
	stdout := &term.Checked{Writer: os.Stdout}
	app := &cli.App{
		Name:            "gantry",
		Version:         release.Build(),
		Usage:           "run and simulate scientific workflows with one planner",
		HideHelpCommand: true,
		Flags:           []cli.Flag{cli.HelpFlag}, // the library adds none to an app with a command help of its own
		Writer:          term.Fitted(stdout, os.Stdout),
		ErrWriter:       term.Fitted(os.Stderr, os.Stderr),
		Description: `Gantry reads workflows (Pegasus DAX and YAML, WfCommons WfFormat, makeflows) and plans them online
with a scheduling policy. It runs every task in a container under CPU, memory and block I/O limits: with the Docker
Engine, without a daemon (oci), or on the nodes of a Slurm allocation (slurm). Or it simulates the same plan in virtual
time. All measurements are kept in one SQLite log.

   gantry check montage.dax                   the content of a trace, and its errors
   gantry simulate --policy heft montage.dax  how long it would take here
   gantry run --time-scale 0.1 montage.dax    run it, ten times as fast
   gantry show                                the outcome of the latest run
   gantry explain RUN TASK                    why a task waited, failed, or ran where it did
   gantry resume                              continue after Ctrl-C or a crash
   gantry experiment FILE                     simulate policies, loads and errors in all combinations
   gantry compare RUN RUN                     the differences between two runs
   gantry predict                             learn runtimes from earlier runs

Exit codes:
   0    all tasks succeeded
   1    the run ended, tasks failed or were skipped
   2    wrong command line
   3    invalid or unsupported input
   4    the host or Docker is not usable as asked
   6    internal error
   75   another gantry holds this run
   130  stopped by a signal; continue with gantry resume`,
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return unknownCommand(c.App, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Commands: commands(),
		// Errors are printed once, below, with their exit code.
		ExitErrHandler: func(*cli.Context, error) {},
	}
	app.DisableSliceFlagSeparator = true // values of variables and names of files may have commas
	cli.HelpPrinter, cli.VersionPrinter = printHelp, printVersion
	app.OnUsageError = usageError(app, args)
	onSystem(runtime.GOOS, app.Commands)
	for _, cmd := range app.Commands {
		cmd.OnUsageError, cmd.HideHelpCommand = app.OnUsageError, true
		for _, c := range append(cmd.Subcommands, cmd) {
			if c.Before == nil {
				c.Before = withinBounds
			}
		}
	}
	if len(args) > 1 && args[1] == completeWord {
		complete(app, args[2:])
		return exit.OK
	}
	if len(args) > 1 && sections[args[1]] != "" {
		args = slices.Insert(slices.Clone(args), 2, sections[args[1]])
	}
	err := app.RunContext(context.Background(), interspersed(args, app.Commands))
	if err == nil && stdout.Err != nil {
		err = exit.Hostf("standard output: %w", stdout.Err)
	}
	if err == nil {
		return exit.OK
	}
	code := exit.CodeOf(err)
	if code == exit.Internal && (sqlite.IsDisk(err) || errors.Is(err, syscall.ENOSPC)) {
		code = exit.Host
	}
	if msg := err.Error(); msg != "" {
		fmt.Fprintln(app.ErrWriter, "gantry: "+shown.Under(msg, "  "))
	}
	return code
}

// sections are options of gantry show, by its other names.
var sections = map[string]string{"analyze": "--failures", "statistics": "--statistics"}

// Groups of commands, as gantry --help lists them.
const (
	running  = "Run workflows"
	looking  = "Look at runs"
	serving  = "Serve several users and programs"
	studying = "Study workflows and policies"
	keeping  = "Upkeep"
)

// commands lists every command; each has a file of its own.
func commands() []*cli.Command {
	var slurm []*cli.Command
	for _, s := range slurmCommands() {
		slurm = append(slurm, s.command())
	}
	var all []*cli.Command
	for _, g := range []struct {
		title    string
		commands []*cli.Command
	}{
		{running, []*cli.Command{runCommand(), mapCommand(), simulateCommand(), resumeCommand(), checkCommand(),
			policiesCommand()}},
		{looking, []*cli.Command{lsCommand(), showCommand(), watchCommand(), logsCommand(), explainCommand(),
			shellCommand(), exportCommand(), reportCommand()}},
		{serving, append([]*cli.Command{serveCommand(), submitCommand(), queueCommand(), waitCommand(),
			cancelCommand(), drainCommand(), nodeCommand(), slurmLinksCommand()}, slurm...)},
		{studying, []*cli.Command{experimentCommand(), exploreCommand(), compareCommand(), adversaryCommand(),
			generateCommand(), convertCommand(), predictCommand(), calibrateCommand()}},
		{keeping, []*cli.Command{imageCommand(), setupCommand(), doctorCommand(), cleanCommand(), rmCommand(),
			completionCommand(), manCommand(), helpCommand(), versionCommand(), slurmNodeCommand()}},
	} {
		for _, c := range g.commands {
			c.Category = g.title
		}
		all = append(all, g.commands...)
	}
	return all
}
