package image_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor/container/fetch"
	"gantry/executor/container/oci/image"
)

// registry is one in memory.
type registry struct {
	sync.Mutex
	domain string
	blobs  map[string][]byte // by digest
	tags   map[string]string // digests by tag
	kinds  map[string]string // media types by digest
	before func(w http.ResponseWriter, r *http.Request) (done bool)
}

func serve(t testing.TB) *registry {
	t.Helper()
	r := &registry{blobs: map[string][]byte{}, tags: map[string]string{}, kinds: map[string]string{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		what := q.URL.Path[strings.LastIndexByte(q.URL.Path, '/')+1:]
		r.Lock()
		before := r.before
		if d, ok := r.tags[what]; ok {
			what = d
		}
		b, ok := r.blobs[what]
		kind := r.kinds[what]
		r.Unlock()
		if before != nil && before(w, q) {
			return
		}
		if !ok {
			http.NotFound(w, q)
			return
		}
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.Header().Set("Docker-Content-Digest", what)
		http.ServeContent(w, q, "", time.Time{}, strings.NewReader(string(b)))
	}))
	t.Cleanup(s.Close)
	r.domain = strings.TrimPrefix(s.URL, "http://")
	return r
}

type m = map[string]any

// add keeps a blob and returns its descriptor.
func (r *registry) add(kind string, b []byte) m {
	d := "sha256:" + sum(b)
	r.Lock()
	defer r.Unlock()
	r.blobs[d], r.kinds[d] = b, kind
	return m{"mediaType": kind, "digest": d, "size": len(b)}
}

func (r *registry) addJSON(kind string, v any) m {
	b, _ := json.Marshal(v)
	return r.add(kind, b)
}

