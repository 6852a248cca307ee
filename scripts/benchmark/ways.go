package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// way is a way to run trivial containers.
type way struct {
	name    string
	missing string // why it cannot be measured here; "" if it can
	// run runs n of them, with a number of them at once, or as a chain.
	run func(n, inFlight int, chain bool) error
}

// wayNames are the flag's names for ways, and loadNames those for columns.
var (
	wayNames  = []string{"docker", "oci", "engine", "crun", "parallel", "snakemake", "makeflow"}
	loadNames = []string{"1", "2", "4", "8", "chain"}
)

// ways prints all ways side by side: wall time, CPU time per task of the whole machine, less the load of other
// programs, and tasks a second. A way that fails does not keep others from being measured.
func (b *bench) ways() error {
	api, err := newEngine()
	if err != nil {
		return err
	}
	defer removeCrunGroups()
	var all []way
	for _, name := range b.waysOf {
		open, ok := map[string]func() way{"docker": func() way { return b.gantryOn("docker") },
			"oci":    func() way { return b.gantryOn("oci") },
			"engine": func() way { return b.bareEngine(api) }, "crun": b.bareCrun, "parallel": b.parallel,
			"snakemake": b.snakemake, "makeflow": b.makeflow}[name]
		if !ok {
			return fmt.Errorf("unknown way %q: %s", name, strings.Join(wayNames, ", "))
		}
		all = append(all, open())
	}
	var columns []column
	for _, name := range b.loads {
		inFlight, err := strconv.Atoi(name)
		chain := name == "chain"
		switch {
		case chain:
			columns = append(columns, column{name, 1, true})
		case err == nil && inFlight > 0:
			columns = append(columns, column{name + " at once", inFlight, false})
		default:
			return fmt.Errorf("load %q: want a number of containers at once, or chain", name)
		}
	}
	idle := idleCPU()
	cells := make([][]cell, len(all))
	end := time.Now().Add(b.limit)
	var failed []error
	for _, c := range columns { // the ways in turns, so that a busy machine is busy for all
		for i, w := range all {
			if w.missing != "" {
				continue
			}
			got := cell{without: "no time"}
			if time.Now().Before(end) {
				fmt.Fprintf(os.Stderr, "measuring %s, %s\n", w.name, c.name)
				if got, err = b.cell(w, c.inFlight, c.chain, idle); err != nil {
					failed, got = append(failed, fmt.Errorf("%s, %s: %w", w.name, c.name, err)), cell{without: "failed"}
				}
			}
			cells[i] = append(cells[i], got)
		}
	}
	fmt.Printf("%d trivial containers each, all limits on\n", b.each)
	if idle > busy {
		fmt.Printf("  other programs use %.1f cores: times are upper bounds, and CPU time cannot be told apart\n", idle)
	} else if idle > 0.1 {
		fmt.Printf("  other programs use %.1f cores, which is taken off: figures are approximate\n", idle)
	}
	for _, f := range figures {
		fmt.Printf("  %-34s", f.title)
		for _, c := range columns {
			fmt.Printf(" %9s", c.name)
		}
		fmt.Println()
		for i, w := range all {
			if w.missing != "" {
				continue
			}
			fmt.Printf("    %-32s", w.name)
			for _, c := range cells[i] {
				text := c.without
				if text == "" {
					text = f.of(c)
				}
				fmt.Printf(" %9s", text)
			}
			fmt.Println()
		}
	}
	for _, w := range all {
		if w.missing != "" {
			fmt.Printf("  without %s: %s\n", w.name, w.missing)
		}
	}
	if slices.ContainsFunc(cells, func(row []cell) bool { return slices.Contains(row, cell{without: "no time"}) }) {
		fmt.Printf("  no time: -for was over after %v; a longer time, or fewer containers (-each), complete it\n",
			b.limit)
	}
	return errors.Join(failed...)
}

