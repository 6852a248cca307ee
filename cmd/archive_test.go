package cmd

import (
	"os"
	"path/filepath"
	"testing"
)

// Jobs of an archive arrive as they did and last as long, and policies plan with the estimates of their users.
func TestAnArchiveIsSimulatedWithTheEstimatesOfItsUsers(t *testing.T) {
	dir := t.TempDir()
	jobs, cluster := filepath.Join(dir, "jobs.swf"), filepath.Join(dir, "c.yaml")
	small := filepath.Join(dir, "s.yaml")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(jobs, "; Version: 2.2\n1 0 -1 60 2 -1 -1 2 120 -1 1 7 1 3 1 1 -1 -1\n"+
		"2 10 -1 30 4 -1 -1 4 30 -1 1 8 1 4 1 1 -1 -1\n"+
		"3 20 -1 -1 4 -1 -1 4 30 -1 5 8 1 4 1 1 -1 -1\n")
	write(cluster, "nodes: [{name: n, cores: 4, memory: 4GB}]")
	write(small, "nodes: [{name: n, cores: 1, memory: 4GB}]")
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
