package cmd

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/executor/sim/calibrate"
	"gantry/sqlite"
	"gantry/sqlite/report/columns"
)

func calibrateCommand() *cli.Command {
	return &cli.Command{
		Name:  "calibrate",
		Usage: "measure this host, so that simulations and predictions fit it",
		Description: `Runs containers of the task emulator for about a minute, with the limits and on the file
system that runs use, and measures: the time and CPU time to prepare, start and end a container, alone, together with
others, and on busy cores; rates of the disk with and without limits; the loss of programs to starts; the use of gantry
and the container engine themselves. Then small workflows of its own run as users' do, and the model is corrected by the
difference to their times.

The result is kept in the log below --dir, for this host, kernel and engine. Simulations of this host and predictions
take it from there. gantry doctor shows it. Nothing else should run meanwhile: the model of a busy host is refused.
--force stores it, with wider intervals; gantry show, ls and compare then call it busy. Ctrl-C leaves nothing behind and
stores nothing.

Exit codes: 0 measured and stored, 2 wrong command line, 4 containers are not usable, or the host was too busy, 130
stopped by a signal.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "runtime", DefaultText: autoRuntime, Usage: "measure containers of `RUNTIME`"},
			&cli.BoolFlag{Name: "quick", Usage: "measure less, in about half of the time; intervals are wider"},
			&cli.BoolFlag{Name: "force", Usage: "store the model of a busy host, too"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing but warnings and errors"},
			&cli.BoolFlag{Name: "json", Usage: "print the model as JSON, and no progress"},
		},
		Action: taking(0, "", func(c *cli.Context) error {
			ctx, release := exit.OnSignal(c.Context)
			defer release()
			err := calibrateHost(ctx, c)
			if ctx.Err() != nil {
				return exit.Stoppedf("stopped: nothing is stored")
			}
			return err
		}),
	}
}

func calibrateHost(ctx context.Context, c *cli.Context) (err error) {
	home := homeOf(c)
	runtime := chosenRuntime(c)
	if err := session.Enter(runtime); err != nil {
		return err
	}
	host, err := session.Here(ctx, runtime, home)
	if err != nil {
		return err
	}
	var step func(doing string, done float64)
	if !c.Bool("json") && !c.Bool("quiet") {
		step = func(doing string, done float64) {
			fmt.Fprintf(c.App.ErrWriter, "%3.0f %%  %s\n", done*100, doing)
		}
	}
	m, row, err := session.Calibrate(ctx, home, host, session.Calibration{Quick: c.Bool("quick"), Busy: c.Bool("force"),
		Step: step})
	if err != nil {
		return err
	}
	for _, w := range m.Measured.Warnings {
		fmt.Fprintln(c.App.ErrWriter, "warning: "+w+": intervals are wider")
	}
	switch {
	case asJSON(c, m):
	case !c.Bool("quiet"):
		_ = columns.Print(c.App.Writer, 0, "", calibrate.Table(m), nil)
		fmt.Fprintf(c.App.Writer, "\nMeasured %s (%s) with %d containers in %v. It is kept in %s.\n",
			row.Host, row.Engine, m.Measured.Containers, time.Duration(m.Measured.TookNanos).Round(time.Second),
			filepath.Join(home, sqlite.FileName))
	}
	return nil
}
