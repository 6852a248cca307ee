package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"gantry/executor/lock"
)

// ErrNoServer means that nobody serves the directory.
var ErrNoServer = errors.New("no gantry serves this directory")

// Client talks to the server of a gantry directory. It connects for each request, and repeats requests whose answer
// did not come: a server that was killed and started again continues them.
type Client struct {
	// Patience is how long a request is repeated while a server that was there does not answer.
	Patience time.Duration
	// Notify is told, once per request, that the server does not answer; nil: nobody is. It may be called from another
	// goroutine.
	Notify func(message string)
	// Silence is the time without an answer after which Notify is called: the server may fetch images and inputs.
	Silence time.Duration

	dir      string
	http     http.Client
	answered atomic.Bool // a server was there
}

// starting is how long a server may take until its socket is there, if both are started together.
const starting = 2 * time.Second

// restarting is how long a client that finds the socket of a server that has ended waits for the next one, unless a
// server has the directory already, or was there when the request began.
const restarting = 5 * time.Second

// retryEvery is the time between two tries, of which at most mostBetween counts.
const (
	retryEvery  = 100 * time.Millisecond
	mostBetween = time.Second
)

// NewClient returns a client of the server of a gantry directory. It does not connect yet.
func NewClient(dir string) *Client {
	c := &Client{Patience: 60 * time.Second, Silence: 15 * time.Second, dir: dir}
	c.http.Transport = &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, dir) }}
	return c
}

// dial connects to the socket in dir. Addresses of sockets are short, so a long path is reached through its directory.
func dial(ctx context.Context, dir string) (net.Conn, error) {
	at, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", AddressIn(at))
}

// AddressIn is the address of the socket in an open directory, of any length of path.
func AddressIn(dir *os.File) string {
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + SocketName
}

// Do sends a request and reads its answer into out, unless out is nil. Every request of this interface may be sent
// again: it sets a state, or has a key. The error is an *Error if the server refused the request, and wraps ErrNoServer
// if there is no server.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("ask the server: %w", err)
		}
	}
	var gone atomic.Bool // which is said
	if c.Notify != nil && !strings.Contains(path, "wait=") {
		defer time.AfterFunc(c.Silence, func() {
			if !gone.Load() {
				c.Notify(fmt.Sprintf("the server has not answered for %v: it fetches inputs and images, reads "+
					"its log, or plans; or its host is busy, or it is stuck; waiting", c.Silence))
			}
		}).Stop()
	}
	begun := time.Now()
	var since, last time.Time // when the server was found not to answer, and when it was asked last
	var ending *Error         // the answer of a server that was about to end
	var waited time.Duration  // since then, without time in which the host, or this process, stood still
	for {
		err := c.once(ctx, method, path, body, out)
		refused, answered := errors.AsType[*Error](err)
		missing := errors.Is(err, fs.ErrNotExist) && since.IsZero()
		switch {
		case err == nil:
			c.answered.Store(true)
			return nil
		case ctx.Err() != nil, answered && refused.Code != Ending:
			return err
		case errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("you may not use the server of %s: its socket is for the user who started it, or for "+
				"the group that it was started for (ls -l %s)", c.dir, filepath.Join(c.dir, SocketName))
		case missing && time.Since(begun) >= starting:
			return fmt.Errorf("%w: %s is not there; start one with gantry serve, or name its directory with --dir",
				ErrNoServer, filepath.Join(c.dir, SocketName))
		case answered:
			ending = refused
		}
		if !missing { // else it may be starting
			gone.Store(true)
			wait, left := c.Patience, c.left(err)
			if left {
				wait = min(wait, restarting)
			}
			if since.IsZero() {
				since = time.Now()
				text := fmt.Sprintf("the server does not answer (%v): trying for %v", plain(err), wait)
				if left {
					text = fmt.Sprintf("no gantry serves %s any more, though it left its socket: waiting %v for the "+
						"next one", c.dir, wait)
				}
				if c.Notify != nil {
					c.Notify(text)
				}
			} else if waited += min(time.Since(last), mostBetween); waited > wait && ending != nil {
				return fmt.Errorf("%w: the server has ended (%w), and no other one came: start it again with gantry "+
					"serve", ErrNoServer, ending)
			} else if waited > wait {
				return fmt.Errorf("%w: %w; it was killed or is stuck: start it again with gantry serve", ErrNoServer,
					plain(err))
			}
			last = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryEvery):
		}
	}
}

