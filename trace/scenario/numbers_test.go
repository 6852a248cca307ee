package scenario_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"gantry/trace/reader"
	"gantry/trace/scenario"
)

// numbered are files with each number that they can have, in the place of @.
var numbered = map[string][]string{
	"cluster": {"nodes:\n- {name: a, count: @}\n", "nodes:\n- {name: a, cores: @}\n",
		"nodes:\n- {name: a, cores: 1..@}\n",
		"nodes:\n- {name: a, speed: @}\n", "nodes:\n- {name: a, memory: @}\n", "nodes:\n- {name: a, memory: @PiB}\n",
		"nodes:\n- {name: a, read: @GB/s}\n", "nodes:\n- {name: a, write: @/s}\n",
		"nodes:\n- {name: a, read_iops: @}\n",
		"nodes:\n- {name: a, write_iops: @}\n",
		"nodes: [{name: a, group: g}]\nlinks:\n- {from: g, to: g, bandwidth: @/s}\n",
		"nodes: [{name: a, group: g}]\nlinks:\n- {from: g, to: g, latency: @h}\n"},
	"workload": {"seed: @\nworkflows: [{trace: x}]\n", "repetitions: @\nworkflows: [{trace: x}]\n",
		"warm_up: @\nworkflows: [{trace: x}]\n", "cool_down: @h\nworkflows: [{trace: x}]\n",
		"workflows:\n- {trace: x, arrive: @s}\n", "workflows:\n- {trace: x, release: @h}\n",
		"workflows:\n- {trace: x, deadline: @h}\n", "workflows:\n- {trace: x, copies: @}\n",
		"workflows:\n- {trace: x, disk: @PB/s}\n", "workflows:\n- {trace: x, data: {block: @}}\n",
		"workflows:\n- {trace: x, data: {replicas: @}}\n", "workflows:\n- {trace: x, costs: {t: {n: @s}}}\n",
		"preempt: {checkpoint: @}\nworkflows: [{trace: x}]\n", "count: @\nmix: [{generator: montage, tasks: 20}]\n",
		"count: 1\nmix: [{generator: montage, tasks: @}]\n",
		"count: 1\nmix: [{generator: montage, tasks: 20, fraction: @}]\n",
		"count: 1\nmix: [{generator: montage, tasks: 20}]\narrivals: {process: fixed, interval: @h}\n",
		"count: 1\nmix: [{generator: montage, tasks: 20}]\narrivals: {process: poisson, rate: @/h}\n",
		"count: 1\nmix: [{generator: montage, tasks: 20}]\narrivals: {process: poisson, utilisation: @}\n",
		"count: 1\nmix: [{generator: montage, tasks: 20}]\ntotal_runtime: {distribution: constant, mean: @h}\n",
		"count: 1\nmix: [{generator: montage, tasks: 20}]\ndeadlines: {factor: @}\n",
		"count: 1\nmix: [{generator: montage, tasks: 20}]\ndeadlines: {after: @h}\n",
		"count: 1\nmix: [{generator: mapreduce, tasks: 20, map_time: @h}]\n"},
	"experiment": {"factors: {policy: cpp, workload: w, cluster: c}\nrepetitions: @\n",
		"factors: {policy: cpp, workload: w, cluster: c}\nseed: @\n",
		"factors: {policy: cpp, workload: w, cluster: c}\nlimit: {in_system: @}\n",
		"factors: {policy: cpp, workload: w, cluster: c}\nlimit: {events: @}\n",
		"factors: {policy: cpp, workload: w, cluster: c}\nsearch: {from: 1, to: @}\n",
		"factors: {policy: cpp, workload: w, cluster: c}\nsearch: {from: 1, to: 2, step: @}\n"},
}

// Whatever a number is, it is refused with its line, or what it became is in bounds.
func FuzzNumbers(f *testing.F) {
	for _, text := range []string{"0", "1", "-1", "1e308", "1e309", "-1e308", "9223372036854775807",
		"9223372036854775808",
		"1e18", "1e-320", "0.000001", "1e9", "876000", "876001", "1000001", "NaN", "1e", "+5", strings.Repeat("9",
			400)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, number string) {
		if len(number) > 500 || strings.Trim(number, "0123456789.+-eEnNaA") != "" {
			return
		}
		for kind, texts := range numbered {
			for _, text := range texts {
				text = strings.ReplaceAll(text, "@", number)
				if err := readNumbers(t, kind, text); err != nil && !strings.Contains(err.Error(), ": line ") {
					t.Errorf("%s\n%v has no line", text, err)
				}
			}
		}
	})
}

// readNumbers reads a file, and checks what its numbers became.
func readNumbers(t *testing.T, kind, text string) error {
	t.Helper()
	within := func(what string, x, most float64) {
		if !(x >= 0 && x <= most) {
			t.Errorf("%s\n%s is %v", text, what, x)
		}
	}
	times := func(what string, all ...time.Duration) {
		for _, d := range all {
			within(what, d.Seconds(), reader.MaxTime.Seconds())
		}
	}
	switch kind {
	case "cluster":
		c, err := scenario.ReadCluster(strings.NewReader(text), "c.yaml")
		if err != nil {
			return err
		}
		for _, n := range c.Nodes {
			within("cores", n.Cores, reader.MaxCores)
			within("most cores", n.MostCores, reader.MaxCores)
			within("speed", n.Speed, 1e6)
			for _, x := range []int64{n.Memory, n.ReadBps, n.WriteBps, n.ReadIOPS, n.WriteIOPS} {
				within("amount", float64(x), float64(reader.MaxBytes))
			}
		}
		for _, l := range c.Links {
			within("bandwidth", float64(l.Bandwidth), float64(reader.MaxBytes))
			times("latency", l.Latency)
		}
	case "workload":
		w, err := scenario.ReadWorkload(strings.NewReader(text), "w.yaml")
		if err != nil {
			return err
		}
		times("margin", w.WarmUpTime, w.CoolDownTime)
		for _, a := range w.Arrivals {
			times("time", a.Arrive, a.Release, a.Deadline)
			within("disk", float64(a.Disk), float64(reader.MaxBytes))
			within("copies", float64(a.Copies), 1e6)
		}
		if s := w.Stream; s != nil {
			times("stream", s.Arrivals.Interval, s.Total.Mean)
			within("rate", s.Arrivals.PerHour, 1e12)
		}
	case "experiment":
		x, err := scenario.ReadExperiment(strings.NewReader(text), "x.yaml", false, "")
		if err != nil {
			return err
		}
		within("repetitions", float64(x.Repetitions), 1e6)
		within("events", float64(x.Events), 1e15)
		within("in system", float64(x.InSystem), math.MaxInt32)
		if x.Search != nil {
			within("values", float64(len(x.Search.Values())), 10_001)
		}
	}
	return nil
}

// What is too large is refused with its line.
func TestNumbersAreRefusedWithTheirLine(t *testing.T) {
	for kind, texts := range numbered {
		for _, text := range texts {
			err := readNumbers(t, kind, strings.ReplaceAll(text, "@", "1000000000000000000000000"))
			if strings.Contains(text, "step: @") {
				continue // a large step is one value
			}
			if err == nil || !strings.Contains(err.Error(), ": line ") {
				t.Errorf("%s\n%v", text, err)
			}
		}
	}
}
