// Command benchmark measures gantry against the programs below it and its peers, in one run and in turns, so that a
// busy machine is busy for all:
//
//	null    gantry's own CPU time per task, with the log on, on the null runtime
//	docker  trivial containers: gantry, a bare loop over the Engine API with the same options, and "docker run" by
//	        GNU parallel (xargs if that is missing), all with the same number in flight
//	ways    trivial containers side by side at 1, 2, 4 and 8 in flight and as a chain: gantry with Docker and
//	        without a daemon, bare loops over the Engine API and over crun (whose chain is one container after the
//	        other), and the peers that are installed
//	read    reading DAX and WfFormat of 100,000 tasks, from file to workflow
//	log     ls, show, explain and report on a log of 1,000 runs and 10 million attempts, which takes some 5 GB of disk
//	plan    reading, planning by HEFT and simulating 10,000 and 100,000 tasks
//	stream  the paper's Workload I by each dynamic policy without a log; the cost of the log in it and in other
//	        workloads and policies; the cost of a workflow in streams of 1,000 to 100,000 of them
//	before  the same commands by this build and an earlier one in turns: times, memory, logs (-before FILE)
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

const image = "gantry/busybox:latest"

func main() {
	var (
		b     bench
		parts = flag.String("parts", "null,docker,ways,plan,stream,read,log", "what to measure")
		ways  = flag.String("ways", strings.Join(wayNames, ","), "rows of the part ways")
		loads = flag.String("loads", strings.Join(loadNames, ","), "columns of the part ways, as numbers at once")
	)
	flag.StringVar(&b.gantry, "gantry", "bin/gantry", "the binary to measure")
	flag.IntVar(&b.n, "n", 200, "containers per repetition of the part docker")
	flag.IntVar(&b.inFlight, "c", 4, "containers in flight")
	flag.IntVar(&b.reps, "reps", 3, "repetitions; the median counts")
	flag.IntVar(&b.attempts, "attempts", 10_000_000, "attempts of the part log, in runs of 10,000")
	flag.IntVar(&b.each, "each", 100, "containers per cell of the part ways")
	flag.DurationVar(&b.limit, "for", 20*time.Minute, "time of the part ways; cells that come later are left out")
	flag.StringVar(&b.other, "before", "",
		"the gantry of an earlier build, with its gantry-task beside it, for the part before")
	flag.StringVar(&b.dir, "inputs", "", "write the workflows of the part before into this directory, and no more")
	flag.StringVar(&b.only, "only", "", "of the part before only the rows that match this regular expression")
	flag.Parse()
	b.waysOf, b.loads = strings.Split(*ways, ","), strings.Split(*loads, ",")
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as gantry does, whose readers are measured in this process
	}
	if b.dir != "" { // called by the part before
		if _, err := b.comparisons(); err != nil {
			fmt.Fprintln(os.Stderr, "benchmark:", err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "gantry-bench")
	if err == nil {
		b.dir = dir
		err = b.run(strings.Split(*parts, ","))
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

type bench struct {
	gantry, dir       string
	other, only       string
	n, inFlight, reps int
	each, attempts    int
	limit             time.Duration
	waysOf, loads     []string // of the part ways
}

// run measures all parts: one that fails, as where there is no Docker Engine, keeps no other from being measured.
func (b *bench) run(parts []string) error {
	known := map[string]func() error{"null": b.null, "docker": b.docker, "ways": b.ways, "read": b.read, "log": b.log,
		"plan": b.plan, "stream": b.stream, "before": b.before}
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

// cost is the time and memory that a program took.
type cost struct {
	wall, cpu time.Duration
	rss       int64 // bytes, peak
}

func measure(cmd *exec.Cmd) (cost, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return cost{}, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out.String())
	}
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{time.Since(start), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), use.Maxrss << 10}, nil
}

// repeat measures each way in turn, reps times, and returns the median costs in the order of the ways.
func (b *bench) repeat(ways ...func() (cost, error)) ([]cost, error) {
	all := make([][]cost, len(ways))
	for range b.reps {
		for i, way := range ways {
			c, err := way()
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], c)
		}
	}
	medians := make([]cost, len(ways))
	for i, cs := range all {
		median := func(of func(cost) int64) int64 {
			xs := make([]int64, len(cs))
			for j, c := range cs {
				xs[j] = of(c)
			}
			slices.Sort(xs)
			return xs[len(xs)/2]
		}
		medians[i] = cost{time.Duration(median(func(c cost) int64 { return int64(c.wall) })),
			time.Duration(median(func(c cost) int64 { return int64(c.cpu) })),
			median(func(c cost) int64 { return c.rss })}
	}
	return medians, nil
}

