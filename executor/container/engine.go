package container

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"gantry/cgroup"
	"gantry/executor/container/evidence"
	"gantry/executor/container/gpu"
)

// Engine makes and runs containers: the Docker Engine, or gantry itself with an OCI runtime. It keeps its knowledge of
// them when gantry ends. An error that is errdefs.ErrNotFound says that there is no such container or image.
type Engine interface {
	// Host describes the engine and its abilities here; its errors wrap ErrUnusable.
	Host(ctx context.Context) (Host, error)
	// Create makes a container; an existing one of that name is replaced. It may change s.Image to the one it took.
	Create(ctx context.Context, s *Spec) (id string, err error)
	Start(ctx context.Context, id string) error
	// Signal sends a signal, such as "SIGTERM", to the first process. A container that does not run is
	// errdefs.ErrConflict.
	Signal(ctx context.Context, id, signal string) error
	// Freeze suspends all processes, or lets them continue. ErrBusy says that it may work a little later.
	Freeze(ctx context.Context, id string, frozen bool) error
	// Remove removes a container in any state. A missing one is no error.
	Remove(ctx context.Context, id string) error
	Inspect(ctx context.Context, id string) (State, error)
	// Wait returns the exit code when the container does not run, or an error after a while.
	Wait(ctx context.Context, id string) (code int, err error)
	// List returns the containers with a label of that value; "" is any value.
	List(ctx context.Context, label, value string) ([]Listed, error)
	// Environment is that of the programs of an image.
	Environment(ctx context.Context, image string) ([]string, error)
	// Output is the output of the first process of a container, or the engine's message if that process did not begin,
	// as far as it is kept.
	Output(ctx context.Context, id string) (stdout, stderr []byte, err error)
	// Away reports whether the engine takes no requests, and Unreachable whether an error means so.
	Away() bool
	Unreachable(err error) bool
	// Since is when the engine was started; the zero Time if that is not known.
	Since() time.Time
	Close() error
}

// Tidier is an Engine of which a gantry that was killed may leave unfinished containers. Tidy removes them. A run that
// recovers calls Tidy.
type Tidier interface {
	Tidy() error
}

// Seer is an Engine that may run elsewhere, as where gantry is in a container. Sees returns an error that wraps
// ErrUnusable if containers would have other files than this process at the path of the run directory in the labels of
// a run, or at those of files and directories that they are to see. A container that it tries has the labels.
type Seer interface {
	Sees(ctx context.Context, labels map[string]string, shown ...string) error
}

// Host is an engine's description of itself and of this host.
type Host struct {
	evidence.Teller
	Version     string
	Systemd     bool   // control groups are slices of systemd
	Groups      string // the directory of the control groups for containers; "": cgroup.Root
	Prefix      string // before the ID of a container in the name of its group
	TakesGroup  bool   // a container is put into the group that it is given, and not into one below it
	Hooks       bool   // it runs the hooks of devices
	NoNetwork   string // why containers can have no network; "" if they can
	Ordered     bool   // it makes gantry's own mounts after all others
	LimitsSwap  bool
	LimitsTasks bool   // memory, CPU quota and pids
	Facts       []Fact // for gantry doctor
}

// Spec says how a container is to be.
type Spec struct {
	Name    string
	Image   string // "": an empty one, as the program is mounted
	Args    []string
	Env     []string // after that of the image
	Dir     string   // working directory
	Network bool
	Labels  map[string]string
	Mounts  []Mount
	Nested  bool              // mounts that are Given may lie in others, at their own paths
	Tmpfs   map[string]string // options by path
	Shm     int64             // bytes that /dev/shm may have
	// Volumes is a directory, not made yet, for those that the image declares as volumes; "" leaves that to the engine.
	Volumes string `json:",omitempty"`
	// Parent is the control group below which the container's is to be, as cgroup.Tree.Parent names it; "" leaves that
	// to the engine.
	Parent string
	// Group is the control group of the container with the given id.
	Group  func(id string) string `json:"-"`
	Limits cgroup.Limits
	GPUs   []string   `json:",omitempty"` // names of its devices
	Edits  *gpu.Edits `json:",omitempty"` // by which it gets them; their variables are in Env
}

// Mount shows a file or directory of the host.
type Mount struct {
	Source, Target string
	ReadOnly       bool
	// Given: the caller or a workflow names it. Nothing is ever made in it, not even a place for another mount.
	Given bool `json:",omitempty"`
}

// Declared returns the volumes of an image that a container has besides its mounts, in order.
func (s *Spec) Declared(volumes map[string]struct{}) (paths []string) {
	for path := range volumes {
		if path = filepath.Clean("/" + path); path != "/" && s.Tmpfs[path] == "" &&
			!slices.ContainsFunc(s.Mounts, func(m Mount) bool { return filepath.Clean(m.Target) == path }) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Volume is where the nth of them is.
func (s *Spec) Volume(n int) string { return filepath.Join(s.Volumes, strconv.Itoa(n)) }

// State is an engine's knowledge of a container.
type State struct {
	Status    evidence.Container // Absent: nothing is known
	Paused    bool
	Pid       int  // of the first process
	Dead      bool // that is none of the container any more, whatever the engine says
	ExitCode  int
	OOMKilled bool
	Error     string // why it could not be started
	// Started and Finished are zero while they are not known.
	Started, Finished time.Time
	Memory            int64 // limit in bytes; 0: none
	CountsIO          bool  // a limit of block I/O has the kernel count it
}

// CountsIO reports whether a limit of block I/O has the kernel count it.
func (s *Spec) CountsIO() bool { return s.Limits.ReadBps > 0 }

// running reports whether the container runs, or is frozen.
func (c *State) running() bool { return c.Status == evidence.Running }

// Over reports whether the container ran and does not any more.
func (c *State) Over() bool { return c.Status == evidence.Exited || c.Status == evidence.Broken }

// Listed is a container in a list.
type Listed struct {
	ID, Name string
	Status   evidence.Container
	Labels   map[string]string
}

// Far is an Engine whose containers are on other hosts, the nodes of the run, each with an engine of its own: they
// make, watch and remove their control groups themselves. Speeds are those of these hosts: no CPU quota has to make
// them.
type Far interface {
	Engine
	// Counted is the counters of a container that has ended, as its host read them.
	Counted(id string) cgroup.Final
	// Hopeless says why the task of a lost container is not to be tried again; "" if it is.
	Hopeless(id string) string
	// Follow calls changed when a node, by its place in the platform, is lost or there again. It returns when the
	// context ends, or with an error when no node will come back.
	Follow(ctx context.Context, changed func(node int, up bool)) error
}

var (
	// ErrUnusable says that this host or its engine cannot run containers as asked; the message names the remedy.
	ErrUnusable = errors.New("host or container engine not usable")
	// ErrNoAnswer says that the engine took longer than it may. The request may be carried out later.
	ErrNoAnswer = errors.New("the engine does not answer")
	// ErrLost says that a container, or the host that it was to be on, is gone by nobody's fault of this run.
	ErrLost = errors.New("the node of the container is lost")
	// ErrBusy says that processes could not be frozen just now.
	ErrBusy = errors.New("processes cannot be frozen just now")
)

// DefaultPatience is how long an engine may take to begin its answer to a request. On a host
// with a load of 80 a start was seen to take half a minute.
const DefaultPatience = 2 * time.Minute
