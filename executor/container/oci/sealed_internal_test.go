package oci

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The copy runs, nobody can write to it, and a script has none.
func TestACopyOfAProgramCannotBeChanged(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip("needs the program true")
	}
	f, err := sealed(program)
	if err != nil {
		t.Skipf("this kernel runs nothing from memory: %v", err)
	}
	defer f.Close()
	if err := exec.Command(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())).Run(); err != nil {
		t.Errorf("it does not run: %v", err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it can be written to")
	}
	if err := f.Truncate(0); err == nil {
		t.Error("it can be cut off")
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := sealed(script); err == nil {
		t.Error("a script has a copy, which its interpreter could not open")
	}
}
