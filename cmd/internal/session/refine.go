package session

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"gantry/executor/sim/calibrate"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/sqlite"
)

// mostRefining is how many attempts of a run are compared with the host model: the last ones.
const mostRefining = 2000

// crowded is how much more CPU time a container may cost in a run than it did alone: several contend for caches. Time
// beyond that is of other programs.
const crowded = 1.25

// refining gathers measurements of the host from a run in containers. A nil one gathers nothing.
type refining struct {
	load  *calibrate.Load
	own   time.Duration // CPU time of this process before
	count int           // attempts
	tasks time.Duration // their CPU time
	ended []calibrate.Ended
}

func (r *refining) watch(events []planner.Event) {
	if r == nil {
		return
	}
	for i := range events {
		x, ok := events[i].Body.(*planner.AttemptExited)
		if !ok {
			continue
		}
		e := calibrate.Ended{Usage: x.Usage, Reported: events[i].At, Outcome: x.Outcome}
		if len(r.ended) < mostRefining {
			r.ended = append(r.ended, e)
		} else {
			r.ended[r.count%mostRefining] = e
		}
		r.count++
		r.tasks += x.Usage.CPUUser + x.Usage.CPUSystem
	}
}

// refine lets a run that went well refine the host model of its runtime. A bad model does not make the run fail: gantry
// doctor reports it.
func (s *Session) refine(ctx context.Context) {
	r := s.refining
	if r == nil || r.count == 0 {
		return
	}
	rows, err := s.DB.HostModels(ctx, s.Set.Runtime)
	if err != nil || len(rows) == 0 {
		return
	}
	home, err := filepath.Abs(s.Home)
	if err != nil {
		return
	}
	m, row, err := FindHostModel(ctx, s.DB, s.Set.Runtime, home)
	if err != nil {
		return
	}
	r.load.Less(r.tasks + calibrate.OwnCPU() - r.own)
	r.load.Less(time.Duration(m.PerContainer.EngineNanos * crowded * float64(r.count)))
	busy, _ := r.load.Read()
	if !calibrate.Refine(m, r.ended, busy, s.Set.Starts) {
		return
	}
	if err := s.storeRefined(ctx, m, row); err != nil {
		s.View.Warn("the host model is not refined: %v", err)
	}
}

// storeRefined replaces a host model by the refined one.
func (s *Session) storeRefined(ctx context.Context, m *hostmodel.Model, row *sqlite.HostModel) error {
	text, err := m.Encode()
	if err != nil {
		return errors.Join(errors.New("it became one that cannot be"), err)
	}
	row.Model = text
	return s.DB.RefineHostModel(ctx, row, time.Now())
}
