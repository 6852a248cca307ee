package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
)

const unequalNodes = `name: unequal
transfer: held
nodes:
  - {name: quick, cores: 3, speed: 1.7, memory: 600MB, group: rack}
  - {name: slow_1, cores: 2, speed: 0.3, memory: 4GB, group: rack}
  - {name: slow-1, cores: 2, speed: 1, memory: 2GB, group: rack}
links:
  - {from: rack, to: rack, bandwidth: 20MB/s, latency: 3ms}
`

// A fan with all that a round trip may lose: tasks without time, parts of cores, memory that is known of some tasks of
// a type, needs above what is used, files without bytes and ids that the schema refuses.
func fan(t *testing.T) string {
	type object = map[string]any
	spec := []object{{"name": "begin", "id": "begin", "parents": []string{}, "children": []string{}}}
	ran := []object{{"id": "begin", "runtimeInSeconds": 0}}
	files := []object{}
	var middle, read []string
	for i := range 14 {
		id, file := fmt.Sprintf("work %d", i), fmt.Sprintf("part %d", i)
		middle, read = append(middle, id), append(read, file)
		spec = append(spec, object{"name": "work", "id": id, "parents": []string{"begin"}, "children": []string{"end"},
			"outputFiles": []string{file}, "category": "work", "coreCount": []float64{0.5, 1, 2}[i%3]})
		x := object{"id": id, "runtimeInSeconds": 3.7 + float64(i*i%11)*1.3}
		if i%4 == 0 {
			x["memoryInBytes"] = 450_000_000
		}
		ran = append(ran, x)
		files = append(files, object{"id": file, "sizeInBytes": i % 2 * 7_000_001})
	}
	spec[0]["children"] = middle
	spec = append(spec, object{"name": "end", "id": "end", "parents": middle, "children": []string{},
		"inputFiles": read})
	ran = append(ran, object{"id": "end", "runtimeInSeconds": 1.000000007})
	text, err := json.Marshal(object{"name": "fan", "schemaVersion": "1.5", "workflow": object{
		"specification": object{"tasks": spec, "files": files},
		"execution":     object{"makespanInSeconds": 0, "executedAt": "unknown", "tasks": ran}}})
	must(t, err)
	path := filepath.Join(t.TempDir(), "fan.json")
	must(t, os.WriteFile(path, text, 0o644))
	return path
}

// makespan is that of a run, in seconds.
func makespan(t *testing.T, dir, run string) float64 {
	t.Helper()
	return one[float64](t, strings.TrimPrefix(dir, "--dir="), "SELECT makespan_s FROM v_runs WHERE run = ?", run)
}

func TestAnExportedRunSimulatesToTheSameMakespan(t *testing.T) {
	dir, home := "--dir="+t.TempDir(), t.TempDir()
	cluster := cliTest{t, home}.write("cluster.yaml", unequalNodes)
	simulate := func(name, policy, flow string, more ...string) float64 {
		expect(t, exitOK, nil, append([]string{"simulate", "-q", dir, "--host-model=none", "--name", name, "--policy",
			policy, "--cluster", cluster, flow}, more...)...)
		return makespan(t, dir, name)
	}
	flows := map[string]string{"fan": fan(t), "montage": "../examples/montage/montage-25.dax"}
	for _, p := range []string{"cpp", "heft", "gbf", "mrcp-rm", "owm-mp+backfilling", "mows"} {
		for flow, path := range flows {
			run := flow + "-" + strings.ReplaceAll(p, "+", "-")
			first := simulate(run, p, path)
			export := filepath.Join(home, run+".json")
			expect(t, exitOK, nil, "export", dir, "--format", "wfformat", "-o", export, run)
			if again := simulate(run+"-again", p, export); again != first {
				t.Errorf("%s: %v s, and %v s from its export", run, first, again)
			}
		}
	}
	// The time around the programs is kept, too.
	first := simulate("started", "cpp", flows["fan"], "--startup", "700ms")
	export := filepath.Join(home, "started.json")
	expect(t, exitOK, nil, "export", dir, "--format", "wfformat", "-o", export, "started")
	if again := simulate("started-again", "cpp", export); again != first {
		t.Errorf("with starts: %v s, and %v s from its export", first, again)
	}
	expect(t, exitOK, []string{"16 in both, 16 on the same node"}, "compare", dir, "started", "started-again")
}

