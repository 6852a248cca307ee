package cmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/sqlite"
)

func TestGPUsInSimulations(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"m.makeflow": "CATEGORY=gpu\nGPUS=1\na:\n\ttrue >a\nb:\n\ttrue >b\nc:\n\ttrue >c\n" +
			"CATEGORY=cpu\nd:\n\ttrue >d\n",
		"p.dax": `<adag name="p"><job id="ID1" name="x" runtime="3"/><job id="ID2" name="x" runtime="3"/>` +
			`<job id="ID3" name="y" runtime="3"/></adag>`,
		"none.yaml":  "nodes: [{name: n, cores: 8, memory: 1GB}]\n",
		"two.yaml":   "nodes: [{name: n, cores: 8, memory: 1GB, gpus: 2}]\n",
		"twice.yaml": "nodes: [{name: n, cores: 8, memory: 1GB, gpus: [x/gpu=1, x/gpu=1]}]\n",
		"three.yaml": "nodes: [{name: n, cores: 8, memory: 1GB, gpus: 1}, " +
			"{name: m, cores: 1, memory: 1GB, gpus: 2}]\n",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	runs := "--dir=" + at("runs")
	for _, c := range []struct {
		code    int
		says    string
		cluster string
		args    []string
	}{
		{exitOK, "makespan 2.00 s", "two.yaml", []string{"--name=two", at("m.makeflow")}},
		{exitInput, "gpus has a name twice: --gpus 0.5 gives tasks parts of a GPU", "twice.yaml",
			[]string{at("m.makeflow")}},
		{exitOK, "makespan 2.00 s", "three.yaml", []string{at("m.makeflow")}}, // node m has one core
		{exitOK, "makespan 3.00 s", "two.yaml", []string{at("p.dax"), "--gpus=y=1"}},
		{exitOK, "makespan 9.00 s", "two.yaml", []string{at("p.dax"), "--gpus=2"}},
		{exitOK, "makespan 6.00 s", "two.yaml", []string{at("p.dax"), "--gpus=1"}},
		{exitOK, "makespan 3.00 s", "two.yaml", []string{at("p.dax"), "--name=parts", "--gpus=x=0.5", "--gpus=y=1"}},
		{exitOK, "makespan 6.00 s", "two.yaml", []string{at("p.dax"), "--name=rest",
			"--gpus=0.6"}}, // 0.4 of each are not 0.6 of one
		{exitOK, "makespan 3.00 s", "two.yaml", []string{at("p.dax"), "--gpus=2", "--gpus=x=1", "--gpus=y=0"}},
		{exitOK, "makespan 1.00 s", "none.yaml", []string{at("m.makeflow"), "--fit"}},
		{exitInput, "task a (" + at("m.makeflow") + ", line 3) needs GPUs: 1, and no node that has its cores has " +
			"more than 0 (key gpus of a cluster file gives nodes some)", "none.yaml", []string{at("m.makeflow")}},
		{exitInput, "needs GPUs: 3, and no node that has its cores has more than 2; ask for less", "two.yaml",
			[]string{at("p.dax"), "--gpus=3"}},
		{exitInput, "--gpus has no effect here: no task holds a GPU", "two.yaml", []string{at("p.dax"), "--gpus=z=1"}},
		{exitUsage, `--gpus "many": write N or PATTERN=N`, "two.yaml", []string{at("p.dax"), "--gpus=many"}},
	} {
		expect(t, c.code, []string{c.says}, append([]string{"simulate", runs, "--cluster=" + at(c.cluster)},
			c.args...)...)
	}
	expect(t, exitOK, []string{"needs 1 core", ", 1 GPU", "no node has as many GPUs free", ", GPUs 0"}, "explain", runs,
		"two", "c")
	expect(t, exitOK, []string{", 0.5 GPUs"}, "explain", runs, "parts", "ID1")
	expect(t, exitOK, []string{"no node has 0.6 of one GPU free; running then: ID1, ID2"}, "explain", runs, "rest",
		"ID3")
	expect(t, exitOK, []string{"gpus"}, "export", runs, "--format=csv", "two")
}

