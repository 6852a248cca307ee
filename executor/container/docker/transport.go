package docker

import (
	"context"
	"net"
	"net/http"
	"time"

	"gantry/executor/container"
)

// transport carries requests over a unix socket, and gives the engine a time to begin its answer.
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
	resp, err := by.RoundTrip(req)
	if err == nil {
		return resp, nil
	}
	t.CloseIdleConnections() // they are of the same engine, which may have ended
	if late, ok := err.(net.Error); ok && late.Timeout() && req.Context().Err() == nil {
		err = container.ErrNoAnswer
	}
	return nil, err
}

// CloseIdleConnections lets go of the connections.
func (t *transport) CloseIdleConnections() {
	t.hasty.CloseIdleConnections()
	t.patient.CloseIdleConnections()
}
