package benchmark

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const image = "gantry/busybox:latest"

// docker compares gantry with docker run, by trivial containers.
func (b *bench) docker() error {
	trace, err1 := b.trivial(b.n, false)
	cluster, err2 := b.cluster(1, b.inFlight)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	m, err := InTurns(b.reps, b.command(b.gantry, nil, quiet("run --oversubscribe", "--starts",
		strconv.Itoa(max(b.inFlight, 2)), "--cluster", cluster, trace)...), xargs(b.n, b.inFlight))
	if err != nil {
		return err
	}
	own, run := m[0].Wall.Seconds(), m[1].Wall.Seconds()
	fmt.Printf("%d trivial containers, %d in flight: gantry %.2f s, docker run by xargs %.2f s\n", b.n, b.inFlight,
		own, run)
	verdict("gantry / docker run by xargs, wall time", own/run, 0.60, "")
	verdict("CPU time per container of gantry itself", m[0].CPU.Seconds()*1000/float64(b.n), 4, "ms")
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
	in := func(args ...string) func() (Cost, error) {
		return func() (Cost, error) {
			dir, err := os.MkdirTemp(b.dir, "few")
			for name, text := range map[string]string{"Makeflow": rules.String(), "Snakefile": snakefile} {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
			if err != nil {
				return Cost{}, err
			}
			cmd := exec.CommandContext(b.ctx, args[0], args[1:]...)
			cmd.Dir = dir
			return CostOf(cmd)
		}
	}
	gantry, err := filepath.Abs(b.gantry)
	if err != nil {
		return err
	}
	turns := []func() (Cost, error){in(gantry, "run", "--quiet", "--image", image, "Makeflow"), xargs(n, 2)}
	if _, err := exec.LookPath("snakemake"); err == nil {
		turns = append(turns, in("snakemake", "-j2"))
	}
	m, err := InTurns(b.reps, turns...)
	if err != nil {
		return err
	}
	own := m[0].Wall.Seconds()
	fmt.Printf("%d trivial commands: gantry run %.2f s, docker run by xargs %.2f s\n", n, own, m[1].Wall.Seconds())
	verdict("gantry / docker run by xargs, wall time", own/m[1].Wall.Seconds(), 1./6, "")
	if len(m) == 2 {
		fmt.Println("  without snakemake: not installed (apt-get install snakemake)")
		return nil
	}
	fmt.Printf("  snakemake -j2, without containers: %.2f s\n", m[2].Wall.Seconds())
	verdict("gantry / snakemake -j2, wall time", own/m[2].Wall.Seconds(), 0.5, "")
	return nil
}

// small compares what 5,000 small inputs cost a run with cp -r of them: as inputs of a makeflow, of a WfFormat file,
// and in a directory. Minima of five turns count.
func (b *bench) small() error {
	const n = 5000
	dir, err := smallInputs(b.dir, n)
	if err != nil {
		return err
	}
	for _, runtime := range []string{"oci", "docker"} {
		least := map[string]float64{}
		for turn := range 5 {
			for _, what := range []string{"cp -r", "none.makeflow", "many.makeflow", "many.json", "tree.makeflow"} {
				run := func() (Cost, error) {
					to := filepath.Join(dir, fmt.Sprint(runtime, turn))
					return CostOf(exec.CommandContext(b.ctx, "cp", "-r", filepath.Join(dir, "tree"), to))
				}
				if what != "cp -r" {
					args := quiet("run --runtime "+runtime, "--image", image)
					if strings.HasPrefix(what, "many") {
						args = append(args, "--inputs", filepath.Join(dir, "tree"))
					}
					run = b.command(b.gantry, nil, append(args, filepath.Join(dir, what))...)
				}
				cost, err := run()
				if err != nil {
					return err
				}
				if took := cost.Wall.Seconds(); turn == 0 || took < least[what] {
					least[what] = took
				}
			}
		}
		cp, none := least["cp -r"], least["none.makeflow"]
		fmt.Printf("%d inputs of 1 to 10 kB, %s: cp -r %.2f s, a run without inputs %.2f s\n", n, runtime, cp, none)
		for _, flow := range []string{"many.makeflow", "many.json", "tree.makeflow"} {
			verdict(flow+" less the run without inputs / cp -r, wall time", (least[flow]-none)/cp, 2, "")
		}
	}
	return nil
}

// smallInputs writes a directory of files, and workflows that read none, all, or the directory.
func smallInputs(top string, n int) (dir string, err error) {
	if dir, err = os.MkdirTemp(top, "inputs"); err != nil {
		return "", err
	}
	err = os.Mkdir(filepath.Join(dir, "tree"), 0o755)
	write := func(name string, text []byte) {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("f", i))
		write("tree/"+names[i], bytes.Repeat([]byte("x"), 1000+9000*i/n))
	}
	write("none.makeflow", []byte("n:\n\ttrue >n\n"))
	write("tree.makeflow", []byte("n: tree\n\ttrue >n\n"))
	write("many.makeflow", []byte("n: "+strings.Join(names, " ")+"\n\ttrue >n\n"))
	write("many.json", fmt.Appendf(nil, `{"name": "many", "schemaVersion": "1.5", "workflow": {"specification": {
		"tasks": [{"id": "a", "name": "a", "inputFiles": ["%s"], "outputFiles": ["n"]}], "files": [{"id": "n"}]},
		"execution": {"tasks": [{"id": "a", "command": "true >n"}]}}}`, strings.Join(names, `", "`)))
	return dir, err
}

// dockerRun is the docker command of a trivial task, with the limits that gantry sets.
const dockerRun = "docker run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges " +
	"--pids-limit 512 --memory 16m --memory-swap 16m --cpu-period 20000 --cpu-quota 20000 --log-driver none " +
	"--tmpfs /tmp " + image + " true"

// xargs runs n trivial tasks by the docker command, with a number of them at once.
func xargs(n, inFlight int) func() (Cost, error) {
	return func() (Cost, error) {
		cmd := exec.Command("xargs", "-P", strconv.Itoa(inFlight), "-I{}", "sh", "-c", dockerRun)
		cmd.Stdin = strings.NewReader(strings.Repeat("task\n", n))
		return CostOf(cmd)
	}
}
