package stage

import (
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
)

// An output may be a directory, which its program decides, or a glob, which the trace says. A directory is published
// whole, under its name, by one rename. The files that a glob matches are published as a directory of their own,
// executor.FileSpec.NodePath, which has them under their own paths: so the listing is on the disk, and whatever holds
// for a directory holds for a glob.

// Path is where a file, a directory or what a glob matched lies on a node.
func (s *Area) Path(n planner.NodeID, w *executor.WorkflowSpec, f *executor.FileSpec) string {
	return filepath.Join(s.NodeDir(n, w), filepath.FromSlash(path.Clean(f.NodePath())))
}

// Files lists the regular files in a directory by their paths below it, in lexical order; of a file it is "." alone.
func Files(at string) (files []string, err error) {
	err = filepath.WalkDir(at, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			p, err = filepath.Rel(at, p)
			files = append(files, p)
		}
		return err
	})
	return files, err
}

// sizeOf is the size of a file, or of all files in a directory.
func sizeOf(at string) (size unit.Bytes, err error) {
	st, err := os.Lstat(at)
	if err != nil || !st.IsDir() {
		if err == nil {
			size = unit.Bytes(st.Size())
		}
		return size, err
	}
	files, err := Files(at)
	for _, f := range files {
		st, e := os.Lstat(filepath.Join(at, f))
		if e != nil {
			return 0, e
		}
		size += unit.Bytes(st.Size())
	}
	return size, err
}

// walkTree calls make for each directory and each file of a directory, directories first.
func walkTree(from string, make func(name string, dir bool) error) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			p, err = filepath.Rel(from, p)
		}
		if err != nil {
			return err
		}
		return make(p, d.IsDir())
	})
}

// copyTree copies a file, or a directory with all that is in it, durably, at most rate bytes per second if that is not
// 0. What it makes belongs to o.
func copyTree(ctx context.Context, to, from string, mode fs.FileMode, rate unit.BytesPerSecond, o Owner) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		if err := copyWhole(ctx, to, rate, mode, extent{path: from}); err != nil {
			return err
		}
		return o.takes(to)
	}
	err = walkTree(from, func(name string, dir bool) error {
		at := filepath.Join(to, name)
		if dir {
			if err := os.Mkdir(at, 0o755); err != nil {
				return err
			}
		} else if err := copyWhole(ctx, at, rate, 0o644, extent{path: filepath.Join(from, name)}); err != nil {
			return err
		}
		return o.takes(at)
	})
	return errors.Join(err, syncTree(to))
}

// copyOutside copies a directory from outside, with the rights of its workflow.
func (s *Area) copyOutside(ctx context.Context, w *executor.WorkflowSpec, to, from string) error {
	user, owner := s.rights(w, s.Owner), s.OwnerOf(w)
	_, entries, err := user.Tree(from)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	for _, e := range entries {
		at := filepath.Join(to, e.Name)
		if e.Dir {
			err = os.Mkdir(at, 0o755)
		} else {
			err = copyWhole(ctx, at, 0, 0o644, extent{path: filepath.Join(from, e.Name), open: user.Open})
		}
		if err == nil {
			err = owner.takes(at)
		}
		if err != nil {
			return err
		}
	}
	return syncTree(to)
}

// linkTree makes a file, or a directory with all that is in it, appear at a second place.
func (s *Area) linkTree(w *executor.WorkflowSpec, from, to string) error {
	if st, err := os.Lstat(from); err != nil || !st.IsDir() {
		return errors.Join(err, os.Link(from, to))
	}
	return walkTree(from, func(name string, dir bool) error {
		at := filepath.Join(to, name)
		if !dir {
			return os.Link(filepath.Join(from, name), at)
		}
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		return s.OwnerOf(w).takes(at)
	})
}

// syncTree makes the entries of a directory, and of those in it, durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = syncDir(p)
		}
		return err
	})
}

// checkTree is checkOutput of a directory and of all that is in it.
func (s *Area) checkTree(w *executor.WorkflowSpec, root *os.Root, name string) (why string) {
	owner, user := s.OwnerOf(w), s.UserOf(w)
	err := fs.WalkDir(root.FS(), filepath.ToSlash(name), func(p string, d fs.DirEntry, err error) error {
		p = filepath.FromSlash(p)
		switch {
		case err != nil:
			return err
		case d.Type().IsRegular():
			if why := s.checkOutput(w, root, p); why != "" {
				return fmt.Errorf("%s %s", p, why)
			}
			return nil
		case !d.IsDir():
			return fmt.Errorf("%s is %s", p, describe(d.Type()))
		}
		if owner != user {
			if err := root.Lchown(p, owner.UID, owner.GID); err != nil {
				return err
			}
		}
		return root.Chmod(p, 0o755)
	})
	if err != nil {
		return "has what cannot be published: " + err.Error()
	}
	return ""
}

// collect checks what a glob matched in the work directory, and links it into the directory that is to be published. It
// skips what the attempt reads.
func (p *publication) collect(root *os.Root, f *executor.FileSpec, skip map[string]bool) (why string, err error) {
	found, err := glob(root, f.Name, skip)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "matches no file", nil
	}
	to := filepath.Join(p.dir, filepath.FromSlash(f.NodePath()))
	for _, name := range found {
		if why := p.checkOutput(p.t.Workflow, root, name); why != "" {
			return name + " " + why, nil
		}
		at := filepath.Join(to, name)
		if err := mkdirs(p.dir, filepath.Dir(at), p.OwnerOf(p.t.Workflow)); err != nil {
			return "", err
		}
		if err := os.Link(filepath.Join(p.dir, name), at); err != nil {
			return "", err
		}
	}
	return "", syncTree(to)
}

// glob lists the files that a pattern matches, and those in the directories that it matches. As in a shell, * and ?
// match no slash and no dot that a name begins with; ** matches any directories.
func glob(root *os.Root, pattern string, skip map[string]bool) (found []string, err error) {
	want := strings.Split(path.Clean(pattern), "/")
	taken := "" // a directory that was matched, with a slash
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || p == ".":
			return err
		case trace.ReservedName(p):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case taken != "" && strings.HasPrefix(p, taken) || matches(want, strings.Split(p, "/")):
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

func matches(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		for i := range len(name) + 1 {
			if matches(pattern[1:], name[i:]) {
				return true
			}
			if i < len(name) && strings.HasPrefix(name[i], ".") {
				return false
			}
		}
		return false
	case len(name) == 0 || strings.HasPrefix(name[0], ".") && !strings.HasPrefix(pattern[0], "."):
		return false
	}
	ok, err := path.Match(pattern[0], name[0])
	return err == nil && (ok || pattern[0] == name[0]) && matches(pattern[1:], name[1:])
}
