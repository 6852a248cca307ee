package docker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/blkiodev"
	types "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/pkg/stdcopy"

	"gantry/executor/container"
	"gantry/executor/container/evidence"
)

// Create makes a container, in place of one that was made by a request whose answer was lost. The empty image is made
// when it is not there, as somebody may remove it.
func (e *Engine) Create(ctx context.Context, s *container.Spec) (id string, err error) {
	emulated := s.Image == ""
	if emulated {
		own := *s // the caller may ask again
		own.Image = EmptyImage
		s = &own
	}
	config, host := configure(s)
	host.Runtime = e.runtime
	if !emulated {
		if host.Mounts, err = e.withVolumes(ctx, host.Mounts, s); err != nil {
			return "", err
		}
	}
	c, err := e.cli.ContainerCreate(ctx, config, host, nil, nil, s.Name)
	if errdefs.IsConflict(err) {
		if err := e.Remove(ctx, s.Name); err != nil {
			return "", err
		}
		c, err = e.cli.ContainerCreate(ctx, config, host, nil, nil, s.Name)
	}
	if errdefs.IsNotFound(err) && emulated {
		if err = EnsureEmptyImage(ctx, e.cli); err == nil {
			c, err = e.cli.ContainerCreate(ctx, config, host, nil, nil, s.Name)
		}
	}
	if c.ID == "" && errdefs.IsNotFound(err) {
		err = noImage(s.Image)
	}
	return c.ID, err
}

// configure says in the engine's words how a container is to be.
func configure(s *container.Spec) (*types.Config, *types.HostConfig) {
	l := &s.Limits
	c := &types.Config{Image: s.Image, User: "0:0", // the launcher becomes another before the program begins
		WorkingDir: s.Dir, NetworkDisabled: !s.Network, Env: s.Env, Labels: s.Labels, Entrypoint: s.Args[:1],
		Cmd: s.Args[1:]}
	h := &types.HostConfig{
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		CapAdd:         container.LauncherCapabilities,
		SecurityOpt:    []string{"no-new-privileges"},
		Tmpfs:          s.Tmpfs,
		ShmSize:        s.Shm,
		// for messages of an engine that cannot begin the launcher; programs write to files
		LogConfig: types.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "1"}},
		Resources: types.Resources{PidsLimit: &l.PIDs, CPUPeriod: l.CPUPeriod.Microseconds(),
			CPUQuota: l.CPUQuota.Microseconds(), Memory: l.Memory, MemorySwap: l.MemorySwap, CgroupParent: s.Parent},
	}
	if !s.Network { // Podman heeds nothing else
		h.NetworkMode = "none"
	}
	for _, m := range s.Mounts {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target,
			ReadOnly: m.ReadOnly})
	}
	giveGPUs(h, s)
	device := func(rate int64) []*blkiodev.ThrottleDevice {
		if rate <= 0 {
			return nil
		}
		return []*blkiodev.ThrottleDevice{{Path: l.Device.Path, Rate: uint64(rate)}}
	}
	h.BlkioDeviceReadBps, h.BlkioDeviceWriteBps = device(l.ReadBps), device(l.WriteBps)
	h.BlkioDeviceReadIOps, h.BlkioDeviceWriteIOps = device(l.ReadIOPS), device(l.WriteIOPS)
	return c, h
}

// giveGPUs gives a container its GPUs. An engine whose containers are not given hooks by gantry has the devices itself.
func giveGPUs(h *types.HostConfig, s *container.Spec) {
	switch {
	case s.Edits == nil:
	case len(s.Edits.Hooks) > 0:
		h.DeviceRequests = []types.DeviceRequest{{Driver: "cdi", DeviceIDs: s.GPUs}}
	default:
		for _, d := range s.Edits.DeviceNodes {
			h.Devices = append(h.Devices, types.DeviceMapping{PathOnHost: cmp.Or(d.HostPath, d.Path),
				PathInContainer: d.Path, CgroupPermissions: cmp.Or(d.Permissions, "rwm")})
		}
		for _, m := range s.Edits.Mounts {
			h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.HostPath, Target: m.ContainerPath,
				ReadOnly: slices.Contains(m.Options, "ro")})
		}
	}
}

