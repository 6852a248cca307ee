//go:build linux

package oci

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/opencontainers/runtime-spec/specs-go"

	"gantry/executor/container"
)

// Shell runs a container with the standard streams of this process, without a launcher: its program is that user from
// the beginning. It returns the exit code, 128 and the signal if one ended it, and leaves nothing of the container.
// With terminal it has a terminal of its own. begun is called when the container can be given signals.
func (e *Engine) Shell(ctx context.Context, s *container.Spec, uid, gid int, terminal bool, begun func(id string)) (
	code int, err error) {
	s.Group = func(id string) string { return e.tree.Group("gantry-shell-" + id[:12]) }
	id, err := e.create(ctx, s, func(c *specs.Spec) {
		c.Process.User = specs.User{UID: uint32(uid), GID: uint32(gid)}
		c.Process.Capabilities, c.Process.Terminal = &specs.LinuxCapabilities{}, terminal
	})
	if err != nil {
		return -1, err
	}
	defer func() { err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), id)) }()
	k, err := e.find(id)
	if err != nil {
		return -1, err
	}
	begun(id)
	err = e.rooted(k, func() error {
		c := e.command(ctx, k, id, "run")
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		return c.Run()
	})
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		if _, e := os.Stat(k.record.Dir + "/pid"); e == nil { // else the OCI runtime itself failed, and has said why
			return exit.ExitCode(), nil
		}
	}
	return 0, err
}

// RemoveNamed removes the container of a name, if there is one.
func (e *Engine) RemoveNamed(ctx context.Context, name string) error {
	return e.Remove(ctx, idOf(name))
}
