// Command emulation has the task emulator do tasks of many kinds in containers, and makes the page of the resources
// that it was asked for and achieved. It keeps its measurements: interrupted, or stopped by -for, it continues with the
// same command. One page is one build: -again forgets earlier measurements.
//
//	emulation [-results FILE] [-page FILE] [-for DURATION] [-again] [-calm] [-note TEXT]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/sim/calibrate"
	"gantry/planner"
	"gantry/planner/unit"
)

type measured struct {
	Cell calibrate.Cell
	All  []calibrate.Achieved
	Busy float64 // cores that others used meanwhile

	ending time.Duration // CPU time that a task cannot measure itself
}

type results struct {
	Host, Kernel string
	Cores        int
	Cells        []measured
}

func main() {
	file := flag.String("results", "bin/emulation.json", "keep what was measured in `FILE`")
	page := flag.String("page", "docs/emulation.md", "write the page to `FILE`")
	limit := flag.Duration("for", time.Hour, "begin nothing after `DURATION`")
	again := flag.Bool("again", false, "forget what was measured before")
	calm := flag.Bool("calm", false, "leave out the tasks that others disturb")
	note := flag.String("note", "", "`TEXT` about the host, for the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *file, *page, *note, *limit, *again, *calm); err != nil {
		fmt.Fprintln(os.Stderr, "emulation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file, page, note string, limit time.Duration, again, calm bool) (err error) {
	r := results{Cores: runtime.NumCPU()}
	if text, err := os.ReadFile(file); err == nil && !again {
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	lab, done, err := open(ctx, &r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	end := time.Now().Add(limit)
	left := 0
	for _, c := range calibrate.Cells(r.Cores) {
		if c.Contended && calm {
			left++
			continue
		}
		if slices.ContainsFunc(r.Cells, func(m measured) bool {
			return m.Cell.String() == c.String() && m.Cell.Rate == c.Rate
		}) {
			continue
		}
		n := 3
		if c.CPU == 0 { // the cost of ending in all the others is taken from these
			n = 9
		} else if c.Run >= 3*time.Second {
			n = 1
		}
		if time.Now().Add(time.Duration(n) * (c.Run + 500*time.Millisecond)).After(end) {
			left++
			continue
		}
		load := calibrate.Meter()
		m := measured{Cell: c}
		if m.All, err = lab.Perform(ctx, c, r.Cores, n); err != nil {
			return fmt.Errorf("%v: %w", &c, err)
		}
		for _, a := range m.All {
			load.Less(a.CPU)
		}
		m.Busy, _ = load.Read()
		r.Cells = append(r.Cells, m)
		r.close()
		if v := r.Cells[len(r.Cells)-1].judge(); len(v.Misses) > 0 {
			fmt.Printf("%v: missed: %s\n", &c, strings.Join(v.Misses, "; "))
		}
		text, err := json.MarshalIndent(&r, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	if left > 0 {
		fmt.Printf("%d of %d rows left: the same command continues\n", left, left+len(r.Cells))
		note += fmt.Sprintf(" %d of %d rows are not measured yet.", left, left+len(r.Cells))
	}
	return os.WriteFile(page, []byte(r.page(note)), 0o644)
}

// open makes a runtime of containers in a directory of its own, which done removes.
func open(ctx context.Context, r *results) (lab *calibrate.Lab, done func() error, err error) {
	binary, err := docker.FindTaskBinary()
	if err != nil {
		return nil, nil, err
	}
	cli, err := docker.Connect(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	if info, err := cli.Info(ctx); err == nil {
		r.Kernel, r.Host = info.KernelVersion, fmt.Sprintf("%d cores, %d GB of memory, Docker Engine %s", info.NCPU,
			info.MemTotal/1e9, info.ServerVersion)
	}
	cli.Close()
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
			Capacity: unit.Vector{unit.CPU: int64(r.Cores) * 1000, unit.Memory: unit.Unlimited,
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
