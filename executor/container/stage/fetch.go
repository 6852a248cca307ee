package stage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor/container/fetch"
	"gantry/trace/shown"
)

// Fetcher brings files from http(s) addresses to a directory, each address once.
type Fetcher struct {
	Dir      string // made when it is needed
	Own      func(path string) error
	Begin    func(url string)
	Progress func(url string, done, total int64) // bytes; total is 0 if the server does not say it
	Wait     func(ctx context.Context, d time.Duration) error
	Spare    int64         // bytes of the disk that stay free, if a server sends without end
	Patience time.Duration // how long a server may send nothing; 0: a minute

	fetched map[string]result
	client  *http.Client
}

type result struct {
	path string
	err  error
}

// fetchTries is how often a server that fails is asked, with a wait between that doubles from fetchWait on.
const (
	fetchTries = 3
	fetchWait  = 500 * time.Millisecond
)

// errFatal is of an answer that asking again does not change.
var errFatal = errors.New("the server refused it")

// errSilent is of a server that is connected and sends nothing.
var errSilent = errors.New("the server sends nothing")

// Fetch returns the path of the file at an address. The error names the reason, and not the address.
func (x *Fetcher) Fetch(ctx context.Context, address string) (string, error) {
	if r, ok := x.fetched[address]; ok {
		return r.path, r.err
	}
	var path string
	err := os.MkdirAll(x.Dir, 0o711) // users that know an address may read its file, and nobody may list them
	if err == nil {
		err = x.Own(x.Dir)
	}
	wait := fetchWait
	for try := 1; err == nil; try++ {
		path, err = x.once(ctx, address)
		if err == nil || try == fetchTries || ctx.Err() != nil || errors.Is(err, errFatal) ||
			errors.Is(err, errSilent) ||
			errors.Is(err, syscall.ENOSPC) {
			break
		}
		err = x.Wait(ctx, wait)
		wait *= 2
	}
	if x.fetched == nil {
		x.fetched = map[string]result{}
	}
	if ctx.Err() == nil {
		x.fetched[address] = result{path, err}
	}
	return path, err
}

func (x *Fetcher) once(ctx context.Context, address string) (string, error) {
	if x.client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // a file comes as it is
		x.client = &http.Client{Transport: t}
	}
	patience := cmp.Or(x.Patience, time.Minute)
	ctx, heard, stop := fetch.Watched(ctx, patience, fmt.Errorf("%w for %s", errSilent, patience))
	defer stop()
	path, err := x.get(ctx, address, heard)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errSilent) {
		err = cause
	}
	return path, err
}

// get asks for a file and saves it. Heard is called when something of it comes.
func (x *Fetcher) get(ctx context.Context, address string, heard func()) (string, error) {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errFatal, err)
	}
	if x.Begin != nil {
		x.Begin(address)
	}
	answer, err := x.client.Do(ask)
	if err != nil {
		if e := new(url.Error); errors.As(err, &e) {
			err = e.Err // without the address
		}
		return "", fmt.Errorf("cannot be fetched: %w", err)
	}
	defer answer.Body.Close()
	switch code := answer.StatusCode; {
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return "", fmt.Errorf("the server answers %s", answer.Status)
	case code != http.StatusOK:
		return "", fmt.Errorf("%w: %s", errFatal, answer.Status)
	}
	sum := sha256.Sum256([]byte(address))
	path := filepath.Join(x.Dir, hex.EncodeToString(sum[:8]))
	return path, x.save(path, address, answer, heard)
}

// save writes an answer to a file, durably; a broken answer leaves none.
func (x *Fetcher) save(path, address string, answer *http.Response, heard func()) (err error) {
	f, err := os.CreateTemp(x.Dir, "partial-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(&meter{f, 0, func(done int64) error {
		heard()
		if x.Progress != nil {
			x.Progress(address, done, max(0, answer.ContentLength))
		}
		return x.room(f)
	}}, answer.Body)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("breaks off: %w", err)
	}
	if err := errors.Join(os.Chmod(f.Name(), 0o644), x.Own(f.Name())); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// room refuses more of a file that would take the last of the disk.
func (x *Fetcher) room(f *os.File) error {
	var disk unix.Statfs_t
	if x.Spare == 0 || unix.Fstatfs(int(f.Fd()), &disk) != nil ||
		float64(disk.Bavail)*float64(disk.Bsize) > float64(x.Spare) {
		return nil
	}
	return fmt.Errorf("%w: less than %s would be free", syscall.ENOSPC, shown.Size(x.Spare))
}

// meter reports the bytes that were written.
type meter struct {
	io.Writer
	done int64
	tell func(done int64) error
}

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.Writer.Write(p)
	m.done += int64(n)
	return n, errors.Join(err, m.tell(m.done))
}
