package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"gantry/executor/container/fetch"
)

// Engine is the Docker Engine of this host, as far as images need it.
type Engine interface {
	// Find returns the ID of an image, and NAME@sha256:... in its registry, if any. found is false if the engine does
	// not have it.
	Find(ctx context.Context, ref string) (id, digest string, found bool, err error)
	// Save returns the image as docker save writes it.
	Save(ctx context.Context, id string) (io.ReadCloser, error)
}

// Fetch says how images come into the store.
type Fetch struct {
	fetch.Options
	Engine Engine                                   // nil: there is none
	Login  func(domain string) (fetch.Login, error) // for a registry, such as docker.io; nil: none
}

// fetcher brings the images of a run, as a fetch.Keeper.
type fetcher struct {
	Fetch
	*Store
	layers chan struct{} // the places of layers that are unpacked at once
}

// unpackers is how many layers are unpacked at once.
const unpackers = 3

// Fetch brings all images into the store; see fetch.Options.Bring. Nothing is left of an image that could not be
// unpacked.
func (s *Store) Fetch(ctx context.Context, f Fetch, wanted []fetch.Wanted) ([]fetch.Image, error) {
	f.Options = f.Started(DefaultPatience)
	x := &fetcher{f, s, make(chan struct{}, unpackers)}
	return x.holding(ctx, func() ([]fetch.Image, error) { return x.Bring(ctx, x, wanted) })
}

// holding calls bring. Others remove nothing until it has brought images, and then until a use of them is noted.
// Nothing is left of images that failed.
func (x *fetcher) holding(ctx context.Context, bring func() ([]fetch.Image, error)) ([]fetch.Image, error) {
	if x.Look {
		return bring()
	}
	free, err := x.lock(ctx, changes, false)
	if err != nil {
		return nil, err
	}
	got, err := bring()
	if err != nil {
		_, _ = x.scratch() // a mark for the next to tidy, if another holds the lock
		free()
		x.tidy()
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.holds = append(x.holds, free)
	for _, i := range got {
		x.fetched = append(x.fetched, i.ID)
	}
	return got, nil
}

// Have implements fetch.Keeper. An image of the Docker Engine, where a new one is built, comes before one that the
// store knows by that name.
func (x *fetcher) Have(ctx context.Context, shown, ref string) (i *fetch.Image, lacks string, err error) {
	if i := x.have(ref, ""); i != nil {
		return i, "", nil
	}
	i, away := x.fromEngine(ctx, shown, ref)
	if away != nil && !errors.Is(away, errAway) {
		return nil, "", away
	}
	if digest.Digest(ref).Validate() != nil { // it is a name
		full := ref
		if named, err := reference.ParseNormalizedNamed(ref); err == nil {
			full = reference.TagNameOnly(named).String()
		}
		if i != nil {
			return i, "", x.named(full, i)
		}
		n, _ := x.name(full)
		i = x.have(n.ID, n.Digest)
	}
	if away != nil {
		return i, "the store of images does not have it, and there is no Docker Engine to ask: " + away.Error(), nil
	}
	return i, "neither the Docker Engine nor the store of images has it", nil
}

// named stores the image that a reference, or a version of an archive, stands for.
func (x *fetcher) named(full string, i *fetch.Image) error {
	if x.Look {
		return nil
	}
	if err := x.setName(name{full, i.ID, i.Digest}); err != nil {
		return x.explain(full, err, "")
	}
	return nil
}

// have returns an image that the store has whole; nil if it does not.
func (x *fetcher) have(id, digestName string) *fetch.Image {
	i, err := x.Image(id)
	if err != nil {
		return nil
	}
	i.Digest = digestName
	return &i.Image
}

// errAway says that there is no Docker Engine to ask.
var errAway = errors.New("no Docker Engine")

// fromEngine brings an image of the Docker Engine; nil if that does not have it.
func (x *fetcher) fromEngine(ctx context.Context, shown, ref string) (*fetch.Image, error) {
	if x.Engine == nil {
		return nil, errAway
	}
	id, digestName, found, err := x.Engine.Find(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAway, err)
	} else if !found {
		return nil, nil
	}
	// an engine with containerd's image store has other IDs than that of the configuration
	known := "docker-engine:" + id
	if i := cmp.Or(x.have(id, digestName), x.have(x.idOf(known), digestName)); i != nil {
		return i, nil
	}
	if x.Look {
		return &fetch.Image{Source: "unpack"}, nil
	}
	x.Begin(shown, "unpacking")
	i, err := x.saved(ctx, shown, id)
	if err != nil {
		return nil, x.explain(shown, err, "try docker save, and look whether the Docker Engine is well")
	}
	i.Digest, i.Source = digestName, "unpacked"
	if i.ID != id {
		err = x.setName(name{known, i.ID, digestName})
	}
	return i, err
}

