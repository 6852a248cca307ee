package cmd

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gantry/cmd/internal/session"

	"golang.org/x/sys/unix"

	release "gantry"
	"gantry/cmd/api"
	"gantry/sqlite"
)

// dialIn connects to the server of a directory.
func dialIn(ctx context.Context, dir string) (net.Conn, error) {
	at, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", api.AddressIn(at))
}

// between is a socket in a directory of its own, whose requests go to the server of another one. For each that hands
// in work it asks what to do.
func between(
	t *testing.T,
	to string,
	handIn func(w http.ResponseWriter, body []byte, pass func() []byte),
) (dir string) {
	t.Helper()
	dir = t.TempDir()
	at, err := os.Open(dir)
	must(t, err)
	defer at.Close()
	l, err := net.Listen("unix", api.AddressIn(at))
	must(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "gantry"}) },
		Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialIn(ctx, to) }}}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			proxy.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		handIn(w, body, func() []byte {
			r, answer := r.WithContext(context.WithoutCancel(r.Context())), httptest.NewRecorder()
			r.Body = io.NopCloser(bytes.NewReader(body))
			proxy.ServeHTTP(answer, r)
			return answer.Body.Bytes()
		})
	})}
	go srv.Serve(l) //nolint:errcheck // it ends with Close
	t.Cleanup(func() { srv.Close() })
	return dir
}

// A client that is killed while it hands in work leaves nothing or all of it, and the server continues.
func TestAClientKilledInMidSubmission(t *testing.T) {
	dir := t.TempDir()
	s := serveIn(t, dir, "--runtime", "null")
	killed := func(handIn func(body []byte, pass func() []byte)) {
		var client *exec.Cmd
		began := make(chan struct{})
		at := between(t, dir, func(_ http.ResponseWriter, body []byte, pass func() []byte) {
			<-began
			handIn(body, pass)
			_ = client.Process.Kill()
			panic(http.ErrAbortHandler) // no answer
		})
		client = gantryProcess(t, "submit", "--dir", at, montage)
		must(t, client.Start())
		close(began)
		if err := client.Wait(); err == nil {
			t.Error("the client was not killed")
		}
	}
	// Half of a request is none.
	killed(func(body []byte, _ func() []byte) {
		c, err := dialIn(context.Background(), dir)
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprintf(c, "POST %s/submissions HTTP/1.1\r\nHost: gantry\r\nContent-Length: %d\r\n\r\n", api.Prefix,
			len(body))
		if _, err := c.Write(body[:len(body)/2]); err != nil {
			t.Error(err)
		}
		c.Close()
	})
	// One that came whole counts, whether or not anybody reads the answer.
	killed(func(_ []byte, pass func() []byte) { pass() })
	expect(t, exitOK, []string{"1: montage-25-1 done, 25 of 25"}, "wait", "--dir", dir, "1")

	// A client that lives asks again, and it is the same submission.
	asked := 0
	at := between(t, dir, func(w http.ResponseWriter, _ []byte, pass func() []byte) {
		asked++
		answer := pass()
		if asked == 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(answer)
	})
	if got := expect(t, exitOK, nil, "submit", "-q", "--dir", at, montage); got != "2\n" || asked != 2 {
		t.Errorf("asked %d times, the number is %q, want 2 and 2", asked, got)
	}
	if got := s.submit(montage); got != "3" {
		t.Errorf("the next has number %s: something was handed in twice", got)
	}
	s.drain()
}

