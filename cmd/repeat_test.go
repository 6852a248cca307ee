package cmd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gantry/executor/container/oci/image"
)

// repeated runs .command.run in the directory of an attempt and returns its exit code, and what the program said.
func (c cliTest) repeated(attempt string) (code int, out, errs string) {
	c.Helper()
	dir := filepath.Join(c.dir, "runs", attempt)
	for _, name := range []string{".command.out", ".command.err"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			c.Fatal(err)
		}
	}
	cmd := exec.CommandContext(c.Context(), "./.command.run")
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		c.Fatal(err)
	}
	c.Logf("%s: %s", attempt, said)
	text := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(b)
	}
	return cmd.ProcessState.ExitCode(), text(".command.out"), text(".command.err")
}

// .command.run repeats an attempt of either runtime by Docker alone, when the run is over: its inputs, user, image and
// exit code are the same.
func TestCommandRunRepeatsTheAttempt(t *testing.T) {
	needsBusybox(t)
	for _, on := range runtimesOf(t) {
		t.Run(on, func(t *testing.T) {
			if on == "oci" {
				t.Setenv(image.DirEnv, filepath.Join(t.TempDir(), "images"))
			}
			// docker reads lists with commas, and quotes
			c := cliTest{t, filepath.Join(t.TempDir(), `a, "b"`)}
			if err := os.Mkdir(c.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			in := filepath.Dir(c.write("in/text.txt", "to be\n"))
			flow := shellFlow(t, filepath.Join(c.dir, "flow.json"), shellTask{"bad", "text.txt", "out.txt",
				"cat text.txt; id -u >&2; ls /.gantry/control || true; touch out.txt; exit 3"})
			c.gantry(exitTasksFailed, "run", "-q", "--runtime", on, "--inputs", in, "--name", "r", "--retries", "0",
				flow)
			const attempt = "r/work/flow/bad-1"
			said, id := c.read(attempt+"/.command.out"), c.read(attempt+"/.command.err")
			if said != "to be\n" || !strings.Contains(id, "Permission denied") {
				t.Fatalf("it said %q and %q", said, id)
			}
			if err := os.RemoveAll(filepath.Join(c.dir, "runs/r/control")); err != nil {
				t.Fatal(err)
			}
			if code, out, errs := c.repeated(attempt); code != 3 || out != said || errs != id {
				t.Errorf("exit code %d, %q, %q", code, out, errs)
			}
			if st, err := os.Stat(filepath.Join(c.dir, "runs", attempt, "out.txt")); err != nil || st.Size() > 0 {
				t.Errorf("the program left no file: %v", err)
			}
		})
	}
}

// Docker may not have the image that another runtime took from an archive, nor one for the emulator.
func TestCommandRunBringsTheImage(t *testing.T) {
	needsBusybox(t)
	needsOCI(t)
	t.Setenv(image.DirEnv, filepath.Join(t.TempDir(), "images"))
	c := cliTest{t, t.TempDir()}
	const name = "gantry-test/x:1"
	archive := archiveOf(t, runtime.GOARCH, name)
	t.Cleanup(func() { exec.Command("docker", "rmi", name).Run() })
	c.gantry(exitTasksFailed, "run", "-q", "--runtime", "oci", "--name", "r", "--image", "file://"+archive, "--retries",
		"0", c.write("Makeflow", "out:\n\tno-such-program\n"))
	if code, _, errs := c.repeated("r/work/Makeflow/out-1"); code != 127 || !strings.Contains(errs, "/bin/sh") {
		t.Errorf("exit code %d, %q", code, errs)
	}

	dax := c.write("late.dax", `<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="3.6" name="late">
		<job id="a" name="a" runtime="2"><profile namespace="gantry" key="time-limit">0.1</profile></job></adag>`)
	c.gantry(exitTasksFailed, "run", "-q", "--runtime", "oci", "--name", "e", "--retry", "timed-out=0", dax)
	if code, _, errs := c.repeated("e/work/late/a-1"); code != 0 {
		t.Errorf("exit code %d, %q", code, errs)
	}
}
