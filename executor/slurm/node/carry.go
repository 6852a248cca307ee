package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gantry/executor/container"
	"gantry/executor/control"
)

// A node that does not see the run directory has one of its own at the same path, to which files are brought before a
// container begins, and from which they are fetched once it has ended.

// Brought is where the archive of a container's files arrives on a node.
func Brought(runDir, id string) string {
	return filepath.Join(runDir, "control", "slurm", "in", id+".tar")
}

// Mine makes the run directory of a node that has its own. A directory in which a gantry works is no such one.
func Mine(runDir string) error {
	if _, err := os.Lstat(filepath.Join(runDir, "lock")); err == nil {
		return fmt.Errorf("this node sees %s, which it did not before", runDir)
	}
	return os.MkdirAll(filepath.Dir(Brought(runDir, "")), 0o755)
}

// receive waits until the files of a container were brought, and unpacks them.
func (s *step) receive(id string) error {
	if err := Mine(s.RunDir); err != nil {
		return err
	}
	s.say("ready %s %s", id, os.Getenv("SLURM_STEP_ID"))
	select {
	case got := <-s.brought:
		if got != id {
			return fmt.Errorf("files of container %.12s came, not those of %.12s", got, id)
		}
	case <-s.alone:
		return errors.New("gantry ended before it had brought the files")
	}
	path := Brought(s.RunDir, id)
	defer os.Remove(path)
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = Unpack(bufio.NewReaderSize(in, 1<<20), s.RunDir, false)
	if err != nil {
		return fmt.Errorf("files that were brought: %w", err)
	}
	return nil
}

// PackLaunch packs what a node needs for a container: its description, work directory and control directory, and the
// files below the run directory to which links in the work directory lead.
func PackLaunch(p *Packer, runDir, id string, l *Launch) error {
	paths := []string{string(DirOf(runDir, id)), l.Spec.Dir, l.Spec.Labels[container.LabelControl]}
	for _, m := range l.Spec.Mounts { // directories of inputs
		if strings.HasPrefix(m.Source, filepath.Join(runDir, "nodes")+"/") {
			if err := p.above(filepath.Join(m.Source, ".")); err != nil {
				return err
			}
			if err := p.one(m.Source); err != nil {
				return err
			}
		}
	}
	err := filepath.WalkDir(l.Spec.Dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink == 0 {
			return err
		}
		to, err := os.Readlink(at)
		if err == nil && strings.HasPrefix(to, filepath.Join(runDir, "nodes")+"/") {
			err = p.Add(to)
		}
		return err
	})
	for _, path := range paths {
		if err == nil {
			err = p.Add(path)
		}
	}
	return err
}

// Send packs what there is of a container on this node: if it has ended, or whole, all that it left, the result last;
// else that it began. With giveUp a program that has not begun never will. Once got reads a line, what was sent is
// deleted if it is all.
func Send(out *bufio.Writer, got io.Reader, runDir, id string, giveUp, whole bool) error {
	p := NewPacker(out, runDir)
	dir := DirOf(runDir, id)
	l, err := dir.Launch()
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(p.Close(), out.Flush())
	}
	if err != nil {
		return err
	}
	ctl := control.Dir(l.Spec.Labels[container.LabelControl])
	r, err := dir.Result()
	if err != nil {
		return err
	}
	began, err := dir.Began()
	if err != nil {
		return err
	}
	if giveUp && r == nil && began == nil {
		err := ctl.Claim(control.Gantry, time.Now())
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for begun := time.Now(); err != nil && began == nil && time.Since(begun) < 10*time.Second; {
			time.Sleep(20 * time.Millisecond) // its step is about to note it
			if began, err = dir.Began(); err == nil {
				err = fs.ErrExist
			}
		}
	}
	entries, err := os.ReadDir(string(ctl))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if !slices.Contains([]string{"asked", "publishing", "tmp"}, e.Name()) { // gantry's, and what nobody needs
			if err := p.Add(filepath.Join(string(ctl), e.Name())); err != nil {
				return err
			}
		}
	}
	over := r != nil || whole
	if over {
		if err := p.Add(l.Spec.Dir); err != nil {
			return err
		}
	}
	for _, name := range []string{"began.json", "result.json"} {
		if err := p.Add(dir.path(name)); err != nil {
			return err
		}
	}
	if err := errors.Join(p.Close(), out.Flush()); err != nil || !over {
		return err
	}
	if line, _ := bufio.NewReader(got).ReadString('\n'); line != "got\n" {
		return nil
	}
	return errors.Join(os.RemoveAll(l.Spec.Dir), os.RemoveAll(string(ctl)), os.RemoveAll(string(dir)))
}

// Give has the step that runs a container carry out an order, and returns what came of it.
func Give(runDir, id, verb string, patience time.Duration) (outcome string, err error) {
	dir := DirOf(runDir, id)
	orders, err := dir.Orders()
	if err != nil {
		return "", err
	}
	n := 1
	for _, o := range orders {
		n = max(n, o.N+1)
	}
	if err := dir.Order(n, verb); err != nil {
		return "", err
	}
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(20 * time.Millisecond) {
		acks, err := dir.Acks()
		if err != nil {
			return "", err
		}
		for _, a := range acks {
			if a.N == n {
				return a.Text, nil
			}
		}
		if r, err := dir.Result(); err != nil || r != nil {
			return "it does not run", err
		}
	}
	return "", errors.New("its job step does not answer")
}

// Forget deletes what this node has of a run whose directory is its own, and the directory of the programs.
func Forget(runDir, programs string) error {
	if err := Mine(runDir); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(runDir), os.RemoveAll(programs))
}
