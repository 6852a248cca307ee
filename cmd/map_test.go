package cmd

import (
	"path/filepath"
	"testing"
)

// gantry map runs a command for each row of a table, with the options of a run.
func TestMapRunsACommandForEachRow(t *testing.T) {
	dir := writeFiles(t, map[string]string{"s.csv": "sample,n\nA,1\n\"B; x\",2\n", "A.fq": "data",
		"todo": "wc -l A.fq\n\n# no\nls\n", "head.csv": "sample\n", "none": "# no\n"})
	in := func(name string) string { return filepath.Join(dir, name) }
	run := []string{"map", "--dir", t.TempDir(), "--runtime", "null", "--image", "any", "--dry-run"}
	with := func(args ...string) []string { return append(run[:len(run):len(run)], args...) }
	expect(t, exitOK, []string{"start 2 tasks", "cat-2", `cat '\''B; x'\''.fq >'\''2'\''.out`, "2.048 GB"},
		with("--cpus", "2", "--memory", "2048MB", "--csv", in("s.csv"), "cat {sample}.fq >{#}.out")...)
	expect(t, exitOK, []string{"start 2 tasks", "wc-1", "ls-2"}, with("--commands", in("todo"))...)
	run = run[:len(run)-1]
	expect(t, exitOK, []string{"finished, 0 tasks"}, with("--csv", in("head.csv"), "cat {sample}")...)
	expect(t, exitOK, []string{"finished, 0 tasks"}, with("--commands", in("none"))...)
	expect(t, exitInput, []string{"no such column"}, with("--csv", in("s.csv"), "echo {x}")...)
	expect(t, exitUsage, []string{"one of --csv"}, with("echo {x}")...)
	expect(t, exitUsage, []string{"one template"}, with("--csv", in("s.csv"))...)
	expect(t, exitUsage, []string{"neither a template"}, with("--commands", in("todo"), "x")...)
	expect(t, exitInput, []string{"no such file"}, with("--tsv", in("gone"), "x")...)
}
