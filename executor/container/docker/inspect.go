package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/containerd/errdefs"
	types "github.com/docker/docker/api/types/container"

	"gantry/executor/container"
	"gantry/executor/container/evidence"
)

// inspection is the tenth of the engine's report of a container that gantry needs. The engine is asked once per
// container, and decoding the whole report takes a quarter of a millisecond of CPU time.
type inspection struct {
	State      *types.State
	HostConfig struct {
		Memory             int64
		BlkioDeviceReadBps []json.RawMessage
	}
	Config struct{ Labels map[string]string }
}

// Inspect asks the engine about a container.
func (e *Engine) Inspect(ctx context.Context, id string) (container.State, error) {
	var c inspection
	if err := e.ask(ctx, http.MethodGet, id, "json", &c); err != nil {
		return container.State{}, fmt.Errorf("inspect container %.12s: %w", id, err)
	}
	if c.State == nil {
		return container.State{}, fmt.Errorf("inspect container %.12s: the answer has no state", id)
	}
	s := container.State{Status: statusOf(c.State.Status), Paused: c.State.Paused, Pid: c.State.Pid,
		ExitCode: c.State.ExitCode, OOMKilled: c.State.OOMKilled, Error: c.State.Error,
		Started: timeOf(c.State.StartedAt), Finished: timeOf(c.State.FinishedAt), Memory: c.HostConfig.Memory,
		CountsIO: len(c.HostConfig.BlkioDeviceReadBps) > 0, Labels: c.Config.Labels}
	if c.State.Running {
		s.Status = evidence.Running
	}
	return s, nil
}

// Wait returns the exit code of a container when it does not run, or context.DeadlineExceeded after a while: it is time
// to look oneself. The Docker client's own hands each answer from goroutine to goroutine.
func (e *Engine) Wait(ctx context.Context, id string) (int, error) {
	ctx, cancel := context.WithTimeout(patient(ctx), e.patience/4)
	defer cancel()
	var answer types.WaitResponse
	if err := e.ask(ctx, http.MethodPost, id, "wait", &answer); err != nil {
		return -1, fmt.Errorf("wait for container %.12s: %w", id, err)
	}
	return int(answer.StatusCode), nil
}

// ask makes a request about a container. The errors are like those of the Docker client.
func (e *Engine) ask(ctx context.Context, method, id, what string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method,
		"http://docker/v"+e.cli.ClientVersion()+"/containers/"+url.PathEscape(id)+"/"+what, nil)
	if err != nil {
		return err
	}
	resp, err := e.cli.HTTPClient().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNotFound:
		return errdefs.ErrNotFound
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d: %.200s", resp.StatusCode, body)
	case len(body) == 0: // the engine ended before the answer
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(body, answer)
}

// timeOf is the zero Time if the engine does not say.
func timeOf(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}
