package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
	"oras.land/oras-go/v2/registry/remote/retry"

	"gantry/executor/container/fetch"
)

const (
	// DefaultPatience is how long a registry may send nothing.
	DefaultPatience = time.Minute
	// tries is how often a layer that breaks off is asked for.
	tries = 3
)

// manifestTypes are the kinds of manifests that are read.
var manifestTypes = []string{v1.MediaTypeImageManifest, v1.MediaTypeImageIndex,
	"application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json"}

// puller reads an image of a registry.
type puller struct {
	repo     *remote.Repository
	domain   string
	login    fetch.Login
	loginErr error
	patience time.Duration
}

// newPuller makes a client of the registry of a reference.
func newPuller(named reference.Named, f *Fetch) (*puller, error) {
	p := &puller{domain: reference.Domain(named), patience: f.Patience}
	repo, err := remote.NewRepository(named.Name())
	if err != nil {
		return nil, err
	}
	p.repo = repo
	repo.ManifestMediaTypes = manifestTypes
	if f.Login != nil {
		p.login, p.loginErr = f.Login(p.domain)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: min(p.patience, 30*time.Second)}).DialContext
	client := &auth.Client{Client: &http.Client{Transport: retry.NewTransport(transport)}, Cache: auth.NewCache(),
		ClientID: "gantry", Header: http.Header{"User-Agent": {"gantry"}},
		Credential: func(_ context.Context, host string) (auth.Credential, error) {
			if host != repo.Reference.Host() {
				return auth.EmptyCredential, nil
			}
			return auth.Credential{Username: p.login.User, Password: p.login.Password, RefreshToken: p.login.Identity,
				AccessToken: p.login.Token}, nil
		}}
	repo.Client = client
	if err := trust(transport, p.domain); err != nil {
		return nil, err
	}
	if local(p.domain) || slices.Contains(insecure(), p.domain) {
		// as the Docker Engine does: without a valid certificate, or without encryption
		transport.TLSClientConfig.InsecureSkipVerify = true
		client.BlockedRealmPrefixes = []netip.Prefix{}
		answer, err := (&http.Client{Transport: transport, Timeout: p.patience}).Get("https://" + p.domain + "/v2/")
		if repo.PlainHTTP = err != nil; err == nil {
			answer.Body.Close()
		}
	}
	return p, nil
}

// trust adds the certificates of a registry that the Docker Engine takes.
func trust(t *http.Transport, domain string) error {
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	files, _ := filepath.Glob(filepath.Join("/etc/docker/certs.d", domain, "*.crt"))
	if len(files) == 0 {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pool.AppendCertsFromPEM(text)
	}
	t.TLSClientConfig.RootCAs = pool
	return nil
}

// local reports whether a registry is on this host.
func local(domain string) bool {
	host, _, err := net.SplitHostPort(domain)
	if err != nil {
		host = domain
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// insecure lists the registries that the Docker Engine takes without encryption.
func insecure() []string {
	var c struct {
		Registries []string `json:"insecure-registries"`
	}
	if text, err := os.ReadFile("/etc/docker/daemon.json"); err == nil {
		_ = json.Unmarshal(text, &c)
	}
	return c.Registries
}

// source finds the image of a reference in the registry.
func (p *puller) source(ctx context.Context, named reference.Named) (*source, error) {
	version := "" // a digest or a tag
	switch n := named.(type) {
	case reference.Digested:
		version = n.Digest().String()
	case reference.Tagged:
		version = n.Tag()
	}
	ctx, progress, stop := p.watched(ctx)
	defer stop()
	read := func(in io.ReadCloser, err error) ([]byte, error) { // a manifest or a configuration
		if err != nil {
			return nil, remoteCause(ctx, err)
		}
		defer in.Close()
		text, err := io.ReadAll(io.LimitReader(&moving{in, progress}, maxConfig+1))
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = damaged("its description is cut off after %d bytes: %w", len(text), err)
		} else if err == nil && len(text) > maxConfig {
			err = damaged("its description is larger than %d bytes", maxConfig)
		}
		return text, remoteCause(ctx, err)
	}
	top, in, err := p.repo.FetchReference(ctx, version)
	text, err := read(in, err)
	if err != nil {
		return nil, err
	}
	d := digest.FromBytes(text)
	if d != top.Digest {
		return nil, damaged("its manifest has the digest %s, not %s", d, top.Digest)
	}
	src, err := described(text, false, func(d v1.Descriptor) ([]byte, error) { return read(p.repo.Fetch(ctx, d)) },
		func(l v1.Descriptor) (blob, error) {
			return blob{digest: l.Digest, size: l.Size,
				open: func(ctx context.Context) io.ReadCloser { return p.open(ctx, l) }}, nil
		})
	if err == nil {
		src.digest = reference.FamiliarName(named) + "@" + string(d)
	}
	return src, err
}

// errStalled says that a registry sends nothing any more.
var errStalled = errors.New("it stalls")

// watched returns a context that ends when progress was not called for the time that a registry has.
func (p *puller) watched(ctx context.Context) (watched context.Context, progress, stop func()) {
	return fetch.Watched(ctx, p.patience, fmt.Errorf("%w: nothing came for %v", errStalled, p.patience))
}

// remoteError is an error of the registry, or of the way there.
type remoteError struct{ error }

func (e *remoteError) Unwrap() error { return e.error }

// remoteCause marks an error of a registry; of a watched context that ended it is the reason.
func remoteCause(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errDamaged) {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		err = cause
	} else if strings.Contains(err.Error(), "mismatch Content-Length") { // says the library, and has no name for it
		return damaged("the registry has not as many bytes as the image says: %w", err)
	}
	return &remoteError{err}
}

