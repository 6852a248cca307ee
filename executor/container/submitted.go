package container

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"gantry/executor"
	"gantry/executor/container/stage"
)

// SubmittedSecrets keeps the secrets of submissions to a server, in the memory of the host, from a submission's arrival
// until its end. The log has their names and where they are, and no values: they outlive the server, and not the host.
// A directory for each submission belongs to the server, the files in it to the user that runs the programs.
type SubmittedSecrets struct {
	dir string
	mu  sync.Mutex
}

// SecretsOfSubmissions are those of a run.
func SecretsOfSubmissions(run, runDir string) *SubmittedSecrets {
	return &SubmittedSecrets{dir: inMemory(submittedDirOf(executor.HostName(run, runDir)),
		filepath.Join(runDir, "submitted-secrets"))}
}

func submittedDirOf(hostName string) string { return secretDirOf(hostName) + ".submitted" }

// Keep writes the values below a key, which is a file name that nobody can guess, for programs of a user (nil:
// the server's). It returns the mounts by which programs find them; made is false if they were there.
func (s *SubmittedSecrets) Keep(key string, by *executor.User, values map[string][]byte) (mounts []string, made bool,
	err error) {
	of := stage.ProgramUser()
	if by != nil {
		of = stage.Owner{UID: by.UID, GID: by.GID}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, temporary := filepath.Join(s.dir, key), filepath.Join(s.dir, "."+key)
	for name := range values {
		mounts = append(mounts, filepath.Join(dir, name)+":"+SecretsIn+"/"+name)
	}
	if _, err := os.Lstat(dir); err == nil {
		return mounts, false, nil
	}
	if err := s.top(); err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(temporary)
	if err := stage.Secrets(temporary, of, values); err != nil {
		return nil, false, err
	}
	// Its user comes as far as the files, and cannot replace them.
	return mounts, true, errors.Join(os.Chmod(temporary, 0o711), os.Rename(temporary, dir))
}

// top makes the directory of all submissions. Others may write beside it. Root removes a file of theirs in its place,
// also if it comes again.
func (s *SubmittedSecrets) top() error {
	for range 100 {
		err := os.Mkdir(s.dir, 0o711)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := os.Lstat(s.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		} else if err == nil {
			if sys, ok := info.Sys().(*syscall.Stat_t); ok && info.IsDir() && int(sys.Uid) == os.Geteuid() {
				return os.Chmod(s.dir, 0o711)
			}
		}
		if os.RemoveAll(s.dir) != nil {
			break
		}
	}
	return fmt.Errorf("%s is not a directory of the server's: remove it", s.dir)
}

// Drop removes the values below a key. Containers that run still have theirs.
func (s *SubmittedSecrets) Drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = os.RemoveAll(filepath.Join(s.dir, key))
	_ = os.Remove(s.dir) // if it was the last one
}

// Sweep removes all but those below some keys: of submissions that a server which was killed did not acknowledge, or
// that have ended.
func (s *SubmittedSecrets) Sweep(keep map[string]bool) {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if !keep[e.Name()] {
			s.Drop(e.Name())
		}
	}
}

// submittedSecret reports whether a mount is a secret of a submission.
func submittedSecret(m executor.Mount) bool {
	return !m.InPlace && strings.HasPrefix(m.To, SecretsIn+"/")
}

// hasSecrets says which secrets of the submission are not there any more.
func (a *place) hasSecrets() error {
	for _, text := range a.l.Spec.Mounts {
		m := executor.ParseMount(text)
		if !submittedSecret(m) {
			continue
		}
		if _, err := os.Lstat(m.From); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the value of secret %s is gone: secrets of submissions are in the memory of the host, "+
				"which has restarted since, or gantry clean removed it; hand the work in again", filepath.Base(m.To))
		}
	}
	return nil
}

// secretValues are those of the submission.
func (a *place) secretValues() (values []string) {
	for _, text := range a.l.Spec.Mounts {
		m := executor.ParseMount(text)
		if !submittedSecret(m) {
			continue
		}
		f, err := os.OpenFile(m.From, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(f, 1<<20))
		f.Close()
		values = append(values, string(text))
	}
	return values
}
