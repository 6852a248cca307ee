package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// source is where an image comes from.
type source struct {
	id     digest.Digest // of config
	config []byte
	layers []blob // the lowest first
	digest string // NAME@sha256:... in a registry, or ""
	close  func()
}

// maxFiles bounds the list of an archive's files.
const maxFiles = 100_000

// archived is an archive of files that can be read in any order.
type archived struct {
	file  *os.File
	files map[string]part
}

// part is where the content of a file lies in an archive.
type part struct {
	at, size int64
	to       string // of a link: the file's name
}

// index finds the files of a tar archive.
func index(f *os.File) (*archived, error) {
	a := &archived{f, map[string]part{}}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		switch {
		case err == io.EOF:
			return a, nil
		case err != nil && len(a.files) == 0:
			return nil, damaged("it is no archive of images: %w", err)
		case err != nil:
			return nil, tarError(err)
		case len(a.files) == maxFiles:
			return nil, damaged("it has more than %d files", maxFiles)
		}
		name := path.Clean(strings.TrimLeft(h.Name, "/"))
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			a.files[name] = part{at: at, size: h.Size}
		case tar.TypeSymlink:
			a.files[name] = part{to: path.Join(path.Dir(name), h.Linkname)}
		case tar.TypeLink:
			a.files[name] = part{to: path.Clean(strings.TrimLeft(h.Linkname, "/"))}
		}
	}
}

// open returns a file of the archive. Docker saves equal layers once, and links to them.
func (a *archived) open(name string) (*io.SectionReader, error) {
	to := path.Clean(name)
	for range 10 {
		p, ok := a.files[to]
		if to = p.to; ok && to == "" {
			return io.NewSectionReader(a.file, p.at, p.size), nil
		}
	}
	return nil, damaged("it has no file %q", shorten(name))
}

// read returns a small file of the archive.
func (a *archived) read(name string) ([]byte, error) {
	f, err := a.open(name)
	if err != nil {
		return nil, err
	}
	if f.Size() > maxConfig {
		return nil, damaged("its file %s has %d bytes, %d at most are read", shorten(name), f.Size(), maxConfig)
	}
	text, err := io.ReadAll(f)
	if err == nil && int64(len(text)) < f.Size() {
		err = damaged("it is cut off in %s", shorten(name))
	}
	return text, err
}

// blob is a layer in the archive.
func (a *archived) blob(name string, d digest.Digest) (blob, error) {
	f, err := a.open(name)
	if err != nil {
		return blob{}, err
	}
	return blob{digest: d, size: f.Size(), verify: true, open: func(context.Context) io.ReadCloser {
		return io.NopCloser(io.NewSectionReader(f, 0, f.Size()))
	}}, nil
}

// blobs has the files of an OCI archive, by their digests.
const blobs = "blobs/sha256/"

// image reads the archive's description of its one image for this host: Docker's list, else that of the OCI.
func (a *archived) image() (*source, error) {
	if _, ok := a.files["manifest.json"]; ok {
		return a.docker()
	}
	if _, ok := a.files["index.json"]; ok {
		return a.oci()
	}
	return nil, damaged("it is no archive of images: it has neither manifest.json nor index.json")
}

func (a *archived) docker() (*source, error) {
	text, err := a.read("manifest.json")
	if err != nil {
		return nil, err
	}
	var list []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, damaged("manifest.json: %w", err)
	}
	if len(list) != 1 {
		return nil, damaged("it has %d images, not the one that is meant", len(list))
	}
	src := &source{close: func() {}}
	if src.config, err = a.read(list[0].Config); err != nil {
		return nil, err
	}
	src.id = digest.FromBytes(src.config)
	if want := digestIn(list[0].Config); want != "" && want != src.id {
		return nil, damaged("its configuration has the digest %s, not %s", src.id, want)
	}
	for _, name := range list[0].Layers {
		var d digest.Digest
		if hex, ok := strings.CutPrefix(name, blobs); ok {
			d = digest.NewDigestFromEncoded(digest.SHA256, hex)
		}
		b, err := a.blob(name, d)
		if err != nil {
			return nil, err
		}
		src.layers = append(src.layers, b)
	}
	return src, nil
}

// digestIn is the digest that the name of a configuration is, as HEX.json, blobs/sha256/HEX or sha256:HEX; "" if it is
// none: programs other than Docker's may give it any name.
func digestIn(name string) digest.Digest {
	hex := strings.TrimPrefix(strings.TrimSuffix(path.Base(name), ".json"), "sha256:")
	d := digest.NewDigestFromEncoded(digest.SHA256, hex)
	if d.Validate() != nil {
		return ""
	}
	return d
}

// oci reads an archive of the OCI's image layout.
func (a *archived) oci() (*source, error) {
	text, err := a.read("index.json")
	if err != nil {
		return nil, err
	}
	return described(text, true, func(d v1.Descriptor) ([]byte, error) {
		return a.read(blobs + d.Digest.Encoded())
	}, func(d v1.Descriptor) (blob, error) {
		return a.blob(blobs+d.Digest.Encoded(), d.Digest)
	})
}

