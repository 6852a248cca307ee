// Package evidence draws conclusions about attempts: Judge says how one ended, Recover chooses the action of a gantry
// that resumes a run. Both are pure functions of the log, the container engine's answers and the files, so that every
// case can be tested without an engine. A test visits every state that three kills of gantry and a restart of the
// engine can reach.
//
// An end is a class. An end by lack of memory is known by the kernel's counters, not by Docker's flag or exit code 137.
// The pidfd shows whether a signal ended the program or it exited with such a code itself (since Linux 6.15; before
// that, the exit code is taken as it is). Without the launcher's claim the program never ran, and the exit code says
// nothing about it: the attempt counts as host-error, or as lost if gantry gave it up or the engine went down, unless a
// signal or the kernel for lack of memory ended the launcher.
package evidence

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"gantry/executor/container/control"
	"gantry/executor/emulate"
	"gantry/planner"
	"gantry/trace/shown"
)

// Evidence is the knowledge of an attempt that has ended.
type Evidence struct {
	Emulated  bool          // the task emulator did the work
	TimeLimit time.Duration // of the task; 0: none
	DiskLimit int64         // bytes that its work directory may take; 0: no limit
	DiskUsed  int64         // bytes that it took, if that is more; 0: it is not
	Strict    bool          // gantry has its shell count each program of a pipe

	Teller Teller // the engine, for messages

	// Of the container engine.
	Gone       bool   // it no longer has the container
	Code       int    // exit code of the container
	StartError string // why the engine could not start the container; "" if it could
	EngineDown bool   // the engine was stopped, killed or restarted at the time
	EngineNew  bool   // it had just been started when it started the container
	Loss       string // why it lost the container; "" if it does not say
	EngineOOM  bool   // it reports SIGKILL or an out-of-memory kill, and the peak reached the limit

	// Of the kernel.
	Told        bool // it reported how the first process ended
	Exited      bool // that returned a code itself; else a signal ended it
	OOMKills    int64
	PeakMemory  int64 // bytes
	MemoryLimit int64 // bytes

	// Of the control directory.
	Claim control.Maker
	End   control.End // the launcher's account; Over is false if there is none

	// Of gantry, and of the gantries before it.
	Asked   planner.Outcome // the first reason for which the attempt was to end; 0: none
	Acted   bool            // a signal was delivered for it, or may have been
	Leaving planner.Vacate  // how it was ordered to leave its place, as the log has it
	Removed bool            // gantry removed the container
}

// Teller is how messages speak of a container engine.
type Teller struct {
	Engine  string // such as "Docker Engine"
	Command string // by which people stop and remove its containers, such as "docker"; "" if there is none
	Ended   string // the event that ends all its containers, such as "the Docker Engine was stopped"
}

// by guesses the command of somebody else.
func (t Teller) by(what string) string {
	if t.Command == "" {
		return ""
	}
	return " (" + t.Command + " " + what + "?)"
}

// LauncherRefused is the exit code of a launcher that was not the first to claim an attempt.
const LauncherRefused = 125

// launcherDied is the exit code of a launcher that a signal met before it could take signals. The kernel keeps the
// default action of a signal from the first process of a container, and the Go runtime exits with 2 then. Meanwhile it
// may have claimed the attempt.
const launcherDied = 2

// Exit codes of the launcher where the program cannot begin: those of shells. A starting engine clears up the mounts of
// containers, and was seen to take the image from under a container that it started meanwhile.
const (
	NotExecutable = 126
	notFound      = 127
)

// Verdict is how an attempt ended.
type Verdict struct {
	Outcome planner.Outcome
	Code    int            // exit code; -1 if there is none; 128 and Signal if that ended the program
	Signal  syscall.Signal // 0: none, also where a program that a signal ended is the child of one that returned Code
	Message string
}

// outside are signals that come from outside of a program. Others, such as SIGSEGV, are its own doing.
var outside = map[syscall.Signal]string{syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT",
	syscall.SIGKILL: "SIGKILL",
	syscall.SIGTERM: "SIGTERM"}

