package container_test

import (
	"strings"
	"testing"

	"gantry/executor/container"
)

// Links of an image, "" for its other files, decide where mounts land: none may hide those of gantry, or lie in another
// one whose owner could move it.
func TestMountsLandWhereTheyAreMeantTo(t *testing.T) {
	own := []container.Mount{{Source: "/runs/a/work", Target: "/runs/a/work"},
		{Source: "/ctl", Target: "/.gantry/control"}, {Source: "/bin/task", Target: container.Launcher},
		{Source: "/ctl/tmp", Target: container.Tmp}}
	given := func(source, target string, readOnly bool) container.Mount {
		return container.Mount{Source: source, Target: target, ReadOnly: readOnly, Given: true}
	}
	data, job := given("/data", "/data", true), given("/data/job", "/data/job", false)
	type mounts []container.Mount
	for name, c := range map[string]struct {
		image   map[string]string
		mounts  mounts
		volumes []string
		nested  bool
		says    string // "" if it may be
	}{
		"nothing else":       {},
		"a directory beside": {mounts: mounts{data}},
		"a volume by a harmless link": {image: map[string]string{"/var": "", "/var/run": "../run", "/run": ""},
			volumes: []string{"/var/run/x"}},
		"/tmp is a link": {image: map[string]string{"/tmp": "var/tmp", "/var": "", "/var/tmp": ""}},
		"the launcher is a link": {image: map[string]string{container.Launcher: "v"},
			says: "a link on the way to /.gantry-task"},
		"/tmp is a link to gantry's": {image: map[string]string{"/tmp": ".gantry/control"},
			says: "the mount at /tmp hides"},
		"a circle of links": {image: map[string]string{"/a": "b", "/b": "a"}, volumes: []string{"/a"},
			says: "more than 40 links"},
		"up and down": {image: map[string]string{"/x": "", "/x/y": "../.."},
			volumes: []string{"/x/y/.gantry/control"}, says: "volume at /x/y/.gantry/control"},
		"a volume of the kernel":    {volumes: []string{"/proc/x"}, says: "volume at /proc/x"},
		"a volume in a mount":       {mounts: mounts{data}, volumes: []string{"/data/x"}, says: "volume at /data/x"},
		"above the work directory":  {mounts: mounts{given("/evil", "/runs", true)}, says: "one is in the other"},
		"above it, at its own path": {mounts: mounts{given("/runs", "/runs", true)}},
		"in the work directory": {mounts: mounts{given("/evil", "/runs/a/work/x", true)},
			says: "one is in the other"},
		"in another, nested":     {mounts: mounts{data, job}, nested: true},
		"the inner one first":    {mounts: mounts{job, data}, nested: true},
		"in another, not nested": {mounts: mounts{data, job}, says: "one is in the other"},
		"in one that may be written": {mounts: mounts{given("/data", "/data", false), job}, nested: true,
			says: "one is in the other"},
		"in another, at a place of it": {mounts: mounts{data, given("/x", "/data/job", true)}, nested: true,
			says: "one is in the other"},
	} {
		s := container.Spec{Mounts: append(append([]container.Mount{}, own...), c.mounts...), Nested: c.nested}
		err := s.Land(c.volumes, func(path string) (string, bool, error) {
			link, found := c.image[path]
			return link, found, nil
		})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: it says %v, want %q", name, err, c.says)
		}
	}
}
