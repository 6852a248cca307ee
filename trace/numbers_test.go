package trace_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gantry/trace"
	"gantry/trace/reader"
)

// numericFields are files of all formats with each number that they can have, in the place of @.
func numericFields() map[string][]string {
	profile := func(at string) string {
		return yml("- {id: a, name: x, profiles: {" + at + "}}\n")
	}
	task := func(at string) string { return wf(`{"name": "a", ` + at + `}`) }
	return map[string][]string{
		"w.dax": {dax("<job id='a' runtime='@'/>"), dax("<job id='a' cores='@'/>"), dax("<job id='a' memory='@'/>"),
			dax("<job id='a'><uses name='f' link='output' size='@'/></job>"),
			dax("<job id='a'><profile namespace='globus' key='count'>@</profile></job>"),
			dax("<file name='f'><metadata key='size'>@</metadata></file>" +
				"<job id='a'><uses name='f' link='input'/></job>")},
		"w.yml": {profile("pegasus: {runtime: '@'}"), profile("pegasus: {cores: '@'}"),
			profile("pegasus: {memory: '@'}"),
			profile("condor: {request_cpus: '@'}"), profile("condor: {request_memory: '@'}"),
			profile("globus: {count: '@'}"), profile("globus: {maxmemory: '@'}"), profile("globus: {maxwalltime: '@'}"),
			profile("pegasus: {maxwalltime: '@'}"), profile("dagman: {retry: '@'}"),
			profile("pegasus: {gpus: '@'}"), profile("gantry: {disk: '@'}"),
			profile("gantry: {phase: '@'}"), profile("gantry: {time-limit: '@'}"),
			profile("pegasus: {pmc_request_memory: '@ GB'}"), profile("condor: {concurrency_limits: 'a:2, lic:@'}"),
			yml("- {id: a, name: x, uses: [{lfn: f, type: output, size: '@'}]}\n")},
		"w.json": {task(`"runtime": @`), task(`"runtimeInSeconds": "@"`), task(`"cores": @`), task(`"coreCount": "@"`),
			task(`"avgCPU": @`), task(`"memory": @`), task(`"memoryInBytes": "@"`), task(`"bytesRead": @`),
			task(`"writtenBytes": "@"`), task(`"retries": @`), task(`"gpus": @`), task(`"phase": "@"`),
			task(`"diskBytesPerSecond": @`), task(`"tokens": "lic:@"`),
			task(`"timeLimitInSeconds": "@"`), task(`"diskLimitInBytes": @`),
			task(`"files": [{"link": "output", "name": "f", "size": @}]`),
			`{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"id": "a", "name": "a",
				"outputFiles": ` +
				`["f"]}],` + "\n" + `"files": [{"id": "f",
					"sizeInBytes": @}]}, "execution": {"makespanInSeconds": @}}}`},
		"Makeflow": {"CORES=@\nx:\n\ttrue\n", "MEMORY=@\nx:\n\ttrue\n", "x:\n@DISK=@\n\ttrue\n",
			"WALL_TIME=@\nx:\n\ttrue\n", "NEEDS=lic:@\nx:\n\ttrue\n",
			"GPUS=@\nx:\n\ttrue\n", "MPI_PROCESSES=@\nx:\n\ttrue\n", ".SIZE f @\nx: f\n\ttrue\n",
			".SIZE f @PB\nx: f\n\ttrue\n"},
		"w.jx": {`{"rules": [{"command": "true", "outputs": ["x"], "resources": {"cores": @}}]}`,
			`{"rules": [{"command": "true", "outputs": ["x"], "resources": {"memory": "@", "wall-time": @}}]}`,
			`{"rules": [{"command": "true", "outputs": ["x"], "needs": {"lic": @}}]}`},
	}
}

