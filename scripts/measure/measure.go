// Package measure has the parts that the programs below scripts share: their beginning and end, gantry as a command,
// the cost of commands, and tables.
package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gantry/executor/sim/calibrate"
	"gantry/sqlite"
)

// Main reads the flags, runs a program, and ends the process: with 130 if a signal stops it.
func Main(name string, run func(context.Context) error) {
	flag.Parse()
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err, code := run(ctx), 1
	switch {
	case ctx.Err() != nil:
		err, code = errors.New("stopped; the same command begins again, or continues if measurements are kept"), 130
	case err == nil:
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	os.Exit(code)
}

// Gantry is the path of a gantry.
type Gantry string

// Built is the gantry that make build makes.
const Built Gantry = "bin/gantry"

// Command is gantry with arguments. It is interrupted, as by Ctrl-C, when the context ends.
func (g Gantry) Command(ctx context.Context, args ...string) *exec.Cmd {
	path := string(g)
	if abs, err := filepath.Abs(path); err == nil && strings.ContainsRune(path, filepath.Separator) {
		path = abs
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// Run runs gantry and returns its standard output.
func (g Gantry) Run(ctx context.Context, args ...string) ([]byte, error) {
	out, err := g.Command(ctx, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		err = fmt.Errorf("gantry %s: %w", strings.Join(args, " "), err)
	}
	return out, err
}

// JSON runs gantry and reads its standard output into v.
func (g Gantry) JSON(ctx context.Context, v any, args ...string) error {
	out, err := g.Run(ctx, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, v); err != nil {
		return fmt.Errorf("gantry %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// Cost is the time and memory that something took.
type Cost struct {
	Wall, CPU time.Duration
	Memory    int64 // bytes, at its peak
}

// Of runs a command and measures it.
func Of(cmd *exec.Cmd) (Cost, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		return Cost{}, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out.String())
	}
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return Cost{time.Since(begun), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), use.Maxrss << 10}, nil
}

// Own measures work of this process, but for its memory.
func Own(work func() error) (Cost, error) {
	begun, before := time.Now(), calibrate.OwnCPU()
	err := work()
	return Cost{Wall: time.Since(begun), CPU: calibrate.OwnCPU() - before}, err
}

// Turns measures some ways n times, in turns, so that a busy machine is busy for all. It returns the median costs.
func Turns(n int, ways ...func() (Cost, error)) ([]Cost, error) {
	all := make([][]Cost, len(ways))
	for range n {
		for i, way := range ways {
			c, err := way()
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], c)
		}
	}
	medians := make([]Cost, len(ways))
	for i, cs := range all {
		middle := func(of func(Cost) int64) int64 { return slices.Sorted(slices.Values(Each(cs, of)))[len(cs)/2] }
		medians[i] = Cost{time.Duration(middle(func(c Cost) int64 { return int64(c.Wall) })),
			time.Duration(middle(func(c Cost) int64 { return int64(c.CPU) })),
			middle(func(c Cost) int64 { return c.Memory })}
	}
	return medians, nil
}

// Head writes the head of a table in Markdown, whose columns have a rule such as --- each.
func Head(w io.Writer, rule string, names ...string) {
	Row(w, names...)
	Row(w, slices.Repeat([]string{rule}, len(names))...)
}

// Row writes a row of a table in Markdown.
func Row(w io.Writer, cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

// Each lists a value of each of some things.
func Each[T, V any](all []T, of func(T) V) []V {
	out := make([]V, len(all))
	for i, x := range all {
		out[i] = of(x)
	}
	return out
}

// LogSize is the size in bytes of the log in a directory of runs, what is not yet in its main file included.
func LogSize(dir string) (size int64) {
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(filepath.Join(dir, sqlite.FileName+suffix)); err == nil {
			size += info.Size()
		}
	}
	return size
}