// Plans that parts of GPUs cannot be held to are bent, whatever the policy: all tasks end.
func TestPlansWithPartsOfGPUs(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"c.yaml": "nodes: [{name: a, cores: 16, memory: 64GB, gpus: 3}, {name: b, count: 2, cores: 8, memory: 32GB, " +
			"gpus: 2}, {name: c, cores: 4}]\n",
		"w.yaml": "seed: 3\ncount: 12\ntasks: 40\nmix: [{generator: montage, fraction: 1}]\n" +
			"total_runtime: {distribution: lognormal, mean: 5m, variation: 1}\n" +
			"arrivals: {process: poisson, utilisation: 0.9}\ndeadlines: {factor: 3}\n"})
	for _, policy := range []string{"cpp", "peft", "cpop", "max-min", "rm-dcwf", "fifo", "3dsf"} {
		expect(t, exitOK, nil, "simulate", "--no-log", "--policy="+policy, "--cluster="+filepath.Join(dir, "c.yaml"),
			"--gpus=mProject*=0.6", "--gpus=mDiff*=0.3", "--gpus=mBack*=1", "--gpus=mAdd=2",
			filepath.Join(dir, "w.yaml"))
	}
}

// madeUpGPUs makes devices, copies of the null device, and a file that describes them as those of a vendor.
func madeUpGPUs(t *testing.T, vendor string, count int) (cdi string) {
	t.Helper()
	cdi = t.TempDir()
	text := "cdiVersion: 0.6.0\nkind: " + vendor + "/gpu\ndevices:\n"
	for i := range count {
		node := filepath.Join(cdi, fmt.Sprint("node", i))
		if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
			t.Skipf("needs the right to make devices: %v", err)
		}
		text += fmt.Sprintf("- {name: '%d', containerEdits: {deviceNodes: [{path: /dev/madeup%d, hostPath: %s}]}}\n", i,
			i, node)
	}
	cliTest{t, cdi}.write("madeup.yaml", text)
	return cdi
}

