package evidence_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/executor/container/control"
	"gantry/executor/container/evidence"
	"gantry/planner"
)

// began is evidence of an attempt whose program began.
func began(change func(e *evidence.Evidence)) evidence.Evidence {
	e := evidence.Evidence{Claim: control.Launcher, TimeLimit: time.Second, MemoryLimit: 1000, PeakMemory: 999}
	change(&e)
	return e
}

// exit is the launcher's account of a program that returned a code.
func exit(code int) control.End { return control.End{Over: true, Code: code} }

// killed is that of one that a signal ended.
func killed(s syscall.Signal) control.End {
	return control.End{Over: true, Code: 128 + int(s), Signal: s}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		e       evidence.Evidence
		outcome planner.Outcome
		code    int
		says    string
	}{
		{"returned 0", began(func(e *evidence.Evidence) { e.End = exit(0) }), planner.OK, 0, ""},
		{"returned 0, without the launcher's account", began(func(e *evidence.Evidence) {}), planner.OK, 0, ""},
		{"returned 0, engine killed", began(func(e *evidence.Evidence) {
			e.End, e.Code, e.EngineDown = exit(0), 137,
				true
		}), planner.OK, 0, ""},
		{"returned 0, container gone", began(func(e *evidence.Evidence) { e.End, e.Gone = exit(0), true }), planner.OK,
			0, ""},
		{"returned 0, asked to stop", began(func(e *evidence.Evidence) {
			e.End, e.Asked, e.Acted = exit(0),
				planner.Preempted, true
		}), planner.OK, 0, "although"},
		{"returned 0 at its time limit", began(func(e *evidence.Evidence) {
			e.End, e.Asked, e.Acted = exit(0),
				planner.TimedOut, true
		}), planner.OK, 0, "although"},
		{"returned 0, a child out of memory", began(func(e *evidence.Evidence) { e.End, e.OOMKills = exit(0), 1 }),
			planner.OK, 0, "although the kernel killed 1 process"},
		{"argument list too long", began(func(e *evidence.Evidence) {
			e.End = control.End{Over: true, Code: 126, Refused: syscall.E2BIG}
		}), planner.ExitCode, 126, "exit code 126 (the command cannot be executed: argument list too long)"},
		{"links in a circle", began(func(e *evidence.Evidence) {
			e.End = control.End{Over: true, Code: 127, Refused: syscall.ELOOP}
		}), planner.ExitCode, 127, "(the command cannot be found in the image: too many levels of symbolic links)"},
		{"no standard input", began(func(e *evidence.Evidence) {
			e.End = control.End{Over: true, Code: 125, Refused: syscall.ENOENT}
		}), planner.ExitCode, 125, "exit code 125 (the command cannot begin: no such file or directory)"},
		{"a pipe without a reader", began(func(e *evidence.Evidence) {
			e.End, e.Strict = exit(141), true
		}), planner.ExitCode, 141, "--shell sh does not count that"},
		{"returned 7", began(func(e *evidence.Evidence) { e.End, e.Code = exit(7), 7 }), planner.ExitCode, 7,
			"exit code 7"},
		{"returned 7 under a new engine", began(func(e *evidence.Evidence) {
			e.End, e.Code, e.EngineNew = exit(7), 7, true
		}), planner.ExitCode, 7, "exit code 7"},
		{"not found under a new engine", began(func(e *evidence.Evidence) {
			e.End, e.Code, e.EngineNew = exit(127), 127, true
		}), planner.Lost, 127, "just been started"},
		{"not found", began(func(e *evidence.Evidence) { e.End, e.Code = exit(127), 127 }), planner.ExitCode, 127,
			"not found"},
		{"returned 7, engine killed later", began(func(e *evidence.Evidence) {
			e.End, e.Code, e.EngineDown = exit(7),
				255, true
		}), planner.ExitCode, 7, "exit code 7"},
		{"returned 127", began(func(e *evidence.Evidence) { e.End, e.Code = exit(127), 127 }), planner.ExitCode, 127,
			"not found"},
		{"returned 137", began(func(e *evidence.Evidence) { e.End, e.Code = exit(137), 137 }), planner.ExitCode, 137,
			"killed"},
		{"returned 143 when gantry asked", began(func(e *evidence.Evidence) {
			e.End, e.Asked, e.Acted = exit(143),
				planner.Preempted, true
		}), planner.Preempted, 143, ""},
		{"time limit", began(func(e *evidence.Evidence) {
			e.End, e.Asked, e.Acted = killed(syscall.SIGTERM),
				planner.TimedOut, true
		}), planner.TimedOut, 143, "limit of 1s"},
		{"gantry wanted to kill it, but it was quicker", began(func(e *evidence.Evidence) {
			e.End, e.Asked = exit(7),
				planner.Preempted
		}), planner.ExitCode, 7, ""},
		{"to leave its place, by an earlier gantry",
			began(func(e *evidence.Evidence) { e.End, e.Leaving = killed(syscall.SIGTERM), planner.Requeue }),
			planner.Preempted, 143, ""},
		{"frozen when it was killed", began(func(e *evidence.Evidence) {
			e.End, e.Leaving = killed(syscall.SIGKILL),
				planner.Suspend
		}), planner.Killed, 137, "SIGKILL"},
		{"a checkpoint", began(func(e *evidence.Evidence) { e.Emulated, e.Code = true, 75 }), planner.Preempted, 75,
			""},
		{"code 75 of a program", began(func(e *evidence.Evidence) { e.End = exit(75) }), planner.ExitCode, 75, ""},
		{"out of memory", began(func(e *evidence.Evidence) { e.End, e.OOMKills = killed(syscall.SIGKILL), 2 }),
			planner.OutOfMemory, 137, "2 processes"},
		{"out of memory, the launcher too", began(func(e *evidence.Evidence) { e.Code, e.OOMKills = 137, 1 }),
			planner.OutOfMemory, 137, "limit of 1 kB"},
		{"out of memory by the peak", began(func(e *evidence.Evidence) { e.Code, e.EngineOOM = 137, true }),
			planner.OutOfMemory, 137, "had reached the memory limit"},
		{"docker kill", began(func(e *evidence.Evidence) { e.Code, e.Told = 137, true }), planner.Killed, 137,
			"docker kill"},
		{"docker kill, by the exit code", began(func(e *evidence.Evidence) { e.Code = 137 }), planner.Killed, 137,
			"as of a program"},
		{"kill -9 of the program", began(func(e *evidence.Evidence) { e.End, e.Code = killed(syscall.SIGKILL), 137 }),
			planner.Killed, 137, "SIGKILL"},
		{"docker stop", began(func(e *evidence.Evidence) {
			e.End, e.Code = killed(syscall.SIGTERM), 143
			e.End.Outside = syscall.SIGTERM
		}), planner.Killed, 143, "docker stop"},
		{"docker stop of a program that cleans up", began(func(e *evidence.Evidence) {
			e.End, e.Code = exit(9), 9
			e.End.Outside = syscall.SIGTERM
		}), planner.Killed, 9, "exit code 9, after SIGTERM from outside"},
		{"docker restart", began(func(e *evidence.Evidence) {
			e.End, e.Code = killed(syscall.SIGTERM), 125
			e.End.Outside, e.End.Again = syscall.SIGTERM, true
		}), planner.Killed, 143, "docker restart"},
		{"docker restart -t 0", began(func(e *evidence.Evidence) { e.End, e.Code = control.End{Again: true}, 125 }),
			planner.Killed, 125, "docker restart"},
		{"docker restart of what had succeeded", began(func(e *evidence.Evidence) {
			e.End, e.Code = exit(0), 125
			e.End.Again = true
		}), planner.OK, 0, ""},
		{"docker rm -f", began(func(e *evidence.Evidence) { e.Gone = true }), planner.Killed, -1, "docker rm"},
		{"removed by gantry", began(func(e *evidence.Evidence) { e.Gone, e.Removed = true, true }), planner.Lost, -1,
			"gantry removed"},
		{"gone with the engine", began(func(e *evidence.Evidence) { e.Gone, e.EngineDown = true, true }), planner.Lost,
			-1, "gone"},
		{"the engine was killed", began(func(e *evidence.Evidence) { e.Code, e.EngineDown = 137, true }), planner.Lost,
			137, "Docker Engine was stopped"},
		{"the engine was stopped as the launcher began", began(func(e *evidence.Evidence) {
			e.Code, e.EngineDown = 2, true
		}), planner.Lost, 2, "the Docker Engine was stopped"},
		{"its own code while the engine was stopped", began(func(e *evidence.Evidence) {
			e.End, e.Code, e.EngineDown = exit(2), 2, true
		}), planner.ExitCode, 2, "exit code 2"},
		{"the engine forgot it", began(func(e *evidence.Evidence) { e.Code, e.EngineDown = 255, true }), planner.Lost,
			255, "Docker Engine was stopped"},
		{"the engine stopped a program that cleans up", began(func(e *evidence.Evidence) {
			e.End, e.EngineDown = exit(9), true
			e.End.Outside = syscall.SIGTERM
		}), planner.Lost, 9, "Docker Engine was stopped"},
		{"the engine was stopped before it began", evidence.Evidence{Code: 128, EngineDown: true}, planner.Lost, 128,
			"Docker Engine was stopped"},
		{"an error of the engine", evidence.Evidence{Code: 128, StartError: "no such device"}, planner.HostError, 128,
			"no such device"},
		{"an error of an engine that was stopped", evidence.Evidence{Code: 128, StartError: "context canceled",
			EngineDown: true}, planner.Lost, 128, ""},
		{"never began", evidence.Evidence{Code: 125}, planner.HostError, 125, "never began"},
		{"code 0, but never began", evidence.Evidence{}, planner.HostError, 0, "never began"},
		{"given up", evidence.Evidence{Claim: control.Gantry, Code: 125}, planner.Lost, -1, "gave it up"},
		{"given up and removed", evidence.Evidence{Claim: control.Gantry, Gone: true}, planner.Lost, -1, "gave it up"},
		{"a fault of its own", began(func(e *evidence.Evidence) { e.End, e.Code = killed(syscall.SIGSEGV), 139 }),
			planner.ExitCode, 139, "segmentation"},
	} {
		c.e.Teller = evidence.Teller{Engine: "Docker Engine", Command: "docker", Ended: "the Docker Engine was stopped"}
		v := c.e.Judge()
		if v.Outcome != c.outcome || v.Code != c.code || !strings.Contains(v.Message, c.says) {
			t.Errorf("%s: %v, code %d: %q; not %v, code %d: %q", c.name, v.Outcome, v.Code, v.Message, c.outcome,
				c.code, c.says)
		}
		// Of an engine without a command and a name like that, nothing is said of either.
		c.e.Teller = evidence.Teller{Engine: "OCI runtime crun", Ended: "the host was restarted"}
		w := c.e.Judge()
		if w.Outcome != v.Outcome || w.Code != v.Code || strings.Contains(strings.ToLower(w.Message), "docker") {
			t.Errorf("%s, another engine: %v, code %d: %q", c.name, w.Outcome, w.Code, w.Message)
		}
	}
}

