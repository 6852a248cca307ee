//go:build linux

package oci

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/control"
	"gantry/executor/container/evidence"
	"gantry/executor/container/fetch"
	"gantry/executor/container/oci/image"
	"gantry/executor/container/oci/userns"
	"gantry/executor/lock"
)

// Engine is an OCI runtime of this host as a container.Engine. One file for each container outlives a restart of the
// host, control/oci/ID in the run directory: name, labels and limits. All else lies in a directory in memory that this
// file names (in the run directory where /run is not in memory). Nobody else can enter it: under sudo the run directory
// belongs to the caller, and a caller who replaced a bundle there would command root's runtime.
//
//	config.json  the bundle
//	root         where its root is mounted
//	lock         held by the runtime, and by the first process, until the program has begun
//	pid          of the first process, written by the runtime
//	out, err     output of the runtime and of the first process
//	net          where the runtime finds the network of the container
type Engine struct {
	program  string // path of crun or runc
	dirs     []string
	images   Images
	tree     *cgroup.Tree
	root     string // of the tree
	below    string // where that lies below cgroup.Root; "" if it is that
	apparmor string
	threads  inside
	seccomp  func() (*specs.LinuxSeccomp, error)

	mu    sync.Mutex
	bpf   string // the compiled profile of system calls, once crun has left one
	known map[string]*known
	// bundles are directories for those of containers, which go at Close if they are empty
	bundles map[string]string // by run directory
}

// known is this process's knowledge of a container.
type known struct {
	file   string // of the record
	record record
	spec   *container.Spec // nil if another process made it
	image  *image.Image    // nil if it has none, or another process made it
	// volumes are the paths of those of the image, unless another process made it
	volumes []string
	alive   *os.File // that its network lasts as long as; nil if it has none
	helper  int      // the process that makes the network
	pid     *process // nil until it runs
}

// record is the stored description of a container.
type record struct {
	Name   string            `json:"name"`
	Dir    string            `json:"dir"`
	Group  string            `json:"group"`
	Labels map[string]string `json:"labels"`
	Memory int64             `json:"memory_limit_bytes"`
	Counts bool              `json:"counts_io"`
	// Volumes is the directory of the volumes of the image; "" if it has none.
	Volumes string `json:"volumes,omitempty"`
	Boot    string `json:"boot"`
}

const (
	records = "control/oci" // below the run directory
	state   = "state"       // of the runtime, beside the directories of containers
)

// Open looks for an OCI runtime and for the other needs of containers on this host. The error wraps
// container.ErrUnusable and names the remedy.
func Open(cfg Config) (*Engine, error) {
	e := &Engine{dirs: cfg.Dirs, images: cfg.Images, known: map[string]*known{}, bundles: map[string]string{},
		apparmor: apparmorProfile(), seccomp: sync.OnceValues(profile)}
	root := cmp.Or(cfg.CgroupRoot, userns.Groups(), cgroup.Root)
	if below, ok := strings.CutPrefix(root, cgroup.Root); ok {
		e.below = below
	}
	e.root = root
	var err error
	if e.tree, err = cgroup.Open(root, false); err != nil {
		return nil, fmt.Errorf("%w: %w", container.ErrUnusable, err)
	}
	if e.program, err = findRuntime(); err != nil {
		return nil, err
	}
	if e.tree.Mode() == cgroup.Hybrid {
		e.threads.unified = filepath.Join(root, "unified")
	}
	return e, nil
}

// RuntimeEnv is the environment variable that names the OCI runtime.
const RuntimeEnv = "GANTRY_OCI_RUNTIME"

// findRuntime returns the path of crun, else of runc.
func findRuntime() (string, error) {
	names := []string{"crun", "runc"}
	if name := os.Getenv(RuntimeEnv); strings.Contains(name, "/") {
		path, err := exec.LookPath(name)
		if err != nil {
			err = fmt.Errorf("%w: %s names no OCI runtime: %w (correct the path, or leave %[2]s out)",
				container.ErrUnusable, RuntimeEnv, err)
		}
		return path, err
	} else if name != "" {
		names = []string{name}
	}
	for _, name := range names {
		for _, dir := range []string{"", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/"} {
			if path, err := exec.LookPath(dir + name); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%w: no %s on this host: --runtime oci needs an OCI runtime (apt install crun, or set %s to "+
		"its path)", container.ErrUnusable, strings.Join(names, " or "), RuntimeEnv)
}

// Close lets go of the containers. They run on.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range e.known {
		k.pid.close()
	}
	e.known = nil
	for _, b := range e.bundles { // as far as they are empty
		_ = os.Remove(filepath.Join(b, state))
		_ = os.Remove(b)
	}
	return nil
}