// An export tells how runtimes were estimated: declared ones, which the runtimes of the run are not, and measurements
// of earlier runs. So policies that rest on estimates decide as they did, in a log that knows nothing of these.
func TestAnExportedRunWithLearnedEstimatesSimulatesToTheSameMakespan(t *testing.T) {
	home := t.TempDir()
	cluster, flow := cliTest{t, home}.write("cluster.yaml", unequalNodes), fan(t)
	var differ bool
	for _, p := range []string{"heft", "min-min", "cpp", "lookahead"} {
		dir, fresh := "--dir="+t.TempDir(), "--dir="+t.TempDir()
		export, twice := filepath.Join(home, p+".json"), filepath.Join(home, p+"-2.json")
		for seed := range 3 {
			expect(t, exitOK, nil, "simulate", "-q", dir, "--host-model=none", "--name", fmt.Sprint("run-", seed),
				"--policy", p, "--cluster", cluster, "--errors=uniform:0.9", "--estimator=learned", "--seed",
				fmt.Sprint(seed), flow)
		}
		expect(t, exitOK, nil, "export", dir, "--format", "wfformat", "-o", export, "run-2")
		first := makespan(t, dir, "run-2")
		simulate := func(name, file string, more ...string) float64 {
			expect(t, exitOK, nil, append([]string{"simulate", "-q", fresh, "--host-model=none", "--name", name,
				"--policy", p, "--cluster", cluster, file}, more...)...)
			return makespan(t, fresh, name)
		}
		if again := simulate("again", export); again != first {
			t.Errorf("%s: %v s, and %v s from its export", p, first, again)
		}
		says := fmt.Sprint("makespan ", time.Duration(first*1e9).Round(time.Millisecond))
		expect(t, exitOK, []string{says}, "simulate", "--no-log", "--host-model=none", "--policy", p, "--cluster",
			cluster, export)
		expect(t, exitOK, nil, "export", fresh, "--format", "wfformat", "-o", twice, "again")
		if again := simulate("third", twice); again != first {
			t.Errorf("%s: %v s, and %v s from the export of its export", p, first, again)
		}
		expect(t, exitOK, nil, "simulate", "-q", fresh, "--name=replayed", "--replay=third")
		if again := makespan(t, fresh, "replayed"); again != first {
			t.Errorf("%s: %v s, and %v s when that is replayed", p, first, again)
		}
		differ = differ || simulate("known", export, "--estimator=oracle") != first
		named := simulate("named", export, "--estimator=declared")
		expect(t, exitOK, nil, "export", fresh, "--format", "wfformat", "-o", twice, "named")
		if again := simulate("named-again", twice); again != named {
			t.Errorf("%s: %v s with an estimator that is named, and %v s from the export", p, named, again)
		}
		simulate("beside", export, flow) // of which nobody measured anything
		if n := one[int](t, strings.TrimPrefix(fresh, "--dir="), "SELECT count(*) FROM v_estimates WHERE run = "+
			"'beside' AND source = 'default'"); n > 0 {
			t.Errorf("%s: %d estimates beside those of the export forget the runtimes of their trace", p, n)
		}
	}
	if !differ {
		t.Error("estimates make no difference in this test")
	}
}

func TestAReplayUnderTheSamePolicyHasTheSameMakespan(t *testing.T) {
	dir, home := "--dir="+t.TempDir(), t.TempDir()
	cluster := cliTest{t, home}.write("cluster.yaml", unequalNodes)
	flow := fan(t)
	for i, row := range policy.Table() {
		p := row.Name
		if p == "pipeline" /* it has no defaults for its phases */ || row.Read != nil || !seedtest.Takes(i) {
			continue
		}
		name := strings.ReplaceAll(p, "+", "-")
		real, sim := "real-"+name, "sim-"+name
		expect(t, exitOK, nil, "run", "-q", dir, "--name", real, "--runtime=null", "--emulate", "--policy", p,
			"--cluster", cluster, flow)
		expect(t, exitOK, nil, "simulate", "-q", dir, "--host-model=none", "--name", sim, "--policy", p, "--cluster",
			cluster, "--errors", "random2:3", "--startup", "150ms", flow)
		learned := "learned-" + name
		expect(t, exitOK, nil, "simulate", "-q", dir, "--host-model=none", "--name", learned, "--policy", p,
			"--cluster", cluster, "--errors", "uniform:1", "--estimator", "learned", flow)
		// The first learns as it goes, the second has wrong estimates and its own estimator named, and the third learns
		// from runtimes unlike the declared ones, and from those of earlier runs.
		for _, run := range []string{real, sim, learned} {
			expect(t, exitOK, nil, append([]string{"simulate", "-q", dir, "--name", run + "-again", "--replay", run},
				map[string][]string{sim: {"--estimator=declared"}}[run]...)...)
			if first, again := makespan(t, dir, run), makespan(t, dir, run+"-again"); first != again {
				t.Errorf("%s: %v s, and %v s when it is replayed", run, first, again)
			}
		}
	}
}

// A task that continues from its checkpoint on a slower node has the same work left, in the replay and in the export.
func TestATaskThatMovesToASlowerNodeKeepsItsWork(t *testing.T) {
	files := map[string]string{"c.yaml": "nodes: [{name: fast, memory: 1GB, speed: 2}, {name: slow, memory: 1GB}]\n",
		"w.yaml": "workflows:\n  - {trace: long.json, class: low}\n  - {trace: small.json, class: low}\n" +
			"  - {trace: urgent.json, arrive: 20s, class: deadline, deadline: 26s}\n" +
			"  - {trace: large.json, arrive: 21s, class: deadline, deadline: 46s}\n"}
	for name, runtime := range map[string]int{"long": 100, "small": 26, "urgent": 10, "large": 40} {
		files[name+".json"] = wfOf(fmt.Sprintf(`{"name": %q, "runtime": %d, "memoryInBytes": 100000000}`, name, runtime))
	}
	home, dir := writeFiles(t, files), "--dir="+t.TempDir()
	expect(t, exitOK, nil, "simulate", "-q", dir, "--name=first", "--policy=pds:room=leave", "--checkpoint=1MB",
		"--cluster="+filepath.Join(home, "c.yaml"), filepath.Join(home, "w.yaml"))
	expect(t, exitOK, nil, "simulate", "-q", dir, "--name=again", "--replay=first")
	for _, run := range []string{"first", "again"} {
		expect(t, exitOK, []string{"slow", "40.0 % of the task is kept"}, "explain", dir, run, "long")
	}
	expect(t, exitOK, []string{`"runtimeInSeconds":100}`}, "export", dir, "--format=wfformat", "--workflow=long",
		"first")
}
