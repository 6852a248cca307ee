package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"gantry/cmd/internal/exit"
	"gantry/executor/container"
	"gantry/executor/lock"
	"gantry/sqlite"
)

// Cleaning lists the removed remains, and those left alone.
type Cleaning struct {
	container.Cleaned
	Files, Images []string // runs whose files were deleted; removed images
	Freed         int64    // bytes
}

// None reports whether nothing was found.
func (c *Cleaning) None() bool {
	return len(c.Containers)+len(c.Groups)+len(c.Files)+len(c.Images)+len(c.Held)+len(c.Unknown) == 0
}

// CleanMore selects remains that Clean removes besides those of crashes.
type CleanMore struct {
	Images, Files bool
	KeepReuse     bool // of the files those that later runs reuse
}

// Clean removes the remains of crashed runs and calibrations: of one, or of all if run is "". With a Cleaning and an
// error, a part could not be cleaned, and the rest is.
func Clean(ctx context.Context, home, run string, more CleanMore) (*Cleaning, error) {
	for _, r := range Runtimes {
		if r.Enter != nil && (more.Images && HasStore() || ranOn(ctx, home, run, r.Name)) {
			if err := Enter(r.Name); err != nil {
				return nil, err
			}
		}
	}
	c := &Cleaning{}
	shells, err := cleanShells(ctx, home, run)
	if err == nil {
		err = c.trials(ctx, home, run)
	}
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	partly, err := c.leftovers(ctx, home, run)
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	c.Containers = append(c.Containers, shells...)
	if more.Images {
		stored, bytes, err := RemoveStored(ctx)
		if c.Images, c.Freed = stored, c.Freed+bytes; err != nil {
			return nil, exit.With(exit.Host, err)
		}
	}
	if more.Files {
		if err := c.RemoveFiles(ctx, home, run, more.KeepReuse); err != nil {
			return nil, err
		}
	}
	if run != "" && c.None() && !known(ctx, home, run) {
		return nil, exit.Inputf("clean: there is no run %q in %s (gantry ls lists them)", run, home)
	}
	if partly != nil {
		return c, exit.Hostf("the rest is cleaned: %w", partly)
	}
	return c, nil
}

// leftovers removes those of runs by every runtime that is usable here. An unusable one is an error if no other is
// usable; it is one for the end if a run of the log may have used it.
func (c *Cleaning) leftovers(ctx context.Context, home, run string) (partly, err error) {
	usable := false
	for _, name := range RuntimeNames(AnyRuntime) {
		if row := RuntimeNamed(name); row.Engine == nil {
			continue
		}
		ran := ranOn(ctx, home, run, name)
		done, err := CleanRuns(ctx, home, run, []string{name}, ran)
		c.Add(done)
		switch {
		case err == nil:
			usable = true
		case !errors.Is(err, container.ErrUnusable):
			return nil, err
		case ran:
			partly = errors.Join(partly, fmt.Errorf("leftovers of --runtime %s stay, if there are any: %w", name, err))
		}
	}
	steps, err := abandonRuns(ctx, home, run)
	c.Containers = append(c.Containers, steps...)
	if partly = errors.Join(partly, err); !usable && partly == nil {
		return nil, errors.New("clean: no runtime is usable on this host (gantry doctor says why)")
	}
	return partly, nil
}

// logged are the runs of the log below home; none if there is no log.
func logged(ctx context.Context, home string) ([]sqlite.Overview, error) {
	db, err := sqlite.Open(filepath.Join(home, sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return nil, nil // nothing was run there
	}
	defer db.Close()
	return db.Runs(ctx)
}

// abandonRuns ends programs on other hosts of a run that no gantry works on, or of all if run is "".
func abandonRuns(ctx context.Context, home, run string) (ended []string, err error) {
	runs, err := logged(ctx, home)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		row, dir := RuntimeNamed(r.Runtime), filepath.Join(home, r.Run)
		over := r.State == sqlite.Finished || r.State == sqlite.Failed
		if run != "" && run != r.Run || row == nil || row.Abandon == nil || over || lock.OfRun(dir) {
			continue
		}
		names, e := row.Abandon(ctx, dir)
		if ended = append(ended, names...); e != nil {
			err = errors.Join(err, fmt.Errorf("job steps of run %s: %w", r.Run, e))
		}
	}
	return ended, err
}

