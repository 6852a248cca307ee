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
	"github.com/docker/docker/api/types/container"
)

// inspection is what gantry wants to know of a container: a tenth of what the engine tells. It is asked for once per
// container, and decoding all of it takes a quarter of a millisecond of CPU time.
type inspection struct {
	State      *container.State
	HostConfig struct {
		Memory             int64
		BlkioDeviceReadBps []json.RawMessage
	}
	Config struct{ Labels map[string]string }
}

// inspect asks the engine about a container.
func (r *Runtime) inspect(ctx context.Context, id string) (c inspection, err error) {
	if err := r.ask(ctx, http.MethodGet, id, "json", &c); err != nil {
		return c, fmt.Errorf("inspect container %.12s: %w", id, err)
	}
	if c.State == nil {
		return c, fmt.Errorf("inspect container %.12s: the answer has no state", id)
	}
	return c, nil
}

// wait returns the exit code of a container when it does not run, or context.DeadlineExceeded after a while: it is time
// to look oneself. The Docker client's own hands each answer from goroutine to goroutine.
func (r *Runtime) wait(ctx context.Context, id string) (int64, error) {
	ctx, cancel := context.WithTimeout(patient(ctx), r.cfg.Patience/4)
	defer cancel()
	var answer container.WaitResponse
	if err := r.ask(ctx, http.MethodPost, id, "wait", &answer); err != nil {
		return -1, fmt.Errorf("wait for container %.12s: %w", id, err)
	}
	return answer.StatusCode, nil
}

// ask makes a request about a container. The errors are like those of the Docker client.
func (r *Runtime) ask(ctx context.Context, method, id, what string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method,
		"http://docker/v"+r.cli.ClientVersion()+"/containers/"+url.PathEscape(id)+"/"+what, nil)
	if err != nil {
		return err
	}
	resp, err := r.cli.HTTPClient().Do(req)
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

// ended reports whether the container ran and does not any more.
func (c *inspection) ended() bool {
	return !c.State.Running && !c.State.Paused && c.State.Status != container.StateCreated
}

// times returns when the engine says that the container began and ended; the zero Time if it does not.
func (c *inspection) times() (begun, over time.Time) {
	if c.State == nil {
		return
	}
	at := func(s string) time.Time {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || t.Year() <= 1 {
			return time.Time{}
		}
		return t
	}
	return at(c.State.StartedAt), at(c.State.FinishedAt)
}
