package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"

	"gantry/executor/container"
	"gantry/executor/container/fetch"
)

// Fetch fetches images into the engine.
type Fetch struct {
	fetch.Options
	Host string // of the engine; "": as the Docker client's environment says
}

// DefaultPatience is how long an image may arrive without progress. Engines say nothing while they check a layer.
const DefaultPatience = 2 * time.Minute

// errSilent is why a pull is given up.
var errSilent = errors.New("no answer, and no progress")

// fetcher fetches the images of a run.
type fetcher struct {
	Fetch
	cli      *client.Client
	platform string // of the engine
	logins   func() (*Logins, error)
}

// Images makes all images present, in parallel, and returns them in the order of wanted. An error names each missing
// image, with the reason and the remedy; it wraps fetch.ErrNoImage if the workflow is at fault, else
// container.ErrUnusable.
func (f Fetch) Images(ctx context.Context, wanted []fetch.Wanted) ([]fetch.Image, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	cli, err := Connect(ctx, f.Host)
	if err != nil {
		return nil, err
	}
	defer cli.Close()
	f.Options = f.Started(DefaultPatience)
	x := &fetcher{Fetch: f, cli: cli, logins: sync.OnceValues(ReadLogins)}
	v, err := x.cli.ServerVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: Docker Engine: %w", container.ErrUnusable, err)
	}
	x.platform = v.Os + "/" + v.Arch
	out, errs := make([]fetch.Image, len(wanted)), make([]error, len(wanted))
	var work sync.WaitGroup
	for i := range wanted {
		work.Go(func() { out[i], errs[i] = x.fetch(ctx, &wanted[i]) })
	}
	work.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return out, errors.Join(errs...)
}

// fetch makes one image present.
func (x *fetcher) fetch(ctx context.Context, w *fetch.Wanted) (fetch.Image, error) {
	began := time.Now()
	name, archive := w.Name()
	var i fetch.Image
	var err error
	switch {
	case w.ID != "":
		i, err = x.same(ctx, w, name, archive)
	case archive:
		i, err = x.archive(ctx, w.Ref, name, x.Pull == fetch.PullAlways)
	default:
		i, err = x.reference(ctx, w.Ref, name)
	}
	if err != nil {
		return fetch.Image{}, err
	}
	i.Ref, i.Took = w.Ref, time.Since(began)
	if i.Source != "local" && i.ID != "" {
		x.End(i)
	}
	return i, nil
}

// reference makes the image of a reference present.
func (x *fetcher) reference(ctx context.Context, shown, ref string) (fetch.Image, error) {
	named, invalid := reference.ParseNormalizedNamed(ref)
	if x.Pull != fetch.PullAlways || invalid != nil || strings.HasPrefix(ref, fetch.Own) {
		i, err := x.inspect(ctx, ref)
		if err == nil || invalid == nil && !errdefs.IsNotFound(err) {
			return i, x.local(shown, err)
		}
	}
	switch {
	case invalid != nil:
		return fetch.Image{}, fetch.NoImage(shown, invalid.Error(),
			"write it as NAME:TAG or REGISTRY/NAME:TAG")
	case strings.HasPrefix(ref, fetch.Own):
		return fetch.Image{}, noImage(shown)
	case x.Pull == fetch.PullNever:
		return fetch.Image{}, fetch.NoImage(shown,
			"the Docker Engine does not have it, and --pull never forbids to fetch it",
			"docker pull "+ref+", or leave out --pull never")
	}
	if x.Look {
		return fetch.Image{Source: "pull"}, nil
	}
	if err := x.pull(ctx, shown, named); err != nil {
		return fetch.Image{}, err
	}
	i, err := x.inspect(ctx, ref)
	i.Source = "pulled"
	return i, x.local(shown, err)
}

