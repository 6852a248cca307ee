package docker

import (
	"slices"
	"strings"

	"github.com/docker/docker/api/types/system"

	"gantry/executor/container"
)

// isRootless reports whether the engine runs without root. Gantry needs more than such an engine has; see rootlessFact.
func isRootless(info *system.Info) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		return slices.Contains(strings.Split(o, ","), "name=rootless")
	})
}

// rootlessFact says why an engine of the user is refused.
var rootlessFact = container.Fact{Name: "rootless-engine", Verdict: container.No,
	Evidence: "the Docker Engine is rootless, which gantry does not support: users of containers are subordinate ids " +
		"of yours, so that programs could not write into the run directory, nor you remove what they wrote; limits " +
		"of whole nodes need control groups beside those delegated to you",
	Advice: "use the engine of the system: unset DOCKER_HOST (docker context use default does not count), as root, " +
		"by sudo, or as a member of the group docker"}