// Tasks get GPUs of their node alone. Nodes whose GPUs this host does not have are refused before anything starts.
func TestGPUsOfNodes(t *testing.T) {
	needsBusybox(t)
	cdi := madeUpGPUs(t, "example.com", 3)
	dir := writeFiles(t, map[string]string{
		"g.makeflow": "GPUS=1\na:\n\tls /dev | grep madeup >a; sleep 1\nb:\n\tls /dev | grep madeup >b; sleep 1\n",
		"c.yaml": "nodes: [{name: none, cores: 0.5, memory: 64MB}, {name: one, cores: 0.5, memory: 64MB, " +
			"gpus: [example.com/gpu=1]}, {name: two, cores: 0.5, memory: 64MB, gpus: 1}]\n",
		"half.makeflow": "GPUS=1\nCORES=0.5\nMEMORY=16\na:\n\tls /dev | grep madeup >a; sleep 1\nb:\n\tls /dev | " +
			"grep madeup >b; sleep 1\n",
		"parts.yaml": "nodes: [{name: one, cores: 1, memory: 64MB, gpus: [example.com/gpu=1, example.com/gpu=2]}]\n",
		"parts.makeflow": "CORES=0.5\nMEMORY=16\nCATEGORY=part\nGPUS=0.5\na:\n\tls /dev | grep madeup >a; sleep 1\n" +
			"b:\n\tls /dev | grep madeup >b; sleep 1\nCATEGORY=whole\nGPUS=2\nc: a b\n\tls /dev | " +
			"grep madeup | cat - a b >c\n",
		"many.yaml":    "nodes: [{name: n, memory: 64MB, gpus: 5}]\n",
		"unknown.yaml": "nodes: [{name: n, memory: 64MB, gpus: [example.com/gpu=9]}]\n",
		"twice.yaml": "nodes: [{name: n, memory: 64MB, gpus: [example.com/gpu=1]}, {name: m, cores: 0.1, " +
			"memory: 64MB, gpus: [example.com/gpu=1]}]\n",
	})
	bad := writeFiles(t, map[string]string{
		"madeup.json": `{"cdiVersion":"0.6.0","kind":"example.com/gpu","devices":[{"name":"0"}]}`})
	gone := writeFiles(t, map[string]string{"gone.json": `{"cdiVersion":"0.6.0","kind":"example.com/gpu",` +
		`"devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/gone"}]}}]}`})
	lost := func(edit string) string {
		return writeFiles(t, map[string]string{"lost.json": `{"cdiVersion":"0.6.0","kind":"example.com/gpu",` +
			`"devices":[{"name":"0","containerEdits":{` + edit + `}}]}`})
	}
	mount := lost(`"mounts":[{"hostPath":"/no/lib","containerPath":"/lib/x","options":["bind"]}]`)
	hook := lost(`"hooks":[{"hookName":"createContainer","path":"/no/hook"}]`)
	at := func(name string) string { return filepath.Join(dir, name) }
	runs := "--dir=" + at("runs")
	for _, runtime := range runtimesOf(t) {
		args := []string{"run", runs, "--runtime=" + runtime, "--image=gantry/busybox"}
		expect(t, exitOK, nil, append(args, "--name="+runtime, "--cdi-dir="+cdi, "--cluster="+at("c.yaml"),
			at("half.makeflow"))...)
		var saw []string
		for _, file := range []string{"a", "b"} {
			text, err := os.ReadFile(filepath.Join(dir, "runs", runtime, "results", "half", file))
			must(t, err)
			saw = append(saw, string(text))
		}
		if all := strings.Join(saw, ""); all != "madeup1\nmadeup0\n" && all != "madeup0\nmadeup1\n" {
			t.Errorf("%s: tasks saw %q", runtime, saw)
		}
		if got := gpusOf(t, at("runs"), runtime); got != "one:example.com/gpu=1 two:example.com/gpu=0" {
			t.Errorf("%s: the log has %q", runtime, got)
		}
		shell := func(run, task string) (out, says string) {
			var stderr strings.Builder
			c := exec.Command(gantryLink(t), "shell", runs, run, task)
			c.Stdin, c.Stderr = strings.NewReader("ls /dev | grep madeup; true\n"), &stderr
			text, err := c.Output()
			if err != nil {
				t.Errorf("%s: the shell ends with %v: %s", runtime, err, stderr.String())
			}
			return string(text), stderr.String()
		}
		if out, _ := shell(runtime, "a"); out != saw[0] {
			t.Errorf("%s: the shell sees %q, its task saw %q", runtime, out, saw[0])
		}
		cliTest{t, dir}.sql("UPDATE runs SET state = 'running' WHERE name = '" + runtime + "'")
		if out, says := shell(runtime, "a"); out != "" || !strings.Contains(says, "the shell has no GPU: until run ") {
			t.Errorf("%s: while the run is under way the shell sees %q, and says %s", runtime, out, says)
		}
		must(t, os.Rename(filepath.Join(cdi, "madeup.yaml"), filepath.Join(cdi, "aside")))
		cliTest{t, dir}.sql("UPDATE runs SET state = 'finished' WHERE name = '" + runtime + "'")
		if out, says := shell(runtime, "a"); out != "" || !strings.Contains(says, "the shell has no GPU: device ") {
			t.Errorf("%s: without the GPU the shell sees %q, and says %s", runtime, out, says)
		}
		must(t, os.Rename(filepath.Join(cdi, "aside"), filepath.Join(cdi, "madeup.yaml")))
		parts := runtime + "-parts"
		expect(t, exitOK, nil, append(args, "--name="+parts, "--cdi-dir="+cdi, "--cluster="+at("parts.yaml"),
			at("parts.makeflow"))...)
		text := readAll(t, filepath.Join(dir, "runs", parts, "results", "parts", "c"))
		if out, _ := shell(parts, "a"); "madeup1\nmadeup2\n"+out+out != text || out != "madeup1\n" {
			t.Errorf("%s: tasks with parts of a GPU saw %q, and a shell %q", runtime, text, out)
		}
		if got, one := gpusOf(t, at("runs"), parts), "one:example.com/gpu=1"; got != one+" "+one+" "+one+
			",example.com/gpu=2" {
			t.Errorf("%s: of parts the log has %q", runtime, got)
		}
		for _, c := range []saying{
			{exitHost, "the cluster asks for 5 GPUs, this host has 3\n", []string{"--cdi-dir=" + cdi,
				"--cluster=" + at("many.yaml"), at("g.makeflow")}},
			{exitHost, "node n: this host has no GPU example.com/gpu=9: it has example.com/gpu=0, ", []string{
				"--cdi-dir=" + cdi, "--cluster=" + at("unknown.yaml"), at("g.makeflow")}},
			{exitInput, "node m has the GPU example.com/gpu=1, which is one of node n already", []string{
				"--cdi-dir=" + cdi, "--cluster=" + at("twice.yaml"), at("g.makeflow")}},
			{exitInput, "needs GPUs: 1, and no node that has its cores has more than 0 (key gpus of a cluster file " +
				"gives nodes some; no file in " + at("no") + " describes one", []string{"--cdi-dir=" + at("no"),
				at("g.makeflow")}},
			{exitInput, "nodes some; file " + filepath.Join(bad, "madeup.json") + ": invalid CDI Spec", []string{
				"--cdi-dir=" + bad, at("g.makeflow")}},
			{exitHost, `example.com/gpu=0: failed to stat CDI host device "/dev/gone": no such file or directory (is`,
				[]string{"--cdi-dir=" + gone, at("g.makeflow")}},
			{exitHost, "example.com/gpu=0: stat /no/lib: no such file or directory (is", []string{"--cdi-dir=" + mount,
				at("g.makeflow")}},
			{exitHost, "example.com/gpu=0: stat /no/hook: no such file or directory (is", []string{"--cdi-dir=" + hook,
				at("g.makeflow")}},
			{exitHost, "the cluster asks for 5 GPUs, this host has 0: file " + bad, []string{"--cdi-dir=" + bad,
				"--cluster=" + at("many.yaml"), at("g.makeflow")}},
		} {
			expect(t, c.code, []string{c.says}, append(args, c.args...)...)
		}
	}
}

