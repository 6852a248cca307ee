package allocation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// Broadcast brings a file to the nodes of a step that runs, by Slurm's sbcast. A file that is there is replaced.
func (a *Allocation) Broadcast(ctx context.Context, step, from, to string) error {
	cmd := exec.CommandContext(ctx, "sbcast", "--preserve", "--force", "--jobid="+a.id+"."+step, from, to)
	cmd.Env = environment()
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return notInstalled("sbcast")
	}
	return fmt.Errorf("bring %s: %w", to, refusal("sbcast", said.String(), err))
}
