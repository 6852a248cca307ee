// Package load measures a server under load: the real binary, on the null runtime, is handed work over its socket at a
// steady rate until 100,000 tasks wait, then more of it while they do, and then the tasks run. It prints the time of
// the answers, the cost of rounds and the memory of the server, and fails if a bar is missed. With -attempts a server
// runs as many attempts, on the null runtime or in containers, and is to hold nothing of them in the end. docs/serve.md
// has the figures of runs.
package load

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gantry/cgroup"
	"gantry/cmd/api"
	"gantry/executor"
	"gantry/scripts/measure"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/trace"
)

// The bars.
const (
	mostAnswer = 50 * time.Millisecond // 99th percentile of submissions
	mostMemory = 1000 << 20            // resident, at its highest
	mostLook   = time.Second           // of queue and show
)

var large = flag.Bool("large", false, "run the load")

func init() {
	flag.IntVar(&under.attempts, "attempts", 0, "measure a log of that many attempts instead")
	flag.StringVar(&under.runtime, "runtime", "null", "of the server")
	flag.StringVar(&under.dir, "dir", "", "with -attempts: keep the log in this directory")
}

const (
	waiting = 100_000 // tasks that are to wait
	size    = 100     // tasks of a workflow
	rate    = 1000    // submissions a minute
	single  = 500     // submissions of one task while the others wait
	clients = 8       // that hand in side by side
	run     = "load"
)

var gantry = measure.Gantry(filepath.Join("../..", string(measure.Built)))

var under load

func TestLoad(t *testing.T) {
	if !*large {
		t.Skip("it takes minutes of a quiet host: make load runs it")
	}
	if err := under.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

type load struct {
	attempts     int
	runtime, dir string
	missed       []string
}

func (l *load) run(ctx context.Context) (err error) {
	if l.dir == "" {
		if l.dir, err = os.MkdirTemp("", "gantry-load"); err != nil {
			return err
		}
		defer os.RemoveAll(l.dir)
	} else if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	cluster := filepath.Join(l.dir, "cluster.yaml")
	const nodesFile = "nodes:\n  - {name: n, count: 4, cores: 8, memory: 32GB}\n"
	if err := os.WriteFile(cluster, []byte(nodesFile), 0o600); err != nil {
		return err
	}
	var said bytes.Buffer
	args := []string{"serve", "--dir", l.dir, "--name", run, "--runtime", l.runtime, "--cluster", cluster,
		"--policy", "cpp", "--oversubscribe"}
	if l.runtime != "null" {
		args = append(args, "--time-scale", "0.001", "--size-scale", "0.001", "--starts", "4")
	}
	server := gantry.Command(ctx, args...)
	server.Stderr = &said
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Kill() // it has ended if all went well
		_ = server.Wait()
	}()
	c := api.NewClient(l.dir)
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := c.About(ctx); err == nil {
			break
		} else if time.Now().After(until) {
			return fmt.Errorf("the server does not answer: %w\n%s", err, said.String())
		}
	}
	end := func() error {
		if err := c.Drain(ctx, api.Drain{}); err != nil && !errors.Is(err, api.ErrNoServer) {
			return err
		}
		if err := server.Wait(); err != nil {
			return fmt.Errorf("the server: %w\n%s", err, said.String())
		}
		return nil
	}
	if l.attempts > 0 {
		if err := l.month(ctx, c, server.Process.Pid); err != nil {
			return err
		}
		err := end()
		l.hold(l.groups() == 0, "no control group once the server has ended")
		return errors.Join(err, logtest.Check(ctx, filepath.Join(l.dir, sqlite.FileName)), l.verdict())
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes { // tasks wait
		if _, err := c.ChangeNode(ctx, n.Name, api.ChangeNode{To: api.NodeDrained}); err != nil {
			return err
		}
	}
	if err := l.submit(ctx, "until they wait", waiting/size, size); err != nil {
		return err
	}
	if err := l.more(ctx, "while they wait"); err != nil {
		return err
	}
	l.memory(server.Process.Pid, "while they wait")
	began := time.Now()
	for _, n := range nodes {
		if _, err := c.ChangeNode(ctx, n.Name, api.ChangeNode{To: api.NodeWhole}); err != nil {
			return err
		}
	}
	if err := l.more(ctx, "while they run"); err != nil {
		return err
	}
	for about, err := c.About(ctx); err == nil && about.Workflows > 0; about, err = c.About(ctx) {
		time.Sleep(200 * time.Millisecond)
	}
	fmt.Printf("all tasks ended %.1f s after the nodes were there\n", time.Since(began).Seconds())
	l.memory(server.Process.Pid, "at the end")
	if err := end(); err != nil {
		return err
	}
	return errors.Join(l.rounds(ctx), l.verdict())
}

