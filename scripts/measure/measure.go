// Package measure has the parts that the programs and tests below scripts share: gantry as a command, engines that plan
// as it does, and tables.
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

// Head writes the head of a table in Markdown, whose columns have a rule such as --- each.
func Head(w io.Writer, rule string, names ...string) {
	Row(w, names...)
	Row(w, slices.Repeat([]string{rule}, len(names))...)
}

// Row writes a row of a table in Markdown.
func Row(w io.Writer, cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

// LogSize is the size in bytes of the log in a directory of runs, what is not yet in its main file included.
func LogSize(dir string) (size int64) {
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(filepath.Join(dir, sqlite.FileName+suffix)); err == nil {
			size += info.Size()
		}
	}
	return size
}