// A socket that a killed server left is in nobody's way.
func TestAStaleSocket(t *testing.T) {
	dir := t.TempDir()
	at, err := os.Open(dir)
	must(t, err)
	defer at.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: api.AddressIn(at)})
	must(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
	refused := func(says string) {
		t.Helper()
		var said []string
		cl := api.NewClient(dir)
		cl.Patience, cl.Notify = 300*time.Millisecond, func(text string) { said = append(said, text) }
		if _, err := cl.About(t.Context()); !errors.Is(err, api.ErrNoServer) ||
			!strings.Contains(err.Error(), "connection refused; it was killed or is stuck: start it again") {
			t.Errorf("nobody listens: %v", err)
		}
		if len(said) != 1 || !strings.Contains(said[0], says) {
			t.Errorf("the client said %q, want %q", said, says)
		}
	}
	refused("no gantry serves " + dir + " any more, though it left its socket: waiting 300ms for the next one")
	lock := locked(t, filepath.Join(dir, api.LockName)) // as a server has it that starts, or is stuck
	refused("the server does not answer (connection refused): trying for 300ms")
	lock.Close()
	s := serveIn(t, dir, "--runtime", "null")
	if got := s.submit(montage); got != "1" {
		t.Errorf("the first number is %s", got)
	}
	// Another one ends at once, and the first one does not notice.
	expect(t, exitHeld, []string{fmt.Sprintf("process %d", s.cmd.Process.Pid), "gantry drain"}, "serve", "--dir", dir,
		"--runtime", "null")
	expect(t, exitOK, []string{"done, 25 of 25"}, "wait", "--dir", dir, "1")
	s.drain()

	file := filepath.Join(t.TempDir(), api.SocketName)
	must(t, os.WriteFile(file, []byte("mine"), 0o600))
	expect(t, exitHost, []string{"no socket"}, "serve", "--dir", filepath.Dir(file), "--runtime", "null")
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
		t.Errorf("the file that was there is %q (%v)", text, err)
	}
}

// A server that is started again says which of its flags the run does not follow.
func TestAServerStartedAgainKeepsItsSettings(t *testing.T) {
	beside(t)
	c := cliTest{t, t.TempDir()}
	dir := filepath.Join(c.dir, "runs")
	one := c.write("one.yaml", "nodes:\n  - {name: a, cores: 1, memory: 200MB}\n")
	two := c.write("two.yaml", "nodes:\n  - {name: b, cores: 1, memory: 100MB}\n")
	begin := []string{"--runtime", "null", "--name", "lab", "--cluster", one, "--policy", "rm-dcwf", "--oversubscribe",
		"--retries", "1"}
	s := serveIn(t, dir, begin...)
	s.kill()
	s = serveIn(t, dir, begin...)
	s.kill()
	if text := s.err.String(); strings.Contains(text, "continues with") {
		t.Errorf("nothing differs:\n%s", text)
	}
	s = serveIn(t, dir, "--runtime", "null") // defaults are not asked for
	s.kill()
	if text := s.err.String(); strings.Contains(text, "continues with") {
		t.Errorf("nothing was given:\n%s", text)
	}
	db, err := sql.Open("sqlite3", filepath.Join(dir, sqlite.FileName))
	must(t, err)
	if _, err := db.Exec("UPDATE runs SET version = 'v0.0.1'"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	s = serveIn(t, dir, "--runtime", "null", "--cluster", two, "--policy", "heft", "--oversubscribe", "--retries", "2")
	expect(t, exitOK, []string{"policy heft"}, "queue", "--dir", dir)
	if out := expect(t, exitOK, []string{"a"}, "node", "--dir", dir); strings.Contains(out, "100") {
		t.Errorf("the nodes are those of the other file:\n%s", out)
	}
	s.kill()
	for _, w := range []string{
		"--cluster: run lab continues with the nodes that it began with; gantry node changes them",
		"--retries: run lab continues with the value that it began with",
		"run lab was begun by gantry v0.0.1, and continues with " + release.Build()} {
		if !strings.Contains(s.err.String(), w) {
			t.Errorf("it does not say %q:\n%s", w, s.err.String())
		}
	}
}

// Each flag of a server is a setting of its run, or is known to be none.
func TestFlagsOfAServerAreSettings(t *testing.T) {
	known := map[string]bool{}
	for f := range reflect.TypeFor[session.Settings]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[session.Settings]().Field(f).Tag.Get("json"), ",")
		known[name] = true
	}
	flags := serveCommand().Flags
	for _, f := range flags {
		name := f.Names()[0]
		key := settingOf[name]
		if key == "" {
			key = strings.ReplaceAll(name, "-", "_")
		}
		now := slices.Contains(notKept, name) // it holds for the process
		if !known[key] && !now || known[key] && now && name != "strict" && name != "on-end" {
			t.Errorf("--%s: there is a setting %q: %t; it holds for this process: %t", name, key, known[key], now)
		}
	}
}

