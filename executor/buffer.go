package executor

import "context"

// Buffer gathers batches for a Store. It gives up durability for speed, as a simulation may: what it holds is lost with the process.
type Buffer struct {
	Store Store
	Size  int // events to gather before they are passed on
	batch Batch
}

// Append implements Store.
func (b *Buffer) Append(ctx context.Context, more Batch) error {
	b.batch.Events = append(b.batch.Events, more.Events...)
	b.batch.Admissions = append(b.batch.Admissions, more.Admissions...)
	if len(b.batch.Events) < b.Size {
		return nil
	}
	return b.Flush(ctx)
}

// Flush passes on what was gathered.
func (b *Buffer) Flush(ctx context.Context) error {
	if len(b.batch.Events) == 0 {
		return nil
	}
	err := b.Store.Append(ctx, b.batch)
	clear(b.batch.Events)
	clear(b.batch.Admissions)
	b.batch.Events, b.batch.Admissions = b.batch.Events[:0], b.batch.Admissions[:0]
	return err
}
