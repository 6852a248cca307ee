package docker

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"
)

// Source gives images of the Docker Engine to others. It connects when it is first asked.
type Source struct {
	once sync.Once
	cli  *client.Client
	err  error
}

func (s *Source) client(ctx context.Context) (*client.Client, error) {
	s.once.Do(func() { s.cli, s.err = Connect(ctx, "") })
	return s.cli, s.err
}

// Find returns the ID of an image, and NAME@sha256:... in its registry, if any. found is false if the engine does not
// have it.
func (s *Source) Find(ctx context.Context, ref string) (id, digest string, found bool, err error) {
	cli, err := s.client(ctx)
	if err != nil {
		return "", "", false, err
	}
	a, err := cli.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) || errdefs.IsInvalidArgument(err) {
		return "", "", false, nil
	} else if err != nil {
		return "", "", false, fmt.Errorf("ask the Docker Engine for image %s: %w", ref, err)
	}
	return a.ID, digestOf(ref, a.RepoDigests), true, nil
}

// Label returns the value of a label of an image; "" if the engine does not have the image.
func (s *Source) Label(ctx context.Context, ref, label string) (string, error) {
	cli, err := s.client(ctx)
	if err != nil {
		return "", err
	}
	a, err := cli.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("ask the Docker Engine for image %s: %w", ref, err)
	}
	if a.Config == nil {
		return "", nil
	}
	return a.Config.Labels[label], nil
}

// Save returns an image as docker save writes it.
func (s *Source) Save(ctx context.Context, id string) (io.ReadCloser, error) {
	cli, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	return cli.ImageSave(ctx, []string{id})
}

// Close closes the connection.
func (s *Source) Close() {
	if s.cli != nil {
		s.cli.Close()
	}
}