// described is the image of a manifest, or of a list of manifests; see choose. Get returns a manifest or a
// configuration.
func described(text []byte, several bool, get func(v1.Descriptor) ([]byte, error),
	layer func(v1.Descriptor) (blob, error)) (*source, error) {
	get = checked(get)
	m, err := choose(text, get, several)
	if err != nil {
		return nil, err
	}
	src := &source{id: m.Config.Digest, close: func() {}}
	if src.config, err = get(m.Config); err != nil {
		return nil, err
	}
	for _, l := range m.Layers {
		b, err := checked(layer)(l)
		if err != nil {
			return nil, err
		}
		src.layers = append(src.layers, b)
	}
	return src, nil
}

// checked is get for descriptors with a digest that is known.
func checked[T any](get func(v1.Descriptor) (T, error)) func(v1.Descriptor) (T, error) {
	return func(d v1.Descriptor) (x T, err error) {
		if err := known(d.Digest); err != nil {
			return x, err
		}
		return get(d)
	}
}

// maxDepth is how deep lists of images may lie in each other.
const maxDepth = 4

// choose finds the manifest for this host in a manifest, or in a list of them that may have lists in turn. With
// several the text is a list of images, instead of the platforms of one image: it has to name one for this host.
func choose(text []byte, get func(v1.Descriptor) ([]byte, error), several bool) (*v1.Manifest, error) {
	for depth := range maxDepth {
		var x struct {
			v1.Manifest
			Manifests []v1.Descriptor `json:"manifests"`
			// of the form before 2016
			SchemaVersion int `json:"schemaVersion"`
		}
		if err := json.Unmarshal(text, &x); err != nil {
			return nil, damaged("manifest: %w", err)
		}
		switch {
		case x.SchemaVersion == 1:
			return nil, damaged("its manifest is of schema 1, which Docker gave up: push it again")
		case x.Manifests == nil && x.Config.Digest == "":
			return nil, damaged("its manifest names neither configuration nor images")
		case x.Manifests == nil:
			return &x.Manifest, nil
		}
		d, err := among(x.Manifests, several && depth == 0)
		if err != nil {
			return nil, err
		}
		if text, err = get(d); err != nil {
			return nil, err
		}
		if got := digest.FromBytes(text); got != d.Digest {
			return nil, damaged("its manifest has the digest %s, not %s", got, d.Digest)
		}
	}
	return nil, damaged("its lists of images are more than %d deep", maxDepth)
}

// errPlatform says that an image is for other hosts.
var errPlatform = errors.New("it is for other hosts")

// among chooses the image for this host of a list. With several the list may have other images than that.
func among(list []v1.Descriptor, several bool) (v1.Descriptor, error) {
	var found []v1.Descriptor
	var others []string
	for _, d := range list {
		switch p := d.Platform; {
		case d.Annotations["vnd.docker.reference.type"] != "": // how it was built
		case p == nil, p.OS == host.OS && p.Architecture == host.Architecture:
			found = append(found, d)
		default:
			others = append(others, platform(*p))
		}
	}
	switch {
	case len(found) == 0 && len(others) > 0:
		return v1.Descriptor{}, fmt.Errorf("%w: %s, this one is %s", errPlatform, strings.Join(others, ", "),
			platform(host))
	case len(found) == 0:
		return v1.Descriptor{}, damaged("its list of images is empty")
	}
	images := map[digest.Digest]bool{found[0].Digest: true} // with several names it is several times in the list
	for k, d := range found[1:] {
		same := func(other v1.Descriptor) bool {
			return other.Platform == nil || reflect.DeepEqual(d.Platform, other.Platform)
		}
		// variants of a processor are equal here
		if d.Platform == nil || several && slices.ContainsFunc(found[:k+1], same) {
			images[d.Digest] = true
		}
	}
	if len(images) > 1 {
		return v1.Descriptor{}, damaged("it has %d images for this host, not the one that is meant", len(images))
	}
	return found[0], nil
}

// host is the platform of this host.
var host = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// spooled writes a stream to a file without a name, which is gone with this process, in plain form.
func (s *Store) spooled(ctx context.Context, in io.Reader) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), "archive-")
	if err != nil {
		return nil, err
	}
	sp, most, err := newSpace(ctx, s.dir)
	if err = errors.Join(err, os.Remove(f.Name())); err == nil {
		b := &blob{size: -1, open: func(context.Context) io.ReadCloser { return io.NopCloser(in) }}
		err = s.read(ctx, b, "", most, nil, func(r io.Reader) error {
			_, err := io.Copy(sp.before(f), r)
			return err
		})
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// archive reads an archive of docker save or of the OCI's image layout.
func (s *Store) archive(ctx context.Context, f *os.File) (*source, error) {
	z, packed, err := decompress(io.NewSectionReader(f, 0, math.MaxInt64))
	if err != nil {
		return nil, err
	}
	z.Close()
	if packed {
		if f, err = s.spooled(ctx, io.NewSectionReader(f, 0, math.MaxInt64)); err != nil {
			return nil, err
		}
	}
	a, err := index(f)
	var src *source
	if err == nil {
		src, err = a.image()
	}
	switch {
	case err != nil && packed:
		f.Close()
	case packed:
		src.close = func() { f.Close() }
	}
	return src, err
}
