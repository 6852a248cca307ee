package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"gantry/trace/shown"
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
		if err == io.EOF {
			return a, nil
		} else if err != nil {
			return nil, tarError(err)
		}
		if len(a.files) == maxFiles {
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

// find returns a file of the archive. Docker saves equal layers once, and links to them.
func (a *archived) find(name string) (part, error) {
	p, ok := a.files[path.Clean(name)]
	for range 10 {
		if !ok || p.to == "" {
			break
		}
		p, ok = a.files[p.to]
	}
	if !ok || p.to != "" {
		return p, damaged("it has no file %q", shorten(name))
	}
	return p, nil
}

func (a *archived) open(p part) io.Reader { return io.NewSectionReader(a.file, p.at, p.size) }

// read returns a small file of the archive.
func (a *archived) read(name string) ([]byte, error) {
	p, err := a.find(name)
	if err != nil {
		return nil, err
	}
	if p.size > maxConfig {
		return nil, damaged("its file %s has %d bytes, %d at most are read", shorten(name), p.size, maxConfig)
	}
	text, err := io.ReadAll(a.open(p))
	if err == nil && int64(len(text)) < p.size {
		err = damaged("it is cut off in %s", shorten(name))
	}
	return text, err
}

// blob is a layer in the archive.
func (a *archived) blob(name string, d digest.Digest) (blob, error) {
	p, err := a.find(name)
	return blob{digest: d, size: p.size, open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(a.open(p)), nil
	}}, err
}

// blobName is the name of the file with a digest in an OCI archive.
func blobName(d digest.Digest) (string, error) {
	return "blobs/sha256/" + d.Encoded(), known(d)
}

// image reads the archive's description of its one image for a platform: Docker's list, else that of the OCI.
func (a *archived) image(host v1.Platform) (*source, error) {
	if _, ok := a.files["manifest.json"]; ok {
		return a.docker()
	}
	if _, ok := a.files["index.json"]; ok {
		return a.oci(host)
	}
	return nil, damaged("it is no archive of images: it has neither manifest.json nor index.json")
}

// docker reads an archive of docker save.
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
	src := &source{}
	if src.config, err = a.read(list[0].Config); err != nil {
		return nil, err
	}
	src.id = digest.FromBytes(src.config)
	if want := digestIn(list[0].Config); want != "" && want != src.id {
		return nil, damaged("its configuration has the digest %s, not %s", src.id, want)
	}
	for _, name := range list[0].Layers {
		var d digest.Digest
		if hex, ok := strings.CutPrefix(name, "blobs/sha256/"); ok {
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
func (a *archived) oci(host v1.Platform) (*source, error) {
	text, err := a.read("index.json")
	if err != nil {
		return nil, err
	}
	get := func(d v1.Descriptor) ([]byte, error) {
		name, err := blobName(d.Digest)
		if err != nil {
			return nil, damaged("%w", err)
		}
		return a.read(name)
	}
	m, err := choose(text, host, get, true)
	if err != nil {
		return nil, err
	}
	src := &source{id: m.Config.Digest}
	if src.config, err = get(m.Config); err != nil {
		return nil, err
	}
	for _, l := range m.Layers {
		name, err := blobName(l.Digest)
		if err != nil {
			return nil, damaged("%w", err)
		}
		b, err := a.blob(name, l.Digest)
		if err != nil {
			return nil, err
		}
		src.layers = append(src.layers, b)
	}
	return src, nil
}

// maxDepth is how deep lists of images may lie in each other.
const maxDepth = 4

// choose finds the manifest for a platform in a manifest, or in a list of them that may have lists in turn. With
// several the text is a list of images, instead of the platforms of one image: it has to name one for this platform.
func choose(text []byte, host v1.Platform, get func(v1.Descriptor) ([]byte, error), several bool) (*v1.Manifest,
	error) {
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
		d, err := among(x.Manifests, host, several && depth == 0)
		if err != nil {
			return nil, err
		}
		if text, err = get(d); err != nil {
			return nil, err
		}
		if digest.FromBytes(text) != d.Digest {
			return nil, damaged("its manifest has the digest %s, not %s", digest.FromBytes(text), d.Digest)
		}
	}
	return nil, damaged("its lists of images are more than %d deep", maxDepth)
}

// errPlatform says that an image is for other hosts.
var errPlatform = errors.New("it is for other hosts")

// among chooses an image of a list. With several the list may have other images than that.
func among(list []v1.Descriptor, host v1.Platform, several bool) (v1.Descriptor, error) {
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
			return other.Platform == nil || samePlatform(d.Platform, other.Platform)
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

// samePlatform reports whether two platforms are equal in all that images differ in.
func samePlatform(a, b *v1.Platform) bool {
	return a.OS == b.OS && a.Architecture == b.Architecture && a.Variant == b.Variant && a.OSVersion == b.OSVersion &&
		slices.Equal(a.OSFeatures, b.OSFeatures)
}

// host is the platform of this host.
func host() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// spooled writes a stream to a file without a name, which is gone with this process, in plain form.
func (s *Store) spooled(ctx context.Context, in io.Reader) (*os.File, error) {
	sp, most, err := newSpace(ctx, s.dir)
	if err != nil {
		return nil, err
	}
	packed := &counted{Reader: in, hash: digest.Canonical.Digester(), limit: 1 << 62}
	z, _, err := decompress(packed)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), "archive-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	plain := &counted{Reader: z, hash: digest.Canonical.Digester(), limit: most,
		over: fmt.Errorf("%w: it is larger than the %s that are free in %s", errFull, shown.Size(most), s.dir)}
	if _, err := io.Copy(sp.before(f), plain); err != nil {
		f.Close()
		return nil, cause(packed, plain, err)
	}
	return f, nil
}

// archive reads an archive of docker save or of the OCI's image layout.
func (s *Store) archive(ctx context.Context, f *os.File) (*source, error) {
	start := make([]byte, 512)
	n, err := f.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	file, done := f, func() {}
	if n < len(start) || !bytes.HasPrefix(start[257:], []byte("ustar")) {
		if _, packed, err := decompress(bytes.NewReader(start[:n])); err == nil && !packed {
			return nil, damaged("it is no archive of images")
		}
		if file, err = s.spooled(ctx, io.NewSectionReader(f, 0, 1<<62)); err != nil {
			return nil, err
		}
		done = func() { file.Close() }
	}
	a, err := index(file)
	var src *source
	if err == nil {
		src, err = a.image(host())
	}
	if err != nil {
		done()
		return nil, err
	}
	src.close = done
	return src, nil
}
