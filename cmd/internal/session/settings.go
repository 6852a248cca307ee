package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/host"
	"github.com/shirou/gopsutil/v3/mem"

	"gantry/cgroup"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/gpu"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/seed"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/trace/scenario"
)

// Settings are those of a run. The log keeps them, so that a resumed run continues as it began.
type Settings struct {
	Policy    string  `json:"policy"`
	Seed      uint64  `json:"seed"`
	TimeScale float64 `json:"time_scale"`
	SizeScale float64 `json:"size_scale"`
	Image     string  `json:"image,omitempty"`
	// Env and Mounts are given to all commands: NAME=value, and HOST:CONTAINER. Secrets are NAME or NAME=FILE.
	Env      []string         `json:"env,omitempty"`
	Shell    string           `json:"shell,omitempty"` // "": as the workflow says, else trace.Strict
	Mounts   []string         `json:"mounts,omitempty"`
	Secrets  []string         `json:"secrets,omitempty"`
	Tokens   []executor.Token `json:"tokens,omitempty"`   // that the run has
	Needs    []string         `json:"needs,omitempty"`    // rules of the tokens that tasks need
	GPUs     []string         `json:"gpus,omitempty"`     // rules as executor.GPUs takes them
	CDI      []string         `json:"cdi_dir,omitempty"`  // directories of gpu.Open, absolute; nil: the usual ones
	Networks []string         `json:"networks,omitempty"` // rules as executor.Networked takes them
	Emulate  bool             `json:"emulate,omitempty"`
	Pull     string           `json:"pull,omitempty"` // fetch.Pull
	Fit      bool             `json:"fit,omitempty"`
	Strict   bool             `json:"strict,omitempty"`
	FailFast bool             `json:"fail_fast,omitempty"`
	// RejectLate refuses workflows that cannot meet their deadlines.
	RejectLate bool          `json:"reject_late,omitempty"`
	Startup    time.Duration `json:"startup_ns"`
	// StartupGiven says that Startup is the user's: estimates prefer it to Host.
	StartupGiven bool `json:"startup_given,omitempty"`
	// Host is the model of this host, for estimates on containers and for simulations; nil: none. Noise has phases vary
	// in a simulation as it says.
	Host  *hostmodel.Model `json:"host_model,omitempty"`
	Noise bool             `json:"noise,omitempty"`
	// ContainerMounts lets containers read the directories that their catalogs name; the others are how workflows of
	// Pegasus are read.
	ContainerMounts bool     `json:"container_mounts,omitempty"`
	Catalogs        []string `json:"catalogs,omitempty"` // absolute paths
	Site            string   `json:"site,omitempty"`
	EnforceWalltime bool     `json:"enforce_walltime,omitempty"`
	// Define has variables of makeflows.
	Define    map[string]string `json:"define,omitempty"`
	Grace     time.Duration     `json:"grace_ns"`
	Starts    int               `json:"starts,omitempty"`
	MaxOutput int64             `json:"max_output_bytes,omitempty"` // of runs on docker; 0: container.DefaultMaxOutput
	Disk      int64             `json:"disk_bytes,omitempty"`       // of each attempt; 0: no limit
	Tmp       int64             `json:"tmp_bytes,omitempty"`        // of /tmp of each attempt, in memory; 0: on disk
	// Reuse lets tasks take over outputs of earlier attempts; Scratch deletes files as soon as nobody needs them.
	Reuse   bool `json:"reuse,omitempty"`
	Scratch bool `json:"scratch,omitempty"`
	// Results are patterns of files that are results; ResultsDir is where they are copied, "" if nowhere.
	Results    []string `json:"results,omitempty"`
	ResultsDir string   `json:"results_dir,omitempty"`
	// OnEnd is a command of the host for the end of the run.
	OnEnd string `json:"on_end,omitempty"`

	Retries []string `json:"retries,omitempty"`
	Errors  string   `json:"errors,omitempty"` // error model; "" is none
	// EstimateAsTrace says that Estimator is that of the trace, with the knowledge that the trace has, in a simulation.
	EstimateAsTrace bool   `json:"estimate_as_trace,omitempty"`
	Estimator       string `json:"estimator,omitempty"` // "" is declared; a trained model is named with its version
	// PredictMemory lets the trained model set the memory that tasks may hold: lean, balanced or safe; "" does not.
	PredictMemory string `json:"predict_memory,omitempty"`
	Count         int    `json:"count,omitempty"` // of the workflows, the first to arrive; 0: all
	// Repetition is the stream of a workload file that runs here, from 1 on; WarmUp and CoolDown count the workflows
	// that metrics leave out.
	Repetition int               `json:"repetition,omitempty"`
	WarmUp     int               `json:"warm_up,omitempty"`
	CoolDown   int               `json:"cool_down,omitempty"`
	Cluster    *scenario.Cluster `json:"cluster"`
	Runtime    string            `json:"runtime"`
	// Serve says that work is handed in while the run is under way.
	Serve bool `json:"serve,omitempty"`
	// Of runs on Slurm: the directory that nodes share, "" for that of the log; the runtime of nodes, "" for the first
	// that they have.
	Shared      string `json:"shared,omitempty"`
	NodeRuntime string `json:"node_runtime,omitempty"`
	// Faults go wrong in a repetition of an experiment; nil: none do.
	Faults *scenario.Faults `json:"faults,omitempty"`
	// Measured, of simulations, is the run whose measurements say how long programs run.
	Measured string `json:"measured,omitempty"`
}

