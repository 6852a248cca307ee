//go:build !linux

package early

import (
	"os"
	"os/signal"
	"syscall"
)

// No run begins elsewhere: signals end the process as they do by default.

const Stopped = 130

func Begin() {}

// Cancel has the next signal call f until release is called.
func Cancel(f func()) (release func()) {
	if f == nil {
		return func() {}
	}
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case <-signals:
			f()
		case <-done:
		}
	}()
	return func() { close(done) }
}

func Wait() {}

func Loop() <-chan os.Signal { return nil }
