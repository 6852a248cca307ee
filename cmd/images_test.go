package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/container/docker/registrytest"
)

// dockerDo runs the docker command and returns what it prints.
func dockerDo(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestAnImageArrivesBeforeItsTaskRuns(t *testing.T) {
	beside(t)
	needsBusybox(t)
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip("needs the docker command")
	}
	domain, _ := registrytest.Serve(t, false)
	ref := domain + "/tools:1"
	dockerDo(t, "tag", "gantry/busybox", ref)
	t.Cleanup(func() { exec.Command("docker", "rmi", ref).Run() })
	dockerDo(t, "push", ref)
	id := dockerDo(t, "image", "inspect", "--format", "{{.Id}}", ref)
	dockerDo(t, "rmi", ref)

	flow := func(image string) string {
		return wfOf(`{"name": "a", "files": [{"link": "output", "name": "out"}], "command": "echo hello >out", "image": "` +
			image + `"}`)
	}
	dir := writeFiles(t, map[string]string{"w.json": flow(ref), "away.json": flow("127.0.0.1:1/x")})
	runs := filepath.Join(dir, "runs")
	run := []string{"run", "--runtime=docker", "--dir", runs, filepath.Join(dir, "w.json")}
	expect(t, exitUsage, []string{"--pull sometimes", "missing, always, never"}, append(run, "--pull=sometimes")...)
	expect(t, exitInput, []string{"image " + ref, "--pull never", "nothing was started"},
		append(run, "--pull=never")...)
	expect(t, exitHost, []string{"127.0.0.1:1/x", "cannot be reached", "nothing was started"},
		"run", "--dir", runs, filepath.Join(dir, "away.json"))
	if _, err := os.Stat(runs); err == nil {
		t.Error("a run that was refused left a directory")
	}

	code, out, errs := invoke(t, append(run, "--name=one")...)
	if code != exitOK || !strings.Contains(errs, "pulling image "+ref) {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if got, err := os.ReadFile(filepath.Join(runs, "one", "results", "w", "out")); string(got) != "hello\n" {
		t.Errorf("output %q, %v", got, err)
	}
	digest := dockerDo(t, "image", "inspect", "--format", "{{index .RepoDigests 0}}", id)
	for _, args := range [][]string{{"show"}, {"explain", "a"}, {"export", "--format=csv"}, {"export", "--format=json"},
		{"export", "--format=wfformat"}} {
		if args[0] != "explain" {
			args = append(args, "one")
		}
		got := expect(t, exitOK, nil, append(args, "--dir="+runs)...)
		if !strings.Contains(got, "@sha256:") || !strings.Contains(got, digest[strings.Index(digest, "@"):]) {
			t.Errorf("gantry %s does not name %s:\n%s", args[0], digest, got)
		}
	}
	code, _, errs = invoke(t, append(run, "--pull=never", "--quiet")...)
	if code != exitOK || errs != "" {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestPlantedVariantsAreFoundAgain(t *testing.T) {
	long(t)
	needsDocker(t)
	if exec.Command("docker", "image", "inspect", "gantry/variants").Run() != nil {
		t.Skip("needs the image gantry/variants (make images)")
	}
	runs := filepath.Join(t.TempDir(), "runs")
	expect(t, exitOK, nil, "run", "--dir", runs, "--name", "v", "../examples/variants/workflow.yml")
	results := filepath.Join(runs, "v", "results", "workflow")
	report, err := os.ReadFile(filepath.Join(results, "report.txt"))
	if want := "200 of 200 planted variants found, 0 others\n"; string(report) != want {
		t.Errorf("%q, %v; want %q", report, err, want)
	}
	// What is staged out, no more and no less: other jobs read two of these.
	files, err := filepath.Glob(filepath.Join(results, "*"))
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if got := strings.Join(files, " "); got != "calls.vcf planted.tbl report.txt" {
		t.Errorf("results %s, %v", got, err)
	}
}
