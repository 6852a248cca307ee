// Package allocation uses nodes that Slurm granted: it finds and watches an allocation, and starts, lists and cancels
// job steps in it. It calls Slurm's commands with formats that Slurm 20.11 and later have; it does not link Slurm's
// library, nor does it need accounting (slurmdbd) or the REST server.
package allocation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gantry/cgroup"
)

// Node is a node of an allocation.
type Node struct {
	Name   string
	Cores  int   // of the allocation, as Slurm counts CPUs
	Memory int64 // bytes of the allocation
	Up     bool  // steps can run
	State  string
}

// Change is the present state of an allocation.
type Change struct {
	Over  bool
	Why   string // why it is over
	Nodes []Node // those of the beginning, also if they have left the allocation
}

// Patience is how long slurmctld may give no answer before an allocation that is watched counts as over.
const Patience = 30 * time.Minute

// Allocation is a job of Slurm whose nodes gantry uses. It is safe for concurrent use.
type Allocation struct {
	id string

	mu    sync.Mutex
	nodes []Node
	away  time.Time
}

// ID returns the number of the job.
func (a *Allocation) ID() string { return a.id }

// Nodes returns the nodes as last seen, in Slurm's order.
func (a *Allocation) Nodes() []Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.nodes)
}

// Size is the share of the allocation in a node: its CPUs, at least one, and its memory.
func (a *Allocation) Size(node string) (cpus int, memory int64) {
	for _, n := range a.Nodes() {
		if n.Name == node {
			return max(1, n.Cores), n.Memory
		}
	}
	return 1, 0
}

// Away reports whether slurmctld did not answer when it was last asked.
func (a *Allocation) Away() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.away.IsZero()
}

var number = regexp.MustCompile(`^[1-9][0-9]{0,9}$`)

// Attach uses an allocation that the caller has. It asks a slurmctld that does not answer a few times.
func Attach(ctx context.Context, id string) (*Allocation, error) {
	if !number.MatchString(id) {
		return nil, &Error{What: fmt.Sprintf("%q is no number of a Slurm job", clip(id, 40)),
			Remedy: "squeue --me lists yours"}
	}
	if err := ready(); err != nil {
		return nil, err
	}
	a := &Allocation{id: id}
	var err error
	for try := range tries {
		if try > 0 && !pause(ctx, time.Second) {
			return nil, context.Cause(ctx)
		}
		var c Change
		if c, err = a.Look(ctx); err == nil {
			if c.Over {
				return nil, &Error{What: "allocation " + id + " cannot be used: " + c.Why, over: true,
					Remedy: "squeue --me lists yours, salloc --no-kill requests one"}
			}
			return a, nil
		}
		if !errors.Is(err, ErrAway) {
			return nil, err
		}
	}
	return nil, &Error{What: "Slurm's controller (slurmctld) does not answer", Err: err,
		Remedy: "scontrol ping says whether it is up, munge -n whether munge is; try again when both are"}
}

// pause waits; it reports false if the context ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Inside uses the allocation that gantry runs in, if it runs in one.
func Inside(ctx context.Context) (*Allocation, bool, error) {
	id := os.Getenv("SLURM_JOB_ID")
	if id == "" {
		return nil, false, nil
	}
	a, err := Attach(ctx, id)
	return a, true, err
}

// job is a row of squeue.
type job struct {
	state, uid, nodes, reason string
}

// jobFormat has nothing that a user can write, but the reason, which is last.
const jobFormat = "%A|%T|%U|%N|%r"

// find asks squeue about a job. It returns false if Slurm does not know it, or not any more.
func find(ctx context.Context, id string) (job, bool, error) {
	out, err := ask(ctx, "squeue", "--noheader", "--states=all", "--jobs="+id, "--format="+jobFormat)
	if err != nil {
		if strings.Contains(err.Error(), "Invalid job id") {
			return job{}, false, nil
		}
		return job{}, false, err
	}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 5)
		if len(f) != 5 {
			return job{}, false, fmt.Errorf("squeue printed %q, which has no five fields", clip(line, 100))
		}
		if f[0] == id {
			return job{f[1], f[2], f[3], clip(f[4], 200)}, true, nil
		}
	}
	return job{}, false, nil
}

const nodeFailed = "a node of it failed (allocations that are to survive that are made with --no-kill)"

