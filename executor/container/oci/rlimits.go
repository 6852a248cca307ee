//go:build linux

package oci

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor/container"
)

// Programs have the limits of the Docker Engine's programs where systemd starts it, independently of the limits of the
// shell that starts gantry: of most resources the kernel's own.

const unlimited = uint64(unix.RLIM_INFINITY)

// rlimits are the limits of the first process, and of all that it starts: as far as this process may give them. crun
// sets them for itself, too, and may raise the one of locked memory afterwards, to load its program for devices of
// cgroup v2. So a process that may not raise that one does not lower it either.
var rlimits = sync.OnceValue(func() []specs.POSIXRlimit {
	const files = 1 << 20
	pending := number("/proc/sys/kernel/threads-max", 1<<16) / 2
	open := min(files, number("/proc/sys/fs/nr_open", files))
	all := []struct {
		name       string
		resource   int
		soft, hard uint64
	}{{"CPU", unix.RLIMIT_CPU, unlimited, unlimited}, {"FSIZE", unix.RLIMIT_FSIZE, unlimited, unlimited},
		{"DATA", unix.RLIMIT_DATA, unlimited, unlimited}, {"STACK", unix.RLIMIT_STACK, 8 << 20, unlimited},
		{"CORE", unix.RLIMIT_CORE, unlimited, unlimited}, {"RSS", unix.RLIMIT_RSS, unlimited, unlimited},
		{"NPROC", unix.RLIMIT_NPROC, unlimited, unlimited}, {"NOFILE", unix.RLIMIT_NOFILE, open, open},
		{"MEMLOCK", unix.RLIMIT_MEMLOCK, 8 << 20, 8 << 20}, {"AS", unix.RLIMIT_AS, unlimited, unlimited},
		{"LOCKS", unix.RLIMIT_LOCKS, unlimited, unlimited}, {"SIGPENDING", unix.RLIMIT_SIGPENDING, pending, pending},
		{"MSGQUEUE", unix.RLIMIT_MSGQUEUE, 819200, 819200}, {"NICE", unix.RLIMIT_NICE, 0, 0},
		{"RTPRIO", unix.RLIMIT_RTPRIO, 0, 0}, {"RTTIME", unix.RLIMIT_RTTIME, unlimited, unlimited}}
	raises := mayRaise()
	var limits []specs.POSIXRlimit
	for _, l := range all {
		var own unix.Rlimit
		if err := unix.Getrlimit(l.resource, &own); err != nil {
			continue
		}
		if !raises {
			if l.hard = min(l.hard, own.Max); l.resource == unix.RLIMIT_MEMLOCK {
				l.hard = own.Max
			}
			l.soft = min(l.soft, l.hard)
		}
		limits = append(limits, specs.POSIXRlimit{Type: "RLIMIT_" + l.name, Hard: l.hard, Soft: l.soft})
	}
	return limits
})

// oomScore is how readily the kernel ends programs where memory is short: not more readily than others, as far as this
// process may say so. crun takes 0 for none, so that programs inherit the score of this process: it gives up a higher
// one, and next to a lower one, which protects it, programs have 1.
var oomScore = sync.OnceValue(func() int {
	const path = "/proc/self/oom_score_adj"
	own := func() int {
		text, _ := os.ReadFile(path)
		score, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return score
	}
	if own() < 0 {
		return 1
	}
	_ = os.WriteFile(path, []byte("0"), 0) // fails if that is lower than the starter of this process allows
	return own()
})

// mayRaise reports whether this process may raise limits beyond its own.
func mayRaise() bool { return container.Has("SYS_RESOURCE") && initial() }

// lockedMemory says why the OCI runtime of that version cannot have the limit of locked memory that it takes to load
// its program for devices of cgroup v2; "" if it can. crun before 1.14 starts no container without, but for those in
// user namespaces.
func lockedMemory(mode cgroup.Mode, version string) string {
	var major, minor int
	var own unix.Rlimit
	if n, _ := fmt.Sscanf(version, "crun version %d.%d", &major, &minor); n != 2 || major > 1 || minor >= 14 ||
		mode != cgroup.Unified || mayRaise() || !initial() ||
		unix.Getrlimit(unix.RLIMIT_MEMLOCK, &own) != nil || own.Max == unlimited {
		return ""
	}
	return fmt.Sprintf("gantry runs as root without CAP_SYS_RESOURCE, and with a hard limit of %d kB of locked "+
		"memory, which crun %d.%d has to raise", own.Max>>10, major, minor)
}

// number reads a file with one number.
func number(path string, otherwise uint64) uint64 {
	text, err := os.ReadFile(path)
	n, err2 := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || err2 != nil {
		return otherwise
	}
	return n
}

// everyCPU is all that there may be: the kernel takes those of them that a thread may have.
var everyCPU = func() (all unix.CPUSet) {
	all.Fill()
	return all
}()
