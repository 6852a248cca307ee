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

// transport carries requests over a unix socket, and gives the engine a time to begin its answer, and for each part of
// it.
type transport struct{ hasty, patient *http.Transport }

// newTransport keeps the connections of all requests that are made at once.
func newTransport(path string, patience time.Duration) *transport {
	t := &transport{patient: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000,
		IdleConnTimeout: 30 * time.Second, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
	t.hasty = t.patient.Clone()
	t.hasty.ResponseHeaderTimeout = patience
	return t
}

type patiently struct{}

// patient returns a context whose requests may take as long as they need: those whose answer is an event.
func patient(ctx context.Context) context.Context { return context.WithValue(ctx, patiently{}, true) }

// RoundTrip makes a request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	by := t.hasty
	if req.Context().Value(patiently{}) != nil {
		by = t.patient
	}
	ctx, stop := context.WithCancelCause(req.Context())
	resp, err := by.RoundTrip(req.WithContext(ctx))
	if err == nil {
		resp.Body = &answer{resp.Body, ctx, stop, by.ResponseHeaderTimeout}
		return resp, nil
	}
	stop(err)
	t.CloseIdleConnections() // they are of the same engine, which may have ended
	if late, ok := err.(net.Error); ok && late.Timeout() && req.Context().Err() == nil {
		err = container.ErrNoAnswer
	}
	return nil, err
}

// answer is the body of an answer.
type answer struct {
	io.ReadCloser
	ctx      context.Context
	stop     context.CancelCauseFunc
	patience time.Duration // for its next part; 0: without end
}

func (a *answer) Read(b []byte) (n int, err error) {
	if a.patience > 0 {
		defer time.AfterFunc(a.patience, func() { a.stop(container.ErrNoAnswer) }).Stop()
	}
	n, err = a.ReadCloser.Read(b)
	if err != nil && errors.Is(context.Cause(a.ctx), container.ErrNoAnswer) {
		err = container.ErrNoAnswer
	}
	return n, err
}

func (a *answer) Close() error {
	defer a.stop(nil)
	return a.ReadCloser.Close()
}

// CloseIdleConnections lets go of the connections.
func (t *transport) CloseIdleConnections() {
	t.hasty.CloseIdleConnections()
	t.patient.CloseIdleConnections()
}
