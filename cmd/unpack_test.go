package cmd

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gantry/executor/container/oci/image"
	"gantry/planner/seed/seedtest"
)

// slowRegistry has two images of two layers each, x:1 and x:2. It sends half of the second layer of one of them and
// waits until it is let go.
type slowRegistry struct {
	domain string
	blobs  map[string][]byte
	last   map[string]string // the digest of the second layer, by tag
	slow   atomic.Pointer[string]
	letGo  func()
	going  chan struct{}
}

func (r *slowRegistry) stall(tag string) {
	d := r.last[tag]
	r.slow.Store(&d)
}

func (r *slowRegistry) add(kind string, b []byte) map[string]any {
	d := fmt.Sprintf("sha256:%x", sha256.Sum256(b))
	r.blobs[d] = b
	return map[string]any{"mediaType": kind, "digest": d, "size": len(b)}
}

func (r *slowRegistry) image(t *testing.T, tag string) {
	t.Helper()
	var layers []map[string]any
	var ids []string
	for _, name := range []string{"first", "slow"} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		content := bytes.Repeat([]byte(tag+name), 1<<18)
		must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
		w.Write(content)
		w.Close()
		layers = append(layers, r.add("application/vnd.oci.image.layer.v1.tar", b.Bytes()))
		ids = append(ids, layers[len(layers)-1]["digest"].(string))
	}
	list, _ := json.Marshal(ids)
	const manifest = "application/vnd.oci.image.manifest.v1+json"
	text, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": manifest, "layers": layers,
		"config": r.add("application/vnd.oci.image.config.v1+json", []byte(fmt.Sprintf(`{"architecture": %q, "os": `+
			`"linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": %s}}`, runtime.GOARCH, list)))})
	r.add(manifest, text)
	r.blobs[tag] = text
	r.last[tag] = ids[1]
}

func newSlowRegistry(t *testing.T) *slowRegistry {
	t.Helper()
	r := &slowRegistry{blobs: map[string][]byte{}, last: map[string]string{}, going: make(chan struct{})}
	r.letGo = sync.OnceFunc(func() { close(r.going) })
	r.image(t, "1")
	r.image(t, "2")
	r.stall("1")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		what := q.URL.Path[strings.LastIndexByte(q.URL.Path, '/')+1:]
		b, ok := r.blobs[what]
		if !ok && !strings.HasSuffix(q.URL.Path, "/v2/") {
			http.NotFound(w, q)
			return
		}
		if strings.Contains(q.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(b)))
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		if q.Method == http.MethodHead {
			return
		}
		if what == *r.slow.Load() {
			w.Write(b[:len(b)/2])
			w.(http.Flusher).Flush()
			select {
			case <-r.going:
			case <-q.Context().Done():
			}
			b = b[len(b)/2:]
		}
		w.Write(b)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(r.letGo)
	r.domain = strings.TrimPrefix(s.URL, "http://")
	return r
}

// inStore are the files and directories of the store of images, but for its lock.
func inStore(store string) (found []string) {
	for _, sub := range []string{"images", "layers", "l", "names", "uses", "tmp"} {
		all, _ := filepath.Glob(filepath.Join(store, sub, "*"))
		found = append(found, all...)
	}
	return found
}

// unpacking is a gantry that unpacks an image: one of its layers is there, and half of the other.
type unpacking struct {
	*exec.Cmd
	said bytes.Buffer
}

