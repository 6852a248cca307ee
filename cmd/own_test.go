package cmd

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/own"
)

// orderly is a program in the shell: it orders ready tasks by their numbers, and fails in a round.
const orderly = `#!/bin/sh
here=$(dirname "$0")
echo started >>"$here/starts"
echo "I begin" >&2
ready=
while read -r line; do
  printf '%s\n' "$line" >>"$here/heard"
  case $line in
  *'"begin"'*) echo '{"protocol":1}'; continue ;;
  *'"round":'"$(cat "$here/fails")",*) echo '{"order":[99]}'; continue ;;
  esac
  new=$(printf %s "$line" | grep -o '"task":[0-9]*,"try"' | tr -dc '0-9\n')
  ready=$(printf '%s\n%s\n' "$ready" "$new" | grep . | sort -nu)
  echo "{\"order\":[$(printf %s "$ready" | tr '\n' ',')]}"
done
`

// program writes the program, and returns how a policy names it, and how often it was started.
func program(t *testing.T, fails string) (spec string, starts func() int, set func(fails string)) {
	t.Helper()
	dir := writeFiles(t, map[string]string{"mine.sh": orderly, "starts": ""})
	path := filepath.Join(dir, "mine.sh")
	must(t, os.Chmod(path, 0o755))
	set = func(fails string) {
		cliTest{t, dir}.write("fails", fails)
	}
	set(fails)
	return "exec:" + path, func() int { return strings.Count(read(t, filepath.Join(dir, "starts")), "\n") }, set
}

