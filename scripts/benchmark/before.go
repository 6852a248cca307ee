package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// comparison is a command that two builds run in turn.
type comparison struct {
	what string
	args []string
	wall bool // counts wall time: the work is done by other processes
}

// before compares the build with an earlier one on commands that both have, in turns, and prints a table for a page.
// Figures of a build are medians; a ratio is the median of the ratios within turns.
func (b *bench) before() error {
	if b.other == "" {
		return errors.New("-before FILE names the gantry to compare with")
	}
	wanted, err := regexp.Compile(b.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	// The peak memory of a process counts for those that it starts, so another one reads and writes large workflows.
	if out, err := exec.Command(os.Args[0], "-inputs", b.dir, "-gantry", b.gantry).CombinedOutput(); err != nil {
		return fmt.Errorf("write the workflows: %w\n%s", err, out)
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
		if err := b.compare(c); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) compare(c comparison) error {
	builds := []string{b.other, b.gantry}
	var seconds, memory, size [2][]float64
	for turn := range b.reps + 1 {
		for i := range builds {
			i = (i + turn) % 2 // the builds begin in turn
			home, err := os.MkdirTemp(b.dir, "runs")
			if err != nil {
				return err
			}
			cmd := exec.Command(builds[i], c.args...)
			cmd.Env = append(os.Environ(), "GANTRY_DIR="+home)
			m, err := measure(cmd)
			if err != nil {
				return err
			}
			bytes, err := logSize(home)
			if err != nil {
				return err
			}
			if turn == 0 { // warms caches
				continue
			}
			took := m.cpu
			if c.wall {
				took = m.wall
			}
			seconds[i] = append(seconds[i], took.Seconds())
			memory[i] = append(memory[i], float64(m.rss)/1e6)
			size[i] = append(size[i], float64(bytes)/1e6)
		}
	}
	logs := "– | –"
	if size[0][0] > 0 {
		logs = fmt.Sprintf("%.1f | %.1f", middle(size[0]), middle(size[1]))
	}
	fmt.Printf("| %s | %.3f | %.3f | %.2f | %.0f | %.0f | %.2f | %s |\n", c.what, middle(seconds[0]),
		middle(seconds[1]), middle(ratios(seconds)), middle(memory[0]), middle(memory[1]), middle(ratios(memory)), logs)
	return nil
}

func middle(xs []float64) float64 { return slices.Sorted(slices.Values(xs))[len(xs)/2] }

// ratios divides the second of each pair by the first.
func ratios(pairs [2][]float64) []float64 {
	var out []float64
	for i, before := range pairs[0] {
		out = append(out, pairs[1][i]/before)
	}
	return out
}

// logSize is the size in bytes of the log in a directory of runs, 0 without one.
func logSize(home string) (int64, error) {
	files, err := filepath.Glob(filepath.Join(home, "gantry.sqlite*"))
	var size int64
	for _, f := range files {
		info, err := os.Stat(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the log was closed in the meantime
		}
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, err
}

func (b *bench) comparisons() ([]comparison, error) {
	const (
		examples    = "examples/experiments/"
		homogeneous = examples + "homogeneous.yaml"
	)
	cluster, err := b.cluster(16, 4)
	if err != nil {
		return nil, err
	}
	few, err := b.cluster(1, b.inFlight)
	if err != nil {
		return nil, err
	}
	small, err := b.layered(10_000)
	if err != nil {
		return nil, err
	}
	large, err := b.layered(100_000)
	if err != nil {
		return nil, err
	}
	wf, err := writeWfFormat(large, filepath.Join(b.dir, "large.json"))
	if err != nil {
		return nil, err
	}
	trivial, err := b.trivial(b.n, false)
	if err != nil {
		return nil, err
	}
	chain, err := b.trivial(b.n/4, true)
	if err != nil {
		return nil, err
	}
	short := func(of, name string, count int) (string, error) {
		text, err := os.ReadFile(examples + of)
		if err != nil {
			return "", err
		}
		text = regexp.MustCompile(`(?m)^count: .*$`).ReplaceAll(text, fmt.Appendf(nil, "count: %d", count))
		text = regexp.MustCompile(`(?m)^(warm_up|cool_down): .*\n`).ReplaceAll(text, nil)
		path := filepath.Join(b.dir, name+".yaml")
		return path, os.WriteFile(path, text, 0o644)
	}
	wheft, err := short("workload-1.yaml", "wheft", 600)
	if err != nil {
		return nil, err
	}
	cyber, err := short("rm-dcwf/cybershake.yaml", "cybershake", 2000)
	if err != nil {
		return nil, err
	}
	tenants, err := short("3dsf/case1.yaml", "case1", 3000)
	if err != nil {
		return nil, err
	}
	quiet := func(words string, more ...string) []string { return append(strings.Fields(words+" --quiet"), more...) }
	load := []string{"--cluster", homogeneous, examples + "workload-1.yaml"}
	return []comparison{
		{what: "read and check a DAX of 100,000 tasks", args: []string{"check", large}},
		{what: "read and check WfFormat of 100,000 tasks", args: []string{"check", wf}},
		{what: "simulate 205,000 tasks, `cpp`, no log", args: quiet("simulate --no-log --policy cpp", load...)},
		{what: "simulate 205,000 tasks, `fwp`, no log", args: quiet("simulate --no-log --policy fwp", load...)},
		{what: "simulate 205,000 tasks, `cpp`, logged", args: quiet("simulate --policy cpp", load...)},
		{what: "plan 100,000 tasks, `heft`, logged",
			args: quiet("simulate --policy heft", "--cluster", cluster, large)},
		{what: "plan 600 workflows, `wheft`, no log",
			args: quiet("simulate --no-log --policy wheft", "--cluster", homogeneous, wheft)},
		{what: "plan 2,000 workflows, `rm-dcwf`, no log",
			args: quiet("simulate --no-log --policy rm-dcwf", "--cluster", examples+"rm-dcwf/m-50.yaml", cyber)},
		{what: "plan 3,000 jobs, `3dsf`, no log",
			args: quiet("simulate --no-log --policy 3dsf", "--cluster", examples+"3dsf/cluster.yaml", tenants)},
		{what: "10,000 tasks on the null runtime, logged",
			args: quiet("run --runtime null", "--cluster", cluster, small)},
		{what: fmt.Sprintf("%d trivial containers on Docker, %d at once", b.n, b.inFlight), wall: true,
			args: quiet("run --oversubscribe", "--starts", fmt.Sprint(b.inFlight), "--cluster", few, trivial)},
		{what: fmt.Sprintf("%d trivial containers on Docker, gantry's own CPU time", b.n),
			args: quiet("run --oversubscribe", "--starts", fmt.Sprint(b.inFlight), "--cluster", few, trivial)},
		{what: fmt.Sprintf("a chain of %d trivial containers on Docker", b.n/4), wall: true,
			args: quiet("run --oversubscribe", "--cluster", few, chain)},
	}, nil
}
