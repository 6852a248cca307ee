package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/executor/emulate"
	"gantry/planner/unit"
	"gantry/trace"
)

const (
	// Launcher is where the emulator's binary appears in containers: it opens the files that standard input, output and
	// error are redirected to, byte for byte, and starts the program of the task, which may be the emulator.
	Launcher = "/.gantry-task"
	// controlTop is a directory that only the launcher can enter, controlDir the attempt's control directory in it.
	controlTop = "/.gantry"
	controlDir = controlTop + "/control"
	// Files of standard output and error that no task declared: only of these no more than a bound is kept. The
	// launcher knows them, too.
	undeclaredOut, undeclaredErr = ".command.out", ".command.err"
	// minMemory is the least memory limit that the Docker Engine takes; it holds for all engines.
	minMemory = 6 << 20
	// taskPeriod is short, so that the quota of a slow node bites in tasks of some ten milliseconds, too.
	taskPeriod = 20 * time.Millisecond
	// minQuota is the least that the kernel takes.
	minQuota = time.Millisecond
)

// LauncherCapabilities are those of the launcher alone, which gives them up before the program begins.
var LauncherCapabilities = []string{"SETUID", "SETGID", "SETPCAP"}

// configure says how the container is to be.
func (a *place) configure() {
	r, t := a.r, a.l.Spec
	node := &r.cfg.Platform.Nodes[a.l.Node]
	s := &Spec{
		Name:    fmt.Sprintf(AttemptName, r.name, a.l.Attempt),
		Image:   t.Image,
		Dir:     a.dir,
		Network: t.Network,
		// In the environment that the image gives.
		Env:    append([]string{executor.Home}, t.Env...),
		Labels: r.labels(),
		Tmpfs:  map[string]string{},
		Shm:    a.sharedMemory(),
		Mounts: []Mount{{Source: a.dir, Target: a.dir}, {Source: a.nodeFiles(), Target: a.nodeFiles(), ReadOnly: true},
			{Source: string(a.ctl), Target: controlDir}},
		Nested: t.Workflow.By == nil || r.host.Ordered,
		Group:  a.groupOf,
		Limits: cgroup.Limits{PIDs: r.cfg.PIDs, Device: r.device},
	}
	s.GPUs, s.Edits = a.gpus, a.edits
	if a.edits != nil { // over those of the image and of the task, which could ask for other GPUs
		s.Env = append(s.Env, a.edits.Env...)
	}
	if r.cfg.Image != nil {
		s.Image = cmp.Or(r.cfg.Image(t.Image), t.Image)
	}
	maps.Copy(s.Labels, map[string]string{LabelWorkflow: t.Workflow.Name, LabelTask: t.Name,
		LabelAttempt: strconv.Itoa(int(a.l.Attempt)), LabelTry: strconv.Itoa(int(a.l.Try)), LabelNode: node.Name,
		LabelControl: string(a.ctl)})
	if a.parent != "" {
		s.Parent = r.tree.Parent(a.parent)
	}
	if r.far == nil && os.Geteuid() == 0 { // else the Docker Engine would make files there that gantry cannot remove
		s.Volumes = a.volumes()
	}
	for _, m := range t.Mounts {
		p := executor.ParseMount(m)
		s.Mounts = append(s.Mounts, Mount{Source: p.From, Target: p.To, ReadOnly: !p.Writable,
			Given: !submittedSecret(p)})
		if p.InPlace {
			a.hide(s, p.To)
		}
	}
	if s.Image == executor.HostImage {
		a.hide(s, "")
	}
	a.showTmp(s)
	// the control directory belongs to the user that also runs the program: only this mount keeps the program out
	if os.Geteuid() != 0 {
		s.Tmpfs[controlTop] = "rw,nosuid,nodev,noexec,size=4k,mode=0700"
	}
	s.Mounts = append(s.Mounts, Mount{Source: r.cfg.TaskBinary, Target: Launcher, ReadOnly: true})
	if t.Emulated() {
		s.Image, s.Args = "", a.launchArgs("", "", "", Launcher, specFile)
	} else {
		s.Args = a.programArgs()
		for _, m := range r.secretMounts() { // the submission's own come first
			if !slices.ContainsFunc(s.Mounts, func(own Mount) bool { return own.Target == m.Target }) {
				s.Mounts = append(s.Mounts, m)
			}
		}
	}

	hold, l := a.l.Hold, &s.Limits
	speed := node.Speed
	if r.far != nil {
		speed = 1
	}
	if cpu := hold[unit.CPU]; cpu > 0 && cpu != unit.Unlimited {
		period := taskPeriod
		quota := time.Duration(float64(period) * float64(cpu) / 1000 * speed)
		if quota < minQuota {
			period = nodePeriod
			quota = max(quota*nodePeriod/taskPeriod, minQuota)
		}
		l.CPUPeriod, l.CPUQuota = period, quota
	}
	if m := hold[unit.Memory]; m > 0 && m != unit.Unlimited {
		l.Memory = max(m, minMemory)
		l.MemorySwap = l.Memory
	}
	if r.device.Path != "" || r.far != nil {
		var io IOLimits
		if r.cfg.IO != nil {
			io = r.cfg.IO[a.l.Node]
		}
		if d := hold[unit.Disk]; d > 0 && d != unit.Unlimited {
			io.ReadBps, io.WriteBps = unit.Tighter(io.ReadBps, d), unit.Tighter(io.WriteBps, d)
		}
		l.ReadBps, l.WriteBps, l.ReadIOPS, l.WriteIOPS = io.ReadBps, io.WriteBps, io.ReadIOPS, io.WriteIOPS
	}
	a.spec = s
}

