package docker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"gantry/executor/container"
)

// transport carries requests over a unix socket, and gives the engine a time for each part of its answer.
type transport struct {
	*http.Transport
	patience time.Duration
}

// newTransport keeps the connections of all requests that are made at once.
func newTransport(path string, patience time.Duration) *transport {
	return &transport{&http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000,
		IdleConnTimeout: 30 * time.Second, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}, patience}
}

type patiently struct{}

// patient returns a context whose requests may take as long as they need: those whose answer is an event.
func patient(ctx context.Context) context.Context { return context.WithValue(ctx, patiently{}, true) }

// RoundTrip makes a request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Context().Value(patiently{}) != nil {
		return t.Transport.RoundTrip(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	a := &answer{ctx: ctx, cancel: cancel, patience: t.patience, timer: time.AfterFunc(t.patience, func() {
		cancel(container.ErrNoAnswer)
	})}
	resp, err := t.Transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		t.CloseIdleConnections() // they are of the same engine, which may have ended
		return nil, a.end(err)
	}
	a.ReadCloser, resp.Body = resp.Body, a
	return resp, nil
}

// answer is the body of a response.
type answer struct {
	io.ReadCloser
	ctx      context.Context
	cancel   context.CancelCauseFunc
	patience time.Duration
	timer    *time.Timer
}

func (a *answer) Read(p []byte) (int, error) {
	a.timer.Reset(a.patience)
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		err = a.end(err)
	}
	return n, err
}

func (a *answer) Close() error { return a.end(a.ReadCloser.Close()) }

// end lets go of what a request holds, and returns the reason of an error.
func (a *answer) end(err error) error {
	a.timer.Stop()
	if err != nil && errors.Is(context.Cause(a.ctx), container.ErrNoAnswer) {
		err = container.ErrNoAnswer
	}
	a.cancel(nil)
	return err
}
