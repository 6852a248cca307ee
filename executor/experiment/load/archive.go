package load

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"gantry/executor"
	"gantry/planner"
	"gantry/trace"
	"gantry/trace/scenario"
)

// longArchive is how many workflows an archive has at least to be Lean.
const longArchive = 100_000

// archive makes the submissions of an archive, each of which makes its workflow when it arrives.
func (l *Loader) archive(w *scenario.Workload, a *scenario.Arrival) ([]executor.Submission, error) {
	opt := l.ReadOptions
	opt.Instances = a.Instances
	all, faults, err := trace.OpenArchive(a.Trace, cmp.Or[io.Reader](l.Standard, os.Stdin), opt)
	if err != nil {
		return nil, err
	}
	if err := l.judged(a.Trace, faults); err != nil {
		return nil, err
	}
	from, to := all.From(a.From), all.Len()
	if a.For > 0 {
		to = all.From(a.From + a.For)
	}
	if from == to {
		return nil, fmt.Errorf("%s: none of its %d workflows arrives from %v to %v: the last one does at %v", a.Trace,
			all.Len(), a.From, a.From+a.For, all.Span())
	}
	alone := len(w.Arrivals) == 1 && w.Stream == nil
	if alone && l.Count > 0 && to-from > l.Count {
		to, l.More = from+l.Count, true
	}
	s := archived{l, w, a, all, to}
	if l.Lean && alone && to-from > longArchive {
		if w.WarmUp+w.CoolDown > 0 || w.WarmUpTime+w.CoolDownTime > 0 {
			return nil, errors.New("warm_up and cool_down are for archives of up to 100000 workflows: name a part of " +
				"it by from and for")
		}
		first := s.sub(from)
		first.Next = func() *executor.Submission { return s.next(from + 1) }
		return []executor.Submission{first}, nil
	}
	subs := make([]executor.Submission, to-from)
	for i := range subs {
		subs[i] = s.sub(from + i)
	}
	return subs, nil
}

// archived has the workflows of an archive that arrive, up to one.
type archived struct {
	*Loader
	file *scenario.Workload
	*scenario.Arrival
	all *trace.Archive
	to  int
}

// sub is workflow i.
func (s archived) sub(i int) executor.Submission {
	return executor.Submission{At: planner.Time(s.Arrive + s.all.At(i) - s.From), Name: s.all.Name(i),
		Tenant: s.all.Tenant(i), Class: class(s.Class), Preempt: s.file.Preempt,
		Draw: func(sub *executor.Submission) error {
			sub.Workflow = s.all.Workflow(i)
			trace.Impute(sub.Workflow, trace.Defaults{})
			for k := range sub.Workflow.Tasks {
				sub.Workflow.Tasks[k].DiskBps = s.Disk
			}
			return nil
		}}
}

// next is workflow i as it follows another one; nil after the last.
func (s archived) next(i int) *executor.Submission {
	if i == s.to {
		return nil
	}
	sub := s.sub(i)
	sub.At, sub.Name = s.scaled(s.file, sub.At), executor.EscapeName(sub.Name)
	sub.Next = func() *executor.Submission { return s.next(i + 1) }
	return &sub
}
