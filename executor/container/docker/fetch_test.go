package docker_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"

	"gantry/executor/container/docker"
	"gantry/executor/container/docker/registrytest"
	"gantry/executor/container/fetch"
)

// archive returns what "docker save" writes of an image of one file.
func archive(t *testing.T, ref, content, arch string) []byte {
	t.Helper()
	pack := func(files ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := 0; i < len(files); i += 2 {
			h := &tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1])), Format: tar.FormatUSTAR}
			must(t, w.WriteHeader(h))
			io.WriteString(w, files[i+1])
		}
		w.Close()
		return b.Bytes()
	}
	layer := pack("content", content)
	about := fmt.Sprintf(`{"architecture": %q, "os": "linux", "config": {}, "rootfs": {"type": "layers", `+
		`"diff_ids": ["sha256:%x"]}}`, arch, sha256.Sum256(layer))
	name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(about)))
	return pack(name, about, "layer.tar", string(layer), "manifest.json",
		fmt.Sprintf(`[{"Config": %q, "RepoTags": [%q], "Layers": ["layer.tar"]}]`, name, ref))
}

// push pushes an image of one file; the engine keeps nothing of it.
func push(t *testing.T, cli *client.Client, ref, content string, login registry.AuthConfig, arch string) {
	t.Helper()
	if !strings.Contains(strings.TrimPrefix(ref, strings.SplitN(ref, "/", 2)[0]), ":") {
		ref += ":latest"
	}
	loaded, err := cli.ImageLoad(t.Context(), bytes.NewReader(archive(t, ref, content, arch)))
	must(t, err)
	io.Copy(io.Discard, loaded.Body)
	loaded.Body.Close()
	drop(t, cli, ref)
	auth, err := registry.EncodeAuthConfig(login)
	must(t, err)
	answer, err := cli.ImagePush(t.Context(), ref, image.PushOptions{RegistryAuth: auth})
	must(t, err)
	text, _ := io.ReadAll(answer)
	answer.Close()
	if bytes.Contains(text, []byte(`"error"`)) {
		t.Fatalf("push %s: %s", ref, text)
	}
	remove(t, cli, ref)
}

// drop removes an image when the test ends.
func drop(t *testing.T, cli *client.Client, ref string) {
	t.Cleanup(func() { cli.ImageRemove(context.Background(), ref, image.RemoveOptions{Force: true}) })
}

func remove(t *testing.T, cli *client.Client, ref string) {
	t.Helper()
	if _, err := cli.ImageRemove(t.Context(), ref, image.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
}

// fetch fetches one image.
func fetched(t *testing.T, pull fetch.Pull, wanted fetch.Wanted) (fetch.Image, error) {
	t.Helper()
	got, err := docker.Fetch(t.Context(), fetch.Options{Pull: pull}, []fetch.Wanted{wanted})
	if err != nil {
		return fetch.Image{}, err
	}
	return got[0], nil
}

// refuses expects an error that names the image and says all words.
func refuses(t *testing.T, err, kind error, ref string, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%v is not %v", err, kind)
		return
	}
	for _, w := range append(words, ref) {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v\ndoes not say %q", err, w)
		}
	}
}

// dockerConfig makes the test's user one with this Docker configuration, in a directory that is returned.
func dockerConfig(t *testing.T, config any) string {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(config)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
	t.Setenv("DOCKER_CONFIG", dir)
	return dir
}

type config map[string]any

