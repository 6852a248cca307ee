package docker

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"gantry/executor/container/fetch"
)

// FromArchive implements fetch.Keeper. An image that the engine has already is loaded again only if all are fetched.
func (x *fetcher) FromArchive(ctx context.Context, shown, name string) (*fetch.Image, error) {
	f, _, err := x.OpenArchive(shown, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const one = "write one with docker save that has only the image that is meant"
	ids, err := archived(f)
	switch {
	case err != nil:
		return nil, fetch.NoImage(shown, err.Error(), "write it again with docker save")
	case len(ids) > 1:
		return nil, fetch.NoImage(shown, fmt.Sprintf("the archive has %d images", len(ids)), one)
	case len(ids) == 1 && x.Pull != fetch.PullAlways:
		if i, _, err := x.Have(ctx, shown, ids[0]); i != nil || errors.Is(err, fetch.ErrUnusable) {
			return i, err
		}
	}
	if x.Look {
		return &fetch.Image{Source: "load"}, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fetch.Unusable(shown, err.Error(), "read it from another disk")
	}
	x.Begin(shown, "loading")
	answer, err := x.cli.ImageLoad(patient(ctx), f)
	var text []string
	if err == nil {
		text, err = x.follow(shown, answer.Body, func() {})
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, x.why(ctx, shown, "", fetch.Login{}, nil, fmt.Errorf("docker load: %w", err))
	}
	var loaded *fetch.Image
	for _, line := range text {
		_, ref, ok := strings.Cut(line, "Loaded image: ")
		if !ok {
			_, ref, ok = strings.Cut(line, "Loaded image ID: ")
		}
		if !ok {
			continue
		}
		i, err := x.arrived(ctx, shown, ref, "loaded")
		if err != nil {
			return nil, err
		}
		if loaded != nil && loaded.ID != i.ID {
			return nil, fetch.NoImage(shown, "the archive has several images", one)
		}
		loaded = i
	}
	if loaded == nil {
		return nil, fetch.NoImage(shown, "the archive has no image: "+strings.Join(text, " "),
			"write it with docker save")
	}
	return loaded, nil
}

// maxManifest bounds the read of an archive's list of images.
const maxManifest = 1 << 20

// archived returns the IDs of the images in an archive of "docker save", plain or gzip; nil if it does not say. An
// engine with containerd's image store knows them by other IDs.
func archived(f io.Reader) (ids []string, err error) {
	in := bufio.NewReader(f)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("not a whole gzip archive: %w", err)
		}
		defer z.Close()
		in = bufio.NewReader(z)
	} else if start, _ := in.Peek(262); len(start) < 262 || string(start[257:262]) != "ustar" {
		if bytes.HasPrefix(start, []byte("BZh")) || bytes.HasPrefix(start, []byte("\xfd7zXZ")) ||
			bytes.HasPrefix(start, []byte("\x28\xb5\x2f\xfd")) {
			return nil, nil // compressed in a way that the engine knows
		}
		return nil, errors.New("not an archive of docker save")
	}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil, nil
		} else if err != nil {
			return nil, fmt.Errorf("damaged or cut off: %w", err)
		}
		if h.Name != "manifest.json" {
			continue
		}
		var list []struct{ Config string }
		if err := json.NewDecoder(io.LimitReader(r, maxManifest)).Decode(&list); err != nil {
			return nil, fmt.Errorf("damaged manifest.json: %w", err)
		}
		for _, one := range list {
			ids = append(ids, "sha256:"+strings.TrimSuffix(path.Base(one.Config), ".json"))
		}
		return ids, nil
	}
}