// Judge says how the attempt ended. An outcome of OK still has to stand up to a look at the outputs; see Missing.
//
// The rules, in the order in which they hold: the launcher's account counts for more than the engine's. A program that
// returned 0 has succeeded, even if somebody had asked it to stop. An end that gantry asked for is gantry's doing, an
// attempt that the engine broke is lost, and neither is the task's fault. A limit of disk holds with any code: a
// program may end before anybody has looked. Memory comes before signals, since the kernel kills by one. Then only
// somebody else's signal, or the program's own code, remains.
func (e Evidence) Judge() Verdict {
	v := Verdict{Code: e.Code}
	if e.End.Over {
		v.Code = e.End.Code
	} else if e.Gone {
		v.Code = -1
	}
	signal, killed := e.signal(v.Code)
	if v.Signal = e.End.Signal; killed {
		v.Signal = signal
	}
	switch {
	case e.DiskUsed > 0 && e.began():
		v.Outcome, v.Message = planner.OutOfDisk, e.disk()
	case e.Claim == control.Gantry:
		v.Outcome, v.Message, v.Code = planner.Lost, "gantry gave it up before its program began", -1
	case v.Code == 0 && e.began():
		if v.Outcome = planner.OK; e.oomKills() > 0 {
			v.Message = "succeeded, although " + e.oom()
		} else if e.Acted {
			v.Message = "succeeded, although gantry had asked it to stop"
		}
	case e.Emulated && v.Code == emulate.ExitKept && (e.Asked == 0 || e.Asked == planner.Preempted):
		v.Outcome = planner.Preempted // perhaps for a signal of an earlier gantry
	// the latter for an earlier gantry
	case e.Acted, killed && (e.Leaving == planner.Requeue || e.Leaving == planner.Checkpoint):
		v.Outcome, v.Message = e.asked(), e.limit()
	case e.Gone && !e.End.Over:
		return e.gone(v)
	case e.StartError != "" && !e.EngineDown:
		v.Outcome, v.Message = planner.HostError, e.StartError
	case e.oomKills() > 0:
		v.Outcome, v.Message = planner.OutOfMemory, e.oom()
	case e.EngineDown && (killed || e.End.Outside != 0),
		e.EngineDown && !e.End.Over && (v.Code == 255 || v.Code == launcherDied || !e.began()):
		v.Outcome, v.Message = planner.Lost, e.Teller.Ended+", and the container with it"
	case e.EngineNew && (v.Code == NotExecutable || v.Code == notFound):
		v.Outcome = planner.Lost
		v.Message = fmt.Sprintf("exit code %d%s, and the %s had just been started: it may have unmounted the "+
			"image", v.Code, e.meaning(v.Code), e.Teller.Engine)
	case !killed && !e.began():
		v.Outcome = planner.HostError
		v.Message = fmt.Sprintf("its program never began (exit code %d of its container): the %s could not start "+
			"it", v.Code, e.Teller.Engine)
	case e.End.Again:
		v.Outcome, v.Message = planner.Killed, "its container was restarted from outside"+
			e.Teller.by("restart")
	case killed:
		v.Outcome, v.Message = planner.Killed, e.killer(signal, v.Code)
	case e.End.Outside != 0 && outside[e.End.Outside] != "":
		v.Outcome = planner.Killed
		v.Message = fmt.Sprintf("exit code %d, after %s from outside%s", v.Code, outside[e.End.Outside],
			e.Teller.by("stop"))
	default:
		v.Outcome = planner.ExitCode
		v.Message = fmt.Sprintf("exit code %d%s", v.Code, e.meaning(v.Code))
		if v.Code == 128+int(syscall.SIGPIPE) && e.Strict {
			v.Message += ": a program of a pipe wrote on when its reader had ended; --shell sh does not count that"
		}
	}
	return v
}

// WroteStderr is the message about a program that ended well and wrote to standard error.
const WroteStderr = "wrote to standard error"

// NoResult begins the message about a program that ended well and left nothing for patterns of results.
const NoResult = "left no file for the results "

// Missing is the verdict on an attempt that was OK so far, when outputs are missing.
func (e Evidence) Missing(missing string) Verdict {
	v := Verdict{Outcome: planner.OutputMissing, Message: missing}
	if e.Acted { // it was asked to stop, and did without its outputs
		v.Outcome, v.Message = e.asked(), Join(e.limit(), missing)
	}
	return v
}