// saved unpacks the archive that the Docker Engine writes of an image.
func (x *fetcher) saved(ctx context.Context, shown, id string) (*fetch.Image, error) {
	in, err := x.Engine.Save(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("the Docker Engine does not give it: %w", err)
	}
	defer in.Close()
	f, err := x.spooled(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("the archive of the Docker Engine: %w", err)
	}
	defer f.Close()
	return x.unpackArchive(ctx, shown, f)
}

func (x *fetcher) idOf(ref string) string {
	n, _ := x.name(ref)
	return n.ID
}

func (x *fetcher) FromArchive(ctx context.Context, shown, path string) (*fetch.Image, error) {
	const remedy = "write it again with docker save"
	f, st, err := x.OpenArchive(shown, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// One that is as it was needs no look inside.
	version, err := filepath.Abs(path)
	if err != nil {
		return nil, x.explain(shown, err, remedy)
	}
	version = fmt.Sprintf("archive:%s:%d:%d", version, st.Size(), st.ModTime().UnixNano())
	var sys unix.Stat_t
	if unix.Fstat(int(f.Fd()), &sys) == nil { // touch sets none of these back
		version += fmt.Sprintf(".%d.%d.%d", sys.Ctim.Nano(), sys.Dev, sys.Ino)
	}
	if i := x.have(x.idOf(version), ""); i != nil && x.Pull != fetch.PullAlways {
		return i, nil
	}
	if !x.Look {
		x.Begin(shown, "unpacking")
	}
	i, err := x.unpackArchive(ctx, shown, f)
	if err == nil {
		err = x.named(version, i)
	}
	if err != nil {
		return nil, x.explain(shown, err, remedy)
	}
	return i, nil
}

// unpackArchive brings the image of an open archive.
func (x *fetcher) unpackArchive(ctx context.Context, shown string, f *os.File) (*fetch.Image, error) {
	src, err := x.archive(ctx, f)
	if err != nil {
		return nil, err
	}
	defer src.close()
	if x.Look {
		_, err := accept(src)
		return &fetch.Image{Source: "unpack"}, err
	}
	return x.ensure(ctx, shown, src)
}

// Load brings the image of an archive into the store under a name, in place of one that has it.
func (s *Store) Load(ctx context.Context, o fetch.Options, ref string, archive *os.File) error {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return fetch.NoImage(ref, err.Error(), "write it as NAME:TAG")
	}
	x := &fetcher{Fetch{Options: o.Started(DefaultPatience)}, s, make(chan struct{}, unpackers)}
	_, err = x.holding(ctx, func() ([]fetch.Image, error) {
		x.Begin(ref, "unpacking")
		i, err := x.unpackArchive(ctx, ref, archive)
		if err == nil {
			err = x.setName(name{reference.TagNameOnly(named).String(), i.ID, ""})
		}
		if err != nil {
			return nil, x.explain(ref, err, "try again")
		}
		return []fetch.Image{*i}, nil
	})
	return err
}

// Label returns the value of a label of an image; "" if the store does not have the image whole.
func (s *Store) Label(ref, label string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ""
	}
	n, _ := s.name(reference.TagNameOnly(named).String())
	i, err := s.Image(n.ID)
	if err != nil {
		return ""
	}
	return i.Config.Labels[label]
}

