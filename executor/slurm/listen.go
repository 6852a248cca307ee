package slurm

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gantry/executor/slurm/node"
)

// listen hears what a step says until it ends.
func (e *Engine) listen(s *step) {
	defer e.work.Done()
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
			e.finish(j, "")
			s.job = nil
			e.rest(s)
		}
		e.mu.Unlock()
	}
	err := s.run.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	s.err = err
	e.idle = slices.DeleteFunc(e.idle, func(o *step) bool { return o == s })
	if j := s.job; j != nil {
		if r, _ := j.dir.Result(); r != nil || j.told != nil {
			e.finish(j, "")
		}
	}
	if err == nil || s.job == nil { // else the step may be there without its srun
		_ = os.RemoveAll(filepath.Join(node.Steps(e.cfg.RunDir), s.name))
	}
	close(s.gone)
	if j := s.job; j != nil && !j.over {
		e.work.Add(1)
		go e.search(j)
	}
}

// rest has a step wait for another container. e.mu is held.
func (e *Engine) rest(s *step) {
	if e.cfg.Linger == 0 || e.ctx.Err() != nil {
		s.run.Stdin().Close()
		return
	}
	e.idle = append(e.idle, s)
	s.timer = time.AfterFunc(e.cfg.Linger, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if i := slices.Index(e.idle, s); i >= 0 {
			e.idle = slices.Delete(e.idle, i, i+1)
			s.run.Stdin().Close()
		}
	})
}

// search finds out what has become of a container whose srun has ended without a word: srun may have been killed, and
// its step continues.
func (e *Engine) search(j *job) {
	defer e.work.Done()
	for e.ctx.Err() == nil {
		alive := e.lives(e.ctx, j)
		r, err := j.dir.Result()
		if err == nil && (r != nil || !alive) {
			why := ""
			if r == nil {
				why = "its job step was ended"
				if j.step.err != nil {
					why += ": " + j.step.err.Error()
				}
			}
			e.mu.Lock()
			e.finish(j, why)
			e.mu.Unlock()
			return
		}
		select {
		case <-e.ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}