// signal returns the signal from outside that ended the program, and whether one did.
func (e Evidence) signal(code int) (syscall.Signal, bool) {
	s := syscall.Signal(code - 128)
	if e.End.Over {
		s = e.End.Signal
	} else if e.Told && e.Exited { // exit 137 in a script is no kill
		return 0, false
	}
	_, ok := outside[s]
	return s, ok && s > 0
}

func (e Evidence) began() bool { return e.Claim == control.Launcher || e.End.Over }

// asked is the class of an end that gantry asked for.
func (e Evidence) asked() planner.Outcome {
	if e.Asked != 0 {
		return e.Asked
	}
	return planner.Preempted
}

func (e Evidence) limit() string {
	switch e.asked() {
	case planner.TimedOut:
		return fmt.Sprintf("ran longer than its limit of %v", e.TimeLimit)
	case planner.OutOfDisk:
		return e.disk()
	}
	return ""
}

func (e Evidence) disk() string {
	if e.DiskUsed == 0 { // it was more, and is not any longer
		return fmt.Sprintf("its work directory and /tmp took more than their limit of %s on disk",
			shown.Size(e.DiskLimit))
	}
	return fmt.Sprintf("its work directory and /tmp took %s on disk, their limit is %s (--disk)",
		shown.Size(e.DiskUsed), shown.Size(e.DiskLimit))
}

// gone judges an attempt without a container and without the launcher's account of its end.
func (e Evidence) gone(v Verdict) Verdict {
	switch {
	case e.Removed:
		v.Outcome, v.Message = planner.Lost, "gantry removed its container"
	case e.Loss != "":
		v.Outcome, v.Message = planner.Lost, e.Loss
	case e.EngineDown:
		v.Outcome, v.Message = planner.Lost, "its container is gone: removed while no gantry was there, or lost by "+
			"the "+e.Teller.Engine
	default:
		v.Outcome, v.Signal = planner.Killed, syscall.SIGKILL
		v.Message = "its container was removed by somebody else" + e.Teller.by("rm")
	}
	return v
}

func (e Evidence) oomKills() int64 {
	if e.OOMKills == 0 && e.EngineOOM {
		return 1
	}
	return e.OOMKills
}

func (e Evidence) oom() string {
	if e.OOMKills == 0 {
		return fmt.Sprintf("it was killed, and its peak of %s had reached the memory limit of %s: it needs more memory",
			shown.Size(e.PeakMemory), shown.Size(e.MemoryLimit))
	}
	return fmt.Sprintf("the kernel killed %s at the memory limit of %s (peak %s): it needs more memory",
		Plural(e.OOMKills, "process", "processes"), shown.Size(e.MemoryLimit), shown.Size(e.PeakMemory))
}

func (e Evidence) killer(s syscall.Signal, code int) string {
	if !e.End.Over && !e.Told {
		return fmt.Sprintf("exit code %d, as of a program that is killed from outside by %s", code, outside[s])
	}
	switch {
	case e.End.Over && e.End.Outside == s && s == syscall.SIGTERM:
		return "killed from outside by SIGTERM" + e.Teller.by("stop")
	case !e.End.Over && s == syscall.SIGKILL:
		return "killed from outside by SIGKILL" + e.Teller.by("kill")
	}
	return "killed from outside by " + outside[s]
}

// meaning explains exit codes that the launcher, shells and kernels give.
func (e Evidence) meaning(code int) string {
	why := ""
	if e.End.Refused != 0 {
		why = ": " + e.End.Refused.Error()
	}
	switch {
	case code == LauncherRefused && why != "":
		return " (the command cannot begin" + why + ")"
	case code == NotExecutable:
		return " (the command cannot be executed" + why + ")"
	case code == notFound && e.End.Refused != 0 && e.End.Refused != syscall.ENOENT:
		return " (the command cannot be found in the image" + why + ")"
	case code == notFound:
		return " (the command was not found in the image)"
	case code > 128 && code < 128+65:
		return fmt.Sprintf(" (%s)", syscall.Signal(code-128))
	}
	return ""
}

// Plural is n and the noun: one for 1, else many.
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

// Join puts a colon between two parts of a message, either of which may be "".
func Join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}
