package control

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Facts are those of the attempt that a gantry which adopts it needs for its events.
type Facts struct {
	Read, Copied, Moved int64 // bytes of inputs, of those from other nodes, of a checkpoint from another node
	Staged              int64 // when the inputs were there: nanoseconds on the axis of the run
}

// Keep keeps the facts: they appear whole.
func (d Dir) Keep(f Facts) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	path := filepath.Join(string(d), "facts")
	if err := os.WriteFile(path+".part", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// Facts returns them.
func (d Dir) Facts() (f Facts, err error) {
	text, err := os.ReadFile(filepath.Join(string(d), "facts"))
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	return f, err
}
