package node

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gantry/executor/container"
	"gantry/executor/container/stage"
)

// Secrets are values that programs get as files. They come through the standard input of the step and lie in the memory
// of the node while the step lives: in no directory of the run, environment or command line.
type Secrets struct {
	UID, GID int // the user that reads them
	Values   map[string]string
}

// memory is a file system in memory.
const memory = "/dev/shm"

// secretsOf begins the names of the directories of secrets of a run.
func secretsOf(runDir string) string {
	sum := sha256.Sum256([]byte(runDir))
	return filepath.Join(memory, "gantry-"+hex.EncodeToString(sum[:8])+"-")
}

// keepSecrets waits for the secrets and writes them.
func (s *step) keepSecrets() (remove func(), err error) {
	var text string
	select {
	case text = <-s.told:
	case <-s.alone:
		return nil, errors.New("gantry ended before it had sent the secrets")
	}
	var secrets Secrets
	if err := json.Unmarshal([]byte(text), &secrets); err != nil {
		return nil, fmt.Errorf("secrets: %w", err)
	}
	if st, err := os.Stat(memory); err != nil || !st.IsDir() {
		return nil, fmt.Errorf("this node has no file system in memory at %s for secrets", memory)
	}
	dir := secretsOf(s.RunDir) + s.Step
	return func() { _ = os.RemoveAll(dir) }, // no other step has this name
		stage.Secrets(dir, stage.Owner{UID: secrets.UID, GID: secrets.GID}, secrets.Values)
}

// showSecrets has the mounts of secrets lead to those of this node.
func (s *step) showSecrets(spec *container.Spec) {
	for i := range spec.Mounts {
		if m := &spec.Mounts[i]; s.Secrets && strings.HasPrefix(m.Target, container.SecretsIn+"/") {
			m.Source = filepath.Join(secretsOf(s.RunDir)+s.Step, filepath.Base(m.Target))
		}
	}
}

// DropSecrets removes the secrets of a step that was killed; step "" stands for all of the run.
func DropSecrets(runDir, step string) {
	dirs, _ := filepath.Glob(secretsOf(runDir) + step + "*")
	for _, dir := range dirs {
		_ = os.RemoveAll(dir)
	}
}