// Create writes the bundle of a container.
func (e *Engine) Create(ctx context.Context, s *container.Spec) (string, error) {
	return e.create(ctx, s, func(*specs.Spec) {})
}

func idOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// create writes the bundle of a container, which change may change.
func (e *Engine) create(ctx context.Context, s *container.Spec, change func(*specs.Spec)) (string, error) {
	id := idOf(s.Name)
	if err := e.Remove(ctx, id); err != nil {
		return "", err
	}
	dir := filepath.Join(e.bundlesOf(e.dirs[0]), id)
	k := &known{file: filepath.Join(e.dirs[0], records, id), spec: s, record: record{Name: s.Name, Dir: dir,
		Group: s.Group(id), Labels: s.Labels, Memory: s.Limits.Memory, Counts: s.CountsIO(), Boot: bootID()}}
	var env []string
	if s.Image != "" && s.Image != executor.HostImage {
		i, err := e.image(s.Image)
		if err != nil {
			return "", err
		}
		env, k.image = i.Config.Env, i
		if k.volumes = s.Declared(i.Config.Volumes); len(k.volumes) > 0 {
			s.Volumes = cmp.Or(s.Volumes, k.file+volumes)
			k.record.Volumes = s.Volumes
		}
	}
	if err := k.keep(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(dir, "root"), 0o700); err != nil {
		return "", err
	}
	if err := k.makeVolumes(); err != nil {
		return "", err
	}
	c, err := e.bundle(s, id, dir, env, k.volumes)
	if err != nil {
		return "", err
	}
	change(c)
	if err := writeBundle(dir, c); err != nil {
		return "", err
	}
	e.mu.Lock()
	e.known[id] = k
	e.mu.Unlock()
	return id, nil
}

// keep writes the record, which appears whole.
func (k *known) keep() error {
	text, err := json.Marshal(k.record)
	if err != nil {
		return err
	}
	err = os.MkdirAll(filepath.Dir(k.file), 0o700)
	if err == nil {
		err = os.WriteFile(k.file+part, text, 0o600)
	}
	if err != nil {
		return err
	}
	return os.Rename(k.file+part, k.file)
}

const part = ".part" // of a record that is being written

// Start has the runtime start a container. When it returns, the program runs.
func (e *Engine) Start(_ context.Context, id string) error {
	k, err := e.find(id)
	if err != nil {
		return err
	}
	if k.spec == nil {
		return fmt.Errorf("%w: container %.12s was made by another gantry", errdefs.ErrConflict, id)
	}
	if err := e.rooted(k, func() error { return e.run(k, id) }); err != nil {
		return covered(k.spec, err)
	}
	p, err := e.process(k)
	e.mu.Lock()
	defer e.mu.Unlock()
	if p != nil {
		k.pid = p
	}
	if e.bpf == "" {
		e.bpf = compiled(filepath.Join(filepath.Dir(k.record.Dir), state, id))
	}
	return err
}

// rooted calls f on a thread that sees the root of a container.
func (e *Engine) rooted(k *known, f func() error) error {
	root := filepath.Join(k.record.Dir, "root")
	return e.threads.do(func() error {
		var layers, lower string
		if k.image != nil {
			var err error
			if layers, lower, err = k.image.Lower(); err != nil {
				return err
			}
		}
		mount := func() error { return mountRoot(root, layers, lower) }
		if k.spec.Image == executor.HostImage {
			mount = func() error { return mountInstalled(root, k.spec) }
		}
		defer unmountRoot(root)
		if err := mount(); err != nil {
			return err
		}
		if err := k.spec.Land(k.volumes, lookIn(root)); err != nil {
			return err
		}
		if err := k.fillVolumes(root); err != nil {
			return err
		}
		undo, err := guardMounts(k.record.Dir, k.spec)
		if err != nil {
			return err
		}
		defer undo()
		if k.spec.Network {
			alive, helper, undo, err := connect(k.record.Dir)
			if err != nil {
				return fmt.Errorf("network of container %s: %w", k.record.Name, err)
			}
			defer undo()
			k.alive, k.helper = alive, helper
		}
		return f()
	})
}

