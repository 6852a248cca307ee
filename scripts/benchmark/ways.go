package main

import (
	"encoding/json"
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
	"golang.org/x/sys/unix"

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
	ways := []way{b.bareEngine(), b.gantryOn("docker"), b.peer(peers[0])}
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
	all := []way{b.gantryOn("docker"), b.gantryOn("oci"), b.bareEngine(), b.bareCrun()}
	for _, p := range peers {
		all = append(all, b.peer(p))
	}
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

// bareCrun is crun alone: the mounts and limits that gantry gives a real task, and neither a profile of system calls
// nor measurement.
func (b *bench) bareCrun() way {
	w := way{name: "bare crun loop (no seccomp)"}
	if _, err := exec.LookPath("crun"); err != nil {
		w.missing = "crun is not installed"
	} else if os.Geteuid() != 0 {
		w.missing = "needs root"
	}
	w.run = func(n, inFlight int, _ bool) (measure.Cost, error) {
		root := filepath.Join(b.dir, "rootfs")
		if _, err := os.Stat(root); err != nil {
			unpack := exec.Command("sh", "-ec", `mkdir $1; c=$(docker create $2 true); docker export $c | tar -xC $1
				docker rm $c`, "sh", root, image)
			if _, err := measure.Of(unpack); err != nil {
				return measure.Cost{}, err
			}
		}
		defer func() { // crun leaves a group above those of its containers
			groups, _ := filepath.Glob("/sys/fs/cgroup/*/gantry-bench-crun")
			for _, dir := range append(groups, "/sys/fs/cgroup/gantry-bench-crun") {
				_ = os.Remove(dir)
			}
		}()
		return loop(n, inFlight, func(i int) error { return b.crun(root, i) })
	}
	return w
}

// crun runs one container.
func (b *bench) crun(root string, i int) error {
	dir, err := os.MkdirTemp(b.dir, "crun")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, sub := range []string{"root", "upper", "work", "files"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	top := filepath.Join(dir, "root")
	err = unix.Mount("overlay", top, "overlay", 0, "lowerdir="+root+",upperdir="+dir+"/upper,workdir="+dir+"/work")
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	defer unix.Unmount(top, unix.MNT_DETACH)
	type m = map[string]any
	mount := func(to, kind, from string, options ...string) m {
		return m{"destination": to, "type": kind, "source": from, "options": options}
	}
	text, err := json.Marshal(m{"ociVersion": "1.0.2", "hostname": "bare",
		"process": m{"user": m{"uid": 65534, "gid": 65534}, "args": []string{"true"}, "cwd": dir + "/files",
			"noNewPrivileges": true, "env": []string{"PATH=/bin"}, "capabilities": m{}},
		"root": m{"path": top, "readonly": true},
		"mounts": []m{mount("/proc", "proc", "proc"), mount("/dev", "tmpfs", "tmpfs", "nosuid", "mode=755"),
			mount("/sys", "sysfs", "sysfs", "nosuid", "ro"), mount("/tmp", "tmpfs", "tmpfs", "nosuid", "size=64m"),
			mount(dir+"/files", "bind", dir+"/files", "rbind")},
		"linux": m{"cgroupsPath": fmt.Sprintf("/gantry-bench-crun/%d", i),
			"resources": m{"memory": m{"limit": 16 << 20}, "cpu": m{"quota": 20000, "period": 20000},
				"pids": m{"limit": 512}},
			"namespaces": []m{{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"},
				{"type": "mount"}},
			"maskedPaths":   []string{"/proc/kcore", "/proc/keys", "/sys/firmware"},
			"readonlyPaths": []string{"/proc/sys"}}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
	}
	if err != nil {
		return err
	}
	args := []string{"crun", "--root", filepath.Join(b.dir, "crun-state"), "run", "--bundle", dir,
		fmt.Sprint("bare", i)}
	// On a hybrid host crun takes the empty hierarchy of cgroup v2 for the only one.
	if _, err := os.Stat("/sys/fs/cgroup/unified"); err == nil {
		args = append([]string{"unshare", "--mount", "--propagation", "slave", "sh", "-c",
			`umount /sys/fs/cgroup/unified; exec "$@"`, "sh"}, args...)
	}
	_, err = measure.Of(exec.Command(args[0], args[1:]...))
	return err
}

// dockerRun is the docker command of a trivial task, with the limits that gantry sets.
const dockerRun = "docker run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges " +
	"--pids-limit 512 --memory 16m --memory-swap 16m --cpu-period 20000 --cpu-quota 20000 --log-driver none " +
	"--tmpfs /tmp " + image + " true"

// peer is another program that runs the same tasks by the docker command, each of which leaves a file t0, t1...
type peer struct {
	name string
	args string // with the number at once left out
	// file has the rules of the tasks, after head. A rule follows another task, or "".
	file string
	head func(n int) string
	rule func(i int, after string) string
}

func none(int) string { return "" }

var peers = []peer{
	{"xargs", "xargs -a tasks -P %d -I{} sh -c {}", "tasks", none, func(i int, _ string) string {
		return fmt.Sprintf("%s && touch t%d\n", dockerRun, i)
	}},
	{"Snakemake", "snakemake --quiet --cores %d", "Snakefile", func(n int) string {
		return fmt.Sprintf("rule all:\n    input: [f't{i}' for i in range(%d)]\n", n)
	}, func(i int, after string) string {
		return fmt.Sprintf("rule r%d:\n    input: '%s'.split()\n    output: touch('t%d')\n    shell: '%s'\n", i,
			after, i, dockerRun)
	}},
	{"Makeflow", "makeflow -T local -j %d Makeflow", "Makeflow", none, func(i int, after string) string {
		return fmt.Sprintf("t%d: %s\n\tLOCAL %s && touch t%d\n\n", i, after, dockerRun, i)
	}},
}

func (b *bench) peer(p peer) way {
	w := way{name: "docker run by " + p.name}
	if _, err := exec.LookPath(strings.Fields(p.args)[0]); err != nil {
		w.missing = "not installed"
	}
	w.run = func(n, inFlight int, chain bool) (measure.Cost, error) {
		dir, err := os.MkdirTemp(b.dir, "peer")
		if err != nil {
			return measure.Cost{}, err
		}
		text := p.head(n)
		for i := range n {
			after := ""
			if chain && i > 0 {
				after = fmt.Sprint("t", i-1)
			}
			text += p.rule(i, after)
		}
		if err := os.WriteFile(filepath.Join(dir, p.file), []byte(text), 0o644); err != nil {
			return measure.Cost{}, err
		}
		args := strings.Fields(fmt.Sprintf(p.args, inFlight))
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		// Debian's Makeflow begins with MPI, which wants a daemon that is in another package, or to be told that there
		// is none.
		cmd.Env = append(os.Environ(), "OMPI_MCA_ess_singleton_isolated=1")
		m, err := measure.Of(cmd)
		// Makeflow reports success even if its tasks fail.
		if done, _ := filepath.Glob(filepath.Join(dir, "t[0-9]*")); err == nil && len(done) != n {
			err = fmt.Errorf("%s ran %d of %d containers", p.name, len(done), n)
		}
		return m, err
	}
	return w
}
