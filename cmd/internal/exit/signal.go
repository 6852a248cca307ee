package exit

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// OnSignal returns a context that ends with Ctrl-C, SIGTERM or SIGHUP, the last unless the process ignores it, as under
// nohup. The caller calls stop, after which signals have their default effect.
func OnSignal(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(parent, signals...)
}
