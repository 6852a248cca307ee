package benchmark

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// comparison is a command that two builds run in turn.
type comparison struct {
	what string
	args []string
	wall bool // counts wall time: the work is done by other processes
}

// before compares the build with an earlier one on commands that both have, in turns, and prints a table for a page.
// Figures are medians.
func (b *bench) before() error {
	if b.other == "" {
		return errors.New("-before FILE names the gantry to compare with")
	}
	wanted, err := regexp.Compile(b.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	all, err := b.comparisons()
	if err != nil {
		return err
	}
	fmt.Printf("median of %d turns; time is CPU time, wall time for containers\n\n", b.reps)
	fmt.Println("| command | time before, s | now, s | ratio | peak memory before, MB | now, MB | ratio | " +
		"log before, MB | now, MB |")
	fmt.Println("| --- | --: | --: | --: | --: | --: | --: | --: | --: |")
	for _, c := range all {
		if !wanted.MatchString(c.what) {
			continue
		}
		var size [2]int64
		ways := []func() (Cost, error){b.command(b.other, &size[0], c.args...),
			b.command(b.gantry, &size[1], c.args...)}
		if _, err := InTurns(1, ways...); err != nil { // warms caches
			return err
		}
		m, err := InTurns(b.reps, ways...)
		if err != nil {
			return err
		}
		took := func(c Cost) float64 { return c.CPU.Seconds() }
		if c.wall {
			took = func(c Cost) float64 { return c.Wall.Seconds() }
		}
		mb := func(c Cost) float64 { return float64(c.Memory) / 1e6 }
		logs := "– | –"
		if size[0] > 0 {
			logs = fmt.Sprintf("%.1f | %.1f", float64(size[0])/1e6, float64(size[1])/1e6)
		}
		fmt.Printf("| %s | %.3f | %.3f | %.2f | %.0f | %.0f | %.2f | %s |\n", c.what, took(m[0]), took(m[1]),
			took(m[1])/took(m[0]), mb(m[0]), mb(m[1]), mb(m[1])/mb(m[0]), logs)
	}
	return nil
}

func (b *bench) comparisons() ([]comparison, error) {
	in, err := b.inputs()
	if err != nil {
		return nil, err
	}
	short := map[string]string{}
	for of, count := range map[string]int{"workload-1.yaml": 600, "rm-dcwf/cybershake.yaml": 2000,
		"3dsf/case1.yaml": 3000} {
		if short[of], err = b.shorter(of, count); err != nil {
			return nil, err
		}
	}
	some, err := b.trivial(b.n, false)
	if err != nil {
		return nil, err
	}
	chain, err := b.trivial(b.n/4, true)
	if err != nil {
		return nil, err
	}
	one, err := b.cluster(1, b.inFlight)
	if err != nil {
		return nil, err
	}
	containers := quiet("run --oversubscribe", "--starts", strconv.Itoa(b.inFlight), "--cluster", one, some)
	return []comparison{
		{what: "read and check a DAX of 100,000 tasks", args: []string{"check", in.large}},
		{what: "read and check WfFormat of 100,000 tasks", args: []string{"check", in.wfformat}},
		{what: "simulate 205,000 tasks, `cpp`, no log", args: quiet("simulate --no-log --policy cpp", in.load...)},
		{what: "simulate 205,000 tasks, `fwp`, no log", args: quiet("simulate --no-log --policy fwp", in.load...)},
		{what: "simulate 205,000 tasks, `cpp`, logged", args: quiet("simulate --policy cpp", in.load...)},
		{what: "plan 100,000 tasks, `heft`, logged",
			args: quiet("simulate --policy heft", "--cluster", in.nodes, in.large)},
		{what: "plan 600 workflows, `wheft`, no log",
			args: quiet("simulate --no-log --policy wheft", "--cluster", homogeneous, short["workload-1.yaml"])},
		{what: "plan 2,000 workflows, `rm-dcwf`, no log", args: quiet("simulate --no-log --policy rm-dcwf",
			"--cluster", experiments+"rm-dcwf/m-50.yaml", short["rm-dcwf/cybershake.yaml"])},
		{what: "plan 3,000 jobs, `3dsf`, no log", args: quiet("simulate --no-log --policy 3dsf", "--cluster",
			experiments+"3dsf/cluster.yaml", short["3dsf/case1.yaml"])},
		{what: "10,000 tasks on the null runtime, logged",
			args: quiet("run --runtime null", "--cluster", in.nodes, in.small)},
		{what: fmt.Sprintf("%d trivial containers on Docker, %d at once", b.n, b.inFlight), wall: true,
			args: containers},
		{what: fmt.Sprintf("%d trivial containers on Docker, gantry's own CPU time", b.n), args: containers},
		{what: fmt.Sprintf("a chain of %d trivial containers on Docker", b.n/4), wall: true,
			args: quiet("run --oversubscribe", "--cluster", one, chain)},
	}, nil
}
