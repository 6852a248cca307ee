package container

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// bits are the capabilities of Linux that something here takes.
var bits = map[string]int{"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
	"NET_ADMIN": 12, "SYS_ADMIN": 21, "SYS_RESOURCE": 24, "MKNOD": 27}

// Has reports whether this process has a capability: its first thread never changes them.
func Has(capability string) bool {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if set, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, _ := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return caps&(1<<bits[capability]) != 0
		}
	}
	return false
}

// ForFiles are the capabilities that files of other users take, with every runtime.
var ForFiles = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER"}

// RootLacks is the fact that gantry runs as root and lacks capabilities which it takes; nil if it does not. Files of
// tasks are other users': root gives them away, writes beside them and makes them readable.
func RootLacks(takes ...string) *Fact {
	if os.Geteuid() != 0 {
		return nil
	}
	lacking := slices.DeleteFunc(slices.Clone(takes), Has)
	if len(lacking) == 0 {
		return nil
	}
	return &Fact{Name: "privileges", Verdict: No,
		Evidence: "gantry runs as root without CAP_" + strings.Join(lacking, ", CAP_"),
		Advice:   "give it these capabilities (docker run --privileged; CapabilityBoundingSet= of a unit)"}
}
