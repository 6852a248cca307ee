// Package benchmark measures gantry against the programs below it and its peers, in one run and in turns, so that a
// busy machine is busy for all:
//
//	null    gantry's own CPU time per task, with the log on, on the null runtime
//	docker  trivial containers: gantry, and "docker run" by xargs, with the same number in flight
//	few     sixty trivial commands on two cores: gantry, snakemake, and "docker run" by xargs
//	small   a task with 5,000 small inputs, less one without inputs, and cp -r of them, with a warm cache
//	read    reading DAX and WfFormat of 100,000 tasks, from file to workflow
//	log     queries of the documents and scans of views over 205,000 simulated tasks, by sqlite3; ls, show,
//	        explain and report on a log of 1,000 runs and 10 million attempts, which takes some 10 GB of disk
//	plan    reading, planning by HEFT and simulating 10,000 and 100,000 tasks
//	stream  the paper's Workload I by each dynamic policy without a log; the cost of the log in it and in other
//	        workloads and policies
//	before  the same commands by this build and an earlier one in turns: times, memory, logs (-before FILE)
package benchmark

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/scripts/measure"
	"gantry/sqlite"
	"gantry/trace"
)

type bench struct {
	ctx               context.Context
	gantry, dir       string
	other, only       string
	n, inFlight, reps int
	attempts          int
}

var (
	large = flag.Bool("large", false, "measure")
	parts = flag.String("parts", "null,docker,few,small,plan,stream,read,log", "what to measure")
	b     bench
)

func init() {
	flag.StringVar(&b.gantry, "gantry", string(measure.Built), "the binary to measure")
	flag.IntVar(&b.n, "n", 200, "containers per repetition of the part docker")
	flag.IntVar(&b.inFlight, "c", 4, "containers in flight")
	flag.IntVar(&b.reps, "reps", 3, "repetitions; the median counts")
	flag.IntVar(&b.attempts, "attempts", 10_000_000, "attempts of the part log, in runs of 10,000")
	flag.StringVar(&b.other, "before", "",
		"the gantry of an earlier build, with its gantry-task beside it, for the part before")
	flag.StringVar(&b.only, "only", "", "of the part before only the rows that match this regular expression")
}

func TestBars(t *testing.T) {
	if !*large {
		t.Skip("it takes a quiet host for half an hour: make bench runs it")
	}
	t.Chdir("../..")
	b.ctx, b.dir = t.Context(), t.TempDir()
	if err := b.run(strings.Split(*parts, ",")); err != nil {
		t.Fatal(err)
	}
}

