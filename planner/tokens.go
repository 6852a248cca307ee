package planner

import "fmt"

// ErrLimit is an ErrFull: others hold the tokens, or parts of all GPUs.
var ErrLimit = fmt.Errorf("the limit of tokens, or parts of GPUs: %w", ErrFull)

// MostTokens is how many resources users may declare for a run.
const MostTokens = 8

// Tokens are units of resources that a user declares for a whole run, such as licences: those that there are, or that a
// task holds from its start to its end, also while it is frozen.
type Tokens [MostTokens]uint16

// tokens bound starts: plans for later are not bound. Events do not depend on them: a log replays with any tokens.
type tokens struct {
	there Tokens
	held  [MostTokens]int64 // by attempts under way
}

// LimitTokens says which tokens there are. It is called before the first event.
func (p *Planner) LimitTokens(there Tokens) { p.state.tokens = &tokens{there: there} }

// spend adds the tokens of t to those that attempts hold, or with sign -1 takes them away.
func (s *State) spend(t TaskID, sign int64) {
	if s.tokens != nil {
		for i, n := range s.tasks.of(t).Tokens {
			s.tokens.held[i] += sign * int64(n)
		}
	}
}

// Limits reports whether tasks need tokens.
func (d *Draft) Limits() bool { return d.s.tokens != nil }

// OthersHoldTokens is the reason for a task that is Limited.
var OthersHoldTokens = Reason{Code: TokensHeld, Node: None}

// Limited reports whether t needs more tokens than are free, those of tasks that start in this round left out.
func (d *Draft) Limited(t TaskID) bool {
	x, need := d.s.tokens, &d.s.tasks.of(t).Tokens
	if x == nil || *need == (Tokens{}) || d.s.lives.at(t).phase == Suspended {
		return false
	}
	used := x.held
	for seg := range d.Due() {
		if seg.Task != t && d.s.lives.at(seg.Task).phase != Suspended {
			for i, n := range d.s.tasks.of(seg.Task).Tokens {
				used[i] += int64(n)
			}
		}
	}
	for i, n := range need {
		if n > 0 && used[i]+int64(n) > int64(x.there[i]) {
			return true
		}
	}
	return false
}
