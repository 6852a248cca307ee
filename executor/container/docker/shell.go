package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"gantry/executor/container"
)

// Shell runs a container with the standard streams of this process, without a launcher: its program is that user from
// the beginning. It returns the exit code, 128 and the signal if one ended it, and leaves nothing of the container.
// With terminal it has a terminal of its own. Begun is called when the container can be given signals.
func (e *Engine) Shell(ctx context.Context, s *container.Spec, uid, gid int, terminal bool, begun func(id string)) (
	code int, err error) {
	config, host := configure(s)
	host.Runtime = e.runtime
	config.User, host.CapAdd = fmt.Sprintf("%d:%d", uid, gid), nil
	config.AttachStdin, config.AttachStdout, config.AttachStderr = true, true, true
	config.OpenStdin, config.StdinOnce, config.Tty = true, true, terminal
	if s.Edits != nil {
		for _, g := range s.Edits.AdditionalGIDs {
			host.GroupAdd = append(host.GroupAdd, strconv.Itoa(int(g)))
		}
	}
	if host.Mounts, err = e.withVolumes(ctx, host.Mounts, s); err != nil {
		return -1, err
	}
	made, err := e.cli.ContainerCreate(ctx, config, host, nil, nil, s.Name)
	if err != nil {
		return -1, err
	}
	ending := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, e.Remove(ending, made.ID)) }()
	begun(made.ID)
	c := exec.CommandContext(ctx, "docker", "start", "--attach", "--interactive", made.ID)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = c.Run()
	if errors.As(err, new(*exec.ExitError)) {
		if st, e := e.Inspect(ending, made.ID); e == nil && !st.Started.IsZero() { // else docker has said why
			return st.ExitCode, nil
		}
	} else if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("gantry shell needs the command docker on the PATH: %w", err)
	}
	return 0, err
}

// RemoveNamed removes the container of a name, if there is one.
func (e *Engine) RemoveNamed(ctx context.Context, name string) error { return e.Remove(ctx, name) }
