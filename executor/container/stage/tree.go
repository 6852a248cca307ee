package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/shown"
)

// An output may be a directory, which its program decides, or a glob, which the trace says. A directory is published
// whole, under its name, by one rename. The files that a glob matches are published as a directory of their own,
// executor.FileSpec.NodePath, which has them under their own paths: so the listing is on the disk, and a glob is
// treated as a directory.

// Path is the place of a file, a directory or the files of a glob on a node.
func (s *Area) Path(n planner.NodeID, w *executor.WorkflowSpec, f *executor.FileSpec) string {
	return filepath.Join(s.NodeDir(n, w), filepath.FromSlash(path.Clean(f.NodePath())))
}

// Files lists the regular files in a directory by their paths below it, in lexical order; of a file it is "." alone.
func Files(at string) (files []string, err error) {
	all, err := entriesOf(at)
	for _, e := range all {
		if !e.Dir && e.Link == "" {
			files = append(files, e.Name)
		}
	}
	return files, err
}

// sizeOf is the size of a file, or of all files in a directory.
func sizeOf(at string) (size unit.Bytes, err error) {
	err = filepath.WalkDir(at, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		st, err := d.Info()
		if err == nil {
			size += unit.Bytes(st.Size())
		}
		return err
	})
	return size, err
}

// entriesOf lists a directory and all in it, parents first; a file is "." alone.
func entriesOf(top string) (all []Entry, err error) {
	err = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		e := Entry{Dir: d.IsDir()}
		if e.Name, err = filepath.Rel(top, p); err == nil && d.Type()&fs.ModeSymlink != 0 {
			e.Link, err = os.Readlink(p)
		}
		all = append(all, e)
		return err
	})
	return all, err
}

