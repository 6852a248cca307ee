package executor

// Capabilities are the abilities of a runtime, as data: nothing else depends on which runtime it is.
type Capabilities struct {
	Name string // in settings, in the log and on the command line
	Does string // one line for people
	// Virtual: its clock is not the host's. Nobody else sees its effects, so there is nothing to lock, and nothing to
	// wait for.
	Virtual bool
	// Programs: it runs programs on this host, so that file names, the size of the host, images and output matter.
	Programs bool
	// Learns: its measurements hold for later runs, so that estimates come from history unless asked otherwise.
	Learns bool
	// Adopts: its attempts outlive gantry, so that a run can be resumed. The runtime is a Recoverer.
	Adopts      bool
	Suspends    bool // Suspend and Resume have an effect
	Checkpoints bool // Checkpoint has an effect
	// name of an attempt on the host, for fmt with the run's HostName and the attempt; "" if it has none
	Attempts string
}

// Starts is how many containers a host of so many cores starts at once, unless told otherwise: beyond that only the
// latency grows.
func Starts(cores int) int { return max(3, cores) }

// Remote is a Runtime whose attempts are in the hands of another process, such as an engine.
type Remote interface {
	// Away reports whether that process does not answer at present.
	Away() bool
	// Discard has Close end attempts that run, too: their events could not be logged.
	Discard()
}
