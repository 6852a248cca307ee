package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gantry/planner/unit"
)

// Tmp is where programs have their temporary files, on the disk of the run unless Config.Tmp says otherwise, and
// sharedMemory those that are in memory.
const (
	Tmp          = "/tmp"
	sharedMemory = "/dev/shm"
)

// tmp is that directory of an attempt on disk. It goes with the control directory.
func (a *place) tmp() string { return filepath.Join(string(a.ctl), "tmp") }

// makeTmp makes that directory.
func (a *place) makeTmp() error {
	if a.r.cfg.Tmp > 0 {
		return nil
	}
	if err := os.Mkdir(a.tmp(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(a.tmp(), fs.ModeSticky|0o777)
}

// showTmp gives the container a /tmp, unless a mount of the user's is there.
func (a *place) showTmp(s *Spec) {
	switch n := a.r.cfg.Tmp; {
	case slices.ContainsFunc(s.Mounts, func(m Mount) bool { return filepath.Clean(m.Target) == Tmp }):
	case n > 0:
		s.Tmpfs[Tmp] = fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,mode=1777", n)
	default:
		s.Mounts = append(s.Mounts, Mount{Source: a.tmp(), Target: Tmp})
	}
}

// makePlaces makes the places in /tmp of mounts: those that an engine makes are root's, and a user cannot remove them.
func (a *place) makePlaces() error {
	if a.r.cfg.Tmp > 0 {
		return nil
	}
	var dirs []string
	for _, m := range a.spec.Mounts {
		st, err := os.Stat(m.Source)
		at, below := strings.CutPrefix(filepath.Clean(m.Target), Tmp+"/")
		if err != nil || !below {
			continue
		}
		if at = filepath.Join(a.tmp(), at); st.IsDir() {
			dirs = append(dirs, at)
			continue
		}
		err = os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.WriteFile(at, nil, 0o644)
		}
		if err != nil {
			return err
		}
	}
	for path := range a.spec.Tmpfs {
		if at, below := strings.CutPrefix(path, Tmp+"/"); below {
			dirs = append(dirs, filepath.Join(a.tmp(), at))
		}
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// sharedMemory is the size of /dev/shm: the memory that the attempt may use, as its files count for it, and no less
// than container engines give.
func (a *place) sharedMemory() int64 {
	const least, unlimited = 64 << 20, 1 << 30
	for _, m := range []int64{a.l.Hold[unit.Memory], a.r.cfg.Platform.Nodes[a.l.Node].Capacity[unit.Memory]} {
		if m > 0 && m != unit.Unlimited {
			return max(m, least)
		}
	}
	return unlimited
}