func TestMissingOutputs(t *testing.T) {
	for asked, want := range map[planner.Outcome]planner.Outcome{0: planner.OutputMissing,
		planner.Preempted: planner.Preempted, planner.TimedOut: planner.TimedOut} {
		e := began(func(e *evidence.Evidence) { e.End, e.Asked, e.Acted = exit(0), asked, asked != 0 })
		if v := e.Missing("no x"); v.Outcome != want || !strings.Contains(v.Message, "no x") {
			t.Errorf("asked to end as %v: %v %q", asked, v.Outcome, v.Message)
		}
	}
}

// A signal is one only where it ended the program itself: a script that returns 128 and a number ended by itself.
func TestJudgeTellsSignalsFromCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		e    evidence.Evidence
		want syscall.Signal
	}{
		{"its child was killed", began(func(e *evidence.Evidence) { e.End, e.Code = exit(137), 137 }), 0},
		{"the kernel saw it return 143", began(func(e *evidence.Evidence) {
			e.Code, e.Told, e.Exited = 143, true, true
		}), 0},
		{"killed", began(func(e *evidence.Evidence) { e.End = killed(syscall.SIGKILL) }), syscall.SIGKILL},
		{"its own fault", began(func(e *evidence.Evidence) { e.End = killed(syscall.SIGABRT) }), syscall.SIGABRT},
		{"killed with its launcher", began(func(e *evidence.Evidence) { e.Code = 137 }), syscall.SIGKILL},
		{"its container removed", began(func(e *evidence.Evidence) { e.Gone = true }), syscall.SIGKILL},
		{"at its time limit", began(func(e *evidence.Evidence) {
			e.End, e.Asked, e.Acted = killed(syscall.SIGTERM), planner.TimedOut, true
		}), syscall.SIGTERM},
	} {
		if v := c.e.Judge(); v.Signal != c.want {
			t.Errorf("%s: signal %d, want %d", c.name, v.Signal, c.want)
		}
	}
}
