//go:build linux

package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor/container"
	"gantry/executor/container/evidence"
	"gantry/executor/container/oci/userns"
)

// Host says whether this host can run containers without a daemon, and refuses one that cannot.
func (e *Engine) Host(ctx context.Context) (container.Host, error) {
	h := container.Host{Teller: evidence.Teller{Engine: "OCI runtime " + filepath.Base(e.program),
		Ended: "the host was restarted"}, Groups: e.root, TakesGroup: true, Ordered: true, Hooks: true,
		LimitsSwap:  e.tree.SwapAccounted(),
		LimitsTasks: e.tree.Has("memory") && e.tree.Has("cpu") && e.tree.Has("pids")}
	privileges := func(context.Context) container.Fact { return e.privileges(h.Version) }
	for _, test := range []func(context.Context) container.Fact{e.runtime, privileges, e.groups, e.overlay} {
		f := test(ctx)
		h.Facts = append(h.Facts, f)
		if f.Name == runtimeFact {
			_, h.Version, _ = strings.Cut(f.Evidence, ", ")
		}
		if f.Verdict == container.No {
			return h, fmt.Errorf("%w: %s (%s)", container.ErrUnusable, f.Evidence, f.Advice)
		}
	}
	h.NoNetwork = NoNetwork()
	network := container.Fact{Name: "network", Evidence: "--network: " + h.NoNetwork}
	if h.NoNetwork == "" {
		network.Verdict, network.Evidence = container.Yes, "--network gives tasks one by "+slirp
	}
	h.Facts = append(h.Facts, network)
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
			Evidence: fmt.Sprintf("the OCI runtime %s does not run: %v", e.program, err),
			Advice:   "apt install crun, or set " + RuntimeEnv + " to the path of another"}
	}
	version, _, _ := strings.Cut(string(said), "\n")
	return container.Fact{Name: runtimeFact, Verdict: container.Yes,
		Evidence: fmt.Sprintf("%s, %s", e.program, strings.TrimSpace(version))}
}

// privileges are root's, or those of a user namespace. The privileges needed depend on the version of the OCI runtime.
func (e *Engine) privileges(version string) container.Fact {
	f := container.Fact{Name: "privileges", Verdict: container.Yes, Evidence: "gantry runs as root"}
	if userns.Inside() {
		f.Evidence = "gantry runs without root, as user " + os.Getenv("SUDO_UID") + ", in a user namespace, with " +
			"control groups that systemd delegates"
		return f
	}
	if os.Geteuid() == 0 {
		if lacks := container.RootLacks(append(slices.Clone(container.ForFiles), "KILL", "MKNOD", "NET_ADMIN", "SETGID",
			"SETPCAP", "SETUID", "SYS_ADMIN")...); lacks != nil {
			if container.RootLacks(container.ForFiles...) == nil {
				lacks.Advice += ", or use --runtime docker"
			}
			return *lacks
		}
		if why := lockedMemory(e.tree.Mode(), version); why != "" {
			return container.Fact{Name: "privileges", Verdict: container.No, Evidence: why,
				Advice: "give it that capability, or no limit of locked memory (docker run --ulimit memlock=-1; " +
					"LimitMEMLOCK=infinity of a unit), or install crun 1.14 or later, or runc (" + RuntimeEnv + ")"}
		}
		return f
	}
	missing := "mounting layers, and control groups of whole nodes, take root"
	if lacking := rootless(e.tree); len(lacking) > 0 {
		missing += ", or else what this host lacks: " + strings.Join(lacking, "; ")
	}
	return container.Fact{Name: "privileges", Verdict: container.No,
		Evidence: "containers without a daemon and without root: " + missing,
		Advice:   "run gantry as root or by sudo, or use --runtime docker as a member of the group docker"}
}

// groups tests whether control groups can be made, with the controllers without which no container starts.
func (e *Engine) groups(context.Context) container.Fact {
	needed := []string{"cpu", "memory", "pids"}
	if e.tree.Mode() != cgroup.Unified {
		needed = append(needed, "blkio", "devices")
	}
	if names, remedy := e.tree.Lacking(needed...); len(names) > 0 {
		return container.Fact{Name: "cgroups-writable", Verdict: container.No,
			Evidence: "control groups, " + e.tree.Mode().String() + ", have no " + strings.Join(names, ", "),
			Advice:   remedy}
	}
	for _, controller := range needed {
		if err := unix.Access(e.tree.Dir(controller, ""), unix.W_OK); err != nil {
			return container.Fact{Name: "cgroups-writable", Verdict: container.No,
				Evidence: fmt.Sprintf("control groups cannot be made in %s: %v", e.tree.Dir(controller, ""), err),
				Advice:   container.Remedy(err.Error())}
		}
	}
	return container.Fact{Name: "cgroups-writable", Verdict: container.Yes,
		Evidence: "control groups can be made, " + e.tree.Mode().String()}
}

// overlay mounts one.
func (e *Engine) overlay(context.Context) container.Fact {
	dir, err := os.MkdirTemp(memoryDir(), "overlay-")
	if err != nil {
		return container.Fact{Name: "overlay", Verdict: container.No,
			Evidence: "there is no place to try overlayfs: " + err.Error(), Advice: container.Remedy(err.Error())}
	}
	defer os.Remove(dir)
	err = e.threads.do(func() error {
		defer unmountRoot(dir)
		return mountRoot(dir, "", "")
	})
	if err != nil {
		f := container.Fact{Name: "overlay", Verdict: container.No,
			Evidence: "overlayfs cannot be used: " + err.Error(), Advice: container.Remedy(err.Error())}
		if errors.Is(err, unix.ENODEV) {
			f.Advice = "the kernel needs overlayfs (modprobe overlay)"
		}
		return f
	}
	return container.Fact{Name: "overlay", Verdict: container.Yes, Evidence: "overlayfs can be mounted"}
}
