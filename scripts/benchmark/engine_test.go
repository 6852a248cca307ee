package benchmark

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

// engine is the API of a Docker Engine, by plain requests: the least that a loop over it can cost.
type engine struct{ http.Client }

// newEngine speaks to the engine of DOCKER_HOST, which is a socket of this host, or to the usual one.
func newEngine() *engine {
	socket := "/var/run/docker.sock"
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		socket = strings.TrimPrefix(host, "unix://")
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &engine{http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 100}}}
}

// call sends a request with in as JSON, and decodes the answer into out, unless that is nil.
func (e *engine) call(method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, "http://engine"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(answer))
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}

// run creates a container, starts it, waits until it has ended, and removes it.
func (e *engine) run(container map[string]any) (err error) {
	var made struct{ ID string }
	if err := e.call(http.MethodPost, "/containers/create", container, &made); err != nil {
		return err
	}
	at := "/containers/" + made.ID
	defer func() { err = errors.Join(err, e.call(http.MethodDelete, at+"?force=1", nil, nil)) }()
	if err := e.call(http.MethodPost, at+"/start", nil, nil); err != nil {
		return err
	}
	var ended struct{ StatusCode int }
	if err := e.call(http.MethodPost, at+"/wait", nil, &ended); err != nil {
		return err
	}
	if ended.StatusCode != 0 {
		return fmt.Errorf("a trivial container ended with %d", ended.StatusCode)
	}
	return nil
}

// bareEngine creates, starts, awaits and removes containers with the options that gantry gives a real task, but for its
// launcher and limits of block I/O.
func (b *bench) bareEngine() way {
	w, api := way{name: "bare Engine API loop"}, newEngine()
	if err := api.call(http.MethodGet, "/images/"+image+"/json", nil, nil); err != nil {
		w.missing = fmt.Sprintf("image %s: %v (make images builds it)", image, err)
	}
	w.run = func(n, inFlight int) (Cost, error) {
		return loop(n, inFlight, func(int) error {
			dir, err := os.MkdirTemp(b.dir, "bare")
			if err != nil {
				return err
			}
			return api.run(map[string]any{"Image": image, "Cmd": []string{"true"}, "WorkingDir": dir,
				"User": fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()), "NetworkDisabled": true,
				"Labels": map[string]string{"gantry.benchmark": "bare"},
				"HostConfig": map[string]any{"ReadonlyRootfs": true, "CapDrop": []string{"ALL"},
					"SecurityOpt": []string{"no-new-privileges"}, "LogConfig": map[string]any{"Type": "none"},
					"Tmpfs":     map[string]string{"/tmp": "rw,nosuid,nodev,size=64m,mode=1777"},
					"Mounts":    []map[string]any{{"Type": "bind", "Source": dir, "Target": dir}},
					"PidsLimit": 512, "CpuPeriod": 20_000, "CpuQuota": 20_000, "Memory": 16_000_000,
					"MemorySwap": 16_000_000}})
		})
	}
	return w
}