func (c cliTest) unpacking(store string, args ...string) *unpacking {
	c.Helper()
	u := &unpacking{Cmd: gantryProcess(c.T, args...)}
	before, _ := filepath.Glob(filepath.Join(store, "tmp", "*")) // of one that was killed
	u.Stdout, u.Stderr = &u.said, &u.said
	must(c, u.Start())
	c.Cleanup(func() {
		if u.ProcessState == nil {
			_ = u.Process.Kill()
			_ = u.Wait()
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		whole, _ := filepath.Glob(filepath.Join(store, "layers", "*", "bytes"))
		half, _ := filepath.Glob(filepath.Join(store, "tmp", "*", "*", "fs", "slow"))
		half = slices.DeleteFunc(half, func(h string) bool {
			return slices.ContainsFunc(before, func(b string) bool { return strings.HasPrefix(h, b+"/") })
		})
		if len(whole) > 0 && len(half) > 0 {
			return u
		}
		if time.Now().After(end) {
			_ = u.Process.Kill()
			_ = u.Wait()
			c.Fatalf("it does not unpack: %v\n%s", inStore(store), u.said.String())
		}
	}
}

// A signal ends unpacking, and nothing of the image stays. What a gantry left that was killed the next one removes,
// whatever its command, but nothing that another one works on.
func TestAnImageHalfUnpackedDoesNotStay(t *testing.T) {
	needsOCI(t)
	noDocker(t)
	needsTask(t)
	r := newSlowRegistry(t)
	start := func(t *testing.T) (c cliTest, store string, args []string) {
		c = cliTest{t, t.TempDir()}
		store = filepath.Join(c.dir, "images")
		t.Setenv(image.DirEnv, store)
		return c, store, []string{"run", "--runtime", "oci", "--dir", filepath.Join(c.dir, "runs"), "--image",
			r.domain + "/x:1", c.write("Makeflow", "out:\n\ttrue\n")}
	}
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	if testing.Short() {
		signals = signals[seedtest.Part(3):][:1]
	}
	for _, s := range signals {
		t.Run(s.String(), func(t *testing.T) {
			ignored := make(chan os.Signal, 1)
			signal.Notify(ignored, s) // under nohup, too, or who is started ignores it as well
			defer signal.Stop(ignored)
			c, store, args := start(t)
			u := c.unpacking(store, args...)
			must(t, u.Process.Signal(s))
			if _ = u.Wait(); u.ProcessState.ExitCode() != exitInterrupted ||
				!strings.Contains(u.said.String(), "nothing was started") {
				t.Errorf("%v\n%s", u.ProcessState, u.said.String())
			}
			if left := inStore(store); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	for _, next := range []string{"images", "run"} {
		t.Run("killed, then "+next, func(t *testing.T) {
			c, store, args := start(t)
			u := c.unpacking(store, args...)
			_ = u.Process.Kill()
			_ = u.Wait()
			if next == "images" {
				expect(t, exitOK, []string{"no images"}, "images")
				if left := inStore(store); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				return
			}
			args[6] = r.domain + "/x:2"
			out, _ := gantryProcess(t, args...).CombinedOutput() // it has no shell, and fails
			left := inStore(store)
			if len(left) != 5 { // configuration, layers, name, use of the run
				t.Errorf("%d, not 5 of the other image: %v\n%s", len(left), left, out)
			}
		})
	}
	t.Run("resume", func(t *testing.T) {
		c, store, args := start(t)
		args[6] = r.domain + "/x:2"
		out, _ := gantryProcess(t, args...).CombinedOutput()
		if err := os.RemoveAll(store); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		r.stall("2")
		defer r.stall("1")
		u := c.unpacking(store, "resume", "--dir", args[4])
		must(t, u.Process.Signal(syscall.SIGINT))
		if _ = u.Wait(); u.ProcessState.ExitCode() != exitInterrupted ||
			!strings.Contains(u.said.String(), "continue with: gantry resume ") {
			t.Errorf("%v\n%s", u.ProcessState, u.said.String())
		}
		if left := inStore(store); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("one that lives", func(t *testing.T) {
		c, store, args := start(t) // the last one, as the registry is let go
		killed := c.unpacking(store, args...)
		_ = killed.Process.Kill()
		_ = killed.Wait()
		u := c.unpacking(store, args...)
		before := inStore(store)
		for range 3 {
			expect(t, exitOK, []string{"no images"}, "images")
		}
		if now := inStore(store); !slices.Equal(before, now) {
			t.Errorf("%v became %v", before, now)
		}
		r.letGo()
		if err := u.Wait(); u.ProcessState.ExitCode() != exitTasksFailed {
			t.Errorf("%v: %s", err, u.said.String())
		}
		expect(t, exitOK, []string{"whole"}, "images")
	})
}