// gpusOf lists the GPUs that attempts of a run held, with their nodes.
func gpusOf(t *testing.T, dir, run string) string {
	t.Helper()
	return textsOf(t, dir, run, "SELECT node || ':' || gpus FROM v_attempts WHERE run = ? ORDER BY 1")
}

// textsOf returns the texts that a query of a run finds.
func textsOf(t *testing.T, dir, run, query string) string {
	t.Helper()
	db := logIn(t, dir)
	var all []string
	err := db.Each(context.Background(), func(scan sqlite.Scan) error {
		var text string
		err := scan(&text)
		all = append(all, text)
		return err
	}, query, run)
	must(t, err)
	return strings.Join(all, " ")
}

// Samples of nvidia-smi are the time and the memory of the GPUs that an attempt holds, and no others.
func TestGPUsAreMeasured(t *testing.T) {
	needsBusybox(t)
	cdi := madeUpGPUs(t, "nvidia.com", 3)
	dir := writeFiles(t, map[string]string{
		"g.makeflow": "CORES=0.1\nMEMORY=16\nCATEGORY=two\nGPUS=2\na:\n\tsleep 3 && touch a\nCATEGORY=none\nGPUS=0\n" +
			"b: a\n\ttouch b\nCATEGORY=one\nGPUS=1\nc: b\n\tsleep 2; exit 3\n",
		"p.makeflow": "CORES=0.1\nMEMORY=16\nGPUS=0.5\na:\n\tsleep 2; touch a\n",
		"nvidia-smi": "#!/bin/sh\nwhile echo 'GPU-a, 0, 50, 1000'; do\necho 'GPU-b, 1, 100, 24'\n" +
			"echo 'GPU-c, 2, 7, 9'\nsleep 0.2\ndone\n"})
	must(t, os.Chmod(filepath.Join(dir, "nvidia-smi"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	runs := "--dir=" + filepath.Join(dir, "runs")
	for _, runtime := range runtimesOf(t) {
		expect(t, exitTasksFailed, nil, "run", runs, "--runtime="+runtime, "--image=gantry/busybox", "--name="+runtime,
			"--cdi-dir="+cdi, "--retries=0", filepath.Join(dir, "g.makeflow"))
		got := textsOf(t, filepath.Join(dir, "runs"), runtime, "SELECT task || ' ' || coalesce(round(gpu_ns * 2.0 / "+
			"ran_ns) / 2, 'no') || ' ' || coalesce(peak_gpu_memory_bytes >> 20, 'no') FROM v_attempts "+
			"WHERE run = ? ORDER BY 1")
		if got != "a 1.5 1024 b no no c 0.5 1000" {
			t.Errorf("%s: tasks used %q", runtime, got)
		}
		expect(t, exitOK, nil, "run", runs, "--runtime="+runtime, "--image=gantry/busybox", "--name="+runtime+"-part",
			"--cdi-dir="+cdi, filepath.Join(dir, "p.makeflow"))
		if got := textsOf(t, filepath.Join(dir, "runs"), runtime+"-part", "SELECT gpus || "+
			"coalesce(gpu_ns, ' no') || coalesce(peak_gpu_memory_bytes, ' no') FROM v_attempts "+
			"WHERE run = ?"); got != "nvidia.com/gpu=0 no no" {
			t.Errorf("%s: of a shared GPU the log has %q", runtime, got)
		}
		expect(t, exitOK, []string{" of GPU, 1.049 GB of GPU memory at most"}, "explain", runs, runtime, "c")
		expect(t, exitOK, []string{"GPU", "peak GPU memory", "1.074 GB"}, "show", runs, runtime)
		for format, says := range map[string]string{"otlp": "gantry.peak_gpu_memory_bytes",
			"csv": "gpu_ns,peak_gpu_memory_bytes"} {
			expect(t, exitOK, []string{says}, "export", runs, "--format="+format, runtime)
		}
	}
}

// A server that was killed knows which GPUs the jobs hold that it adopts.
func TestGPUsOutliveAServer(t *testing.T) {
	runtime := runtimesOf(t)[0]
	cdi := madeUpGPUs(t, "example.com", 3)
	work, s := slurmServer(t, "--runtime", runtime, "--cdi-dir", cdi, "--name", "gpus")
	job := func(gpus, name string) {
		t.Helper()
		expectBoth(t, exitOK, "sbatch", gpus, "-c1", "--mem=16M", "-o", name, "--wrap",
			"ls /dev | grep madeup; until [ -e go ]; do sleep 0.1; done")
	}
	saw := func(name, want string) {
		t.Helper()
		eventually(t, func() (bool, any) {
			text := read(t, filepath.Join(work, name))
			return text == want, "job " + name + " saw " + text
		})
	}
	job("--gres=gpu:1", "first")
	saw("first", "madeup0\n")
	s.kill()
	serveIn(t, s.dir, "--runtime", runtime, "--cdi-dir", cdi, "--name", "gpus")
	if _, says := expectBoth(t, exitSlurm, "sbatch", "--gpus=4", "--wrap", "true"); !strings.Contains(says,
		"needs GPUs: 4, and no node that has its cores has more than 3") {
		t.Errorf("it says %q", says)
	}
	job("--gpus=2", "second")
	saw("second", "madeup1\nmadeup2\n")
	cliTest{t, work}.write("go", "")
	expectBoth(t, exitOK, "sbatch", "-W", "-G3", "--mem=16M", "-o", "third", "--wrap", "ls /dev | grep madeup")
	saw("third", "madeup0\nmadeup1\nmadeup2\n")
}
