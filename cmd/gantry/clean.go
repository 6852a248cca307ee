package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/sqlite"
)

func cleanCommand() *cli.Command {
	return &cli.Command{
		Name:      "clean",
		Usage:     "remove containers and control groups that a crash left behind",
		ArgsUsage: "[RUN]",
		Description: `Without RUN it cleans up after all runs. It leaves runs that a gantry works on, the log
and all files alone. Tasks that a crashed run had started are lost to it; gantry resume keeps them instead, and leaves
nothing behind either. gantry rm also removes the log and files of a run. Job steps of runs on Slurm are ended.

With --files it also deletes the files of runs that have ended, but for their results: work directories with the
output of tasks, and the copies of all inputs and outputs. With --keep-reuse it leaves what gantry run --reuse and
gantry resume --with need: inputs and outputs stay, work directories go.

With --images it also removes the images of other builds of the task emulator, and those unpacked images (gantry
images) that no run needs: none that runs, or that can continue. Use it while no other checkout of gantry runs
workflows: its runs may need the emulator's.

What another runtime left is removed where Docker, or an OCI runtime, cannot be used.

Exit codes: 0 cleaned, 2 wrong command line, 3 no such run, 4 a runtime that runs of the log need is not usable here.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.BoolFlag{Name: "images", Usage: "also remove images of other builds of the task emulator that no " +
				"container uses, and unpacked images that no run needs"},
			&cli.BoolFlag{Name: "files", Usage: "also delete files of runs that have ended, but for their results"},
			&cli.BoolFlag{Name: "keep-reuse", Usage: "with --files: keep the inputs and outputs that --reuse needs"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: clean,
	}
}

// cleaning is what gantry clean did.
type cleaning struct {
	container.Cleaned
	images, files []string // removed images; runs whose files were deleted
	freed         int64    // bytes
	noEngine      error    // why no images of a Docker Engine were cleaned
}

func clean(c *cli.Context) error {
	if c.NArg() > 1 {
		return exit.Usagef("clean: name one run, or none for all")
	}
	if c.Bool("keep-reuse") && !c.Bool("files") {
		return exit.Usagef("--keep-reuse works only with --files: add --files")
	}
	dir, err := filepath.Abs(c.String("dir"))
	if err != nil {
		return exit.With(exit.Host, err)
	}
	ctx, run := c.Context, c.Args().First()
	for _, r := range runtimes {
		if r.enter != nil && (c.Bool("images") && hasStore() || ranOn(ctx, dir, run, r.Name)) {
			if err := enter(r.Name); err != nil {
				return err
			}
		}
	}
	shells, err := cleanShells(ctx, dir, run)
	if err != nil {
		return exit.With(exit.Host, err)
	}
	var done cleaning
	var partly error
	if done.Cleaned, partly = cleanUsable(ctx, dir, run); partly != nil && !errors.Is(partly, errPartly) {
		return exit.With(exit.Host, partly)
	}
	done.Containers = append(done.Containers, shells...)
	if c.Bool("images") {
		if err := done.cleanImages(ctx); err != nil {
			return exit.With(exit.Host, err)
		}
	}
	if c.Bool("files") {
		var bytes int64
		done.files, bytes, err = cleanFiles(ctx, dir, run, c.Bool("keep-reuse"))
		if done.freed += bytes; err != nil {
			return err
		}
	}
	if run != "" && done.none() && !known(ctx, dir, run) {
		return exit.Inputf("clean: there is no run %q in %s (gantry ls lists them)", run, dir)
	}
	done.print(c, dir)
	if partly != nil {
		return exit.With(exit.Host, partly)
	}
	return nil
}

// cleanImages removes images that nothing needs.
func (d *cleaning) cleanImages(ctx context.Context) (err error) {
	if d.images, err = docker.RemoveTaskImages(ctx, ""); err != nil {
		if !errors.Is(err, container.ErrUnusable) {
			return err
		}
		d.noEngine = err
	}
	stored, bytes, err := removeStored(ctx)
	d.images, d.freed = append(d.images, stored...), bytes
	return err
}

func (d *cleaning) print(c *cli.Context, dir string) {
	if d.noEngine != nil { // most often there is none, and nothing to clean
		fmt.Fprintf(c.App.ErrWriter, "gantry clean: no images of a Docker Engine are cleaned: %v\n", d.noEngine)
	}
	out := c.App.Writer
	if c.Bool("json") {
		term.PrintJSON(out, map[string]any{"files_of": orEmpty(d.files), "freed_bytes": d.freed,
			"containers": orEmpty(d.Containers), "groups": orEmpty(d.Groups), "held": orEmpty(d.Held),
			"unknown": orEmpty(d.Unknown), "images": orEmpty(d.images)})
		return
	}
	list := func(names []string, format string, more ...any) {
		for _, name := range names {
			fmt.Fprintf(out, format+"\n", append([]any{name}, more...)...)
		}
	}
	list(d.Containers, "removed container %s")
	list(d.Groups, "removed control group %s")
	list(d.files, "deleted files of run %s")
	list(d.images, "removed image %s")
	if len(d.files) > 0 || d.freed > 0 {
		fmt.Fprintf(out, "%s freed\n", term.Size(&d.freed))
	}
	list(d.Held, "left run %s alone: a gantry works on it")
	list(d.Unknown, "left control group %s alone: its run is not in %s", dir)
	if d.none() {
		fmt.Fprintln(out, "nothing to clean")
	}
}

// none reports whether nothing was found.
func (d *cleaning) none() bool {
	return len(d.Containers)+len(d.Groups)+len(d.files)+len(d.images)+len(d.Held)+len(d.Unknown) == 0
}

// errPartly says that something could not be cleaned, as a runtime is not usable here.
var errPartly = errors.New("the rest is cleaned")

// cleanUsable removes what runs left by every runtime that is usable here. One that is not is an error, at the end, if
// a run of the log may have left something by it, or if no other is usable.
func cleanUsable(ctx context.Context, home, run string) (all container.Cleaned, err error) {
	var unusable []error
	usable := false
	for _, name := range runtimeNames(anyRuntime) {
		if row := rowOf(name); row.engine == nil {
			continue
		}
		done, err := cleanRuns(ctx, home, run, []string{name})
		all.Add(done)
		switch {
		case err == nil:
			usable = true
		case !errors.Is(err, container.ErrUnusable):
			return all, err
		case ranOn(ctx, home, run, name):
			unusable = append(unusable, fmt.Errorf("%w: what runs of --runtime %s left, if anything, stays: %w",
				errPartly, name, err))
		}
	}
	steps, err := abandonRuns(ctx, home, run)
	if all.Containers = append(all.Containers, steps...); err != nil {
		unusable = append(unusable, fmt.Errorf("%w: %w", errPartly, err))
	}
	if !usable && len(unusable) == 0 {
		return all, errors.New("clean: no runtime is usable on this host (gantry doctor says why)")
	}
	return all, errors.Join(unusable...)
}

// abandonRuns ends what runs on other hosts of a run that no gantry works on, or of all if run is "".
func abandonRuns(ctx context.Context, home, run string) (ended []string, err error) {
	db, err := sqlite.Open(filepath.Join(home, sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return nil, nil // nothing was run there
	}
	defer db.Close()
	runs, err := db.Runs(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		row, dir := rowOf(r.Runtime), filepath.Join(home, r.Run)
		over := r.State == sqlite.Finished || r.State == sqlite.Failed
		if run != "" && run != r.Run || row == nil || row.abandon == nil || over || held(filepath.Join(dir, "lock")) {
			continue
		}
		names, e := row.abandon(ctx, dir)
		if ended = append(ended, names...); e != nil {
			err = errors.Join(err, fmt.Errorf("job steps of run %s: %w", r.Run, e))
		}
	}
	return ended, err
}

// ranOn reports whether a run of the log, or the one that is named, was on a runtime.
func ranOn(ctx context.Context, home, run, runtime string) bool {
	db, err := sqlite.Open(filepath.Join(home, sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return false // nothing was run there
	}
	defer db.Close()
	runs, err := db.Runs(ctx)
	return err != nil || slices.ContainsFunc(runs, func(r sqlite.Overview) bool {
		return r.Runtime == runtime && (run == "" || r.Run == run)
	})
}

// known reports whether there is something of a run: rows in the log, or its directory.
func known(ctx context.Context, home, run string) bool {
	if _, err := os.Stat(filepath.Join(home, run)); err == nil && run != latestLink {
		return true
	}
	db, err := sqlite.Open(filepath.Join(home, sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return false
	}
	defer db.Close()
	runs, err := db.Runs(ctx)
	return err != nil || slices.ContainsFunc(runs, func(r sqlite.Overview) bool { return r.Run == run })
}

// cleanRuns removes containers and control groups that runtimes left of a run, or of all if run is "".
func cleanRuns(ctx context.Context, home, run string, names []string) (all container.Cleaned, err error) {
	for _, name := range names {
		row := rowOf(name)
		if row == nil || row.engine == nil {
			continue
		}
		e, err := row.engine(ctx, engineWants{dirs: runDirs(home, run)})
		if err != nil {
			return all, err
		}
		done, err := container.Clean(ctx, e, home, run)
		if err != nil {
			return all, err
		}
		all.Add(done)
	}
	return all, nil
}

// runDirs are the directories of a run, or of all if run is "".
func runDirs(home, run string) (dirs []string) {
	if run != "" {
		return []string{filepath.Join(home, run)}
	}
	entries, _ := os.ReadDir(home)
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(home, e.Name()))
		}
	}
	return dirs
}

// cleanFiles deletes files of one run, or of all, that have ended, but for their results; with keep inputs and outputs
// stay. It returns the runs that had any, and how many bytes that freed.
func cleanFiles(ctx context.Context, home, only string, keep bool) (cleaned []string, freed int64, err error) {
	db, err := openToWrite(home)
	if err != nil {
		return nil, 0, err
	}
	defer db.Close()
	runs, err := db.Runs(ctx)
	if err != nil {
		return nil, 0, logError(err)
	}
	for _, r := range runs {
		dir := filepath.Join(home, r.Run)
		if only != "" && r.Run != only || r.State != sqlite.Finished && r.State != sqlite.Failed ||
			held(filepath.Join(dir, "lock")) {
			continue
		}
		before := onDisk(dir)
		names := []string{"work", "control", "partial", "nodes"}
		if keep {
			names = names[:3]
		}
		any := false
		for _, name := range names {
			if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
				continue
			}
			any = true
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return cleaned, freed, exit.Hostf("clean: files of run %s: %w", r.Run, err)
			}
		}
		if any {
			cleaned, freed = append(cleaned, r.Run), freed+max(0, before-onDisk(dir))
		}
	}
	return cleaned, freed, nil
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
