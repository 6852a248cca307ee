package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Cores returns how many cores the cpusets of groups below a root leave to their processes: the fewest of those groups
// that exist and have one. 0: no cpuset says anything.
func Cores(root string, groups ...string) int {
	fewest := 0
	for _, g := range groups {
		for _, path := range []string{
			filepath.Join(root, "cpuset", g, "cpuset.effective_cpus"), // v1
			filepath.Join(root, g, "cpuset.cpus.effective"),           // v2
		} {
			text, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			if n := CountCPUs(strings.TrimSpace(string(text))); n > 0 && (fewest == 0 || n < fewest) {
				fewest = n
			}
		}
	}
	return fewest
}

// CountCPUs is how many CPUs a list such as 0-3,8 has; 0 if it is none.
func CountCPUs(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, span := strings.Cut(part, "-")
		if !span {
			to = from
		}
		a, err := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || b < a || b > 1<<20 {
			return 0
		}
		n += b - a + 1
	}
	return n
}
