package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"gantry/executor/emulate"
)

// node becomes the gantry beside this program, which runs containers within a job step of Slurm.
func node() int {
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(filepath.Join(filepath.Dir(self), "gantry"), os.Args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "gantry-task: node: the program gantry has to lie beside gantry-task:", err)
	return emulate.ExitUsage
}