// trials are the directories of calibrations and of gantry doctor that were killed, by their runtimes: of one, or of
// all if run is "".
func trials(home, run string) map[string]string {
	left := map[string]string{}
	for _, dir := range runDirs(home, run) {
		runtime, err := os.ReadFile(filepath.Join(dir, trialMark))
		if err == nil && !lock.OfRun(dir) {
			left[dir] = string(runtime)
		}
	}
	return left
}

// trials removes the leftovers of calibrations and of gantry doctor that were killed.
func (c *Cleaning) trials(ctx context.Context, home, run string) error {
	for dir, runtime := range trials(home, run) {
		own, err := CleanRuns(ctx, home, filepath.Base(dir), []string{runtime}, true)
		if errors.Is(err, container.ErrUnusable) { // leftovers says so
			continue
		}
		samples, e := CleanRuns(ctx, dir, "", []string{runtime}, true)
		if err = errors.Join(err, e); err != nil {
			return err
		}
		samples.Unknown = nil
		c.Add(own)
		c.Add(samples)
		bytes := OnDisk(dir)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		c.Files, c.Freed = append(c.Files, filepath.Base(dir)), c.Freed+bytes
	}
	return nil
}

// ranOn reports whether a run of the log, or the one that is named, or a trial that was killed, was on a runtime.
func ranOn(ctx context.Context, home, run, runtime string) bool {
	if slices.Contains(slices.Collect(maps.Values(trials(home, run))), runtime) {
		return true
	}
	runs, err := logged(ctx, home)
	return err != nil || slices.ContainsFunc(runs, func(r sqlite.Overview) bool {
		return r.Runtime == runtime && (run == "" || r.Run == run)
	})
}

// known reports whether there is something of a run: rows in the log, or its directory.
func known(ctx context.Context, home, run string) bool {
	if _, err := os.Stat(filepath.Join(home, run)); err == nil && run != LatestLink {
		return true
	}
	runs, err := logged(ctx, home)
	return err != nil || slices.ContainsFunc(runs, func(r sqlite.Overview) bool { return r.Run == run })
}

// CleanRuns removes containers and control groups that runtimes left of a run, or of all if run is ""; with waits also
// of containers that an engine is still making.
func CleanRuns(ctx context.Context, home, run string, names []string, waits bool) (all container.Cleaned, err error) {
	for _, name := range names {
		row := RuntimeNamed(name)
		if row == nil || row.Engine == nil {
			continue
		}
		e, err := row.Engine(ctx, EngineWants{Dirs: runDirs(home, run)})
		if err != nil {
			return all, err
		}
		done, err := container.Clean(ctx, e, home, run, waits)
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

// RemoveFiles deletes files of one run, or of all, that have ended, but for their results; with keep inputs and outputs
// stay.
func (c *Cleaning) RemoveFiles(ctx context.Context, home, only string, keep bool) error {
	db, err := OpenToWrite(home)
	if err != nil {
		return err
	}
	defer db.Close()
	runs, err := db.Runs(ctx)
	if err != nil {
		return LogError(err)
	}
	for _, r := range runs {
		dir := filepath.Join(home, r.Run)
		if only != "" && r.Run != only || r.State != sqlite.Finished && r.State != sqlite.Failed ||
			lock.OfRun(dir) {
			continue
		}
		before := OnDisk(dir)
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
				return exit.Hostf("clean: files of run %s: %w", r.Run, err)
			}
		}
		if any {
			c.Files, c.Freed = append(c.Files, r.Run), c.Freed+max(0, before-OnDisk(dir))
		}
	}
	return nil
}
