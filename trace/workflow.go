// Package trace reads, checks and writes workflow traces: Pegasus DAX, Pegasus 5 YAML, WfCommons WfFormat and others.
// It is a leaf: it knows nothing of planning or execution.
package trace

import (
	"time"

	"gantry/trace/reader"
)

// Format is the family of a trace file.
type Format uint8

const (
	Unknown Format = iota
	DAX
	PegasusYAML
	WfFormat
	Makeflow
	SWF // archives, from here on; see Archive
	Sacct
	Alibaba
	WTA
	DOT
	NextflowTrace
	Benchmark // of Snakemake
	Metadata
)

// Rename is another name that a file has in the directory of a task.
type Rename struct{ File, As string }

// GlobMeta are the characters that make the name of an output a pattern, in WfFormat and Makeflow.
const GlobMeta = "*?["

// formats have the readers of workflows and of archives.
var formats = [...]struct {
	name    string
	flow    func(b *builder)
	archive func(x *archiver)
}{
	Unknown:       {name: "unknown"},
	DAX:           {"DAX", (*builder).readDAX, nil},
	PegasusYAML:   {"Pegasus YAML", (*builder).readPegasus, nil},
	WfFormat:      {"WfFormat", (*builder).readWfFormat, nil},
	Makeflow:      {"Makeflow", (*builder).readMakeflow, nil},
	SWF:           {"SWF", nil, (*archiver).readSWF},
	Sacct:         {"sacct", nil, (*archiver).readSacct},
	Alibaba:       {"Alibaba batch_task", nil, (*archiver).readAlibaba},
	WTA:           {"Workflow Trace Archive", nil, (*archiver).refuseStream},
	DOT:           {"DOT", (*builder).readDOT, nil},
	NextflowTrace: {"Nextflow trace", (*builder).readNextflow, nil},
	Benchmark:     {"Snakemake benchmark", (*builder).readBenchmark, nil},
	Metadata:      {"Snakemake metadata", (*builder).readMetadata, nil},
}

// Formats is how many there are.
const Formats = len(formats)

func (f Format) String() string { return formats[f].name }

// Exists reports whether there is such a format.
func (f Format) Exists() bool { return int(f) < len(formats) }

// Fields is a set of the facts that a trace may or may not tell about a task.
type Fields uint16

const (
	Runtime Fields = 1 << iota
	Cores
	Memory
	AvgCPU
	ReadBytes
	WrittenBytes
	Command
	Image
)

// Has reports whether every field of g is in f.
func (f Fields) Has(g Fields) bool { return f&g == g }

// Workflow is one DAG as a trace describes it, after its dependencies were resolved. Tasks and Files are dense: they
// refer to each other by index.
type Workflow struct {
	Name    string
	Label   string // how people recognise it: the file's base name without endings; Name for standard input
	Source  string // path, or "-" for standard input
	Format  Format
	Version string // as the file says; "" if it does not
	// OpaqueNames says that file names are mere identifiers, even where they look like absolute paths (Nextflow in
	// WfFormat).
	OpaqueNames bool
	FileEdges   int           // how many of the edges are only implied by files
	Makespan    time.Duration // of the recorded execution; 0: not said
	ExecutedAt  string        // start of the recorded execution, as the file writes it
	Tasks       []Task        // in file order, which need not be topological
	Files       []File
	Catalogs    []string    // files that it was read with
	Containers  []Container // that tasks run in, as catalogs name them
	// Obstacles are why a real run has to be refused although the workflow can be simulated and emulated; each begins
	// with its file and line.
	Obstacles []string
	// Results are patterns that may match parts of outputs, which are results then.
	Results []string `json:",omitzero"`
	// Estimates are those of the execution that the trace describes; nil: it does not say.
	Estimates *Estimates `json:",omitzero"`
	// Walltimes says that a walltime is a limit since EnforceWalltime asks for it.
	Walltimes bool `json:",omitzero"`
}

// Estimates tell how runtimes were estimated in an execution: by the estimates of its tasks alone, or by a model that
// learns from each end of a task, too.
type Estimates struct {
	Learn bool
	Start time.Duration // of a container, in each estimate
	From  []Measurement // with which the model began, the oldest first
}