func (x *fetcher) FromRegistry(ctx context.Context, shown string, named reference.Named) (*fetch.Image, error) {
	x.Begin(shown, "pulling")
	p, err := newPuller(named, &x.Fetch)
	if err != nil {
		return nil, x.explain(shown, err, "check the name")
	}
	src, err := p.source(ctx, named)
	var i *fetch.Image
	if err == nil {
		i, err = x.ensure(ctx, shown, src)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, new(*remoteError)):
		return nil, p.why(shown, err)
	case err != nil:
		return nil, x.explain(shown, err, "try again; if it stays, tell whoever runs the registry "+p.domain)
	}
	if i.Source != "local" {
		i.Source = "pulled"
	}
	return i, x.named(named.String(), i)
}

// accept checks the configuration of an image that is to be unpacked.
func accept(src *source) (*v1.Image, error) {
	if got := digest.FromBytes(src.config); got != src.id {
		return nil, damaged("its configuration has the digest %s, not %s", got, src.id)
	}
	c, err := parseConfig(src.config)
	if err != nil {
		return nil, err
	}
	if len(c.RootFS.DiffIDs) != len(src.layers) {
		return nil, damaged("its configuration names %d layers, and there are %d", len(c.RootFS.DiffIDs),
			len(src.layers))
	}
	if !fetch.Runs(platform(host), c.OS, c.Architecture) {
		return nil, fmt.Errorf("%w: %s, this one is %s", errPlatform, platform(c.Platform), platform(host))
	}
	return c, nil
}

// ensure unpacks the layers of an image that the store does not have.
func (x *fetcher) ensure(ctx context.Context, shown string, src *source) (*fetch.Image, error) {
	c, err := accept(src)
	if err != nil {
		return nil, err
	}
	_, missing := x.Image(string(src.id))
	tmp, err := x.scratch() // by which another knows if this process is killed on the way
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := x.unpackAll(ctx, shown, tmp, c.RootFS.DiffIDs, src.layers); err != nil {
		return nil, err
	}
	if missing != nil {
		if err := x.put(filepath.Join("images", src.id.Encoded()+".json"), src.config); err != nil {
			return nil, err
		}
	}
	i, err := x.Image(string(src.id))
	if err != nil {
		return nil, err
	}
	if i.Digest = src.digest; missing != nil {
		i.Source = "loaded"
	}
	return &i.Image, nil
}

// unpackAll unpacks layers below tmp, some at once. The first error ends all.
func (x *fetcher) unpackAll(ctx context.Context, shown, tmp string, ids []digest.Digest, layers []blob) error {
	var total int64
	for _, b := range layers {
		total += max(0, b.size)
	}
	var done atomic.Int64
	waits := sync.OnceFunc(func() { x.Begin(shown, "waiting for another gantry that unpacks") })
	work, ctx := errgroup.WithContext(ctx)
	for k, d := range ids {
		if slices.Contains(ids[:k], d) { // such as an empty one
			continue
		}
		work.Go(func() error {
			select {
			case x.layers <- struct{}{}:
				defer func() { <-x.layers }()
			case <-ctx.Done():
				return ctx.Err()
			}
			var before int64
			return x.ensureLayer(ctx, tmp, d, &layers[k], func(n int64) {
				x.Progress(shown, done.Add(n-before), total)
				before = n
			}, waits)
		})
	}
	return work.Wait()
}

// explain returns the reason why an image that was found cannot be unpacked, and the remedy.
func (x *fetcher) explain(shown string, err error, remedy string) error {
	var known *fetch.Error
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errFull), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fetch.Unusable(shown, "the disk of the store of images is full: "+err.Error(),
			"free space in "+x.dir+", for example with gantry clean --images, or set "+DirEnv+" to another disk")
	case errors.Is(err, errPlatform):
		return fetch.Unusable(shown, err.Error(), "name an image for "+platform(host))
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP):
		return fetch.Unusable(shown, err.Error(), "the file system of "+x.dir+" does not take all that an image "+
			"has: set "+DirEnv+" to a directory on a local disk, and look at gantry doctor --runtime oci")
	}
	return fetch.Unusable(shown, err.Error(), remedy)
}
