//go:build linux

package oci

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"gantry/cgroup"
	"gantry/executor/container"
	"gantry/executor/container/gpu"
	"gantry/executor/container/oci/userns"
)

// capabilities are those of the launcher alone, which gives them up.
var capabilities = []string{"CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"}

// Paths that Docker hides from containers, or shows read-only, by default.
var (
	masked = []string{"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/proc/interrupts",
		"/sys/firmware", "/sys/devices/virtual/powercap"}
	readOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// bundle is the configuration of a container for an OCI runtime: the same container that the Docker Engine makes of s.
// Volumes are those of its image.
func (e *Engine) bundle(s *container.Spec, id, dir string, env, volumes []string) (*specs.Spec, error) {
	host, files, network := id[:12], map[string]string{}, specs.LinuxNamespace{Type: specs.NetworkNamespace}
	if s.Network {
		files, network.Path = networkFiles(host), filepath.Join(dir, "net")
	}
	files["hostname"] = host + "\n"
	var mounts []specs.Mount
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			return nil, err
		}
		mounts = append(mounts, specs.Mount{Destination: "/etc/" + name, Type: "bind", Source: at,
			Options: []string{"rbind", "ro", "rprivate"}})
	}
	for i, m := range s.Mounts {
		o := []string{"rbind", "rprivate"}
		if m.ReadOnly {
			o = []string{"rbind", "ro", "rprivate"}
		}
		if guarded(m) {
			m.Source = guard(dir, i)
			if err := os.Mkdir(m.Source, 0o700); err != nil {
				return nil, err
			}
		}
		mounts = append(mounts, specs.Mount{Destination: m.Target, Type: "bind", Source: m.Source, Options: o})
	}
	for n, path := range volumes {
		mounts = append(mounts, specs.Mount{Destination: path, Type: "bind", Source: s.Volume(n),
			Options: []string{"rbind", "rprivate"}})
	}
	var gpus specs.Spec
	if err := gpu.Apply(s.Edits, &gpus); err != nil {
		return nil, err
	}
	mounts = append(mounts, gpus.Mounts...)
	for path, options := range s.Tmpfs {
		mounts = append(mounts, specs.Mount{Destination: path, Type: "tmpfs", Source: "tmpfs",
			Options: append([]string{"noexec", "rprivate"}, strings.Split(options, ",")...)})
	}
	slices.SortFunc(mounts, func(a, b specs.Mount) int { // parents before the mounts below them, gantry's own last
		if last := container.Reserved(a.Destination); last != container.Reserved(b.Destination) {
			return map[bool]int{false: -1, true: 1}[last]
		}
		depth := func(m specs.Mount) int { return strings.Count(filepath.Clean(m.Destination), "/") }
		if d := depth(a) - depth(b); d != 0 {
			return d
		}
		return strings.Compare(a.Destination, b.Destination)
	})
	oom := oomScore()
	c := &specs.Spec{Version: "1.0.2", Hostname: host,
		Process: &specs.Process{Args: s.Args, Cwd: s.Dir, Env: environment(env, host, s.Env), NoNewPrivileges: true,
			Rlimits: rlimits(), OOMScoreAdj: &oom,
			Capabilities: &specs.LinuxCapabilities{Bounding: capabilities, Effective: capabilities,
				Permitted: capabilities}, ApparmorProfile: e.apparmor},
		Root:   &specs.Root{Path: filepath.Join(dir, "root"), Readonly: true},
		Mounts: append(e.system(s.Shm), mounts...),
		Linux: &specs.Linux{CgroupsPath: filepath.Join("/", e.below, s.Group(id)),
			Resources: resources(e.tree, &s.Limits),
			Sysctl: map[string]string{"net.ipv4.ip_unprivileged_port_start": "0",
				"net.ipv4.ping_group_range": pingers()},
			Namespaces: []specs.LinuxNamespace{{Type: specs.MountNamespace}, network, {Type: specs.UTSNamespace},
				{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}},
			MaskedPaths: masked, ReadonlyPaths: readOnly}}
	if c.Hooks = gpus.Hooks; gpus.Linux != nil && gpus.Linux.Resources != nil {
		c.Linux.Devices = gpus.Linux.Devices
		c.Linux.Resources.Devices = append(c.Linux.Resources.Devices, gpus.Linux.Resources.Devices...)
	}
	if e.tree.Mode() == cgroup.Unified {
		c.Linux.Namespaces = append(c.Linux.Namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	e.mu.Lock()
	bpf := e.bpf
	e.mu.Unlock()
	if bpf != "" {
		c.Annotations = map[string]string{"run.oci.seccomp_bpf_data": bpf}
		c.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActErrno} // has it used; says nothing itself
		return c, nil
	}
	var err error
	c.Linux.Seccomp, err = e.seccomp()
	return c, err
}

