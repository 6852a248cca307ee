// Command gantry runs and simulates workflow traces on one host.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// Exit codes. They are documented in the README and in --help.
const (
	exitOK          = 0   // all tasks succeeded
	exitTasksFailed = 1   // the run ended, tasks failed or were skipped
	exitUsage       = 2   // wrong command line
	exitInput       = 3   // invalid or unsupported input
	exitHost        = 4   // host or Docker not usable
	exitInternal    = 6   // a fault of gantry's own
	exitHeld        = 75  // another gantry holds this run
	exitInterrupted = 130 // stopped by a signal, resumable
)

// exitError carries an exit code. A nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// fail gives err an exit code.
func fail(code int, err error) error { return &exitError{code, err} }

// failf is fail with a message.
func failf(code int, format string, args ...any) error {
	return fail(code, fmt.Errorf(format, args...))
}

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // a trace of 100,000 tasks fits 300 MB, for a few percent of time
	}
	os.Exit(run(os.Args))
}

func run(args []string) int {
	app := &cli.App{
		Name:            "gantry",
		Usage:           "run and simulate scientific workflows on one host, with one planner",
		HideHelpCommand: true,
		Commands:        commands(),
		// Errors are printed once, below, with their exit code.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   func(c *cli.Context, err error, sub bool) error { return fail(exitUsage, err) },
	}
	err := app.RunContext(context.Background(), interspersed(args, app.Commands))
	if err == nil {
		return exitOK
	}
	var coded *exitError
	if !errors.As(err, &coded) {
		coded = &exitError{exitInternal, err}
	}
	if msg := coded.Error(); msg != "" {
		fmt.Fprintln(os.Stderr, "gantry: "+msg)
	}
	return coded.code
}

// commands lists every command; each has a file of its own.
func commands() []*cli.Command {
	return []*cli.Command{
		runCommand(),
		simulateCommand(),
		resumeCommand(),
		cleanCommand(),
		policiesCommand(),
		lsCommand(),
		showCommand(),
		logsCommand(),
		explainCommand(),
		exportCommand(),
		checkCommand(),
		convertCommand(),
	}
}
