package docker_test

import (
	"errors"
	"fmt"
	"net/http"
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
