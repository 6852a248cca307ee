package container

import (
	"fmt"
	"strings"

	"github.com/containerd/errdefs"

	"gantry/executor/container/gpu"
	"gantry/planner/unit"
)

// openGPUs finds the GPUs of the nodes before anything starts. If a task holds one it refuses those that tasks could
// not have; else attempts fail that are to have them.
func (r *Runtime) openGPUs() error {
	for _, n := range r.cfg.Platform.Nodes {
		if n.Devices == nil {
			continue
		}
		if r.gpus == nil {
			r.gpus = gpu.Open(r.cfg.CDI)
		}
		if _, err := r.editsOf(n.Devices); err != nil && r.cfg.GPUs {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return nil
}

// editsOf says how a container gets GPUs.
func (r *Runtime) editsOf(names []string) (*gpu.Edits, error) {
	edits, err := r.gpus.Edits(names)
	if err == nil {
		if err = gpu.There(edits); err != nil {
			err = fmt.Errorf("%s: %w (is their file of CDI of another time? nvidia-ctk cdi generate writes it again)",
				strings.Join(names, ", "), err)
		}
	}
	if err == nil && len(edits.Hooks) > 0 && !r.host.Hooks {
		err = fmt.Errorf("the files of %s have hooks (%s), which this %s does not run: it takes Docker 25 with CDI, "+
			"or --runtime oci", strings.Join(names, ", "), edits.Hooks[0].Path, r.host.Engine)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errdefs.ErrInvalidArgument, err)
	}
	return edits, err
}

// findGPUs finds out how the container gets the GPUs that the attempt holds.
func (a *place) findGPUs() (err error) {
	a.gpus, a.shared, a.edits = nil, false, nil
	of := a.r.cfg.Platform.Nodes[a.l.Node].Devices
	for g := range a.l.GPUs.Each {
		if g < len(of) {
			a.gpus = append(a.gpus, of[g])
		}
	}
	if a.gpus != nil {
		a.shared = a.l.Hold[unit.GPU]%unit.WholeGPU != 0
		a.edits, err = a.r.editsOf(a.gpus)
	}
	return err
}