// A run whose policy fails ends resumable and says why; mended, the program continues it. Nothing that looks at the log
// starts the program.
func TestARunWhoseProgramFailsCanBeResumed(t *testing.T) {
	spec, starts, set := program(t, "4")
	dir := "--dir=" + t.TempDir()
	run := []string{"run", dir, "--name=r", "--runtime=null", "--emulate", "--policy", spec, fan(t)}
	code, _, errs := invoke(t, run...)
	for _, says := range []string{"mine.sh: I begin", "gantry: round 4 at ", "order[0]: there is no task 99",
		"continue with: gantry resume r"} {
		if code != exitInput || !strings.Contains(errs, says) {
			t.Errorf("exit %d, and it does not say %q:\n%s", code, says, errs)
		}
	}
	run[2] = "--name=p"
	expect(t, exitInput, nil, run...)
	expect(t, exitUsage, []string{`policy "hfet" is not known`}, "resume", dir, "--policy=hfet", "p")
	expect(t, exitOK, nil, "resume", dir, "--policy=heft", "p")
	expect(t, exitOK, []string{"policy heft on null", "mine.sh until "}, "show", dir, "p")
	expect(t, exitOK, []string{"mine.sh starts it on"}, "explain", dir, "p", "work 0")
	expect(t, exitOK, []string{"heft starts it on"}, "explain", dir, "p", "end")
	if starts() != 2 {
		t.Error("the other policy started the program")
	}
	set("none")
	expect(t, exitOK, nil, "resume", dir, "r")
	if n := starts(); n != 3 {
		t.Errorf("the program was started %d times, want 3", n)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	expect(t, exitOK, nil, "report", dir, "r", "--html", page, "--policies", "cpp,"+spec+",mood=calm,heft")
	if n := starts(); n != 4 {
		t.Errorf("the page has started the program %d times, want once", n-3)
	}
	path := strings.TrimPrefix(spec, "exec:")
	must(t, os.Remove(path))
	expect(t, exitOK, []string{"mine.sh"}, "show", dir, "r")
	expect(t, exitOK, []string{"mine.sh starts it on"}, "explain", dir, "r", "end")
	expect(t, exitOK, nil, "report", dir, "r", "--html", page)
	expect(t, exitOK, nil, "simulate", dir, "--name", "again", "--replay", "r")
	if r, again := makespan(t, dir, "r"), makespan(t, dir, "again"); math.Abs(r-again) > 0.01*r {
		t.Errorf("the replay takes %v s, and the run took %v s", again, r)
	}
	expect(t, exitOK, nil, "simulate", dir, "--replay", "r", "--policy", "cpp")
	heard := read(t, filepath.Join(filepath.Dir(path), "heard"))
	for _, name := range []string{`"name":"fan","tenant":0,"tenant_name":"",`,
		`"name":"work 3","kind":1,"type":"work",`} {
		if !strings.Contains(heard, name) {
			t.Errorf("the program does not hear of %s:\n%.2000s", name, heard)
		}
	}
	if n := starts(); n != 4 {
		t.Errorf("the program was started %d times", n)
	}
}

// The log has the plans of a program. A workflow that takes no time does not disturb them.
func TestTheLogHasThePlansOfPrograms(t *testing.T) {
	dir := writeFiles(t, map[string]string{"plans.sh": `#!/bin/sh
while read -r line; do
  case $line in
  *'"begin"'*) echo '{"protocol":1}' ;;
  *'"whole":true'*) echo '{"order":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15],"place":"earliest-finish"}' ;;
  *) echo '{"keep":true}' ;;
  esac
done
`, "none.dax": daxOf("<job id='x' name='x' runtime='0'/>")})
	must(t, os.Chmod(filepath.Join(dir, "plans.sh"), 0o755))
	expect(t, exitOK, nil, "simulate", "--dir", dir, "--policy", "exec:"+filepath.Join(dir, "plans.sh"), fan(t),
		filepath.Join(dir, "none.dax"))
	n := one[int](t, dir, "SELECT count(*) FROM v_notes WHERE topic = 'planned' AND task = 'end' AND instant_s > 0")
	if n != 1 {
		t.Errorf("%d notes say when the last task is planned, want 1", n)
	}
}

// A program plans simulations and experiments, whose files name it from where they are; checking one starts nothing.
func TestProgramsInExperiments(t *testing.T) {
	spec, starts, _ := program(t, "none")
	path := strings.TrimPrefix(spec, "exec:")
	files := map[string]string{
		"w.yaml": trialFiles["w.yaml"],
		"c.yaml": "nodes: [{name: n, cores: 1, memory: 2GB}]\n",
		"x.yaml": "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: [\"exec:./mine.sh\"], policy.alpha: [1, 2]}\n",
		"y.yaml": "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: [\"exec:./none.sh\"]}\n",
	}
	for name, text := range files {
		write(t, filepath.Join(filepath.Dir(path), name), text)
	}
	at := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	expect(t, exitOK, nil, "check", at("x.yaml"))
	expect(t, exitInput, []string{"none.sh"}, "experiment", "-o", at("r.sqlite"), at("y.yaml"))
	if n := starts(); n != 0 {
		t.Errorf("the check started the program %d times", n)
	}
	expect(t, exitOK, nil, "experiment", "-o", at("r.sqlite"), at("x.yaml"))
	expect(t, exitOK, nil, "experiment", "-o", at("r.sqlite"), at("x.yaml"))
	if n := starts(); n != 2 {
		t.Errorf("the experiment started the program %d times, want 2", n)
	}
	write(t, path, orderly+"\n# changed\n")
	expect(t, exitOK, nil, "experiment", "-o", at("r.sqlite"), at("x.yaml"))
	if n := starts(); n != 4 {
		t.Errorf("the changed program was started %d times, want 4", n)
	}
}

// The examples of policies in Python run in simulation, on one node and on several with copies, and in containers.
func TestExamplesOfOwnPolicies(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3: the examples of policies are not run")
	}
	home := t.TempDir()
	dir := "--dir=" + home
	for _, name := range []string{"random_order", "shortest_first", "min_min", "peft", "learning"} {
		spec := "exec:../examples/policies/" + name + ".py"
		for _, more := range [][]string{{"../examples/montage/montage-25.dax"},
			{"--cluster=../examples/heft/cluster.yaml", "../examples/heft/workload.yaml"},
			{"--cluster=../examples/mows/cluster.yaml", "../examples/mows/workload.yaml"}} {
			expect(t, exitOK, nil, append([]string{"simulate", "-q", dir, "--host-model=none", "--policy", spec},
				more...)...)
		}
	}
	if got := own.In(".", "exec:./x"); !filepath.IsAbs(strings.TrimPrefix(got, "exec:")) {
		t.Error(got)
	}
	t.Run("peft", func(t *testing.T) { // is the policy peft, which takes as long as published
		for _, policy := range []string{"peft", "exec:../examples/policies/peft.py"} {
			expect(t, exitOK, []string{"makespan 1m25s"}, "simulate", "--no-log", "--host-model=none", "--policy",
				policy, "--cluster=../examples/heft/cluster.yaml", "../examples/heft/workload.yaml")
		}
	})
	t.Run("faults", func(t *testing.T) {
		policies, err := filepath.Abs("../examples/policies")
		must(t, err)
		at := writeFiles(t, map[string]string{
			"w.yaml": strings.Replace(trialFiles["w.yaml"], "files: false\n", "", 1),
			"c.yaml": "nodes: [{name: n, cores: 2, memory: 4GB, group: a}, {name: m, cores: 1, speed: 0.5, " +
				"memory: 4GB, group: b}]\ntransfer: overlapped\n" +
				"links: [{from: a, to: b, bandwidth: 1MB/s, latency: 100ms}]\n",
			"x.yaml": strings.ReplaceAll("workload: w.yaml\ncluster: c.yaml\nfactors:\n"+
				"  policy: ['exec:@/learning.py', 'exec:@/peft.py', 'exec:@/min_min.py']\n"+
				"  faults: [{node_loss: {every: 20s, for: 10s}, task_failure: 0.1}]\n", "@", policies)})
		expect(t, exitOK, nil, "experiment", "-o", filepath.Join(at, "r.sqlite"), filepath.Join(at, "x.yaml"))
	})
	t.Run("gym", func(t *testing.T) {
		const script = `
import sys
sys.path.insert(0, "../examples/policies")
from gym import Gym
with Gym(sys.argv[2:], gantry=sys.argv[1]) as env:
    for seed in (1, 1, 2):
        seen, _ = env.reset(seed)
        total, steps, done = 0, 0, False
        while not done:
            seen, reward, done, _, _ = env.step({"order": sorted(seen.ready)})
            total, steps = total + reward, steps + 1
        print(round(-total, 3), steps)
    env.reset()
    try:
        env.step({"order": [99]})
        print("nothing is wrong")
    except RuntimeError as e:
        print(e)
`
		flow := "../examples/montage/montage-25.dax"
		cmd := exec.Command("python3", "-B", "-c", script, gantryLink(t), flow)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		expect(t, exitOK, nil, "simulate", "-q", dir, "--name=as-gym", "--host-model=none", "--policy=gbf:first", flow)
		line := fmt.Sprintf("%v 26\n", makespan(t, dir, "as-gym"))
		if !strings.HasPrefix(string(out), strings.Repeat(line, 3)) || !strings.Contains(string(out), "no task 99") {
			t.Errorf("the episodes are\n%s\nnot three times %s and an error", out, line)
		}
	})
	t.Run("containers", func(t *testing.T) {
		needsDocker(t)
		expect(t, exitOK, nil, "run", "-q", dir, "--name=c",
			"--policy=exec:../examples/policies/learning.py,epsilon=0.3", "--time-scale=0.01",
			"--size-scale=0.01", "../examples/montage/montage-25.dax")
		expect(t, exitOK, []string{"25 tasks"}, "show", dir, "c")
	})
}
