package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The main.go and the test of docs/own-policies.md make a gantry of another module, which has their policy.
func TestAnotherModuleHasPoliciesOfItsOwn(t *testing.T) {
	long(t)
	root, err := filepath.Abs("..")
	must(t, err)
	page, sums := read(t, "../docs/own-policies.md"), read(t, "../go.sum")
	var files []string
	for block := range strings.SplitSeq(page, "\n```") {
		if text, ok := strings.CutPrefix(block, "go\n"); ok {
			files = append(files, text+"\n")
		}
	}
	if len(files) != 2 {
		t.Fatalf("the page has %d blocks of Go, want main.go and main_test.go", len(files))
	}
	dir := writeFiles(t, map[string]string{"main.go": files[0], "main_test.go": files[1], "go.sum": sums,
		"go.mod": "module example.org/mine\n\ngo 1.26.0\n\nrequire gantry v0.0.0\n\nreplace gantry => " + root + "\n"})
	for _, args := range [][]string{{"build", "-mod=mod", "-o", "mine", "."}, {"test", "-mod=mod", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOTOOLCHAIN=local")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, args := range [][]string{{"policies", "lifo"}, {"simulate", "-q", "--dir=" + t.TempDir(), "--policy=lifo",
		filepath.Join(root, "examples/montage/montage-25.dax")}, {"simulate", "--no-log", "--policy=exec:" +
		filepath.Join(root, "examples/policies/shortest_first.py"), filepath.Join(root,
		"examples/montage/montage-25.dax")}} {
		if out, err := exec.Command(filepath.Join(dir, "mine"), args...).CombinedOutput(); err != nil {
			t.Errorf("mine %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
