package container

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gantry/executor/container/stage"
)

// SecretsIn is where tasks find secrets.
const SecretsIn = "/run/secrets"

// secretMemory is a file system in memory, where the files of secrets lie while a gantry works on the run.
const secretMemory = "/dev/shm"

// secretDir is the directory of the files of secrets.
func (r *Runtime) secretDir() string {
	return inMemory(secretDirOf(r.name), filepath.Join(r.cfg.Dir, "secrets"))
}

// inMemory is a directory in memory, or another one where the host has none.
func inMemory(dir, otherwise string) string {
	if st, err := os.Stat(secretMemory); err == nil && st.IsDir() {
		return dir
	}
	return otherwise
}

// secretDirOf is that directory in memory, by the name that the run has on this host.
func secretDirOf(hostName string) string { return filepath.Join(secretMemory, "gantry-"+hostName) }

// makeSecrets writes the files of secrets, which only the programs' user can read. A container that is adopted keeps
// those that it began with.
func (r *Runtime) makeSecrets() error {
	if len(r.cfg.Secrets) == 0 {
		return nil
	}
	return stage.Secrets(r.secretDir(), r.files.User, r.cfg.Secrets)
}

// removeSecrets removes the files of secrets. Containers that run still have theirs.
func (r *Runtime) removeSecrets() error {
	if len(r.cfg.Secrets) == 0 {
		return nil
	}
	if err := os.RemoveAll(r.secretDir()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// secretMounts shows a task the secrets.
func (r *Runtime) secretMounts() (mounts []Mount) {
	for name := range r.cfg.Secrets {
		mounts = append(mounts, Mount{Source: filepath.Join(r.secretDir(), name),
			Target: SecretsIn + "/" + name, ReadOnly: true})
	}
	slices.SortFunc(mounts, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) })
	return mounts
}

// masked is a text, which may be of a program, without the values of secrets.
func (a *place) masked(text string) string {
	const least = 4 // shorter lines are no secrets, and are everywhere
	for _, value := range slices.AppendSeq(a.secretValues(), maps.Values(a.r.cfg.Secrets)) {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= least {
				text = strings.ReplaceAll(text, line, "***")
			}
		}
	}
	return text
}
