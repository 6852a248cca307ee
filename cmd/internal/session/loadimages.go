package session

import (
	"context"
	"os"

	"gantry/executor/container/docker"
	"gantry/executor/container/fetch"
	"gantry/executor/container/oci/image"
)

// loadDocker loads an archive into the Docker Engine, which takes the name from it.
func loadDocker(ctx context.Context, _ string, archive *os.File) error {
	_, err := docker.Fetch{Options: fetch.Options{Pull: fetch.PullAlways}}.Images(ctx,
		[]fetch.Wanted{{Ref: "file://" + archive.Name()}})
	return err
}

// labelDocker asks the Docker Engine for a label of an image.
func labelDocker(ctx context.Context, ref, label string) (string, error) {
	engine := &docker.Source{}
	defer engine.Close()
	return engine.Label(ctx, ref, label)
}

// withStore does something with the store of images.
func withStore(do func(*image.Store) error) error {
	s, err := OpenStore()
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

func loadStored(ctx context.Context, ref string, archive *os.File) error {
	return withStore(func(s *image.Store) error { return s.Load(ctx, fetch.Options{}, ref, archive) })
}

func labelStored(_ context.Context, ref, label string) (text string, err error) {
	err = withStore(func(s *image.Store) error {
		text = s.Label(ref, label)
		return nil
	})
	return text, err
}
