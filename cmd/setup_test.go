package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Set-up that cannot be done says why, and what to do. What it calls is replaced: nothing is installed.
func TestSetupSaysWhatIsInItsWay(t *testing.T) {
	apt := func(says string) string { return "apt-get=echo '" + says + "'; exit 100" }
	for name, x := range map[string]struct {
		step, stub, env string // of stub, NAME=SCRIPT
		want            []string
	}{
		"no sudo":          {"compiler", "id=echo 1000", "", []string{"there is no sudo here", "root: gantry setup"}},
		"not Debian":       {"compiler", "", "", []string{"not Debian or Ubuntu", "gcc libc6-dev"}},
		"a full disk":      {"compiler", "df=echo a 1 1 100 5% /", "", []string{"100 MB", "600 MB are needed"}},
		"no lists":         {"compiler", apt("E: Unable to locate package gcc"), "", []string{"E: U", "connection"}},
		"interrupted dpkg": {"compiler", apt("E: dpkg was interrupted"), "", []string{"dpkg --configure -a"}},
		"in the way": {"compiler", apt("E: Packages need to be removed but remove is disabled."), "",
			[]string{"nothing is removed"}},
		"half an engine": {"engine", "dpkg-query=echo half-configured docker.io", "",
			[]string{"half installed: docker.io", "dpkg --configure -a"}},
		"another engine": {"engine", "", "unix:///nowhere/docker.sock", []string{"no Docker Engine answers at " +
			"DOCKER_HOST=unix:///nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tools := "bash sh sed grep awk mktemp rm head tail tr cat sleep timeout env df"
			for tool := range strings.FieldsSeq(tools) {
				path, err := exec.LookPath(tool)
				if err != nil {
					t.Skip("needs " + tool)
				}
				os.Symlink(path, filepath.Join(dir, tool))
			}
			// No engine answers.
			stubs := []string{"id=echo 0", "perl=exit 1", "dpkg-query=", "apt-get=exit 100", x.stub}
			if name == "not Debian" {
				stubs = stubs[:3]
			}
			for _, s := range stubs {
				if program, text, ok := strings.Cut(s, "="); ok {
					os.Remove(filepath.Join(dir, program))
					text = "#!/bin/sh\n" + text + "\n"
					must(t, os.WriteFile(filepath.Join(dir, program), []byte(text), 0o755))
				}
			}
			cmd := exec.Command("bash", "-c", setupScript, "gantry setup", x.step)
			cmd.Env = []string{"PATH=" + dir, "TMPDIR=" + dir, "DOCKER_HOST=" + x.env}
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("it did not fail")
			}
			for _, want := range x.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is not said:\n%s", want, out)
				}
			}
		})
	}
}
