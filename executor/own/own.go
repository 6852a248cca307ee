// Package own has policies that are programs of the user's: exec:./mine.py in place of the name of a policy. A program
// is started once for each run or simulation, in its first round, and speaks lines of JSON over its standard input and
// output (docs/own-policies.md and its schema): Policy tells it the news of each round and carries its answer out in
// the draft, which checks it as it checks every policy. What it decides is in the log as orders, so that nobody asks a
// program again about the past: one that is started in the middle of a run is told the whole state.
//
// Only a run or a simulation whose user named the program starts it. Predictions, pages and replays of a log do not.
package own

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/rank"
	"gantry/planner/unit"
	"gantry/trace/reader"
)

const prefix = "exec:"

// ErrProgram is why a run ends whose program broke off or broke the protocol.
var ErrProgram = errors.New("the program of the policy")

func init() {
	policy.Register(policy.Row{Name: "exec", Title: "a program of your own",
		Source: "exec:PROGRAM or exec:PROGRAM,KEY=VALUE; docs/own-policies.md has the protocol",
		About: "Gantry starts PROGRAM, tells it the news of each round, and carries out what it answers: where tasks " +
			"start, or an order of tasks. timeout=10s bounds the time of an answer, freeze=yes lets it suspend " +
			"tasks; other keys are its own.",
		Read: func(text string) (planner.Policy, error) { return read(text) }})
}

// Is reports whether a policy is a program.
func Is(spec string) bool { return strings.HasPrefix(spec, prefix) }

// Program is the file of a policy that is a program and names it by a path; "" for others, and for a socket.
func Program(spec string) string {
	path, ok := strings.CutPrefix(spec, prefix)
	path, _, _ = strings.Cut(path, ",")
	if about, err := os.Stat(path); !ok || !strings.Contains(path, "/") || err != nil || !about.Mode().IsRegular() {
		return ""
	}
	return path
}

// In makes the path of a program absolute, if the policy is one and names it by a path from directory dir.
func In(dir, spec string) string {
	if path, ok := strings.CutPrefix(spec, prefix); ok && strings.Contains(path, "/") && !filepath.IsAbs(path) {
		if whole, err := filepath.Abs(filepath.Join(dir, path)); err == nil {
			return prefix + whole
		}
	}
	return spec
}

// Policy is a policy that a program has.
type Policy struct {
	path    string
	timeout time.Duration
	freezes bool
	params  map[string]string

	peer     *peer // nil: it is not started
	ranks    *rank.Upward
	capacity []unit.Vector    // by node: as the program knows it
	free     []unit.Vector    // the same
	due      []planner.TaskID // to start by the last round
	promised map[planner.TaskID]bool
	planned  map[planner.TaskID]planner.NodeID // for later, as the log has it
	ordered  []int64                           // by task: the last round in which it was in an order
	asked    planner.Time                      // when the last round was
	kinds    []planner.NodeID                  // by node: the first one of its speed and capacity
	line     []byte
	idle     int // rounds without news in which it asked for a wake alone
}

// mostIdle bounds such rounds: a simulation would never end.
const mostIdle = 100_000

// freezing is a Policy that suspends tasks, and lets them continue itself.
type freezing struct{ *Policy }

// Suspends implements planner.Suspender.
func (freezing) Suspends() {}

// Preempts says to package policy that it may preempt tasks.
func (*Policy) Preempts() bool { return true }

// read reads PROGRAM,KEY=VALUE,…
func read(text string) (planner.Policy, error) {
	parts := strings.Split(text, ",")
	p := &Policy{path: parts[0], timeout: 10 * time.Second, params: map[string]string{}}
	fail := func(format string, args ...any) (planner.Policy, error) {
		return nil, fmt.Errorf("policy %s%s: "+format, append([]any{prefix, text}, args...)...)
	}
	if p.path == "" {
		return fail("name a program, as in exec:./mine.py")
	}
	given := map[string]bool{}
	for _, part := range parts[1:] {
		key, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || key == "":
			return fail("%q is no KEY=VALUE", part)
		case given[key]:
			return fail("%s is given twice", key)
		case key == "timeout":
			var err error
			if p.timeout, err = reader.Duration(value); err != nil || p.timeout <= 0 {
				return fail("timeout=%q: give a time above 0, such as 10s", value)
			}
		case key == "freeze":
			if p.freezes = value == "yes"; !p.freezes && value != "no" {
				return fail("freeze=%q: choose yes or no", value)
			}
		default:
			p.params[key] = value
		}
		given[key] = true
	}
	if about, err := os.Stat(p.path); err != nil || about.Mode().Type() != os.ModeSocket {
		if _, err := exec.LookPath(p.path); err != nil {
			return fail("%w: name an executable file, with its directory (chmod +x makes one)", err)
		}
	}
	if p.freezes {
		return freezing{p}, nil
	}
	return p, nil
}

// Plan implements planner.Policy.
func (p *Policy) Plan(ctx context.Context, c *planner.Cycle) error {
	err := p.plan(ctx, c)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w %s: %w", ErrProgram, p.path, err)
}

func (p *Policy) plan(ctx context.Context, c *planner.Cycle) error {
	whole := p.peer == nil
	if whole {
		if err := p.begin(ctx, c); err != nil {
			return err
		}
	}
	said := answer{}
	if err := p.ask(ctx, p.news(c, whole), &said); err != nil {
		return err
	}
	return p.carryOut(ctx, c, &said)
}

// begin starts the program and introduces gantry.
func (p *Policy) begin(ctx context.Context, c *planner.Cycle) (err error) {
	if p.peer, err = start(p.path); err != nil {
		return err
	}
	p.ranks, p.due, p.capacity, p.free, p.kinds = &rank.Upward{}, nil, nil, nil, nil
	p.promised = map[planner.TaskID]bool{}
	if p.planned = nil; c.Round() > 1 { // the log may have plans of a program that was there before
		c.Note(planned(planner.None, unit.Never, ""))
	}
	said := greeting{}
	if err := p.ask(ctx, p.introduction(c), &said); err != nil {
		return fmt.Errorf("the first message: %w", err)
	}
	if said.Protocol != protocol {
		return fmt.Errorf("it speaks protocol %d, and gantry speaks %d", said.Protocol, protocol)
	}
	return nil
}

// End implements planner.Ender.
func (p *Policy) End() {
	if p.peer != nil {
		p.peer.end()
		p.peer = nil
	}
}