// pingers are the groups that may send echo requests: all.
func pingers() string {
	if userns.Inside() { // all that are mapped
		return "0 65535"
	}
	return "0 2147483647"
}

// system are the file systems that each container has.
func (e *Engine) system(shm int64) []specs.Mount {
	mount := func(to, kind, from string, options ...string) specs.Mount {
		return specs.Mount{Destination: to, Type: kind, Source: from, Options: options}
	}
	all := []specs.Mount{mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
		mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
		mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
		mount("/sys", "sysfs", "sysfs", "nosuid", "noexec", "nodev", "ro"),
		mount("/sys/fs/cgroup", "cgroup", "cgroup", "ro", "nosuid", "noexec", "nodev"),
		mount("/dev/mqueue", "mqueue", "mqueue", "nosuid", "noexec", "nodev"),
		mount("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777",
			"size="+strconv.FormatInt(max(shm, 64<<20), 10))}
	if e.tree.Mode() != cgroup.Unified { // crun leaves a directory there that everybody may write to
		all = append(all, mount("/sys/fs/cgroup", "bind", "/sys/fs/cgroup", "remount", "bind", "ro", "nosuid",
			"noexec", "nodev"))
	}
	return all
}

// environment is that of the first process, as Docker makes it: an entry of the task holds against one of the image,
// and of several of the image that have one name the first.
func environment(image []string, host string, own []string) []string {
	env := []string{defaultPath, "HOSTNAME=" + host}
	usual := len(env)
	for i, list := range [][]string{image, own} {
		for _, entry := range list {
			name, _, _ := strings.Cut(entry, "=")
			at := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
			if at < 0 {
				env = append(env, entry)
			} else if i > 0 || at < usual {
				env[at] = entry
			}
		}
	}
	return env
}

// resources are the limits of the container's control group.
func resources(t *cgroup.Tree, l *cgroup.Limits) *specs.LinuxResources {
	r := t.Resources(l)
	// Those that every container has, such as /dev/null, the runtime allows by itself.
	r.Devices = []specs.LinuxDeviceCgroup{{Access: "rwm"}}
	return r
}

// profile is Docker's default profile of system calls, for the capabilities of the launcher.
func profile() (*specs.LinuxSeccomp, error) {
	return seccomp.GetDefaultProfile(&specs.Spec{Process: &specs.Process{
		Capabilities: &specs.LinuxCapabilities{Bounding: capabilities, Effective: capabilities,
			Permitted: capabilities}}})
}

// writeBundle leaves the configuration where the runtime looks for it.
func writeBundle(dir string, c *specs.Spec) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
}

// apparmorProfile is Docker's profile, if the kernel enforces it: "docker-default" or "".
func apparmorProfile() string {
	const docker = "docker-default"
	loaded, _ := os.ReadFile("/sys/kernel/security/apparmor/profiles")
	for line := range strings.Lines(string(loaded)) {
		if strings.HasPrefix(line, docker+" ") {
			return docker
		}
	}
	return ""
}
