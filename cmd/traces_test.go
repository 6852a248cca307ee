package cmd

import (
	"path/filepath"
	"testing"
)

// A trace of Nextflow trains a model, without a log before it; options for other formats are refused.
func TestForeignTracesAreUsed(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.dot": "digraph { a -> b [size=1000] }",
		"trace.txt": "name\tstatus\trealtime\tpeak_rss\trchar\nT (a)\tCOMPLETED\t1m\t20 MB\t1 KB\n" +
			"T (b)\tCOMPLETED\t2m\t30 MB\t2 KB\nU\tCOMPLETED\t-\t-\t-\n",
		"bad.txt": "name\tstatus\trealtime\tpeak_rss\trchar\nT (a)\tCOMPLETED\t1m\t20 MB\t1 KB\n" +
			"T (b)\tFAILED\t2m\t30 MB\t2 KB\nT (c)\tABORTED\t-\t-\t-\n" +
			"T (d)\tCOMPLETED\t3m\t30 MB\t-5\nT (e)\tCOMPLETED\t2m\t30 MB\t2 KB\n",
		"peaks.txt": "name\trealtime\tpeak_rss\nT (a)\t1m\t20 MB\nT (b)\t1m\t20 MB\nT (c)\t1m\t20 MB\n"})
	in := func(name string) string { return filepath.Join(dir, name) }
	home := filepath.Join(t.TempDir(), "new")
	expect(t, exitOK, []string{"Trained on 2 attempts of 1 run", "1 that have no runtime", "Kept as default"},
		"predict", "--dir", home, "--trace", in("trace.txt"))
	expect(t, exitOK, []string{"makespan"}, "simulate", "--dir", home, "--estimator", "trained", "--name", "s",
		in("trace.txt"))
	expect(t, exitInput, []string{"no such file"}, "predict", "--dir", home, "--trace", in("none.txt"))
	expect(t, exitOK, []string{"Trained on 3 attempts", "2 that did not end well", "1 that have a number that cannot",
		"1 that read nothing"}, "predict", "--dir", filepath.Join(home, "bad"), "--trace", in("bad.txt"))
	home = filepath.Join(home, "peaks")
	expect(t, exitOK, nil, "predict", "--dir", home, "--trace", in("peaks.txt"))
	expect(t, exitOK, nil, "simulate", "--dir", home, "--estimator", "trained", "--predict-memory", "lean", "--name",
		"limited", in("peaks.txt"))
	if n := one[int](t, home, "SELECT min(hold_memory_bytes) FROM v_attempts WHERE run = 'limited'"); n <
		20<<20*102/100 || n > 22<<20 {
		t.Errorf("tasks that peaked at 20 MiB may hold %d bytes", n)
	}
	expect(t, exitOK, []string{"DOT", "1 edge", "runtime of 2 tasks: unknown; plans"}, "check", in("a.dot"))
	expect(t, exitInput, []string{"--graph", "traces of Nextflow"}, "check", "--graph", in("a.dot"), in("a.dot"))
	expect(t, exitInput, []string{"--gflops", "DOT"}, "check", "--gflops", "2", in("trace.txt"))
}
