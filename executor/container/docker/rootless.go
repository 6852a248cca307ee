package docker

import (
	"fmt"
	"os"
	"path/filepath"
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

// needed are the controllers whose limits and counters every task has.
var needed = []string{"cpu", "memory", "pids", "io"}

// rootlessFact names the rights and controllers that a rootless engine of the user lacks. The control groups are
// mounted at root.
func rootlessFact(root string, uid int) container.Fact {
	f := container.Fact{Name: "rootless-engine", Verdict: container.No,
		Advice: "use the engine of the system: unset DOCKER_HOST (docker context use default does not count), as " +
			"root, by sudo, or as a member of the group docker"}
	user := filepath.Join("user.slice", fmt.Sprintf("user-%d.slice", uid), fmt.Sprintf("user@%d.service", uid))
	missing := []string{"users of containers are subordinate ids of yours, so that programs could not write into " +
		"the run directory, nor you remove what they wrote",
		"limits of whole nodes need control groups beside those delegated to you"}
	text, err := os.ReadFile(filepath.Join(root, user, "cgroup.controllers"))
	if err != nil {
		missing = append(missing, "no control group is delegated to you (cgroup v2 with systemd is needed for that)")
	} else {
		have := strings.Fields(string(text))
		lacking := slices.DeleteFunc(slices.Clone(needed), func(c string) bool { return slices.Contains(have, c) })
		if len(lacking) > 0 {
			missing = append(missing, fmt.Sprintf("the controllers %s are not delegated to you (%s are)",
				strings.Join(lacking, ", "), strings.Join(have, ", ")))
		}
	}
	f.Evidence = "the Docker Engine is rootless, which gantry does not support: " + strings.Join(missing, "; ")
	return f
}
