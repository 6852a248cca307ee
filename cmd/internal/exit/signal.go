package exit

import (
	"context"
	"os/signal"

	"gantry/cmd/gantry/early"
)

// OnSignal returns a context that ends with the first signal that ends a process. The caller calls stop, after which
// signals have their default effect.
func OnSignal(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	return signal.NotifyContext(parent, early.Ending()...)
}
