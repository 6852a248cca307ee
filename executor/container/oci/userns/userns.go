//go:build linux

// Package userns has a process of a user other than root begin again in a user namespace of its own, as its root: with
// the rights over mounts that containers need there, and over files of the user and of the subordinate IDs alone. The
// process keeps its number, and the user his ID in the namespace.
package userns

// #include "enter.h"
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const groupsEnv = "GANTRY_USERNS_GROUPS"

// groups is the directory that the process before this one gave to Begin.
var groups = func() string {
	defer os.Unsetenv(groupsEnv)
	if C.gantry_in_userns() == 0 {
		return ""
	}
	return os.Getenv(groupsEnv)
}()

// Inside reports whether this process began again in a user namespace.
func Inside() bool { return C.gantry_in_userns() != 0 }

// Groups is the directory of the control groups that are delegated to this process, "" outside of a namespace.
func Groups() string { return groups }

// Range is a range of subordinate IDs.
type Range struct{ First, Count int }

// Least is how many subordinate IDs images need.
const Least = 65536

// Begin begins this process again in a user namespace, whose control groups lie below a directory. It returns only if
// that fails.
func Begin(uids, gids Range, groups string, env ...string) error {
	uid, gid := os.Getuid(), os.Getgid()
	env = append(append(os.Environ(), env...), groupsEnv+"="+groups,
		C.UIDS+"="+mapping(uid, uids), C.GIDS+"="+mapping(gid, gids),
		"SUDO_UID="+strconv.Itoa(uid), "SUDO_GID="+strconv.Itoa(gid)) // files are the user's, as with sudo
	err := syscall.Exec("/proc/self/exe", os.Args, env)
	return fmt.Errorf("begin again in a user namespace: %w", err)
}

// mapping maps the user's own ID to itself, and all others up to 65535, root's among them, to subordinate ones.
func mapping(own int, r Range) string {
	var words []string
	add := func(inside, outside, count int) {
		if count > 0 {
			words = append(words, strconv.Itoa(inside), strconv.Itoa(outside), strconv.Itoa(count))
		}
	}
	below := min(own, Least)
	add(0, r.First, below)
	add(own, own, 1)
	add(own+1, r.First+below, Least-below)
	return strings.Join(words, " ")
}
