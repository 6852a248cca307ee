//go:build linux

package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"gantry/executor/container/oci/userns"
)

// bundlesOf is the directory for those of the containers of a run.
func (e *Engine) bundlesOf(run string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if dir := e.bundles[run]; dir != "" {
		return dir
	}
	dir := filepath.Join(run, records, "bundles")
	if own := memoryDir(); own != "" {
		sum := sha256.Sum256([]byte(run))
		dir = filepath.Join(own, hex.EncodeToString(sum[:8]))
	}
	e.bundles[run] = dir
	return dir
}

// memoryDir is a directory of this user's in memory; "" if there is none.
func memoryDir() string {
	tops := []string{"/run", "/dev/shm"}
	if own := os.Getenv("XDG_RUNTIME_DIR"); userns.Inside() && own != "" {
		tops = []string{own} // nobody else can enter it
	}
	for _, top := range tops {
		if own := filepath.Join(top, "gantry"); inMemory(top) && makeOwn(own) {
			return own
		}
	}
	return ""
}

// inMemory reports whether a directory lies in memory.
func inMemory(dir string) bool {
	var f unix.Statfs_t
	return unix.Statfs(dir, &f) == nil && f.Type == unix.TMPFS_MAGIC
}

// makeOwn makes a directory that only this user may enter, and reports whether it is one: everybody may write to
// /dev/shm.
func makeOwn(dir string) bool {
	_ = os.Mkdir(dir, 0o700)
	info, err := os.Lstat(dir)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode() == os.ModeDir|0o700 && int(stat.Uid) == os.Geteuid()
}
