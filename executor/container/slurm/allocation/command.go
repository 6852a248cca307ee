package allocation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Error says which part of Slurm cannot be used, and names the remedy.
type Error struct {
	What, Remedy string
	Err          error // message of Slurm; nil: none
	over         bool
}

// Is reports whether the error is that an allocation has ended.
func (e *Error) Is(target error) bool { return target == ErrOver && e.over }

// ErrOver says that an allocation has ended, or has not begun.
var ErrOver = errors.New("the allocation is over")

func (e *Error) Error() string {
	text := e.What
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		text += " (" + e.Remedy + ")"
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// ErrAway says that slurmctld did not answer. Steps continue meanwhile, and it may answer later.
var ErrAway = errors.New("slurmctld does not answer")

const (
	// limit bounds a question to Slurm. The commands of Slurm themselves try for minutes.
	limit = 20 * time.Second
	// tries is how often slurmctld is asked before a run begins.
	tries = 3
)

// commands are those of Slurm that this package calls.
var commands = []string{"squeue", "scontrol", "sinfo", "srun", "scancel"}

// environment returns the caller's environment for a command of Slurm. Variables that Slurm set for the job around
// gantry, and those that change the output of commands, would change the request: srun takes them as options.
func environment() []string {
	env := []string{"LC_ALL=C", "SLURM_TIME_FORMAT=standard"}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case name == "SLURM_CONF", name == "SLURM_CONF_SERVER", name == "SLURM_JWT":
		case strings.HasPrefix(name, "SLURM"), strings.HasPrefix(name, "SQUEUE_"), strings.HasPrefix(name, "SINFO_"),
			strings.HasPrefix(name, "SRUN_"), strings.HasPrefix(name, "SCANCEL_"),
			strings.HasPrefix(name, "SBCAST_"), name == "LC_ALL":
			continue
		}
		env = append(env, v)
	}
	return env
}

// ask runs a command of Slurm and returns its standard output.
func ask(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = environment()
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for gantry
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	if ctx.Err() != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return "", context.Cause(ctx)
		}
		if e := mungeError(said.String()); e != nil {
			return "", e
		}
		return "", fmt.Errorf("%s %s: %w after %v", name, strings.Join(args, " "), ErrAway, limit)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", notInstalled(name)
	}
	return "", refusal(name, said.String(), err)
}

func notInstalled(name string) *Error {
	return &Error{What: "there is no command " + name + " here",
		Remedy: "run gantry where the commands of Slurm are, such as a login node, or use --runtime docker"}
}

// refusal makes an error of a command's standard error.
func refusal(name, said string, err error) error {
	if e := mungeError(said); e != nil {
		return e
	}
	for _, text := range []string{"Unable to contact slurm controller", "Connection refused", "Socket timed out",
		"Zero Bytes were transmitted", "Slurm backup controller in standby mode",
		"Transport endpoint is not connected"} {
		if strings.Contains(said, text) {
			return fmt.Errorf("%s: %w: %s", name, ErrAway, lastLine(said))
		}
	}
	for _, text := range []string{"Could not establish a configuration source",
		"Unable to process configuration file"} {
		if strings.Contains(said, text) {
			return &Error{What: "Slurm has no configuration here", Err: errors.New(lastLine(said)),
				Remedy: "run gantry on a node of the cluster, or name its slurm.conf in SLURM_CONF"}
		}
	}
	return fmt.Errorf("%s: %s", name, cmp.Or(lastLine(said), err.Error()))
}

// lastLine returns the last line of a command's output, without its own name and the word error.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	text = text[strings.LastIndexByte(text, '\n')+1:]
	for _, c := range commands {
		text = strings.TrimPrefix(text, c+": ")
	}
	const most = 300
	return clip(strings.TrimPrefix(text, "error: "), most)
}

func clip(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

func mungeError(said string) error {
	if !strings.Contains(said, "Munge encode failed") && !strings.Contains(said, "authentication error") {
		return nil
	}
	what := "munge does not run here"
	for line := range strings.Lines(said) {
		if _, reason, ok := strings.Cut(line, "Munge encode failed: "); ok {
			return mungeDown(what, clip(strings.TrimSpace(reason), 300))
		}
	}
	return mungeDown("munge does not vouch for the caller", lastLine(said))
}

func mungeDown(what, reason string) *Error {
	return &Error{What: what + ", so Slurm does not know who asks", Err: errors.New(reason),
		Remedy: "ask the administrator of this host to start munged (systemctl start munge)"}
}

// ready checks that the commands of Slurm are here.
func ready() error {
	for _, c := range commands {
		if _, err := exec.LookPath(c); err != nil {
			return notInstalled(c)
		}
	}
	return nil
}
