package executor

import "context"

// Buffer gathers batches for a Store and passes them on beside the engine. It gives up durability for speed, as a simulation may: what it
// holds is lost with the process.
type Buffer struct {
	Store Store
	Size  int // events to gather before they are passed on

	batch   Batch
	spare   Batch      // the one passed on last, once it is written
	writing chan error // its outcome; nil if none is on its way
}

// Append implements Store. An error may be that of an earlier batch.
func (b *Buffer) Append(ctx context.Context, more Batch) error {
	b.batch.Events = append(b.batch.Events, more.Events...)
	b.batch.Admissions = append(b.batch.Admissions, more.Admissions...)
	if len(b.batch.Events) < b.Size {
		return nil
	}
	return b.pass(ctx)
}

// Flush passes on what was gathered, and waits until it is written.
func (b *Buffer) Flush(ctx context.Context) error {
	if len(b.batch.Events) > 0 {
		if err := b.pass(ctx); err != nil {
			return err
		}
	}
	return b.wait()
}

func (b *Buffer) pass(ctx context.Context) error {
	if err := b.wait(); err != nil {
		return err
	}
	b.batch, b.spare = b.spare, b.batch
	b.writing = make(chan error, 1)
	go func(batch Batch, done chan<- error) { done <- b.Store.Append(ctx, batch) }(b.spare, b.writing)
	return nil
}

func (b *Buffer) wait() error {
	if b.writing == nil {
		return nil
	}
	err := <-b.writing
	b.writing = nil
	clear(b.spare.Events)
	clear(b.spare.Admissions)
	b.spare = Batch{Events: b.spare.Events[:0], Admissions: b.spare.Admissions[:0]}
	return err
}
