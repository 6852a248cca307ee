package docker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/blkiodev"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"gantry/executor/docker/launch"
	"gantry/executor/emulate"
	"gantry/planner/unit"
	"gantry/trace"
)

const (
	// launcher is where the emulator's binary appears in the containers of real tasks: it opens the files that standard
	// input, output and error are redirected to, byte for byte, and becomes the task's program.
	launcher = "/.gantry-task"
	// controlTop is a directory that only the launcher can enter, controlDir the attempt's control directory in it.
	controlTop = "/.gantry"
	controlDir = controlTop + "/control"
	// minMemory is the least memory limit that the Docker Engine takes.
	minMemory = 6 << 20
	// taskPeriod is short, so that the quota of a slow node bites in tasks of some ten milliseconds, too.
	taskPeriod = 20 * time.Millisecond
	// minQuota is the least that the kernel takes.
	minQuota = time.Millisecond
)

// configure says how the container is to be.
func (a *attempt) configure() {
	r, t := a.r, a.l.Spec
	node := &r.cfg.Platform.Nodes[a.l.Node]
	c := &container.Config{
		Image:           cmp.Or(r.cfg.Images[t.Image], t.Image),
		User:            "0:0", // the launcher becomes r.files.User before the program begins
		WorkingDir:      a.dir,
		NetworkDisabled: !t.Network,
		// In the environment that the image gives.
		Env: append([]string{"HOME=/tmp"}, t.Env...),
		Labels: map[string]string{LabelRun: r.cfg.Run, LabelHostName: r.name, LabelDir: r.cfg.Dir,
			LabelWorkflow: t.Workflow.Name, LabelTask: t.Name,
			LabelAttempt: strconv.Itoa(int(a.l.Attempt)), LabelTry: strconv.Itoa(int(a.l.Try)), LabelNode: node.Name,
			LabelVersion: r.cfg.Version, LabelControl: string(a.ctl),
			labelRead: strconv.FormatInt(int64(a.read), 10), labelCopied: strconv.FormatInt(int64(a.copied), 10),
			labelMoved:  strconv.FormatInt(int64(a.usage.MovedBytes), 10),
			labelStaged: strconv.FormatInt(int64(a.usage.Staged), 10)},
	}
	pids := r.cfg.PIDs
	h := &container.HostConfig{
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		CapAdd:         []string{"SETUID", "SETGID", "SETPCAP"}, // of the launcher alone, which gives them up
		SecurityOpt:    []string{"no-new-privileges"},
		Tmpfs:          map[string]string{"/tmp": "rw,nosuid,nodev,size=64m,mode=1777"},
		Mounts: []mount.Mount{{Type: mount.TypeBind, Source: a.dir, Target: a.dir},
			{Type: mount.TypeBind, Source: a.nodeFiles(), Target: a.nodeFiles(), ReadOnly: true},
			{Type: mount.TypeBind, Source: string(a.ctl), Target: controlDir}},
		Resources: container.Resources{PidsLimit: &pids},
	}
	for _, m := range t.Mounts {
		from, to, _ := strings.Cut(m, ":")
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: from, Target: to, ReadOnly: true})
	}
	if !a.emulated() {
		h.Mounts = append(h.Mounts, r.secretMounts()...)
	}
	if a.parent != "" {
		h.CgroupParent = r.tree.Parent(a.parent)
	}
	// the control directory belongs to the user who also runs the program: only this keeps that out
	if os.Geteuid() != 0 {
		h.Tmpfs[controlTop] = "rw,nosuid,nodev,noexec,size=4k,mode=0700"
	}
	if a.emulated() {
		c.Image = r.cfg.TaskImage
		c.Entrypoint, c.Cmd = []string{TaskProgram}, []string{"emulate", controlDir, a.user(), specFile}
		h.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m",
			"max-file": "1"}}
	} else {
		c.Entrypoint, c.Cmd = []string{launcher}, a.launchArgs()
		h.LogConfig = container.LogConfig{Type: "none"} // the launcher keeps what it says
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: r.cfg.TaskBinary, Target: launcher,
			ReadOnly: true})
	}

	hold := a.l.Hold
	if cpu := hold[unit.CPU]; cpu > 0 && cpu != unit.Unlimited {
		period := taskPeriod
		quota := time.Duration(float64(period) * float64(cpu) / 1000 * node.Speed)
		if quota < minQuota {
			period = nodePeriod
			quota = max(quota*nodePeriod/taskPeriod, minQuota)
		}
		h.CPUPeriod, h.CPUQuota = period.Microseconds(), quota.Microseconds()
	}
	if m := hold[unit.Memory]; m > 0 && m != unit.Unlimited {
		h.Memory = max(m, minMemory)
		h.MemorySwap = h.Memory
	}
	if r.device.Path != "" {
		var io IOLimits
		if r.cfg.IO != nil {
			io = r.cfg.IO[a.l.Node]
		}
		if d := hold[unit.Disk]; d > 0 && d != unit.Unlimited {
			io.ReadBps, io.WriteBps = lesser(io.ReadBps, d), lesser(io.WriteBps, d)
		}
		device := func(rate int64) []*blkiodev.ThrottleDevice {
			if rate <= 0 {
				return nil
			}
			return []*blkiodev.ThrottleDevice{{Path: r.device.Path, Rate: uint64(rate)}}
		}
		h.BlkioDeviceReadBps, h.BlkioDeviceWriteBps = device(io.ReadBps), device(io.WriteBps)
		h.BlkioDeviceReadIOps, h.BlkioDeviceWriteIOps = device(io.ReadIOPS), device(io.WriteIOPS)
	}
	a.config, a.host = c, h
}

