package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gantry/executor"
	"gantry/executor/container/control"
	"gantry/trace/shown"
)

// A workflow may be another user's than gantry's (executor.WorkflowSpec.By). That user owns the directories of the
// workflow on the host, too, and may change them at any moment. So gantry does everything in them with the rights of
// that user: a link that is put in the place of a directory leads nowhere that the user could not go. The directories
// themselves lie in ones of root's, and nobody else can replace them:
//
//	work/<workflow>                 root's, the user's group may pass; nobody may list it
//	work/<workflow>/<task>-<try>    the user's, and nobody else's: no mount of a container is swapped
//	nodes/<node>/<workflow>, results/<workflow>, partial/<workflow>   the user's, and nobody else's

// UserOf is the user that runs the programs of a workflow.
func (s *Area) UserOf(w *executor.WorkflowSpec) Owner {
	if w.By != nil {
		return Owner{w.By.UID, w.By.GID}
	}
	return s.User
}

// OwnerOf is the owner of the files of a workflow.
func (s *Area) OwnerOf(w *executor.WorkflowSpec) Owner {
	if w.By != nil {
		return Owner{w.By.UID, w.By.GID}
	}
	return s.Owner
}

// rights are those of the user of a workflow; without one those of o.
func (s *Area) rights(w *executor.WorkflowSpec, o Owner) User {
	if w.By != nil {
		return User(*w.By)
	}
	return o.Rights()
}

// As calls f, which does something in the directories of a workflow, with the rights of its user if it has one of its
// own: files that f makes belong to that user. Goroutines that f starts have gantry's rights, unless they call As, too.
func (s *Area) As(w *executor.WorkflowSpec, f func() error) error {
	if w.By == nil {
		return f()
	}
	err := s.makeOwn(w)
	if err == nil {
		User(*w.By).Do(func() { err = f() })
	}
	return err
}

// asSelf calls f with gantry's own rights, within As.
func asSelf(f func() error) error {
	done := make(chan error)
	go func() { done <- f() }()
	return <-done
}

// makeOwn makes the directories of a workflow that has a user of its own.
func (s *Area) makeOwn(w *executor.WorkflowSpec) error {
	if w.By == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own[w.Name] {
		return nil
	}
	if s.own == nil {
		if err := s.hideNames(); err != nil {
			return err
		}
		s.own = map[string]bool{}
	}
	make := func(dir string, mode fs.FileMode, o Owner) error {
		switch err := os.Mkdir(dir, 0o700); {
		case errors.Is(err, fs.ErrExist): // of the same run before, which may have ended before it gave it away
			var was unix.Stat_t
			if err := unix.Lstat(dir, &was); err != nil {
				return fmt.Errorf("directory %s: %w", dir, err)
			}
			if was.Mode&unix.S_IFMT != unix.S_IFDIR || int(was.Uid) != o.UID && int(was.Uid) != os.Geteuid() {
				return fmt.Errorf("%s is not a directory of user %d: rename it, then resume the run", dir, o.UID)
			}
		case err != nil:
			return err
		}
		// In this order: the directory is never another user's with more rights than its own.
		return errors.Join(os.Lchown(dir, o.UID, o.GID), os.Chmod(dir, mode))
	}
	user := s.UserOf(w)
	err := make(filepath.Join(s.dir, "work", executor.EscapeName(w.Name)), 0o710, Owner{0, user.GID})
	dirs := []string{s.resultsDir(w), s.partialOf(w)}
	for _, node := range s.nodes {
		dirs = append(dirs, filepath.Join(node, executor.EscapeName(w.Name)))
	}
	for _, dir := range dirs {
		err = errors.Join(err, make(dir, 0o700, user))
	}
	if err != nil {
		return err
	}
	s.own[w.Name] = true
	return nil
}

// hideNames lets other users pass the directories of the run, and not list them: they would see names of workflows.
func (s *Area) hideNames() (err error) {
	dirs := []string{s.dir}
	for _, name := range []string{"work", "results", "partial", "nodes"} {
		dirs = append(dirs, filepath.Join(s.dir, name))
	}
	for _, dir := range append(dirs, s.nodes...) {
		err = errors.Join(err, os.Chmod(dir, 0o711))
	}
	return err
}

// partialOf is where files of a workflow lie that are not complete.
func (s *Area) partialOf(w *executor.WorkflowSpec) string {
	dir := filepath.Join(s.dir, "partial")
	if w.By == nil {
		return dir
	}
	return filepath.Join(dir, executor.EscapeName(w.Name))
}

// openOwn opens a file in the directories of a run. Its user may have put a link there, which is followed with the
// rights of that user, but never to an open file of this process.
func openOwn(path string) (*os.File, fs.FileInfo, error) {
	return described(Real(path, unix.O_RDONLY|unix.O_NONBLOCK))
}

// Mounted checks that programs of a workflow may see a file or a directory of the host, and returns its ID.
func (s *Area) Mounted(w *executor.WorkflowSpec, m executor.Mount) (control.ID, error) {
	switch {
	case m.InPlace:
		return s.rights(w, s.User).Directory(m.From, m.Writable)
	case w.By != nil:
		return s.rights(w, s.User).Visible(m.From)
	}
	id, at, err := Caller().Rights().visible(m.From)
	if err != nil {
		return id, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.leads[m.From]; known && was != at {
		return id, fmt.Errorf("it leads to %s now, and to %s at first: begin the run or the server again if that is "+
			"meant", shown.Quote(at), shown.Quote(was))
	}
	if s.leads == nil {
		s.leads = map[string]string{}
	}
	s.leads[m.From] = at
	return id, nil
}