func TestImagesArriveFromARegistry(t *testing.T) {
	engine(t)
	cli, err := docker.Connect(t.Context(), "")
	must(t, err)
	defer cli.Close()
	dockerConfig(t, config{})
	domain, storage := registrytest.Serve(t, false)
	one, two := domain+"/one:1", domain+"/two"
	push(t, cli, one, "first "+domain, registry.AuthConfig{}, runtime.GOARCH)
	push(t, cli, two, "second "+domain, registry.AuthConfig{}, runtime.GOARCH)

	var mu sync.Mutex
	began, ended := map[string]bool{}, map[string]string{}
	both := fetch.Options{Pull: fetch.PullMissing,
		Begin: func(ref, _ string) { mu.Lock(); began[ref] = true; mu.Unlock() },
		End:   func(i fetch.Image) { mu.Lock(); ended[i.Ref] = i.ID; mu.Unlock() }}
	got, err := docker.Fetch(t.Context(), both, []fetch.Wanted{{Ref: one}, {Ref: "docker://" + two}, {Ref: busybox}})
	must(t, err)
	if !began[one] || !began["docker://"+two] || began[busybox] || ended[one] != got[0].ID {
		t.Errorf("began %v, ended %v", began, ended)
	}
	for i, ref := range []string{one, "docker://" + two, busybox} {
		x, source, digest := got[i], "pulled", strings.HasPrefix(got[i].Digest, domain)
		if ref == busybox {
			source, digest = "local", got[i].Digest == ""
		}
		if x.Ref != ref || x.Source != source || !digest || !strings.HasPrefix(x.ID, "sha256:") || x.Bytes == 0 {
			t.Errorf("%s: %+v", ref, x)
		}
	}
	if x, err := fetched(t, fetch.PullMissing, fetch.Wanted{Ref: one}); err != nil || x.Source != "local" ||
		x.ID != got[0].ID || x.Digest != got[0].Digest {
		t.Errorf("again: %+v, %v", x, err)
	}

	// The tag moves: only always sees it, and a run continues with its first image.
	push(t, cli, one, "third "+domain, registry.AuthConfig{}, runtime.GOARCH)
	moved, err := fetched(t, fetch.PullAlways, fetch.Wanted{Ref: one})
	if err != nil || moved.ID == got[0].ID || moved.Source != "pulled" {
		t.Errorf("after the tag moved: %+v, %v", moved, err)
	}
	before := fetch.Wanted{Ref: one, ID: got[0].ID, Digest: got[0].Digest}
	if x, err := fetched(t, fetch.PullMissing, before); err != nil || x.ID != got[0].ID {
		t.Errorf("the image of before: %+v, %v", x, err)
	}
	remove(t, cli, got[0].Digest)
	_, err = fetched(t, fetch.PullNever, before)
	refuses(t, err, fetch.ErrNoImage, one, got[0].ID, "no longer")

	// An archive stands for its image, too.
	path, text := filepath.Join(t.TempDir(), "one.tar"), archive(t, one, "third "+domain, runtime.GOARCH)
	for i, source := range []string{"local", "loaded", "loaded"} {
		if i == 2 { // compressed
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write(text)
			z.Close()
			text = b.Bytes()
		}
		must(t, os.WriteFile(path, text, 0o644))
		x, err := fetched(t, fetch.PullMissing, fetch.Wanted{Ref: "file://" + path})
		if err != nil || x.Source != source || x.ID != moved.ID {
			t.Errorf("archive: %+v, %v", x, err)
		}
		remove(t, cli, one)
	}
	for _, bad := range [][]byte{text[:len(text)/2], nil, []byte("no archive")} {
		must(t, os.WriteFile(path, bad, 0o644))
		_, err = fetched(t, fetch.PullMissing, fetch.Wanted{Ref: "file://" + path})
		refuses(t, err, fetch.ErrNoImage, path, "docker save")
	}
	changed := bytes.Replace(archive(t, one, "fourth "+domain, runtime.GOARCH), []byte("fourth"), []byte("fifth!"), 1)
	must(t, os.WriteFile(path, changed, 0o644))
	_, err = fetched(t, fetch.PullMissing, fetch.Wanted{Ref: "file://" + path})
	refuses(t, err, fetch.ErrUnusable, path, "docker load: ", "(write it again with docker save)")

	// What cannot be had.
	_, err = fetched(t, fetch.PullMissing, fetch.Wanted{Ref: domain + "/one:absent"})
	refuses(t, err, fetch.ErrNoImage, domain+"/one:absent", "does not have it", "check name, tag and digest")
	wrong := domain + "/one@sha256:" + strings.Repeat("a", 64)
	_, err = fetched(t, fetch.PullMissing, fetch.Wanted{Ref: wrong})
	refuses(t, err, fetch.ErrNoImage, wrong, "does not have it")
	_, err = fetched(t, fetch.PullMissing, fetch.Wanted{Ref: "127.0.0.1:1/x"})
	refuses(t, err, fetch.ErrUnusable, "127.0.0.1:1/x", "cannot be reached", "connection refused", "docker load")
	// Somebody who accepts connections and says nothing is given up on.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	mute := silent.Addr().String() + "/x"
	impatient := fetch.Options{Pull: fetch.PullMissing, Patience: 300 * time.Millisecond}
	_, err = docker.Fetch(t.Context(), impatient, []fetch.Wanted{{Ref: mute}})
	refuses(t, err, fetch.ErrUnusable, mute, "no answer, and no progress for 300ms", "check that it is up")
	foreign := domain + "/foreign"
	push(t, cli, foreign, "foreign "+domain, registry.AuthConfig{}, "s390x")
	_, err = fetched(t, fetch.PullMissing, fetch.Wanted{Ref: foreign})
	refuses(t, err, fetch.ErrUnusable, foreign, "linux/s390x", "this host is linux/")

	// The registry's disk has gone wrong.
	damaged := domain + "/damaged"
	push(t, cli, damaged, "damaged "+domain, registry.AuthConfig{}, runtime.GOARCH)
	err = filepath.WalkDir(storage, func(path string, d fs.DirEntry, err error) error {
		text, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || bytes.HasPrefix(text, []byte("{")) || filepath.Base(path) != "data" {
			return err
		}
		text[len(text)-1] ^= 1
		return os.WriteFile(path, text, 0o644)
	})
	must(t, err)
	_, err = fetched(t, fetch.PullMissing, fetch.Wanted{Ref: damaged})
	refuses(t, err, fetch.ErrUnusable, damaged, "digest")
}