// over says why a job is over, "" if it is not.
func (j job) over() string {
	switch j.state {
	case "RUNNING":
		return ""
	case "PENDING", "CONFIGURING":
		return "it has not begun (" + strings.ToLower(j.state) + ", " + j.reason + ")"
	case "TIMEOUT":
		return "it reached its time limit"
	case "CANCELLED":
		return "it was cancelled"
	case "NODE_FAIL":
		return nodeFailed
	case "COMPLETING": // only the reason tells the state after that
		switch j.reason {
		case "TimeLimit":
			return "it reached its time limit"
		case "NodeDown":
			return nodeFailed
		}
		return "it has ended, or was cancelled"
	case "COMPLETED", "FAILED", "DEADLINE", "PREEMPTED", "REVOKED", "BOOT_FAIL", "OUT_OF_MEMORY":
		return "it has ended (" + strings.ToLower(j.state) + ")"
	}
	return "it is " + strings.ToLower(clip(j.state, 40)) // such as suspended
}

// Look asks Slurm for the state of the allocation. An error that is ErrAway says nothing about it.
func (a *Allocation) Look(ctx context.Context) (Change, error) {
	c, err := a.look(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		if errors.Is(err, ErrAway) && a.away.IsZero() {
			a.away = time.Now()
		}
		return Change{}, err
	}
	a.away = time.Time{}
	if c.Over {
		c.Nodes = slices.Clone(a.nodes)
		return c, nil
	}
	if a.nodes == nil {
		a.nodes = c.Nodes
	} else {
		for i := range a.nodes {
			n := &a.nodes[i]
			if at := slices.IndexFunc(c.Nodes, func(x Node) bool { return x.Name == n.Name }); at >= 0 {
				n.Up, n.State = c.Nodes[at].Up, c.Nodes[at].State
			} else {
				// Slurm takes a node that fails out of an allocation made with --no-kill, and never puts it back.
				n.Up, n.State = false, "no longer of the allocation"
			}
		}
	}
	c.Nodes = slices.Clone(a.nodes)
	return c, nil
}

func (a *Allocation) look(ctx context.Context) (Change, error) {
	j, known, err := find(ctx, a.id)
	if err != nil {
		return Change{}, err
	}
	if !known {
		return Change{Over: true, Why: "Slurm does not know it, or not any more"}, nil
	}
	if uid := strconv.Itoa(os.Getuid()); j.uid != uid {
		owner := "user " + clip(j.uid, 20)
		if u, err := user.LookupId(j.uid); err == nil {
			owner = u.Username
		}
		return Change{}, &Error{What: "allocation " + a.id + " is not yours: it belongs to " + owner,
			Remedy: "squeue --me lists yours, salloc --no-kill requests one"}
	}
	if why := j.over(); why != "" {
		return Change{Over: true, Why: why}, nil
	}
	nodes, err := a.describe(ctx, j.nodes)
	return Change{Nodes: nodes}, err
}

// share is a node's share in an allocation: "Nodes=n[1-2] CPU_IDs=0-1,4 Mem=4000".
var share = regexp.MustCompile(`(?: |^)Nodes=(\S+) CPU_IDs=([0-9,-]+) Mem=([0-9]+)(?: |$)`)