// same makes the image present that ran before under the name.
func (x *fetcher) same(ctx context.Context, w *fetch.Wanted, name string, archive bool) (fetch.Image, error) {
	i, err := x.inspect(ctx, w.ID)
	if err == nil || !errdefs.IsNotFound(err) {
		i.Digest = w.Digest
		return i, x.local(w.Ref, err)
	}
	const remedy = "start a new run with gantry run, or bring that image back with docker load"
	gone := "the image that this run began with, " + w.ID + ", is no longer on this host"
	switch {
	case archive:
		i, err = x.archive(ctx, w.Ref, name, false)
	case w.Digest != "" && x.Pull != fetch.PullNever:
		var named reference.Named
		if named, err = reference.ParseNormalizedNamed(w.Digest); err == nil {
			err = x.pull(ctx, w.Ref, named)
		}
		if err == nil {
			i, err = x.inspect(ctx, w.Digest)
			i.Source = "pulled"
		}
	default:
		return fetch.Image{}, fetch.NoImage(w.Ref, gone, remedy)
	}
	if err == nil && i.ID != w.ID {
		err = fetch.NoImage(w.Ref, gone+": it is "+i.ID+" now", remedy)
	}
	return i, err
}

// local describes a failed request to the engine for an image.
func (x *fetcher) local(shown string, err error) error {
	if err == nil || errors.Is(err, fetch.ErrNoImage) || errors.Is(err, fetch.ErrUnusable) {
		return err
	}
	return fmt.Errorf("%w: image %s: ask the Docker Engine for it: %w", container.ErrUnusable, shown, err)
}

// inspect returns an image that the engine has.
func (x *fetcher) inspect(ctx context.Context, ref string) (fetch.Image, error) {
	a, err := x.cli.ImageInspect(ctx, ref)
	if err != nil {
		return fetch.Image{}, err
	}
	i := fetch.Image{ID: a.ID, Platform: a.Os + "/" + a.Architecture, Bytes: a.Size, Source: "local"}
	if !fetch.Runs(x.platform, a.Os, a.Architecture) {
		return i, fetch.Unusable(ref, "it is for "+i.Platform+", this host is "+x.platform,
			"docker pull --platform "+x.platform+" "+ref+", or name another image")
	}
	i.Digest = digestOf(ref, a.RepoDigests)
	return i, nil
}

// digestOf chooses among the digests of an image that of its name. Those of other names are of other pulls and pushes.
func digestOf(ref string, all []string) (digest string) {
	name := ""
	if named, err := reference.ParseNormalizedNamed(ref); err == nil {
		name = reference.FamiliarName(named)
	}
	for _, d := range all {
		if strings.HasPrefix(d, name+"@") {
			digest = d
		}
	}
	return digest
}

// pull fetches an image from its registry.
func (x *fetcher) pull(ctx context.Context, shown string, named reference.Named) error {
	x.Begin(shown, "pulling")
	domain := reference.Domain(named)
	var auth registry.AuthConfig
	logins, loginErr := x.logins()
	if loginErr == nil {
		auth, loginErr = logins.of(domain)
	}
	encoded, err := registry.EncodeAuthConfig(auth)
	if err != nil {
		return fmt.Errorf("%w: image %s: login for %s: %w", container.ErrUnusable, shown, domain, err)
	}
	asked, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	watch := time.AfterFunc(x.Patience, func() { giveUp(errSilent) })
	defer watch.Stop()
	answer, err := x.cli.ImagePull(patient(asked), named.String(), image.PullOptions{RegistryAuth: encoded})
	if err == nil {
		_, err = x.follow(shown, answer, func() { watch.Reset(x.Patience) })
		answer.Close()
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(context.Cause(asked), errSilent):
		return fetch.Unusable(shown, fmt.Sprintf("%s for %s from the registry %s", errSilent, x.Patience,
			domain), "check that it is up and that this host reaches it, or docker load the image")
	}
	return x.why(ctx, shown, domain, auth, loginErr, err)
}

// message is one of the stream that the engine answers with while it pulls or loads.
type message struct {
	Stream string `json:"stream"`
	Status string `json:"status"`
	ID     string `json:"id"`
	Detail struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	Error string `json:"error"`
}

