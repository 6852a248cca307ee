//go:build linux

// Package early takes the signals that end a run from the first moment of the process on, so that one that comes while
// gantry still reads files ends it as any other does: with a run that can be resumed. A constructor in C takes them
// until the Go runtime is up. The package imports next to nothing, not even fmt, so that it is initialised before most
// packages: one of the others reads the whole binary first.
package early

// #include "early.h"
import "C"

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Stopped is the exit code of a process that a signal ended before anything was started.
const Stopped = C.STOPPED

var (
	signals = make(chan os.Signal, 8)
	once    sync.Once
	mu      sync.Mutex
	waits   bool // for the loop: one signal is kept, the second ends the process
	kept    = make(chan os.Signal, 8)
	loop    bool   // takes signals now
	cancel  func() // called at the first signal instead of ending the process
)

func init() {
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
}

// Begin guards the process against signals if its command is one that begins or continues a run. Any other they end as
// they do by default.
func Begin() {
	if C.gantry_guards() != 0 {
		once.Do(guard)
	} else {
		release()
	}
}

func release() {
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Reset(syscall.SIGHUP)
	}
	select {
	case s := <-signals:
		_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
	default:
	}
}

// guard ends the process with Stopped at a signal, until Wait is called.
func guard() {
	go func() {
		for s := range signals {
			mu.Lock()
			if f := cancel; f != nil {
				cancel = nil
				mu.Unlock()
				f()
				continue
			}
			end := !loop && (!waits || len(kept) > 0)
			if !end {
				select {
				case kept <- s:
				default: // nobody sends that many in earnest
				}
			}
			mu.Unlock()
			if end {
				_, _ = os.Stderr.WriteString(C.STOPPED_TEXT)
				os.Exit(Stopped)
			}
		}
	}()
}

// Cancel has the next signal call f, from here on until release is called. Another one ends the process.
func Cancel(f func()) (release func()) {
	mu.Lock()
	defer mu.Unlock()
	before := cancel
	cancel = f
	return func() {
		mu.Lock()
		defer mu.Unlock()
		cancel = before
	}
}

// Wait keeps a signal from here on until Loop is called: the log has the run. A second one ends the process.
func Wait() {
	mu.Lock()
	defer mu.Unlock()
	waits = true
}

// Loop returns the signals, those that were kept first.
func Loop() <-chan os.Signal {
	mu.Lock()
	loop = true
	mu.Unlock()
	once.Do(guard) // which ends nothing any more
	return kept
}
