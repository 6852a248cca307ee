package exit_test

import (
	"os/signal"
	"syscall"
	"testing"

	"gantry/cmd/internal/exit"
)

func TestHangupIsIgnoredUnderNohup(t *testing.T) {
	hangup := func() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGHUP) }
	if !signal.Ignored(syscall.SIGHUP) { // else the tests run under nohup
		ctx, stop := exit.OnSignal(t.Context())
		hangup()
		<-ctx.Done()
		stop()
	}
	signal.Ignore(syscall.SIGHUP)
	ctx, stop := exit.OnSignal(t.Context())
	defer stop()
	hangup()
	if ctx.Err() != nil {
		t.Error("a process that ignores SIGHUP is stopped by it")
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
	<-ctx.Done()
}
