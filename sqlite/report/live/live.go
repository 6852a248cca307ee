// Package live serves pages of runs while they are under way: on the loopback, to clients with the token in the
// URL, read-only. It reads the log and nothing else, and only while somebody looks.
package live

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// Source is the content of a server.
type Source interface {
	// Page is the document, which asks the server for its data.
	Page() (text []byte, policy string, err error)
	// Over reports whether the run is over; it costs little.
	Over(ctx context.Context) (bool, error)
	// Data is the data of the document, compressed, and whether the run is over, so that there is no more to come.
	Data(ctx context.Context) (data []byte, over bool, err error)
}

// Files is a Source whose document links to files, below results/.
type Files interface {
	File(name string) (*os.File, error)
}

// Bounds of the requests of clients: a server shares a process with the run.
const (
	maxConnections = 48
	maxRate        = 60 // requests a second, of all clients together
	maxHeader      = 16 << 10
	writeTimeout   = 15 * time.Second
	silence        = 10 * time.Second // less than writeTimeout: then a client that waits for news hears of none
	// Farewell is how long a client may take from one request to the next: so long it still looks.
	Farewell = time.Second
)

// Server serves a source, and others below its address.
type Server struct {
	*room    // at the address
	listener net.Listener
	http     *http.Server
	token    string
	rate     *rate.Limiter
	// Open opens the source of two words below the address, such as run/NAME; nil: there are none. An error says that
	// there is no such source.
	Open func(ctx context.Context, path string) (Source, error)

	mu    sync.Mutex
	ctx   context.Context // of Serve
	below map[string]*room
}

// maxRooms bounds the sources below an address that are followed at once.
const maxRooms = 24

// room serves one source to those that look at it.
type room struct {
	source Source
	end    context.CancelFunc // of one below the address

	share float64 // of a core that reading the source may take
	least time.Duration

	looking chan struct{} // somebody began to look

	mu      sync.Mutex
	waiting int           // requests for news
	left    time.Time     // when the last of them was answered
	news    chan struct{} // closed once the source was read again
	version int64         // of the data: a later one is greater, also in another room of the source
	data    []byte
	failure error
}

func newRoom(source Source) *room {
	return &room{source: source, share: 0.004, least: time.Second, looking: make(chan struct{}, 1),
		news: make(chan struct{})}
}

// Listen opens a server at a port of the loopback; port 0 is any that is free.
func Listen(port int, source Source) (*Server, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is in use: choose another, or 0 for any that is free", port)
	} else if err != nil {
		return nil, fmt.Errorf("listen on port %d: %w", port, err)
	}
	secret := make([]byte, 18)
	_, _ = rand.Read(secret) // it never fails
	s := &Server{room: newRoom(source), listener: bounded{l, make(chan struct{}, maxConnections)},
		token: base64.RawURLEncoding.EncodeToString(secret), rate: rate.NewLimiter(maxRate, maxRate),
		ctx: context.Background(), below: map[string]*room{}}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader}
	return s, nil
}

// URL is the address of the page, with the token that gives access.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/" + s.token + "/" }

// Serve serves until the source is over or ctx is done. At the end of the source clients have a moment to fetch the
// last data.
func (s *Server) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx) // for those below, too
	defer stop()
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	closed := make(chan error, 1)
	go func() { closed <- s.http.Serve(s.listener) }()
	if s.follow(ctx); s.watched() {
		s.sleep(ctx, Farewell, nil)
	}
	ending, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.http.Shutdown(ending) // answers that are on their way
	err := s.http.Close()
	if failed := <-closed; err == nil && !errors.Is(failed, http.ErrServerClosed) {
		err = failed
	}
	return err
}

// follow reads the source again and again, until it is over: while somebody looks, and so rarely that it costs the
// share of a core.
func (r *room) follow(ctx context.Context) {
	for {
		for !r.watched() {
			if ctx.Err() != nil {
				return
			}
			if over, err := r.source.Over(ctx); over && err == nil {
				return
			}
			r.sleep(ctx, r.least, r.looking)
		}
		spent := threadTime()
		data, over, err := r.source.Data(ctx)
		took := spent()
		if ctx.Err() != nil {
			return
		}
		if r.publish(data, err); over {
			return
		}
		pause := max(r.least, time.Duration(float64(took)/r.share))
		// The end of the run is shown at once, however long the pause.
		for until := time.Now().Add(pause); time.Now().Before(until) && ctx.Err() == nil; {
			if over, err := r.source.Over(ctx); over && err == nil {
				break
			}
			r.sleep(ctx, min(r.least, time.Until(until)), r.looking)
		}
	}
}

// Hurry lets the server look at once whether the run is over.
func (r *room) Hurry() {
	select {
	case r.looking <- struct{}{}:
	default:
	}
}

// sleep ends early if the context does or somebody begins to look.
func (r *room) sleep(ctx context.Context, span time.Duration, looking <-chan struct{}) {
	t := time.NewTimer(span)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-looking:
	case <-t.C:
	}
}

func (r *room) watched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting > 0 || time.Since(r.left) < Farewell
}

