package slurm

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"gantry/executor/container"
	"gantry/executor/container/fetch"
	"gantry/executor/slurm/allocation"
)

// Report is what a node says of itself.
type Report struct {
	Node    string           `json:"node"`
	Runtime string           `json:"runtime"` // whose containers: oci, docker or none; "" if there is none as asked
	Facts   []container.Fact `json:"facts"`
	Images  []Image          `json:"images"`
	// Failed says why there is no runtime, or an image is missing, which is what NoImage says.
	Failed  string `json:"failed,omitempty"`
	NoImage bool   `json:"no_image,omitempty"`
	// Rate is how many bytes a core hashes in a second of its time; 0: it was not measured.
	Rate float64 `json:"rate,omitempty"`
	// Carried is gantry-task on a node that does not see the directory: it was brought there.
	Carried string `json:"-"`
}

// Image is an image that a node has.
type Image struct {
	fetch.Image
	Env []string
}

// Check says what is asked of nodes before a run begins.
type Check struct {
	Dir     string // of the run, or beside it: the nodes have to see it
	Program string // gantry-task, in there
	Args    []string
	Nodes   []string
	// Carry has programs brought to nodes that do not see the directory; else such a node is an error.
	Carry bool
}

// unseen is what slurmstepd says of a program that it cannot find.
var unseen = regexp.MustCompile(`execve.*: (No such file or directory|Not a directory|Permission denied)`)

// most is how many nodes are asked at once.
const most = 32

// Ask runs a job step on each node that says what the node can do, in the order of nodes. The error is an
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
	for _, err := range errs {
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (c Check) ask(ctx context.Context, a *allocation.Allocation, name string) (r Report, err error) {
	path := filepath.Join(c.Dir, "report-"+name+".json")
	cpus, memory := 1, int64(0)
	for _, n := range a.Nodes() {
		if n.Name == name {
			cpus, memory = n.Cores, n.Memory
		}
	}
	argv := append([]string{c.Program, "slurm-node", "--report", path}, c.Args...)
	spec := allocation.StepSpec{Node: name, CPUs: cpus, Memory: memory, Name: "gantry-check", Argv: argv, Dir: "/"}
	run, err := a.StartStep(ctx, spec)
	if err != nil {
		return r, err
	}
	stop := context.AfterFunc(ctx, run.End)
	defer stop()
	run.Stdin().Close()
	_, _ = io.Copy(io.Discard, run.Stdout())
	failed := run.Wait()
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		return r, json.Unmarshal(text, &r)
	case !errors.Is(err, fs.ErrNotExist):
		return r, err
	case failed != nil && c.Carry && unseen.MatchString(run.Said()):
		return c.carry(ctx, a, spec)
	case failed != nil && unseen.MatchString(run.Said()):
		return r, &allocation.Error{What: fmt.Sprintf("node %s does not see %s", name, c.Dir),
			Remedy: "name a directory that all nodes share with --shared", Err: failed}
	case failed != nil:
		return r, fmt.Errorf("ask node %s what it can do: %w", name, failed)
	}
	return r, &allocation.Error{What: fmt.Sprintf("node %s writes to another directory %s than is here", name, c.Dir),
		Remedy: "name a directory that all nodes share with --shared"}
}

// forPrograms makes a directory for programs on a node, and waits until they are there; "have" says that they are.
const forPrograms = `[ -e "$1/whole" ] && { echo have; exit; }
umask 022; mkdir -p "$1" && echo "ready $SLURM_STEP_ID" && read -r all && [ "$all" = all ] && : >"$1/whole"`

// ProgramsPrefix begins the name of that directory.
const ProgramsPrefix = "gantry-programs-"

// carry brings the programs to a node that does not see them, and asks it then.
func (c Check) carry(ctx context.Context, a *allocation.Allocation, spec allocation.StepSpec) (r Report, err error) {
	from := filepath.Dir(c.Program)
	sum, err := sumOf(filepath.Join(from, "gantry"), filepath.Join(from, "gantry-task"))
	if err != nil {
		return r, err
	}
	dir := filepath.Join(filepath.Dir(c.Dir), ProgramsPrefix+sum[:12])
	spec.Argv = []string{"/bin/sh", "-c", forPrograms, "gantry-check", dir}
	run, err := a.StartStep(ctx, spec)
	if err != nil {
		return r, err
	}
	defer context.AfterFunc(ctx, run.End)()
	out := bufio.NewReader(run.Stdout())
	line, _ := out.ReadString('\n')
	if number, ok := strings.CutPrefix(strings.TrimSpace(line), "ready "); ok {
		for _, name := range []string{"gantry", "gantry-task"} {
			if err == nil {
				err = a.Broadcast(ctx, number, filepath.Join(from, name), filepath.Join(dir, name))
			}
		}
		if err == nil {
			_, err = io.WriteString(run.Stdin(), "all\n")
		}
	}
	run.Stdin().Close()
	_, _ = io.Copy(io.Discard, out)
	failed := run.Wait()
	switch {
	case err != nil:
		return r, fmt.Errorf("node %s does not see %s: %w", spec.Node, filepath.Dir(c.Dir), err)
	case failed != nil:
		what := fmt.Sprintf("node %s does not see %s, nor can gantry make it there", spec.Node, filepath.Dir(c.Dir))
		return r, &allocation.Error{What: what, Err: failed, Remedy: "name a directory that can be made on all nodes " +
			"with --dir, or one that they share with --shared"}
	}
	r.Carried = filepath.Join(dir, "gantry-task")
	spec.Argv = append([]string{r.Carried, "slurm-node", "--report", "-"}, c.Args...)
	if run, err = a.StartStep(ctx, spec); err != nil {
		return r, err
	}
	defer context.AfterFunc(ctx, run.End)()
	run.Stdin().Close()
	text, err := io.ReadAll(run.Stdout())
	if failed := run.Wait(); failed != nil {
		return r, fmt.Errorf("ask node %s what it can do: %w", spec.Node, failed)
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// sumOf is the checksum of files, one after the other.
func sumOf(paths ...string) (string, error) {
	h := sha256.New()
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Withdraw removes the programs that were brought to nodes, also if the context has ended.
func (c Check) Withdraw(ctx context.Context, a *allocation.Allocation, reports []Report) {
	ctx = context.WithoutCancel(ctx)
	var work sync.WaitGroup
	for _, r := range reports {
		if dir := filepath.Dir(r.Carried); strings.HasPrefix(filepath.Base(dir), ProgramsPrefix) {
			work.Go(func() {
				run, err := a.StartStep(ctx, allocation.StepSpec{Node: r.Node, CPUs: 1, Name: "gantry-check", Dir: "/",
					Argv: []string{"/bin/rm", "-rf", dir}})
				if err == nil {
					run.Stdin().Close()
					_ = run.Wait()
				}
			})
		}
	}
	work.Wait()
}

// Put puts the programs that job steps need into a directory that the nodes see, and returns the path of gantry-task
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
		if err := copyFile(from, to); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "gantry-task"), nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
