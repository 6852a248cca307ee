package allocation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Wants is an allocation to request. Without CPUs and Memory it is of whole nodes.
type Wants struct {
	Nodes                                            int
	Time                                             time.Duration // 0: the partition's default
	Partition, Account, QOS, Constraint, Reservation string
	CPUs                                             int   // of each node; 0: all
	Memory                                           int64 // bytes of each node; 0: all
	Name                                             string
}

// wantKeys lists the keys of --slurm, for messages.
const wantKeys = "nodes, time, partition, account, qos, constraint, reservation, cpus, memory"

// word is a value that goes to salloc as it is.
var word = regexp.MustCompile(`^[A-Za-z0-9_.@:+|&*()\[\]-]+$`)

// ParseWants reads the value of --slurm: nodes=4,time=2h,partition=NAME ...
func ParseWants(text string) (Wants, error) {
	var w Wants
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || value == "" {
			return w, fmt.Errorf("--slurm: %q is not KEY=VALUE: it takes %s", clip(part, 40), wantKeys)
		}
		if seen[key] {
			return w, fmt.Errorf("--slurm: %s is given twice", clip(key, 40))
		}
		seen[key] = true
		text := map[string]*string{"partition": &w.Partition, "account": &w.Account, "qos": &w.QOS,
			"constraint": &w.Constraint, "reservation": &w.Reservation}[key]
		var err error
		switch {
		case text != nil:
			if !word.MatchString(value) || value[0] == '-' {
				err = errors.New("has characters that it cannot have")
			}
			*text = value
		case key == "nodes":
			w.Nodes, err = count(value)
		case key == "cpus":
			w.CPUs, err = count(value)
		case key == "time":
			w.Time, err = duration(value)
		case key == "memory":
			w.Memory, err = bytesOf(value)
		default:
			return w, fmt.Errorf("--slurm has no %q: it takes %s", clip(key, 40), wantKeys)
		}
		if err != nil {
			return w, fmt.Errorf("--slurm %s=%s: %w", key, clip(value, 40), err)
		}
	}
	if w.Nodes == 0 {
		return w, errors.New("--slurm: nodes is missing, such as nodes=4,time=2h")
	}
	return w, nil
}

func count(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1<<20 {
		return 0, errors.New("want a number from 1")
	}
	return n, nil
}

// duration reads 2h, 1h30m, 90m, or Slurm's minutes, HH:MM:SS and D-HH:MM:SS.
func duration(text string) (time.Duration, error) {
	wrong := errors.New("want a time such as 2h, 90m or 1-12:00:00, of at least a minute")
	d, err := time.ParseDuration(text)
	if err != nil {
		days, rest, hasDays := strings.Cut(text, "-")
		if !hasDays {
			days, rest = "0", text
		}
		parts := strings.Split(rest, ":")
		units := map[int][]time.Duration{1: {time.Minute}, 2: {time.Minute, time.Second},
			3: {time.Hour, time.Minute, time.Second}}[len(parts)]
		if hasDays {
			units = []time.Duration{time.Hour, time.Minute, time.Second}
		}
		if len(parts) > len(units) {
			return 0, wrong
		}
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, wrong
		}
		d = time.Duration(n) * 24 * time.Hour
		for i, p := range parts {
			n, err := strconv.ParseUint(p, 10, 24)
			if err != nil {
				return 0, wrong
			}
			d += time.Duration(n) * units[i]
		}
	}
	if d < time.Minute || d > 10*365*24*time.Hour {
		return 0, wrong
	}
	return d, nil
}

func bytesOf(text string) (int64, error) {
	digits := strings.TrimRight(text, "KMGTBkmgtbi")
	scale, ok := map[string]int64{"": 1 << 20, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gb": 1 << 30,
		"gib": 1 << 30, "t": 1 << 40, "tb": 1 << 40, "tib": 1 << 40}[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || !ok || n < 1 {
		return 0, errors.New("want an amount such as 16G or 4000M")
	}
	return n * scale, nil
}

// options are those of salloc.
func (w Wants) options() []string {
	args := []string{"--no-shell", "--no-kill", "--nodes=" + strconv.Itoa(w.Nodes), "--ntasks-per-node=1"}
	if w.CPUs == 0 && w.Memory == 0 {
		args = append(args, "--exclusive")
	}
	if w.CPUs > 0 {
		args = append(args, "--cpus-per-task="+strconv.Itoa(w.CPUs))
	}
	args = append(args, "--mem="+strconv.FormatInt(w.Memory>>20, 10)+"M") // 0: all of a node
	if w.Time > 0 {
		args = append(args, "--time="+strconv.FormatInt(int64((w.Time+time.Minute-1)/time.Minute), 10))
	}
	for option, value := range map[string]string{"partition": w.Partition, "account": w.Account, "qos": w.QOS,
		"constraint": w.Constraint, "reservation": w.Reservation, "job-name": w.Name} {
		if value != "" {
			args = append(args, "--"+option+"="+value)
		}
	}
	return args
}

func (w Wants) String() string {
	text := "nodes=" + strconv.Itoa(w.Nodes)
	if w.Time > 0 {
		text += ",time=" + w.Time.String()
	}
	for _, x := range [][2]string{{"partition", w.Partition}, {"account", w.Account}, {"qos", w.QOS},
		{"constraint", w.Constraint}, {"reservation", w.Reservation}} {
		if x[1] != "" {
			text += "," + x[0] + "=" + x[1]
		}
	}
	if w.CPUs > 0 {
		text += ",cpus=" + strconv.Itoa(w.CPUs)
	}
	if w.Memory > 0 {
		text += ",memory=" + strconv.FormatInt(w.Memory>>20, 10) + "M"
	}
	return text
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
	cmd := exec.Command("salloc", r.wants.options()...)
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
	return &Error{What: "Slurm refuses the allocation " + r.wants.String(), Err: errors.New(reason), Remedy: remedy}
}