// verdict fails if a bar was missed.
func (l *load) verdict() error {
	if len(l.missed) > 0 {
		return fmt.Errorf("missed: %s", strings.Join(l.missed, "; "))
	}
	return nil
}

// month has the server run workflows until its log has that many attempts, looks at it, and hands in more. In the end
// the server holds no more of them than when it began.
func (l *load) month(ctx context.Context, c *api.Client, pid int) error {
	const ahead = 2000 // workflows under way at most
	together := min(100, max(10, l.attempts/1000))
	idle := l.holds(pid)
	definition, err := definitionOf(size)
	if err != nil {
		return err
	}
	flows := slices.Repeat([]api.Workflow{{Name: "w", Definition: definition}}, together)
	one, err := definitionOf(1)
	if err != nil {
		return err
	}
	tasks := slices.Repeat([]api.Task{{Workflow: "stream", Definition: one}}, together/10)
	began, about := time.Now(), &api.Server{}
	for done, said := 0, 0; done < l.attempts || about.Workflows > 0; {
		if about, err = c.About(ctx); err != nil {
			return err
		}
		if done >= l.attempts || about.Workflows > ahead {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if _, err := c.Submit(ctx, &api.Submit{Workflows: flows}); err != nil {
			return err
		}
		if _, err := c.Submit(ctx, &api.Submit{Tasks: tasks}); err != nil {
			return err
		}
		if done += together*size + len(tasks); done >= said+l.attempts/10 {
			said = done
			fmt.Printf("%v, %d control groups; the log has %d bytes for each attempt\n", l.holds(pid), l.groups(),
				measure.LogSize(l.dir)/int64(done))
			l.memory(pid, fmt.Sprintf("after %d attempts and %.0f s", done, time.Since(began).Seconds()))
		}
	}
	if err := l.more(ctx, "in the end"); err != nil {
		return err
	}
	for about.Workflows = 1; about.Workflows > 0; time.Sleep(50 * time.Millisecond) {
		if about, err = c.About(ctx); err != nil {
			return err
		}
	}
	l.memory(pid, "in the end")
	l.missed = append(l.missed, l.left(pid, idle)...)
	return nil
}

// left says of which things a server with nothing to do holds more than when it began. Containers go a little later.
func (l *load) left(pid int, idle map[string]int) (more []string) {
	const slack = 10
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		more = nil
		for thing, n := range l.holds(pid) {
			if n > idle[thing]+slack {
				more = append(more, fmt.Sprintf("%d %s of a server with nothing to do, %d as it began", n, thing,
					idle[thing]))
			}
		}
		if len(more) == 0 || time.Now().After(until) {
			return more
		}
	}
}

// holds counts things that a server has open.
func (l *load) holds(pid int) map[string]int {
	all := map[string]int{"descriptors": 0, "watches": 0}
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		all["descriptors"]++
		all["watches"] += bytes.Count(text, []byte("inotify wd:"))
	}
	return all
}

// groups counts the control groups of the run.
func (l *load) groups() (n int) {
	group := executor.HostName(run, filepath.Join(l.dir, run))
	_ = filepath.WalkDir(cgroup.Root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, group) {
			n++
		}
		return nil
	})
	return n
}

