package hostmodel

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Bounds of a host. They are wide: a measurement beyond them is a mistake on any host.
const (
	mostNanos = float64(10 * time.Minute) // of one phase alone
	leastRate = 1e3                       // bytes per second
	mostRate  = 1e12
)

// Validate reports the values of a model that cannot be true. It refuses everything that would make a simulation
// absurd: numbers that are none, negative times, rates of 0, phases of many minutes, tables that fall where load grows.
func (m *Model) Validate() error {
	errs := []error{m.Host.validate(), m.Measured.validate()}
	if m.Format != Format {
		errs = append(errs, fmt.Errorf("format is %d, not %d", m.Format, Format))
	}
	for _, name := range PhaseNames {
		errs = append(errs, m.Phases.Named(name).validate("phases."+name))
	}
	for _, n := range []string{"create", "start"} {
		if p := m.Phases.Named(n); p.Wall.BaseNanos == 0 {
			errs = append(errs, fmt.Errorf("phases.%s takes no time: it was not measured", n))
		}
	}
	o, d := &m.Emulator, &m.Disk
	for _, f := range []struct {
		what        string
		x           float64
		least, most float64
	}{
		{"emulator.start_nanos", float64(o.StartNanos), 0, mostNanos},
		{"emulator.start_cpu_nanos", float64(o.StartCPUNanos), 0, mostNanos},
		{"emulator.end_nanos", float64(o.EndNanos), 0, mostNanos},
		{"emulator.memory_byte_nanos", o.MemoryByteNanos, 0, 1e3},
		{"emulator.read_byte_cpu_nanos", o.ReadByteCPUNanos, 0, 1e3},
		{"emulator.write_byte_cpu_nanos", o.WriteByteCPUNanos, 0, 1e3},
		{"emulator.read_file_nanos", float64(o.ReadFileNanos), 0, mostNanos},
		{"emulator.write_file_nanos", float64(o.WriteFileNanos), 0, mostNanos},
		{"emulator.read_bytes_per_second", o.ReadBytesPerSecond, leastRate, mostRate},
		{"emulator.write_bytes_per_second", o.WriteBytesPerSecond, leastRate, mostRate},
		{"disk.read_bytes_per_second", d.ReadBytesPerSecond, leastRate, mostRate},
		{"disk.write_bytes_per_second", d.WriteBytesPerSecond, leastRate, mostRate},
		{"measured.steadied", m.Measured.Steadied, 0, 10},
		{"idle.gantry_nanos", m.Idle.GantryNanos, 0, 1e12}, {"idle.engine_nanos", m.Idle.EngineNanos, 0, 1e12},
		{"per_container.gantry_nanos", m.PerContainer.GantryNanos, 0, mostNanos},
		{"per_container.engine_nanos", m.PerContainer.EngineNanos, 0, mostNanos},
	} {
		errs = append(errs, within(f.what, f.x, f.least, f.most))
	}
	errs = append(errs, d.ReadLimit.validate("disk.read_limit", 0.01, 2),
		d.WriteLimit.validate("disk.write_limit", 0.01, 2), m.Interference.validate("interference"),
		m.Run.validate("run"))
	return errors.Join(errs...)
}

func (p *Phase) validate(what string) error {
	var errs []error
	for _, c := range []struct {
		what string
		cost *Cost
	}{{what + ".wall", &p.Wall}, {what + ".cpu", &p.CPU}} {
		errs = append(errs, within(c.what+".base_nanos", c.cost.BaseNanos, 0, mostNanos),
			within(c.what+".file_nanos", c.cost.FileNanos, 0, mostNanos),
			within(c.what+".byte_nanos", c.cost.ByteNanos, 0, 1e9/leastRate))
	}
	return errors.Join(append(errs, p.Slowdown.validate(what+".slowdown"), p.Spread.validate(what+".spread"),
		p.Drift.validate(what+".drift"))...)
}

func (h *Host) validate() error {
	switch {
	case h.Name == "" || h.Kernel == "" || h.Runtime == "":
		return errors.New("host without a name, a kernel or a runtime")
	case h.Cores < 1 || h.Cores > 1<<16:
		return fmt.Errorf("host.cores is %d", h.Cores)
	case h.CgroupVersion != 1 && h.CgroupVersion != 2:
		return fmt.Errorf("host.cgroup_version is %d", h.CgroupVersion)
	case h.MemoryBytes < 0:
		return fmt.Errorf("host.memory_bytes is %d", h.MemoryBytes)
	}
	return nil
}

func (m *Measured) validate() error {
	switch {
	case m.At.IsZero():
		return errors.New("measured.at: nobody knows when")
	case m.TookNanos < 0 || m.Containers < 0:
		return fmt.Errorf("measured: negative duration or count")
	}
	return errors.Join(within("measured.busy_cores", m.BusyCores, 0, math.MaxUint16),
		within("measured.stolen", m.Stolen, 0, 1))
}
