package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
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
	Engine Engine                             // nil: there is none
	Login  func(domain string) (Login, error) // for a registry, such as docker.io; nil: none
}

// fetcher brings the images of a run.
type fetcher struct {
	Fetch
	*Store
	layers chan struct{} // the places of layers that are unpacked at once
}

// unpackers is how many layers are unpacked at once.
const unpackers = 3

// Fetch brings all images into the store, in parallel, and returns them in the order of wanted. An error names each
// missing image, with the reason and the remedy; it wraps ErrNoImage if the workflow is at fault, else ErrUnusable.
// Nothing is left of an image that could not be unpacked.
func (s *Store) Fetch(ctx context.Context, f Fetch, wanted []fetch.Wanted) ([]*Image, error) {
	f.Options = f.Started(DefaultPatience)
	x := &fetcher{f, s, make(chan struct{}, unpackers)}
	out, errs := make([]*Image, len(wanted)), make([]error, len(wanted))
	end, err := x.begin(ctx)
	if err != nil {
		return nil, err
	}
	var work sync.WaitGroup
	for i := range wanted {
		work.Go(func() {
			began := time.Now()
			if out[i], errs[i] = x.fetch(ctx, &wanted[i]); errs[i] == nil {
				out[i].Ref, out[i].Took = wanted[i].Ref, time.Since(began)
				if out[i].Source != "local" && !f.Look {
					f.End(out[i].Image)
				}
			}
		})
	}
	work.Wait()
	if err = ctx.Err(); err == nil {
		err = errors.Join(errs...)
	}
	if end(out, err); err != nil {
		return nil, err
	}
	return out, nil
}

// begin has others remove nothing until this process has brought images, and then until a use of them is noted. End is
// told how that went: nothing is left of an image that failed.
func (x *fetcher) begin(ctx context.Context) (end func(got []*Image, err error), err error) {
	if x.Look {
		return func([]*Image, error) {}, nil
	}
	free, err := x.lock(ctx, changes, false)
	if err != nil {
		return nil, err
	}
	return func(got []*Image, err error) {
		if err != nil {
			_, _ = x.scratch() // a mark for the next to tidy, if another holds the lock
			free()
			x.tidy()
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.holds = append(x.holds, free)
		for _, i := range got {
			x.fetched = append(x.fetched, i.ID)
		}
	}, nil
}

// fetch brings one image.
func (x *fetcher) fetch(ctx context.Context, w *fetch.Wanted) (*Image, error) {
	name, archive := w.Name()
	switch {
	case w.ID != "":
		return x.same(ctx, w, name, archive)
	case archive:
		return x.fromArchive(ctx, w.Ref, name)
	}
	return x.reference(ctx, w.Ref, name)
}

// reference brings the image of a reference: from the Docker Engine, where a new one is built, else the store, else the
// registry.
func (x *fetcher) reference(ctx context.Context, shown, ref string) (*Image, error) {
	named, invalid := reference.ParseNormalizedNamed(ref)
	full := ref
	if invalid == nil {
		named = reference.TagNameOnly(named)
		full = named.String()
	}
	ours := strings.HasPrefix(ref, fetch.Own)
	var away error
	if x.Pull != fetch.PullAlways || invalid != nil || ours {
		i, err := x.fromEngine(ctx, shown, ref)
		if i != nil || err != nil && !errors.Is(err, errAway) {
			return i, x.named(full, i, err)
		}
		away = err
		n, _ := x.name(full)
		if i := cmp.Or(x.have(n.ID, n.Digest), x.have(ref, "")); i != nil {
			return i, nil
		}
	}
	where := "neither the Docker Engine nor the store of images has it"
	if away != nil {
		where = "the store of images does not have it, and there is no Docker Engine to ask: " + away.Error()
	}
	switch {
	case invalid != nil:
		return nil, fetch.NoImage(shown, invalid.Error(), "write it as NAME:TAG or REGISTRY/NAME:TAG")
	case ours:
		return nil, fetch.NoImage(shown, where, "images named "+fetch.Own+"... are those built here, never pulled: "+
			fetch.Build(ref)+" --runtime oci, or name an archive of docker save")
	case x.Pull == fetch.PullNever:
		return nil, fetch.NoImage(shown, where+", and --pull never forbids to fetch it",
			"leave out --pull never, or name an archive of docker save")
	}
	if x.Look {
		return &Image{Image: fetch.Image{Source: "pull"}}, nil
	}
	i, err := x.pull(ctx, shown, named)
	return i, x.named(full, i, err)
}

// named stores the image of a reference.
func (x *fetcher) named(full string, i *Image, err error) error {
	if err != nil || i == nil || x.Look {
		return err
	}
	if err := x.setName(name{full, i.ID, i.Digest}); err != nil {
		return x.explain(full, err, "")
	}
	return nil
}

// have returns an image that the store has whole; nil if it does not.
func (x *fetcher) have(id, digestName string) *Image {
	i, err := x.Image(id)
	if err != nil {
		return nil
	}
	i.Digest = digestName
	return i
}

// errAway says that there is no Docker Engine to ask.
var errAway = errors.New("no Docker Engine")

// fromEngine brings an image of the Docker Engine; nil if that does not have it.
func (x *fetcher) fromEngine(ctx context.Context, shown, ref string) (*Image, error) {
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
		return &Image{Image: fetch.Image{Source: "unpack"}}, nil
	}
	x.Begin(shown, "unpacking")
	const remedy = "try docker save, and look whether the Docker Engine is well"
	saved, err := x.Engine.Save(ctx, id)
	if err != nil {
		return nil, x.explain(shown, fmt.Errorf("the Docker Engine does not give it: %w", err), remedy)
	}
	f, err := x.spooled(ctx, saved)
	saved.Close()
	if err != nil {
		return nil, x.explain(shown, fmt.Errorf("the archive of the Docker Engine: %w", err), remedy)
	}
	defer f.Close()
	src, err := x.archive(ctx, f)
	if err != nil {
		return nil, x.explain(shown, fmt.Errorf("the archive of the Docker Engine: %w", err), remedy)
	}
	defer src.close()
	src.digest = digestName
	i, err := x.ensure(ctx, shown, src)
	if err != nil {
		return nil, x.explain(shown, err, remedy)
	}
	i.Source = "unpacked"
	if i.ID != id {
		err = x.setName(name{known, i.ID, digestName})
	}
	return i, err
}

