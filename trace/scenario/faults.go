package scenario

import (
	"strings"
	"time"

	"gantry/trace/reader"
)

// Faults are what goes wrong in the runs of an experiment:
//
//	node_loss: {every: 1h, for: 5m}        # each node is lost after a time of that mean, and returns
//	task_failure: 0.01                     # the probability that an attempt ends before its task is done
//	slow_nodes: {share: 0.25, speed: 0.5}  # nodes that are slower than the planner knows
//
// Times between losses are exponential. Attempts on a node that is lost are lost; files there are not.
type Faults struct {
	LossEvery   time.Duration `json:"loss_every_ns,omitempty"` // 0: no node is lost
	LossFor     time.Duration `json:"loss_for_ns,omitempty"`
	TaskFailure float64       `json:"task_failure,omitempty"`
	SlowShare   float64       `json:"slow_share,omitempty"`
	SlowSpeed   float64       `json:"slow_speed,omitempty"` // times that of the cluster file
}

// ReadFaults reads the value of a factor: none, or a mapping. Without one the result is nil.
func ReadFaults(text string) (*Faults, error) {
	if text == "" {
		return nil, nil
	}
	f := &Faults{SlowSpeed: 1}
	if text == "none" {
		return f, nil
	}
	err := read(strings.NewReader(text), "value", "of faults", func(y *doc, root *reader.Node) {
		y.keyed(root, "faults", []yamlKey{
			{"node_loss", func(v *reader.Node) {
				y.keyed(v, "node_loss", []yamlKey{
					{"every", y.duration(&f.LossEvery, "every")}, {"for", y.duration(&f.LossFor, "for")}})
				if !y.Faults.HasErrors() && (f.LossEvery < time.Millisecond || f.LossFor < time.Millisecond) {
					y.Faults.Fail("bad-faults", y.Line(v), "", "node_loss needs every and for, from 1ms on, such as "+
						"{every: 1h, for: 5m}")
				}
			}},
			{"task_failure", y.within(&f.TaskFailure, "task_failure", 0, 0.9, "a probability from 0 to 0.9")},
			{"slow_nodes", func(v *reader.Node) {
				const must = "a number from 0 to 1"
				y.keyed(v, "slow_nodes", []yamlKey{{"share", y.within(&f.SlowShare, "share", 0, 1, must)},
					{"speed", y.within(&f.SlowSpeed, "speed", 0.01, 1, must)}})
				if !y.Faults.HasErrors() && (f.SlowShare == 0 || f.SlowSpeed == 1) {
					y.Faults.Fail("bad-faults", y.Line(v), "", "slow_nodes needs a share above 0 and a speed below 1, "+
						"such as {share: 0.25, speed: 0.5}")
				}
			}},
		})
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}
