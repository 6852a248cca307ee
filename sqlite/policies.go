package sqlite

import (
	"context"
	"errors"

	"gantry/executor"
	"gantry/planner"
)

// PolicyChange says which policy planned from an instant on.
type PolicyChange struct {
	Seq    uint64       `json:"seq"` // of the event
	At     planner.Time `json:"at_ns"`
	Policy string       `json:"policy"`
}

// notePolicy notes changes of the policy, within the transaction of a batch.
func (r *Run) notePolicy(b *executor.Batch) error {
	for i := range b.Events {
		x, ok := b.Events[i].Body.(planner.PolicyChanged)
		if !ok {
			continue
		}
		if err := errors.Join(
			r.db.exec("INSERT INTO policies(run, seq, at_ns, policy) VALUES (?, ?, ?, ?)", r.id, b.Events[i].Seq,
				b.Events[i].At, x.Policy),
			r.db.exec("UPDATE runs SET policy = ? WHERE id = ?", x.Policy, r.id)); err != nil {
			return err
		}
	}
	return nil
}

// Policies returns the changes of the policy of a run, in order. The run is given as in Summary.
func (db *DB) Policies(ctx context.Context, run string) ([]PolicyChange, error) {
	id, _, err := db.find(ctx, run)
	if err != nil {
		return nil, err
	}
	return RowsOf[PolicyChange](ctx, db, "SELECT seq, at_ns, policy FROM policies WHERE run = ? ORDER BY seq", id)
}
