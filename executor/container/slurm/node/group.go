package node

import (
	"os"
	"path/filepath"
	"strings"

	"gantry/cgroup"
)

// Within is the control group below which the containers of this process are to be: that of the job step, whose limits
// Slurm holds. "" with a reason says that none can be made there.
func Within(t *cgroup.Tree) (group, reason string) {
	if os.Geteuid() != 0 {
		return "", "only root may make control groups below those of Slurm"
	}
	if t.Systemd() {
		return "", "the engine has systemd make its control groups, which cannot be below those of Slurm"
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err.Error()
	}
	group = own(string(text), t.Mode())
	if group == "" {
		return "", "Slurm does not use control groups on this node (TaskPlugin=task/cgroup with ConstrainRAMSpace)"
	}
	if t.Mode() == cgroup.Unified {
		// A group with processes has no limited groups below it.
		leaf := filepath.Join(t.Dir("", group), "gantry")
		if err := os.Mkdir(leaf, 0o755); err != nil && !os.IsExist(err) {
			return "", err.Error()
		}
		if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return "", err.Error()
		}
	}
	if err := t.Create(group, cgroup.Limits{}); err != nil {
		return "", err.Error()
	}
	return group, ""
}

// own is the group of memory of this process, which of all has the most limits, if Slurm made it.
func own(table string, mode cgroup.Mode) string {
	for line := range strings.Lines(table) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		memory := strings.Contains(","+parts[1]+",", ",memory,")
		if mode == cgroup.Unified {
			memory = parts[0] == "0"
		}
		if memory && strings.Contains(parts[2], "slurm") && strings.Contains(parts[2], "/step_") {
			return strings.Trim(parts[2], "/")
		}
	}
	return ""
}

// Tidy removes the groups of this job step where Slurm has none of its own: Within made them, and engines below it.
// With job it removes those of the job instead, which other steps on the node may be about to use.
func Tidy(t *cgroup.Tree, job bool) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || t.Mode() == cgroup.Unified {
		return // they go with Slurm's
	}
	step := own(string(text), t.Mode())
	for step != "" && !strings.HasPrefix(filepath.Base(step), "step_") {
		step = up(step)
	}
	if step == "" {
		return
	}
	mine := map[string]string{} // by controller
	for line := range strings.Lines(string(text)) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
			for name := range strings.SplitSeq(strings.TrimPrefix(parts[1], "name="), ",") {
				mine[name] = strings.Trim(parts[2], "/")
			}
		}
	}
	entries, _ := os.ReadDir(cgroup.Root)
	for _, e := range entries {
		if in := mine[e.Name()]; in == step || strings.HasPrefix(in, step+"/") {
			continue // Slurm's
		}
		top := filepath.Join(cgroup.Root, e.Name())
		if !job {
			below, _ := filepath.Glob(filepath.Join(top, step, "*/"))
			for _, dir := range append(below, filepath.Join(top, step)) {
				_ = os.Remove(dir) // the files in it are no files
			}
			continue
		}
		for g := up(step); g != "" && os.Remove(filepath.Join(top, g)) == nil; {
			g = up(g)
		}
	}
}

// up is the group above a group.
func up(group string) string {
	dir := filepath.Dir(group)
	if dir == "." {
		return ""
	}
	return dir
}