// build makes a tree of entries, which then belong to o; file makes the files.
func build(to string, all []Entry, o Owner, file func(name, at string) error) error {
	for _, e := range all {
		at := filepath.Join(to, e.Name)
		var err error
		switch {
		case e.Dir:
			err = os.Mkdir(at, 0o755)
		case e.Link != "":
			err = os.Symlink(e.Link, at)
		default:
			err = file(e.Name, at)
		}
		if err == nil {
			err = o.Takes(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a file, or a directory with all that is in it, at most rate bytes per second if that is not 0. The
// copies belong to o.
func copyTree(ctx context.Context, to, from string, mode fs.FileMode, rate unit.BytesPerSecond, o Owner) error {
	return likeTree(to, from, o, func(from, to string) error {
		return copyWhole(ctx, to, rate, mode, extent{path: from})
	})
}

// Copy copies a file or a directory from outside that u may read. The copies belong to o.
func (u User) Copy(ctx context.Context, to, from string, mode fs.FileMode, o Owner) error {
	var last folder
	defer last.close()
	return cmp.Or(u.copyFrom(ctx, to, extent{path: from, open: u.opener(&last)}, mode, o, &last), o.Takes(to))
}

// copyFrom copies a part of a file, or a directory, whose entries then belong to o.
func (u User) copyFrom(ctx context.Context, to string, from extent, mode fs.FileMode, o Owner, last *folder) error {
	err := copyWhole(ctx, to, 0, mode, from)
	if !errors.Is(err, errDirectory) {
		return err
	}
	var all []Entry
	if u.Do(func() { all, err = entriesBelow(from.path) }); err != nil {
		return fmt.Errorf("%s: %w", from.path, err)
	}
	return build(to, all, o, func(name, at string) error {
		return copyWhole(ctx, at, 0, mode, extent{path: filepath.Join(from.path, name), open: u.opener(last)})
	})
}

// linkTree makes a file, or a directory with all that is in it, appear at a second place.
func (s *Area) linkTree(w *executor.WorkflowSpec, from, to string) error {
	return likeTree(to, from, s.OwnerOf(w), os.Link)
}

// likeTree makes a file, or a directory with all that is in it, after another one; file makes the files. They then
// belong to o.
func likeTree(to, from string, o Owner, file func(from, to string) error) error {
	all, err := entriesOf(from)
	if err != nil {
		return err
	}
	return build(to, all, o, func(name, at string) error { return file(filepath.Join(from, name), at) })
}

// fewSyncs is how many files are made durable by a call each. More take one for their whole file system: that also
// writes files of others there, and still takes less time.
const fewSyncs = 8

// settle makes files, and directories with all that is in them, durable.
func settle(trees ...string) error {
	var files []string
	for _, at := range trees {
		err := filepath.WalkDir(at, func(p string, d fs.DirEntry, err error) error {
			if err == nil && (d.IsDir() || d.Type().IsRegular()) {
				if files = append(files, p); len(files) > fewSyncs {
					return fs.SkipAll
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		if len(files) > fewSyncs {
			break
		}
	}
	return settleEach(files)
}

// settleEach makes files and directories durable, but not the files in these directories.
func settleEach(files []string) error {
	if len(files) > fewSyncs {
		return flush(files[0], syncAll)
	}
	for _, at := range files {
		if err := flush(at, (*os.File).Sync); err != nil {
			return err
		}
	}
	return nil
}

// flush calls one of the ways to make a file durable.
func flush(at string, way func(*os.File) error) error {
	f, _, err := openOwn(at)
	if err != nil {
		return err
	}
	return errors.Join(way(f), f.Close())
}

// keepLink checks a link of the directory at name. It has to lead to a place in that; an absolute one becomes relative,
// as the directory is to move.
func (p *publication) keepLink(root *os.Root, name, at string) error {
	top, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer top.Close()
	dir := filepath.Join(p.dir, name)
	if at, err = filepath.Rel(name, at); err != nil {
		return err
	}
	if _, err := Follow(top, dir, at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := top.Readlink(at)
	if err != nil {
		return err
	}
	if inside := Relative(dir, at, text); inside != text {
		if err := errors.Join(top.Remove(at), top.Symlink(inside, at)); err != nil {
			return err
		}
	}
	if owner := p.OwnerOf(p.t.Workflow); owner != p.UserOf(p.t.Workflow) {
		return top.Lchown(at, owner.UID, owner.GID)
	}
	return nil
}

// collect checks the files that a glob matched in the work directory, and links them into the directory that is to be
// published. It skips files that the attempt reads.
func (p *publication) collect(root *os.Root, f *executor.FileSpec, skip map[string]bool) (why string, err error) {
	found, err := glob(root, f.Name, skip)
	if errors.Is(err, ErrTooMany) {
		return "is in a directory with " + err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "matches no file", nil
	}
	to := filepath.Join(p.dir, filepath.FromSlash(f.NodePath()))
	for _, name := range found {
		from, why := p.find(root, name)
		if why != "" {
			return shown.Quote(name) + " " + why, nil
		}
		at := filepath.Join(to, name)
		if err := mkdirs(p.dir, filepath.Dir(at), p.OwnerOf(p.t.Workflow)); err != nil {
			return "", err
		}
		if err := p.linkTree(p.t.Workflow, from, at); err != nil {
			return "", err
		}
	}
	return "", nil
}

// glob lists the files that a pattern matches, and those in the directories that it matches. As in a shell, * and ?
// match no slash and no dot that a name begins with; ** matches any directories.
func glob(root *os.Root, pattern string, skip map[string]bool) (found []string, err error) {
	taken := "" // a directory that was matched, with a slash
	err = walk(root, ".", MostFiles, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || p == ".":
			return err
		case trace.ReservedName(p):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case taken != "" && strings.HasPrefix(p, taken) || trace.Matches(pattern, p):
			if d.IsDir() {
				if taken == "" || !strings.HasPrefix(p, taken) {
					taken = p + "/"
				}
			} else if !skip[p] {
				found = append(found, filepath.FromSlash(p))
			}
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}
