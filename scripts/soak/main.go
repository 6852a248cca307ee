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
	"path/filepath"
	"time"

	"gantry/executor/sim/calibrate"
	"gantry/scripts/measure"
)

type options struct {
	containers, attempts, stream, run, samples int
	seed                                       uint64
	dir, out, examples                         string
}

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
	measure.Main("soak", o.soak)
}

// soak runs both parts. The error joins those of the parts: failures, numbers that grew, and faults of a log.
func (o *options) soak(ctx context.Context) (err error) {
	if o.containers < 0 || o.attempts < 0 || o.stream < 1 || o.run < 1 || o.samples < 8 {
		return errors.New("-containers and -attempts: 0 or more, -stream and -run: 1 or more, -samples: 8 or more")
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "gantry-soak"); err != nil {
			return err
		}
		defer os.RemoveAll(o.dir)
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	var errs []error
	for _, p := range []part{o.null(), o.docker()} {
		if p.attempts == 0 {
			continue
		}
		if err := o.part(ctx, &p); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	return errors.Join(errs...)
}

// part runs one part in a directory of its own, then judges and draws the samples and checks its log.
func (o *options) part(ctx context.Context, p *part) error {
	m := &meter{home: filepath.Join(o.dir, p.name), every: max(1, p.attempts/o.samples), begun: time.Now()}
	if err := os.MkdirAll(m.home, 0o755); err != nil {
		return err
	}
	fmt.Printf("%s: %d %s in %s\n", p.name, p.attempts, p.about, m.home)
	err := p.run(ctx, m, o.seed)
	took := time.Since(m.begun)
	fmt.Printf("%s: %d attempts in %v, %.0f a second, CPU time %v; ends: %s\n", p.name, m.attempts,
		took.Round(time.Second), float64(m.attempts)/took.Seconds(), calibrate.OwnCPU().Round(time.Second),
		m.endsText())
	if len(m.samples) > 0 {
		path := filepath.Join(o.out, p.name)
		err = errors.Join(err, m.write(path+".csv"),
			os.WriteFile(path+".svg", m.drawing(fmt.Sprintf("%d %s", m.attempts, p.about)), 0o644))
		if grows := m.judge(); o.samples >= fewSamples {
			err = errors.Join(err, grows)
		}
	}
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, m.verify(context.WithoutCancel(ctx)))
}