const (
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociIndex    = "application/vnd.oci.image.index.v1+json"
	manifest2   = "application/vnd.docker.distribution.manifest.v2+json"
	list2       = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// image adds an image of these layers, plain, of which packed are the blobs.
func (r *registry) image(kind, arch string, layers, packed [][]byte) m {
	blobs := []m{}
	for _, p := range packed {
		blobs = append(blobs, r.add("application/octet-stream", p))
	}
	return r.addJSON(kind, m{"schemaVersion": 2, "mediaType": kind, "layers": blobs,
		"config": r.add("application/json", []byte(about(arch, layers...)))})
}

// answer has requests go to before first.
func (r *registry) answer(before func(w http.ResponseWriter, r *http.Request) (done bool)) {
	r.Lock()
	defer r.Unlock()
	r.before = before
}

func (r *registry) tag(name string, d m) string {
	r.Lock()
	defer r.Unlock()
	r.tags[name] = d["digest"].(string)
	return r.domain + "/tools:" + name
}

func TestRegistriesGiveImagesOfAllKinds(t *testing.T) {
	root(t)
	r := serve(t)
	a, b, c := pack(t, file("a", "1")), pack(t, file("b", strings.Repeat("2", 5000))), pack(t, file("c", "3"))
	layers, packed := [][]byte{a, b, c}, [][]byte{a, gzipped(t, b), zstandard(t, c)}
	other := pack(t, file("other", "x"))
	mine := func(kind string) m {
		d := r.image(kind, runtime.GOARCH, layers, packed)
		d["platform"] = m{"os": "linux", "architecture": runtime.GOARCH}
		return d
	}
	foreign := r.image(ociManifest, "riscv64", [][]byte{other}, [][]byte{other})
	foreign["platform"] = m{"os": "linux", "architecture": "riscv64"}
	note := r.addJSON(ociManifest, m{"schemaVersion": 2})
	note["platform"] = m{"os": "unknown", "architecture": "unknown"}
	note["annotations"] = m{"vnd.docker.reference.type": "attestation-manifest"}
	inner := r.addJSON(ociIndex, m{"schemaVersion": 2, "manifests": []m{foreign, mine(ociManifest), note}})
	id := "sha256:" + sum([]byte(about(runtime.GOARCH, layers...)))
	for _, ref := range []string{
		r.tag("oci", mine(ociManifest)), r.tag("docker", mine(manifest2)), r.tag("index", inner),
		r.tag("list", r.addJSON(list2, m{"schemaVersion": 2, "manifests": []m{foreign, mine(manifest2)}})),
		r.tag("nested", r.addJSON(ociIndex, m{"schemaVersion": 2, "manifests": []m{inner}})),
		r.domain + "/tools@" + r.tags["index"],
	} {
		s := open(t)
		i, err := fetched(t, s, ref)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		top := r.tags[ref[strings.LastIndexByte(ref, ':')+1:]]
		if _, d, ok := strings.Cut(ref, "@"); ok {
			top = d
		}
		if i.ID != id || len(i.Layers) != 3 || i.Digest != r.domain+"/tools@"+top || i.Source != "pulled" {
			t.Errorf("%s: %+v", ref, i)
		}
		// A tag that is in the store is not looked up again.
		r.answer(func(http.ResponseWriter, *http.Request) bool { t.Errorf("%s: asked again", ref); return false })
		if i, err := fetched(t, s, ref); err != nil || i.Source != "local" {
			t.Errorf("%s again: %+v, %v", ref, i, err)
		}
		r.answer(nil)
	}
}

func TestRegistriesThatGiveNoImage(t *testing.T) {
	root(t)
	r := serve(t)
	layer := pack(t, file("a", strings.Repeat("content", 4000)))
	good := r.image(ociManifest, runtime.GOARCH, [][]byte{layer}, [][]byte{layer})
	config := []byte(about(runtime.GOARCH, layer))
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	type answer = func(w http.ResponseWriter, q *http.Request) bool
	// sends has the registry answer a request for a blob with another one, of which it announces a length; -1: none.
	sends := func(blob []byte, length int, then func(), content func() []byte) answer {
		return func(w http.ResponseWriter, q *http.Request) bool {
			if !strings.HasSuffix(q.URL.Path, "sha256:"+sum(blob)) {
				return false
			}
			if length >= 0 {
				w.Header().Set("Content-Length", strconv.Itoa(length))
			}
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			w.Write(content())
			w.(http.Flusher).Flush()
			then()
			return true
		}
	}
	ends := func() {}
	first := func(n int) func() []byte { return func() []byte { return layer[:n] } }
	refuses := func(status int) answer {
		return func(w http.ResponseWriter, q *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(status)
			return true
		}
	}
	var breaks atomic.Int64
	for name, c := range map[string]struct {
		d      m
		before answer
		words  string
	}{
		"no such platform": {r.addJSON(ociIndex, m{"schemaVersion": 2, "manifests": []m{{"mediaType": ociManifest,
			"digest": good["digest"], "size": good["size"], "platform": m{"os": "linux",
				"architecture": "s390x"}}}}), nil, "linux/s390x, this one is"},
		"old schema": {r.addJSON(manifest2, m{"schemaVersion": 1, "fsLayers": []m{}}), nil, "schema 1"},
		"no tag":     {m{"digest": "sha256:none"}, nil, "does not have it"},
		"fewer layers": {r.image(ociManifest, runtime.GOARCH, [][]byte{layer, layer}, [][]byte{layer}), nil,
			"names 2 layers, and there are 1"},
		"other layer": {r.image(ociManifest, runtime.GOARCH, [][]byte{pack(t)}, [][]byte{layer}), nil,
			"unpacks to the digest"},
		"changed blob": {good, sends(layer, len(layer), ends, func() []byte {
			return []byte(strings.Replace(string(layer), "content", "CONTENT", 1))
		}), "damaged: its bytes have the digest"},
		"no login":  {good, refuses(http.StatusUnauthorized), "without a login"},
		"forbidden": {good, refuses(http.StatusForbidden), "refuses"},
		"it stalls": {good, sends(layer, len(layer), func() { <-never }, first(1000)), "stalls"},
		"it breaks off": {good, sends(layer, len(layer), ends, func() []byte { return layer[:1000+breaks.Add(1)] }),
			"cannot be reached"},
		"it is cut off": {good, sends(layer, len(layer), ends, first(1000)),
			fmt.Sprintf("damaged: it is cut off after 1000 of %d bytes", len(layer))},
		"short": {good, sends(layer, 1000, ends, first(1000)),
			"damaged: the registry has not as many bytes"},
		"short without a length": {good, sends(layer, -1, ends, first(1000)), "damaged"},
		"short configuration": {good, sends(config, 2, ends, func() []byte { return config[:2] }),
			"damaged: the registry has not as many bytes"},
		"configuration cut off": {good, sends(config, len(config), ends, func() []byte { return config[:1] }),
			"damaged: its description is cut off after 1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			ref := r.tag("x", c.d)
			r.answer(c.before)
			s := open(t)
			_, err := s.Fetch(t.Context(), image.Fetch{Options: fetch.Options{Pull: "missing", Patience: time.Second}},
				[]fetch.Wanted{{Ref: ref}})
			kind := map[bool]error{true: fetch.ErrNoImage, false: fetch.ErrUnusable}[name == "no tag"]
			if !errors.Is(err, kind) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), ref) {
				t.Errorf("%v\ndoes not say %q", err, c.words)
			}
			if strings.Contains(c.words, "damaged") && (strings.Contains(err.Error(), "reached") ||
				!strings.Contains(err.Error(), "tell whoever runs the registry "+r.domain)) {
				t.Errorf("%v\ndoes not say what to do", err)
			}
			nothing(t, s)
		})
	}
}