func (x *fetcher) idOf(ref string) string {
	n, _ := x.name(ref)
	return n.ID
}

// fromArchive brings the image of an archive.
func (x *fetcher) fromArchive(ctx context.Context, shown, path string) (*Image, error) {
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
	i, err := x.unpackArchive(ctx, shown, f)
	if err == nil && !x.Look {
		err = x.setName(name{version, i.ID, ""})
	}
	if err != nil {
		return nil, x.explain(shown, err, remedy)
	}
	return i, nil
}

// unpackArchive brings the image of an open archive.
func (x *fetcher) unpackArchive(ctx context.Context, shown string, f *os.File) (*Image, error) {
	if !x.Look {
		x.Begin(shown, "unpacking")
	}
	src, err := x.archive(ctx, f)
	if err != nil {
		return nil, err
	}
	defer src.close()
	if x.Look {
		_, err := accept(src)
		return &Image{Image: fetch.Image{Source: "unpack"}}, err
	}
	for k := range src.layers {
		src.layers[k].verify = true
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
	end, err := x.begin(ctx)
	if err != nil {
		return err
	}
	i, err := x.unpackArchive(ctx, ref, archive)
	if err == nil {
		err = x.setName(name{reference.TagNameOnly(named).String(), i.ID, ""})
	}
	if end([]*Image{i}, err); err != nil {
		return x.explain(ref, err, "try again")
	}
	return nil
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

// pull brings an image of a registry.
func (x *fetcher) pull(ctx context.Context, shown string, named reference.Named) (*Image, error) {
	x.Begin(shown, "pulling")
	p, err := newPuller(named, &x.Fetch)
	if err != nil {
		return nil, x.explain(shown, err, "check the name")
	}
	src, err := p.source(ctx, named)
	var i *Image
	var remote *remoteError
	if err == nil {
		i, err = x.ensure(ctx, shown, src)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
		if i.Source != "local" {
			i.Source = "pulled"
		}
		return i, nil
	case errors.As(err, &remote):
		return nil, p.why(shown, err)
	}
	return nil, x.explain(shown, err, "try again; if it stays, tell whoever runs the registry "+p.domain)
}

// same brings the image that ran before under the name.
func (x *fetcher) same(ctx context.Context, w *fetch.Wanted, name string, archive bool) (*Image, error) {
	if i := x.have(w.ID, w.Digest); i != nil {
		return i, nil
	}
	const remedy = "start a new run with gantry run, or bring that image back with docker load"
	gone := "the image that this run began with, " + w.ID + ", is no longer on this host"
	i, err := x.fromEngine(ctx, w.Ref, w.ID)
	if errors.Is(err, errAway) {
		err = nil
	}
	switch {
	case i != nil || err != nil:
	case archive:
		i, err = x.fromArchive(ctx, w.Ref, name)
	case w.Digest != "" && x.Pull != fetch.PullNever:
		var named reference.Named
		if named, err = reference.ParseNormalizedNamed(w.Digest); err == nil {
			i, err = x.pull(ctx, w.Ref, named)
		}
	default:
		return nil, fetch.NoImage(w.Ref, gone, remedy)
	}
	if err == nil && i.ID != w.ID {
		err = fetch.NoImage(w.Ref, gone+": it is "+i.ID+" now", remedy)
	}
	if err == nil {
		i.Digest = w.Digest
	}
	return i, err
}

// accept checks the configuration of an image that is to be unpacked.
func accept(src *source) (*v1.Image, error) {
	if got := digest.FromBytes(src.config); got != src.id {
		return nil, damaged("its configuration has the digest %s, not %s", got, src.id)
	}
	c, err := parseConfig(src.config)
	if err != nil {
		return nil, damaged("%w", err)
	}
	if len(c.RootFS.DiffIDs) != len(src.layers) {
		return nil, damaged("its configuration names %d layers, and there are %d", len(c.RootFS.DiffIDs),
			len(src.layers))
	}
	if !fetch.Runs(platform(host()), c.OS, c.Architecture) {
		return nil, fmt.Errorf("%w: %s, this one is %s", errPlatform, platform(c.Platform), platform(host()))
	}
	return c, nil
}

// ensure unpacks the layers of an image that the store does not have.
func (x *fetcher) ensure(ctx context.Context, shown string, src *source) (*Image, error) {
	c, err := accept(src)
	if err != nil {
		return nil, err
	}
	_, missing := x.Image(string(src.id))
	tmp, err := x.scratch() // by which another knows if this process is killed on the way
	if err != nil {
		return nil, err
	}
	defer removeAll(tmp)
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
	return i, nil
}

// unpackAll unpacks layers below tmp, some at once. The first error ends all.
func (x *fetcher) unpackAll(ctx context.Context, shown, tmp string, ids []digest.Digest, layers []blob) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var total, done atomic.Int64
	for _, b := range layers {
		total.Add(max(0, b.size))
	}
	waits := sync.OnceFunc(func() { x.Begin(shown, "waiting for another gantry that unpacks") })
	var work sync.WaitGroup
	seen := map[digest.Digest]bool{}
	for k, d := range ids {
		if seen[d] { // such as an empty one
			continue
		}
		seen[d] = true
		work.Go(func() {
			select {
			case x.layers <- struct{}{}:
				defer func() { <-x.layers }()
			case <-ctx.Done():
				return
			}
			var before int64
			told := func(n int64) {
				x.Progress(shown, done.Add(n-before), total.Load())
				before = n
			}
			if err := x.ensureLayer(ctx, tmp, d, layers[k], told, waits); err != nil {
				cancel(err)
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
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
		return fetch.Unusable(shown, err.Error(), "name an image for "+platform(host()))
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP):
		return fetch.Unusable(shown, err.Error(), "the file system of "+x.dir+" does not take all that an image "+
			"has: set "+DirEnv+" to a directory on a local disk, and look at gantry doctor --runtime oci")
	}
	return fetch.Unusable(shown, err.Error(), remedy)
}
