// Package soak runs a day of load: streams with faults on the null runtime, and a stream of short tasks in containers.
// It samples the numbers that a leak would let grow, draws them, and fails if one grew or if a log is not sound at the
// end.
//
// The real engine, the real log (durable, as in gantry run) and the real Docker runtime run in this process, so that
// its memory, goroutines, descriptors and watches can be counted. docs/soak.md has the figures of a run.
package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/executor/sim/calibrate"
	"gantry/planner"
)

type options struct {
	containers, attempts, stream, run, samples int
	seed                                       uint64
	dir, out, examples                         string
}

var (
	large = flag.Bool("large", false, "a day of load")
	day   options
)

func init() {
	flag.IntVar(&day.containers, "containers", 10_000, "containers to run; 0: none")
	flag.IntVar(&day.attempts, "attempts", 10_000_000, "attempts on the null runtime; 0: none")
	flag.IntVar(&day.stream, "stream", 100_000, "attempts of each stream on the null runtime, about")
	flag.IntVar(&day.run, "run-containers", 1000, "containers of each run, about")
	flag.IntVar(&day.samples, "samples", 400, "samples of each part, about")
	flag.Uint64Var(&day.seed, "seed", 1, "of loads and faults")
	flag.StringVar(&day.dir, "dir", "", "directory of the runs and logs; a temporary one, removed at the end, if it "+
		"is not given")
	flag.StringVar(&day.out, "out", "soak-results", "directory of the plots and samples")
}

func TestADayOfLoad(t *testing.T) {
	if !*large {
		t.Skip("it takes hours: make soak runs it")
	}
	day.examples = "../../examples"
	if err := day.soak(t.Context()); err != nil {
		t.Fatal(err)
	}
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

// build puts the task emulator where the runtime looks for it.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "gantry-task")
	cmd := exec.Command("go", "build", "-o", binary, "gantry/cmd/gantry-task")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func TestTinySoakOnTheNullRuntime(t *testing.T) {
	o := options{attempts: 3000, stream: 800, run: 1, samples: 40, seed: 1, dir: t.TempDir(), out: t.TempDir()}
	if err := o.soak(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"null.csv": "log_bytes_per_attempt", "null.svg": "live heap"} {
		text, err := os.ReadFile(filepath.Join(o.out, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s says nothing of %q: %v", name, want, err)
		}
	}
}

func TestTinySoakInContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long beside other tests: make test-long runs it")
	}
	if out, err := exec.Command("docker", "image", "inspect", "gantry/busybox:latest").CombinedOutput(); err != nil {
		t.Skipf("needs a Docker Engine with the image gantry/busybox:latest (make images): %v %s", err, out)
	}
	t.Setenv("PATH", filepath.Dir(build(t))+":"+os.Getenv("PATH"))
	o := options{containers: 30, stream: 1, run: 15, samples: 10, seed: 1, dir: t.TempDir(), out: t.TempDir(),
		examples: "../../examples"}
	if err := o.soak(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFaultsOfEveryKindHappen(t *testing.T) {
	o := options{attempts: 5_000, stream: 5_000, samples: 8, seed: 3, dir: t.TempDir(), out: t.TempDir()}
	m := &meter{home: t.TempDir(), every: math.MaxInt32}
	p := o.null()
	if err := p.run(t.Context(), m, o.seed); err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		if m.ends[f.outcome] == 0 {
			t.Errorf("no attempt ended with %s", f.outcome)
		}
	}
	if m.outages == 0 || m.ends[planner.OK] == 0 {
		t.Errorf("%d outages, %d attempts ended well", m.outages, m.ends[planner.OK])
	}
}

func TestJudgeFailsWhatGrows(t *testing.T) {
	flat := func() *meter {
		m := &meter{attempts: 1000}
		for i := range 100 {
			var s sample
			s.attempts = 10 * (i + 1)
			for q := range s.values {
				s.values[q] = 100 + float64(i%7)
			}
			m.samples = append(m.samples, s)
		}
		return m
	}
	if err := flat().judge(); err != nil {
		t.Errorf("flat: %v", err)
	}
	for q := range sampled {
		m := flat()
		for i := range m.samples {
			m.samples[i].values[q] += 5 * float64(i)
		}
		if err := m.judge(); err == nil || !strings.Contains(err.Error(), sampled[q].label) {
			t.Errorf("%s grows: %v", sampled[q].label, err)
		}
	}
}