// Whatever a number is, it is refused with its line, or what it became is in bounds.
func FuzzNumbers(f *testing.F) {
	for _, text := range []string{"0", "1", "-1", "1e308", "1e309", "-1e308", "9223372036854775807",
		"9223372036854775808",
		"1e18", "1e15", "4611686018427387904", "1e-320", "0.0000000001", "1e10", "3153600000", "3153600001", "1e6",
		"1000001",
		"999999999999999", "32768", "2147483648", "NaN", "1e", "+5", "007", strings.Repeat("9", 400)} {
		f.Add(text)
	}
	fields := numericFields()
	f.Fuzz(func(t *testing.T, number string) {
		if len(number) > 500 || strings.Trim(number, "0123456789.+-eEnNaA") != "" {
			return
		}
		for name, texts := range fields {
			for _, text := range texts {
				text = strings.ReplaceAll(text, "=@", "="+number)
				at := strings.Replace(text, "@DISK", "&DISK", 1)
				at = strings.Replace(strings.ReplaceAll(at, "@", number), "&DISK", "@DISK", 1)
				w, faults, err := trace.Read(strings.NewReader(at), name, trace.ReadOptions{})
				must(t, err)
				inBounds(t, at, w, faults)
			}
		}
	})
}

func inBounds(t *testing.T, text string, w *trace.Workflow, faults []trace.Fault) {
	t.Helper()
	refused := false
	for _, f := range faults {
		refused = refused || f.Severity == trace.Error
		if f.Severity == trace.Error && f.Line < 1 {
			t.Errorf("%s\n%v has no line", text, f)
		}
	}
	if refused || w == nil {
		return
	}
	for i := range w.Files {
		if s := w.Files[i].Size; s < 0 || s > reader.MaxBytes {
			t.Errorf("%s\nsize %d", text, s)
		}
	}
	for i := range w.Tasks {
		k := &w.Tasks[i]
		for what, x := range map[string][2]float64{"runtime": {k.Runtime.Seconds(), reader.MaxTime.Seconds()},
			"limit": {k.TimeLimit.Seconds(), reader.MaxTime.Seconds()}, "cores": {k.Cores, reader.MaxCores},
			"cpu": {k.AvgCPU, 100 * reader.MaxCores}, "memory": {float64(k.MemoryBytes), float64(reader.MaxBytes)},
			"read": {float64(k.ReadBytes), float64(reader.MaxBytes)}, "phase": {float64(k.Phase), 1e6},
			"written": {float64(k.WrittenBytes), float64(reader.MaxBytes)}, "disk": {float64(k.DiskBps), 1e15},
			"disk limit": {float64(k.DiskLimit), float64(reader.MaxBytes)},
			"retries":    {float64(k.Retries + 1), reader.MaxRetries + 1},
			"gpus":       {float64(k.GPUs) / 1000, reader.MaxCores}} {
			if !(x[0] >= 0 && x[0] <= x[1]) {
				t.Errorf("%s\n%s is %v", text, what, x[0])
			}
		}
	}
	if w.Makespan < 0 || w.Stats().RuntimeSeconds < 0 || math.IsInf(w.Stats().RuntimeSeconds, 0) {
		t.Errorf("%s\nmakespan %v", text, w.Makespan)
	}
}

// What one host cannot give is refused by name; to ask for none of it is fine.
func TestRequestsThatOneHostCannotGrantAreRefused(t *testing.T) {
	for at, refused := range map[string]bool{"pegasus: {gpus: '2'}": false, "condor: {require_gpus: Capability}": true,
		"condor: {request_gpus: TARGET.n}": true, "pegasus: {nodes: '4'}": true, "globus: {host_count: '2'}": true,
		"pegasus: {gpus: '0'}": false, "pegasus: {nodes: '1'}": false, "condor: {priority: '5'}": false,
		"condor: {requirements: 'TARGET.CUDACapability > 7'}": true,
		"condor: {requirements: 'OpSys == \"LINUX\"'}":        false, "condor: {universe: parallel}": true,
		"condor: {universe: vanilla}": false, "condor: {machine_count: '3'}": true, "globus: {jobtype: mpi}": true,
		"pegasus: {container.arguments: --network host}": true, "pegasus: {glite.arguments: '--gres=gpu:1'}": true,
		"env: {GPUS: '2'}": false, "pegasus: {container.image: 'nvidia/cuda'}": false} {
		w, faults := read(t, yml("- {id: a, name: x, profiles: {"+at+"}}\n"), trace.ReadOptions{})
		if trace.HasErrors(faults) || (len(w.Obstacles) > 0) != refused {
			t.Errorf("%s: %q, %v", at, w.Obstacles, faults)
		}
	}
	for value, refused := range map[string]int{"-q long": 0, "--gres=gpu:1": 1} {
		w, faults, err := trace.Read(strings.NewReader("BATCH_OPTIONS="+value+"\na:\n\ttouch a\n"), "w.makeflow",
			trace.ReadOptions{})
		if err != nil || trace.HasErrors(faults) || len(w.Obstacles) != refused {
			t.Errorf("%s: %q, %v, %v", value, w.Obstacles, faults, err)
		}
	}
}

