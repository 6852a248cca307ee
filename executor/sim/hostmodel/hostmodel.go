// Package hostmodel is a model of the host that runs gantry's containers: how long the phases of an attempt take beside
// its program and how that grows with load, their CPU time, the effect of limits of CPU and I/O, and by how much all of
// it varies. A Model is plain data. gantry calibrate measures one, the log keeps it, and simulations use it; no policy
// sees it.
//
// # Phases of an attempt
//
// The instants are those of planner.Usage, with the event that reports the end:
//
//	queued -Stage-> staged -(wait for one of the --starts places)-Create-> created -Start-> started
//	started -the program-> ended -End-> gantry knows -Publish-> AttemptExited
//	started -Answer-> the Docker Engine has answered the request to start: its place among --starts is free
//	AttemptExited -Remove-> container and control group are gone; beside everything else
//
// Stage includes writing the transaction of the log that ordered the start. Bring and Copy come on top of it for
// inputs that the attempt is the first to need, and for those that come from another node.
//
// # Units and factors
//
// A Cost is a time: a base, more for each file, more for each byte. A Phase has two, of wall time and of CPU time of
// the whole host (gantry, engine, container runtime, kernel), both of one phase alone on a host at rest. Under load its
// wall time is Wall times Slowdown.At(together, busy): together is how many phases of this kind are under way at once
// (of starts: see Phases), this one included, and busy is how many cores tasks keep busy. CPU time does not grow.
// Slowdown.At(1, 0) is 1.
//
// A Spread is the distribution of measured over predicted time, as quantiles at even probabilities.
//
// # Use
//
// A calibration fills a Model, calls Raise for its surfaces (measurements scatter, a model may not), and Validate
// before it is stored. Readers call Decode, which refuses a model that is damaged or of another format, and Fits with
// the identity of the host at hand. Example is a valid model for tests.
package hostmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gantry/executor/emulate"
)

// Format is raised whenever a stored model would be misread.
const Format = 1

// Model describes one host, with one runtime of containers. Times are of the wall clock unless a name says CPU.
type Model struct {
	Format   int      `json:"format"`
	Host     Host     `json:"host"`
	Measured Measured `json:"measured"`
	Phases   Phases   `json:"phases"`
	// Emulator is the task emulator's own overhead, and the rates of the disk as it sees them.
	Emulator emulate.Own `json:"emulator"`
	// Disk is the host's disk, shared by all.
	Disk Disk `json:"disk"`
	// Interference is 1 and the CPU time that programs lose for each CPU nanosecond of phases, by the number of places
	// for starts that are held and of cores that programs keep busy: several programs start a container, so that tasks
	// lose time before all cores are busy. Empty: they lose only the time that the host lacks.
	Interference Surface `json:"interference"`
	// Idle is the CPU time of gantry and the engine while nothing happens.
	Idle Use `json:"idle"`
	// PerContainer is how the CPU time of all phases of one container is shared out. Phases have the sums.
	PerContainer Use `json:"per_container"`
	// Run is the spread of emulated tasks alone: measured run time over emulate.Spec.Cost.
	Run Spread `json:"run"`
}

// Host identifies the measured host and its software.
type Host struct {
	Name          string `json:"name"`
	Architecture  string `json:"architecture"`
	Kernel        string `json:"kernel"`  // release, as uname -r
	Runtime       string `json:"runtime"` // name of executor.Capabilities: "docker"
	Engine        string `json:"engine"`  // "Docker Engine", or the program that runs containers
	EngineVersion string `json:"engine_version"`
	CgroupVersion int    `json:"cgroup_version"` // 1 or 2
	Cores         int    `json:"cores"`
	MemoryBytes   int64  `json:"memory_bytes"`
	FileSystem    string `json:"file_system"` // of the run directories: "ext4"
	Gantry        string `json:"gantry"`      // build that measured
}

// Measured says when a model was measured, and how quiet the host was.
type Measured struct {
	At         time.Time `json:"at"`
	TookNanos  int64     `json:"took_nanos"`
	Containers int       `json:"containers"` // that were started for it
	// BusyCores is the use by programs of others meanwhile, in cores, and Stolen the share of CPU time that a
	// hypervisor gave to others.
	BusyCores float64 `json:"busy_cores"`
	Stolen    float64 `json:"stolen"`
	// Steadied is the factor by which starts moved towards those of earlier calibrations; 0: they did not.
	Steadied float64 `json:"steadied,omitempty"`
	// Warnings are the reasons for wider spreads, for people.
	Warnings []string `json:"warnings,omitempty"`
}

// Phases are those of an attempt. Create, Start and Answer hold one of the --starts places: the first argument of their
// Slowdown is the number of places held. For the others it is the number of phases of their own kind.
type Phases struct {
	Stage   Phase `json:"stage"`   // files: inputs that are shown in the work directory
	Bring   Phase `json:"bring"`   // files: inputs from outside that are made or copied, bytes: of those
	Copy    Phase `json:"copy"`    // files: copied from other nodes, bytes: of those; links may be slower
	Create  Phase `json:"create"`  //
	Start   Phase `json:"start"`   //
	Answer  Phase `json:"answer"`  //
	End     Phase `json:"end"`     //
	Publish Phase `json:"publish"` // files: outputs, bytes: of those
	Remove  Phase `json:"remove"`  //
}

// PhaseNames are the names of phases as Phase.Named has them, in the order of an attempt.
var PhaseNames = []string{"stage", "bring", "copy", "create", "start", "answer", "end", "publish", "remove"}