// smallDir is a directory on a disk of its own.
func smallDir(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs to mount a small file system, as root: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fillDisk leaves no byte free in a directory until the returned function is called.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	fill, err := os.Create(filepath.Join(dir, "other"))
	must(t, err)
	for n := 64 << 10; n > 0; n /= 2 {
		for err = nil; err == nil; {
			_, err = fill.Write(make([]byte, n))
		}
	}
	return func() {
		t.Helper()
		must(t, errors.Join(fill.Close(), os.Remove(fill.Name())))
	}
}

// What cannot be logged is refused; the server lives, and takes it once there is space.
func TestASubmissionOnAFullDisk(t *testing.T) {
	dir := smallDir(t, "4m")
	s := serveIn(t, dir, "--runtime", "null")
	s.submit(montage)
	expect(t, exitOK, nil, "wait", "--dir", dir, "1")
	free := fillDisk(t, dir)
	// The log may have some pages left in files that it has already.
	refused := false
	var handed []string
	for range 200 {
		code, out, errs := invoke(t, "submit", "-q", "--release", "24h", "--dir", dir, montage)
		if code == exitOK {
			handed = append(handed, strings.TrimSpace(out))
			continue
		}
		if code != exitHost || !strings.Contains(errs, "nothing of the request is kept; free space") {
			t.Fatalf("exit %d: %s\n%s", code, errs, s.err.String())
		}
		refused = true
		break
	}
	if !refused {
		t.Fatal("the disk does not fill")
	}
	expect(t, exitOK, []string{"policy cpp on null"}, "queue", "--dir", dir)
	free()
	last := s.submit(montage)
	expect(t, exitOK, []string{"done, 25 of 25"}, "wait", "--dir", dir, last)
	var q api.Queue
	must(t, json.Unmarshal([]byte(expect(t, exitOK, nil, "queue", "--all", "--json", "--dir", dir)), &q))
	if len(q.Submissions) != len(handed)+2 {
		t.Errorf("%d submissions, want the %d that were acknowledged", len(q.Submissions), len(handed)+2)
	}
}

// A server that cannot log what became of a task ends; once there is space, the next one goes on where it was.
func TestAServerWhoseDiskFills(t *testing.T) {
	beside(t)
	needsCheap(t)
	dir := smallDir(t, "12m")
	flow := cliTest{t, t.TempDir()}.write("Makeflow", "one.txt:\n\tsleep 3; echo one >one.txt\n\n"+
		"two.txt: one.txt\n\tcat one.txt >two.txt\n")
	s := serveIn(t, dir, "--runtime", "oci")
	s.submit("--image", "gantry/busybox", flow)
	eventually(t, func() (bool, any) {
		about, err := api.NewClient(dir).About(t.Context())
		return err == nil && about.Running == 1, err
	})
	free := fillDisk(t, dir)
	s.ends(exitHost)
	for _, w := range []string{"disk is full", "free space there", "continue with: gantry serve, in the same"} {
		if !strings.Contains(s.err.String(), w) {
			t.Errorf("it does not say %q:\n%s", w, s.err.String())
		}
	}
	free()
	s = serveIn(t, dir, "--runtime", "oci")
	expect(t, exitOK, []string{"done, 2 of 2"}, "wait", "--dir", dir, "1")
	s.drain()
}

// submitting hands in a workflow, until the test is asked for a part of it. It returns the output of the command, and
// its end.
func submitting(t *testing.T, asked <-chan bool, args ...string) (said *bytes.Buffer, ended chan error) {
	t.Helper()
	said, ended = &bytes.Buffer{}, make(chan error, 1)
	slow := gantryProcess(t, append([]string{"submit"}, args...)...)
	slow.Stdout, slow.Stderr = said, said
	must(t, slow.Start())
	go func() { ended <- slow.Wait() }()
	select {
	case <-asked:
	case err := <-ended:
		t.Fatalf("nothing was fetched: %v\n%s", err, said.String())
	}
	return said, ended
}

