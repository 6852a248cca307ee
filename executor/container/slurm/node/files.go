// Package node is the part of the runtime of Slurm that runs on a node, within a job step: it reads a launch from the
// run directory, which the node shares with gantry, has an engine of the node run the container below the control group
// of the step, and leaves its end and its counters there. It needs no daemon and no port.
package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gantry/cgroup"
	"gantry/executor/container"
)

// Dir is the directory of a container below the run directory:
//
//	launch.json  the container that the step runs
//	step         the name of the job step that is to run it; another one that finds it lets it be
//	began.json   the program was started
//	orders       signals and freezes, a line each, and acks their outcomes
//	result.json  how it ended, synced: it appears whole
type Dir string

// Top is the directory of all containers of a run, Steps that of the job steps.
func Top(runDir string) string { return filepath.Join(runDir, "control", "slurm", "containers") }

// Steps is the directory in which each job step has one of its own while it lives.
func Steps(runDir string) string { return filepath.Join(runDir, "control", "slurm", "steps") }

// DirOf is the directory of a container.
func DirOf(runDir, id string) Dir { return Dir(filepath.Join(Top(runDir), id)) }

// Launch describes a container that a step runs.
type Launch struct {
	Spec container.Spec `json:"spec"`
	Node string         `json:"node"` // that it is for, as Slurm names it
}

// Began says that a container was started.
type Began struct {
	Pid    int  `json:"pid"`
	Paused bool `json:"paused"`
}

// Result is how a container ended.
type Result struct {
	State container.State `json:"state"`
	Final cgroup.Final    `json:"final"`
	// Failed says why the engine of the node could not start it; NoImage and Invalid are the kind of that error.
	Failed  string `json:"failed,omitempty"`
	NoImage bool   `json:"no_image,omitempty"`
	Invalid bool   `json:"invalid,omitempty"`
	// Stopped: Slurm told the step to end, and the container was killed for it.
	Stopped        bool   `json:"stopped,omitempty"`
	Stdout, Stderr []byte `json:",omitempty"`
}

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// Make makes the directory and writes the launch.
func (d Dir) Make(l *Launch) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	return write(d.path("launch.json"), l, false)
}

// Launch reads the launch.
func (d Dir) Launch() (*Launch, error) {
	l := &Launch{}
	return l, read(d.path("launch.json"), l)
}

// Assign says which step is to run it.
func (d Dir) Assign(step string) error { return replace(d.path("step"), []byte(step), false) }

// Step is the step that is to run it; "" if none is.
func (d Dir) Step() (string, error) {
	name, err := os.ReadFile(d.path("step"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(name), err
}

// Began returns nil while the program was not started.
func (d Dir) Began() (*Began, error) { return optional[Began](d.path("began.json")) }

// Begin notes that the program was started.
func (d Dir) Begin(b Began) error { return write(d.path("began.json"), b, false) }

// Result returns nil while there is none.
func (d Dir) Result() (*Result, error) { return optional[Result](d.path("result.json")) }

func optional[T any](path string) (*T, error) {
	v := new(T)
	err := read(path, v)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Order adds an order.
func (d Dir) Order(n int, verb string) error {
	return d.add("orders", n, verb)
}

// add adds a line to a file.
func (d Dir) add(name string, n int, text string) error {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d %s\n", n, text)
	return errors.Join(err, f.Close())
}

// Orders are all orders so far, by number; a line that is not whole does not count.
func (d Dir) Orders() ([]Line, error) { return lines(d.path("orders")) }

// Acks are the outcomes of orders: "" if all went well.
func (d Dir) Acks() ([]Line, error) { return lines(d.path("acks")) }

// Line is an order, or its outcome.
type Line struct {
	N    int
	Text string
}

func lines(path string) (out []Line, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		number, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if n, err := strconv.Atoi(number); err == nil {
			out = append(out, Line{n, rest})
		}
	}
	return out, err
}

// ack notes the outcome of an order.
func (d Dir) ack(n int, failed error) error {
	text := ""
	if failed != nil {
		text = strings.Join(strings.Fields(failed.Error()), " ")
	}
	return d.add("acks", n, text)
}

func read(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func write(path string, v any, synced bool) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return replace(path, text, synced)
}

// replace has a file appear whole, and if asked so that it is there after a crash of the host.
func replace(path string, text []byte, synced bool) error {
	f, err := os.OpenFile(path+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && synced {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".part", path)
	}
	if err != nil || !synced {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
