package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// source counts how often it is read. Its run is over when told.
type source struct {
	mu    sync.Mutex
	reads int
	ended bool
	fails error
}

func (s *source) Page() ([]byte, string, error) { return []byte("page"), "default-src 'none'", nil }

func (s *source) Over(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended, nil
}

func (s *source) Data(context.Context) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.fails != nil {
		return nil, false, s.fails
	}
	if s.ended {
		return fmt.Appendf(nil, "data %d, the last", s.reads), true, nil
	}
	return fmt.Appendf(nil, "data %d", s.reads), false, nil
}

func (s *source) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *source) read() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// serve serves a source that is read as often as possible, until the test or the source ends.
func serve(t *testing.T, src *source) (s *Server, ended <-chan error) {
	t.Helper()
	s, err := Listen(0, src)
	must(t, err)
	s.least, s.share = time.Millisecond, 1
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(cancel)
	return s, done
}

// get asks the server, with headers, and returns the answer's code and text.
func get(t *testing.T, method, url string, headers ...string) (code int, text string, h http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	must(t, err)
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b), answer.Header
}

func TestOnlyWhoHasTheTokenAndNamesTheServerSeesAnything(t *testing.T) {
	s, _ := serve(t, &source{})
	url := s.URL()
	base := url[:strings.LastIndex(strings.TrimSuffix(url, "/"), "/")]
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	for _, c := range []struct {
		name, method, url string
		headers           []string
		code              int
	}{
		{"page", "GET", url, nil, 200},
		{"localhost", "GET", url, []string{"Host", "localhost:" + port}, 200},
		{"no token", "GET", base + "/", nil, 404},
		{"wrong token", "GET", base + "/" + strings.Repeat("a", len(s.token)) + "/", nil, 404},
		{"token as a prefix", "GET", base + "/" + s.token[:5] + "/data", nil, 404},
		{"rebound name", "GET", url, []string{"Host", "evil.example:" + port}, 403},
		{"no port", "GET", url, []string{"Host", "127.0.0.1"}, 403},
		{"another site", "GET", url + "data", []string{"Origin", "http://evil.example"}, 403},
		{"another port", "GET", url + "data", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"null origin", "GET", url + "data", []string{"Origin", "null"}, 403},
		{"another site, by its kind", "GET", url + "data", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"own origin", "GET", url, []string{"Origin", base, "Sec-Fetch-Site", "same-origin"}, 200},
		{"write", "POST", url, nil, 405},
		{"delete", "DELETE", url + "data", nil, 405},
		{"unknown", "GET", url + "../../etc/passwd", nil, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, text, h := get(t, c.method, c.url, c.headers...)
			if code != c.code || code != 200 && strings.Contains(text, "data") {
				t.Errorf("%d: %s", code, text)
			}
			if h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" ||
				h.Get("X-Content-Type-Options") != "nosniff" ||
				!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
				t.Errorf("headers %v", h)
			}
		})
	}
}

// The source is read while somebody looks and no more. A client that asks for news gets each version and the last,
// after which the server ends.
func TestAClientGetsEachVersionAndTheLast(t *testing.T) {
	src := &source{}
	s, ended := serve(t, src)
	if code, _, _ := get(t, "GET", s.URL()); code != 200 || src.read() != 0 {
		t.Errorf("the source was read %d times although nobody looks (%d)", src.read(), code)
	}
	version, last := "0", ""
	news := func() {
		code, text, h := get(t, "GET", s.URL()+"data?after="+version)
		if code != 200 || !strings.HasPrefix(text, "data ") || text == last || h.Get("Version") <= version {
			t.Fatalf("%d: %q in version %s after %q in version %s", code, text, h.Get("Version"), last, version)
		}
		version, last = h.Get("Version"), text
	}
	news()
	news()
	src.set(func() { src.ended = true })
	for !strings.HasSuffix(last, ", the last") {
		news()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// withFiles is a source with files.
type withFiles struct {
	*source
	dir string
}

func (s *withFiles) File(name string) (*os.File, error) { return os.Open(filepath.Join(s.dir, name)) }

// A browser saves the results to which a page links, and shows none: a program made them.
func TestResultsAreSaved(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a b.html"), []byte("<script>"), 0o644))
	s, err := Listen(0, &withFiles{&source{}, dir})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = s.Serve(ctx) }()
	code, text, h := get(t, "GET", s.URL()+"results/a%20b.html")
	if code != 200 || text != "<script>" || h.Get("Content-Disposition") != "attachment" ||
		h.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%d: %q, headers %v", code, text, h)
	}
	for _, name := range []string{"results/none", "results", "a%20b.html"} {
		if code, text, _ := get(t, "GET", s.URL()+name); code != 404 {
			t.Errorf("%s: %d: %q", name, code, text)
		}
	}
}

// What cannot be read is said, and read again.
func TestAFailureToReadIsSaid(t *testing.T) {
	src := &source{fails: errors.New("disk\nfault")}
	s, _ := serve(t, src)
	if code, text, _ := get(t, "GET", s.URL()+"data"); code != http.StatusServiceUnavailable ||
		text != "disk\nfault\n" {
		t.Errorf("%d: %q", code, text)
	}
	src.set(func() { src.fails = nil })
	if code, text, _ := get(t, "GET", s.URL()+"data"); code != 200 || !strings.HasPrefix(text, "data ") {
		t.Errorf("after a failure: %d: %q", code, text)
	}
}

// A client that waits when the server is stopped has an answer, without data.
func TestAStopAnswersThoseThatWait(t *testing.T) {
	s, err := Listen(0, &source{})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	go func() {
		for !s.watched() {
			time.Sleep(time.Millisecond)
		}
		stop()
	}()
	code, text, _ := get(t, "GET", s.URL()+"data?after=99999999999999999")
	if code != http.StatusNoContent || text != "" {
		t.Errorf("%d: %q", code, text)
	}
	must(t, <-ended)
}

// Clients that never read, and more of them than there may be, do not stop the source from being read, nor the server
// from ending.
func TestSlowAndManyClientsDelayNothing(t *testing.T) {
	src := &source{}
	s, ended := serve(t, src)
	address := s.listener.Addr().String()
	for i := range maxConnections + 20 {
		c, err := net.Dial("tcp", address)
		must(t, err)
		defer c.Close()
		if i%2 == 0 {
			fmt.Fprintf(c, "GET /%s/data?after=99999999999999999 HTTP/1.1\r\nHost: %s\r\n\r\n", s.token, address)
		} else {
			fmt.Fprint(c, "GET /") // and nothing more
		}
	}
	before := src.read()
	for src.read() < before+20 {
		time.Sleep(time.Millisecond)
	}
	src.set(func() { src.ended = true })
	<-ended
}

func TestTooManyRequestsAreRefused(t *testing.T) {
	s, err := Listen(0, &source{})
	must(t, err)
	defer s.listener.Close()
	answers := map[int]int{}
	for range 100 * maxRate {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, s.URL(), nil))
		answers[w.Code]++
	}
	if answers[http.StatusOK] < maxRate || answers[http.StatusTooManyRequests] == 0 {
		t.Errorf("requests at once were answered %v", answers)
	}
}

// A reading that takes long is followed by a pause in proportion.
func TestReadingTheSourceCostsAShareOfACore(t *testing.T) {
	s, err := Listen(0, &source{})
	must(t, err)
	defer s.listener.Close()
	if s.share > 0.005 {
		t.Errorf("reading may take %g of a core, which leaves too little of 1 %% for the rest", s.share)
	}
	if _, err := Listen(s.listener.Addr().(*net.TCPAddr).Port, &source{}); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("a port that is in use: %v", err)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