// While the server fetches what one submission needs, others are taken.
func TestAnInputThatIsSlowHoldsUpNobody(t *testing.T) {
	beside(t)
	needsCheap(t)
	asked, send := make(chan bool), make(chan bool)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			asked <- true
			<-send
		}
		_, _ = w.Write([]byte("far\n"))
	}))
	t.Cleanup(far.Close)
	c := cliTest{t, t.TempDir()}
	dir := filepath.Join(c.dir, "runs")
	s := serveIn(t, dir, "--runtime", "oci")
	flow := c.write("far.yml", `pegasus: 5.0.4
name: far
replicaCatalog: {replicas: [{lfn: f, pfns: [{site: s, pfn: "`+far.URL+`/f"}]}]}
transformationCatalog:
  transformations: [{name: cat, sites: [{name: local, pfn: /bin/cat, type: installed}]}]
jobs: [{type: job, id: t, name: cat, arguments: [f], uses: [{lfn: f, type: input}]}]
`)
	said, ended := submitting(t, asked, "--dir", dir, "--no-prediction", "--image", "gantry/busybox", flow)
	one := s.submit("--image", "gantry/busybox", written(t, "one.makeflow", "one:\n\techo >one\n"))
	two := s.submit("--emulate", "--no-prediction", "--release", "1h", montage)
	if one != "1" || two != "2" {
		t.Errorf("the others have the numbers %s and %s", one, two)
	}
	close(send)
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
	expect(t, exitOK, []string{"far-3 done"}, "wait", "--dir", dir, "3")
	expect(t, exitOK, nil, "cancel", "--dir", dir, "2")
	// What has commands and no image is refused, also by a server that continues a run.
	bare := c.write("Makeflow", "out:\n\techo >out\n")
	expect(t, exitInput, []string{"no image to run it in"}, "submit", "--dir", dir, bare)
	s.kill()
	serveIn(t, dir, "--runtime", "oci")
	expect(t, exitInput, []string{"no image to run it in"}, "submit", "--dir", dir, bare)
}

// An image that comes slowly holds up neither tasks whose images are there nor submissions that need other images.
func TestAnImageThatIsSlowHoldsUpNobody(t *testing.T) {
	beside(t)
	needsBusybox(t)
	asked, send := make(chan bool), make(chan bool)
	var once sync.Once
	var fetching, crowd atomic.Int32
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v2/":
			return
		case strings.HasPrefix(r.URL.Path, "/v2/slow/"):
			once.Do(func() { close(asked) })
			<-send
		case strings.HasPrefix(r.URL.Path, "/v2/turns/"):
			if n := fetching.Add(1); n > 1 {
				crowd.Store(n)
			}
			time.Sleep(200 * time.Millisecond)
			fetching.Add(-1)
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(registry.Close)
	domain := strings.TrimPrefix(registry.URL, "http://")
	dir := t.TempDir()
	s := serveIn(t, dir)
	flow := written(t, "one.makeflow", "one:\n\techo >one\n")
	said, ended := submitting(t, asked, "--dir", dir, "--image", domain+"/slow:1", flow)
	expect(t, exitInput, []string{domain + "/fast:1"}, "submit", "--dir", dir, "--image", domain+"/fast:1", flow)
	one := s.submit("--image", "gantry/busybox", "--name", "one", flow)
	expect(t, exitOK, []string{"one-1 done"}, "wait", "--dir", dir, one)
	select {
	case err := <-ended:
		t.Errorf("its image is still to come: %v\n%s", err, said.String())
	default:
	}
	close(send)
	if err := <-ended; err == nil || !strings.Contains(said.String(), domain+"/slow:1") {
		t.Errorf("%v\n%s", err, said.String())
	}
	// Submissions that want one image fetch it one after the other, those that come meanwhile, too.
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_ = gantryProcess(t, "submit", "--dir", dir, "--image", domain+"/turns:1", flow).Run()
		})
		time.Sleep(150 * time.Millisecond)
	}
	if all.Wait(); crowd.Load() > 0 {
		t.Errorf("%d submissions fetched it at once", crowd.Load())
	}
	s.drain()
}