// verdict prints one measured figure beside its target.
func verdict(what string, got, target float64, unit string) {
	mark := "met"
	if got > target {
		mark = "MISSED"
	}
	fmt.Printf("  %-62s %10.4g %-10s target %6.4g  %s\n", what, got, unit, target, mark)
}

func (b *bench) command(args ...string) func() (cost, error) {
	return func() (cost, error) {
		home, err := os.MkdirTemp(b.dir, "runs")
		if err != nil {
			return cost{}, err
		}
		// It goes with all others at the end: file systems look with care at files that were deleted a minute ago, for
		// 0.3 ms of CPU time per container of the next run.
		return measure(exec.Command(b.gantry, append([]string{args[0], "--dir", home, "--quiet"}, args[1:]...)...))
	}
}

func (b *bench) null() error {
	const tasks = 10_000
	dax, err := b.layered(tasks)
	if err != nil {
		return err
	}
	cluster, err := b.cluster(16, 4)
	if err != nil {
		return err
	}
	m, err := b.repeat(b.command("run", "--runtime", "null", "--cluster", cluster, dax))
	if err != nil {
		return err
	}
	fmt.Printf("null runtime, %d tasks in layers, log on: %v of CPU, %v wall, %d MB\n", tasks,
		m[0].cpu.Round(time.Millisecond), m[0].wall.Round(time.Millisecond), m[0].rss/1e6)
	verdict("gantry's own CPU time per task", float64(m[0].cpu.Microseconds())/tasks, 200, "us")
	return nil
}

func (b *bench) plan() error {
	cluster, err := b.cluster(16, 4)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		tasks   int
		seconds float64
	}{{10_000, 1}, {100_000, 15}} {
		dax, err := b.layered(c.tasks)
		if err != nil {
			return err
		}
		m, err := b.repeat(b.command("simulate", "--policy", "heft", "--cluster", cluster, dax))
		if err != nil {
			return err
		}
		fmt.Printf("read, plan by HEFT on 16 nodes and simulate %d tasks, log on: %v of CPU\n", c.tasks,
			m[0].cpu.Round(time.Millisecond))
		verdict("wall time", m[0].wall.Seconds(), c.seconds, "s")
		if c.tasks == 100_000 {
			verdict("peak memory", float64(m[0].rss)/1e6, 300, "MB")
		}
	}
	return nil
}

// stream simulates the paper's Workload I at 98 % with each dynamic policy, and logs it once.
func (b *bench) stream() error {
	const examples = "examples/experiments/"
	load := []string{"--cluster", examples + "homogeneous.yaml", examples + "workload-1.yaml"}
	fmt.Println("3,000 workflows of Workload I (205,000 tasks) on 100 processors at 98 %, the drawing of the load " +
		"included")
	for _, p := range []string{"gbf", "cpp", "owm", "fdws", "hr", "fwp"} {
		m, err := b.repeat(b.command(append([]string{"simulate", "--no-log", "--policy", p}, load...)...))
		if err != nil {
			return err
		}
		verdict(p+", no log: CPU time", m[0].cpu.Seconds(), 1, "s")
	}
	small := filepath.Join(b.dir, "small.yaml")
	if err := os.WriteFile(small, []byte("name: small\nseed: 1\ncount: 20000\nmix: [{generator: random, fraction: 1, "+
		"tasks: 10}]\nfiles: false\ntotal_runtime: {distribution: constant, mean: 1h}\n"+
		"arrivals: {process: poisson, utilisation: 0.9}\n"), 0o644); err != nil {
		return err
	}
	large, err := b.layered(100_000)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what string
		args []string
	}{{"cpp", append([]string{"--policy", "cpp"}, load...)}, {"heft", append([]string{"--policy", "heft"}, load...)},
		{"mows", append([]string{"--policy", "mows"}, load...)},
		{"cpp, 20,000 workflows of 10 tasks", []string{"--policy", "cpp", "--cluster", load[1], small}},
		{"cpp, one of 100,000 tasks", []string{"--policy", "cpp", "--cluster", load[1], large}}} {
		if err := b.logged(c.what, c.args); err != nil {
			return err
		}
	}
	return b.growth()
}