// follow reads the stream to its end and returns its last lines of text. The outcome of the request is in it.
func (x *fetcher) follow(shown string, stream io.Reader, heard func()) (text []string, err error) {
	type part struct{ done, total int64 }
	layers := map[string]*part{}
	var done, total int64
	for messages := json.NewDecoder(stream); ; {
		var m message
		switch err := messages.Decode(&m); {
		case err == io.EOF:
			return text, nil
		case err != nil:
			return text, fmt.Errorf("the answer of the Docker Engine breaks off: %w", err)
		case m.Error != "":
			return text, errors.New(m.Error)
		}
		heard()
		if m.Stream != "" && len(text) < 100 {
			text = append(text, strings.TrimSpace(m.Stream))
		}
		l := layers[m.ID]
		if l == nil {
			l = &part{}
			layers[m.ID] = l
		}
		done, total = done-l.done, total-l.total
		switch m.Status {
		case "Downloading", "Loading layer":
			l.done, l.total = m.Detail.Current, max(l.total, m.Detail.Total)
		case "Download complete", "Pull complete", "Verifying Checksum":
			l.done = l.total
		}
		done, total = done+l.done, total+l.total
		if total > 0 {
			x.Progress(shown, done, total)
		}
	}
}

// why explains why an image could not be pulled or loaded. The engine gives most reasons in words alone, which differ
// between its versions.
func (x *fetcher) why(ctx context.Context, shown, domain string, auth registry.AuthConfig, loginErr, err error) error {
	text := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(text), w) })
	}
	who := "the registry " + domain
	anonymous := auth == (registry.AuthConfig{})
	denied := "docker login " + domain
	if domain == "docker.io" {
		denied = "docker login"
	}
	switch {
	case client.IsErrConnectionFailed(err):
		return fmt.Errorf("%w: image %s: %w", container.ErrUnusable, shown, err)
	case says("no space left on device", "disk quota exceeded"):
		root := "its directory"
		if info, err := x.cli.Info(ctx); err == nil && info.DockerRootDir != "" {
			root = info.DockerRootDir
		}
		return fetch.Unusable(shown, "the disk of the Docker Engine is full: "+text,
			"free space in "+root+", for example with docker system prune")
	case says("no matching manifest", "no match for platform", "does not provide the specified platform"):
		return fetch.Unusable(shown, who+" has it, but not for "+x.platform+": "+text,
			"name another image or tag")
	case says("toomanyrequests", "rate limit"):
		return fetch.Unusable(shown, who+" limits pulls: "+text, denied+", or try again later")
	case says("unauthorized", "denied", "no basic auth", "authentication required", "incorrect username",
		"authorization failed", "forbidden"):
		reason, remedy := who+" refuses it without a login: ", "check the name, or log in with "+denied
		if !anonymous {
			reason, remedy = who+" refuses it to the login of your Docker configuration: ",
				"check the name, or log in again with "+denied
		}
		if loginErr != nil {
			text += "; " + loginErr.Error()
		}
		return fetch.Unusable(shown, reason+text, remedy)
	case says("manifest unknown", "not found", "name unknown", "no such image"):
		return fetch.NoImage(shown, who+" does not have it: "+text, "check name, tag and digest")
	case says("digest"):
		return fetch.Unusable(shown, who+" sends other content than its digest says: "+text,
			"try again; if it stays, tell whoever runs the registry")
	case says("http response to https client"):
		return fetch.Unusable(shown, who+" speaks HTTP only: "+text,
			"add it to insecure-registries in /etc/docker/daemon.json if you trust the network")
	case says("x509", "certificate"):
		return fetch.Unusable(shown, "the certificate of "+who+" is not valid here: "+text,
			"put its authority into /etc/docker/certs.d/"+domain+"/ca.crt")
	case says("dial tcp", "connection refused", "no such host", "i/o timeout", "network is unreachable", "eof",
		"connection reset", "deadline exceeded", "server misbehaving", "no route to host", "tls handshake",
		"request canceled"):
		return fetch.Unusable(shown, who+" cannot be reached: "+text,
			"check the name and the network, or bring the image by docker load and use --pull never")
	}
	return fetch.Unusable(shown, text, "try docker pull "+strings.TrimPrefix(shown, "docker://"))
}