// busy is how many cores others may use so that CPU time of the machine says something.
var busy = float64(runtime.NumCPU()) / 2

// cell has the figures of running the containers in one way.
type cell struct {
	wall    time.Duration
	cpu     time.Duration // of a container; negative if it cannot be told from others'
	rate    float64       // containers a second
	without string        // why there are no figures; "" if there are
}

// figures are the tables of cells.
var figures = []struct {
	title string
	of    func(cell) string
}{
	{"wall time, s", func(c cell) string { return fmt.Sprintf("%.2f", c.wall.Seconds()) }},
	{"CPU time of the machine a task, ms", func(c cell) string {
		if c.cpu < 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f", c.cpu.Seconds()*1000)
	}},
	{"tasks a second", func(c cell) string { return fmt.Sprintf("%.1f", c.rate) }},
}

// cell measures one way with a number in flight.
func (b *bench) cell(w way, inFlight int, chain bool, idle float64) (cell, error) {
	before, begun := machineCPU(), time.Now()
	if err := w.run(b.each, inFlight, chain); err != nil {
		return cell{}, err
	}
	c := cell{wall: time.Since(begun), cpu: -1}
	c.rate = float64(b.each) / c.wall.Seconds()
	if idle <= busy {
		c.cpu = max(0, machineCPU()-before-time.Duration(idle*float64(c.wall))) / time.Duration(b.each)
	}
	return c, nil
}

type column struct {
	name     string
	inFlight int
	chain    bool
}

