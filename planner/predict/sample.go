package predict

import (
	"time"

	"gantry/planner/unit"
)

// Sample is an attempt that ended well: its features, known beforehand, and its measurements.
type Sample struct {
	Kind     string // transformation: models are per kind
	Features Features
	Declared time.Duration // by the trace, on that node; 0: not known
	Ran      time.Duration // the program alone, suspensions not counted
	Peak     unit.Bytes    // of memory; 0: not known
}

// Features has the properties of a task, and of the node it is to run on, that models see.
type Features struct {
	Input  unit.Bytes // sum of the sizes of its inputs, as they were known when the workflow arrived
	CPU    int64      // millicores
	Memory unit.Bytes // that it may use
	Speed  float64    // of the node; 1 is the reference
	Load   int        // attempts of the run that were under way on all nodes when it was ordered
}

// FeatureNames has the names of the features that models are trained on, in order.
func FeatureNames() []string {
	return []string{"input_bytes", "millicores", "memory_bytes", "1/speed", "load"}
}

const featureCount = 5

func (f *Features) vector() [featureCount]float64 {
	return [...]float64{float64(f.Input), float64(f.CPU), float64(f.Memory), 1 / normal(f.Speed), float64(f.Load)}
}

// forMemory leaves out the features on which the memory of a task does not depend.
func (f Features) forMemory() Features {
	f.Speed, f.Load = 1, 0
	return f
}

func (s *Sample) speed() float64 { return normal(s.Features.Speed) }

// normal is the speed to normalise by: a node that does not tell counts as the reference.
func normal(speed float64) float64 {
	if speed <= 0 {
		return 1
	}
	return speed
}

// work is a runtime as models see it: in seconds at speed 1.
func (s *Sample) work() float64 { return s.Ran.Seconds() * s.speed() }

// enough is the memory, in bytes, that the attempt would have done with. A peak that reached the limit has page cache
// in it, of which the kernel leaves as much as there is room for: the limit was enough.
func (s *Sample) enough() float64 {
	if s.Features.Memory == 0 { // no limit
		return margin * float64(s.Peak)
	}
	return max(float64(s.Peak), min(margin*float64(s.Peak), float64(s.Features.Memory)))
}

// declaredWork is the work by the declared runtime.
func (s *Sample) declaredWork() float64 { return s.Declared.Seconds() * s.speed() }
