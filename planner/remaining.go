package planner

import (
	"math"
	"time"
)

// left is the estimator that policies see: of a task that continues from a checkpoint it estimates the rest on each
// node. Ranks stay those of whole tasks.
type left struct {
	Estimator
	s *State
}

// leftRanker is that of an estimator that is a Ranker.
type leftRanker struct {
	left
	Ranker
}

func whatIsLeft(s *State, est Estimator) Estimator {
	l := left{est, s}
	if r, ok := est.(Ranker); ok {
		return leftRanker{l, r}
	}
	return l
}

// Run implements Estimator.
func (l left) Run(t *Task, n *Node) Estimate {
	e := l.Estimator.Run(t, n)
	if l.s.kept > 0 {
		done := l.s.lives.at(t.ID).done
		e.Run, e.Spread = Undone(e.Run, done), Undone(e.Spread, done)
	}
	return e
}

// Remaining implements Estimator: ran counts from the start of the present attempt.
func (l left) Remaining(t *Task, n *Node, ran time.Duration) time.Duration {
	if l.s.kept > 0 {
		if done := l.s.lives.at(t.ID).done; done > 0 {
			whole := l.Estimator.Run(t, n).Run
			ran += whole - Undone(whole, done)
		}
	}
	return l.Estimator.Remaining(t, n, ran)
}

// Undone returns the rest of a run of which the given fraction is done, to the nearest nanosecond.
func Undone(run time.Duration, done float64) time.Duration {
	if done == 0 {
		return run
	}
	return run - time.Duration(math.Round(float64(run)*done))
}

// Whole returns how long the whole task would have taken of which an attempt has run for the given time, as it began
// with the given fraction done. Estimators learn from whole tasks.
func Whole(ran time.Duration, done float64) time.Duration {
	if done == 0 || done >= 1 {
		return ran
	}
	return time.Duration(math.Round(float64(ran) / (1 - done)))
}
