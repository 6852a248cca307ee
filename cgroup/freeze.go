package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrNotFrozen says that the processes of a group could not be frozen just now: in cgroup v1 those that have used up
// their CPU quota cannot come to be frozen.
var ErrNotFrozen = errors.New("processes could not be frozen")

// freezeTime is how long the kernel may take to freeze or thaw a group.
const freezeTime = 100 * time.Millisecond

// Freeze has the kernel stop all processes of a group, or continue them, and waits until it has.
func (t *Tree) Freeze(ctx context.Context, group string, frozen bool) error {
	file, word := t.freezer(group, frozen)
	if err := os.WriteFile(file, []byte(word), 0); err != nil {
		return fmt.Errorf("freeze control group %s: %w", group, err)
	}
	for begun := time.Now(); ; {
		if t.Frozen(group) == frozen {
			return nil
		}
		if time.Since(begun) > freezeTime || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if frozen { // not half of it
		file, word = t.freezer(group, false)
		_ = os.WriteFile(file, []byte(word), 0)
	}
	return fmt.Errorf("control group %s: %w", group, ErrNotFrozen)
}

// freezer is the file that freezes a group, and the word to write to it.
func (t *Tree) freezer(group string, frozen bool) (file, word string) {
	if t.mode == Unified {
		return filepath.Join(t.root, group, "cgroup.freeze"), map[bool]string{true: "1", false: "0"}[frozen]
	}
	return filepath.Join(t.root, "freezer", group, "freezer.state"),
		map[bool]string{true: "FROZEN", false: "THAWED"}[frozen]
}

// Frozen reports whether all processes of a group are frozen.
func (t *Tree) Frozen(group string) bool {
	if t.mode == Unified {
		b, _ := os.ReadFile(filepath.Join(t.root, group, "cgroup.events"))
		return strings.Contains(string(b), "frozen 1")
	}
	b, _ := os.ReadFile(filepath.Join(t.root, "freezer", group, "freezer.state"))
	return strings.TrimSpace(string(b)) == "FROZEN"
}