// lookIn looks at the files of an image, which are at root and do not change.
func lookIn(root string) container.Look {
	return func(path string) (link string, found bool, err error) {
		link, err = os.Readlink(root + path)
		switch {
		case errors.Is(err, unix.EINVAL): // no link
			return "", true, nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			return "", false, nil
		}
		return link, err == nil, err
	}
}

// compiled is the profile of system calls that crun compiled for a container, in base64; "" if there is none, as with
// runc. All containers have the same one, and compiling it takes a third of crun's time.
func compiled(stateDir string) string {
	bpf, err := os.ReadFile(filepath.Join(stateDir, "seccomp.bpf"))
	if err != nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(bpf)
}

// run has the OCI runtime start a container: it ends when the program is about to begin.
func (e *Engine) run(k *known, id string) error {
	dir := k.record.Dir
	open := func(name string) (*os.File, error) {
		return os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	}
	var files []*os.File
	for _, name := range []string{"lock", "out", "err"} {
		f, err := open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		files = append(files, f)
	}
	// The lock is the runtime's until the program begins: by getting it another process knows that the runtime is
	// through.
	if err := unix.Flock(int(files[0].Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock of container %.12s: %w", id, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), container.DefaultPatience)
	defer cancel()
	c := e.command(ctx, k, id, "run", "--detach")
	c.Stdout, c.Stderr, c.ExtraFiles = files[1], files[2], append(c.ExtraFiles, files[0])
	// A session of its own: a Ctrl-C is not for it.
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := c.Run()
	if ctx.Err() != nil { // the next inspection of the container finds out whether it began
		return fmt.Errorf("%s took longer than %v to start container %.12s: %w", filepath.Base(e.program),
			container.DefaultPatience, id, container.ErrNoAnswer)
	}
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(dir, "err"))
		return fmt.Errorf("%s: %w: %s", filepath.Base(e.program), errors.Join(err, full(dir)), lastLine(string(said)))
	}
	if k.helper > 0 && e.tree.Mode() != cgroup.Unified { // there it would be a process of the container in all
		for _, controller := range []string{"cpu", "cpuacct"} { // its work is the task's
			procs := filepath.Join(e.tree.Dir(controller, k.record.Group), "cgroup.procs")
			_ = os.WriteFile(procs, []byte(strconv.Itoa(k.helper)), 0o644)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "pid")); err != nil { // without it nobody finds the container
		return fmt.Errorf("%s made no container, and said nothing of it: is it an OCI runtime? (%s)", e.program,
			RuntimeEnv)
	}
	return nil
}

// command is the OCI runtime, to do something with a container.
func (e *Engine) command(ctx context.Context, k *known, id string, command ...string) *exec.Cmd {
	dir := k.record.Dir
	args := append([]string{"--root", filepath.Join(filepath.Dir(dir), state)}, command...)
	var held []*os.File
	if k.alive != nil && slices.Contains(command, "--detach") { // a shell has no launcher that closes it
		args, held = append(args, "--preserve-fds", "1"), append(held, k.alive)
	}
	c := exec.CommandContext(ctx, e.program, append(args, "--bundle", dir, "--pid-file", filepath.Join(dir, "pid"),
		id)...)
	c.Dir, c.Env, c.ExtraFiles = "/", []string{defaultPath}, held
	return c
}

// full is ENOSPC where a disk has no room for the runtime's files; the runtime does not always say so.
func full(dir string) error {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil && int64(st.Bavail)*st.Bsize < 256<<10 {
		return unix.ENOSPC
	}
	return nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// find returns this process's knowledge of a container.
func (e *Engine) find(id string) (*known, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k := e.known[id]; k != nil {
		return k, nil
	}
	for _, dir := range e.dirs {
		k := &known{file: filepath.Join(dir, records, id)}
		text, err := os.ReadFile(k.file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, &k.record)
		}
		if err != nil {
			return nil, fmt.Errorf("container %.12s: %w", id, err)
		}
		if e.known != nil {
			e.known[id] = k
			e.bundles[dir] = filepath.Dir(k.record.Dir)
		}
		return k, nil
	}
	return nil, fmt.Errorf("container %.12s: %w", id, errdefs.ErrNotFound)
}

