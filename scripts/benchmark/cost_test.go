package benchmark

import (
	"cmp"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"gantry/executor/sim/calibrate"
)

// Cost is the time and memory that something took.
type Cost struct {
	Wall, CPU time.Duration
	Memory    int64 // bytes, at its peak
}

// CostOf runs a command and measures it.
func CostOf(cmd *exec.Cmd) (Cost, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		return Cost{}, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out.String())
	}
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return Cost{time.Since(begun), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), use.Maxrss << 10}, nil
}

// OwnCost measures work of this process, but for its memory.
func OwnCost(work func() error) (Cost, error) {
	begun, before := time.Now(), calibrate.OwnCPU()
	err := work()
	return Cost{Wall: time.Since(begun), CPU: calibrate.OwnCPU() - before}, err
}

// InTurns measures some ways n times, in turns, so that a busy machine is busy for all. It returns the median costs.
func InTurns(n int, ways ...func() (Cost, error)) ([]Cost, error) {
	all := make([][]Cost, len(ways))
	for range n {
		for i, way := range ways {
			c, err := way()
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], c)
		}
	}
	medians := make([]Cost, len(ways))
	for i, costs := range all {
		middle := func(of func(Cost) int64) int64 {
			slices.SortFunc(costs, func(x, y Cost) int { return cmp.Compare(of(x), of(y)) })
			return of(costs[len(costs)/2])
		}
		medians[i] = Cost{time.Duration(middle(func(c Cost) int64 { return int64(c.Wall) })),
			time.Duration(middle(func(c Cost) int64 { return int64(c.CPU) })),
			middle(func(c Cost) int64 { return c.Memory })}
	}
	return medians, nil
}
