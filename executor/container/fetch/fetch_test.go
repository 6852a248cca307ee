package fetch_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/distribution/reference"

	"gantry/executor/container/fetch"
)

// keeper has images by name or ID, and registries that have others.
type keeper struct{ here, registry map[string]string }

func (k keeper) Have(_ context.Context, _, ref string) (*fetch.Image, string, error) {
	if id := k.here[ref]; id != "" {
		return &fetch.Image{ID: id, Source: "local"}, "", nil
	}
	return nil, "nobody has it", nil
}

func (k keeper) FromArchive(_ context.Context, shown, path string) (*fetch.Image, error) {
	f, _, err := (&fetch.Options{Open: os.Open}).OpenArchive(shown, path)
	if err != nil {
		return nil, err
	}
	f.Close()
	return &fetch.Image{ID: "archived", Source: "loaded"}, nil
}

func (k keeper) FromRegistry(_ context.Context, shown string, named reference.Named) (*fetch.Image, error) {
	if id := k.registry[named.String()]; id != "" {
		return &fetch.Image{ID: id, Source: "pulled"}, nil
	}
	return nil, fetch.Refused(fetch.Absent, shown, reference.Domain(named), "404", fetch.Login{}, nil)
}

func TestWhereImagesComeFrom(t *testing.T) {
	digest := "host.io/tools@sha256:" + strings.Repeat("a", 64)
	k := keeper{map[string]string{"tools": "old", "old": "old"},
		map[string]string{"docker.io/library/tools:latest": "new", digest: "old"}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o      fetch.Options
		wanted fetch.Wanted
		want   string // the ID, or words of the error
	}{
		{fetch.Options{Pull: fetch.PullMissing}, fetch.Wanted{Ref: "tools"}, "old"},
		{fetch.Options{Pull: fetch.PullAlways}, fetch.Wanted{Ref: "docker://tools"}, "new"},
		{fetch.Options{Pull: fetch.PullNever}, fetch.Wanted{Ref: "other"}, "--pull never"},
		{fetch.Options{Look: true}, fetch.Wanted{Ref: "other"}, ""},
		{fetch.Options{}, fetch.Wanted{Ref: "host.io/other:1"}, "registry host.io does not have it: 404 (check"},
		{fetch.Options{}, fetch.Wanted{Ref: "UPPER"}, "write it as NAME:TAG"},
		{fetch.Options{Pull: fetch.PullAlways}, fetch.Wanted{Ref: "gantry/x:1"},
			"gantry image build gantry/x:1 PACKAGE"},
		{fetch.Options{}, fetch.Wanted{Ref: "file://" + self}, "archived"},
		{fetch.Options{}, fetch.Wanted{Ref: "oci-archive:" + t.TempDir()}, "it is not a regular file"},
		{fetch.Options{}, fetch.Wanted{Ref: "docker-archive:/none"}, "no such file"},
		// of a run that continues
		{fetch.Options{Pull: fetch.PullAlways}, fetch.Wanted{Ref: "tools", ID: "old"}, "old"},
		{fetch.Options{}, fetch.Wanted{Ref: "tools", ID: "lost"}, "lost, is no longer on this host"},
		{fetch.Options{}, fetch.Wanted{Ref: "file://" + self, ID: "lost"}, "it is archived now"},
		{fetch.Options{}, fetch.Wanted{Ref: "tools", ID: "lost", Digest: digest}, "it is old now"},
	} {
		o := c.o.Started(time.Minute)
		// All images that cannot be had are named at once, and one that can changes nothing.
		got, err := o.Bring(t.Context(), k, []fetch.Wanted{{Ref: "tools", ID: "old"}, c.wanted})
		switch {
		case err == nil && (got[1].ID != c.want || got[1].Ref != c.wanted.Ref):
			t.Errorf("%+v: %+v", c.wanted, got)
		case err != nil && (!errors.Is(err, fetch.ErrNoImage) || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), c.wanted.Ref) || c.want == ""):
			t.Errorf("%+v: %v", c.wanted, err)
		}
	}
	o := fetch.Options{}.Started(time.Minute)
	_, err = o.Bring(t.Context(), k, []fetch.Wanted{{Ref: "host.io/a"}, {Ref: "tools"}, {Ref: "host.io/b"}})
	if err == nil || !strings.Contains(err.Error(), "host.io/a") || !strings.Contains(err.Error(), "host.io/b") {
		t.Errorf("two that are missing: %v", err)
	}
}

func TestRegistriesThatRefuse(t *testing.T) {
	for _, c := range []struct {
		r      fetch.Refusal
		domain string
		login  fetch.Login
		err    error
		words  string
	}{
		{fetch.Limited, "docker.io", fetch.Login{}, nil, "limits pulls: no (docker login, or try again later)"},
		{fetch.Denied, "host", fetch.Login{}, errors.New("no helper"),
			"refuses it without a login: no; no helper (check the name, or log in with docker login host)"},
		{fetch.Denied, "host", fetch.Login{User: "ann"}, nil, "refuses it to the login of your Docker configuration"},
		{fetch.Certificate, "host", fetch.Login{}, nil, "/etc/docker/certs.d/host/ca.crt"},
	} {
		err := fetch.Refused(c.r, "x", c.domain, "no", c.login, c.err)
		if !errors.Is(err, fetch.ErrUnusable) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%v\ndoes not say %q", err, c.words)
		}
	}
}
