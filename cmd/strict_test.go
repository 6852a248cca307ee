package cmd

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/container/oci/image"
)

// A program that fails in a pipe or before a semicolon is a failure, unless the shell is another one: by the makeflow,
// or by --shell. A long command is as strict, whatever its shell.
func TestCommandsEndAtTheFirstFailure(t *testing.T) {
	needsBusybox(t)
	many := strings.Repeat(" some/file", 20_000)
	rules := map[string]string{
		"loud.txt":  "echo careful >&2; echo fine >loud.txt",
		"good.txt":  "printf '2\\\\n1\\\\n' | sort >good.txt; if false; then :; fi; ! false; false || true",
		"zero.txt":  "echo \"\\$0 \\$\\#\" >zero.txt",
		"pipe.txt":  "cat absent | sort >pipe.txt",
		"first.txt": "cat absent; touch first.txt",
		"cut.txt":   "yes | head -n 1 >cut.txt",
		"loose.txt": "@SHELL=sh\n\tcat absent | sort; false; touch loose.txt",
		"own.txt":   "@SHELL=\"sh -u\"\n\tfalse; echo \"\\$0\" >own.txt",
		"long.txt":  "set --" + many + "; echo \\$\\# >long.txt",
		"lax.txt":   "@SHELL='sh -u'\n\tset --" + many + "; false; echo \\$\\# >lax.txt",
		"latin.txt": "false || echo 'caf\xe9' >latin.txt", // no UTF-8, as scripts of old are
		"fails.txt": "set --" + many + "; false | cat; touch fails.txt",
	}
	var flow strings.Builder
	for out, rule := range rules {
		if !strings.HasPrefix(rule, "@") {
			rule = "\t" + rule
		}
		fmt.Fprintf(&flow, "%s:\n%s\n", out, rule)
	}
	for _, on := range runtimesOf(t) {
		t.Run(on, func(t *testing.T) {
			if on == "oci" {
				t.Setenv(image.DirEnv, filepath.Join(t.TempDir(), "images"))
			}
			c := cliTest{t, t.TempDir()}
			file := c.write("w.makeflow", flow.String())
			c.gantry(exitTasksFailed, "run", "-q", "--runtime", on, "--image", "gantry/busybox", "--name", "r", file)
			for out, want := range map[string]string{"good.txt": "1\n2\n", "zero.txt": "/bin/sh 0\n", "loose.txt": "",
				"own.txt": "sh\n", "long.txt": "20000\n", "lax.txt": "20000\n", "latin.txt": "caf\xe9\n"} {
				if got := c.read("r/results/w", out); got != want {
					t.Errorf("%s: %q, want %q", out, got, want)
				}
			}
			said, _ := c.gantry(exitOK, "show", "r")
			for _, want := range []string{
				"1 task that succeeded wrote to standard error: w/loud.txt: gantry logs r TASK",
				"w/loose.txt on host: wrote to standard error, and left an empty output: \"loose.txt\""} {
				if !strings.Contains(said, want) || strings.Contains(said, "w/own.txt") {
					t.Errorf("%q is not in\n%s", want, said)
				}
			}
			c.gantry(exitTasksFailed, "run", "-q", "--runtime", on, "--image", "gantry/busybox", "--name", "again",
				"--reuse", file)
			said, _ = c.gantry(exitOK, "show", "again")
			for _, want := range []string{"wrote to standard error: w/loud.txt: gantry logs again TASK",
				"w/loose.txt on host: wrote to standard error, and left an empty output: \"loose.txt\""} {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not in\n%s", want, said)
				}
			}
			if _, said = c.gantry(exitInput, "logs", "again", "loud.txt"); !strings.Contains(said, "takes over the "+
				"results of task loud.txt of run r, attempt 1") || !strings.Contains(said, "gantry logs r loud.txt") {
				t.Errorf("logs: %s", said)
			}
			for out, why := range map[string]string{"pipe.txt": "exit code 1", "first.txt": "exit code 1",
				"fails.txt": "exit code 1", "cut.txt": "(broken pipe): a program of a pipe"} {
				if said, _ := c.gantry(exitOK, "explain", "r", out); !strings.Contains(said, why) {
					t.Errorf("%s: %q does not say %q", out, said, why)
				}
			}
			// the same without them is as makeflow has it; nothing of the strict run is taken over
			few := c.write("lax/w.makeflow", fmt.Sprintf("good.txt:\n\t%s\nfirst.txt:\n\t%s\n", rules["good.txt"],
				rules["first.txt"]))
			c.gantry(exitOK, "run", "-q", "--runtime", on, "--image", "gantry/busybox", "--name", "lax", "--shell",
				"sh", "--reuse", few)
			said, _ = c.gantry(exitOK, "explain", "lax", "good.txt")
			if !strings.Contains(said, "its shell changed") {
				t.Errorf("explain: %s", said)
			}
		})
	}
}
