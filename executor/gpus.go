package executor

import (
	"fmt"
	"strconv"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/reader"
)

// CheckGPUs reads a rule of GPUs: N, for all tasks whose workflow says nothing of GPUs, or PATTERN=N for those whose
// name or type matches.
func CheckGPUs(rule string) error {
	return checkRule(rule, func(count string) error {
		if n, err := parseGPUs(count); err != nil || n > planner.MostGPUs*unit.WholeGPU {
			return fmt.Errorf("%q: write N or PATTERN=N, with a whole number up to %d, or a part of one such as 0.5",
				rule, planner.MostGPUs)
		}
		return nil
	})
}

func parseGPUs(count string) (int64, error) {
	x, err := reader.Number(count)
	n, ok := trace.GPUs(x)
	if err == nil && !ok {
		err = strconv.ErrRange
	}
	return int64(n), err
}

// GPUs is how many thousandths of GPUs a task holds: as its trace says, else by the last rule that matches it.
func GPUs(rules []string, t *trace.Task) int64 {
	if t.GPUs > 0 {
		return int64(t.GPUs)
	}
	gpus, _ := parseGPUs(ruled(rules, t, "0")) // CheckGPUs has read it
	return gpus
}

// gpus adds the GPUs of a task to its need of cores.
func (a *Admitter) gpus(sub *Submission, t *trace.Task, need *unit.Vector) error {
	need[unit.GPU] = GPUs(a.GPUs, t)
	if need[unit.GPU] == 0 || a.largest(*need) != nil {
		return nil
	}
	most := a.most(unit.GPU, *need)
	if !a.Fit {
		why := ""
		if most == 0 && a.NoGPUs != nil {
			why = " (" + a.NoGPUs() + ")"
		}
		return a.refuse(sub, t, "needs GPUs: %g, and no node that has its cores has more than %d%s; "+lessOrFit,
			float64(need[unit.GPU])/unit.WholeGPU, most/unit.WholeGPU, why)
	}
	need[unit.GPU] = most
	return nil
}