// Encode writes them as the log keeps them.
func (s *Settings) Encode() json.RawMessage {
	// The type has nothing that cannot be encoded.
	text, _ := json.Marshal(s)
	return text
}

// SettingsOf are those of a run of the log.
func SettingsOf(info *sqlite.RunInfo) (*Settings, error) {
	set := &Settings{}
	if err := json.Unmarshal(info.Settings, set); err != nil {
		return nil, exit.Hostf("read the log: settings of run %s: %w", info.Name, err)
	}
	return set, nil
}

// starts is that number, or the usual one of the host that is simulated.
func (s *Settings) starts() int {
	cores := 0
	if s.Host != nil {
		cores = s.Host.Host.Cores
	}
	return cmp.Or(s.Starts, executor.Starts(cores))
}

// draws is the seed of errors and of policies: each repetition has its own.
func (s *Settings) draws() uint64 { return seed.Repetition(s.Seed, max(1, s.Repetition)-1) }

// RetryClasses lists the classes that an attempt to be retried may have ended as.
func RetryClasses() string {
	var names []string
	for _, o := range planner.Outcomes() {
		if o != planner.OK {
			names = append(names, o.String())
		}
	}
	return strings.Join(names, ", ")
}

// RetryRules reads CLASS=N.
func RetryRules(given []string) (planner.RetryRules, error) {
	r := planner.DefaultRetryRules()
	for _, g := range given {
		name, text, _ := strings.Cut(g, "=")
		is := func(o planner.Outcome) bool { return o != planner.OK && o.String() == name }
		i := slices.IndexFunc(planner.Outcomes(), is)
		n, err := strconv.ParseInt(text, 10, 16)
		if i < 0 || err != nil || n < 0 {
			return r, fmt.Errorf("--retry %s: give CLASS=N, with a number from 0 and a class of %s", g, RetryClasses())
		}
		r.Limit[planner.Outcomes()[i]] = int32(n)
	}
	return r, nil
}

// hostMargin is the share of the host's memory that is left to the host, Docker and gantry itself.
const hostMargin = 0.1

// outbound reports whether a rule may give tasks a network.
func (s *Settings) outbound() bool {
	return slices.ContainsFunc(s.Networks, func(rule string) bool { return !strings.HasSuffix(rule, "none") })
}

// HostCluster is this host as one node, with the GPUs that files in directories describe; see gpu.Open.
func HostCluster(cdi []string) (*scenario.Cluster, error) {
	cores, memory, err := HostSize()
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	gpus := gpu.Open(cdi).GPUs()
	gpus = gpus[:min(len(gpus), planner.MostGPUs)]
	c := &scenario.Cluster{Name: "host", Nodes: []scenario.ClusterNode{{Name: "host", Cores: float64(cores), Speed: 1,
		Memory: int64(float64(memory) * (1 - hostMargin)), GPUs: int64(len(gpus)), Devices: gpus}}}
	executor.FillDisk(c)
	return c, nil
}

// HostSize is the size of this host for containers of gantry: the cores that cpusets of gantry and of the container
// engine leave them, and the memory in bytes.
func HostSize() (cores int, memory int64, err error) {
	cores, err = cpu.Counts(true)
	if err != nil {
		return 0, 0, fmt.Errorf("count the cores of this host: %w", err)
	}
	if n := cgroup.Cores("/sys/fs/cgroup", "gantry", "gantry.slice", "docker", "system.slice"); n > 0 {
		cores = min(cores, n)
	}
	vm, err := mem.VirtualMemory()
	if err != nil {
		return 0, 0, fmt.Errorf("measure the memory of this host: %w", err)
	}
	return cores, int64(vm.Total), nil
}

// CheckHost refuses a cluster that this host cannot be.
func CheckHost(c *scenario.Cluster, oversubscribe bool) error {
	cores, memory, err := HostSize()
	if err != nil {
		return exit.With(exit.Host, err)
	}
	var asked float64
	var askedMemory int64
	for _, n := range c.Nodes {
		asked += n.Cores * n.Speed
		askedMemory += n.Memory
	}
	if oversubscribe {
		return nil
	}
	const slack = 1e-9
	if asked > float64(cores)+slack {
		return exit.Inputf("the cluster asks for %g cores (cores x speed over all nodes), this host has %d: "+
			"scale the speeds and --time-scale, or use --oversubscribe", asked, cores)
	}
	if askedMemory > memory {
		return exit.Inputf("the cluster asks for %s of memory, this host has %s: make it smaller, or use "+
			"--oversubscribe", term.Size(&askedMemory), term.Size(&memory))
	}
	return nil
}

// HostFacts describes this machine for the log; unreadable facts stay unknown.
func HostFacts() *sqlite.Host {
	h := &sqlite.Host{}
	// One by one: for all of it together gopsutil runs lsb_release, a script of several programs, which takes as much
	// CPU time as three containers.
	h.System = runtime.GOOS
	h.Name, _ = os.Hostname()
	h.Architecture, _ = host.KernelArch()
	h.Release, _ = host.KernelVersion()
	if cores, memory, err := HostSize(); err == nil {
		h.Cores, h.Memory = cores, unit.Bytes(memory)
	}
	if cpus, err := cpu.Info(); err == nil && len(cpus) > 0 {
		h.MHz, h.Vendor, h.Model = int(cpus[0].Mhz), cpus[0].VendorID, cpus[0].ModelName
	}
	return h
}
