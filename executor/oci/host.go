package oci

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor/container"
)

// Host says whether this host can run containers without a daemon, and refuses one that cannot.
func (e *Engine) Host(ctx context.Context) (container.Host, error) {
	h := container.Host{Name: "OCI runtime " + filepath.Base(e.program), Ended: "the host was restarted",
		LimitsSwap:  e.tree.SwapAccounted(),
		LimitsTasks: e.tree.Has("memory") && e.tree.Has("cpu") && e.tree.Has("pids")}
	for _, test := range []func(context.Context) container.Fact{e.runtime, e.privileges, e.groups, e.overlay} {
		f := test(ctx)
		h.Facts = append(h.Facts, f)
		if f.Name == runtimeFact {
			_, h.Version, _ = strings.Cut(f.Evidence, ", ")
		}
		if f.Verdict == container.No {
			return h, fmt.Errorf("%w: %s (%s)", container.ErrUnusable, f.Evidence, f.Advice)
		}
	}
	return h, nil
}

const runtimeFact = "oci-runtime"

// runtime asks the OCI runtime for its version.
func (e *Engine) runtime(ctx context.Context) container.Fact {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, e.program, "--version").Output()
	if err != nil {
		return container.Fact{Name: runtimeFact, Verdict: container.No,
			Evidence: fmt.Sprintf("the OCI runtime %s does not run: %v", e.program, err), Advice: "apt install crun"}
	}
	version, _, _ := strings.Cut(string(said), "\n")
	return container.Fact{Name: runtimeFact, Verdict: container.Yes,
		Evidence: fmt.Sprintf("%s, %s", e.program, strings.TrimSpace(version))}
}

// privileges are root's.
func (e *Engine) privileges(context.Context) container.Fact {
	if os.Geteuid() == 0 {
		return container.Fact{Name: "privileges", Verdict: container.Yes, Evidence: "gantry runs as root"}
	}
	missing := "mounting layers, and control groups of whole nodes, take root"
	if lacking := rootless(e.tree); len(lacking) > 0 {
		missing += "; without it this host lacks besides: " + strings.Join(lacking, ", ")
	}
	return container.Fact{Name: "privileges", Verdict: container.No,
		Evidence: "containers without a daemon and without root: " + missing,
		Advice:   "run gantry as root or by sudo, or use --runtime docker as a member of the group docker"}
}

// rootless lists what containers of a user who is not root would need and this host does not have.
func rootless(t *cgroup.Tree) (lacking []string) {
	if t.Mode() != cgroup.Unified {
		lacking = append(lacking, "cgroup v2 (it has "+t.Mode().String()+")")
	} else if c := undelegated(t); len(c) > 0 {
		lacking = append(lacking, "the controllers "+strings.Join(c, ", ")+", delegated to this user")
	}
	for _, limit := range []string{"/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone"} {
		if text, err := os.ReadFile(limit); err == nil && strings.TrimSpace(string(text)) == "0" {
			lacking = append(lacking, "user namespaces ("+limit+" is 0)")
		}
	}
	for _, m := range []struct{ program, ranges string }{{"newuidmap", "/etc/subuid"}, {"newgidmap", "/etc/subgid"}} {
		if _, err := exec.LookPath(m.program); err != nil {
			lacking = append(lacking, m.program+" (apt install uidmap)")
		}
		if !hasRange(m.ranges) {
			lacking = append(lacking, "a range for this user in "+m.ranges)
		}
	}
	return lacking
}

// hasRange reports whether a file of subordinate IDs has a range for this user.
func hasRange(path string) bool {
	text, _ := os.ReadFile(path)
	id := strconv.Itoa(os.Getuid())
	name := id
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	for line := range strings.Lines(string(text)) {
		if owner, _, ok := strings.Cut(line, ":"); ok && (owner == name || owner == id) {
			return true
		}
	}
	return false
}

// undelegated lists the controllers that the user's own service manager may not use.
func undelegated(t *cgroup.Tree) (lacking []string) {
	slice := fmt.Sprintf("user.slice/user-%d.slice/user@%d.service", os.Getuid(), os.Getuid())
	text, _ := os.ReadFile(filepath.Join(t.Dir("memory", slice), "cgroup.controllers"))
	for _, c := range []string{"cpu", "memory", "pids", "io"} {
		if !strings.Contains(" "+strings.TrimSpace(string(text))+" ", " "+c+" ") {
			lacking = append(lacking, c)
		}
	}
	return lacking
}

// groups tests whether control groups can be made.
func (e *Engine) groups(context.Context) container.Fact {
	for _, controller := range []string{"cpu", "memory", "pids", "blkio"} {
		if err := unix.Access(e.tree.Dir(controller, ""), unix.W_OK); err != nil && e.tree.Has(controller) {
			return container.Fact{Name: "cgroups-writable", Verdict: container.No,
				Evidence: fmt.Sprintf("control groups cannot be made in %s: %v", e.tree.Dir(controller, ""), err),
				Advice:   "mount the control groups read-write (a container needs --privileged for that)"}
		}
	}
	return container.Fact{Name: "cgroups-writable", Verdict: container.Yes,
		Evidence: "control groups can be made, " + e.tree.Mode().String()}
}

// overlay mounts one.
func (e *Engine) overlay(context.Context) container.Fact {
	dir, err := os.MkdirTemp("", "gantry-overlay-")
	if err == nil {
		defer os.Remove(dir)
		err = e.threads.do(func() error {
			defer unmountRoot(dir)
			return mountRoot(dir, "")
		})
	}
	if err != nil {
		return container.Fact{Name: "overlay", Verdict: container.No,
			Evidence: "overlayfs cannot be used: " + err.Error(),
			Advice:   "the kernel needs overlayfs (modprobe overlay), and gantry the right to mount (CAP_SYS_ADMIN)"}
	}
	return container.Fact{Name: "overlay", Verdict: container.Yes, Evidence: "overlayfs can be mounted"}
}