// run measures all parts: one that fails, as where there is no Docker Engine, keeps no other from being measured.
func (b *bench) run(parts []string) error {
	known := map[string]func() error{"null": b.null, "docker": b.docker, "few": b.few, "small": b.small,
		"read": b.read, "log": b.log, "plan": b.plan, "stream": b.stream, "before": b.before}
	for _, p := range parts {
		if known[p] == nil {
			return fmt.Errorf("unknown part %q: %s", p, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	var failed []error
	for _, p := range parts {
		if err := known[p](); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(failed...)
}

// verdict prints one measured figure beside its target.
func verdict(what string, got, target float64, unit string) {
	mark := "met"
	if got > target {
		mark = "MISSED"
	}
	fmt.Printf("  %-62s %10.4g %-10s target %6.4g  %s\n", what, got, unit, target, mark)
}

// command runs a gantry in a new directory of runs, and keeps the size of its log in size, unless that is nil.
//
// The directory goes with all others at the end: file systems look with care at files that were deleted a minute ago,
// for 0.3 ms of CPU time per container of the next run.
func (b *bench) command(gantry string, size *int64, args ...string) func() (Cost, error) {
	return func() (Cost, error) {
		home, err := os.MkdirTemp(b.dir, "runs")
		if err != nil {
			return Cost{}, err
		}
		cmd := measure.Gantry(gantry).Command(b.ctx, args...)
		cmd.Env = append(os.Environ(), "GANTRY_DIR="+home)
		cost, err := CostOf(cmd)
		if err == nil && size != nil {
			*size = measure.LogSize(home)
		}
		return cost, err
	}
}

// quiet are the arguments of a gantry that prints no more than it has to.
func quiet(words string, more ...string) []string {
	return append(strings.Fields(words+" --quiet"), more...)
}

// one measures a gantry.
func (b *bench) one(args []string) (Cost, error) {
	m, err := InTurns(b.reps, b.command(b.gantry, nil, args...))
	if err != nil {
		return Cost{}, err
	}
	return m[0], nil
}

func (b *bench) null() error {
	const tasks = 10_000
	in, err := b.inputs()
	if err != nil {
		return err
	}
	m, err := b.one(quiet("run --runtime null", "--cluster", in.nodes, in.small))
	if err != nil {
		return err
	}
	fmt.Printf("null runtime, %d tasks in layers, durable log on: %v of CPU, %v wall, %.0f ends a second, %d MB\n",
		tasks, m.CPU.Round(time.Millisecond), m.Wall.Round(time.Millisecond), tasks/m.Wall.Seconds(), m.Memory/1e6)
	verdict("gantry's own CPU time per task", float64(m.CPU.Microseconds())/tasks, 200, "us")
	return nil
}

func (b *bench) plan() error {
	in, err := b.inputs()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		tasks   int
		dax     string
		seconds float64
	}{{10_000, in.small, 1}, {100_000, in.large, 15}} {
		m, err := b.one(quiet("simulate --policy heft", "--cluster", in.nodes, c.dax))
		if err != nil {
			return err
		}
		fmt.Printf("read, plan by HEFT on 16 nodes and simulate %d tasks, log on: %v of CPU\n", c.tasks,
			m.CPU.Round(time.Millisecond))
		verdict("wall time", m.Wall.Seconds(), c.seconds, "s")
		if c.dax == in.large {
			verdict("peak memory", float64(m.Memory)/1e6, 300, "MB")
		}
	}
	return nil
}

// stream simulates the paper's Workload I at 98 % with each dynamic policy, and logs it once.
func (b *bench) stream() error {
	in, err := b.inputs()
	if err != nil {
		return err
	}
	fmt.Println("3,000 workflows of Workload I (205,000 tasks) on 100 processors at 98 %, the drawing of the load " +
		"included")
	for _, p := range []string{"gbf", "cpp", "owm", "fdws", "hr", "fwp"} {
		m, err := b.one(quiet("simulate --no-log --policy "+p, in.load...))
		if err != nil {
			return err
		}
		verdict(p+", no log: CPU time", m.CPU.Seconds(), 1, "s")
	}
	many, err := b.streamOf(20_000)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what, policy string
		load         []string
	}{{"cpp", "cpp", in.load}, {"heft", "heft", in.load}, {"mows", "mows", in.load},
		{"cpp, 20,000 workflows of 10 tasks", "cpp", []string{"--cluster", homogeneous, many}},
		{"cpp, one of 100,000 tasks", "cpp", []string{"--cluster", homogeneous, in.large}}} {
		if err := b.logged(c.what, c.policy, c.load); err != nil {
			return err
		}
	}
	return nil
}

// logged compares a simulation with its log and without.
func (b *bench) logged(what, policy string, load []string) error {
	var size int64
	m, err := InTurns(b.reps, b.command(b.gantry, nil, quiet("simulate --no-log --policy "+policy, load...)...),
		b.command(b.gantry, &size, quiet("simulate --policy "+policy, load...)...))
	if err != nil {
		return err
	}
	fmt.Printf("%s with the log of every task: %v of CPU, %v without\n", what, m[1].CPU.Round(time.Millisecond),
		m[0].CPU.Round(time.Millisecond))
	// 4 s with the log is the bar of workload-1 under cpp, which takes 0.9 s without on two cores.
	verdict("with the log / without, CPU time", m[1].CPU.Seconds()/m[0].CPU.Seconds(), 4.4, "")
	verdict("peak memory", float64(m[1].Memory)/1e6, 400, "MB")
	if what == "cpp" {
		verdict("size of the log", float64(size)/1e6, 120, "MB")
		verdict("wall time", m[1].Wall.Seconds(), 4, "s")
	}
	return nil
}

// read reads workflows of 100,000 tasks from files, in this process. It goes by CPU time: that of the collector counts
// too, and other programs do not.
func (b *bench) read() error {
	in, err := b.inputs()
	if err != nil {
		return err
	}
	fmt.Println("reading workflows of 100000 tasks")
	for _, f := range []struct{ what, path string }{{"DAX", in.large}, {"WfFormat", in.wfformat}} {
		info, err := os.Stat(f.path)
		if err != nil {
			return err
		}
		m, err := InTurns(b.reps, func() (Cost, error) {
			return OwnCost(func() error {
				_, _, err := trace.Open(f.path, trace.ReadOptions{})
				return err
			})
		})
		if err != nil {
			return err
		}
		size := float64(info.Size()) / 1e6
		fmt.Printf("  %s, %.0f MB: %.0f MB/s of CPU time, %.0f MB/s\n", f.what, size, size/m[0].CPU.Seconds(),
			size/m[0].Wall.Seconds())
		verdict(f.what+": CPU time for 100 MB", 100*m[0].CPU.Seconds()/size, 1, "s")
	}
	return nil
}

// queries asks sqlite3 the queries of docs/log.md and for all rows of large views, over Workload I. The start of the
// process does not count.
func (b *bench) queries() error {
	in, err := b.inputs()
	if err != nil {
		return err
	}
	home := filepath.Join(b.dir, "queries")
	cmd := measure.Gantry(b.gantry).Command(b.ctx, append(quiet("simulate --name montage --policy cpp --dir "+home),
		in.load...)...)
	if _, err := CostOf(cmd); err != nil {
		return err
	}
	path := filepath.Join(home, sqlite.FileName)
	text, err := os.ReadFile("docs/log.md")
	if err != nil {
		return err
	}
	sqlite3 := func(query string) func() (Cost, error) {
		return func() (Cost, error) {
			cmd := exec.CommandContext(b.ctx, "sqlite3", "-readonly", path)
			cmd.Stdin = strings.NewReader(".output /dev/null\n" + query + ";")
			return CostOf(cmd)
		}
	}
	ask := func(query string, bar float64) error {
		m, err := InTurns(b.reps, sqlite3(query), sqlite3("SELECT 1"))
		if err == nil {
			name, _, _ := strings.Cut(strings.TrimPrefix(query, "-- "), "\n")
			verdict("CPU time, "+name[:min(len(name), 50)], (m[0].CPU - m[1].CPU).Seconds(), bar, "s")
		}
		return err
	}
	fmt.Println("questions on a log of 205,000 simulated tasks")
	verdict("size of the log", float64(measure.LogSize(home))/1e6, 120, "MB")
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for q := range strings.SplitSeq(strings.TrimSpace(block[1]), ";\n") {
			if err := ask(strings.Trim(q, ";\n"), 0.5); err != nil {
				return err
			}
		}
	}
	for query, bar := range map[string]float64{"SELECT * FROM v_tasks": 1, "SELECT * FROM v_attempts": 1,
		"SELECT * FROM v_estimates": 1,
		"SELECT * FROM v_tasks WHERE run = 'montage' AND workflow LIKE '%-0003' AND task = 'ID00007'": 0.01} {
		if err := ask(query, bar); err != nil {
			return err
		}
	}
	return os.RemoveAll(home)
}

// log asks a log of many runs, half of them simulations and half real runs on the null runtime. One of each kind is
// written by gantry; the others are copies.
func (b *bench) log() error {
	const tasks = 10_000
	if err := b.queries(); err != nil {
		return err
	}
	runs := max(2, b.attempts/tasks)
	in, err := b.inputs()
	if err != nil {
		return err
	}
	home := filepath.Join(b.dir, "log")
	gantry := func(args []string) (Cost, error) {
		return CostOf(measure.Gantry(b.gantry).Command(b.ctx, append([]string{args[0], "--dir", home},
			args[1:]...)...))
	}
	for _, args := range [][]string{quiet("run --name real --runtime null", "--cluster", in.nodes, in.small),
		quiet("simulate --name simulated --policy cpp", "--cluster", in.nodes, in.small)} {
		if _, err := gantry(args); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := multiply(b.ctx, filepath.Join(home, sqlite.FileName), runs/2); err != nil {
		return err
	}
	fmt.Printf("a log of %d runs and %d attempts, %.1f GB (copied in %v)\n", runs/2*2, runs/2*2*tasks,
		float64(measure.LogSize(home))/1e9, time.Since(began).Round(time.Second))
	middle := fmt.Sprint("-", runs/4)
	if runs < 8 {
		middle = ""
	}
	questions := [][]string{{"ls"}}
	for _, run := range []string{"real" + middle, "simulated" + middle} {
		questions = append(questions, []string{"show", run}, []string{"explain", run, "#5000"}, []string{"report", run},
			[]string{"report", "--policies", "none", "--html", filepath.Join(home, "page.html"), run})
	}
	questions = append(questions, []string{"report", "real" + middle, "simulated" + middle})
	for _, q := range questions {
		m, err := InTurns(b.reps, func() (Cost, error) { return gantry(q) })
		if err != nil {
			return err
		}
		what := strings.ReplaceAll(strings.Join(q, " "), home+"/", "")
		verdict(fmt.Sprintf("%s: wall time (%.2f s of CPU)", what, m[0].CPU.Seconds()), m[0].Wall.Seconds(), 1, "s")
	}
	return os.RemoveAll(home)
}
