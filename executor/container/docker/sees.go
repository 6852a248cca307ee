package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gantry/executor/container"
)

// Sees reports whether the engine has the files of this process. It may not where gantry is in a container, or the
// socket is that of a virtual machine. The kernel says so if the engine is a process that this one may look at; else,
// and for Podman, a container tells, which is to see a file of the run directory, the task emulator, and the files and
// directories that containers are to see, by device and inode.
func (e *Engine) Sees(ctx context.Context, labels map[string]string, shown ...string) error {
	marker := filepath.Join(labels[container.LabelDir], ".seen") // of one name: a gantry that is killed leaves it
	err := os.WriteFile(marker, nil, 0o600)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	defer os.Remove(marker)
	own, err := os.Stat(marker)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	its, err := os.Stat(filepath.Join("/proc", strconv.Itoa(e.pid()), "root", marker))
	if !e.podman && (err == nil && os.SameFile(own, its) || os.IsPermission(err) && !contained()) {
		return nil
	}
	if err := EnsureEmptyImage(ctx, e.cli); err != nil {
		return err
	}
	var paths []string
	s := &container.Spec{Image: EmptyImage, Args: []string{"/sees0", "sees"}, Dir: "/", Labels: labels}
	for _, path := range append([]string{e.taskBinary, marker}, shown...) {
		st, err := os.Stat(path)
		if err != nil { // a task that needs it fails with the reason
			continue
		}
		at, id := "/sees"+strconv.Itoa(len(paths)), st.Sys().(*syscall.Stat_t)
		paths = append(paths, path)
		s.Args = append(s.Args, fmt.Sprintf("%d %d %s", id.Dev, id.Ino, at))
		s.Mounts = append(s.Mounts, container.Mount{Source: path, Target: at, ReadOnly: true})
	}
	other, err := e.try(ctx, s)
	if err == nil && other > 0 && other <= len(paths) {
		err = fmt.Errorf("it %s at %s", container.SeesOther, paths[other-1])
	} else if err == nil && other > 0 {
		err = fmt.Errorf("it ended with exit code %d", other)
	}
	if err != nil {
		return fmt.Errorf("%w: the engine at %s runs no container that sees %s: %w (%s)", container.ErrUnusable,
			e.cli.DaemonHost(), strings.Join(paths, ", "), err, container.Remedy(err.Error()))
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

// try runs a container that is to have no network, and returns its exit code.
func (e *Engine) try(ctx context.Context, s *container.Spec) (code int, err error) {
	config, host := configure(s)
	c, err := e.cli.ContainerCreate(ctx, config, host, nil, nil, "")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), c.ID)) }()
	if made, err := e.cli.ContainerInspect(ctx, c.ID); err != nil {
		return 0, err
	} else if made.HostConfig == nil || !made.HostConfig.NetworkMode.IsNone() {
		return 0, errors.New("it does not take the network away")
	}
	if err := e.Start(ctx, c.ID); err != nil {
		return 0, err
	}
	return e.Wait(ctx, c.ID)
}
