package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What cannot work is refused before anything happens, with what to do instead.
func TestMisuseIsRefusedWithWhatToDo(t *testing.T) {
	home := "--dir=" + t.TempDir()
	expect(t, exitOK, nil, "run", "-q", home, "--runtime=null", "--name=n", montage)
	fetch := written(t, "n.makeflow", "CATEGORY=fetch\na:\n\ttrue >a\n")
	for _, c := range []saying{
		{exitUsage, `--network "out" is outbound, asked or none`, []string{"run", home, "--network=out", fetch}},
		{exitUsage, `--network "[=outbound": syntax error in pattern of names`,
			[]string{"run", home, "--network=[=outbound", fetch}},
		{exitInput, "--network has no effect here: it gives no command a network",
			[]string{"run", home, "--network=b*=outbound", "--image=x", fetch}},
		{exitInput, "--network has no effect here: no task runs a program",
			[]string{"run", home, "--network=outbound", "--emulate", fetch}},
		{exitInput, "the null runtime, which has no files", []string{"resume", home, "n", "--with", montage}},
		{exitUsage, "cannot go with --no-log", []string{"simulate", "--no-log", "--json", montage}},
		{exitUsage, "--time-scale -1: give a number from 0", []string{"simulate", home, "--time-scale=-1", montage}},
		{exitUsage, "--retries -1: give a number from 0", []string{"simulate", home, "--retries=-1", montage}},
		{exitUsage, "--map-time is \"5\"", []string{"generate", "mapreduce", "-n", "5", "--map-time", "5"}},
		{exitUsage, "--held-out -1: give a number from 0", []string{"predict", "train", home, "--held-out=-1"}},
		{exitUsage, "--port 99999: give a number from 0 to 65535",
			[]string{"run", home, "--runtime=null", "--watch", "--port=99999", montage}},
		{exitUsage, "--port -1: give a number", []string{"watch", home, "--port=-1", "n"}},
		{exitUsage, "--grace -1s: give a number from 0",
			[]string{"run", home, "--runtime=null", "--dry-run", "--grace=-1s", montage}},
		{exitUsage, `policy "heft:": a parameter is missing`, []string{"simulate", home, "--policy=heft:", montage}},
		{exitUsage, "--slurm-job abc: give the number",
			[]string{"run", home, "--runtime=slurm", "--slurm-job=abc", montage}},
		{exitUsage, "--node-runtime none: programs run in containers: choose oci or docker",
			[]string{"run", home, "--runtime=slurm", "--slurm-job=1", "--node-runtime=none", montage}},
		{exitUsage, "--runtime dockr: choose one of auto, docker, oci",
			[]string{"run", home, "--runtime=dockr", montage}},
		{exitInput, "needs 1.034 GB of memory: the largest node that has its cores has 8 MB", []string{"simulate", home,
			"--cluster", written(t, "c.yaml", "nodes: [{name: n, cores: 1, memory: 8MB}]\n"),
			written(t, "m.json", wfOf(`{"name": "a", "runtime": 1, "memory": 1000000000}`))}},
		{exitUsage, "version takes no arguments", []string{"version", "x"}},
		{exitUsage, "calibrate", []string{"calibrate", "something"}},
		{exitUsage, "it has no containers", []string{"calibrate", home, "--runtime=null"}},
		{exitUsage, "add --files", []string{"clean", home, "--keep-reuse"}},
		{exitInput, "--host-model: /none: no such file", []string{"simulate", home, "--host-model=/none", montage}},
		{exitInput, "report: /none: no such file", []string{"report", "x.sqlite", "--markdown", "--study=/none"}},
		{exitInput, "w.yaml:1: /none.dax: no such file", []string{"simulate", home,
			written(t, "w.yaml", "workflows: [{trace: /none.dax}]\n")}},
		{exitInput, "line 2: arrivals: times /none: there is no such file", []string{"simulate", home,
			written(t, "w.yaml", "{count: 1, mix: [{generator: montage, tasks: 20}],\n"+
				"arrivals: {process: trace, times: /none}}\n")}},
	} {
		expect(t, c.code, []string{c.says}, c.args...)
	}
}

// A command at the end of a run finds the run by the environment that it gets.
func TestTheCommandAtTheEndFindsItsRun(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	expect(t, exitOK, nil, "run", "-q", "--dir="+dir, "--runtime=null", "--name=n", "--on-end",
		"echo $GANTRY_DIR $GANTRY_RUN_DIR $GANTRY_RUN $GANTRY_STATE $GANTRY_TASKS $GANTRY_FAILED >"+out, montage)
	got, err := os.ReadFile(out)
	if want := dir + " " + filepath.Join(dir, "n") + " n finished 25 0\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// While its only node is drained, a task waits for the reason no-node.
func TestATaskThatNoNodeCanTakeSaysWhy(t *testing.T) {
	dir := t.TempDir()
	s := serveIn(t, dir, "--runtime", "null", "--name", "lab")
	expect(t, exitOK, nil, "node", "--dir", dir, "drain", "host")
	id := s.submit(montage)
	eventually(t, func() (bool, any) {
		_, out, errs := invoke(t, "explain", "--dir", dir, id, "ID00000")
		return strings.Contains(out, "no node can take it now"), out + errs
	})
	expect(t, exitOK, nil, "node", "--dir", dir, "resume", "host")
	expect(t, exitOK, nil, "wait", "-q", "--dir", dir, id)
	expect(t, exitOK, nil, "drain", "--dir", dir)
}

// gantry check finds what an experiment or a simulation would refuse.
func TestCheckFindsWhatIsRefusedLater(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"c.yaml": "nodes: [{name: n, cores: 4}]\n",
		"w.yaml": "mix: [{generator: montage}]\ntasks: 30\ncount: 2\narrivals: {process: batch}\n",
		"e.yaml": "cluster: c.yaml\nworkload: w.yaml\nfactors:\n  policy: [gbf]\n  errors: [none, 'static:0']\n",
		"f.yaml": "cluster: c.yaml\nworkload: w.yaml\nfactors:\n  policy: [gbf]\n  utilisation: [0.5]\n",
		"g.yaml": "cluster: c.yaml\nworkload: w.yaml\nfactors: {policy: [gbf]}\n",
		"u.yaml": "mix:\n- {generator: montag}\ntasks: 30\ncount: 2\narrivals: {process: batch}\n",
		"b.dax":  "<adag>\n<job id='a' runtime='x'/></adag>",
		"b.yaml": "workflows:\n- trace: b.dax\n",
		"v.yaml": "mix:\n- {generator: montage}\ntasks: 5\ncount: 2\narrivals: {process: batch}\n",
	})
	expect(t, exitOK, nil, "check", filepath.Join(dir, "g.yaml"))
	expect(t, exitOK, nil, "check", "--repair", filepath.Join(dir, "b.yaml"))
	for name, says := range map[string]string{
		"b.yaml": "b.dax:2: runtime \"x\" of task a is not a number",
		"e.yaml": "line 5: cluster=c.yaml errors=static:0",
		"f.yaml": "utilisation",
		"u.yaml": `line 2: generator: there is no generator "montag"`,
		"v.yaml": "line 2: generator: montage workflows of 5 tasks cannot be made; they have at least 13",
	} {
		code, out, _ := invoke(t, "check", filepath.Join(dir, name))
		if code != exitInput || !strings.Contains(out, says) {
			t.Errorf("%s: exit code %d, %q lacks %q", name, code, out, says)
		}
	}
}
