// Package oci has containers made and run by an OCI runtime, crun or runc, without a daemon: gantry mounts the layers
// of their images, writes their configuration, and knows them by their control groups and processes. They outlive
// gantry: the run directory has all that a later gantry needs.
package oci

import (
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/oci/image"
)

// Capabilities are the abilities of this runtime.
var Capabilities = executor.Capabilities{Name: "oci", Does: "the same containers without a daemon, by crun or runc",
	Programs: true, Learns: true, Adopts: true, Suspends: true, Checkpoints: true,
	Attempts: container.AttemptName}

// Config configures an Engine.
type Config struct {
	// Dirs are run directories. Containers are made in the first.
	Dirs       []string
	Images     Images // nil if none is needed
	CgroupRoot string // "": the group delegated to this process, else cgroup.Root
}

// Images has the images of tasks, by the names in container.Spec; an error wraps fetch.ErrNoImage.
type Images interface {
	Image(ref string) (*image.Image, error)
}
