package cmd

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reads is a workflow of four tasks; each reads a file of 2 MB, and all read another of 1 MB.
func reads() string {
	var b strings.Builder
	b.WriteString(`<adag version="2.1" name="reads">`)
	for _, id := range []string{"a", "b", "c", "d"} {
		b.WriteString(`<job id="` + id + `" name="read" runtime="0.2"><uses file="in-` + id +
			`" link="input" size="2000000"/><uses file="all" link="input" size="1000000"/></job>`)
	}
	b.WriteString(`</adag>`)
	return b.String()
}

const twoRacks = `nodes:
  - {name: a, count: 2, cores: 1, speed: 0.4, memory: 200MB, group: left}
  - {name: b, count: 2, cores: 1, speed: 0.4, memory: 200MB, group: right}
links: [{from: left, to: right, bandwidth: 40MB/s}, {from: left, to: left, bandwidth: 80MB/s}, {from: right, to: right, bandwidth: 80MB/s}]
`

// one asks the log of a home something.
func one[T any](t *testing.T, home, query string, args ...any) (v T) {
	t.Helper()
	db := logIn(t, home)
	defer db.Close() // it may be asked often
	rows, err := db.Query(t.Context(), query, args...)
	must(t, err)
	defer rows.Close()
	if !rows.Next() {
		t.Fatalf("no rows: %s", query)
	}
	if err := rows.Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestInputFilesLieWhereTheWorkloadPutsThem(t *testing.T) {
	beside(t)
	dir := writeFiles(t, map[string]string{"reads.dax": reads(), "c.yaml": twoRacks,
		"w.yaml": "seed: 3\ndata: {block: 1500kB, replicas: 2}\nworkflows:\n  - {trace: reads.dax, name: placed}\n  " +
			"- {trace: reads.dax, name: anywhere, data: {placement: everywhere}}\n"})
	home := t.TempDir()
	args := []string{filepath.Join(dir, "w.yaml"), "--cluster", filepath.Join(dir, "c.yaml"), "--quiet", "--dir", home,
		"--policy", "gbf:pick=first"}
	expect(t, exitOK, nil, append([]string{"simulate", "--name", "sim"}, args...)...)
	runs := []string{"sim"}
	if askedOCI() == nil {
		needsTask(t)
		expect(t, exitOK, nil, append([]string{"run", "--runtime", "oci", "--name", "real"}, args...)...)
		runs = append(runs, "real")
	}
	for _, run := range runs {
		// Four files of 2 MB in two blocks each and one in a block, on two nodes each.
		for _, q := range []struct {
			of, query string
			want      float64
		}{
			{"replicas", "SELECT count(*) FROM v_replicas WHERE run = ? AND workflow = 'placed'", 18},
			{"replicas of files that are everywhere",
				"SELECT count(*) FROM v_replicas WHERE run = ? AND workflow <> 'placed'", 0},
			{"files with both replicas in one rack", `SELECT count(*) FROM (SELECT count(DISTINCT node_group) AS g
				FROM v_replicas WHERE run = ? GROUP BY file) WHERE g <> 2`, 0},
			{"MB read", "SELECT sum(input_mb) FROM v_locality WHERE run = ?", 24},
			{"% local of files that are everywhere",
				"SELECT local_pct FROM v_locality WHERE run = ? AND workflow = 'anywhere'", 100},
		} {
			if got := one[float64](t, home, q.query, run); math.Abs(got-q.want) > 1e-9 {
				t.Errorf("%s: %v %s, want %v", run, got, q.of, q.want)
			}
		}
		// What was copied is what had no replica on the node of its task (nor was copied there before).
		copied := one[float64](t, home, "SELECT copied_mb FROM v_locality WHERE run = ? AND workflow = 'placed'", run)
		if copied <= 0 || copied >= 12 {
			t.Errorf("%s: %v of 12 MB were copied", run, copied)
		}
		var shown struct {
			Locality *float64 `json:"locality_percent"`
		}
		text := expect(t, exitOK, nil, "show", run, "--json", "--dir", home)
		if err := json.Unmarshal([]byte(text), &shown); err != nil || shown.Locality == nil ||
			math.Abs(*shown.Locality-100*(24-copied)/24) > 1e-6 {
			t.Errorf("%s: show tells %v, %v, and %v MB were copied", run, shown.Locality, err, copied)
		}
	}
	if one[string](t, home, "SELECT group_concat(file || node, ' ') FROM (SELECT * FROM v_replicas WHERE run = "+
		"'sim' ORDER BY file, node)") !=
		one[string](t, home, "SELECT group_concat(file || node, ' ') FROM (SELECT * FROM v_replicas WHERE run = ? "+
			"ORDER BY file, node)", runs[len(runs)-1]) {
		t.Error("simulation and containers have other replicas")
	}
	if len(runs) == 1 {
		t.Skip("the rest needs containers without a daemon")
	}
	// Every replica is a file on its node, and nothing else is but what was copied there.
	for _, node := range []string{"a-1", "a-2", "b-1", "b-2"} {
		for _, file := range []string{"in-a.block-0000", "in-d.block-0001", "all"} {
			n := one[int](t, home, "SELECT count(*) FROM v_replicas WHERE run = 'real' AND file = ? AND node = ?", file,
				node)
			if _, err := os.Stat(filepath.Join(home, "real", "nodes", node, "placed", file)); n == 1 && err != nil {
				t.Errorf("replica of %s on %s: %v", file, node, err)
			}
		}
	}
}
