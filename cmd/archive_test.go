package cmd

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Jobs of an archive arrive as they did and last as long, and policies plan with the estimates of their users.
func TestAnArchiveIsSimulatedWithTheEstimatesOfItsUsers(t *testing.T) {
	dir := t.TempDir()
	jobs, cluster := filepath.Join(dir, "jobs.swf"), filepath.Join(dir, "c.yaml")
	small := filepath.Join(dir, "s.yaml")
	write(t, jobs, "; Version: 2.2\n1 0 -1 60 2 -1 -1 2 120 -1 1 7 1 3 1 1 -1 -1\n"+
		"2 10 -1 30 4 -1 -1 4 30 -1 1 8 1 4 1 1 -1 -1\n"+
		"3 20 -1 -1 4 -1 -1 4 30 -1 5 8 1 4 1 1 -1 -1\n")
	write(t, cluster, "nodes: [{name: n, cores: 4, memory: 4GB}]")
	write(t, small, "nodes: [{name: n, cores: 1, memory: 4GB}]")
	expect(t, exitOK, []string{"2 with 2 tasks, of 2 users", "over 10 s", "1: jobs that never ran", "memory of 2"},
		"check", jobs)
	expect(t, exitOK, nil, "simulate", "-q", "--dir", dir, "--name", "a", "--cluster", cluster, jobs)
	expect(t, exitOK, []string{"makespan 90.00 s", "120.0 s   60.00 s"}, "show", "--dir", dir, "a")
	expect(t, exitOK, nil, "simulate", "-q", "--dir", dir, "--name", "b", "--estimator", "oracle", "--cluster", cluster,
		jobs)
	expect(t, exitOK, []string{"60.00 s   60.00 s"}, "show", "--dir", dir, "b")
	expect(t, exitInput, []string{"archives.md"}, "convert", jobs)
	expect(t, exitInput, []string{"2 cores: the largest node has"}, "simulate", "--no-log", "--cluster", small, jobs)
}

// piped has a command read a text from standard input.
func piped(t *testing.T, text []byte, code int, says []string, args ...string) {
	t.Helper()
	in, out, err := os.Pipe()
	must(t, err)
	go func() {
		_, _ = out.Write(text) // a command that refuses it does not read all
		out.Close()
	}()
	was := os.Stdin
	defer func() { os.Stdin = was }()
	os.Stdin = in
	defer in.Close()
	expect(t, code, says, args...)
}

// Archives come through pipes, too, also compressed ones, and those that a workload file takes a part of. A workflow
// from standard input is a workflow as before.
func TestArchivesComeFromStandardInput(t *testing.T) {
	var swf strings.Builder
	for i := range 3000 { // more than a look at the beginning
		fmt.Fprintf(&swf, "%d %d -1 60 2 -1 -1 2 120 -1 1 7 1 3 1 1 -1 -1\n", i+1, 10*i)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(swf.String()))
	_ = z.Close()
	dir := writeFiles(t, map[string]string{"c.yaml": "nodes: [{name: n, cores: 4, memory: 4GB}]",
		"part.yaml": "workflows: [{archive: '-', from: 10s, for: 20s}]"})
	cluster := "--cluster=" + filepath.Join(dir, "c.yaml")
	sacct := "JobID|Submit|Elapsed|AllocCPUS|State\n1|2026-01-01T00:00:00|00:01:00|2|COMPLETED\n"
	batch := "M1,2,j_1,1,Terminated,100,160,100,0.5\nR2_1,1,j_1,1,Terminated,160,170,100,0.5\n"
	for _, c := range []struct {
		text string
		code int
		says []string
		args []string
	}{
		{swf.String(), exitOK, []string{"3000 with 3000 tasks, of 1 user"}, []string{"check", "-"}},
		{packed.String(), exitOK, []string{"3000 with 3000 tasks"}, []string{"check", "-"}},
		{packed.String(), exitOK, []string{"3000 tasks"}, []string{"simulate", "--no-log", cluster, "-"}},
		{sacct, exitOK, []string{"makespan 1m0s"}, []string{"simulate", "--no-log", cluster, "-"}},
		{batch, exitOK, []string{"makespan 1m10s"}, []string{"simulate", "--no-log", cluster, "-"}},
		{batch, exitOK, []string{"2 tasks"}, []string{"run", "--dry-run", "--runtime=null", "--emulate", cluster, "-"}},
		{swf.String(), exitOK, []string{"2 tasks"},
			[]string{"simulate", "--no-log", cluster, filepath.Join(dir, "part.yaml")}},
		{"PAR1\x00\x00", exitInput, []string{"its index at its end"}, []string{"simulate", "--no-log", cluster, "-"}},
		{"PAR1\x00\x00", exitInput, nil, []string{"check", "-"}},
		{swf.String()[:20], exitInput, nil, []string{"simulate", "--no-log", cluster, "-"}},
		{"", exitInput, []string{"there is nothing in it"}, []string{"simulate", "--no-log", cluster, "-"}},
		{daxOf("<job id='a' name='a' runtime='5'/>"), exitOK, []string{"makespan 5"},
			[]string{"simulate", "--no-log", cluster, "-"}},
		{daxOf("<job id='a' name='a' runtime='5'/>"), exitOK, []string{"1 task"}, []string{"check", "-"}},
	} {
		piped(t, []byte(c.text), c.code, c.says, c.args...)
	}
}