// An image for another kind of host is there, and cannot be used.
func TestAnImageForAnotherHostIsUnusable(t *testing.T) {
	t.Parallel()
	engine(t)
	name := fmt.Sprintf("gantry-test-%x:1", time.Now().UnixNano())
	path := filepath.Join(t.TempDir(), "image.tar")
	must(t, os.WriteFile(path, archive(t, name, "content", "s390x"), 0o644))
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "--force", name).Run() })
	for range 2 { // the second finds it in the engine
		_, err := fetched(t, fetch.PullMissing, fetch.Wanted{Ref: "file://" + path})
		refuses(t, err, fetch.ErrUnusable, "linux/s390x", "this host is")
	}
	_, err := fetched(t, fetch.PullMissing, fetch.Wanted{Ref: name})
	refuses(t, err, fetch.ErrUnusable, name, "linux/s390x")
}

func TestImagesArriveWithTheLoginOfTheUser(t *testing.T) {
	engine(t)
	cli, err := docker.Connect(t.Context(), "")
	must(t, err)
	defer cli.Close()
	domain, _ := registrytest.Serve(t, true)
	ref := domain + "/private"
	push(t, cli, ref, "private "+domain,
		registry.AuthConfig{Username: registrytest.User, Password: registrytest.Password}, runtime.GOARCH)
	wanted := fetch.Wanted{Ref: ref}
	auths := func(password string) config {
		both := base64.StdEncoding.EncodeToString([]byte(registrytest.User + ":" + password))
		return config{"auths": config{domain: config{"auth": both}}}
	}

	dockerConfig(t, config{})
	_, err = fetched(t, fetch.PullMissing, wanted)
	refuses(t, err, fetch.ErrUnusable, ref, "without a login", "docker login "+domain)
	dockerConfig(t, auths("wrong"))
	_, err = fetched(t, fetch.PullMissing, wanted)
	refuses(t, err, fetch.ErrUnusable, ref, "the login of your Docker configuration", "docker login "+domain)
	dockerConfig(t, auths(registrytest.Password))
	if _, err = fetched(t, fetch.PullMissing, wanted); err != nil {
		t.Fatal(err)
	}
	remove(t, cli, ref)

	// A credential helper is asked, one for all registries or for this one.
	dir := dockerConfig(t, config{"credsStore": "test"})
	helper := filepath.Join(dir, "docker-credential-test")
	answer := `#!/bin/sh
read -r server
[ "$1 $server" = "get ` + domain + `" ] || { echo credentials not found in native keychain; exit 1; }
echo '{"ServerURL": "'"$server"'", "Username": "ann", "Secret": "pass word"}'
`
	must(t, os.WriteFile(helper, []byte(answer), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if _, err = fetched(t, fetch.PullMissing, wanted); err != nil {
		t.Fatal(err)
	}
	remove(t, cli, ref)
	dockerConfig(t, config{"credHelpers": config{domain: "absent"}})
	_, err = fetched(t, fetch.PullMissing, wanted)
	refuses(t, err, fetch.ErrUnusable, ref, "docker-credential-absent", "docker login "+domain)
	dir = dockerConfig(t, config{"credHelpers": config{domain: "test"}, "credsStore": "absent"})
	if _, err = fetched(t, fetch.PullMissing, wanted); err != nil {
		t.Fatal(err)
	}
	remove(t, cli, ref)
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"auths": `), 0o600))
	_, err = fetched(t, fetch.PullMissing, wanted)
	refuses(t, err, fetch.ErrUnusable, ref, "config.json")
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
