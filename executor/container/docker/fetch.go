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

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"

	"gantry/executor/container"
	"gantry/executor/container/fetch"
)

// DefaultPatience is how long an image may arrive without progress. Engines say nothing while they check a layer.
const DefaultPatience = 2 * time.Minute

// errSilent is why a pull is given up.
var errSilent = errors.New("no answer, and no progress")

// fetcher fetches images into the engine, as a fetch.Keeper.
type fetcher struct {
	fetch.Options
	Source
	platform string // of the engine
	logins   func() (*Logins, error)
}

// Fetch makes all images present in the engine; see fetch.Options.Bring.
func Fetch(ctx context.Context, o fetch.Options, wanted []fetch.Wanted) ([]fetch.Image, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	x := &fetcher{Options: o.Started(DefaultPatience), logins: sync.OnceValues(ReadLogins)}
	defer x.Close()
	cli, err := x.client(ctx)
	if err != nil {
		return nil, err
	}
	v, err := cli.ServerVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: Docker Engine: %w", container.ErrUnusable, err)
	}
	x.platform = v.Os + "/" + v.Arch
	return x.Bring(ctx, x, wanted)
}

func (x *fetcher) Have(ctx context.Context, shown, ref string) (i *fetch.Image, lacks string, err error) {
	a, err := x.inspect(ctx, ref)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%w: %w", container.ErrUnusable, err)
	case a == nil:
		return nil, "the Docker Engine does not have it", nil
	}
	i = &fetch.Image{ID: a.ID, Digest: digestOf(ref, a.RepoDigests), Platform: a.Os + "/" + a.Architecture,
		Bytes: a.Size, Source: "local"}
	if !fetch.Runs(x.platform, a.Os, a.Architecture) {
		return nil, "", fetch.Unusable(shown, "it is for "+i.Platform+", this host is "+x.platform,
			"docker pull --platform "+x.platform+" "+ref+", or name another image")
	}
	return i, "", nil
}

// arrived returns an image that the engine has just got.
func (x *fetcher) arrived(ctx context.Context, shown, ref, source string) (*fetch.Image, error) {
	i, lacks, err := x.Have(ctx, shown, ref)
	if err == nil && i == nil {
		err = fetch.Unusable(shown, lacks+" any more", "try again")
	}
	if err != nil {
		return nil, err
	}
	i.Source = source
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

func (x *fetcher) FromRegistry(ctx context.Context, shown string, named reference.Named) (*fetch.Image, error) {
	x.Begin(shown, "pulling")
	domain := reference.Domain(named)
	var login fetch.Login
	logins, noLogin := x.logins()
	if noLogin == nil {
		login, noLogin = logins.For(domain)
	}
	var auth registry.AuthConfig
	if login != (fetch.Login{}) {
		auth = registry.AuthConfig{Username: login.User, Password: login.Password, ServerAddress: server(domain),
			IdentityToken: login.Identity, RegistryToken: login.Token}
	}
	encoded, err := registry.EncodeAuthConfig(auth)
	if err != nil {
		return nil, fmt.Errorf("%w: image %s: login for %s: %w", container.ErrUnusable, shown, domain, err)
	}
	asked, heard, stop := fetch.Watched(ctx, x.Patience, errSilent)
	defer stop()
	answer, err := x.cli.ImagePull(patient(asked), named.String(), image.PullOptions{RegistryAuth: encoded})
	if err == nil {
		_, err = x.follow(shown, answer, heard)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
		return x.arrived(ctx, shown, named.String(), "pulled")
	case errors.Is(context.Cause(asked), errSilent):
		return nil, fetch.Unusable(shown, fmt.Sprintf("%s for %s from the registry %s", errSilent, x.Patience,
			domain), "check that it is up and that this host reaches it, or docker load the image")
	}
	return nil, x.why(ctx, shown, domain, login, noLogin, err)
}

// message is one of the stream that the engine answers with while it makes an image.
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

// listen reads a stream of messages to its end, where the outcome of the request is: each may be an error.
func listen(stream io.ReadCloser, hear func(m *message)) error {
	defer stream.Close()
	for messages := json.NewDecoder(stream); ; {
		var m message
		switch err := messages.Decode(&m); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("the answer of the engine breaks off: %w", err)
		case m.Error != "":
			return errors.New(m.Error)
		}
		hear(&m)
	}
}

// follow shows the progress of a stream, and returns its last lines of text.
func (x *fetcher) follow(shown string, stream io.ReadCloser, heard func()) (text []string, err error) {
	type part struct{ done, total int64 }
	layers := map[string]*part{}
	var done, total int64
	err = listen(stream, func(m *message) {
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
	})
	return text, err
}

// refusals are the words by which engines give the reasons of registries, which differ between their versions.
var refusals = []struct {
	kind  fetch.Refusal
	words []string
}{
	{fetch.Limited, []string{"toomanyrequests", "rate limit"}},
	{fetch.Denied, []string{"unauthorized", "denied", "no basic auth", "authentication required", "incorrect username",
		"authorization failed", "forbidden"}},
	{fetch.Absent, []string{"manifest unknown", "not found", "name unknown", "no such image"}},
	{fetch.Plain, []string{"http response to https client"}},
	{fetch.Certificate, []string{"x509", "certificate"}},
	{fetch.Away, []string{"dial tcp", "connection refused", "no such host", "i/o timeout", "network is unreachable",
		"eof", "connection reset", "deadline exceeded", "server misbehaving", "no route to host", "tls handshake",
		"request canceled"}},
}

// why explains why an image could not be pulled or loaded.
func (x *fetcher) why(ctx context.Context, shown, domain string, login fetch.Login, noLogin, err error) error {
	text := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(text), w) })
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
		return fetch.Unusable(shown, "the registry "+domain+" has it, but not for "+x.platform+": "+text,
			"name another image or tag")
	case domain == "": // of an archive
		return fetch.Unusable(shown, text, "write it again with docker save")
	}
	for _, r := range refusals {
		if says(r.words...) {
			return fetch.Refused(r.kind, shown, domain, text, login, noLogin)
		}
	}
	if says("digest") {
		return fetch.Unusable(shown, "the registry "+domain+" sends other content than its digest says: "+text,
			"try again; if it stays, tell whoever runs the registry")
	}
	return fetch.Unusable(shown, text, "try docker pull "+strings.TrimPrefix(shown, "docker://"))
}