// publish answers all that wait for news.
func (r *room) publish(data []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if data != nil {
		r.data, r.version = data, max(r.version+1, time.Now().UnixMilli())
	}
	r.failure = err
	close(r.news)
	r.news = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(code int, why string) {
		w.Header().Set("Connection", "close")
		http.Error(w, why, code)
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	switch {
	case !s.rate.Allow():
		h.Set("Retry-After", "1")
		refuse(http.StatusTooManyRequests, "too many requests")
		return
	case !s.ours(r):
		// A page of another site may have had its name resolved to this address.
		refuse(http.StatusForbidden, "ask by the address that gantry printed")
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		refuse(http.StatusMethodNotAllowed, "this can only be read")
		return
	}
	token, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
		refuse(http.StatusNotFound, "ask by the address that gantry printed: it has a token")
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	at := s.room
	if parts := strings.SplitN(name, "/", 3); len(parts) == 3 && s.Open != nil {
		var err error
		if at, err = s.enter(parts[0] + "/" + parts[1]); err != nil {
			refuse(http.StatusNotFound, err.Error())
			return
		}
		name = parts[2]
	}
	switch name {
	case "":
		at.servePage(w)
	case "data":
		at.serveData(w, r)
	default:
		at.serveFile(w, r, name)
	}
}

// serveFile sends a file that a program made. A browser saves it, and shows nothing of it.
func (r *room) serveFile(w http.ResponseWriter, q *http.Request, name string) {
	name, ok := strings.CutPrefix(name, "results/")
	files, has := r.source.(Files)
	if !ok || !has {
		http.NotFound(w, q)
		return
	}
	f, err := files.File(name)
	if err != nil {
		http.Error(w, "there is no such result", http.StatusNotFound)
		return
	}
	defer f.Close()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)) // it may be large
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", "attachment")
	http.ServeContent(w, q, "", time.Time{}, f)
}

// enter returns the room of a source below the address. One that nobody looks at makes room for it.
func (s *Server) enter(path string) (*room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.below[path]; r != nil {
		return r, nil
	}
	for name, r := range s.below {
		if len(s.below) >= maxRooms && !r.watched() {
			r.end()
			delete(s.below, name)
		}
	}
	if len(s.below) >= maxRooms {
		return nil, fmt.Errorf("%d pages are open, which is all: close one", maxRooms)
	}
	source, err := s.Open(s.ctx, path)
	if err != nil {
		return nil, err
	}
	r := newRoom(source)
	ctx, end := context.WithCancel(s.ctx)
	r.end = end
	s.below[path] = r
	go func() {
		data, over, err := source.Data(ctx) // also of a run that has ended
		if r.publish(data, err); !over {
			r.follow(ctx)
		}
	}()
	return r, nil
}

// ours reports whether a request names this server, and comes from no page of another site.
func (s *Server) ours(r *http.Request) bool {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	host, asked, err := net.SplitHostPort(r.Host)
	if err != nil || asked != port || host != "127.0.0.1" && host != "localhost" {
		return false
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return false
	}
	from := r.Header.Get("Sec-Fetch-Site")
	return from == "" || from == "none" || from == "same-origin"
}

func (r *room) servePage(w http.ResponseWriter) {
	text, policy, err := r.source.Page()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text) // a client that does not read it misses it
}

// serveData sends the data once they are another version than the one that the client has, or why they cannot be read.
// Without news for long it sends nothing, and the client asks again.
func (r *room) serveData(w http.ResponseWriter, q *http.Request) {
	has, _ := strconv.ParseInt(q.URL.Query().Get("after"), 10, 64) // 0: none
	r.mu.Lock()
	r.waiting++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting, r.left = r.waiting-1, time.Now()
	}()
	r.Hurry()
	ctx, cancel := context.WithTimeout(q.Context(), silence)
	defer cancel()
	for again := false; ; again = true {
		r.mu.Lock()
		news, version, data, failure := r.news, r.version, r.data, r.failure
		r.mu.Unlock()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
		switch {
		case version > has:
			w.Header().Set("Content-Type", "application/gzip")
			w.Header().Set("Version", strconv.FormatInt(version, 10))
			_, _ = w.Write(data)
			return
		case again && failure != nil:
			http.Error(w, failure.Error(), http.StatusServiceUnavailable)
			return
		}
		select {
		case <-ctx.Done(): // nothing is new, the client is gone, or the server ends
			w.WriteHeader(http.StatusNoContent)
			return
		case <-news:
		}
	}
}

// bounded limits the connections that are open at once; further ones wait in the kernel.
type bounded struct {
	net.Listener
	slots chan struct{}
}

func (b bounded) Accept() (net.Conn, error) {
	b.slots <- struct{}{}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &slot{Conn: c, free: sync.OnceFunc(func() { <-b.slots })}, nil
}

type slot struct {
	net.Conn
	free func()
}

func (s *slot) Close() error {
	defer s.free()
	return s.Conn.Close()
}

// threadTime starts to count the CPU time of the caller on its thread, and returns the function that ends the count.
func threadTime() func() time.Duration {
	runtime.LockOSThread()
	read := func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // every Linux has it
		return time.Duration(t.Nano())
	}
	began := read()
	return func() time.Duration {
		defer runtime.UnlockOSThread()
		return read() - began
	}
}