// GPUs are read from all formats. What is no number of them is refused by name, once for each value.
func TestGPUsAreReadFromAllFormats(t *testing.T) {
	wf := func(facts string) string {
		return `{"name":"w","schemaVersion":"1.5","workflow":{"specification":{"tasks":[
{"id":"a","name":"a","parents":[],"children":[],` + facts + `}],"files":[]}}}`
	}
	dax := func(profile string) string {
		return "<adag name='w'><job id='a' name='x'>" + profile + "</job></adag>"
	}
	for _, c := range []struct {
		name, text string
		gpus       float64 // of the first task
		says       string  // "": it is not refused
	}{
		{"w.makeflow", "CATEGORY=c\nGPUS=3\na:\n\techo >a\nb:\n\techo >b\n", 3, ""},
		{"w.makeflow", "CATEGORY=c\nGPUS=1.5\na:\n\techo >a\nb:\n\techo >b\n", 0,
			`w.makeflow:2: GPUS "1.5" is no number of GPUs: gantry gives out whole ones, or a part of one such as 0.5`},
		{"w.makeflow", "GPUS=0\na:\n\techo >a\n", 0, ""},
		{"w.makeflow", "GPUS=1\na:\n@GPUS=2\n\techo >a\n", 2, ""},
		{"w.json", `{"rules":[{"outputs":["a"],"command":"x","resources":{"gpus":1}}]}`, 1, ""},
		{"w.json", wf(`"gpus": 2`), 2, ""},
		{"w.json", wf(`"gpus": 0.25`), 0.25, ""},
		{"w.json", wf(`"gpu": "1"`), 1, ""},
		{"w.json", wf(`"gpuCount": 4`), 4, ""},
		{"w.json", wf(`"gpu": {"model": "a100"}`), 0, `w.json:2: task a: gpus "some" is no number of GPUs`},
		{"w.json", wf(`"gpu": 0, "gpus": null`), 0, ""},
		{"w.dax", dax("<profile namespace='condor' key='request_gpus'>1</profile>"), 1, ""},
		{"w.dax", dax("<profile namespace='condor' key='Request_GPUs'>1</profile>"), 1, ""},
		{"w.dax", dax("<profile namespace='pegasus' key='gpus'>0</profile>"), 0, ""},
		{"w.dax", dax("<profile namespace='condor' key='request_gpus'>2</profile>" +
			"<profile namespace='pegasus' key='gpus'>1</profile>"), 2, ""},
		{"w.dax", dax("<profile namespace='condor' key='request_gpus'>TARGET.n</profile>"), 0,
			`task a: profile condor.request_gpus "TARGET.n" is no number of GPUs`},
	} {
		w, faults, err := trace.Read(strings.NewReader(c.text), c.name, trace.ReadOptions{})
		if err != nil || len(faults) > 0 {
			t.Fatal(c.text, err, faults)
		}
		if got := strings.Join(w.Obstacles, "\n"); (got == "") != (c.says == "") || !strings.Contains(got, c.says) ||
			strings.Contains(got, "\n") || float64(w.Tasks[0].GPUs)/1000 != c.gpus {
			t.Errorf("%s\nhas %d thousandths of GPUs, want %g GPUs, and is refused by %q, want %q", c.text,
				w.Tasks[0].GPUs, c.gpus, got, c.says)
		}
	}
}

// What is refused names its bound.
func TestNumbersAreRefusedWithTheirBound(t *testing.T) {
	for name, texts := range numericFields() {
		for _, text := range texts {
			text = strings.Replace(strings.ReplaceAll(strings.Replace(text, "@DISK", "&DISK", 1), "@", "1e300"),
				"&DISK",
				"@DISK", 1)
			_, faults, err := trace.Read(strings.NewReader(text), name, trace.ReadOptions{})
			if err != nil || len(faults) == 0 || faults[0].Severity != trace.Error || faults[0].Line == 0 ||
				!strings.Contains(fmt.Sprint(faults[0]), "above the bound of ") && !strings.Contains(text, "1e300PB") &&
					!strings.Contains(text, "1e300 GB") {
				t.Errorf("%s\n%v %v", text, err, faults)
			}
		}
	}
}