// A connection that breaks off is taken up where it broke, and a login is used where one is asked for.
func TestPullsGoOn(t *testing.T) {
	root(t)
	r := serve(t)
	layer := pack(t, file("a", strings.Repeat("content", 40000)))
	ref := r.tag("x", r.image(ociManifest, runtime.GOARCH, [][]byte{layer}, [][]byte{layer}))
	var broke, resumed atomic.Int64
	r.answer(func(w http.ResponseWriter, q *http.Request) bool {
		if user, password, _ := q.BasicAuth(); user != "ann" || password != "pass word" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if !strings.HasSuffix(q.URL.Path, sum(layer)) {
			return false
		}
		if q.Header.Get("Range") != "" {
			resumed.Add(1)
		} else if broke.Add(1) == 1 {
			w.Header().Set("Accept-Ranges", "bytes")
			w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
			w.Write(layer[:100_000])
			return true
		}
		return false
	})
	var most int64
	_, err := open(t).Fetch(t.Context(), image.Fetch{Options: fetch.Options{Pull: "missing",
		Progress: func(_ string, done, total int64) { most = max(most, done*100/total) }},
		Login: func(domain string) (fetch.Login, error) {
			if domain != r.domain {
				return fetch.Login{}, fmt.Errorf("asked for %s", domain)
			}
			return fetch.Login{User: "ann", Password: "pass word"}, nil
		}}, []fetch.Wanted{{Ref: ref}})
	if err != nil || broke.Load() == 0 || resumed.Load() == 0 || most != 100 {
		t.Errorf("%v; %d broke off, %d taken up, %d %%", err, broke.Load(), resumed.Load(), most)
	}
}

