package docker_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/planner"
	"gantry/planner/unit"
)

// rootlessEngine answers as a Docker Engine without root does.
func rootlessEngine(t *testing.T) (host string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/info") {
			fmt.Fprint(w, `{"OSType":"linux","CgroupDriver":"systemd","CgroupVersion":"2","ServerVersion":"20.10.24",`+
				`"SecurityOptions":["name=seccomp,profile=default","name=rootless","name=cgroupns"]}`)
		}
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return "unix://" + socket
}

func TestARootlessEngineIsRefusedWithWhatIsMissing(t *testing.T) {
	t.Parallel()
	host := rootlessEngine(t)
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
