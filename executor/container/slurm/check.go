package slurm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"gantry/executor/container"
	"gantry/executor/container/fetch"
	"gantry/executor/container/slurm/allocation"
)

// Report is a node's report of itself.
type Report struct {
	Node    string           `json:"node"`
	Runtime string           `json:"runtime"` // whose containers: oci or docker; "" if there is none as asked
	Facts   []container.Fact `json:"facts"`
	Images  []Image          `json:"images"`
	// Failed says why there is no runtime, or, with NoImage, why an image is missing.
	Failed  string `json:"failed,omitempty"`
	NoImage bool   `json:"no_image,omitempty"`
}

// Image is an image that a node has.
type Image struct {
	fetch.Image
	Env []string
}

// Check configures the questions to nodes before a run begins.
type Check struct {
	Dir     string // of the run, or beside it: the nodes have to see it
	Program string // gantry, in there
	Args    []string
	Nodes   []string
}

// unseen matches the message of slurmstepd about a program that it cannot find.
var unseen = regexp.MustCompile(`execve.*: (No such file or directory|Not a directory|Permission denied)`)

// most is how many nodes are asked at once.
const most = 32

// Ask runs a job step on each node that reports the node's abilities, in the order of nodes. The error is an
// *allocation.Error if a node does not see the directory, or does not answer.
func (c Check) Ask(ctx context.Context, a *allocation.Allocation) ([]Report, error) {
	out, errs := make([]Report, len(c.Nodes)), make([]error, len(c.Nodes))
	var work sync.WaitGroup
	free := make(chan struct{}, most)
	for i, name := range c.Nodes {
		work.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			out[i], errs[i] = c.ask(ctx, a, name)
		})
	}
	work.Wait()
	return out, cmp.Or(errs...)
}

func (c Check) ask(ctx context.Context, a *allocation.Allocation, name string) (r Report, err error) {
	path := filepath.Join(c.Dir, "report-"+name+".json")
	spec := allocation.StepSpec{Node: name, Name: "gantry-check", Dir: "/",
		Argv: append([]string{c.Program, "slurm-node", "--report", path}, c.Args...)}
	spec.CPUs, spec.Memory = a.Size(name)
	said, failed := a.RunStep(ctx, spec)
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		return r, json.Unmarshal(text, &r)
	case !errors.Is(err, fs.ErrNotExist):
		return r, err
	case failed != nil && unseen.MatchString(said):
		return r, &allocation.Error{What: fmt.Sprintf("node %s does not see %s", name, c.Dir),
			Remedy: "name a directory that all nodes share with --shared", Err: failed}
	case failed != nil:
		return r, fmt.Errorf("ask node %s what it can do: %w", name, failed)
	}
	return r, &allocation.Error{What: fmt.Sprintf("node %s writes to another directory %s than is here", name, c.Dir),
		Remedy: "name a directory that all nodes share with --shared"}
}

// Put puts the programs that job steps need into a directory that the nodes see, and returns the path of gantry
// there.
func Put(dir, gantry, task string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, from := range map[string]string{"gantry": gantry, "gantry-task": task} {
		to := filepath.Join(dir, name)
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if os.Link(from, to) == nil {
			continue
		}
		program, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, program, 0o755)
		}
		if err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "gantry"), nil
}
