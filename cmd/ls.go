package cmd

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/docker/go-units"
	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor/lock"
	"gantry/sqlite"
	"gantry/sqlite/report/columns"
)

func lsCommand() *cli.Command {
	return &cli.Command{
		Name:  "ls",
		Usage: "list the runs in the log, the newest first",
		Description: `State "crashed": gantry was killed, the machine crashed, or the log could no longer be written,
as on a full disk.
State "host-error": the run could not continue because of the disk or the Docker Engine.
gantry resume continues both, but for simulations, which are started again.

Exit codes: 0 listed, 2 wrong command line, 3 no log, 4 the log cannot be read.`,
		Flags: []cli.Flag{dirFlag(), &cli.BoolFlag{Name: "size", Usage: "also show how much disk the files of each " +
			"run take; files that runs share count for each"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON array"}},
		Action: func(c *cli.Context) error {
			return taking(0, "; gantry show "+c.Args().First()+" shows one run", onLog(listRuns))(c)
		},
	}
}

func listRuns(c *cli.Context, db *sqlite.DB) error {
	runs, err := db.Runs(c.Context)
	if err != nil {
		return err
	}
	for i := range runs {
		runs[i].State = stateNow(c.String("dir"), &runs[i])
		if c.Bool("size") {
			bytes := session.OnDisk(filepath.Join(c.String("dir"), runs[i].Run))
			runs[i].Disk = &bytes
		}
	}
	if asJSON(c, runs) {
		return nil
	}
	if len(runs) == 0 {
		fmt.Fprintln(c.App.ErrWriter, "gantry:", sqlite.NoRuns)
	}
	modelled := slices.ContainsFunc(runs, func(r sqlite.Overview) bool { return r.HostModel != nil })
	const titles = "run|?-disk|state|on|policy|-tasks|-failed|-makespan|started|workflows|?host model"
	columns.List(c.App.Writer, runs, 0, titles, func(r sqlite.Overview) []any {
		started := r.Started
		if at, err := time.Parse(time.RFC3339Nano, r.Started); err == nil {
			started = units.HumanDuration(time.Since(at)) + " ago"
		}
		model := ""
		if modelled {
			model = r.HostModel.String()
		}
		return []any{r.Run, r.Disk, r.State, r.Runtime, r.Policy, fmt.Sprintf("%d/%d", r.Done, r.Tasks),
			r.Failed + r.Skipped, r.Makespan, started, term.Named(r.Workflows, r.Names), model}
	})
	if c.Bool("size") {
		log := session.OnDisk(db.Path()) + session.OnDisk(db.Path()+"-wal")
		fmt.Fprintf(c.App.Writer, "log: %s\n", term.Size(&log))
	}
	return nil
}

// States that the log does not have.
const (
	crashed   sqlite.State = "crashed"    // running in the log, although no gantry holds it
	hostError sqlite.State = "host-error" // interrupted, though nobody asked for it
)

// stateNow is the state of a run as of now: the log alone cannot distinguish a run under way from one whose gantry was
// killed.
func stateNow(dir string, r *sqlite.Overview) sqlite.State {
	if r.State == sqlite.Running && session.Capabilities(r.Runtime).Adopts && !lock.OfRun(filepath.Join(dir, r.Run)) {
		return crashed
	}
	if r.State == sqlite.Interrupted && r.ExitCode != nil && *r.ExitCode == exit.Host {
		return hostError
	}
	return r.State
}
