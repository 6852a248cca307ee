package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gantry/cgroup"
	"gantry/executor/container"
)

// Limits returns the limits of Slurm itself on this job step, by the control groups that it is in.
func Limits() []container.Fact {
	table, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return []container.Fact{{Name: "slurm-limits", Evidence: err.Error()}}
	}
	return limits(string(table), cgroup.Root)
}

func limits(table, root string) []container.Fact {
	memory := container.Fact{Name: "slurm-memory", Verdict: container.No,
		Evidence: "Slurm does not limit the memory of job steps on this node",
		Advice:   "ask for TaskPlugin=task/cgroup with ConstrainRAMSpace=yes; gantry's limits hold tasks all the same"}
	if at, text := limit(table, root, "memory", "memory.limit_in_bytes", "memory.max"); at != "" {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			memory = container.Fact{Name: "slurm-memory", Verdict: container.Yes,
				Evidence: fmt.Sprintf("Slurm limits the memory of job steps: %d MB for this one (%s)", n>>20, at)}
		}
	}
	cores := container.Fact{Name: "slurm-cores", Verdict: container.No,
		Evidence: "Slurm does not confine job steps to the CPUs of their allocation on this node",
		Advice:   "ask for TaskPlugin=task/cgroup with ConstrainCores=yes; gantry's quota holds tasks all the same"}
	if at, text := limit(table, root, "cpuset", "cpuset.cpus", "cpuset.cpus"); at != "" {
		cores = container.Fact{Name: "slurm-cores", Verdict: container.Yes,
			Evidence: fmt.Sprintf("Slurm confines job steps to CPUs: %s for this one (%s)", text, at)}
	}
	return []container.Fact{memory, cores}
}

// unlimited is cgroup v1's limit of memory for a group without one: all pages that there can be.
const unlimited = "9223372036854771712"

// limit finds the innermost of Slurm's groups around this process that has a limit; it returns both.
func limit(table, root, controller, v1, v2 string) (group, text string) {
	for line := range strings.Lines(table) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		dir, file := filepath.Join(root, parts[1]), v1
		if parts[0] == "0" && parts[1] == "" {
			dir, file = root, v2
		} else if !strings.Contains(","+parts[1]+",", ","+controller+",") {
			continue
		}
		for at := filepath.Clean("/" + parts[2]); strings.Contains(at, "slurm"); at = filepath.Dir(at) {
			value, err := os.ReadFile(filepath.Join(dir, at, file))
			text := strings.TrimSpace(string(value))
			if err == nil && text != "" && text != "max" && text != unlimited {
				return at, text
			}
		}
	}
	return "", ""
}
