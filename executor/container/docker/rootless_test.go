package docker_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/planner"
	"gantry/planner/unit"
)

func TestARootlessEngineIsRefusedWithWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct{ version, rootless string }{
		"Docker": {`[]`, `"SecurityOptions":["name=seccomp,profile=default","name=rootless","name=cgroupns"]`},
		"Podman": {`[{"Name":"Podman Engine","Version":"4.3.1"}]`, `"Rootless":true,"SecurityOptions":[` +
			`"name=seccomp,profile=default"]`},
	} {
		t.Run(name, func(t *testing.T) { testRootless(t, x.version, x.rootless) })
	}
}

func testRootless(t *testing.T, components, rootless string) {
	t.Parallel()
	host, _ := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/info"):
			fmt.Fprint(w, `{"OSType":"linux","CgroupDriver":"systemd","CgroupVersion":"2","ServerVersion":"20.10.24",`,
				rootless, `}`)
		case strings.HasSuffix(r.URL.Path, "/version"):
			fmt.Fprint(w, `{"Components":`, components, `}`)
		}
	})
	platform := &planner.Platform{Nodes: []planner.Node{{Name: "n", Speed: 1, Capacity: unit.Cores(1)}},
		Groups: []string{""}}
	dir := t.TempDir()
	_, err := docker.New(t.Context(), host, container.Config{Run: "r", Dir: dir, Platform: platform})
	if !errors.Is(err, container.ErrUnusable) || !strings.Contains(err.Error(), "rootless") ||
		!strings.Contains(err.Error(), "DOCKER_HOST") {
		t.Errorf("a run is refused with %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("it left %v", entries)
	}

	facts, err := factsOf(t, host, dir, "none")
	if !errors.Is(err, container.ErrUnusable) {
		t.Errorf("doctor ends with %v", err)
	}
	for _, f := range facts {
		if f.Name == "rootless-engine" {
			if f.Verdict != container.No || !strings.Contains(f.Evidence, "subordinate ids") || f.Advice == "" {
				t.Errorf("doctor says %+v", f)
			}
			return
		}
	}
	t.Errorf("doctor says nothing of it: %+v", facts)
}
