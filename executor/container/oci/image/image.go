// Package image is a store of container images on disk, for containers without a daemon. An image comes from the Docker
// Engine, from an archive or from a registry. Each of its layers is verified and unpacked once, into a directory in the
// form that overlayfs takes as a lower one.
package image

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"gantry/executor/container/fetch"
)

// Image is an image whose layers are all in the store.
type Image struct {
	fetch.Image // its ID is the digest of its configuration, as with Docker's own image store

	// Layers are the digests of its layers' plain archives, the lowest first: those of an overlay, of which each hides
	// the files below.
	Layers []digest.Digest
	// Config is the image's configuration of its programs: environment, working directory, entry point.
	Config v1.ImageConfig

	store *Store
}

// maxConfig bounds the read of an image's configuration, and of each list in archives and registries.
const maxConfig = 4 << 20

// maxLayers is how many layers an image may have, as with Docker: the options of a mount are a page at most.
const maxLayers = 127

func parseConfig(text []byte) (*v1.Image, error) {
	c := new(v1.Image)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, damaged("its configuration: %w", err)
	}
	if c.RootFS.Type != "layers" {
		return nil, damaged("its configuration names no layers")
	}
	if len(c.RootFS.DiffIDs) > maxLayers {
		return nil, damaged("it has %d layers, at most %d can be mounted", len(c.RootFS.DiffIDs), maxLayers)
	}
	for _, d := range c.RootFS.DiffIDs {
		if err := known(d); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// known accepts digests that can be names of files.
func known(d digest.Digest) error {
	if err := d.Validate(); err != nil {
		return damaged("digest %q: %w", d, err)
	}
	if d.Algorithm() != digest.SHA256 {
		return damaged("digest %s: only sha256 is known", d)
	}
	return nil
}

// platform is the short form of a platform.
func platform(p v1.Platform) string {
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// image describes an image of the store by its configuration.
func (s *Store) image(id digest.Digest, c *v1.Image) *Image {
	i := &Image{Image: fetch.Image{ID: string(id), Platform: c.OS + "/" + c.Architecture, Source: "local"},
		Config: c.Config, store: s}
	for k, d := range c.RootFS.DiffIDs {
		// Overlayfs takes no layer twice. The higher one hides all that is in the lower.
		if !slices.Contains(c.RootFS.DiffIDs[k+1:], d) {
			i.Layers = append(i.Layers, d)
		}
	}
	return i
}

// Lower returns the image's layers as the value of overlay's option lowerdir, the highest first, with names in dir:
// the kernel takes a page of mount options, and dir may have a long path, or one that overlay cannot take. The value is
// "" if the image has no layers. Nothing may be written there.
func (i *Image) Lower() (dir, lowerdir string, err error) {
	var names []string
	for _, d := range slices.Backward(i.Layers) {
		if _, ok := i.store.layerBytes(d); !ok {
			return "", "", fmt.Errorf("%w: layer %s of image %s is no longer in the store", fetch.ErrUnusable, d, i.ID)
		}
		names = append(names, short(d)+"/fs")
	}
	return filepath.Join(i.store.dir, "layers"), strings.Join(names, ":"), nil
}

// short names a layer: 80 bits of its digest.
func short(d digest.Digest) string { return d.Encoded()[:20] }

// layerDir has the files of a layer, in fs.
func (s *Store) layerDir(d digest.Digest) string { return filepath.Join(s.dir, "layers", short(d)) }
