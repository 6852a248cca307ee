package session

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Held reports whether a gantry works on the run whose lock file is lock. It locks the run directory too, since people
// delete lock files.
func Held(lock string) bool { return IsLocked(lock) || IsLocked(filepath.Dir(lock)) }

// IsLocked reports whether a process has a lock on the file. It looks the lock up instead of trying it: a lock tried,
// if only for a moment, would turn a gantry away that comes for it. Where the kernel does not say, a lock that exists
// is taken as held.
func IsLocked(lock string) bool {
	var file unix.Stat_t
	if err := unix.Stat(lock, &file); err != nil {
		return false
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		for _, field := range strings.Fields(line) {
			// major:minor:inode; the device may differ from that of stat (overlay, btrfs), and two locks of one inode
			// number are unlikely.
			if device, inode, ok := strings.Cut(field, ":"); ok {
				if _, inode, ok = strings.Cut(inode, ":"); ok && device != "" && inode == strconv.FormatUint(file.Ino,
					10) {
					return true
				}
			}
		}
	}
	return false
}