// An image that does not fit, or is a bomb, leaves the disk as it was.
func TestAFullDisk(t *testing.T) {
	root(t)
	at := t.TempDir()
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("needs to mount: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(at, 0) })
	s, err := image.Open(at)
	must(t, err)
	defer s.Close()
	big := pack(t, file("big", strings.Repeat("0123456789abcdef", 400_000)))
	many := []entry{}
	for i := range 3000 {
		many = append(many, file(strconv.Itoa(i), "x"))
	}
	r := serve(t)
	small := pack(t, file("small", "x"))
	for name, ref := range map[string]string{
		"archive": write(t, saved(t, runtime.GOARCH, small, big)), "packed archive": write(t, gzipped(t, saved(t,
			runtime.GOARCH, big))),
		"registry": r.tag("x", r.image(ociManifest, runtime.GOARCH, [][]byte{small, big}, [][]byte{small,
			zstandard(t, big)})),
		"many files": write(t, saved(t, runtime.GOARCH, pack(t, many...))),
	} {
		_, err := fetched(t, s, ref)
		if !errors.Is(err, fetch.ErrUnusable) || !strings.Contains(err.Error(), "full") ||
			!strings.Contains(err.Error(), "clean --images") {
			t.Errorf("%s: %v", name, err)
		}
		nothing(t, s)
	}
	if _, err := fetched(t, s, write(t, saved(t, runtime.GOARCH, small))); err != nil {
		t.Errorf("an image that fits: %v", err)
	}
}

func TestSeveralUnpackAtOnce(t *testing.T) {
	root(t)
	dir := t.TempDir()
	var layers [][]byte
	for i := range 4 {
		layers = append(layers, pack(t, file(strconv.Itoa(i), strings.Repeat("x", 1<<20))))
	}
	ref := write(t, saved(t, runtime.GOARCH, layers...))
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() {
			s, err := image.Open(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if i, err := fetched(t, s, ref); err != nil || len(i.Layers) != 4 {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if found, _ := os.ReadDir(filepath.Join(dir, "layers")); len(found) != 4 {
		t.Errorf("%d layers", len(found))
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "tmp")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A process removes the leftovers of one that was killed while it unpacked, but nothing of one that lives.
func TestKilledWhileUnpacking(t *testing.T) {
	if dir := os.Getenv("GANTRY_TEST_STORE"); dir != "" {
		s, err := image.Open(dir)
		if err == nil {
			_, err = fetched(t, s, os.Getenv("GANTRY_TEST_REF"))
		}
		t.Fatal(err)
	}
	root(t)
	r := serve(t)
	layer := pack(t, file("a", strings.Repeat("content", 40000)))
	ref := r.tag("x", r.image(ociManifest, runtime.GOARCH, [][]byte{layer}, [][]byte{layer}))
	half := make(chan struct{})
	r.answer(func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.HasSuffix(q.URL.Path, sum(layer)) {
			return false
		}
		w.Write(layer[:200_000])
		w.(http.Flusher).Flush()
		close(half)
		<-q.Context().Done()
		return true
	})
	s := open(t)
	child := exec.Command(os.Args[0], "-test.run=^TestKilledWhileUnpacking$")
	child.Env = append(os.Environ(), "GANTRY_TEST_STORE="+s.Dir(), "GANTRY_TEST_REF="+ref)
	must(t, child.Start())
	<-half
	next := func(remain int) {
		t.Helper()
		s, err := image.Open(s.Dir()) // which unpacks nothing
		must(t, err)
		s.Close()
		if left, _ := os.ReadDir(filepath.Join(s.Dir(), "tmp")); len(left) != remain {
			t.Errorf("left: %v", left)
		}
	}
	next(1)
	child.Process.Kill()
	child.Wait()
	next(0)
	nothing(t, s)
	r.answer(nil)
	if _, err := fetched(t, s, ref); err != nil {
		t.Fatal(err)
	}
	next(0)
}

func TestManyLayersAreMounted(t *testing.T) {
	root(t)
	var layers [][]byte
	for i := range 128 {
		layers = append(layers, pack(t, file(strconv.Itoa(i), "x"), file("last", strconv.Itoa(i))))
	}
	s, err := image.Open(filepath.Join(t.TempDir(), strings.Repeat("long", 40), "sto:re"))
	must(t, err)
	defer s.Close()
	i, err := fetched(t, s, write(t, saved(t, runtime.GOARCH, layers[:127]...)))
	must(t, err)
	at := mount(t, i)
	if found, _ := os.ReadDir(at); len(found) != 128 {
		t.Errorf("%d files", len(found))
	}
	if last, _ := os.ReadFile(filepath.Join(at, "last")); string(last) != "126" {
		t.Errorf("last: %q", last)
	}
	if _, err := fetched(t, s, write(t, saved(t, runtime.GOARCH, layers...))); !errors.Is(err, fetch.ErrUnusable) ||
		!strings.Contains(err.Error(), "128 layers") {
		t.Errorf("128 layers: %v", err)
	}
}

func TestImagesStayAsLongAsTheyAreNeeded(t *testing.T) {
	root(t)
	dir := filepath.Join(t.TempDir(), "store")
	shared, one := pack(t, file("shared", "x")), pack(t, file("1", "x"))
	two := pack(t, file("2", strings.Repeat("x", 99)))
	a, b := write(t, saved(t, runtime.GOARCH, shared, one)), write(t, saved(t, runtime.GOARCH, shared, two))
	fetchFor := func(ref, run string) *image.Store {
		s, err := image.Open(dir)
		must(t, err)
		if _, err := fetched(t, s, ref); err != nil {
			t.Fatal(err)
		}
		if run == "" {
			return s
		}
		must(t, s.Keep(run))
		return s
	}
	fetchFor(a, "/runs/a").Close()
	running := fetchFor(b, "/runs/b")
	none, err := image.Open(dir) // a run of programs of the host: it holds up nobody
	must(t, err)
	defer none.Close()
	if _, err := none.Fetch(t.Context(), image.Fetch{}, nil); err != nil {
		t.Fatal(err)
	}
	must(t, none.Keep("/runs/none"))
	s, err := image.Open(dir)
	must(t, err)
	defer s.Close()
	unfinished := []string{"/runs/a", "/runs/b"}
	remove := func(images int, bytes int64) {
		t.Helper()
		removed, freed, err := s.Remove(t.Context(), func(run string) bool { return slices.Contains(unfinished, run) })
		if err != nil || len(removed) != images || freed != bytes {
			t.Errorf("removed %v, %d bytes, %v; want %d and %d", removed, freed, err, images, bytes)
		}
	}
	remove(0, 0)
	uses := filepath.Join(dir, "uses")
	must(t, os.Rename(uses, uses+"-away"))
	if removed, _, err := s.Remove(t.Context(), func(string) bool { return true }); err == nil || len(removed) > 0 {
		t.Errorf("removed %v, %v, while the uses of images cannot be read", removed, err)
	}
	must(t, os.Rename(uses+"-away", uses))
	unfinished = unfinished[1:]
	remove(1, 1)
	unfinished = nil
	noted := fetchFor(b, "") // which a run is about to note
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if removed, _, err := s.Remove(soon, func(string) bool { return false }); err == nil || len(removed) > 0 {
		t.Errorf("removed %v, %v, while others bring images", removed, err)
	}
	noted.Close()
	running.Close()
	remove(1, 100)
	nothing(t, s)
}

// A store of a build that named layers by the whole digest is used as it is: a gantry of that build may be at work.
func TestLayersOfEarlierBuildsAreUsed(t *testing.T) {
	root(t)
	dir := filepath.Join(t.TempDir(), "store")
	s, err := image.Open(dir)
	must(t, err)
	layer, lost := pack(t, file("a", "x")), pack(t, file("b", "x"))
	i, err := fetched(t, s, write(t, saved(t, runtime.GOARCH, layer)))
	must(t, err)
	_, err = fetched(t, s, write(t, saved(t, runtime.GOARCH, lost)))
	must(t, errors.Join(err, s.Keep("/runs/a")))
	for _, l := range [][]byte{layer, lost} {
		earlier := filepath.Join(dir, "layers", sum(l))
		must(t, errors.Join(os.Rename(earlier[:len(earlier)-44], earlier),
			os.WriteFile(filepath.Join(earlier, "bytes"), []byte("1"), 0o600)))
	}
	must(t, os.Remove(filepath.Join(dir, "layers", sum(lost), "bytes")))
	for range 2 {
		s, err = image.Open(dir)
		must(t, err)
		defer s.Close()
		if removed, freed, err := s.Remove(t.Context(), func(string) bool { return true }); err != nil ||
			len(removed) > 0 || freed > 0 {
			t.Errorf("removed %v, %d bytes, %v", removed, freed, err)
		}
		list, err := s.List()
		if err != nil || len(list) != 2 || list[0].Whole == list[1].Whole {
			t.Fatalf("%+v, %v", list, err)
		}
		again, err := s.Image(i.ID)
		must(t, err)
		if text, err := os.ReadFile(filepath.Join(mount(t, again), "a")); string(text) != "x" {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "layers", sum(layer), "fs/a")); err != nil {
			t.Error(err)
		}
	}
	if removed, freed, err := s.Remove(t.Context(), func(string) bool { return false }); err != nil ||
		len(removed) != 2 || freed != 1 {
		t.Errorf("removed %v, %d bytes, %v", removed, freed, err)
	}
	nothing(t, s)
}

// Whatever an archive says, it is refused with a reason or unpacked, and nothing of it lies elsewhere.
func FuzzArchive(f *testing.F) {
	layer := pack(f, dir("d"), file("d/a", "1"), link('2', "l", "d"), link('1', "h", "d/a"), file("l/b", "2"),
		file("d/.wh.a", ""), file(".wh..wh..opq", ""))
	f.Add(saved(f, runtime.GOARCH, layer))
	f.Add(gzipped(f, saved(f, runtime.GOARCH, layer)))
	f.Add(layer)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := open(t)
		for _, archive := range [][]byte{b, saved(t, runtime.GOARCH, b)} {
			if _, err := fetched(t, s, write(t, archive)); err != nil && !errors.Is(err, fetch.ErrUnusable) {
				t.Error(err)
			}
		}
	})
}

// layout is an archive of the OCI's image layout with those images in its list, and all that the registry has.
func (r *registry) layout(t testing.TB, images ...m) []byte {
	t.Helper()
	list, _ := json.Marshal(m{"schemaVersion": 2, "manifests": images})
	files := []entry{file("oci-layout", `{"imageLayoutVersion": "1.0.0"}`), file("index.json", string(list))}
	for d, b := range r.blobs {
		files = append(files, file("blobs/sha256/"+strings.TrimPrefix(d, "sha256:"), string(b)))
	}
	return pack(t, files...)
}

// An OCI archive has one image for this host, with any number of names, for any number of other hosts, and with what
// tells how it was built. One that has several is refused.
func TestAnOCIArchiveNamesOneImage(t *testing.T) {
	root(t)
	r := &registry{blobs: map[string][]byte{}, tags: map[string]string{}, kinds: map[string]string{}}
	a, b := pack(t, file("a", "1")), pack(t, file("b", "2"))
	on := func(d m, arch, variant string) m {
		d["platform"] = m{"os": "linux", "architecture": arch, "variant": variant}
		return d
	}
	first := func() m { return r.image(ociManifest, runtime.GOARCH, [][]byte{a}, [][]byte{a}) }
	second := func() m { return r.image(ociManifest, runtime.GOARCH, [][]byte{b}, [][]byte{b}) }
	foreign := on(r.image(ociManifest, "riscv64", [][]byte{b}, [][]byte{b}), "riscv64", "")
	note := r.addJSON(ociManifest, m{"schemaVersion": 2, "config": m{"digest": "sha256:" + sum(a)}})
	note["platform"] = m{"os": "unknown", "architecture": "unknown"}
	mine := func(d m) m { return on(d, runtime.GOARCH, "") }
	index := func(images ...m) m { return r.addJSON(ociIndex, m{"schemaVersion": 2, "manifests": images}) }
	named := first()
	named["annotations"] = m{"org.opencontainers.image.ref.name": "other"}
	inner := index(note, foreign, mine(first()))
	id := "sha256:" + sum([]byte(about(runtime.GOARCH, a)))
	for name, c := range map[string]struct {
		images []m
		found  int
	}{
		"one":                      {[]m{first()}, 1},
		"one and a note":           {[]m{note, mine(first())}, 1},
		"other hosts":              {[]m{foreign, mine(first()), note}, 1},
		"nested":                   {[]m{inner}, 1},
		"deep":                     {[]m{index(inner)}, 1},
		"two names":                {[]m{first(), named}, 1},
		"variants":                 {[]m{on(first(), runtime.GOARCH, "v1"), on(second(), runtime.GOARCH, "v2")}, 1},
		"nested of one platform":   {[]m{index(mine(first()), mine(second()))}, 1}, // as in a registry
		"two":                      {[]m{first(), second()}, 2},
		"two of a platform":        {[]m{mine(first()), mine(second())}, 2},
		"one of a platform":        {[]m{mine(first()), second()}, 2},
		"one of a platform, later": {[]m{second(), mine(first())}, 2},
		"nested and another":       {[]m{inner, mine(second())}, 2},
		"two names and another":    {[]m{mine(first()), mine(first()), note, mine(second())}, 2},
	} {
		ref := "oci-archive:" + strings.TrimPrefix(write(t, r.layout(t, c.images...)), "docker-archive:")
		i, err := fetched(t, open(t), ref)
		switch {
		case c.found == 1 && (err != nil || i.ID != id):
			t.Errorf("%s: %v, %v", name, i, err)
		case c.found > 1 && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d images", c.found))):
			t.Errorf("%s: %v", name, err)
		}
	}
}