// withVolumes adds the volumes that the image declares, once all mounts have been found to be safe. They are the
// engine's, which fills them with the files that the image has there and forgets them with the container, and lie where
// the container is to have them.
func (e *Engine) withVolumes(ctx context.Context, mounts []mount.Mount, s *container.Spec) ([]mount.Mount, error) {
	declared, known := e.declared.Load(s.Image)
	if !known {
		i, err := e.cli.ImageInspect(ctx, s.Image)
		if errdefs.IsNotFound(err) {
			return nil, noImage(s.Image)
		}
		if err != nil {
			return nil, err
		}
		declared = map[string]struct{}(nil)
		if i.Config != nil {
			declared = i.Config.Volumes
		}
		e.declared.Store(s.Image, declared)
	}
	volumes := s.Declared(declared.(map[string]struct{}))
	if err := e.land(ctx, s, volumes); err != nil || s.Volumes == "" {
		return mounts, err
	}
	for n, path := range volumes {
		dir := s.Volume(n)
		if err := os.RemoveAll(dir); err != nil { // of a request whose answer was lost
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		mounts = append(mounts, mount.Mount{Type: mount.TypeVolume, Target: path, VolumeOptions: &mount.VolumeOptions{
			DriverConfig: &mount.Driver{Name: "local", Options: map[string]string{"type": "none", "o": "bind",
				"device": dir}}}})
	}
	return mounts, nil
}

// Start starts a container.
func (e *Engine) Start(ctx context.Context, id string) error {
	return e.cli.ContainerStart(ctx, id, types.StartOptions{})
}

// Signal sends a signal to the first process of a container.
func (e *Engine) Signal(ctx context.Context, id, signal string) error {
	return e.cli.ContainerKill(ctx, id, signal)
}

// Freeze pauses or unpauses a container; one that is so already is no error. The freezer of cgroup v1 gives up on
// processes that have used up their CPU quota and cannot come to be frozen: they can a little later.
func (e *Engine) Freeze(ctx context.Context, id string, frozen bool) error {
	change := e.cli.ContainerUnpause
	if frozen {
		change = e.cli.ContainerPause
	}
	err := change(ctx, id)
	says := func(text string) bool { return err != nil && strings.Contains(err.Error(), text) }
	switch {
	case says("already paused"), says("is not paused"):
		return nil
	case says("unable to freeze"):
		return fmt.Errorf("%w: %w", container.ErrBusy, err)
	case says("is not running"):
		return fmt.Errorf("%w: %w", errdefs.ErrConflict, err)
	}
	return err
}

// Remove removes a container in any state. One that is missing, or is being removed, is no error.
func (e *Engine) Remove(ctx context.Context, id string) error {
	err := e.cli.ContainerRemove(ctx, id, types.RemoveOptions{Force: true, RemoveVolumes: true})
	began := time.Now()
	for try := 0; err != nil && ctx.Err() == nil; try++ {
		if errdefs.IsNotFound(err) {
			return nil
		}
		// A removal may take long on a busy host, one that another gantry began, too.
		slow := strings.Contains(err.Error(), "already in progress") ||
			strings.Contains(err.Error(), "failed to remove root filesystem")
		underWay := slow && time.Since(began) < time.Minute
		if e.Unreachable(err) || try >= 5 && !underWay {
			return err
		}
		time.Sleep(100 * time.Millisecond << min(try, 4)) // "removal in progress", "device busy"
		err = e.cli.ContainerRemove(ctx, id, types.RemoveOptions{Force: true, RemoveVolumes: true})
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// List lists containers, those that have ended among them.
func (e *Engine) List(ctx context.Context, label, value string) ([]container.Listed, error) {
	if value != "" {
		label += "=" + value
	}
	all, err := e.cli.ContainerList(ctx, types.ListOptions{All: true,
		Filters: filters.NewArgs(filters.Arg("label", label))})
	var out []container.Listed
	for _, c := range all {
		out = append(out, container.Listed{ID: c.ID, Name: strings.TrimPrefix(cmp.Or(c.Names...), "/"),
			Status: statusOf(c.State), Labels: c.Labels})
	}
	return out, err
}

func statusOf(state string) evidence.Container {
	switch state {
	case types.StateCreated:
		return evidence.Created
	case types.StateRunning, types.StatePaused, types.StateRestarting:
		return evidence.Running
	case types.StateExited:
		return evidence.Exited
	}
	return evidence.Broken
}

// Environment is the environment in the image's configuration.
func (e *Engine) Environment(ctx context.Context, image string) ([]string, error) {
	i, err := e.cli.ImageInspect(ctx, image)
	if errdefs.IsNotFound(err) {
		return nil, noImage(image)
	}
	if err != nil || i.Config == nil {
		return nil, err
	}
	return i.Config.Env, nil
}

// Output is the output of the first process, as far as the engine keeps it: 1 MB.
func (e *Engine) Output(ctx context.Context, id string) (stdout, stderr []byte, err error) {
	stream, err := e.cli.ContainerLogs(ctx, id, types.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return nil, nil, err
	}
	defer stream.Close()
	var out, errs bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &errs, stream)
	return out.Bytes(), errs.Bytes(), err
}

// dead reports whether the process that the engine takes for the first of a container is none of it any more.
func (e *Engine) dead(id string, pid int) bool {
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if pid <= 0 || err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
		return false
	}
	return !strings.Contains(string(groups), id) && e.samePIDs()
}

// samePIDs reports whether processes have the same numbers here as for the Docker Engine.
func (e *Engine) samePIDs() bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(e.pid()) + "/status")
	for line := range strings.Lines(string(status)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok && err == nil {
			return len(strings.Fields(numbers)) == 1
		}
	}
	return false
}
