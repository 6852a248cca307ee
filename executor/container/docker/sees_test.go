package docker_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/container"
	"gantry/executor/container/docker"
)

// Podman answers as the Docker Engine does, and heeds another setting for the network. A run asks what became of it.
func TestPodmanHasToTakeTheNetworkAway(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"none", "bridge"} {
		g := newGate(t)
		g.onRequest(func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			switch path := req.URL.Path; {
			case strings.HasSuffix(path, "/version"):
				fmt.Fprint(w, `{"Version": "4.9.3", "Components": [{"Name": "Podman Engine", "Version": "4.9.3"}]}`)
			case strings.Contains(path, "/containers/") && strings.HasSuffix(path, "/json") && network != "none":
				fmt.Fprintf(w, `{"Id": "c", "HostConfig": {"NetworkMode": %q}}`, network)
			default:
				return false
			}
			return true
		})
		r, err := docker.New(t.Context(), g.host, settings(t, nil))
		if err == nil {
			err = r.Close()
		}
		if network == "none" && err != nil || network != "none" && (!errors.Is(err, container.ErrUnusable) ||
			!strings.Contains(err.Error(), "network")) {
			t.Errorf("%s: %v", network, err)
		}
	}
}

// A run whose containers would see other files than gantry does at the paths of mounts ends before it begins.
func TestTheEngineHasToSeeTheSameMounts(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	same, other := filepath.Join(top, "same"), filepath.Join(top, "other")
	must(t, errors.Join(os.Mkdir(same, 0o755), os.Mkdir(other, 0o755)))
	g := newGate(t)
	g.onRequest(func(w http.ResponseWriter, req *http.Request) bool {
		switch path := req.URL.Path; {
		case strings.HasSuffix(path, "/version"): // so that a container has to tell
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"Version": "4.9.3", "Components": [{"Name": "Podman Engine", "Version": "4.9.3"}]}`)
			return true
		case strings.HasSuffix(path, "/containers/create"):
			must(t, errors.Join(os.Rename(other, filepath.Join(t.TempDir(), "moved")), os.Mkdir(other, 0o755)))
		}
		return false
	})
	for _, shown := range []string{same, other} {
		cfg := settings(t, nil)
		cfg.Shown = []string{same, shown}
		r, err := docker.New(t.Context(), g.host, cfg)
		if err == nil {
			err = r.Close()
		}
		if shown == same && err != nil || shown == other && (!errors.Is(err, container.ErrUnusable) ||
			!strings.Contains(err.Error(), "it "+container.SeesOther+" at "+other+" ")) {
			t.Errorf("%s: %v", shown, err)
		}
	}
}

// A gantry that is killed before it has removed the container that looks at its files leaves it to the next.
func TestTheContainerThatLooksIsRemovedLater(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.onRequest(func(w http.ResponseWriter, req *http.Request) bool {
		switch {
		case strings.HasSuffix(req.URL.Path, "/version"):
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"Version": "4.9.3", "Components": [{"Name": "Podman Engine", "Version": "4.9.3"}]}`)
		case req.Method == http.MethodDelete:
			panic(http.ErrAbortHandler) // as if gantry had ended
		default:
			return false
		}
		return true
	})
	cfg := settings(t, nil)
	if _, err := docker.New(t.Context(), g.host, cfg); !errors.Is(err, container.ErrUnusable) {
		t.Fatal(err)
	}
	e, err := docker.Open(t.Context(), g.host, cfg.TaskBinary, 0)
	must(t, err)
	defer e.Close()
	for _, left := range []int{1, 0} {
		found, err := e.List(t.Context(), container.LabelDir, cfg.Dir)
		if err != nil || len(found) != left {
			t.Errorf("%d containers, not %d: %v", len(found), left, err)
		}
		g.onRequest(nil)
		r, err := docker.New(t.Context(), g.host, cfg)
		must(t, err)
		must(t, errors.Join(r.Recover(t.Context(), nil), r.Close()))
	}
	if left, _ := filepath.Glob(filepath.Join(cfg.Dir, ".seen*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
