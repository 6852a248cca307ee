package docker

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/system"

	"gantry/executor/container"
)

// isRootless reports whether the engine runs without root. Gantry needs more than such an engine has; see rootlessFact.
func (e *Engine) isRootless(ctx context.Context, info *system.Info) bool {
	if e.podman {
		return e.podmanIsRootless(ctx)
	}
	return slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		return slices.Contains(strings.Split(o, ","), "name=rootless")
	})
}

// podmanIsRootless reads the key that the Docker Engine's answer does not have.
func (e *Engine) podmanIsRootless(ctx context.Context) bool {
	var info struct{ Rootless bool }
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podman/info", nil)
	if err != nil {
		return false
	}
	answer, err := e.cli.HTTPClient().Do(ask)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(&info) == nil && info.Rootless
}

// rootlessFact says why an engine of the user is refused.
var rootlessFact = container.Fact{Name: "rootless-engine", Verdict: container.No,
	Evidence: "the container engine is rootless, which gantry does not support: users of containers are subordinate " +
		"ids of yours, so that programs could not write into the run directory, nor you remove what they wrote; " +
		"limits of whole nodes need control groups beside those delegated to you",
	Advice: "use the engine of the system: unset DOCKER_HOST (docker context use default does not count), as root, " +
		"by sudo, or as a member of the group docker"}
