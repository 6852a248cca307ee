package slurm

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"gantry/executor/container/slurm/allocation"
	"gantry/executor/container/slurm/node"
	"gantry/executor/container/stage"
)

// abandonTime is how long job steps may take to end.
const abandonTime = time.Minute

// Abandon ends the job steps of a run that no gantry works on, and returns their names.
func Abandon(ctx context.Context, runDir string, a *allocation.Allocation) (ended []string, err error) {
	names := stepsOf(runDir)
	begun := time.Now()
	for asked := ""; ; {
		all, err := a.Steps(ctx)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(s allocation.Step) bool { return !names[s.Name] })
		if len(all) == 0 {
			break
		}
		signal := "TERM"
		if time.Since(begun) > abandonTime/2 {
			signal = "KILL"
		}
		for _, s := range all {
			if signal != asked {
				if err := a.CancelStep(ctx, s.ID, signal); err != nil {
					return nil, err
				}
			}
			if !slices.Contains(ended, s.Name) {
				ended = append(ended, s.Name)
			}
		}
		asked = signal
		if time.Since(begun) > abandonTime {
			return nil, fmt.Errorf("job step %s does not end: scancel %s, then try again", all[0].ID, all[0].ID)
		}
		if stage.Sleep(ctx, 200*time.Millisecond) != nil {
			return nil, context.Cause(ctx)
		}
	}
	return ended, nil
}

// stepsOf are the names of the steps to which containers of a run were given.
func stepsOf(runDir string) map[string]bool {
	names := map[string]bool{}
	entries, _ := os.ReadDir(node.Top(runDir))
	for _, e := range entries {
		if name, err := node.DirOf(runDir, e.Name()).Step(); err == nil && name != "" {
			names[name] = true
		}
	}
	return names
}
