package export

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/executor"
	"gantry/sqlite"
)

// NextflowColumns are those of a trace.txt of Nextflow, in its order, and then some that its users can ask for.
var NextflowColumns = []string{"task_id", "hash", "native_id", "name", "status", "exit", "submit", "duration",
	"realtime", "%cpu", "peak_rss", "peak_vmem", "rchar", "wchar", "process", "cpus", "memory", "start", "complete",
	"cpu_model"}

// Nextflow writes a trace.txt of a run on a runtime: a row for each attempt that was ordered, in their order, with
// Nextflow's columns and units. Instants are UTC. rchar and wchar are the bytes that the kernel's block I/O counters
// show, for gantry has none of read and write calls; peak_vmem is not measured. native_id is the name of the container.
// process is the type of the task; cpus, a whole number as Nextflow's are, and memory are those that the attempt held;
// cpu_model is that of the host.
func Nextflow(ctx context.Context, w io.Writer, db *sqlite.DB, run string, on *executor.Capabilities) error {
	info, err := db.Info(ctx, run)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, strings.Join(NextflowColumns, "\t"))
	model := "-"
	if h := info.Host; h != nil && on.Programs && h.Model != "" {
		model = h.Model
	}
	instant := func(at int64) string {
		return info.Started.Add(time.Duration(at)).UTC().Format("2006-01-02 15:04:05.000")
	}
	onHost := executor.HostName(info.Name, filepath.Join(filepath.Dir(db.Path()), info.Name))
	if err := sqlite.EachRow(ctx, db, func(r *struct {
		Attempt, Try, Cores, Memory                            int64
		Flow, Task, Kind, Outcome                              string
		Exit, Queued, Started, Ended, CPU, Peak, Read, Written *int64
	}) error {
		native := "-"
		if on.Attempts != "" {
			native = fmt.Sprintf(on.Attempts, onHost, r.Attempt)
		}
		realtime := between(r.Started, r.Ended)
		held := &r.Memory
		if *held == 0 { // that is no bound
			held = nil
		}
		return row(out, number(r.Attempt+1), hash(info.Name, r.Flow, r.Task, number(r.Try)), native,
			fullName(r.Kind, r.Task), status(r.Outcome, r.Started != nil), known(r.Exit, number),
			known(r.Queued, instant), known(between(r.Queued, r.Ended), duration), known(realtime, duration),
			load(r.CPU, realtime), known(r.Peak, memory), "-", known(r.Read, memory), known(r.Written, memory),
			process(r.Kind, r.Task), number((r.Cores+999)/1000), known(held, memory), known(r.Started, instant),
			known(r.Ended, instant), model)
	}, `SELECT a.attempt, a.try, a.hold_millicores, a.hold_memory_bytes, w.name, t.name, t.kind,
		coalesce(a.outcome, ''), a.exit_code,
		a.queued_ns, a.started_ns, a.ended_ns, a.cpu_user_ns + a.cpu_system_ns, a.peak_memory_bytes, a.read_bytes,
		a.written_bytes FROM runs r JOIN attempts a ON a.run = r.id JOIN tasks t ON t.run = r.id AND t.task = a.task
		JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow WHERE r.name = ? ORDER BY a.attempt`,
		info.Name); err != nil {
		return err
	}
	if err := cached(ctx, out, db, info.Name); err != nil {
		return err
	}
	return out.Flush()
}

// cached writes the tasks that took over outputs of other runs, as Nextflow does: they had no attempt.
func cached(ctx context.Context, out io.Writer, db *sqlite.DB, run string) error {
	return sqlite.EachRow(ctx, db, func(r *struct {
		ID               int64
		Flow, Task, Kind string
	}) error {
		cells := slices.Repeat([]string{"-"}, len(NextflowColumns))
		copy(cells, []string{number(r.ID), hash(run, r.Flow, r.Task, "0"), "-",
			fullName(r.Kind, r.Task), "CACHED"})
		cells[slices.Index(NextflowColumns, "process")] = process(r.Kind, r.Task)
		return row(out, cells...)
	}, `SELECT (SELECT count(*) FROM attempts a WHERE a.run = r.id) + row_number() OVER (ORDER BY t.task),
		w.name, t.name, t.kind
		FROM runs r JOIN reuses u ON u.run = r.id AND u.from_run <> ''
		JOIN tasks t ON t.run = r.id AND t.task = u.task AND t.state <> 'continued'
		JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow WHERE r.name = ? ORDER BY t.task`, run)
}

func fullName(kind, task string) string {
	if task == kind || kind == "" {
		return task
	}
	return kind + " (" + task + ")"
}

// process is the type of a task; one without a type is the only one of its process.
func process(kind, task string) string { return cmp.Or(kind, task) }

var oneLine = strings.NewReplacer("\t", " ", "\n", " ", "\r", " ")

func row(out io.Writer, cells ...string) error {
	for i := range cells {
		cells[i] = oneLine.Replace(cells[i])
	}
	_, err := fmt.Fprintln(out, strings.Join(cells, "\t"))
	return err
}

// hash is short and as good as unique within a run, in Nextflow's form.
func hash(parts ...string) string {
	h := fnv.New64a()
	io.WriteString(h, strings.Join(parts, "\x00")) // a hash takes everything
	text := fmt.Sprintf("%016x", h.Sum64())
	return text[:2] + "/" + text[2:8]
}

// status is Nextflow's word for how an attempt stands.
func status(outcome string, started bool) string {
	switch outcome {
	case "ok":
		return "COMPLETED"
	case "":
		if started {
			return "RUNNING"
		}
		return "SUBMITTED"
	case "killed", "preempted", "lost":
		return "ABORTED"
	}
	return "FAILED"
}

func between(from, to *int64) *int64 {
	if from == nil || to == nil {
		return nil
	}
	return new(*to - *from)
}

// known is a number as text; "-" if it is not known.
func known(v *int64, text func(int64) string) string {
	if v == nil {
		return "-"
	}
	return text(*v)
}

func number(v int64) string { return strconv.FormatInt(v, 10) }

// duration is in Nextflow's form: 345ms, 1.2s, 4m 19s, 1h 2m 3s.
func duration(ns int64) string {
	ms := (ns + 500_000) / 1_000_000
	switch {
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + "ms"
	case ms < 60_000:
		return strconv.FormatFloat(math.Round(float64(ms)/100)/10, 'f', -1, 64) + "s"
	}
	s := (ms + 500) / 1000
	var parts []string
	for _, u := range []struct {
		name string
		s    int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}} {
		if n := s / u.s; n > 0 {
			parts = append(parts, strconv.FormatInt(n, 10)+u.name)
			s %= u.s
		}
	}
	return strings.Join(parts, " ")
}

// load is in percent of one core.
func load(cpu, realtime *int64) string {
	if cpu == nil || realtime == nil || *realtime <= 0 {
		return "-"
	}
	return strconv.FormatFloat(100*float64(*cpu)/float64(*realtime), 'f', 1, 64) + "%"
}

// memory is in Nextflow's form: units of 1024, one decimal at most, 0 for nothing.
func memory(b int64) string {
	if b == 0 {
		return "0"
	}
	v := float64(b)
	for _, unit := range []string{"B", "KB", "MB", "GB", "TB"} {
		if v < 1024 {
			return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + " " + unit
		}
		v /= 1024
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + " PB"
}
