package cmd

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor/container"
	"gantry/executor/container/slurm"
	"gantry/executor/container/slurm/allocation"
)

// doctorSlurm asks each node of an allocation for the limits that it enforces. Nodes are asked one after the other,
// since virtual ones share a host, whose load would disturb the measurements.
func doctorSlurm(c *cli.Context) error {
	home, err := homeOf(c)
	if err != nil {
		return err
	}
	set := &session.Settings{}
	if err := readSlurm(c, set, true); err != nil {
		return err
	}
	// The directory and the allocation have to go also if the reader does, or the user loses patience.
	var stop func()
	c.Context, stop = signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	asked, err := session.AskNodes(c.Context, home, set, c.String("slurm-job"), term.New(c.Bool("json")), "--probe")
	if c.Context.Err() != nil && asked == nil {
		return exit.Stoppedf("stopped")
	} else if err != nil {
		return err
	}
	defer asked.Close()
	check, a := asked.Check, asked.Allocation
	if set.NodeRuntime != "" {
		check.Args = append(check.Args, "--runtime", set.NodeRuntime)
	}
	lacking, unusable := 0, 0
	for _, n := range a.Nodes() {
		facts, usable, err := examineNode(c, check, a, n)
		if c.Context.Err() != nil {
			return exit.Stoppedf("stopped")
		}
		if err != nil {
			return err
		}
		if !c.Bool("json") {
			fmt.Fprintf(c.App.Writer, "node %s: %s, %s\n", n.Name, term.Plural(n.Cores, "core"), term.Size(&n.Memory))
		}
		lacking += printFacts(c, n.Name, facts)
		if !usable {
			unusable++
		}
	}
	if unusable > 0 {
		return exit.Hostf("%s cannot be used", term.Plural(unusable, "node"))
	}
	if lacking > 0 && c.Bool("strict") {
		return exit.Hostf("%s not enforced by these nodes", term.Plural(lacking, "fact"))
	}
	return nil
}

// examineNode returns the facts about a node, and whether gantry can run tasks there.
func examineNode(c *cli.Context, check slurm.Check, a *allocation.Allocation,
	n allocation.Node) (facts []container.Fact, usable bool, err error) {
	root := filepath.Dir(check.Dir)
	if !n.Up {
		return []container.Fact{{Name: "node", Verdict: container.No, Evidence: "Slurm says that it is " + n.State,
			Advice: "leave it out (salloc --exclude)"}}, false, nil
	}
	check.Nodes = []string{n.Name}
	reports, err := check.Ask(c.Context, a)
	if c.Context.Err() != nil {
		return nil, false, err
	}
	if err != nil {
		f := container.Fact{Name: "shared-directory", Verdict: container.No, Evidence: err.Error()}
		if said, ok := errors.AsType[*allocation.Error](err); ok {
			f.Evidence, f.Advice = said.What, said.Remedy
		}
		return []container.Fact{f}, false, nil
	}
	r := reports[0]
	facts = []container.Fact{{Name: "shared-directory", Verdict: container.Yes, Evidence: "it sees " + root}}
	if r.Runtime == "" {
		return append(facts, container.Fact{Name: "container-runtime", Verdict: container.No, Evidence: r.Failed,
			Advice: "install crun or runc there, or leave it out (salloc --exclude)"}), false, nil
	}
	facts = append(facts, container.Fact{Name: "container-runtime", Verdict: container.Yes, Evidence: r.Runtime})
	return append(facts, r.Facts...), r.Failed == "", nil
}
