package cmd

import (
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// Programs that read exports: each prints the number of rows, the sums of try, ran_ns, wait_ns and planned_end_ns, and
// the policies. No program is given a type. The first argument is the folder with the files, the second that of the
// npm packages.
var readers = map[string]struct{ program, needs, script string }{
	"pandas reads CSV": {"/usr/bin/python3", "pandas", `import sys, pandas
d = pandas.read_csv(sys.argv[1] + "/all.csv")
print(len(d), *[int(d[c].sum()) for c in ("try", "ran_ns", "wait_ns", "planned_end_ns")], *sorted(set(d.policy)))`},
	"pandas reads JSON": {"/usr/bin/python3", "pandas", `import sys, json, pandas
d = pandas.DataFrame(json.load(open(sys.argv[1] + "/all.json"))["attempts"])
e = pandas.read_json(sys.argv[1] + "/into/attempts.json")
assert list(d.columns) == list(e.columns), (d.columns, e.columns)
print(len(e), *[int(d[c].sum()) for c in ("try", "ran_ns", "wait_ns", "planned_end_ns")], *sorted(set(e.policy)))`},
	"pandas reads Parquet": {"/usr/bin/python3", "pandas, pyarrow", `import sys, pandas
d = pandas.read_parquet(sys.argv[1] + "/all.parquet")
print(len(d), *[int(d[c].sum()) for c in ("try", "ran_ns", "wait_ns", "planned_end_ns")], *sorted(set(d.policy)))`},
	"R reads CSV": {"Rscript", "utils", `a <- commandArgs(TRUE); d <- read.csv(file.path(a[1], "all.csv"))
cat(nrow(d), format(c(sum(d$try), sum(d$ran_ns), sum(d$wait_ns), sum(d$planned_end_ns)), scientific=FALSE, trim=TRUE),
    sort(unique(d$policy)))`},
	"R reads JSON": {"Rscript", "jsonlite", `a <- commandArgs(TRUE)
d <- jsonlite::fromJSON(file.path(a[1], "all.json"))$attempts
cat(nrow(d), format(c(sum(d$try), sum(d$ran_ns), sum(d$wait_ns), sum(d$planned_end_ns)), scientific=FALSE, trim=TRUE),
    sort(unique(d$policy)))`},
	"hyparquet reads Parquet": {"node", "hyparquet", `const [dir, packages] = process.argv.slice(-2)
import(packages + "/hyparquet/src/node.js").then(async h => {
  const rows = await h.parquetReadObjects({file: await h.asyncBufferFromFile(dir + "/all.parquet")})
  const sum = c => rows.reduce((n, r) => n + r[c], 0n)
  console.log(rows.length, ...["try", "ran_ns", "wait_ns", "planned_end_ns"].map(c => String(sum(c))),
    ...[...new Set(rows.map(r => r.policy))].sort())
})`},
	"DuckDB reads CSV":     {"node", "@duckdb/node-api", duck("read_csv('%/all.csv')")},
	"DuckDB reads JSON":    {"node", "@duckdb/node-api", duck("read_json('%/into/attempts.json')")},
	"DuckDB reads Parquet": {"node", "@duckdb/node-api", duck("read_parquet('%/all.parquet')")},
}

// duck sums a table up with DuckDB; % is the folder with the files.
func duck(table string) string {
	return `const [dir, packages] = process.argv.slice(-2)
require(packages + "/@duckdb/node-api").DuckDBInstance.create(":memory:").then(async d => {
  const c = await d.connect()
  const r = await c.runAndReadAll("SELECT count(*), sum(try), sum(ran_ns), sum(wait_ns), sum(planned_end_ns), " +
    "string_agg(DISTINCT policy, ' ' ORDER BY policy) FROM ` + table + `".replace("%", dir))
  console.log(r.getRows()[0].join(" "))
})`
}

// can reports whether a program is there with all that it needs.
func can(program, needs, packages string) bool {
	switch program {
	case "node":
		_, err := os.Stat(filepath.Join(packages, needs))
		return err == nil
	case "Rscript":
		return exec.Command(program, "-e", "library("+needs+")").Run() == nil
	}
	return exec.Command(program, "-c", "import "+needs).Run() == nil
}

func TestOtherProgramsReadExportsOfSeveralRunsWithoutACast(t *testing.T) {
	long(t)
	dir, files := t.TempDir(), t.TempDir()
	flow := filepath.Join("..", "examples", "montage", "montage-25.dax")
	expect(t, exitOK, nil, "simulate", "-q", "--dir", dir, "--name", "sim", "--policy", "heft", "--cluster",
		filepath.Join("..", "examples", "montage", "cluster.yaml"), flow)
	expect(t, exitOK, nil, "run", "-q", "--dir", dir, "--name", "real", "--policy", "fdws", "--runtime", "null",
		"--emulate", "--time-scale", "0.001", flow)
	for _, f := range []string{"csv", "json", "parquet"} {
		expect(t, exitOK, nil, "export", "--dir", dir, "--format", f, "-o", filepath.Join(files, "all."+f), "sim",
			"real")
		expect(t, exitOK, nil, "export", "--dir", dir, "--format", f, "-o", filepath.Join(files, "into")+"/", "sim",
			"real")
		for _, run := range []string{"sim", "real"} {
			expect(t, exitOK, nil, "export", "--dir", dir, "--format", f, "-o", filepath.Join(files, run)+"/", run)
		}
	}
	for _, table := range []string{"tasks", "attempts"} {
		if a, b := schemaOf(t, filepath.Join(files, "sim", table+".parquet")),
			schemaOf(t, filepath.Join(files, "real", table+".parquet")); a != b {
			t.Errorf("%s of a simulation are\n%s\nof a real run\n%s", table, a, b)
		}
	}
	expect(t, exitUsage, []string{"otlp describes one run"}, "export", "--dir", dir, "--format", "otlp", "sim", "real")
	expect(t, exitUsage, []string{"named twice"}, "export", "--dir", dir, "real", "sim", "real")

	table, err := os.Open(filepath.Join(files, "all.csv"))
	must(t, err)
	defer table.Close()
	rows, err := csv.NewReader(table).ReadAll()
	must(t, err)
	want := strconv.Itoa(len(rows)-1) + sums(t, rows, "try", "ran_ns", "wait_ns", "planned_end_ns") + " fdws heft"
	if len(rows)-1 != 50 {
		t.Errorf("%d rows for two runs of 25 tasks", len(rows)-1)
	}
	packages, err := filepath.Abs(filepath.Join("..", "bin", "readers", "node_modules"))
	must(t, err)
	for name, r := range readers {
		t.Run(name, func(t *testing.T) {
			if !can(r.program, r.needs, packages) {
				t.Skipf("%s with %s is not here (make readers)", r.program, r.needs)
			}
			script := written(t, "script.cjs", r.script)
			out, err := exec.Command(r.program, script, files, packages).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("got  %s\nwant %s\n%v", got, want, err)
			}
		})
	}
}

// sums are those of columns.
func sums(t *testing.T, rows [][]string, columns ...string) string {
	text := ""
	for _, c := range columns {
		var sum int64
		for i, name := range rows[0] {
			for _, row := range rows[1:] {
				if name != c || row[i] == "" {
					continue
				}
				n, err := strconv.ParseInt(row[i], 10, 64)
				must(t, err)
				sum += n
			}
		}
		text += " " + strconv.FormatInt(sum, 10)
	}
	return text
}

// schemaOf is the schema of a Parquet file, as text.
func schemaOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	info, err := f.Stat()
	must(t, err)
	file, err := parquet.OpenFile(f, info.Size())
	must(t, err)
	return file.Schema().String()
}
