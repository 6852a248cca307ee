package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRootlessFactNamesTheControllersThatAreNotDelegated(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	user := filepath.Join(root, "user.slice/user-1000.slice/user@1000.service")
	if err := os.MkdirAll(user, 0o755); err != nil {
		t.Fatal(err)
	}
	for have, want := range map[string]string{
		"memory pids\n":               "cpu, io are not delegated",
		"cpuset cpu io memory pids\n": "",
	} {
		if err := os.WriteFile(filepath.Join(user, "cgroup.controllers"), []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
		got := rootlessFact(root, 1000).Evidence
		if want == "" && strings.Contains(got, "not delegated") || !strings.Contains(got, want) {
			t.Errorf("with %q: %s", have, got)
		}
	}
	if got := rootlessFact(root, 1001).Evidence; !strings.Contains(got, "no control group is delegated") {
		t.Errorf("without delegation: %s", got)
	}
}
