package slurm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gantry/executor/container"
	"gantry/executor/slurm/allocation"
	"gantry/executor/slurm/node"
)

// carried reports whether the node of a container has a run directory of its own: Slurm's sbcast brings files there,
// and job steps fetch them.
func (e *Engine) carried(j *job) bool {
	return j.node >= 0 && j.node < len(e.cfg.Carried) && e.cfg.Carried[j.node] != ""
}

// program is gantry-task on a node.
func (e *Engine) program(at int) string {
	if at >= 0 && at < len(e.cfg.Carried) && e.cfg.Carried[at] != "" {
		return e.cfg.Carried[at]
	}
	return e.cfg.Program
}

// identity says which file there is at a path.
type identity struct {
	inode    uint64
	size     int64
	modified time.Time
}

func identify(st fs.FileInfo) identity {
	id := identity{size: st.Size(), modified: st.ModTime()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		id.inode = sys.Ino
	}
	return id
}

// bring brings the files of a container to its step, which waits for them. Files of the node that it got before stay.
func (e *Engine) bring(s *step, j *job, number string) {
	defer e.work.Done()
	sent := map[string]identity{}
	err := e.pack(s, j, number, sent)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		maps.Copy(e.sent[j.node], sent)
		_, err = fmt.Fprintf(s.run.Stdin(), "brought %s\n", j.id)
	}
	if err != nil {
		s.err = fmt.Errorf("bring files to node %s: %w", j.launch.Node, err)
		s.run.Stdin().Close() // the step ends
	}
}

// pack packs these files and brings them.
func (e *Engine) pack(s *step, j *job, number string, sent map[string]identity) error {
	path := filepath.Join(filepath.Dir(node.Top(e.cfg.RunDir)), "out", s.name+".tar")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	defer os.Remove(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	files := filepath.Join(e.cfg.RunDir, "nodes") + "/"
	out := bufio.NewWriterSize(f, 1<<20)
	p := node.NewPacker(out, e.cfg.RunDir)
	p.Skip = func(path string, st fs.FileInfo) bool {
		if !strings.HasPrefix(path, files) {
			return false
		}
		id := identify(st)
		sent[path] = id
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.sent[j.node][path] == id
	}
	if err = node.PackLaunch(p, e.cfg.RunDir, j.id, j.launch); err == nil {
		err = p.Close()
	}
	if err = errors.Join(err, out.Flush(), f.Close()); err != nil {
		return err
	}
	return e.cfg.Allocation.Broadcast(e.ctx, number, path, node.Brought(e.cfg.RunDir, j.id))
}

// fetch fetches what a container left on a node that has a run directory of its own, and tries for a while. A node that
// Slurm has lost cannot be asked.
func (e *Engine) fetch(ctx context.Context, j *job, options ...string) (err error) {
	begun := time.Now()
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 8*time.Second) {
		if _, why := e.state(e.cfg.Allocation.Nodes(), j.node, j.launch.Node); why != "" {
			return errors.New(why)
		}
		if err = e.fetchOnce(ctx, j, options); err == nil || ctx.Err() != nil || e.ended() {
			return err
		}
		if time.Since(begun) > clearTime {
			return err
		}
		select {
		case <-j.ended: // the node is lost
			return err
		case <-e.ctx.Done():
			return e.ctx.Err()
		case <-time.After(wait):
		}
	}
}

// remote is a job step that runs gantry-task beside a container.
func (e *Engine) remote(ctx context.Context, j *job, name string, options ...string) (*allocation.Running, error) {
	spec := allocation.StepSpec{Node: j.launch.Node, Name: name, Dir: "/",
		Argv: append(append([]string{e.program(j.node), "slurm-node"}, options...), e.cfg.RunDir, j.id)}
	spec.CPUs, spec.Memory = e.size(j.launch.Node, 1)
	return e.cfg.Allocation.StartStep(ctx, spec)
}

func (e *Engine) fetchOnce(ctx context.Context, j *job, options []string) error {
	run, err := e.remote(ctx, j, "gantry-fetch", append([]string{"--send"}, options...)...)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, run.Kill)
	defer stop()
	_, err = node.Unpack(bufio.NewReaderSize(run.Stdout(), 1<<20), e.cfg.RunDir, true)
	if err == nil {
		_, _ = io.WriteString(run.Stdin(), "got\n")
	}
	run.Stdin().Close()
	_, _ = io.Copy(io.Discard, run.Stdout())
	if failed := run.Wait(); err != nil {
		if failed != nil {
			err = failed
		}
		return fmt.Errorf("fetch files from node %s: %w", j.launch.Node, err)
	}
	return nil
}

// arrived fetches what a container left that has ended.
func (e *Engine) arrived(j *job) {
	defer e.work.Done()
	err := e.fetch(e.ctx, j, "--whole")
	if e.ctx.Err() != nil {
		return // the next gantry fetches it
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.cfg.Allocation.Away() {
		r, _ := j.dir.Result()
		e.countLocked(j, err != nil || r != nil && r.Stopped)
	}
	if err != nil {
		e.finish(j, "what it left could not be fetched: "+err.Error())
		return
	}
	e.finish(j, "")
}

// command has the step of a container on such a node carry out an order.
func (e *Engine) command(ctx context.Context, j *job, verb string) error {
	run, err := e.remote(ctx, j, "gantry-order", "--order", verb)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, run.Kill)
	defer stop()
	run.Stdin().Close()
	said, _ := io.ReadAll(io.LimitReader(run.Stdout(), 1<<16))
	err = run.Wait()
	if came, ok := strings.CutPrefix(string(said), "came "); ok && err == nil {
		if err := outcome(j.id, strings.TrimSpace(came)); err != nil {
			return err
		}
		if verb == "freeze" || verb == "thaw" {
			return j.dir.Begin(node.Began{Paused: verb == "freeze"})
		}
		return nil
	}
	return fmt.Errorf("container %.12s: %s: %w: %w", j.id, verb, container.ErrNoAnswer, err)
}
