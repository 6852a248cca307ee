package sqlite

import (
	"context"
	"fmt"
	"math"

	"gantry/executor"
)

func encodeSubmissions(subs []executor.Submission) ([][]byte, error) {
	blobs := make([][]byte, len(subs))
	for i := range subs {
		var err error
		if blobs[i], err = EncodeSubmission(&subs[i]); err != nil {
			return nil, fmt.Errorf("submission %s: %w", subs[i].Name, err)
		}
	}
	return blobs, nil
}

func (db *DB) insertSubmissions(run int64, subs []executor.Submission, blobs [][]byte) error {
	for i := range subs {
		if err := db.exec("INSERT INTO submissions(run, position, at_ns, name, definition) VALUES (?, ?, ?, ?, ?)", run,
			i,
			subs[i].At, subs[i].Name, blobs[i]); err != nil {
			return err
		}
	}
	return nil
}

// Submissions returns submissions from that position on: the number of workflows that have arrived leaves those
// still to come.
func (r *Run) Submissions(ctx context.Context, from int) ([]executor.Submission, error) {
	var out []executor.Submission
	err := r.db.Each(ctx, func(scan Scan) error {
		var name string
		var blob []byte
		if err := scan(&name, &blob); err != nil {
			return err
		}
		sub, err := decodeSubmission(blob, math.MaxInt, math.MaxInt)
		if err != nil {
			return fmt.Errorf("read log %s: run %s, submission %s: %w", r.db.path, r.info.Name, name, err)
		}
		out = append(out, *sub)
		return nil
	}, "SELECT name, definition FROM submissions WHERE run = ? AND position >= ? ORDER BY position", r.id, from)
	return out, err
}
