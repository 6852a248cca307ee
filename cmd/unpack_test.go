package cmd

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gantry/executor/container/oci/image"
	"gantry/planner/seed/seedtest"
)

// slowRegistry has an image of one layer. While it is slow it sends half of that.
func slowRegistry(t *testing.T) (ref string, slow *atomic.Bool) {
	t.Helper()
	blobs, slow := map[string][]byte{}, &atomic.Bool{}
	add := func(b []byte) (digest string) {
		digest = fmt.Sprintf("sha256:%x", sha256.Sum256(b))
		blobs[digest] = b
		return digest
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	content := make([]byte, 1<<20)
	must(t, w.WriteHeader(&tar.Header{Name: "slow", Mode: 0o644, Size: int64(len(content))}))
	_, err := w.Write(content)
	must(t, err)
	must(t, w.Close())
	layer := add(packed.Bytes())
	config := fmt.Sprintf(`{"architecture": %q, "os": "linux", "config": {}, "rootfs": {"type": "layers", `+
		`"diff_ids": [%q]}}`, runtime.GOARCH, layer)
	const kind = "application/vnd.oci.image."
	blobs["1"] = fmt.Appendf(nil, `{"schemaVersion": 2, "mediaType": %q, "config": {"mediaType": %q, "digest": %q, `+
		`"size": %d}, "layers": [{"mediaType": %q, "digest": %q, "size": %d}]}`, kind+"manifest.v1+json",
		kind+"config.v1+json", add([]byte(config)), len(config), kind+"layer.v1.tar", layer, packed.Len())
	add(blobs["1"])
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		name := filepath.Base(q.URL.Path)
		b := blobs[name]
		if strings.Contains(q.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", kind+"manifest.v1+json")
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		if slow.Load() && name == layer {
			_, _ = w.Write(b[:len(b)/2])
			w.(http.Flusher).Flush()
			<-q.Context().Done()
		}
		_, _ = w.Write(b)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://") + "/x:1", slow
}

// A signal ends unpacking, of a new run and of one that is continued, and nothing of the image stays.
func TestAnImageHalfUnpackedDoesNotStay(t *testing.T) {
	needsOCI(t)
	noDocker(t)
	needsTask(t)
	ref, slow := slowRegistry(t)
	c := cliTest{t, t.TempDir()}
	store := filepath.Join(c.dir, "images")
	t.Setenv(image.DirEnv, store)
	in := "--dir=" + filepath.Join(c.dir, "runs")
	run := []string{"run", "--runtime", "oci", "--name", "r", in, "--image", ref, c.write("Makeflow", "out:\n\ttrue\n")}
	ends := func(s syscall.Signal, says string, args ...string) {
		t.Helper()
		ignored := make(chan os.Signal, 1)
		signal.Notify(ignored, s) // under nohup, too: else the process that is started ignores it as well
		defer signal.Stop(ignored)
		slow.Store(true)
		defer slow.Store(false)
		var said bytes.Buffer
		cmd := gantryProcess(t, args...)
		cmd.Stdout, cmd.Stderr = &said, &said
		must(t, cmd.Start())
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if half, _ := filepath.Glob(filepath.Join(store, "tmp", "*", "*", "fs", "slow")); len(half) > 0 {
				break
			} else if time.Now().After(end) {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				t.Fatalf("it does not unpack:\n%s", said.String())
			}
		}
		must(t, cmd.Process.Signal(s))
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(said.String(), says) {
			t.Errorf("%s: %v\n%s", s, cmd.ProcessState, said.String())
		}
		for _, sub := range []string{"images", "layers", "names", "uses", "tmp"} {
			if left, _ := filepath.Glob(filepath.Join(store, sub, "*")); len(left) > 0 {
				t.Errorf("%s: left: %v", s, left)
			}
		}
	}
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	if testing.Short() {
		signals = signals[seedtest.Part(3):][:1]
	}
	for _, s := range signals {
		ends(s, "nothing was started", run...)
	}
	out, _ := gantryProcess(t, run...).CombinedOutput() // the image has no shell: the task fails
	if err := os.RemoveAll(store); err != nil || !strings.Contains(string(out), "1 failed") {
		t.Fatalf("%v\n%s", err, out)
	}
	ends(syscall.SIGINT, "continue with: gantry resume ", "resume", in)
}
