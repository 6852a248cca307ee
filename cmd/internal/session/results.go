package session

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/evidence"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/trace/shown"
)

// promised are the patterns of results of a run, and the messages of tasks that left nothing for some of them.
type promised struct {
	flows map[string]*executor.WorkflowSpec
	said  []string
}

func (p *promised) watch(events []planner.Event, admitted []*executor.Admission) {
	for _, adm := range admitted {
		runs := func(t *executor.TaskSpec) bool { return !t.Emulated() }
		if len(adm.Spec.Results) > 0 && slices.ContainsFunc(adm.Tasks, runs) {
			if p.flows == nil {
				p.flows = map[string]*executor.WorkflowSpec{}
			}
			p.flows[adm.Spec.Name] = adm.Spec
		}
	}
	for i := range events {
		x, over := events[i].Body.(*planner.AttemptExited)
		if over && len(p.flows) > 0 && strings.Contains(x.Message, evidence.NoResult) {
			p.said = append(p.said, x.Message)
		}
	}
}

// missing names the patterns that match no result, unless a task is named for that.
func (p *promised) missing(runDir string) (all []string) {
	for _, flow := range slices.Sorted(maps.Keys(p.flows)) {
		files, _ := stage.Files(filepath.Join(runDir, "results", executor.EscapeName(flow))) // if there are any
		for _, pattern := range p.flows[flow].Results {
			is, name := executor.WorkflowSpec{Results: []string{pattern}}, shown.Quote(pattern)
			told := func(said string) bool { return strings.Contains(said, name) }
			if !slices.ContainsFunc(files, is.IsResult) && !slices.ContainsFunc(p.said, told) {
				all = append(all, fmt.Sprintf("no file of workflow %s is a result by the pattern %s: its tasks "+
					"wrote none that matches", flow, name))
			}
		}
	}
	return all
}

// LatestLink is the name of a link to the directory of the newest run.
const LatestLink = "latest"

// MakeResultsDir makes the directory of --results-dir, before anything runs, and tries to write to it. Home is the
// directory of all runs.
func MakeResultsDir(home, dir string) (err error) {
	if dir == "" {
		return nil
	}
	if rel, err := filepath.Rel(home, dir); err == nil && filepath.IsLocal(rel) {
		return exit.Usagef("--results-dir %s: it is in the directory of all runs (--dir): choose another", dir)
	}
	stage.Caller().Rights().Do(func() {
		var f *os.File
		if err = os.MkdirAll(dir, 0o755); err != nil {
			return
		}
		if f, err = os.CreateTemp(dir, ".gantry-"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	})
	if err != nil {
		return exit.Hostf("--results-dir: %w", err)
	}
	return nil
}

// placeResults copies the results of the run to the directory of --results-dir, with the rights of the calling user.
func placeResults(runDir, dir string, several bool, view *term.Progress) error {
	if dir == "" {
		return nil
	}
	from := filepath.Join(runDir, "results")
	flows, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("--results-dir: %w", err)
	}
	for _, f := range flows {
		to := dir
		if several {
			to = filepath.Join(dir, f.Name())
		}
		if err := PlaceResults(filepath.Join(from, f.Name()), to); err != nil {
			return err
		}
	}
	view.Note("results are in %s", term.ShortPath(dir))
	return nil
}

// PlaceResults copies the results of a workflow to a directory, with the rights of the calling user.
func PlaceResults(from, to string) (err error) {
	stage.Caller().Rights().Do(func() { err = copyResults(from, to) })
	if err != nil {
		return fmt.Errorf("--results-dir: %w; the results are in %s", err, from)
	}
	return nil
}

// copyResults copies all files of a directory to another one, out of which no link leads. Files that are there are
// replaced, each at once.
func copyResults(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == from {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			err = root.MkdirAll(name, 0o755)
		} else {
			err = copyResult(root, path, name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(to, name), err)
		}
		return nil
	})
}

// copyResult copies a file or a link, unless the same one is there already.
func copyResult(root *os.Root, from, name string) error {
	st, err := os.Lstat(from)
	if err != nil {
		return err
	}
	link := st.Mode().Type() == fs.ModeSymlink
	switch was, err := root.Lstat(name); {
	case err != nil:
	case was.IsDir():
		return errors.New("a directory is in the place of a result: move it away")
	case !link && was.Mode().IsRegular() && was.Size() == st.Size() && was.ModTime().Equal(st.ModTime()):
		return nil
	}
	tmp := filepath.Join(filepath.Dir(name), ".gantry-"+rand.Text())
	if link {
		var target string
		if target, err = os.Readlink(from); err == nil {
			err = root.Symlink(target, tmp)
		}
	} else {
		err = copyTo(root, from, tmp, st)
	}
	if err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		_ = root.Remove(tmp)
	}
	return err
}

// copyTo copies a regular file with its mode and time. Where the file system can, both share their blocks.
func copyTo(root *os.Root, from, to string, st fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, st.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), root.Chtimes(to, st.ModTime(), st.ModTime()))
}

// linkLatest has a link in the directory of runs lead to this one.
func linkLatest(home, run string, view *term.Progress) {
	tmp := filepath.Join(home, "."+LatestLink+"-"+strings.ToLower(rand.Text()))
	err := os.Symlink(run, tmp)
	if err == nil {
		GiveToCaller(tmp)
		err = os.Rename(tmp, filepath.Join(home, LatestLink))
	}
	if err != nil {
		_ = os.Remove(tmp)
		view.Warn("the link to the newest run is not made: %v", err)
	}
}

// UnlinkLatest removes the link to the newest run if it leads to a run that is removed.
func UnlinkLatest(home, run string) {
	link := filepath.Join(home, LatestLink)
	if to, err := os.Readlink(link); err == nil && to == run {
		_ = os.Remove(link)
	}
}