// logged compares a simulation with its log and without.
func (b *bench) logged(what string, args []string) error {
	var size int64 // bytes
	m, err := b.repeat(b.command(append([]string{"simulate", "--no-log"}, args...)...), func() (cost, error) {
		home, err := os.MkdirTemp(b.dir, "runs")
		if err != nil {
			return cost{}, err
		}
		c, err := measure(exec.Command(b.gantry, append([]string{"simulate", "--dir", home, "--quiet"}, args...)...))
		if err != nil {
			return c, err
		}
		size, err = logSize(home)
		return c, err
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s with the log of every task: %v of CPU, %v without\n", what, m[1].cpu.Round(time.Millisecond),
		m[0].cpu.Round(time.Millisecond))
	verdict("with the log / without, CPU time", m[1].cpu.Seconds()/m[0].cpu.Seconds(), 3.6, "")
	verdict("peak memory", float64(m[1].rss)/1e6, 400, "MB")
	if what == "cpp" {
		verdict("size of the log", float64(size)/1e6, 120, "MB")
		verdict("wall time", m[1].wall.Seconds(), 4, "s")
	}
	return nil
}

// growth compares the cost of a workflow between short and long streams in steady state.
func (b *bench) growth() error {
	const cluster = "examples/experiments/homogeneous.yaml"
	for _, p := range []string{"cpp", "fwp"} {
		var first float64
		for _, n := range []int{1000, 10_000, 100_000} {
			path := filepath.Join(b.dir, fmt.Sprintf("stream-%d.yaml", n))
			text := fmt.Sprintf("name: growth\nseed: 1\ncount: %d\nmix: [{generator: random, fraction: 1, tasks: "+
				"10}]\nfiles: false\n"+
				"total_runtime: {distribution: constant, mean: 1h}\narrivals: {process: poisson, utilisation: 0.9}\n",
				n)
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				return err
			}
			begun := time.Now()
			m, err := b.command("simulate", "--no-log", "--policy", p, "--cluster", cluster, path)()
			if err != nil {
				return err
			}
			per := m.cpu.Seconds() * 1e6 / float64(n)
			if first == 0 {
				first = per
			}
			fmt.Printf("  %s at 90 %%, %6d workflows: %5.0f us of CPU a workflow of 10 tasks (%.2f of that at "+
				"1,000), %v\n", p, n, per, per/first, time.Since(begun).Round(time.Millisecond))
		}
	}
	return nil
}

func (b *bench) docker() error {
	api, err := newEngine()
	if err != nil {
		return err
	}
	if err := api.has(image); err != nil {
		return err
	}
	trace, err := b.trivial(b.n, false)
	if err != nil {
		return err
	}
	cluster, err := b.cluster(1, b.inFlight)
	if err != nil {
		return err
	}
	own := time.Duration(0)
	bare := func() (cost, error) {
		before := ownCPU()
		start := time.Now()
		err := b.bare(api, b.n, b.inFlight)
		own = ownCPU() - before
		return cost{wall: time.Since(start), cpu: own}, err
	}
	by, docker := "GNU parallel", func() (cost, error) {
		return measure(exec.Command("parallel", append([]string{"-N0", fmt.Sprintf("-j%d", b.inFlight),
			strings.Join(dockerRun(), " "), ":::"}, numbers(b.n)...)...))
	}
	if out, err := exec.Command("parallel", "--version").Output(); err != nil ||
		!strings.HasPrefix(string(out), "GNU parallel") {
		by, docker = "xargs (GNU parallel is not installed)", func() (cost, error) {
			cmd := exec.Command("xargs", append([]string{"-P", fmt.Sprint(b.inFlight), "-I{}"}, dockerRun()...)...)
			cmd.Stdin = strings.NewReader(strings.Join(numbers(b.n), "\n"))
			return measure(cmd)
		}
	}
	m, err := b.repeat(bare, b.command("run", "--oversubscribe", "--starts", fmt.Sprint(b.inFlight), "--cluster",
		cluster, trace), docker)
	if err != nil {
		return err
	}
	fmt.Printf("%d trivial containers, %d in flight: bare Engine API %.2f s, gantry %.2f s, docker run by %s %.2f s\n",
		b.n, b.inFlight, m[0].wall.Seconds(), m[1].wall.Seconds(), by, m[2].wall.Seconds())
	verdict("gantry / bare Engine API loop, wall time", m[1].wall.Seconds()/m[0].wall.Seconds(), 1.10, "")
	verdict("gantry / docker run by "+by+", wall time", m[1].wall.Seconds()/m[2].wall.Seconds(), 0.60, "")
	perTask := func(c cost) float64 { return c.cpu.Seconds() * 1000 / float64(b.n) }
	fmt.Printf("  %-62s %10.4g ms\n", "CPU time per container of the bare loop", perTask(m[0]))
	verdict("CPU time per container of gantry itself", perTask(m[1]), 4, "ms")
	return nil
}

