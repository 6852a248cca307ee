package docker

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"gantry/executor/container"
)

// transport carries requests over a unix socket, each on the goroutine that makes it. net/http's own transport has two
// goroutines to every connection and keeps two connections; a container takes some five requests, and handing them
// around cost more than the requests.
type transport struct {
	path     string
	patience time.Duration

	mu    sync.Mutex
	idle  []*connection // by last use
	sweep *time.Timer   // closes those that stay idle; nil while there are none
}

type connection struct {
	net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
	used time.Time // last
}

type patiently struct{}

// patient returns a context whose requests may take as long as they need: those whose answer is an event.
func patient(ctx context.Context) context.Context { return context.WithValue(ctx, patiently{}, true) }

// keepIdle is how long an unused connection is kept.
const keepIdle = 30 * time.Second

// RoundTrip makes a request. One whose answer does not come is not repeated: it may have had its effect.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if req.Body != nil {
		defer req.Body.Close()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	// A deadline that has passed ends any operation of the connection.
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(past) })
	t.await(ctx, c)
	resp, err := exchange(c, req)
	if err != nil {
		stop()
		c.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		t.CloseIdleConnections() // the others are of the same engine, which may have ended
		return nil, tooLong(err)
	}
	a := &answer{body: resp.Body, ctx: ctx, await: func() { t.await(ctx, c) }, finish: func(reusable bool) {
		if stop() && reusable && !resp.Close {
			t.putBack(c)
		} else {
			c.Close()
		}
	}}
	if resp.ContentLength == 0 {
		a.end(true)
	}
	resp.Body = a
	return resp, nil
}

var past = time.Unix(1, 0)

// await sets the time that the engine has to send its next part.
func (t *transport) await(ctx context.Context, c *connection) {
	var deadline time.Time
	if ctx.Value(patiently{}) == nil {
		deadline = time.Now().Add(t.patience)
	}
	c.SetDeadline(deadline)
	if ctx.Err() != nil { // the context may have ended before that
		c.SetDeadline(past)
	}
}

func tooLong(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return container.ErrNoAnswer
	}
	return err
}

func exchange(c *connection, req *http.Request) (*http.Response, error) {
	if err := req.Write(c.out); err != nil {
		return nil, err
	}
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.in, req)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return resp, err
}

// connect returns the connection that was used last, or a new one.
func (t *transport) connect(ctx context.Context) (*connection, error) {
	t.mu.Lock()
	if n := len(t.idle); n > 0 {
		c := t.idle[n-1]
		t.idle = t.idle[:n-1]
		t.mu.Unlock()
		return c, nil
	}
	t.mu.Unlock()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", t.path)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c, in: bufio.NewReader(c), out: bufio.NewWriter(c)}, nil
}

func (t *transport) putBack(c *connection) {
	c.used = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = append(t.idle, c)
	if t.sweep == nil {
		t.sweep = time.AfterFunc(keepIdle, t.closeOld)
	}
}

// closeOld closes connections that were not used for long, until none is left.
func (t *transport) closeOld() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.idle) > 0 && time.Since(t.idle[0].used) >= keepIdle {
		t.idle[0].Close()
		t.idle = t.idle[1:]
	}
	if t.sweep = nil; len(t.idle) > 0 {
		t.sweep = time.AfterFunc(keepIdle-time.Since(t.idle[0].used), t.closeOld)
	}
}

// CloseIdleConnections closes connections that no request uses.
func (t *transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.idle {
		c.Close()
	}
	t.idle = nil
}

// answer is the body of a response. At its end the connection is free for the next request.
type answer struct {
	body   io.ReadCloser
	ctx    context.Context
	await  func()
	finish func(reusable bool)
	once   sync.Once
}

func (a *answer) end(reusable bool) { a.once.Do(func() { a.finish(reusable) }) }

func (a *answer) Read(p []byte) (int, error) {
	a.await()
	n, err := a.body.Read(p)
	switch {
	case err == io.EOF:
		a.end(true)
	case err != nil:
		a.end(false)
		if err = tooLong(err); a.ctx.Err() != nil {
			err = a.ctx.Err()
		}
	}
	return n, err
}

// Close drops the unread rest of the answer, and the connection with it.
func (a *answer) Close() error {
	a.end(false)
	return nil
}
