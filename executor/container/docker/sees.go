package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"gantry/executor/container"
)

// Sees reports whether the engine has the files of this process. It may not where gantry is in a container, or the
// socket is that of a virtual machine. The kernel says so if the engine is a process that this one may look at; else,
// and for Podman, a container tells, which is to see a file of the run directory and the task emulator.
func (e *Engine) Sees(ctx context.Context, dir string) error {
	marker, err := os.CreateTemp(dir, ".seen-")
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	marker.Close()
	defer os.Remove(marker.Name())
	own, err := os.Stat(marker.Name())
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	its, err := os.Stat(filepath.Join("/proc", strconv.Itoa(e.pid()), "root", marker.Name()))
	if !e.podman && (err == nil && os.SameFile(own, its) || os.IsPermission(err) && !contained()) {
		return nil
	}
	if err := EnsureEmptyImage(ctx, e.cli); err != nil {
		return err
	}
	s := &container.Spec{Image: EmptyImage, Args: []string{e.taskBinary, "protocol"}, Dir: "/"}
	for _, path := range []string{marker.Name(), e.taskBinary} {
		s.Mounts = append(s.Mounts, container.Mount{Source: path, Target: path, ReadOnly: true})
	}
	if err := e.try(ctx, s); err != nil {
		return fmt.Errorf("%w: the engine at %s runs no container that sees %s and %s: %w (%s)", container.ErrUnusable,
			e.cli.DaemonHost(), dir, e.taskBinary, err, container.Remedy(err.Error()))
	}
	return nil
}

// contained reports whether this process seems to be in a container of Docker or Podman.
func contained() bool {
	for _, path := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

// try runs a container that is to succeed, and to have no network.
func (e *Engine) try(ctx context.Context, s *container.Spec) (err error) {
	config, host := configure(s)
	c, err := e.cli.ContainerCreate(ctx, config, host, nil, nil, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), c.ID)) }()
	if made, err := e.cli.ContainerInspect(ctx, c.ID); err != nil {
		return err
	} else if made.HostConfig == nil || !made.HostConfig.NetworkMode.IsNone() {
		return errors.New("it does not take the network away")
	}
	if err := e.Start(ctx, c.ID); err != nil {
		return err
	}
	code, err := e.Wait(ctx, c.ID)
	if err == nil && code != 0 {
		err = fmt.Errorf("it ended with exit code %d", code)
	}
	return err
}
