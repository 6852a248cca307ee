package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/container/docker"
)

// One command runs in the current directory, and its output is all that is printed.
func TestRunTakesOneCommand(t *testing.T) {
	needsBusybox(t)
	binary, err := docker.FindTaskBinary() // before the directory is another
	if err == nil {
		binary, err = filepath.Abs(binary)
	}
	if err != nil {
		t.Skipf("needs the emulator for containers (make build): %v", err)
	}
	t.Setenv("GANTRY_TASK", binary)
	c := cliTest{t, t.TempDir()}
	here := filepath.Join(c.dir, "with a space")
	must(t, os.Mkdir(here, 0o755))
	for dir := here; dir != os.TempDir(); dir = filepath.Dir(dir) { // for the user as whom programs run
		must(t, os.Chmod(dir, 0o777))
	}
	t.Chdir(here)
	c.write("with a space/in", "one\ntwo\n")
	for _, on := range []string{"oci", "docker"} {
		out, errs := c.gantry(exitOK, "run", "--runtime", on, "--image", "gantry/busybox", "--memory", "64M", "--",
			"sh", "-c", `wc -l <in; echo "$0" >made; echo warned >&2`, "--all words")
		if out != "2\n" || errs != "warned\n" {
			t.Errorf("on %s the output is %q and %q", on, out, errs)
		}
		if text, err := os.ReadFile("made"); err != nil || string(text) != "--all words\n" {
			t.Errorf("on %s the command made %q (%v)", on, text, err)
		}
		must(t, os.Remove("made"))
	}
	out, errs := c.gantry(exitTasksFailed, "run", "--name", "bad", "--image", "gantry/busybox", "--", "sh", "-c",
		"echo so far; exit 3")
	if out != "so far\n" || !strings.Contains(errs, "exit code 3; more: gantry explain bad sh") {
		t.Errorf("a command that fails: %q and %q", out, errs)
	}
	for retries, want := range map[string]string{"0": "try\n", "2": "try\ntry\ntry\n"} {
		out, _ = c.gantry(exitTasksFailed, "run", "--retries", retries, "--image", "gantry/busybox", "--", "sh", "-c",
			"echo try; exit 3")
		if out != want {
			t.Errorf("with %s retries: %q, want %q", retries, out, want)
		}
	}
	_, errs = c.gantry(exitTasksFailed, "run", "--image", "gantry/busybox", "--", "nslookup", "example.org")
	if !strings.Contains(errs, "gantry: exit code 1: it has no network: --network outbound") {
		t.Errorf("a command without a network: %q", errs)
	}
	c.gantry(exitOK, "logs", "bad", "sh")
	for _, x := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "a command is needed", []string{"run", "--"}},
		{exitInput, "no image to run it in", []string{"run", "--", "true"}},
		{exitUsage, "for --memory: not an amount of bytes",
			[]string{"run", "--image", "i", "--memory", "much", "--", "true"}},
		{exitUsage, "--cpus has no effect here", []string{"run", "--cpus", "2", "in"}},
		{exitUsage, "--retry has no effect here: a command runs once",
			[]string{"run", "--retry", "exit-code=2", "--image", "i", "--", "true"}},
		{exitUsage, "--results has no effect here", []string{"run", "--results", "a", "--image", "i", "--", "true"}},
		{exitInput, "", []string{"run", "in", "--", "true"}}, // two files
	} {
		if _, errs := c.gantry(x.code, x.args...); !strings.Contains(errs, x.want) {
			t.Errorf("%v: %q lacks %q", x.args, errs, x.want)
		}
	}
	closed := filepath.Join(c.dir, "closed")
	if err := os.Mkdir(closed, 0o755); err != nil || os.Getuid() != 0 {
		return
	}
	t.Chdir(closed)
	out, errs = c.gantry(exitOK, "run", "--image", "gantry/busybox", "--", "pwd")
	if out != closed+"\n" || !strings.Contains(errs, "may only read "+closed) {
		t.Errorf("in a directory that the user may only read: %q and %q", out, errs)
	}
}
