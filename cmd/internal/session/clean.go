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
	"gantry/sqlite"
)

// ErrPartly says that something could not be cleaned, as a runtime is not usable here.
var ErrPartly = errors.New("the rest is cleaned")

// CleanUsable removes the leftovers of runs by every runtime that is usable here. An unusable one is an error, at the
// end, if a run of the log may have used it, or if no other is usable.
func CleanUsable(ctx context.Context, home, run string) (all container.Cleaned, err error) {
	var unusable []error
	usable := false
	for _, name := range RuntimeNames(AnyRuntime) {
		if row := RuntimeNamed(name); row.Engine == nil {
			continue
		}
		ran := RanOn(ctx, home, run, name)
		done, err := cleanRuns(ctx, home, run, []string{name}, ran)
		all.Add(done)
		switch {
		case err == nil:
			usable = true
		case !errors.Is(err, container.ErrUnusable):
			return all, err
		case ran:
			unusable = append(unusable, fmt.Errorf("%w: leftovers of --runtime %s stay, if there are any: %w",
				ErrPartly, name, err))
		}
	}
	steps, err := abandonRuns(ctx, home, run)
	if all.Containers = append(all.Containers, steps...); err != nil {
		unusable = append(unusable, fmt.Errorf("%w: %w", ErrPartly, err))
	}
	if !usable && len(unusable) == 0 {
		return all, errors.New("clean: no runtime is usable on this host (gantry doctor says why)")
	}
	return all, errors.Join(unusable...)
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
		if run != "" && run != r.Run || row == nil || row.Abandon == nil || over || Held(filepath.Join(dir, "lock")) {
			continue
		}
		names, e := row.Abandon(ctx, dir)
		if ended = append(ended, names...); e != nil {
			err = errors.Join(err, fmt.Errorf("job steps of run %s: %w", r.Run, e))
		}
	}
	return ended, err
}

// calibrations are the directories of calibrations that were killed, by their runtimes: of one, or of all if run is "".
func calibrations(home, run string) map[string]string {
	left := map[string]string{}
	for _, dir := range runDirs(home, run) {
		runtime, err := os.ReadFile(filepath.Join(dir, calibrationMark))
		if err == nil && !Held(filepath.Join(dir, "lock")) {
			left[dir] = string(runtime)
		}
	}
	return left
}

// CleanCalibrations removes the leftovers of calibrations that were killed, of one or, if run is "", of all. It returns
// their names, and how many bytes that freed.
func CleanCalibrations(ctx context.Context, home, run string) (all container.Cleaned, names []string, freed int64,
	err error) {
	for dir, runtime := range calibrations(home, run) {
		own, err := CleanRuns(ctx, home, filepath.Base(dir), []string{runtime})
		if errors.Is(err, container.ErrUnusable) { // CleanUsable says so
			continue
		}
		samples, e := CleanRuns(ctx, dir, "", []string{runtime})
		if err = errors.Join(err, e); err != nil {
			return all, names, freed, err
		}
		samples.Unknown = nil
		all.Add(own)
		all.Add(samples)
		bytes := OnDisk(dir)
		if err := os.RemoveAll(dir); err != nil {
			return all, names, freed, err
		}
		names, freed = append(names, filepath.Base(dir)), freed+bytes
	}
	return all, names, freed, nil
}

// RanOn reports whether a run of the log, or the one that is named, or a calibration that was killed, was on a runtime.
func RanOn(ctx context.Context, home, run, runtime string) bool {
	if slices.Contains(slices.Collect(maps.Values(calibrations(home, run))), runtime) {
		return true
	}
	runs, err := logged(ctx, home)
	return err != nil || slices.ContainsFunc(runs, func(r sqlite.Overview) bool {
		return r.Runtime == runtime && (run == "" || r.Run == run)
	})
}

// Known reports whether there is something of a run: rows in the log, or its directory.
func Known(ctx context.Context, home, run string) bool {
	if _, err := os.Stat(filepath.Join(home, run)); err == nil && run != LatestLink {
		return true
	}
	runs, err := logged(ctx, home)
	return err != nil || slices.ContainsFunc(runs, func(r sqlite.Overview) bool { return r.Run == run })
}

// CleanRuns removes containers and control groups that runtimes left of a run, or of all if run is "".
func CleanRuns(ctx context.Context, home, run string, names []string) (container.Cleaned, error) {
	return cleanRuns(ctx, home, run, names, true)
}

// cleanRuns is CleanRuns; with waits also of containers that an engine is still making.
func cleanRuns(ctx context.Context, home, run string, names []string, waits bool) (all container.Cleaned, err error) {
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

// CleanFiles deletes files of one run, or of all, that have ended, but for their results; with keep inputs and outputs
// stay. It returns the runs that had any, and how many bytes that freed.
func CleanFiles(ctx context.Context, home, only string, keep bool) (cleaned []string, freed int64, err error) {
	db, err := OpenToWrite(home)
	if err != nil {
		return nil, 0, err
	}
	defer db.Close()
	runs, err := db.Runs(ctx)
	if err != nil {
		return nil, 0, LogError(err)
	}
	for _, r := range runs {
		dir := filepath.Join(home, r.Run)
		if only != "" && r.Run != only || r.State != sqlite.Finished && r.State != sqlite.Failed ||
			Held(filepath.Join(dir, "lock")) {
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
				return cleaned, freed, exit.Hostf("clean: files of run %s: %w", r.Run, err)
			}
		}
		if any {
			cleaned, freed = append(cleaned, r.Run), freed+max(0, before-OnDisk(dir))
		}
	}
	return cleaned, freed, nil
}
