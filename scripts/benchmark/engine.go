package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// engine is the API of a Docker Engine, by plain requests: the least that a loop over it can cost.
type engine struct {
	http http.Client
}

// newEngine speaks to the engine of DOCKER_HOST, which is a socket of this host, or to the usual one.
func newEngine() (*engine, error) {
	socket := "/var/run/docker.sock"
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		var ok bool
		if socket, ok = strings.CutPrefix(host, "unix://"); !ok {
			return nil, fmt.Errorf("DOCKER_HOST %s: want unix://SOCKET", host)
		}
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &engine{http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 100}}}, nil
}

// call sends a request with in as JSON, unless it is nil, and decodes the answer into out, unless that is nil.
func (e *engine) call(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, "http://engine"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.http.Do(req)
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

// has reports why the engine lacks an image.
func (e *engine) has(image string) error {
	if err := e.call(http.MethodGet, "/images/"+image+"/json", nil, nil); err != nil {
		return fmt.Errorf("image %s: %w (make images builds it)", image, err)
	}
	return nil
}

// run creates a container, starts it, waits until it has ended, and removes it.
func (e *engine) run(container map[string]any) (err error) {
	var made struct{ ID string }
	if err := e.call(http.MethodPost, "/containers/create", container, &made); err != nil {
		return err
	}
	at := "/containers/" + url.PathEscape(made.ID)
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
