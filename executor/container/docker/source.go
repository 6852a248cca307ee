package docker

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
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
	a, err := s.inspect(ctx, ref)
	if a == nil {
		return "", "", false, err
	}
	return a.ID, digestOf(ref, a.RepoDigests), true, nil
}

// inspect asks for an image; nil if the engine does not have it.
func (s *Source) inspect(ctx context.Context, ref string) (*image.InspectResponse, error) {
	cli, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	a, err := cli.ImageInspect(ctx, ref)
	switch {
	case errdefs.IsNotFound(err), errdefs.IsInvalidArgument(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ask the Docker Engine for image %s: %w", ref, err)
	}
	return &a, nil
}

// Label returns the value of a label of an image; "" if the engine does not have the image.
func (s *Source) Label(ctx context.Context, ref, label string) (string, error) {
	a, err := s.inspect(ctx, ref)
	if a == nil || a.Config == nil {
		return "", err
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
