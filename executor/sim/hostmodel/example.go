package hostmodel

import (
	"time"

	"gantry/executor/emulate"
)

// Example returns a valid model with round numbers, for tests: a host of that many cores on which staging takes 10 ms,
// creating a container 20 ms, starting it 80 ms, the engine's answer 10 ms more, ending 30 ms and publishing 5 ms and 5
// ms for each file. Starting costs 60 ms of CPU time. Nothing varies, and load slows nothing down but by the CPU time
// that it takes.
func Example(cores int) *Model {
	phase := func(wall, cpu, file time.Duration) Phase {
		return Phase{Wall: Cost{BaseNanos: float64(wall), FileNanos: float64(file)}, CPU: Cost{BaseNanos: float64(cpu)}}
	}
	const ms = time.Millisecond
	m := &Model{Format: Format,
		Host: Host{Name: "example", Architecture: "x86_64", Kernel: "6.8.0", Runtime: "docker", Engine: "Docker Engine",
			EngineVersion: "28.0.0", CgroupVersion: 2, Cores: cores, MemoryBytes: 16 << 30, FileSystem: "ext4",
			Gantry: "test"},
		Measured: Measured{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), TookNanos: int64(time.Minute),
			Containers: 200},
		Phases: Phases{Stage: phase(10*ms, 0, 0), Create: phase(20*ms, 0, 0), Start: phase(80*ms, 60*ms, 0),
			Answer: phase(10*ms, 0, 0), End: phase(30*ms, 0, 0), Publish: phase(5*ms, 0, 5*ms),
			Remove: phase(40*ms, 0, 0)},
		Emulator: emulate.Own{ReadBytesPerSecond: 1e9, WriteBytesPerSecond: 1e9},
		Disk:     Disk{ReadBytesPerSecond: 1e9, WriteBytesPerSecond: 1e9},
	}
	m.Phases.Bring.Wall.ByteNanos, m.Phases.Copy.Wall.ByteNanos = 1, 1
	return m
}
