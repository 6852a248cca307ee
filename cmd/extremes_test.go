package cmd

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gantry/planner/policy"
)

// extremes are workflow, cluster and workload files with numbers in the place of @.
var extremes = map[string][]string{
	"w.json": {`"runtime": @`, `"cores": @`, `"avgCPU": @`, `"memoryInBytes": @`, `"bytesRead": @, "writtenBytes": @`,
		`"retries": 2, "timeLimitInSeconds": @`, `"runtime": @, "files": [{"link": "output", "name": "f", "size": @}]`},
	"c.yaml": {"cores: @", "speed: @", "memory: @GB", "read: @/s, write: @/s", "group: g}\nlinks:\n- {from: g, " +
		"to: h, bandwidth: @/s, latency: 1h"},
	"l.yaml": {"arrive: @s", "release: @s", "deadline: @s", "arrive: @s, deadline: 3153600000s", "disk: @/s",
		"copies: 3, data: {block: @}"},
}

// bound is in messages that say which number is too large, or too small.
var bound = regexp.MustCompile(`above|has to be (a number )?from|takes at least|the largest node has|no node .* gives ` +
	`more|is not after arrival`)

// Whatever readers and admission take, a simulation ends with: it has a result, or says which number is too large.
func TestNumbersAtTheirBoundsAreSimulated(t *testing.T) {
	c := cliTest{t, t.TempDir()}
	try := func(pol, number string, own map[string]string) {
		texts := map[string]string{"w.json": `"runtime": 60`, "c.yaml": "cores: 4", "l.yaml": "arrive: 1s"}
		for name, text := range own {
			texts[name] = text
		}
		c.write("w.json", wfOf(`{"name": "a", `+texts["w.json"]+`}, {"name": "b", "runtime": 5, "parents": ["a"], `+
			`"files": [{"link": "input", "name": "f", "size": 5}]}`))
		cluster := c.write("c.yaml", "nodes:\n- {name: m, cores: 4, memory: 8GB, group: h}\n- {name: n, "+
			texts["c.yaml"]+"}\n")
		load := c.write("l.yaml", "workflows:\n- {trace: w.json, "+texts["l.yaml"]+"}\n- {trace: w.json, copies: 5}\n")
		code, _, errs := invoke(t, "simulate", "--no-log", "--policy", pol, "--cluster", cluster, load)
		if code > exitTasksFailed /* of a time limit */ && (number == "1" || code != exitInput ||
			!bound.MatchString(errs)) {
			t.Errorf("%s, %v: exit code %d: %s", pol, own, code, errs)
		}
	}
	for _, number := range []string{"0", "0.000001", "1", "1000000", "3000000000", "3153600000", "9000000000000000"} {
		for name, all := range extremes {
			for _, text := range all {
				try("cpp", number, map[string]string{name: strings.ReplaceAll(text, "@", number)})
			}
		}
	}
	for _, row := range policy.Table() {
		if row.Read != nil {
			continue // it is what its user makes of it
		}
		for _, n := range []string{"1", "1000000000", "3000000000"} {
			try(row.Name, n, map[string]string{"w.json": fmt.Sprintf(`"runtime": %s, "files": [{"link": "output", `+
				`"name": "f", "size": 9000000000000000}]`, n), "l.yaml": "deadline: 3153600000s, arrive: " + n + "s"})
		}
	}
}