// moving is a reader that reports progress after each read of at least one byte.
type moving struct {
	io.Reader
	progress func()
}

func (m *moving) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	if n > 0 {
		m.progress()
	}
	return n, err
}

// layer is a layer that is being read from a registry. If the connection breaks off it is asked for again, from where
// that was.
type layer struct {
	p     *puller
	what  v1.Descriptor
	outer context.Context
	ctx   context.Context
	stop  func()
	in    io.Closer
	moves io.Reader // in
	at    int64
	cut   int64 // where the answer before ended too early; -1: it did not
	left  int   // tries
}

func (p *puller) open(ctx context.Context, what v1.Descriptor) io.ReadCloser {
	return &layer{p: p, what: what, outer: ctx, cut: -1, left: tries, stop: func() {}}
}

func (l *layer) Read(b []byte) (int, error) {
	for {
		err := l.begin()
		if err == nil {
			var n int
			n, err = l.moves.Read(b)
			if l.at += int64(n); err == nil || err == io.EOF {
				return n, err
			}
			if n > 0 { // the next read gives the error again
				return n, nil
			}
		}
		cut := errors.Is(err, io.ErrUnexpectedEOF)
		if err = remoteCause(l.ctx, err); cut && l.cut == l.at { // a connection breaks off elsewhere the next time
			err = damaged("it is cut off after %d of %d bytes", l.at, l.what.Size)
		}
		if l.cut = -1; cut {
			l.cut = l.at
		}
		l.Close()
		if l.left--; l.left <= 0 || l.outer.Err() != nil || final(err) {
			return 0, err
		}
	}
}

// begin opens the layer, where reading it broke off.
func (l *layer) begin() error {
	if l.in != nil {
		return nil
	}
	var progress func()
	l.ctx, progress, l.stop = l.p.watched(l.outer)
	in, err := l.p.repo.Blobs().Fetch(l.ctx, l.what)
	if err != nil {
		return err
	}
	l.in, l.moves = in, &moving{in, progress}
	if s, ok := in.(io.Seeker); ok {
		_, err = s.Seek(l.at, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, l.moves, l.at)
	}
	return err
}

func (l *layer) Close() error {
	if l.in != nil {
		l.in.Close()
		l.in = nil
	}
	l.stop()
	return nil
}

// final reports whether asking again cannot help.
func final(err error) bool {
	var answer *errcode.ErrorResponse
	return errors.Is(err, errDamaged) || errors.Is(err, errStalled) || errors.Is(err, errdef.ErrNotFound) ||
		errors.As(err, &answer)
}

// why explains why a registry does not give an image.
func (p *puller) why(shown string, err error) error {
	server, kind := "the registry "+p.domain, fetch.Away
	answer, answers := errors.AsType[*errcode.ErrorResponse](err)
	switch {
	case errors.Is(err, errStalled):
		return fetch.Unusable(shown, server+" stalls: "+err.Error(),
			"try again later, or bring the image as an archive")
	case errors.Is(err, errdef.ErrNotFound):
		kind = fetch.Absent
	case answers && answer.StatusCode == http.StatusTooManyRequests:
		kind = fetch.Limited
	case answers && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden),
		errors.Is(err, auth.ErrBasicCredentialNotFound):
		kind = fetch.Denied
	case errors.As(err, new(x509.UnknownAuthorityError)), errors.As(err, new(x509.CertificateInvalidError)),
		errors.As(err, new(x509.HostnameError)):
		kind = fetch.Certificate
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		kind = fetch.Plain
	case answers:
		return fetch.Unusable(shown, server+" answers with an error: "+err.Error(), "try again later")
	}
	return fetch.Refused(kind, shown, p.domain, err.Error(), p.login, p.loginErr)
}
