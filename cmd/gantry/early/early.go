// Package early takes the signals that end a run from the start of the process on, so that one that comes while gantry
// still reads files ends it as any other does: with a run that can be resumed. The package imports next to nothing, not
// even fmt, so that it is initialised before most packages: one of the others reads the whole binary first.
package early

import (
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Stopped is the exit code of a process that a signal ended before anything was started.
const Stopped = 130

var (
	signals = make(chan os.Signal, 8)
	once    sync.Once
	mu      sync.Mutex
	waits   bool // for the loop: one signal is kept, the second ends the process
	kept    = make(chan os.Signal, 8)
	loop    bool   // takes signals now
	came    bool   // a signal did
	cancel  func() // called at the first signal instead of ending the process
)

// Signals end other commands as they do by default.
func init() {
	for _, word := range os.Args[1:] {
		switch {
		case strings.HasPrefix(word, "-"):
			continue
		case slices.Contains([]string{"run", "map", "resume", "serve", "experiment", "image"}, word):
			take()
		}
		return
	}
}

// Ending are the signals that end a process: Ctrl-C, SIGTERM and SIGHUP, the last unless the process ignores it, as
// under nohup.
func Ending() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// take has a signal end the process with Stopped, until Wait is called.
func take() {
	once.Do(func() {
		signal.Notify(signals, Ending()...)
		go func() {
			for s := range signals {
				happen(s)
			}
		}()
	})
}

func happen(s os.Signal) {
	mu.Lock()
	defer mu.Unlock()
	came = true
	switch f := cancel; {
	case f != nil:
		cancel = nil
		f()
	case loop || waits && len(kept) == 0:
		select {
		case kept <- s:
		default: // nobody sends that many in earnest
		}
	default:
		_, _ = os.Stderr.WriteString("gantry: stopped before anything was started\n")
		os.Exit(Stopped)
	}
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

// Came reports whether a signal came.
func Came() bool {
	mu.Lock()
	defer mu.Unlock()
	return came
}

// Wait keeps a signal from here on until Loop is called: the log has the run. A second one ends the process.
func Wait() {
	mu.Lock()
	defer mu.Unlock()
	waits = true
}

// Loop returns the signals, those that were kept first. They end nothing any more.
func Loop() <-chan os.Signal {
	take()
	mu.Lock()
	defer mu.Unlock()
	loop = true
	return kept
}
