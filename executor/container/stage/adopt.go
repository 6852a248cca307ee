package stage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/trace/shown"
)

// Adopt gives a file or a directory of the content, modes and times of another its place on a node, whole or not at
// all, and one among the results if it is one. An earlier file there goes.
func (s *Area) Adopt(ctx context.Context, w *executor.WorkflowSpec, f *executor.FileSpec, n planner.NodeID,
	from string) error {
	if _, err := localName(f.Name); err != nil {
		return err
	}
	return s.As(w, func() error {
		to := s.Path(n, w, f)
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		like := func(from, to string) error { return share(ctx, from, to) }
		err := s.arriveAll(ctx, w, 1, arrival{at: to, what: "adopt " + shown.Quote(f.Name), logged: true,
			make: func(tmp string, _ *folder) (bool, error) { return true, likeTree(tmp, from, s.OwnerOf(w), like) }})
		if err == nil {
			_, err = s.results(w, f, to, false)
		}
		return err
	})
}

// share makes a file like another: one that shares its blocks where the file system can, else a link, else a copy. All
// can read it.
func share(ctx context.Context, from, to string) error {
	in, st, err := openOwn(from)
	if err != nil {
		return err
	}
	defer in.Close()
	mode := st.Mode().Perm() | 0o444
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if errors.Join(clone(int(out.Fd()), int(in.Fd())), out.Close()) != nil {
		if err := os.Remove(to); err != nil {
			return err
		}
		if mode == st.Mode().Perm() && os.Link(from, to) == nil {
			return nil
		}
		if err := copyWhole(ctx, to, 0, mode, extent{path: from}); err != nil {
			return err
		}
	}
	return os.Chtimes(to, time.Time{}, st.ModTime())
}

// Remove deletes a file or a directory of a workflow from all nodes, with results also from there, and returns how many
// bytes of disk that freed; with a block goes the whole that tasks saw. It is no error if it is not there.
func (s *Area) Remove(w *executor.WorkflowSpec, f *executor.FileSpec, results bool) (freed int64, err error) {
	if _, err := localName(f.Name); err != nil {
		return 0, err
	}
	var paths []string
	if results {
		paths = append(paths, filepath.Join(s.resultsDir(w), filepath.FromSlash(path.Clean(f.Name))))
	}
	for n := range s.nodes {
		at := s.Path(planner.NodeID(n), w, f)
		if f.Glob && results {
			files, _ := Files(at) // if it exists
			for _, name := range files {
				paths = append(paths, filepath.Join(s.resultsDir(w), name))
			}
		}
		paths = append(paths, at)
		if f.Blocks > 0 {
			whole := *f
			whole.Blocks = 0
			paths = append(paths, s.Path(planner.NodeID(n), w, &whole))
		}
	}
	for _, p := range paths {
		e := s.As(w, func() error {
			bytes, err := remove(p)
			freed += bytes
			return err
		})
		err = errors.Join(err, e)
	}
	return freed, err
}

// remove deletes a file or a tree and returns how many bytes on disk had no other name.
func remove(at string) (freed int64, err error) {
	err = filepath.WalkDir(at, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && (sys.Nlink == 1 || d.IsDir()) {
			freed += sys.Blocks * 512
		}
		return nil
	})
	if err == nil {
		err = os.RemoveAll(at)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return freed, err
}