// Named returns the phase of a name; nil if there is none.
func (p *Phases) Named(name string) *Phase {
	all := [...]*Phase{&p.Stage, &p.Bring, &p.Copy, &p.Create, &p.Start, &p.Answer, &p.End, &p.Publish, &p.Remove}
	if i := slices.Index(PhaseNames, name); i >= 0 {
		return all[i]
	}
	return nil
}

// Phase is one phase of an attempt.
type Phase struct {
	Wall     Cost    `json:"wall"`
	CPU      Cost    `json:"cpu"`
	Slowdown Surface `json:"slowdown"` // of Wall; empty: 1 everywhere
	Spread   Spread  `json:"spread"`   // measured over Wall times Slowdown; empty: exact
	// Drift is the spread of the factor that the phases of one run share: hosts are slower at some times than at
	// others. It keeps intervals honest, as independent errors cancel out.
	Drift Spread `json:"drift,omitempty"`
}

// Cost is a time in nanoseconds that grows with files and bytes.
type Cost struct {
	BaseNanos float64 `json:"base_nanos"`
	FileNanos float64 `json:"file_nanos"` // for each file
	ByteNanos float64 `json:"byte_nanos"` // for each byte
}

// Nanos is the cost of a number of files with that many bytes together.
func (c *Cost) Nanos(files int, bytes int64) float64 {
	return c.BaseNanos + c.FileNanos*float64(files) + c.ByteNanos*float64(bytes)
}

// Use is the CPU time of gantry and of the engine. In Model.Idle it is CPU nanoseconds for each second of wall time.
type Use struct {
	GantryNanos float64 `json:"gantry_nanos"`
	EngineNanos float64 `json:"engine_nanos"` // the engine and the programs that it starts to run containers
}

// Disk is the host's disk below the run directories. Rates are of direct I/O without limits, by 4 streams together.
type Disk struct {
	ReadBytesPerSecond  float64 `json:"read_bytes_per_second"`
	WriteBytesPerSecond float64 `json:"write_bytes_per_second"`
	// ReadLimit and WriteLimit are the rate achieved over that of a block I/O limit, by the limit in bytes per second.
	ReadLimit  Curve `json:"read_limit"`
	WriteLimit Curve `json:"write_limit"`
}

// quotaPeriod is the period of the CPU quotas of tasks: in each the kernel lets a task use that time times its cores,
// and then has it stand still until the next one.
const quotaPeriod = 20 * time.Millisecond

// QuotaWall returns how long cpu nanoseconds take on that many threads under a quota in thousandths of a core; 0 or
// less is none.
func QuotaWall(cpu float64, threads int, millicores int64) float64 {
	n := float64(max(threads, 1))
	cores := float64(millicores) / 1000
	if cpu <= 0 {
		return 0
	}
	if millicores <= 0 || cores >= n {
		return cpu / n
	}
	period := float64(quotaPeriod)
	each := period * cores // CPU time in one period
	whole := float64(int64(cpu / each))
	if whole*each == cpu {
		whole--
	}
	return whole*period + (cpu-whole*each)/n
}

// Overhead is the expected time of a container beside its program, with that many inputs and outputs, from the order to
// start it until its place is free: staging, creating, starting, ending and publishing, on a host that is half busy.
// Waiting for a place among starts, and making files from outside, are not in it.
func (m *Model) Overhead(inputs, outputs int) time.Duration {
	p, nanos := &m.Phases, 0.0
	for _, x := range []struct {
		phase *Phase
		files int
	}{{&p.Stage, inputs}, {&p.Create, 0}, {&p.Start, 0}, {&p.End, 0}, {&p.Publish, outputs}} {
		nanos += x.phase.Wall.Nanos(x.files, 0) * x.phase.Slowdown.At(1, float64(m.Host.Cores)/2) *
			x.phase.Spread.Mean() * x.phase.Drift.Mean()
	}
	return time.Duration(math.Round(nanos))
}

// Encode returns a model as JSON, for the log and for files.
func (m *Model) Encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return json.MarshalIndent(m, "", "  ")
}

// ErrDamaged says that a stored model cannot be used on any host; ErrForeign that it describes another one; ErrOld that
// nothing was measured for long.
var (
	ErrDamaged = errors.New("damaged host model")
	ErrForeign = errors.New("model of another host")
	ErrOld     = errors.New("old host model")
	ErrNone    = errors.New("no host model: run gantry calibrate")
)

// Decode reads a model and checks it whole. Errors wrap ErrDamaged.
func Decode(text []byte) (*Model, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if head.Format != Format {
		return nil, fmt.Errorf("%w: it has format %d, this gantry reads %d: run gantry calibrate", ErrDamaged,
			head.Format, Format)
	}
	m := new(Model)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, nil
}

// Fits reports a difference between a model and the host at hand that forbids its use: an error that wraps ErrForeign,
// or nil. Unknown members of here ("" or 0) do not differ. Another build of gantry is no reason.
func (m *Model) Fits(here Host) error {
	for _, f := range []struct {
		what    string
		was, is any
	}{
		{"host", m.Host.Name, here.Name}, {"architecture", m.Host.Architecture, here.Architecture},
		{"kernel", m.Host.Kernel, here.Kernel}, {"runtime", m.Host.Runtime, here.Runtime},
		{"engine", m.Host.Engine, here.Engine},
		{"version of the engine", m.Host.EngineVersion, here.EngineVersion},
		{"file system", m.Host.FileSystem, here.FileSystem},
		{"version of control groups", m.Host.CgroupVersion, here.CgroupVersion},
		{"number of cores", m.Host.Cores, here.Cores},
	} {
		if f.is != "" && f.is != 0 && f.was != f.is {
			return fmt.Errorf("%w: its %s is %v, here it is %v: run gantry calibrate", ErrForeign, f.what, f.was, f.is)
		}
	}
	return nil
}
