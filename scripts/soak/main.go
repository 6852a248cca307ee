// Command soak runs a day of load: streams with faults on the null runtime, and a stream of short tasks in containers.
// It samples the numbers that a leak would let grow, draws them, and fails if one grew or if a log is not sound at the
// end.
//
// The real engine, the real log (durable, as in gantry run) and the real Docker runtime run in this process, so that
// its memory, goroutines, descriptors and watches can be counted. docs/soak.md has the figures of a run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.IntVar(&o.containers, "containers", 10_000, "containers to run; 0: none")
	flag.IntVar(&o.attempts, "attempts", 10_000_000, "attempts on the null runtime; 0: none")
	flag.IntVar(&o.stream, "stream", 100_000, "attempts of each stream on the null runtime, about")
	flag.IntVar(&o.run, "run", 1000, "containers of each run, about")
	flag.IntVar(&o.samples, "samples", 400, "samples of each part, about")
	flag.Uint64Var(&o.seed, "seed", 1, "of loads and faults")
	flag.StringVar(&o.dir, "dir", "", "directory of the runs and logs; a temporary one, removed at the end, if it "+
		"is not given")
	flag.StringVar(&o.examples, "examples", "examples", "directory of the examples, whose programs run in containers")
	flag.StringVar(&o.out, "out", "soak-results", "directory of the plots and samples")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	debug.SetGCPercent(400) // as gantry
	if err := o.soak(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

type options struct {
	containers, attempts, stream, run, samples int
	seed                                       uint64
	dir, out, examples                         string
}

// soak runs both parts. The error joins those of the parts: failures, numbers that grew, and faults of a log.
func (o *options) soak(ctx context.Context) error {
	if o.containers < 0 || o.attempts < 0 || o.stream < 1 || o.run < 1 || o.samples < 8 {
		return errors.New("-containers and -attempts: 0 or more, -stream and -run: 1 or more, -samples: 8 or more")
	}
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "gantry-soak")
		if err != nil {
			return err
		}
		o.dir = dir
		defer os.RemoveAll(dir)
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	o.dir = dir
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	var errs []error
	for _, p := range []struct {
		name  string
		about string
		size  int
		run   func(context.Context, *meter) error
	}{
		{"null", "attempts with faults on the null runtime", o.attempts, o.null},
		{"docker", "containers", o.containers, o.docker},
	} {
		if p.size == 0 {
			continue
		}
		if err := o.part(ctx, p.name, p.about, p.size, p.run); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	return errors.Join(errs...)
}

// part runs one part in a directory of its own, then judges and draws the samples and checks its log.
func (o *options) part(ctx context.Context, name, about string, size int, run func(context.Context,
	*meter) error) error {
	m := &meter{home: filepath.Join(o.dir, name), size: size, every: max(1, size/o.samples), begun: time.Now()}
	if err := os.MkdirAll(m.home, 0o755); err != nil {
		return err
	}
	fmt.Printf("%s: %d %s in %s\n", name, size, about, m.home)
	err := run(ctx, m)
	took := time.Since(m.begun)
	fmt.Printf("%s: %d attempts in %v, %.0f a second, CPU time %v; ends: %s\n", name, m.attempts,
		took.Round(time.Second), float64(m.attempts)/took.Seconds(), cpuTime().Round(time.Second), m.endsText())
	if len(m.samples) > 0 {
		err = errors.Join(err, m.write(filepath.Join(o.out, name+".csv")), m.draw(filepath.Join(o.out, name+".svg"),
			fmt.Sprintf("%d %s", m.attempts, about)))
		if grows := m.judge(); o.samples >= fewSamples {
			err = errors.Join(err, grows)
		}
	}
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, m.verify(context.WithoutCancel(ctx)))
}
