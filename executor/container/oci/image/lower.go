package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"gantry/executor/container/fetch"
)

// Lower returns the image's layers as the value of overlay's option lowerdir, the highest first, with names in dir:
// the kernel takes a page of mount options, and dir may have a long path, or one that overlay cannot take. Both are ""
// if the image has no layers.
func (i *Image) Lower() (dir, lowerdir string, err error) {
	if len(i.Layers) == 0 {
		return "", "", nil
	}
	s := i.store
	var links []string
	for _, d := range slices.Backward(i.layers) {
		if _, ok := s.layerBytes(d); !ok {
			return "", "", fmt.Errorf("%w: layer %s of image %s is no longer in the store", fetch.ErrUnusable, d, i.ID)
		}
		if err := s.makeLink(d); err != nil {
			return "", "", fmt.Errorf("store of images: %w", err)
		}
		links = append(links, link(d))
	}
	return filepath.Join(s.dir, "l"), strings.Join(links, ":"), nil
}

// link is the name of the short link to a layer.
func link(d digest.Digest) string { return d.Encoded()[:16] }

// makeLink makes the short link to a layer.
func (s *Store) makeLink(d digest.Digest) error {
	path, target := filepath.Join(s.dir, "l", link(d)), "../layers/"+d.Encoded()+"/fs"
	err := os.Symlink(target, path)
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	if to, err := os.Readlink(path); err != nil || to != target {
		return errors.Join(err, fmt.Errorf("layer %s: %s, whose digest begins alike, has the link %s", d, to, path))
	}
	return nil
}
