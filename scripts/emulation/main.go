// Command emulation has the task emulator do tasks of many kinds in containers, and makes the page of the resources
// that it was asked for and achieved. It keeps its measurements: interrupted, or stopped by -for, it continues with the
// same command. One page is one build: -again forgets earlier measurements.
//
//	emulation [-results DIR] [-page FILE] [-for DURATION] [-again] [-calm] [-note TEXT]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/sim/calibrate"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/scripts/measure"
)

// measured are some tasks of one kind.
type measured struct {
	Cell calibrate.Cell
	All  []calibrate.Achieved
	Busy float64 // cores that others used meanwhile

	ending time.Duration // CPU time that a task cannot measure itself
}

type results struct {
	parts measure.Parts
	cores int
	cells []measured
}

func main() {
	r := &results{cores: runtime.NumCPU()}
	flag.StringVar(&r.parts.Dir, "results", "bin/emulation-results", "keep what was measured in `DIR`")
	page := flag.String("page", "docs/emulation.md", "write the page to `FILE`")
	limit := flag.Duration("for", time.Hour, "begin nothing after `DURATION`")
	again := flag.Bool("again", false, "forget what was measured before")
	calm := flag.Bool("calm", false, "leave out the tasks that others disturb")
	note := flag.String("note", "", "`TEXT` about the host, for the page")
	measure.Main("emulation", func(ctx context.Context) error {
		if *again {
			if err := os.RemoveAll(r.parts.Dir); err != nil {
				return err
			}
		}
		r.parts.Until = time.Now().Add(*limit)
		left, err := r.measure(ctx, *calm)
		if err != nil {
			return err
		}
		if left > 0 {
			fmt.Printf("%d of %d rows left: the same command continues\n", left, left+len(r.cells))
			*note += fmt.Sprintf(" %d of %d rows are not measured yet.", left, left+len(r.cells))
		}
		return os.WriteFile(*page, []byte(r.page(*note)), 0o644)
	})
}

// measure measures all cells that are not measured yet, and returns how many are left.
func (r *results) measure(ctx context.Context, calm bool) (left int, err error) {
	lab, done, err := open(ctx, r.cores)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, done()) }()
	for i, c := range calibrate.Cells(r.cores) {
		m := measured{Cell: c}
		// A cell that changes is measured again.
		name := fmt.Sprintf("cell-%d-%08x", i, crc32.ChecksumIEEE(fmt.Append(nil, &c, c.Rate)))
		if !c.Contended || !calm {
			err := r.parts.Once(ctx, name, func() (any, error) { return &m, m.measure(ctx, lab, r.cores) })
			if err != nil && !errors.Is(err, measure.ErrMore) {
				return 0, fmt.Errorf("%v: %w", &c, err)
			}
		}
		found, err := r.parts.Read(name, &m)
		if err != nil {
			return 0, err
		}
		if !found {
			left++
			continue
		}
		r.cells = append(r.cells, m)
		r.close()
		if v := r.cells[len(r.cells)-1].judge(); len(v.Misses) > 0 {
			fmt.Printf("%v: missed: %s\n", &c, strings.Join(v.Misses, "; "))
		}
	}
	return left, nil
}

func (m *measured) measure(ctx context.Context, lab *calibrate.Lab, cores int) (err error) {
	n := 3
	if m.Cell.CPU == 0 { // the cost of ending in all the others is taken from these
		n = 9
	} else if m.Cell.Run >= 3*time.Second {
		n = 1
	}
	load := calibrate.Meter()
	m.All, err = lab.Perform(ctx, m.Cell, cores, n)
	for _, a := range m.All {
		load.Less(a.CPU)
	}
	m.Busy, _ = load.Read()
	return err
}

// open makes a runtime of containers in a directory of its own, which done removes.
func open(ctx context.Context, cores int) (lab *calibrate.Lab, done func() error, err error) {
	binary, err := docker.FindTaskBinary()
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll("gantry-runs", 0o755); err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("gantry-runs", "emulation-")
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, nil, err
	}
	rt, err := docker.New(ctx, "", container.Config{Run: filepath.Base(dir), Dir: dir, TaskBinary: binary,
		Version: "emulation", Platform: &planner.Platform{Nodes: []planner.Node{{Name: "host", Speed: 1,
			Capacity: unit.Vector{unit.CPU: int64(cores) * 1000, unit.Memory: unit.Unlimited,
				unit.Disk: unit.Unlimited}}}, Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{0}},
			Latency: [][]int64{{0}}}})
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	return &calibrate.Lab{Runtime: rt, Dir: dir}, func() error {
		rt.Discard()
		return errors.Join(rt.Close(), os.RemoveAll(dir))
	}, nil
}
