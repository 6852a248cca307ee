package executor

import (
	"cmp"
	"time"

	"gantry/executor/emulate"
)

// Emulated reports whether the task emulator does the work.
func (t *TaskSpec) Emulated() bool { return len(t.Command) == 0 }

// Emulation is the work of an emulated attempt on its node, which has that speed. Inputs from outside that exist keep
// their size: Bytes -1.
func (l *Launch) Emulation(speed float64) emulate.Spec {
	t := l.Spec
	s := emulate.Spec{MemoryBytes: int64(t.Memory)}
	// CPU time is that of the reference core: the quota of a slow node stretches it to the run time there.
	run := t.TrueRun(l.Node, speed)
	reference := run
	if speed > 0 {
		reference = time.Duration(float64(run) * speed)
	}
	s.Work(run, reference, t.Cores, cmp.Or(t.AvgCPU, -1))
	size := func(f *FileSpec, known bool) int64 {
		if !known {
			return -1
		}
		return int64(f.Size)
	}
	if k := l.Keeps; k != nil {
		s.Keep, s.CheckpointBytes = true, int64(k.Size)
	}
	for _, f := range t.Inputs {
		if f.Program != "" {
			continue
		}
		bytes := size(f, f.Sized && f.External == "")
		if f.Block > 0 && bytes >= 0 {
			s.Inputs[len(s.Inputs)-1].Bytes += bytes
		} else if f.Block == 0 {
			s.Inputs = append(s.Inputs, emulate.File{Path: f.inWork(), Bytes: bytes})
		}
	}
	for _, f := range t.Outputs {
		s.Outputs = append(s.Outputs, emulate.File{Path: f.Name, Bytes: max(0, size(f, f.Sized))})
	}
	return s
}

// inWork is where an emulated task finds an input in its work directory.
func (f *FileSpec) inWork() string {
	if f.Glob {
		return f.NodePath()
	}
	return f.Name
}
