package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/sqlite"
)

// Secrets keeps values for the programs of submissions where the log does not have them.
type Secrets interface {
	// Keep keeps the values of a request below a key, for programs of a user (nil: those of the server), and returns
	// the mounts by which programs find them; made is false if they are kept already.
	Keep(key string, by *executor.User, values map[string][]byte) (mounts []string, made bool, err error)
	Drop(key string)
	// Sweep drops all but those of some keys.
	Sweep(keep map[string]bool)
}

var secretName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$`)

// keepSecrets keeps the secrets of a request and gives them to the programs of its submissions. It returns the key
// below which they are, "" if there are none, and how to forget them if the request is refused.
func (s *Server) keepSecrets(req *api.Submit, by Peer, items []handed) (key string, forget func(), err error) {
	forget = func() {}
	if len(req.Secrets) == 0 {
		return "", forget, nil
	}
	if s.Secrets == nil {
		return "", forget, invalidf("--secret: the runtime of this server starts no programs, which could have secrets")
	}
	size := 0
	for name, value := range req.Secrets {
		if size += len(value); !secretName.MatchString(name) {
			return "", forget, invalidf("--secret %q: a name has at most 128 letters, digits, _, - and ., and does "+
				"not begin with a dot", name)
		}
	}
	if len(req.Secrets) > api.MaxSecrets || size > api.MaxSecretBytes {
		return "", forget, invalidf("--secret: one request may have %d secrets of %d bytes in all, not %d of %d",
			api.MaxSecrets, api.MaxSecretBytes, len(req.Secrets), size)
	}
	// The key of the request is the client's own, and two users might have the same one.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s", by.UID, req.Key))
	key = hex.EncodeToString(sum[:])
	mounts, made, err := s.Secrets.Keep(key, items[0].sub.By, req.Secrets)
	if err != nil {
		return "", forget, &api.Error{Code: api.Full,
			Message: fmt.Sprintf("--secret: the values cannot be kept: %v", err)}
	}
	for _, h := range items {
		executor.AddMounts(h.sub.Workflow, "--secret", mounts)
	}
	if made {
		forget = func() { s.release(key) }
	}
	return key, forget, nil
}

// holdLocked counts a submission that has secrets.
func (s *Server) holdLocked(row *sqlite.Submitted) {
	if key := readOptions(row.Options).Secrets; key != "" {
		s.holders[key]++
	}
}

// overLocked takes out a submission that is over.
func (s *Server) overLocked(e *entry) {
	delete(s.entries, e.ID)
	key := readOptions(e.Options).Secrets
	if key == "" || s.Secrets == nil {
		return
	}
	if s.holders[key]--; s.holders[key] <= 0 {
		delete(s.holders, key)
		s.Secrets.Drop(key)
	}
}

// release forgets secrets that no submission has.
func (s *Server) release(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[key] == 0 {
		s.Secrets.Drop(key)
	}
}

// sweepSecrets forgets those of submissions that are over, when the server begins.
func (s *Server) sweepSecrets() {
	if s.Secrets == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := map[string]bool{}
	for key := range s.holders {
		keep[key] = true
	}
	s.Secrets.Sweep(keep)
}
