package allocation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Wants is an allocation to request.
type Wants struct {
	text    string // as the user writes it
	options []string
}

// wants are the keys of --slurm: each is an option of salloc.
var wants = []struct {
	key, option string
	value       *regexp.Regexp
	such        string
}{
	{"nodes", "nodes", whole, "a number from 1"},
	{"time", "time", regexp.MustCompile(`^([0-9]{1,4}-)?[0-9]{1,7}(:[0-9]{1,2}){0,2}$`),
		"a time such as 2h, 90m or 1-12:00:00, of at least a minute"},
	{"partition", "partition", word, plain},
	{"account", "account", word, plain},
	{"qos", "qos", word, plain},
	{"constraint", "constraint", word, plain},
	{"reservation", "reservation", word, plain},
	{"cpus", "cpus-per-task", whole, "a number from 1"},
	{"memory", "mem", regexp.MustCompile(`^[1-9][0-9]{0,8}([KMGTkmgt]i?[Bb]?)?$`), "an amount such as 16G or 4000M"},
}

const plain = "no characters but letters, digits and those of _.@:+|&*()[]-"

var (
	whole = regexp.MustCompile(`^[1-9][0-9]{0,5}$`)
	word  = regexp.MustCompile(`^[A-Za-z0-9_.@:+|&*()\[\]][A-Za-z0-9_.@:+|&*()\[\]-]*$`)
)

// ParseWants reads the value of --slurm: nodes=4,time=2h,partition=NAME ... Without cpus and memory it is of whole
// nodes.
func ParseWants(text string) (Wants, error) {
	w := Wants{text, []string{"--no-shell", "--no-kill", "--ntasks-per-node=1", "--job-name=gantry"}}
	var keys []string
	for _, k := range wants {
		keys = append(keys, k.key)
	}
	all, seen := strings.Join(keys, ", "), map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		i := slices.Index(keys, key)
		switch {
		case !ok || value == "":
			return w, fmt.Errorf("--slurm: %q is not KEY=VALUE: it takes %s", clip(part, 40), all)
		case i < 0:
			return w, fmt.Errorf("--slurm has no %q: it takes %s", clip(key, 40), all)
		case seen[key]:
			return w, fmt.Errorf("--slurm: %s is given twice", key)
		}
		seen[key] = true
		if d, err := time.ParseDuration(value); key == "time" && err == nil && d >= time.Minute {
			value = fmt.Sprintf("%.0f", math.Ceil(d.Minutes()))
		}
		if !wants[i].value.MatchString(value) || key == "time" && strings.Trim(value, "0:-") == "" {
			return w, fmt.Errorf("--slurm %s=%s: want %s", key, clip(value, 40), wants[i].such)
		}
		if key == "memory" { // Slurm's units are powers of 1024
			value = strings.Replace(value, "i", "", 1)
		}
		w.options = append(w.options, "--"+wants[i].option+"="+value)
	}
	switch {
	case !seen["nodes"]:
		return w, errors.New("--slurm: nodes is missing, such as nodes=4,time=2h")
	case !seen["cpus"] && !seen["memory"]:
		w.options = append(w.options, "--exclusive", "--mem=0")
	case !seen["memory"]:
		w.options = append(w.options, "--mem=0") // all of a node
	}
	return w, nil
}

// never are reasons for which a pending job never starts.
var never = regexp.MustCompile(`^(PartitionNodeLimit|PartitionTimeLimit|PartitionConfig|BadConstraints|` +
	`InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed|JobHeldUser|` +
	`(QOS|Assoc)\w*Per(Job|JobLimit)|MaxMemPerLimit)$`)

var granted = regexp.MustCompile(`(?:Granted|Pending) job allocation ([0-9]+)`)