// process returns the first process of a container; nil if it does not live.
func (e *Engine) process(k *known) (*process, error) {
	e.mu.Lock()
	p := k.pid
	e.mu.Unlock()
	if p != nil {
		return p, nil
	}
	text, err := os.ReadFile(filepath.Join(k.record.Dir, "pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	pid, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || err2 != nil {
		return nil, err
	}
	p, err = openProcess(pid, k.record.Group)
	e.mu.Lock()
	defer e.mu.Unlock()
	if p != nil && k.pid != nil { // somebody else was quicker
		p.close()
		return k.pid, nil
	}
	k.pid = p
	return p, err
}

// running returns a container that runs, and its first process.
func (e *Engine) running(id string) (*known, *process, error) {
	k, err := e.find(id)
	if err != nil {
		return nil, nil, err
	}
	p, err := e.process(k)
	if err == nil && (p == nil || p.ended()) {
		err = fmt.Errorf("container %.12s does not run: %w", id, errdefs.ErrConflict)
	}
	return k, p, err
}

// Signal sends a signal to the first process.
func (e *Engine) Signal(_ context.Context, id, signal string) error {
	_, p, err := e.running(id)
	if err != nil {
		return err
	}
	return p.signal(unix.SignalNum(signal))
}

// Freeze has the kernel freeze or thaw the processes of the container's control group.
func (e *Engine) Freeze(ctx context.Context, id string, frozen bool) error {
	k, _, err := e.running(id)
	if err != nil {
		return err
	}
	if err := e.tree.Freeze(ctx, k.record.Group, frozen); err != nil {
		return fmt.Errorf("%w: %w", container.ErrBusy, err)
	}
	return nil
}

// Remove ends a container and removes its remains.
func (e *Engine) Remove(ctx context.Context, id string) error {
	k, err := e.find(id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	awaitRuntime(ctx, k)
	if p, _ := e.process(k); p != nil && !p.ended() {
		_ = p.signal(unix.SIGKILL)
		_ = e.tree.Freeze(ctx, k.record.Group, false)
		p.wait(ctx, killTime)
	}
	if err := e.tree.Clear(k.record.Group); err != nil {
		return fmt.Errorf("container %.12s: %w", id, err)
	}
	if filepath.Base(k.record.Dir) == id { // as gantry wrote it
		for _, dir := range []string{filepath.Join(filepath.Dir(k.record.Dir), state, id), k.record.Dir} {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	if k.record.Volumes != "" {
		if err := os.RemoveAll(k.record.Volumes); err != nil {
			return err
		}
	}
	if err := os.Remove(k.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	k.pid.close()
	delete(e.known, id)
	return nil
}

// killTime is how long a killed process may take to end, and a runtime to start one.
const killTime = 10 * time.Second

// awaitRuntime waits until no runtime is about to start the container.
func awaitRuntime(ctx context.Context, k *known) {
	for begun := time.Now(); starting(k.record.Dir) && time.Since(begun) < killTime &&
		ctx.Err() == nil; {
		time.Sleep(10 * time.Millisecond)
	}
}

// starting reports whether a runtime is starting the container.
func starting(dir string) bool { return lock.Taken(filepath.Join(dir, "lock")) }

// Inspect returns the state of a container.
func (e *Engine) Inspect(_ context.Context, id string) (container.State, error) {
	k, err := e.find(id)
	if err != nil {
		return container.State{}, err
	}
	s := container.State{Memory: k.record.Memory, CountsIO: k.record.Counts, Status: evidence.Created}
	p, err := e.process(k)
	if err != nil {
		return s, err
	}
	st, err := os.Stat(filepath.Join(k.record.Dir, "pid"))
	switch {
	case err == nil:
		if p == nil && starting(k.record.Dir) { // it is not in its control group yet
			return s, nil
		}
		s.Started = st.ModTime()
	case p != nil: // somebody has just removed it
	case k.record.Boot != bootID() && k.began(): // its files in memory are gone
	default:
		return s, nil
	}
	if p != nil && !p.ended() {
		s.Status, s.Pid, s.Paused = evidence.Running, p.pid, e.tree.Frozen(k.record.Group)
		return s, nil
	}
	s.Status = evidence.Exited
	s.ExitCode, s.Finished = e.exit(k, p)
	return s, nil
}

// began reports whether the program has begun, by the launcher's account.
func (k *known) began() bool {
	by, _, err := k.control().Claimed()
	return err == nil && by == control.Launcher
}

func (k *known) control() control.Dir { return control.Dir(k.record.Labels[container.LabelControl]) }

// exit returns the exit code of a container that has ended, and when that was if it is known. It is the kernel's or the
// launcher's to say. A launcher that said nothing was killed, unless the host was restarted, or it did not begin the
// program: then it may have ended before this process knew it.
func (e *Engine) exit(k *known, p *process) (code int, at time.Time) {
	end, err := k.control().End()
	switch {
	case err == nil && end.Over:
		code, at = end.Code, end.At
	case k.began():
		code = 128 + int(unix.SIGKILL)
	default:
		code = evidence.LauncherRefused
	}
	if told, ok := p.exit(); ok {
		code = told
	}
	if k.record.Boot != bootID() && at.IsZero() {
		at = e.Since()
	}
	return code, at
}

// Wait waits for the end of the first process.
func (e *Engine) Wait(ctx context.Context, id string) (int, error) {
	k, err := e.find(id)
	if err != nil {
		return -1, err
	}
	p, err := e.process(k)
	if err != nil {
		return -1, err
	}
	if p != nil && !p.wait(ctx, container.DefaultPatience/4) {
		return -1, context.DeadlineExceeded
	}
	s, err := e.Inspect(ctx, id)
	if err == nil && s.Status != evidence.Exited {
		err = fmt.Errorf("container %.12s: %w", id, errdefs.ErrConflict)
	}
	return s.ExitCode, err
}

// List looks for containers in the run directories.
func (e *Engine) List(ctx context.Context, label, value string) ([]container.Listed, error) {
	var out []container.Listed
	for _, dir := range e.dirs {
		entries, err := os.ReadDir(filepath.Join(dir, records))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			if entry.IsDir() || strings.HasSuffix(entry.Name(), part) {
				continue
			}
			k, err := e.find(entry.Name())
			if errdefs.IsNotFound(err) { // about to be made, or to go
				continue
			}
			if err != nil {
				return nil, err
			}
			has, ok := k.record.Labels[label]
			if !ok || value != "" && has != value {
				continue
			}
			s, err := e.Inspect(ctx, entry.Name())
			if err != nil {
				return nil, err
			}
			out = append(out, container.Listed{ID: entry.Name(), Name: k.record.Name, Status: s.Status,
				Labels: k.record.Labels})
		}
	}
	return out, nil
}

// Tidy removes the remains of containers that a killed gantry had begun to make or to remove. The caller holds the run.
func (e *Engine) Tidy() error {
	listed := filepath.Join(e.dirs[0], records)
	entries, err := os.ReadDir(listed)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		id, isVolumes := strings.CutSuffix(entry.Name(), volumes)
		if isVolumes {
			_, err := os.Lstat(filepath.Join(listed, id))
			isVolumes = errors.Is(err, fs.ErrNotExist)
		}
		if isVolumes || strings.HasSuffix(entry.Name(), part) {
			if err := os.RemoveAll(filepath.Join(listed, entry.Name())); err != nil {
				return err
			}
		}
	}
	top := e.bundlesOf(e.dirs[0])
	entries, err = os.ReadDir(top)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == state {
			continue
		}
		if _, err := e.find(entry.Name()); errdefs.IsNotFound(err) {
			if err := os.RemoveAll(filepath.Join(top, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Environment is the environment in the image's configuration.
func (e *Engine) Environment(_ context.Context, ref string) ([]string, error) {
	if ref == "" || ref == executor.HostImage {
		return nil, nil
	}
	i, err := e.image(ref)
	if err != nil {
		return nil, err
	}
	return slices.Clone(i.Config.Env), nil
}

func (e *Engine) image(ref string) (*image.Image, error) {
	if e.images == nil {
		return nil, fmt.Errorf("image %s: %w", ref, fetch.ErrNoImage)
	}
	return e.images.Image(ref)
}

// Output is the output of the first process.
func (e *Engine) Output(_ context.Context, id string) (stdout, stderr []byte, err error) {
	k, err := e.find(id)
	if err != nil {
		return nil, nil, err
	}
	stdout, err = os.ReadFile(filepath.Join(k.record.Dir, "out"))
	stderr, err2 := os.ReadFile(filepath.Join(k.record.Dir, "err"))
	return stdout, stderr, errors.Join(err, err2)
}

// Away is never: the engine is part of gantry.
func (e *Engine) Away() bool { return false }

// Unreachable is never either.
func (e *Engine) Unreachable(error) bool { return false }

// Since is when the host was started, as then all containers ended.
func (e *Engine) Since() time.Time {
	var up unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(up.Nano()))
}

var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})