// machineCPU is the CPU time of all processors since the start of the machine.
func machineCPU() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, f := range strings.Fields(first) {
		if n, err := strconv.ParseInt(f, 10, 64); err == nil && i >= 1 && i <= 7 && i != 4 && i != 5 { // idle, iowait
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / 100
}

// idleCPU is how many cores are busy while nothing is measured.
func idleCPU() float64 {
	before := machineCPU()
	time.Sleep(2 * time.Second)
	return (machineCPU() - before).Seconds() / 2
}

func (b *bench) gantryOn(name string) way {
	w := way{name: "gantry --runtime " + name}
	if out, err := exec.Command(b.gantry, "doctor", "--runtime", name).CombinedOutput(); err != nil {
		w.missing = "not usable here: " + lastLine(string(out))
	}
	w.run = func(n, inFlight int, chain bool) error {
		trace, err := b.trivial(n, chain)
		if err != nil {
			return err
		}
		cluster, err := b.cluster(1, inFlight)
		if err != nil {
			return err
		}
		_, err = b.command("run", "--runtime", name, "--oversubscribe", "--starts", strconv.Itoa(max(inFlight, 2)),
			"--cluster", cluster, trace)()
		return err
	}
	return w
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func (b *bench) bareEngine(api *engine) way {
	w := way{name: "bare Engine API loop"}
	if err := api.has(image); err != nil {
		w.missing = err.Error()
	}
	w.run = func(n, inFlight int, _ bool) error { return b.bare(api, n, inFlight) }
	return w
}

// bareCrun is crun alone: the mounts and limits that gantry gives a real task, and neither a profile of system calls
// nor measurement.
func (b *bench) bareCrun() way {
	w := way{name: "bare crun loop (no seccomp)"}
	program, err := exec.LookPath("crun")
	switch {
	case err != nil:
		w.missing = "crun is not installed"
	case os.Geteuid() != 0:
		w.missing = "needs root"
	}
	w.run = func(n, inFlight int, _ bool) error {
		root, err := b.rootfs()
		if err != nil {
			return err
		}
		return inTurns(n, inFlight, func(i int) error { return b.crun(program, root, i) })
	}
	return w
}

// rootfs is the image of the tasks, unpacked.
func (b *bench) rootfs() (string, error) {
	dir := filepath.Join(b.dir, "rootfs")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	id, err := exec.Command("docker", "create", image, "true").Output()
	if err != nil {
		return "", fmt.Errorf("docker create: %w", err)
	}
	name := strings.TrimSpace(string(id))
	defer exec.Command("docker", "rm", name).Run()
	archive := dir + ".tar"
	if out, err := exec.Command("docker", "export", "-o", archive, name).CombinedOutput(); err != nil {
		return "", fmt.Errorf("docker export: %w: %s", err, out)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("tar: %w: %s", err, out)
	}
	return dir, nil
}

// crun runs one container.
func (b *bench) crun(program, root string, i int) error {
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
	text, err := json.Marshal(m{"ociVersion": "1.0.2", "hostname": "bare",
		"process": m{"user": m{"uid": 65534, "gid": 65534}, "args": []string{"true"}, "cwd": dir + "/files",
			"noNewPrivileges": true, "env": []string{"PATH=/bin"}, "capabilities": m{}},
		"root": m{"path": top, "readonly": true},
		"mounts": []m{{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
			{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"nosuid", "ro"}},
			{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "size=64m"}},
			{"destination": dir + "/files", "type": "bind", "source": dir + "/files", "options": []string{"rbind"}}},
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
	cmd := exec.Command(program, "--root", filepath.Join(b.dir, "crun-state"), "run", "--bundle", dir,
		"bare"+strconv.Itoa(i))
	// On a hybrid host crun takes the empty hierarchy of cgroup v2 for the only one.
	if _, err := os.Stat("/sys/fs/cgroup/unified"); err == nil {
		cmd.Args = append([]string{"unshare", "--mount", "--propagation", "slave", "sh", "-c",
			`umount /sys/fs/cgroup/unified; exec "$@"`, "sh"}, cmd.Args...)
		if cmd.Path, err = exec.LookPath("unshare"); err != nil {
			return err
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("crun: %w: %s", err, out)
	}
	return nil
}

// removeCrunGroups removes the group that crun leaves above those of its containers.
func removeCrunGroups() {
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/gantry-bench-crun")
	for _, dir := range append(groups, "/sys/fs/cgroup/gantry-bench-crun") {
		_ = os.Remove(dir)
	}
}

// inTurns runs one for 0 to n-1, a number at once, and returns the first error.
func inTurns(n, inFlight int, one func(i int) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range inFlight {
		wg.Go(func() {
			for i := range next {
				if err := one(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// dockerRun is the docker command of a trivial task, with the limits that gantry sets.
func dockerRun() []string {
	return []string{"docker", "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt",
		"no-new-privileges", "--pids-limit", "512", "--memory", "16m", "--memory-swap", "16m", "--cpu-period", "20000",
		"--cpu-quota", "20000", "--log-driver", "none", "--tmpfs", "/tmp", image, "true"}
}

// peer is another program that runs the same tasks by the docker command. Leaves says that each leaves a file t0, t1...
func (b *bench) peer(name, program, versionOf string, leaves bool, run func(dir string, n, inFlight int,
	chain bool) ([]string, error)) way {
	w := way{name: "docker run by " + name}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		// Debian's Makeflow begins with MPI, which wants a daemon that is in another package, or to be told that there
		// is none.
		cmd.Env = append(os.Environ(), "OMPI_MCA_ess_singleton_isolated=1")
		return cmd
	}
	if _, err := exec.LookPath(program); err != nil {
		w.missing = "not installed"
	} else if out, err := command("--version").CombinedOutput(); err != nil {
		w.missing = fmt.Sprintf("does not run: %v: %s", err, lastLine(string(out)))
	} else if !strings.Contains(string(out), versionOf) {
		w.missing = program + " is another program"
	}
	w.run = func(n, inFlight int, chain bool) error {
		dir, err := os.MkdirTemp(b.dir, "peer")
		if err != nil {
			return err
		}
		args, err := run(dir, n, inFlight, chain)
		if err != nil {
			return err
		}
		cmd := command(args...)
		cmd.Dir = dir
		if _, err = measure(cmd); err != nil {
			return err
		}
		// Makeflow reports success even if its tasks fail.
		if done, _ := filepath.Glob(filepath.Join(dir, "t[0-9]*")); leaves && len(done) != n {
			return fmt.Errorf("%s ran %d of %d containers", program, len(done), n)
		}
		return nil
	}
	return w
}

func (b *bench) parallel() way {
	return b.peer("GNU parallel", "parallel", "GNU parallel", false, func(_ string, n, inFlight int,
		_ bool) ([]string, error) {
		return append([]string{"-N0", fmt.Sprintf("-j%d", inFlight), strings.Join(dockerRun(), " "), ":::"},
			numbers(n)...), nil
	})
}

func (b *bench) snakemake() way {
	return b.peer("Snakemake", "snakemake", ".", true, func(dir string, n, inFlight int,
		chain bool) ([]string, error) {
		rules := "rule all:\n    input: [f't{i}' for i in range(" + strconv.Itoa(n) + ")]\n"
		for i := range n {
			rules += fmt.Sprintf("rule r%d:\n", i)
			if chain && i > 0 {
				rules += fmt.Sprintf("    input: 't%d'\n", i-1)
			}
			rules += fmt.Sprintf("    output: touch('t%d')\n    shell: '%s'\n", i, strings.Join(dockerRun(), " "))
		}
		return []string{"--quiet", "--cores", strconv.Itoa(inFlight)},
			os.WriteFile(filepath.Join(dir, "Snakefile"), []byte(rules), 0o644)
	})
}

func (b *bench) makeflow() way {
	return b.peer("Makeflow", "makeflow", "akeflow", true, func(dir string, n, inFlight int,
		chain bool) ([]string, error) {
		var rules strings.Builder
		for i := range n {
			before := ""
			if chain && i > 0 {
				before = fmt.Sprintf(" t%d", i-1)
			}
			fmt.Fprintf(&rules, "t%d:%s\n\tLOCAL %s && touch t%d\n\n", i, before, strings.Join(dockerRun(), " "), i)
		}
		return []string{"-T", "local", "-j", strconv.Itoa(inFlight), "Makeflow"},
			os.WriteFile(filepath.Join(dir, "Makeflow"), []byte(rules.String()), 0o644)
	})
}

// trivial writes a workflow of n tasks that do nothing in a container, one after the other if it is a chain.
func (b *bench) trivial(n int, chain bool) (string, error) {
	path := filepath.Join(b.dir, fmt.Sprintf("trivial-%d-%t.json", n, chain))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	type task struct {
		Name     string   `json:"name"`
		ID       string   `json:"id"`
		Parents  []string `json:"parents"`
		Children []string `json:"children"`
		Inputs   []string `json:"inputFiles"`
		Outputs  []string `json:"outputFiles"`
	}
	var tasks []task
	var ran []map[string]any
	for i := range n {
		t := task{Name: "true", ID: fmt.Sprintf("t%d", i), Parents: []string{}, Children: []string{},
			Inputs: []string{}, Outputs: []string{}}
		if chain && i > 0 {
			t.Parents = append(t.Parents, fmt.Sprintf("t%d", i-1))
		}
		if chain && i < n-1 {
			t.Children = append(t.Children, fmt.Sprintf("t%d", i+1))
		}
		tasks = append(tasks, t)
		ran = append(ran, map[string]any{"name": t.Name, "id": t.ID, "runtimeInSeconds": 0.01,
			"memoryInBytes": 16_000_000, "image": image, "command": map[string]any{"program": "true",
				"arguments": []string{}}})
	}
	text, err := json.Marshal(map[string]any{"name": "trivial", "schemaVersion": "1.5", "workflow": map[string]any{
		"specification": map[string]any{"tasks": tasks, "files": []string{}},
		"execution": map[string]any{"makespanInSeconds": 1, "executedAt": "2026-01-01T00:00:00Z",
			"tasks": ran}}})
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, text, 0o644)
}
