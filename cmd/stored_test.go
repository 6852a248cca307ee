package cmd

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gantry/cmd/internal/session"
	"gantry/executor/container/docker/registrytest"
	"gantry/executor/container/fetch"
	"gantry/executor/container/oci/image"
)

// An image has one ID, wherever it comes from: that of the Docker Engine, which reuse compares.
func TestAnImageIsTheSameFromEverywhere(t *testing.T) {
	needsBusybox(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root, to keep the owners of files")
	}
	domain, _ := registrytest.Serve(t, false)
	pushed := domain + "/tools:1"
	dockerDo(t, "tag", "gantry/busybox", pushed)
	t.Cleanup(func() { exec.Command("docker", "rmi", pushed).Run() })
	dockerDo(t, "push", pushed)
	id := dockerDo(t, "image", "inspect", "--format", "{{.Id}}", pushed)
	digest := dockerDo(t, "image", "inspect", "--format", "{{join .RepoDigests \" \"}}", id)
	dockerDo(t, "rmi", pushed)
	saved := filepath.Join(t.TempDir(), "saved.tar")
	dockerDo(t, "save", "-o", saved, "gantry/busybox")

	for ref, want := range map[string]struct{ source, digest string }{
		"gantry/busybox": {"unpacked", ""}, "docker://gantry/busybox:latest": {"unpacked", ""},
		pushed:            {"pulled", pushed},
		"file://" + saved: {"loaded", ""}} {
		t.Setenv(image.DirEnv, filepath.Join(t.TempDir(), "images"))
		for round, source := range []string{want.source, "local"} {
			got, s, err := session.RuntimeNamed("oci").Images.Fetch(t.Context(), string(fetch.PullMissing),
				[]fetch.Wanted{{Ref: ref}})
			if err != nil {
				t.Fatalf("%s: %v", ref, err)
			}
			if i := got[0]; i.ID != id || i.Source != source || i.Platform == "" || i.Bytes < 1<<20 ||
				want.digest != "" && (!strings.HasPrefix(i.Digest, domain+"/tools@sha256:") ||
					!strings.Contains(digest, i.Digest)) {
				t.Errorf("%s, round %d: %+v, not %s of %s (%s)", ref, round, i, source, id, digest)
			}
			if s != nil {
				s.Close()
			}
		}
		var list []image.Entry
		if err := json.Unmarshal([]byte(expect(t, exitOK, nil, "images", "--json")), &list); err != nil ||
			len(list) != 1 || list[0].ID != id || !list[0].Whole || len(list[0].Runs) != 0 || len(list[0].Names) == 0 {
			t.Errorf("%s: %+v, %v", ref, list, err)
		}
		expect(t, exitOK, []string{id[7:19]}, "images")
		must(t, os.RemoveAll(filepath.Join(os.Getenv(image.DirEnv), "layers")))
		expect(t, exitOK, []string{"damaged", "unpacked again when a run names it"}, "images")
		_, s, err := session.RuntimeNamed("oci").Images.Fetch(t.Context(), string(fetch.PullMissing),
			[]fetch.Wanted{{Ref: ref}})
		must(t, err)
		s.Close()
		if out := expect(t, exitOK, []string{"whole"}, "images"); strings.Contains(out, "damaged") {
			t.Errorf("%s: %s", ref, out)
		}
	}
}
