package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
)

// Keeper has the images of containers: the Docker Engine, or gantry's own store.
type Keeper interface {
	// Have returns the image of a reference, or of an ID, if it is here; else lacks says where it is not.
	Have(ctx context.Context, shown, ref string) (i *Image, lacks string, err error)
	// FromArchive brings the image of an archive.
	FromArchive(ctx context.Context, shown, path string) (*Image, error)
	// FromRegistry brings an image of its registry.
	FromRegistry(ctx context.Context, shown string, named reference.Named) (*Image, error)
}

// Bring makes all images present, in parallel, and returns them in the order of wanted. An error names each missing
// image, with the reason and the remedy; it wraps ErrNoImage if the workflow is at fault, else ErrUnusable.
func (o *Options) Bring(ctx context.Context, k Keeper, wanted []Wanted) ([]Image, error) {
	out, errs := make([]Image, len(wanted)), make([]error, len(wanted))
	var work sync.WaitGroup
	for n := range wanted {
		work.Go(func() {
			began := time.Now()
			i, err := o.bring(ctx, k, &wanted[n])
			if err != nil {
				errs[n] = err
				return
			}
			i.Ref, i.Took = wanted[n].Ref, time.Since(began)
			if out[n] = *i; i.Source != "local" && i.ID != "" {
				o.End(*i)
			}
		})
	}
	work.Wait()
	if err := cmp.Or(ctx.Err(), errors.Join(errs...)); err != nil {
		return nil, err
	}
	return out, nil
}

// bring makes one image present.
func (o *Options) bring(ctx context.Context, k Keeper, w *Wanted) (*Image, error) {
	name, archive := w.Name()
	switch {
	case w.ID != "":
		return o.same(ctx, k, w)
	case archive:
		return k.FromArchive(ctx, w.Ref, name)
	}
	named, invalid := reference.ParseNormalizedNamed(name)
	own, lacks := strings.HasPrefix(name, Own), ""
	if o.Pull != PullAlways || invalid != nil || own {
		i, by, err := k.Have(ctx, w.Ref, name)
		if i != nil || err != nil {
			return i, err
		}
		lacks = by
	}
	switch {
	case invalid != nil:
		return nil, NoImage(w.Ref, invalid.Error(), "write it as NAME:TAG or REGISTRY/NAME:TAG")
	case own:
		return nil, NoImage(w.Ref, lacks, "images named "+Own+"... are those built here, never pulled: "+Build(name)+
			", or name an archive of docker save")
	case o.Pull == PullNever:
		return nil, NoImage(w.Ref, lacks+", and --pull never forbids to fetch it",
			"leave out --pull never, or name an archive of docker save")
	case o.Look:
		return &Image{Source: "pull"}, nil
	}
	return k.FromRegistry(ctx, w.Ref, reference.TagNameOnly(named))
}

// same makes the image present that ran before under the name.
func (o *Options) same(ctx context.Context, k Keeper, w *Wanted) (*Image, error) {
	const remedy = "start a new run with gantry run, or bring that image back with docker load"
	gone := "the image that this run began with, " + w.ID + ", is no longer on this host"
	i, _, err := k.Have(ctx, w.Ref, w.ID)
	switch name, archive := w.Name(); {
	case i != nil || err != nil:
	case archive:
		i, err = k.FromArchive(ctx, w.Ref, name)
	case w.Digest != "" && o.Pull != PullNever:
		var named reference.Named
		if named, err = reference.ParseNormalizedNamed(w.Digest); err == nil {
			i, err = k.FromRegistry(ctx, w.Ref, named)
		}
	default:
		err = NoImage(w.Ref, gone, remedy)
	}
	if err != nil {
		return nil, err
	}
	if i.ID != w.ID {
		return nil, NoImage(w.Ref, gone+": it is "+i.ID+" now", remedy)
	}
	i.Digest = w.Digest
	return i, nil
}

// Watched returns a context that ends with a cause once heard has not been called for a time.
func Watched(ctx context.Context, patience time.Duration, cause error) (watched context.Context, heard, stop func()) {
	watched, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience, func() { end(cause) })
	return watched, func() { timer.Reset(patience) }, func() {
		timer.Stop()
		end(nil)
	}
}

// Login is a user's identification to a registry; all empty without one.
type Login struct {
	User, Password string
	Identity       string // a token to get others with
	Token          string // of this registry
}

// Refusal is the kind of reason for which a registry does not give an image.
type Refusal int

const (
	Limited     Refusal = iota // it gives a user no more images for a while
	Denied                     // to this user
	Absent                     // it does not have the image
	Plain                      // it does not encrypt
	Certificate                // nobody here vouches for its certificate
	Away                       // it does not answer
)

// refusals are the acts of a registry, each with its remedy. LOGIN and DOMAIN stand for those of the image.
var refusals = [...]struct{ does, remedy string }{
	Limited: {"limits pulls", "LOGIN, or try again later"},
	Denied:  {"refuses it without a login", "check the name, or log in with LOGIN"},
	Absent:  {"does not have it", "check name, tag and digest"},
	Plain: {"speaks HTTP only",
		"add it to insecure-registries in /etc/docker/daemon.json if you trust the network"},
	Certificate: {"has a certificate that is not valid here",
		"put its authority into /etc/docker/certs.d/DOMAIN/ca.crt"},
	Away: {"cannot be reached",
		"check the name and the network, or bring the image by docker load, or as an archive of docker save"},
}

// Refused says why the registry of that domain does not give an image, by its own words. The login is the one that was
// shown to it, and err says why there is no other.
func Refused(r Refusal, shown, domain, said string, login Login, err error) error {
	command := "docker login " + domain
	if domain == "docker.io" {
		command = "docker login"
	}
	does := refusals[r].does
	remedy := strings.NewReplacer("LOGIN", command, "DOMAIN", domain).Replace(refusals[r].remedy)
	if r == Denied && login != (Login{}) {
		does, remedy = "refuses it to the login of your Docker configuration", "check the name, or log in again with "+
			command
	}
	if r == Denied && err != nil {
		said += "; " + err.Error()
	}
	reason := fmt.Sprintf("the registry %s %s: %s", domain, does, said)
	if r == Absent {
		return NoImage(shown, reason, remedy)
	}
	return Unusable(shown, reason, remedy)
}