// left reports whether the server that made the socket has ended, and no other one has the directory: the kernel
// refuses connections at once then, and the lock of the server is free. Where that lock is not the client's to see it
// counts as free.
func (c *Client) left(err error) bool {
	if c.answered.Load() || !errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	return !lock.Taken(filepath.Join(c.dir, LockName))
}

// plain is an error of a connection without the address, which means nothing to users.
func plain(err error) error {
	var no syscall.Errno
	switch {
	case errors.As(err, &no):
		return no
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it closed the connection")
	}
	return err
}

func (c *Client) once(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://gantry"+Prefix+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		refused := &Error{}
		if json.Unmarshal(text, refused) != nil || refused.Code == "" {
			return &Error{Code: Failed, Message: fmt.Sprintf("the server answers %s to %s %s: is it another version?",
				resp.Status, method, path)}
		}
		return refused
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = text
		return nil
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read the answer of the server: %w", err)
	}
	return nil
}

func get[T any](ctx context.Context, c *Client, method, path string, in any) (*T, error) {
	out := new(T)
	return out, c.Do(ctx, method, path, in, out)
}

// Submit hands in work. It sets the key if there is none.
func (c *Client) Submit(ctx context.Context, s *Submit) (*Accepted, error) {
	s.Key = cmp.Or(s.Key, rand.Text())
	return get[Accepted](ctx, c, http.MethodPost, "/submissions", s)
}

// About describes the server.
func (c *Client) About(ctx context.Context) (*Server, error) {
	return get[Server](ctx, c, http.MethodGet, "/server", nil)
}

// Queue lists submissions.
func (c *Client) Queue(ctx context.Context, of QueueOf) (*Queue, error) {
	return get[Queue](ctx, c, http.MethodGet, "/submissions?"+of.query(), nil)
}

// Tenants says how the tenants stand.
func (c *Client) Tenants(ctx context.Context) (*Tenants, error) {
	return get[Tenants](ctx, c, http.MethodGet, "/tenants", nil)
}

// waitStep is how long the server keeps one request to wait.
const waitStep = 20 * time.Second

// Wait returns once a submission is over.
func (c *Client) Wait(ctx context.Context, id int64) (*Status, error) {
	for {
		s, err := c.status(ctx, http.MethodGet, id, "?wait="+waitStep.String())
		if err != nil || s.Over {
			return s, err
		}
	}
}

func (c *Client) status(ctx context.Context, method string, id int64, rest string) (*Status, error) {
	return get[Status](ctx, c, method, fmt.Sprintf("/submissions/%d%s", id, rest), nil)
}

// Status is how a submission stands now.
func (c *Client) Status(ctx context.Context, id int64) (*Status, error) {
	return c.status(ctx, http.MethodGet, id, "")
}

// Cancel withdraws a submission: its waiting tasks never start, its running ones are ended.
func (c *Client) Cancel(ctx context.Context, id int64) (*Status, error) {
	return c.status(ctx, http.MethodDelete, id, "")
}

// Expected returns when a submission is expected to start and end. It waits a moment for a prediction that knows it.
func (c *Client) Expected(ctx context.Context, id int64) (*Status, error) {
	return c.status(ctx, http.MethodGet, id, "/expected")
}

// Log returns the log of one submission, as a file of SQLite.
func (c *Client) Log(ctx context.Context, id int64) (file []byte, err error) {
	err = c.Do(ctx, http.MethodGet, fmt.Sprintf("/submissions/%d/log", id), nil, &file)
	return file, err
}

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context) (all []Node, err error) {
	err = c.Do(ctx, http.MethodGet, "/nodes", nil, &all)
	return all, err
}

// ChangeNode changes a node.
func (c *Client) ChangeNode(ctx context.Context, name string, to ChangeNode) (*Node, error) {
	return get[Node](ctx, c, http.MethodPost, "/nodes/"+url.PathEscape(name), to)
}

// Drain asks the server to end.
func (c *Client) Drain(ctx context.Context, d Drain) error {
	return c.Do(ctx, http.MethodPost, "/drain", d, nil)
}