// Request asks Slurm for an allocation and waits until it is granted. progress hears the reason of the wait. If the
// context ends first the request is withdrawn.
func Request(ctx context.Context, w Wants, progress func(string)) (*Allocation, error) {
	if err := ready(); err != nil {
		return nil, err
	}
	r := request{wants: w, progress: progress, ids: make(chan string, 1), started: make(chan *os.Process, 1)}
	id, err := r.wait(ctx)
	if err != nil {
		if id != "" {
			// The context may have ended; the request is withdrawn all the same.
			end, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
			defer stop()
			if e := cancel(end, id); e != nil {
				err = fmt.Errorf("%w; allocation %s may still be granted, scancel %s withdraws it: %w", err, id, id, e)
			}
		}
		return nil, err
	}
	a, err := Attach(ctx, id)
	if err != nil {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer stop()
		return nil, errors.Join(err, cancel(end, id))
	}
	a.Own(true)
	return a, nil
}

type request struct {
	wants    Wants
	progress func(string)
	ids      chan string
	started  chan *os.Process
	said     tail
}

// wait runs salloc until it has the allocation. It returns the number of the job as soon as that is known, also with an
// error.
func (r *request) wait(ctx context.Context) (id string, err error) {
	cmd := exec.Command("salloc", r.wants.options...)
	cmd.Env = environment()
	cmd.SysProcAttr = attributes()
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread ends that started salloc
		defer runtime.UnlockOSThread()
		ended <- r.run(cmd)
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := ""
	for {
		select {
		case id = <-r.ids:
		case err := <-ended:
			select {
			case id = <-r.ids:
			default:
			}
			return id, r.judge(ctx, id, err)
		case <-ctx.Done():
			return r.stop(ended, id), context.Cause(ctx)
		case <-tick.C:
			if id == "" {
				continue
			}
			j, known, err := find(ctx, id)
			if err != nil || !known || j.state != "PENDING" {
				continue // salloc itself tells its outcome
			}
			if never.MatchString(j.reason) {
				r.stop(ended, id)
				return id, r.refused(ctx, "it can never start there ("+j.reason+")")
			}
			if text := "waiting for allocation " + id + " (" + j.reason + ")"; text != last {
				r.progress(text)
				last = text
			}
		}
	}
}

// run runs salloc to its end and reads its messages.
func (r *request) run(cmd *exec.Cmd) error {
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	in := bufio.NewReader(io.TeeReader(pipe, &r.said))
	r.started <- cmd.Process
	found := false
	for {
		line, err := in.ReadString('\n')
		if m := granted.FindStringSubmatch(line); m != nil && !found {
			found = true
			r.ids <- m[1]
		}
		if err != nil {
			break
		}
	}
	return cmd.Wait()
}

// stop ends salloc, which then withdraws the request, and returns the number of the job if it is known by now.
func (r *request) stop(ended <-chan error, id string) string {
	select {
	case p := <-r.started:
		_ = p.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = p.Kill()
			<-ended
		}
	case <-ended:
	}
	select {
	case id = <-r.ids:
	default:
	}
	return id
}

// judge draws the conclusion from the end of salloc.
func (r *request) judge(ctx context.Context, id string, err error) error {
	if err == nil && id != "" {
		return nil
	}
	said := r.said.String()
	if err == nil {
		return fmt.Errorf("salloc did not say which allocation it got: %s", lastLine(said))
	}
	failed := refusal("salloc", said, err)
	if errors.Is(failed, ErrAway) {
		return unanswered(failed)
	}
	if e := new(Error); errors.As(failed, &e) {
		return e
	}
	_, reason, ok := strings.Cut(lastLine(said), "submit/allocate failed: ")
	if !ok {
		reason = lastLine(said)
	}
	return r.refused(ctx, reason)
}

// refused makes the error of a request that Slurm refuses.
func (r *request) refused(ctx context.Context, reason string) error {
	remedy := "sinfo shows what there is"
	if out, err := ask(ctx, "sinfo", "--noheader", "--format=%R: up to %s nodes, %l, %D in all"); err == nil {
		remedy = "the partitions are " + clip(strings.Join(strings.Split(strings.TrimSpace(out), "\n"), "; "), 400)
	}
	return &Error{What: "Slurm refuses the allocation " + r.wants.text, Err: errors.New(reason), Remedy: remedy}
}
