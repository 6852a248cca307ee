package docker

import (
	"context"
	"fmt"
	"time"

	types "github.com/docker/docker/api/types/container"

	"gantry/executor/container"
	"gantry/executor/container/evidence"
)

// Inspect asks the engine about a container.
func (e *Engine) Inspect(ctx context.Context, id string) (container.State, error) {
	c, err := e.cli.ContainerInspect(ctx, id)
	if err != nil {
		return container.State{}, fmt.Errorf("inspect container %.12s: %w", id, err)
	}
	if c.ContainerJSONBase == nil || c.State == nil {
		return container.State{}, fmt.Errorf("inspect container %.12s: the answer has no state", id)
	}
	s := container.State{Status: statusOf(c.State.Status), Paused: c.State.Paused, Pid: c.State.Pid,
		ExitCode: c.State.ExitCode, OOMKilled: c.State.OOMKilled, Error: c.State.Error,
		Started: timeOf(c.State.StartedAt), Finished: timeOf(c.State.FinishedAt)}
	if c.HostConfig != nil {
		s.Memory, s.CountsIO = c.HostConfig.Memory, len(c.HostConfig.BlkioDeviceReadBps) > 0
	}
	if c.State.Running {
		s.Status, s.Dead = evidence.Running, e.dead(id, s.Pid)
	}
	return s, nil
}

// Wait returns the exit code of a container when it does not run, or context.DeadlineExceeded after a while: it is time
// to look oneself.
func (e *Engine) Wait(ctx context.Context, id string) (int, error) {
	ctx, cancel := context.WithTimeout(patient(ctx), e.patience/4)
	defer cancel()
	ended, failed := e.cli.ContainerWait(ctx, id, types.WaitConditionNotRunning)
	select {
	case c := <-ended:
		return int(c.StatusCode), nil
	case err := <-failed:
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return -1, fmt.Errorf("wait for container %.12s: %w", id, err)
	}
}

// timeOf is the zero Time if the engine does not say.
func timeOf(s string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s)
	if t.Year() <= 1 {
		return time.Time{}
	}
	return t
}
