package slurm

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gantry/executor/container/slurm/node"
)

// listen reads the messages of a step until it ends.
func (e *Engine) listen(s *step) {
	said := bufio.NewScanner(s.run.Stdout())
	said.Buffer(nil, node.LongestLine)
	for said.Scan() {
		verb, id, _ := strings.Cut(said.Text(), " ")
		id, text, _ := strings.Cut(id, " ")
		e.mu.Lock()
		j := s.job
		if j == nil || j.id != id {
			e.mu.Unlock()
			continue
		}
		switch verb {
		case "started":
			select {
			case <-j.begun:
			default:
				close(j.begun)
			}
		case "acked":
			select {
			case j.acked <- struct{}{}:
			default:
			}
		case "result": // the directory, which is full for one, takes none
			r := &node.Result{}
			if json.Unmarshal([]byte(text), r) == nil {
				j.told = r
			}
		case "ended":
			r, _ := j.dir.Result()
			e.countLocked(j, r != nil && r.Stopped)
			e.finish(j, "")
			s.job = nil
			s.run.Stdin().Close()
		}
		e.mu.Unlock()
	}
	err := s.run.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.err == nil { // an earlier error is the reason
		s.err = err
	}
	if j := s.job; j != nil {
		if r, _ := j.dir.Result(); r != nil || j.told != nil {
			e.finish(j, "")
		}
	}
	if err == nil || s.job == nil { // else the step may be there without its srun
		_ = os.RemoveAll(filepath.Join(node.Steps(e.cfg.RunDir), s.name))
	}
	close(s.gone)
	if s.job != nil {
		e.seek(s.job)
	}
}

// found waits until search has found the end of a container.
func (e *Engine) found(ctx context.Context, j *job) error {
	e.mu.Lock()
	e.seek(j)
	e.mu.Unlock()
	select {
	case <-j.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// seek has search look for a container, once. e.mu is held.
func (e *Engine) seek(j *job) {
	if j.over || j.sought {
		return
	}
	j.sought = true
	e.work.Go(func() { e.search(j) })
}

// search finds the end of a container whose srun has ended without a word, or was another gantry's: srun may have been
// killed, and its step continues. If the step is gone, its remaining processes are ended before the container counts as
// lost, and its task is tried again.
func (e *Engine) search(j *job) {
	for e.ctx.Err() == nil {
		alive := e.lives(e.ctx, j)
		r, err := j.dir.Result()
		if err == nil && (r != nil || !alive) {
			why := ""
			if r == nil {
				why = "its job step was ended"
				if j.step != nil && j.step.err != nil {
					why += ": " + j.step.err.Error()
				}
				if err := e.clear(j); err != nil {
					why += "; node " + j.launch.Node + " did not end what the step may have left: " + err.Error()
				}
				if e.ctx.Err() != nil {
					return // the next gantry looks again
				}
			}
			e.mu.Lock()
			if !j.over && !e.cfg.Allocation.Away() {
				e.countLocked(j, r == nil || r.Stopped)
			}
			e.finish(j, why)
			e.mu.Unlock()
			return
		}
		select {
		case <-j.ended:
			return
		case <-e.ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// clearTime is how long a node may take to end the remains of a job step.
const clearTime = 2 * time.Minute

// clear has the node of a container end the container if its job step left it: containers run on where somebody killed
// the step. A node that Slurm has lost cannot be asked.
func (e *Engine) clear(j *job) error {
	name, err := j.dir.Step()
	if err != nil || name == "" || j.node < 0 {
		return err // no step was to run it
	}
	begun := time.Now()
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 8*time.Second) {
		if _, why := e.state(e.cfg.Allocation.Nodes(), j.node, j.launch.Node); why != "" || e.ended() {
			return nil
		}
		ctx, cancel := context.WithTimeout(e.ctx, clearTime/4)
		_, err = e.step(ctx, j.launch.Node, 1, "clear", "--runtime", e.cfg.Runtimes[j.node], "--step", name,
			e.cfg.RunDir, j.id)
		if cancel(); err == nil {
			return os.RemoveAll(filepath.Join(node.Steps(e.cfg.RunDir), name))
		}
		if time.Since(begun) > clearTime {
			return err
		}
		select {
		case <-j.ended: // the node is lost
			return nil
		case <-e.ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