// describe returns the nodes of a list such as n[1-4,7], with their shares in the allocation.
func (a *Allocation) describe(ctx context.Context, list string) ([]Node, error) {
	names, err := hostnames(ctx, list)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	// Nodes are one to a line, once for each partition that they are in.
	out, err := ask(ctx, "sinfo", "--noheader", "--Node", "--nodes="+list, "--format=%N|%T|%c|%m")
	if err != nil {
		return nil, err
	}
	nodes := make([]Node, len(names))
	at := map[string]int{}
	for i, name := range names {
		nodes[i] = Node{Name: name, State: "unknown"}
		at[name] = i
	}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 4 {
			return nil, fmt.Errorf("sinfo printed %q, which has no four fields", clip(line, 100))
		}
		if i, ok := at[f[0]]; ok {
			nodes[i].State, nodes[i].Up = f[1], canRun(f[1])
			if nodes[i].Cores, err = strconv.Atoi(strings.TrimSuffix(f[2], "+")); err != nil {
				return nil, fmt.Errorf("sinfo says that node %s has %q CPUs", f[0], clip(f[2], 20))
			}
			if nodes[i].Memory, err = megabytes(f[3]); err != nil {
				return nil, fmt.Errorf("sinfo says that node %s has %q MB of memory", f[0], clip(f[3], 20))
			}
		}
	}
	a.mu.Lock()
	known := a.nodes != nil
	a.mu.Unlock()
	if known {
		return nodes, nil // sizes do not change
	}
	if out, err = ask(ctx, "scontrol", "--oneliner", "--detail", "show", "job", a.id); err != nil {
		return nil, err
	}
	for rest := out; ; {
		m := share.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		of, err := hostnames(ctx, rest[m[2]:m[3]])
		if err != nil {
			return nil, err
		}
		cores := cgroup.CountCPUs(rest[m[4]:m[5]])
		memory, err := megabytes(rest[m[6]:m[7]])
		if err != nil {
			return nil, err
		}
		for _, name := range of {
			i, ok := at[name]
			if !ok {
				continue
			}
			if cores > 0 {
				nodes[i].Cores = cores
			}
			if memory > 0 { // 0: Slurm does not share memory out at this site
				nodes[i].Memory = memory
			}
		}
		rest = rest[m[7]:]
	}
	return nodes, nil
}

// canRun reports whether steps can run on a node in a state. A node that does not answer is one that Slurm still hopes
// for: it may be busy, and steps on it go on.
func canRun(state string) bool {
	switch base := strings.TrimRight(strings.ToLower(state), "*~#!%$@^-+"); base {
	case "down", "unknown", "unk", "error", "fail", "future", "powered_down", "powering_down", "power_down", "reboot",
		"rebooting":
		return false
	}
	return state != ""
}

func megabytes(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "+"), 10, 64)
	if err != nil || n < 0 || n > 1<<42 {
		return 0, fmt.Errorf("%q is no number of megabytes", clip(text, 20))
	}
	return n << 20, nil
}

var hostlist = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.,\[\]-]*$`)

// hostnames returns the names in a list such as n[1-4,7], in its order.
func hostnames(ctx context.Context, list string) ([]string, error) {
	if list == "" || list == "(null)" {
		return nil, nil
	}
	if !hostlist.MatchString(list) {
		return nil, fmt.Errorf("%q is no list of nodes", clip(list, 100))
	}
	if !strings.ContainsAny(list, ",[") {
		return []string{list}, nil
	}
	out, err := ask(ctx, "scontrol", "show", "hostnames", list)
	if err != nil {
		return nil, err
	}
	return strings.Fields(out), nil
}

// Watch calls heard at once, and when something changed, until the context ends or the allocation is over. While
// slurmctld does not answer nothing changes, for as long as Patience; then the allocation counts as over.
func (a *Allocation) Watch(ctx context.Context, every time.Duration, heard func(Change)) {
	a.watch(ctx, every, Patience, heard)
}

func (a *Allocation) watch(ctx context.Context, every, patience time.Duration, heard func(Change)) {
	var last *Change
	for {
		c, err := a.Look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.mu.Lock()
			silent := a.away
			a.mu.Unlock()
			var refused *Error
			switch {
			case !silent.IsZero() && time.Since(silent) >= patience:
				c = Change{Over: true, Nodes: a.Nodes(),
					Why: fmt.Sprintf("slurmctld has not answered for %v", patience)}
			case errors.As(err, &refused) && !errors.Is(err, ErrAway) && strings.Contains(refused.What, "is not yours"):
				c = Change{Over: true, Why: refused.What, Nodes: a.Nodes()}
			default:
				if !pause(ctx, every) {
					return
				}
				continue
			}
		}
		if last == nil || last.Over != c.Over || !slices.Equal(last.Nodes, c.Nodes) {
			heard(c)
		}
		if last = &c; c.Over || !pause(ctx, every) {
			return
		}
	}
}

// cancel cancels a step; one that has ended is no error.
func cancel(ctx context.Context, id string, options ...string) error {
	_, err := ask(ctx, "scancel", append(options, id)...)
	if err != nil && (strings.Contains(err.Error(), "Invalid job id") ||
		strings.Contains(err.Error(), "Job/step already completing or completed") ||
		strings.Contains(err.Error(), ": No error")) { // 22.05 prints this as it sends SIGKILL to a step
		return nil
	}
	return err
}
