// Package threadtest holds that the first thread of a process keeps its rights and namespaces.
package threadtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Keeps calls do many times, side by side, and fails if /proc shows another first thread afterwards.
func Keeps(t *testing.T, do func()) {
	t.Helper()
	before := first(t)
	for range 20 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(do)
		}
		all.Wait()
		if after := first(t); after != before {
			t.Fatalf("the first thread of the process was\n%s\nand is\n%s", before, after)
		}
	}
}

// first returns the kernel's record of the first thread.
func first(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		name, _, _ := strings.Cut(line, ":")
		switch name {
		case "Umask", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Seccomp":
			b.WriteString(line)
		}
	}
	all, _ := filepath.Glob("/proc/self/ns/*")
	for _, path := range all {
		is, err := os.Readlink(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n", is)
	}
	return b.String()
}
