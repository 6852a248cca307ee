package docker

import (
	"context"
	"io/fs"
	"maps"
	"sync"

	"github.com/containerd/errdefs"
	types "github.com/docker/docker/api/types/container"

	"gantry/executor/container"
)

// file is a file of an image, if there is one at a path.
type file struct {
	link  string
	found bool
}

// land has container.Spec.Land look at the image of a container. The engine shows files of containers alone, so one is
// made that has no mounts, never runs, and goes at once. Files that were looked at are known from then on.
func (e *Engine) land(ctx context.Context, s *container.Spec, volumes []string) error {
	known, _ := e.files.LoadOrStore(s.Image, new(sync.Map))
	files, name, made := known.(*sync.Map), s.Name+"-look", false
	defer func() {
		if made { // gantry clean removes one that is left
			_ = e.cli.ContainerRemove(context.WithoutCancel(ctx), name, types.RemoveOptions{Force: true})
		}
	}()
	return s.Land(volumes, func(path string) (string, bool, error) {
		if f, ok := files.Load(path); ok {
			return f.(file).link, f.(file).found, nil
		}
		if !made {
			made = true
			labels := maps.Clone(s.Labels)
			delete(labels, container.LabelAttempt)
			_, err := e.cli.ContainerCreate(ctx, &types.Config{Image: s.Image, Entrypoint: []string{"/"},
				Labels: labels, NetworkDisabled: true}, &types.HostConfig{NetworkMode: "none"}, nil, nil, name)
			if err != nil && !errdefs.IsConflict(err) {
				return "", false, err
			}
		}
		st, err := e.cli.ContainerStatPath(ctx, name, path)
		if err != nil && !errdefs.IsNotFound(err) {
			return "", false, err
		}
		f := file{found: err == nil}
		if st.Mode&fs.ModeSymlink != 0 {
			f.link = st.LinkTarget
		}
		files.Store(path, f)
		return f.link, f.found, nil
	})
}
