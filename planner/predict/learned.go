package predict

import (
	"math"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// Learned estimates runtimes with a model of its own that learns while the run continues, and from earlier runs
// beforehand: each end of a task that ended well is a sample of its kind. Kinds that never ran are estimated as
// declared. Where nothing is declared either, they are taken to last as long as all tasks did in the mean: an estimate
// that puts them neither first nor last, and says of itself that nothing is known.
type Learned struct {
	Trained
	prior map[string][]Sample
	seen  []learning // by kind of the run
	all   measured   // of all kinds
}

// measured is the mean of runs, in nanoseconds at speed 1.
type measured struct {
	n    int32
	mean float64
}

func (m *measured) add(ns float64) {
	m.n++
	m.mean += (ns - m.mean) / float64(m.n)
}

// learning is the measurements of a kind, the latest last, and on how many of them its model rests. That follows from
// their number alone, not from the instants at which estimates are asked for: a run that is resumed learns the same.
type learning struct {
	samples []Sample
	total   int
	upTo    int // the model rests on
	point   int // it should rest on
	next    int // it should rest on next
}

// count takes in n more samples: few change the model at once, later on an eighth of them more does.
func (k *learning) count(n int) {
	for k.total += n; k.next <= k.total; {
		k.point = k.next
		if k.next++; k.point >= minRidge {
			k.next = k.point + min(k.point/8, latest/2)
		}
	}
}

var (
	_ planner.Ranker   = (*Learned)(nil)
	_ planner.Observer = (*Learned)(nil)
)

// latest is how many samples of a kind are kept.
const latest = 200

// NewLearned returns an estimator that knows nothing yet.
func NewLearned(declared *Declared) *Learned {
	return &Learned{Trained: Trained{Declared: declared, Model: &Model{}, source: planner.SourceLearned},
		prior: map[string][]Sample{}}
}

// Prior takes in a run of an earlier log, before this one begins.
func (l *Learned) Prior(s Sample) {
	l.prior[s.Kind] = append(l.prior[s.Kind], s)
	l.all.add(float64(s.Ran) * s.speed())
}

// Name says which kind has that name: it begins with the samples of that name that Prior took in.
func (l *Learned) Name(k planner.KindID, name string) {
	l.Trained.Name(k, name)
	l.seen = planner.Extend(l.seen, int(k)+1)
	l.seen[k] = learning{samples: l.prior[name]}
	l.seen[k].count(len(l.prior[name]))
}

// Observe implements planner.Observer.
func (l *Learned) Observe(v planner.View, e planner.Event) {
	l.Trained.Observe(v, e)
	x, ok := e.Body.(*planner.AttemptExited)
	if !ok || x.Outcome != planner.OK || x.Ran <= 0 {
		return
	}
	att := v.Attempt(x.Attempt)
	task, node := v.Task(att.Task), &v.Nodes()[att.Node]
	if int(task.Kind) >= len(l.seen) || !l.Declared.BySpeed(task) {
		return
	}
	s := Sample{Ran: planner.Whole(x.Ran, att.Done), Features: features(task, node, l.load)}
	if d := l.Declared.Run(task, node); d.Source == planner.SourceDeclared {
		s.Declared = d.Run - l.Declared.Start(task)
	}
	k := &l.seen[task.Kind]
	if k.samples = append(k.samples, s); len(k.samples) >= 2*latest {
		k.samples = append(k.samples[:0:0], k.samples[len(k.samples)-latest:]...)
	}
	k.count(1)
	l.all.add(float64(s.Ran) * s.speed())
}

// learn brings the model of a kind up to date when it is asked for.
func (l *Learned) learn(t *planner.Task) {
	if int(t.Kind) >= len(l.seen) {
		return
	}
	k := &l.seen[t.Kind]
	if k.point == k.upTo {
		return
	}
	k.upTo = k.point
	then := k.samples[:len(k.samples)-(k.total-k.point)]
	of := make([]*Sample, min(latest, len(then)))
	for i := range of {
		of[i] = &then[len(then)-len(of)+i]
	}
	fits := fitKind(of)
	l.kinds[t.Kind] = fits.model(Auto, 0)
	l.kinds[t.Kind].Samples = k.point
}

// neutral is an estimate of a task of which nothing is known.
func (l *Learned) neutral(t *planner.Task, n *planner.Node, e planner.Estimate) planner.Estimate {
	if e.Source == planner.SourceDefault && l.all.n > 0 {
		e.Run = unit.AtSpeed(time.Duration(math.Round(l.all.mean)), n.Speed) + l.Declared.Start(t)
	}
	return e
}

// Run implements planner.Estimator.
func (l *Learned) Run(t *planner.Task, n *planner.Node) planner.Estimate {
	l.learn(t)
	return l.neutral(t, n, l.Trained.Run(t, n))
}

// Remaining implements planner.Estimator.
func (l *Learned) Remaining(t *planner.Task, n *planner.Node, ran time.Duration) time.Duration {
	l.learn(t)
	if k := l.known(t); k == nil || k.left() == nil {
		return Overrun(l.Run(t, n).Run, ran)
	}
	return l.Trained.Remaining(t, n, ran)
}

// Unscaled implements planner.Ranker.
func (l *Learned) Unscaled(t *planner.Task, n *planner.Node) (time.Duration, uint64) {
	l.learn(t)
	if k := l.known(t); k == nil || k.Runtime == nil {
		return l.Run(t, n).Run, 1
	}
	return l.Trained.Unscaled(t, n)
}

// Work implements planner.Ranker.
func (l *Learned) Work(t *planner.Task) (planner.Work, bool) {
	l.learn(t)
	w, ok := l.Trained.Work(t)
	if ok {
		reference := planner.Node{Speed: 1}
		w.Run = l.Run(t, &reference).Run - w.Start
		w.Unscaled = w.Run
	}
	return w, ok
}