// Measurement is a task that ended well in an earlier execution: its properties, as they were known before it ran, and
// its runtime.
type Measurement struct {
	Kind        string
	InputBytes  int64
	Millicores  int64
	MemoryBytes int64
	Speed       float64       // of its machine, against one of speed 1
	Declared    time.Duration // runtime on that machine; 0: none
	Runtime     time.Duration
}

// Container is an image as a catalog names it.
type Container struct {
	Name   string
	Image  string   // reference for the Docker Engine, or file:// and the path of an archive that docker load takes
	SHA256 string   // of the archive, as the catalog says; "" if it says nothing
	Mounts []string // HOST:CONTAINER, read-only
	Source string   // the catalog
	Line   int
}

// Task is one node of the DAG. Known has the numbers that the trace really gave, Imputed those that Impute filled in; a
// number in neither is zero and means "not known".
type Task struct {
	ID   string // unique within the workflow
	Name string
	Kind string // transformation, the same for tasks of one type
	Line int    // in the source, 0 if it has no lines

	Parents  []int32 // indices into Workflow.Tasks, distinct, ascending
	Children []int32 `json:"-"` // they follow from Parents: see Link
	Inputs   []int32 // indices into Workflow.Files, distinct
	Outputs  []int32

	Runtime      time.Duration // wall time on the machine of the trace, or at speed 1 if the trace tells its speed
	Estimate     time.Duration // of the runtime, by its user; 0: none
	Overhead     time.Duration // before and after it, as long as the machine was taken; 0: not said
	Cores        float64
	MemoryBytes  int64   // peak resident set
	AvgCPU       float64 // percent of one core, 100 per busy core
	ReadBytes    int64
	WrittenBytes int64
	Reads        *int64 `json:",omitzero"` // bytes of its inputs as estimates know them; nil: as its files have them

	Command               []string // argv; with Shell set a script, and the words of its shell if one is named
	Image                 string   // container image as in Container, "" if the trace names none
	Env                   []string // KEY=value, sorted
	Renames               []Rename
	Stdin, Stdout, Stderr string        // logical file names of redirections
	TimeLimit             time.Duration // 0: none
	Tail                  time.Duration // critical path of the tasks after it that are not submitted yet
	DiskLimit             int64         // bytes that its work directory may take; 0: none
	Retries               int           // -1: not said
	Tokens                string        // NAME[:COUNT],...: that it holds while it runs; see executor.Token
	GPUs                  int32         // that it holds while it runs, in thousandths; 0: not said
	DiskBps               int64         // block I/O it asks for, bytes per second; 0: not said
	// execution phase, from 1 on (Lim et al. 2017, section on the model); 0: not said
	Phase       int32
	Container   int32 // from 1 on, in Workflow.Containers; 0: none
	SubWorkflow bool  // a <dax>, <dag>, pegasusWorkflow or condorWorkflow node
	Shell       bool  // the trace asks for a shell
	Network     bool  // its command asks for connections to other hosts
	Expand      bool  // Command is a program and a text, parsed as bash does its arguments

	Known   Fields
	Imputed Fields
}

// File is a logical file of a workflow.
type File struct {
	Name       string
	Size       int64 // bytes; meaningful only if Sized
	Sized      bool
	Imputed    bool    // Sized, but by Impute
	Producer   int32   // index into Workflow.Tasks of the task that writes it, -1 for a file from outside
	Origin     *Origin // of a file that catalogs know; nil if none does
	Keep       Keep
	Checkpoint bool // it survives a retry of its task
	Optional   bool // its task may leave it out
}

// Origin is the entry of a file from outside in the catalogs.
type Origin struct {
	// Locations are absolute paths and http(s) addresses, in the order in which they are tried.
	Locations []string
	SHA256    string // in hex; "" if no catalog says it
	// Program is the name under which tasks find a file that is a program of theirs; "" for data.
	Program string
}

// Program is the name under which tasks find a file that is a program of theirs; "" for data.
func (f *File) Program() string {
	if f.Origin == nil {
		return ""
	}
	return f.Origin.Program
}

// Keep says whether a file that a task writes is a result.
type Keep uint8

const (
	KeepUnread Keep = iota // if no other task reads it
	KeepAlways
	KeepNever
)

// Fault is one of package reader, as is the severity Error.
type Fault = reader.Fault

const Error = reader.Error

// Repaired reports whether something was.
func Repaired(faults []Fault) bool { return reader.Repaired(faults) }