// bare creates, starts, awaits and removes n containers with the options that gantry gives a real task, so many at
// once.
func (b *bench) bare(api *engine, n, inFlight int) error {
	work, err := os.MkdirTemp(b.dir, "bare")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	task, err := filepath.Abs(filepath.Join(filepath.Dir(b.gantry), "gantry-task"))
	if err != nil {
		return err
	}
	var info struct{ CgroupDriver string }
	if err := api.call(http.MethodGet, "/info", nil, &info); err != nil {
		return err
	}
	parent := "/gantry-bench"
	if info.CgroupDriver == "systemd" {
		parent = "gantrybench.slice" // systemd removes it by itself
	} else {
		defer func() { // the engine makes parents and never removes them
			groups, _ := filepath.Glob("/sys/fs/cgroup/*" + parent)
			for _, dir := range append(groups, "/sys/fs/cgroup"+parent) {
				_ = os.Remove(dir)
			}
		}()
	}
	disk := blockDevice(work)
	one := func(i int) error {
		dir := filepath.Join(work, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		bind := func(from, to string, readOnly bool) map[string]any {
			return map[string]any{"Type": "bind", "Source": from, "Target": to, "ReadOnly": readOnly}
		}
		host := map[string]any{"ReadonlyRootfs": true, "CapDrop": []string{"ALL"},
			"SecurityOpt": []string{"no-new-privileges"}, "LogConfig": map[string]any{"Type": "none"},
			"Tmpfs": map[string]string{"/tmp": "rw,nosuid,nodev,size=64m,mode=1777"},
			"Mounts": []map[string]any{bind(dir, dir, false), bind(work, work+"-files", true),
				bind(task, "/.gantry-task", true)},
			"CgroupParent": parent, "PidsLimit": 512, "CpuPeriod": 20_000, "CpuQuota": 20_000, "Memory": 16_000_000,
			"MemorySwap": 16_000_000}
		if disk != "" {
			limit := []map[string]any{{"Path": disk, "Rate": 1 << 30}}
			host["BlkioDeviceReadBps"], host["BlkioDeviceWriteBps"] = limit, limit
		}
		return api.run(map[string]any{"Image": image, "Entrypoint": []string{"/.gantry-task"},
			"Cmd": []string{"exec", "", ".command.out", ".command.err", "true"}, "WorkingDir": dir,
			"User": fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()), "NetworkDisabled": true,
			"Labels": map[string]string{"gantry.benchmark": "bare"}, "HostConfig": host})
	}
	return inTurns(n, inFlight, one)
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// blockDevice is the whole disk below dir, "" if there is none.
func blockDevice(dir string) string {
	var st syscall.Stat_t
	if syscall.Stat(dir, &st) != nil {
		return ""
	}
	major, minor := st.Dev>>8&0xfff, st.Dev&0xff|st.Dev>>12&0xfff00
	link, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", major, minor))
	if err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join("/sys/dev/block", link, "partition")); err == nil {
		link = filepath.Dir(link)
	}
	return "/dev/" + filepath.Base(link)
}

func numbers(n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprint(i)
	}
	return s
}

// cluster writes a cluster file of that many nodes.
func (b *bench) cluster(nodes, cores int) (string, error) {
	path := filepath.Join(b.dir, fmt.Sprintf("cluster-%d-%d.yaml", nodes, cores))
	return path, os.WriteFile(path, fmt.Appendf(nil, "name: bench\nnodes:\n  - {name: n, count: %d, cores: %d, "+
		"speed: 1, memory: 4GB, read: 1000MB/s, write: 1000MB/s, group: g}\n"+
		"links:\n  - {from: g, to: g, bandwidth: 100MB/s, latency: 1ms}\n", nodes, cores), 0o644)
}

// layered writes a DAX of tasks in layers of 100, each with three parents in the layer above and a file for each of its
// children.
func (b *bench) layered(tasks int) (string, error) {
	const width = 100
	path := filepath.Join(b.dir, fmt.Sprintf("layered-%d.dax", tasks))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := bufio.NewWriter(f) // the peak memory of this process counts for those that it starts
	var edges strings.Builder
	s.WriteString(`<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="layered">` + "\n")
	for i := range tasks {
		fmt.Fprintf(s,
			`<job id="ID%d" name="kind%d" runtime="%d.%d"><profile namespace="globus" key="maxmemory">16</profile>`+
				`<uses file="f%d" link="output" size="%d"/>`,
			i, i/width%7, 1+i*7919%30, i%10, i, 1000+i*104729%900_000)
		if i >= width {
			fmt.Fprintf(&edges, `<child ref="ID%d">`, i)
			for _, offset := range []int{0, 1, 7} {
				p := (i/width-1)*width + (i+offset)%width
				fmt.Fprintf(s, `<uses file="f%d" link="input" size="%d"/>`, p, 1000+p*104729%900_000)
				fmt.Fprintf(&edges, `<parent ref="ID%d"/>`, p)
			}
			edges.WriteString("</child>\n")
		}
		s.WriteString("</job>\n")
	}
	s.WriteString(edges.String() + "</adag>\n")
	return path, s.Flush()
}