// hide puts an empty directory of root's over the gantry directory where that lies in a directory that programs see:
// they see neither the log nor the runs.
func (a *place) hide(s *Spec, place string) {
	if top := filepath.Dir(a.r.cfg.Dir); Inside(top, place) {
		s.Tmpfs[top] = "rw,nosuid,nodev,noexec,size=64k,mode=0755"
	}
}

// volumes is where the volumes of the image are, which others than root cannot enter: files may be there that have the
// set-user-id bit.
func (a *place) volumes() string { return filepath.Join(string(a.ctl), "volumes") }

// argv is the task's own command.
func (a *place) argv() []string {
	if a.l.Spec.Shell {
		return trace.ShellArgv(a.l.Spec.Command, executor.ScriptFile)
	}
	if a.l.Spec.Expand {
		return append(a.l.Spec.Command[:1:1], a.words...)
	}
	return a.l.Spec.Command
}

// expand finds the words of a text of arguments as bash does in the environment and directory of the program.
func (a *place) expand(ctx context.Context) error {
	t := a.l.Spec
	if !t.Expand {
		return nil
	}
	env, err := a.r.engine.Environment(ctx, a.spec.Image)
	if err != nil {
		return err
	}
	if err = a.as(func() (err error) {
		env := append(env[:len(env):len(env)], a.spec.Env...)
		if a.words, err = trace.ExpandArguments(strings.Join(t.Command[1:], " "), env, a.dir,
			func(path string) ([]fs.DirEntry, error) { return stage.List(path, a.dir, a.nodeFiles()) }); err != nil {
			return fmt.Errorf("%w: %w", errArguments, err)
		}
		if err = trace.Bounds(a.argv(), env); err != nil {
			return fmt.Errorf("%w: argument list too long: %w", errArguments, err)
		}
		return nil
	}); err != nil {
		return err
	}
	a.spec.Args = a.programArgs()
	return nil
}

// errArguments says that a program cannot be started with its arguments on any host.
var errArguments = errors.New("arguments")

// user is the user that runs the program: UID:GID, and :GROUP,... if it has further groups.
func (a *place) user() string {
	u := a.r.files.UserOf(a.l.Spec.Workflow)
	text := fmt.Sprintf("%d:%d", u.UID, u.GID)
	var groups []int
	if by := a.l.Spec.Workflow.By; by != nil {
		groups = by.Groups
	}
	if a.edits != nil { // that may use its devices
		for _, g := range a.edits.AdditionalGIDs {
			if g > 0 {
				groups = append(groups[:len(groups):len(groups)], int(g))
			}
		}
	}
	separator := ":"
	for _, g := range groups {
		text += separator + strconv.Itoa(g)
		separator = ","
	}
	return text
}

// programArgs are the launcher of a program, and its arguments.
func (a *place) programArgs() []string {
	t := a.l.Spec
	return a.launchArgs(t.Stdin, cmp.Or(t.Stdout, undeclaredOut), cmp.Or(t.Stderr, undeclaredErr), a.argv()...)
}

// launchArgs are the launcher and its arguments.
func (a *place) launchArgs(stdin, stdout, stderr string, argv ...string) []string {
	return append([]string{Launcher, "launch", controlDir, a.user(), strconv.FormatInt(a.r.cfg.MaxOutput, 10), stdin,
		stdout, stderr}, argv...)
}

const specFile = ".command.json"

// emulation is the work of an emulated task on its node.
func (a *place) emulation() (*emulate.Spec, error) {
	s := a.l.Emulation(a.r.cfg.Platform.Nodes[a.l.Node].Speed)
	s.Seed, s.Direct = a.r.cfg.Seed, true
	return &s, s.Validate()
}

// Script is the command of a task as a shell script: for people, and for shells if it is too long for an argument.
func Script(t *executor.TaskSpec) string {
	argv := t.Command
	switch {
	case t.Emulated():
		argv = []string{Launcher, specFile}
	case t.Expand:
		return "#!/bin/sh\nexec " + executor.Quote(t.Command[:1]) + " " + t.Command[1] + "\n"
	case t.Shell:
		argv = trace.ShellArgv(t.Command, executor.ScriptFile)
		if argv[0] == "/bin/sh" || argv[len(argv)-1] == executor.ScriptFile {
			return "#!/bin/sh\n" + trace.Script(t.Command) + "\n"
		}
	}
	return "#!/bin/sh\nexec " + executor.Quote(argv) + "\n"
}

// nodeFiles is the directory of the workflow's files on the attempt's node.
func (a *place) nodeFiles() string { return a.r.files.NodeDir(a.l.Node, a.l.Spec.Workflow) }
