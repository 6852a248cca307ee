package benchmark

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"gantry/executor/sim/calibrate"
	"gantry/scripts/measure"
)

const image = "gantry/busybox:latest"

// way is a way to run trivial containers.
type way struct {
	name    string
	missing string // why it cannot be measured here; "" if it can
	// run runs n of them, with a number of them at once, or as a chain.
	run func(n, inFlight int, chain bool) (measure.Cost, error)
}

// docker compares gantry with the least that a loop over the Engine API costs, and with docker run.
func (b *bench) docker() error {
	ways := []way{b.bareEngine(), b.gantryOn("docker"), b.xargs()}
	var turns []func() (measure.Cost, error)
	for _, w := range ways {
		if w.missing != "" {
			return fmt.Errorf("%s: %s", w.name, w.missing)
		}
		turns = append(turns, func() (measure.Cost, error) { return w.run(b.n, b.inFlight, false) })
	}
	m, err := measure.Turns(b.reps, turns...)
	if err != nil {
		return err
	}
	bare, own, run := m[0].Wall.Seconds(), m[1].Wall.Seconds(), m[2].Wall.Seconds()
	fmt.Printf("%d trivial containers, %d in flight: bare Engine API %.2f s, gantry %.2f s, %s %.2f s\n", b.n,
		b.inFlight, bare, own, ways[2].name, run)
	verdict("gantry / bare Engine API loop, wall time", own/bare, 1.10, "")
	verdict("gantry / "+ways[2].name+", wall time", own/run, 0.60, "")
	perTask := func(c measure.Cost) float64 { return c.CPU.Seconds() * 1000 / float64(b.n) }
	fmt.Printf("  %-62s %10.4g ms\n", "CPU time per container of the bare loop", perTask(m[0]))
	verdict("CPU time per container of gantry itself", perTask(m[1]), 4, "ms")
	return nil
}

// few compares gantry with peers that have no limits, as people who have sixty commands start them: a rule a command.
func (b *bench) few() error {
	const n, snakefile = 60, "rule all:\n    input: expand('o{n}', n=range(60))\nrule t:\n    output: 'o{n}'\n" +
		"    shell: 'echo {wildcards.n} >{output}'\n"
	var rules strings.Builder
	for i := range n {
		fmt.Fprintf(&rules, "o%d:\n\techo %[1]d >o%[1]d\n", i)
	}
	in := func(args ...string) func() (measure.Cost, error) {
		return func() (measure.Cost, error) {
			dir, err := os.MkdirTemp(b.dir, "few")
			for name, text := range map[string]string{"Makeflow": rules.String(), "Snakefile": snakefile} {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
			if err != nil {
				return measure.Cost{}, err
			}
			cmd := exec.CommandContext(b.ctx, args[0], args[1:]...)
			cmd.Dir = dir
			return measure.Of(cmd)
		}
	}
	gantry, err := filepath.Abs(b.gantry)
	if err != nil {
		return err
	}
	xargs := b.xargs()
	turns := []func() (measure.Cost, error){in(gantry, "run", "--quiet", "--image", image, "Makeflow"),
		func() (measure.Cost, error) { return xargs.run(n, 2, false) }}
	if _, err := exec.LookPath("snakemake"); err == nil {
		turns = append(turns, in("snakemake", "-j2"))
	}
	m, err := measure.Turns(b.reps, turns...)
	if err != nil {
		return err
	}
	own := m[0].Wall.Seconds()
	fmt.Printf("%d trivial commands: gantry run %.2f s, %s %.2f s\n", n, own, xargs.name, m[1].Wall.Seconds())
	verdict("gantry / "+xargs.name+", wall time", own/m[1].Wall.Seconds(), 1./6, "")
	if len(m) == 2 {
		fmt.Println("  without snakemake: not installed (apt-get install snakemake)")
		return nil
	}
	fmt.Printf("  snakemake -j2, without containers: %.2f s\n", m[2].Wall.Seconds())
	verdict("gantry / snakemake -j2, wall time", own/m[2].Wall.Seconds(), 0.5, "")
	return nil
}

// busy is how many cores others may use so that CPU time of the machine says something.
var busy = float64(runtime.NumCPU()) / 2

// figures are the tables of the part ways. CPU time is that of a container; negative: it cannot be told from others'.
var figures = []struct {
	title string
	of    func(n int, wall, cpu time.Duration) string
}{
	{"wall time, s", func(_ int, wall, _ time.Duration) string { return fmt.Sprintf("%.2f", wall.Seconds()) }},
	{"CPU time of the machine a task, ms", func(n int, _, cpu time.Duration) string {
		if cpu < 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f", cpu.Seconds()*1000/float64(n))
	}},
	{"tasks a second", func(n int, wall, _ time.Duration) string {
		return fmt.Sprintf("%.1f", float64(n)/wall.Seconds())
	}},
}

// ways prints all ways side by side: wall time, CPU time per task of the whole machine, less the load of other
// programs, and tasks a second. A way that fails does not keep others from being measured.
func (b *bench) ways() error {
	all := []way{b.gantryOn("docker"), b.gantryOn("oci"), b.bareEngine(), b.xargs()}
	meter := calibrate.Meter()
	time.Sleep(2 * time.Second)
	idle, _ := meter.Read()
	var failed []error
	rows := make([][]string, len(figures)*len(all))
	columns := []string{"1", "2", "4", "8", "chain"}
	for _, column := range columns { // the ways in turns, so that a busy machine is busy for all
		for i, w := range all {
			if w.missing != "" {
				continue
			}
			fmt.Fprintf(os.Stderr, "measuring %s, %s\n", w.name, column)
			inFlight, _ := strconv.Atoi(column)
			before := calibrate.HostCPU()
			m, err := w.run(b.each, max(1, inFlight), inFlight == 0)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s, %s: %w", w.name, column, err))
			}
			cpu := max(0, calibrate.HostCPU()-before-time.Duration(idle*float64(m.Wall)))
			if idle > busy {
				cpu = -1
			}
			for k, f := range figures {
				text := "failed"
				if err == nil {
					text = f.of(b.each, m.Wall, cpu)
				}
				rows[k*len(all)+i] = append(rows[k*len(all)+i], text)
			}
		}
	}
	fmt.Printf("%d trivial containers each, all limits on; so many at once, and one after the other\n", b.each)
	if idle > busy {
		fmt.Printf("  other programs use %.1f cores: times are upper bounds, and CPU time cannot be told apart\n", idle)
	} else if idle > 0.1 {
		fmt.Printf("  other programs use %.1f cores, which is taken off: figures are approximate\n", idle)
	}
	line := func(title string, cells []string) {
		fmt.Printf("  %-36s", title)
		for _, c := range cells {
			fmt.Printf(" %9s", c)
		}
		fmt.Println()
	}
	for k, f := range figures {
		line(f.title, columns)
		for i, w := range all {
			if w.missing == "" {
				line("  "+w.name, rows[k*len(all)+i])
			}
		}
	}
	for _, w := range all {
		if w.missing != "" {
			fmt.Printf("  without %s: %s\n", w.name, w.missing)
		}
	}
	return errors.Join(failed...)
}