// lesser is the smaller limit, where 0 is none.
func lesser(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// argv is the task's own command.
func (a *attempt) argv() []string {
	if a.l.Spec.Shell {
		return append([]string{"/bin/sh", "-c"}, a.l.Spec.Command...)
	}
	if a.l.Spec.Expand {
		return append(a.l.Spec.Command[:1:1], a.words...)
	}
	return a.l.Spec.Command
}

// expand finds the words of a text of arguments as bash does in the environment and directory of the program.
func (a *attempt) expand(ctx context.Context) error {
	t := a.l.Spec
	if !t.Expand {
		return nil
	}
	image, err := a.r.cli.ImageInspect(ctx, a.config.Image)
	if err != nil {
		return err
	}
	var env []string
	if image.Config != nil {
		env = image.Config.Env
	}
	if a.words, err = trace.ExpandArguments(t.Command[1], append(env[:len(env):len(env)], a.config.Env...),
		a.dir); err != nil {
		return fmt.Errorf("arguments: %w: %w", errdefs.ErrInvalidArgument, err)
	}
	a.config.Cmd = a.launchArgs()
	return nil
}

// user is whom the program runs as.
func (a *attempt) user() string {
	u := a.r.files.User
	return fmt.Sprintf("%d:%d", u.UID, u.GID)
}

// launchArgs are the arguments of the launcher.
func (a *attempt) launchArgs() []string {
	r, t := a.r, a.l.Spec
	stdout, stderr := launch.Stdout, launch.Stderr
	if t.Stdout != "" {
		stdout = t.Stdout
	}
	if t.Stderr != "" {
		stderr = t.Stderr
	}
	return append([]string{"launch", controlDir, a.user(), strconv.FormatInt(r.cfg.MaxOutput, 10), t.Stdin, stdout,
		stderr}, a.argv()...)
}

const specFile = ".command.json"

// emulation is the work of an emulated task on its node.
func (a *attempt) emulation() (*emulate.Spec, error) {
	r := a.r
	work := a.l.Emulation(r.cfg.Platform.Nodes[a.l.Node].Speed)
	s := &work
	s.Seed, s.Direct, s.Fsync = r.cfg.Seed, true, true
	r.mu.Lock()
	tweak := r.tweaks[a.l.Attempt]
	r.mu.Unlock()
	if tweak != nil {
		tweak(s)
	}
	return s, s.Validate()
}

// script is the task's command as a shell script, for people.
func (a *attempt) script() string {
	t := a.l.Spec
	if t.Shell && len(t.Command) == 1 {
		return "#!/bin/sh\n" + t.Command[0] + "\n"
	}
	if t.Expand {
		return "#!/bin/sh\nexec " + Quote(t.Command[:1]) + " " + t.Command[1] + "\n"
	}
	argv := a.argv()
	if a.emulated() {
		argv = []string{TaskProgram, specFile}
	}
	return "#!/bin/sh\nexec " + Quote(argv) + "\n"
}

// runScript is the docker command that runs the task as gantry does, for people. Docker's own command cannot switch the
// network off as cheaply as the API; --network none is equal but for that.
func (a *attempt) runScript() string {
	c, h := a.config, a.host
	args := []string{"docker", "run", "--rm", "--user", c.User, "--workdir", c.WorkingDir, "--read-only", "--cap-drop",
		"ALL",
		"--security-opt", "no-new-privileges", "--tmpfs", "/tmp:" + h.Tmpfs["/tmp"], "--pids-limit",
		strconv.FormatInt(*h.PidsLimit, 10)}
	if c.NetworkDisabled {
		args = append(args, "--network", "none")
	}
	if h.CPUQuota > 0 {
		args = append(args, "--cpu-period", strconv.FormatInt(h.CPUPeriod, 10), "--cpu-quota",
			strconv.FormatInt(h.CPUQuota, 10))
	}
	if h.Memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(h.Memory, 10), "--memory-swap",
			strconv.FormatInt(h.MemorySwap, 10))
	}
	for _, d := range []struct {
		flag string
		list []*blkiodev.ThrottleDevice
	}{{"--device-read-bps", h.BlkioDeviceReadBps}, {"--device-write-bps", h.BlkioDeviceWriteBps},
		{"--device-read-iops", h.BlkioDeviceReadIOps}, {"--device-write-iops", h.BlkioDeviceWriteIOps}} {
		for _, l := range d.list {
			args = append(args, d.flag, fmt.Sprintf("%s:%d", l.Path, l.Rate))
		}
	}
	for _, m := range h.Mounts {
		if strings.HasPrefix(m.Target, secretsIn+"/") { // which are gone with the run
			continue
		}
		s := fmt.Sprintf("type=bind,source=%s,target=%s", m.Source, m.Target)
		if m.ReadOnly {
			s += ",readonly"
		}
		args = append(args, "--mount", s)
	}
	for _, e := range c.Env {
		args = append(args, "--env", e)
	}
	args = append(args, "--entrypoint", c.Entrypoint[0], c.Image)
	return fmt.Sprintf("#!/bin/sh\n# What gantry asked of the Docker Engine for task %s of workflow %s, try "+
		"%d.\nexec %s\n",
		oneLine(a.l.Spec.Name), oneLine(a.l.Spec.Workflow.Name), a.l.Try, Quote(append(args, c.Cmd...)))
}

// Quote makes a shell command line of argv.
func Quote(argv []string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_-./:=,@%+", r)
	}
	var out []string
	for _, s := range argv {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
			s = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// nodeFiles is the directory of the workflow's files on the attempt's node.
func (a *attempt) nodeFiles() string { return a.r.files.NodeDir(a.l.Node, a.l.Spec.Workflow) }