// definitionOf is a workflow of chains of four tasks, each of which reads the output of the one before it.
func definitionOf(size int) ([]byte, error) {
	w := &trace.Workflow{Name: "w", Label: "w"}
	for i := range size {
		w.Tasks = append(w.Tasks, trace.Task{ID: "t" + strconv.Itoa(i), Kind: "k", Cores: 1, Retries: -1,
			Runtime: time.Duration(1+i%7) * time.Second, MemoryBytes: 100 << 20})
		if size == 1 { // it may be of a workflow that grows, in which names of files are not used twice
			break
		}
		w.Files = append(w.Files, trace.File{Name: "f" + strconv.Itoa(i), Size: 1 << 20, Sized: true,
			Producer: int32(i)})
		w.Tasks[i].Outputs = []int32{int32(i)}
		if i > 0 && i%4 != 0 { // chains of four
			w.Tasks[i].Parents, w.Tasks[i].Inputs = []int32{int32(i - 1)}, []int32{int32(i - 1)}
			w.Tasks[i-1].Children = []int32{int32(i)}
		}
	}
	return sqlite.EncodeSubmission(&executor.Submission{Name: "w", Workflow: w, Tenant: "t"})
}

// submit hands in n workflows at the rate, from several clients.
func (l *load) submit(ctx context.Context, when string, n, size int) error {
	definition, err := definitionOf(size)
	if err != nil {
		return err
	}
	every := time.Minute / time.Duration(rate)
	took := make([]time.Duration, n)
	errs := make([]error, clients)
	var wg sync.WaitGroup
	began := time.Now()
	for k := range clients {
		wg.Go(func() {
			c := api.NewClient(l.dir)
			for i := k; i < n; i += clients {
				due := began.Add(time.Duration(i) * every)
				time.Sleep(time.Until(due))
				_, err := c.Submit(ctx, &api.Submit{Workflows: []api.Workflow{{Name: "w", Definition: definition}}})
				took[i] = time.Since(due) // a client that is late counts, too
				if err != nil {
					errs[k] = err
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	slices.Sort(took)
	p99 := took[min(n-1, n*99/100)]
	fmt.Printf("%d submissions of %d tasks %s: median %v, 99th percentile %v, longest %v\n", n, size, when,
		took[n/2].Round(10*time.Microsecond), p99.Round(10*time.Microsecond), took[n-1].Round(10*time.Microsecond))
	l.hold(p99 <= mostAnswer, "answers to submissions %s within %v", when, mostAnswer)
	return nil
}

// more hands in single tasks, and times commands that people give.
func (l *load) more(ctx context.Context, when string) error {
	if err := l.submit(ctx, when, single, 1); err != nil {
		return err
	}
	for _, args := range [][]string{{"queue"}, {"queue", "--all"}, {"queue", "--tenants"}, {"show", "1"}, {"show"},
		{"explain", "1", "t5"}} {
		begun := time.Now()
		if _, err := gantry.Run(ctx, append(args, "--dir", l.dir)...); err != nil {
			return err
		}
		took, command := time.Since(begun), strings.Join(args, " ")
		fmt.Printf("gantry %s %s: %v\n", command, when, took.Round(time.Millisecond))
		l.hold(took <= mostLook, "gantry %s %s within %v", command, when, mostLook)
	}
	return nil
}

// memory prints the most memory that a process had resident so far.
func (l *load) memory(pid int, when string) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	var kb int64
	_, _ = fmt.Sscan(after, &kb) // nothing, if the process has ended
	most := kb << 10
	fmt.Printf("memory of the server %s: at most %d MB\n", when, most>>20)
	l.hold(most <= mostMemory, "memory %s below %d MB", when, mostMemory>>20)
}

// hold notes a bar that is missed.
func (l *load) hold(met bool, bar string, args ...any) {
	if !met {
		l.missed = append(l.missed, fmt.Sprintf(bar, args...))
	}
}

// rounds prints the cost of planning, by the log.
func (l *load) rounds(ctx context.Context) error {
	db, err := sqlite.Open(filepath.Join(l.dir, sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return err
	}
	defer db.Close()
	var rounds, starts, total, most, events int64
	err = db.Each(ctx, func(scan sqlite.Scan) error { return scan(&rounds, &starts, &total, &most, &events) },
		"SELECT count(*), sum(starts), CAST(sum(took_s) * 1e9 AS INTEGER), CAST(max(took_s) * 1e9 AS INTEGER), "+
			"(SELECT count(*) FROM events) FROM v_plans")
	if err != nil {
		return err
	}
	fmt.Printf("%d rounds, %d starts, %d events: planning took %.2f ms a round, at most %.1f ms, %.1f µs an event\n",
		rounds, starts, events, float64(total)/float64(rounds)/1e6, float64(most)/1e6,
		float64(total)/float64(events)/1e3)
	return nil
}