func (b *bench) gantryOn(name string) way {
	w := way{name: "gantry --runtime " + name}
	if out, err := exec.Command(b.gantry, "doctor", "--runtime", name).CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		w.missing = "not usable here: " + lines[len(lines)-1]
	}
	w.run = func(n, inFlight int, chain bool) (measure.Cost, error) {
		trace, err1 := b.trivial(n, chain)
		cluster, err2 := b.cluster(1, inFlight)
		if err := errors.Join(err1, err2); err != nil {
			return measure.Cost{}, err
		}
		return b.command(b.gantry, nil, quiet("run --runtime "+name+" --oversubscribe", "--starts",
			strconv.Itoa(max(inFlight, 2)), "--cluster", cluster, trace)...)()
	}
	return w
}

// loop runs one for 0 to n-1, a number at once, and measures this process.
func loop(n, inFlight int, one func(i int) error) (measure.Cost, error) {
	return measure.Own(func() error {
		var g errgroup.Group
		g.SetLimit(inFlight)
		for i := range n {
			g.Go(func() error { return one(i) })
		}
		return g.Wait()
	})
}

// dockerRun is the docker command of a trivial task, with the limits that gantry sets.
const dockerRun = "docker run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges " +
	"--pids-limit 512 --memory 16m --memory-swap 16m --cpu-period 20000 --cpu-quota 20000 --log-driver none " +
	"--tmpfs /tmp " + image + " true"

// xargs runs the same tasks by the docker command. It has no chains: it runs them one after the other.
func (b *bench) xargs() way {
	w := way{name: "docker run by xargs"}
	if _, err := exec.LookPath("xargs"); err != nil {
		w.missing = "not installed"
	}
	w.run = func(n, inFlight int, _ bool) (measure.Cost, error) {
		cmd := exec.Command("xargs", "-P", strconv.Itoa(inFlight), "-I{}", "sh", "-c", dockerRun)
		cmd.Stdin = strings.NewReader(strings.Repeat("task\n", n))
		return measure.Of(cmd)
	}
	return w
}
