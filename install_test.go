package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// installed runs commands of an installed gantry in an empty directory, while nothing of the source tree is to be seen.
type installed struct {
	t      *testing.T
	prefix string
	dir    string
}

func (i installed) run(script string) string {
	i.t.Helper()
	tree, err := os.Getwd()
	if err != nil {
		i.t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "bash", "-ec", `mount -t tmpfs tmpfs "$1"; cd "$2"; eval "$3"`, "hide", tree,
		i.dir, script)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(i.prefix, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		i.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func TestAnInstalledGantryNeedsNothingOfTheSourceTree(t *testing.T) {
	bin := os.Getenv("GANTRY_TEST_BIN")
	if bin == "" {
		t.Skip("installs the binaries of make build: make test says where they are (GANTRY_TEST_BIN)")
	}
	if os.Geteuid() != 0 || exec.Command("docker", "version").Run() != nil {
		t.Skip("needs root and a Docker Engine")
	}
	i := installed{t, t.TempDir(), t.TempDir()}
	if err := os.Chmod(i.prefix, 0o755); err != nil {
		t.Fatal(err)
	}
	install := exec.Command("scripts/install", filepath.Join(bin, "gantry"), filepath.Join(bin, "gantry-task"))
	install.Env = append(os.Environ(), "PREFIX="+i.prefix, "DESTDIR=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, file := range []string{"bin/gantry-task", "share/man/man1/gantry.1", "share/man/man1/gantry-run.1",
		"share/bash-completion/completions/gantry", "share/zsh/site-functions/_gantry",
		"share/fish/vendor_completions.d/gantry.fish"} {
		if _, err := os.Stat(filepath.Join(i.prefix, file)); err != nil {
			t.Error(err)
		}
	}
	if got := i.run("type -p gantry; gantry setup"); !strings.HasPrefix(got, i.prefix) {
		t.Errorf("another gantry was found: %s", got)
	}
	const image = "gantry-test/installed:latest"
	defer exec.Command("docker", "image", "rm", image).Run()
	i.run("gantry image build --force " + image + " busybox-static")
	if err := os.WriteFile(filepath.Join(i.dir, "Makeflow"), []byte("out:\n\techo yes >out\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	i.run("gantry check Makeflow; gantry run --name a --image " + image + " Makeflow; gantry show a")
	if out, err := os.ReadFile(filepath.Join(i.dir, "gantry-runs/a/results/Makeflow/out")); string(out) != "yes\n" {
		t.Errorf("the result is %q, %v", out, err)
	}
	i.run("gantry simulate --name b Makeflow; gantry compare a b")
	i.run("gantry report a --html a.html; gantry export a --format csv")
}
