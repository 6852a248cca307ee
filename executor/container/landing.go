package container

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
)

// An engine follows links of the image, and of directories that are mounted already, to where a mount is to be. The
// owner of the image or of such a directory could thus put it over the launcher, which begins as root, or over the
// control directory. So an engine looks first where each mount lands.

// Look returns the target of a link in an image, "" for other files, and whether there is one at all. The directories
// on the way to path are no links.
type Look func(path string) (link string, found bool, err error)

// Reserved reports whether a path of a container is gantry's own: no mount goes there through a link, and an engine
// that can makes the mounts there after all others.
func Reserved(path string) bool {
	return Inside(path, controlTop) || Inside(path, Launcher)
}

// Inside reports whether path is dir, or in it.
func Inside(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// landed is a mount, and where it lands.
type landed struct {
	Mount
	at string
}

// own reports whether a directory is mounted at its own path: mounts below it are where the host has them.
func (m *landed) own() bool { return m.at == m.Target && m.Source == m.Target }

// Land refuses mounts of a container, and volumes of its image, that would lead to the mounts of gantry itself or hide
// them.
func (s *Spec) Land(volumes []string, look Look) error {
	all := slices.Clone(s.Mounts)
	for path := range s.Tmpfs {
		all = append(all, Mount{Target: path})
	}
	if s.Edits != nil {
		for _, m := range s.Edits.Mounts {
			all = append(all, Mount{Source: m.HostPath, Target: m.ContainerPath})
		}
	}
	var mounts []landed
	for _, m := range all {
		at, err := landing(m.Target, look)
		if err != nil {
			return err
		}
		if Reserved(m.Target) && !m.Given {
			if at != m.Target {
				return refusal("the image has a link on the way to %s, where gantry needs a file or directory",
					m.Target)
			}
			continue
		}
		if Reserved(at) || at == "/" {
			return refusal("the mount at %s hides %s, which gantry needs: mount it elsewhere", m.Target, at)
		}
		if at != Tmp || m.Given { // which is empty, and the attempt's alone
			mounts = append(mounts, landed{m, at})
		}
	}
	for i := range mounts {
		for k := range mounts {
			outer, inner := &mounts[i], &mounts[k]
			if i == k || !Inside(inner.at, outer.at) || !outer.Given && !inner.Given || outer.Source == "" {
				continue
			}
			// The owner of the outer one chooses the place of the inner one.
			if !outer.Given || !outer.own() || inner.Given && !(s.Nested && outer.ReadOnly && inner.own()) {
				return refusal("of the mounts at %s and %s one is in the other: mount one elsewhere", outer.Target,
					inner.Target)
			}
		}
	}
	for _, v := range volumes {
		at, err := landing(v, look)
		if err != nil {
			return err
		}
		if Reserved(at) || slices.ContainsFunc(mounts, func(m landed) bool { return Inside(at, m.at) }) ||
			slices.ContainsFunc(system, func(dir string) bool { return Inside(at, dir) }) {
			return refusal("the image declares a volume at %s, where there is a mount", v)
		}
	}
	return nil
}

// system are places at which an image has no volume.
var system = []string{"/proc", "/sys", "/dev", SecretsIn}

func refusal(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errdefs.ErrInvalidArgument}, args...)...)
}

// landing is where a path of a container leads by the links of its image.
func landing(path string, look Look) (string, error) {
	at, todo, links := "/", strings.Split(path, "/"), 0
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if name == "" || name == "." || name == ".." {
			at = filepath.Join(at, name)
			continue
		}
		next := filepath.Join(at, name)
		link, found, err := look(next)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s in the image: %w", next, err)
		case !found:
			return filepath.Join(next, filepath.Join(todo...)), nil
		case link == "":
			at = next
			continue
		}
		if links++; links > mostLinks {
			return "", refusal("%s leads through more than %d links of the image", path, mostLinks)
		}
		if filepath.IsAbs(link) {
			at = "/"
		}
		todo = append(strings.Split(link, "/"), todo...)
	}
	return at, nil
}

const mostLinks = 40 // as the kernel follows
