package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/trace/reader"
)

// tableFormat recognises archives and other tables by their first line.
func tableFormat(text []byte, source string) Format {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := func(sep string) [][]byte {
		all := bytes.Split(line, []byte(sep))
		for i := range all {
			all[i] = reader.Unquoted(all[i], sep[0])
		}
		return all
	}
	has := func(in [][]byte, name string) bool {
		return slices.ContainsFunc(in, func(f []byte) bool { return strings.EqualFold(string(f), name) })
	}
	name := strings.TrimSuffix(strings.ToLower(source), ".gz")
	switch {
	case bytes.HasPrefix(text, []byte("PAR1")):
		return WTA
	case line[0] == ';', strings.HasSuffix(name, ".swf"), len(bytes.Fields(line)) == 18 && numeric(bytes.Fields(line)):
		return SWF
	case (has(fields("|"), "JobID") || has(fields("|"), "JobIDRaw")) && len(fields("|")) > 1:
		return Sacct
	case len(fields(",")) == 9 && (has(fields(","), "task_name") || batchState(fields(",")[4]) ||
		bytes.HasPrefix(fields(",")[2], []byte("j_"))):
		return Alibaba
	case dotBegins.Match(text), strings.HasSuffix(name, ".dot"), strings.HasSuffix(name, ".gv"):
		return DOT
	case (has(fields("\t"), "name") || has(fields("\t"), "process")) && (has(fields("\t"), "realtime") ||
		has(fields("\t"), "duration") || has(fields("\t"), "complete")):
		return NextflowTrace
	case has(fields("\t"), "s") && has(fields("\t"), "h:m:s"):
		return Benchmark
	}
	return Unknown
}

func numeric(fields [][]byte) bool {
	return !slices.ContainsFunc(fields, func(f []byte) bool {
		_, err := reader.Number(string(f))
		return err != nil
	})
}

// archiveRow is a row of an archive. One with a fault is left out.
type archiveRow struct {
	x   *archiver
	t   *reader.Table
	is  string // a job or a task
	bad bool
}

func (r *archiveRow) fail(what string, field []byte, err error) {
	if !r.bad {
		r.bad = true
		r.x.faults.Judge(r.x.opt.Repair, "bad-number", r.t.Line, "", "the "+r.is+" is left out", "%s %q is %v", what,
			field, err)
	}
}

// number reads a number from 0 to most; nothing is 0.
func (r *archiveRow) number(what string, field []byte, most float64) float64 {
	if len(field) == 0 {
		return 0
	}
	n, err := reader.Float(field, most)
	if err != nil {
		r.fail(what, field, err)
	}
	return n
}

const swfFields = 18

// readSWF reads the standard workload format of the Parallel Workloads Archive, version 2.2: a job a line, 18 numbers,
// of which -1 is not known. Of a job that was checkpointed the line with all of it counts.
func (x *archiver) readSWF() {
	x.single, x.task = true, "job"
	const most, mostBytes = 1e15, float64(reader.MaxBytes)
	t := reader.NewTable(x.in, 0, &x.faults)
	for t.Next() {
		if t.Fields[0][0] == ';' || !t.Whole(swfFields, x.opt.Repair) {
			continue
		}
		r := &archiveRow{x: x, t: t, is: "job"}
		number := func(i int, what string, most float64) (float64, bool) {
			if f := t.Fields[i]; f[0] == '-' {
				if n, err := reader.Number(string(f)); err == nil && n == -1 {
					return 0, false
				}
			}
			return r.number(what, t.Fields[i], most), true
		}
		id := int64(r.number("job number", t.Fields[0], most))
		submit, _ := number(1, "submit time", 9e9) // after some beginning, or 1970
		run, ran := number(3, "run time", reader.MaxTime.Seconds())
		status, ended := number(10, "status", 5)
		estimate, _ := number(8, "requested time", reader.MaxTime.Seconds())
		allocated, _ := number(4, "number of allocated processors", reader.MaxCores)
		requested, _ := number(7, "number of requested processors", reader.MaxCores)
		needed, _ := number(9, "requested memory", mostBytes)
		used, _ := number(6, "used memory", mostBytes)
		user, _ := number(11, "user", most)
		program, _ := number(13, "executable", most)
		row := archivedTask{run: seconds(run), estimate: seconds(estimate),
			cores: float32(cmp.Or(requested, allocated))}
		memory := cmp.Or(needed, used)
		if bytes := memory * 1024 * max(1, float64(row.cores)); bytes <= mostBytes {
			row.memory = int64(bytes)
		} else {
			r.fail("memory of each processor in KB", fmt.Append(nil, memory), reader.Above(mostBytes))
		}
		switch {
		case r.bad:
		case ended && status >= 2 && status <= 4:
			x.leave("parts of jobs, whose whole has a line of its own")
		case !ran || status == 5 && run == 0:
			x.leave("jobs that never ran")
		default:
			var tenant int32
			kind := []byte("job")
			if user > 0 {
				kind = strconv.AppendInt([]byte("user"), int64(user), 10)
				tenant = x.text(kind)
			}
			if program > 0 {
				kind = strconv.AppendInt(append(kind, "-program"...), int64(program), 10)
			}
			row.kind = x.text(kind)
			x.add(id, seconds(submit), tenant, row, t)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// add adds a job of one task.
func (x *archiver) add(id int64, at time.Duration, tenant int32, row archivedTask, t *reader.Table) {
	job, fresh := x.job(id, at, tenant, t.Line)
	if !fresh {
		x.faults.Judge(x.opt.Repair, "duplicate-id", t.Line, "", "the later one is left out", "job %s is there twice",
			x.textOf(id, ""))
		return
	}
	row.job = job
	x.row(row, t.Line)
}

// readSacct reads what sacct -P prints: a header, a job or step a line, and | between fields. Steps tell the memory of
// their job.
func (x *archiver) readSacct() {
	x.single, x.task = true, "job"
	t := reader.NewTable(x.in, '|', &x.faults)
	if !t.Next() || !t.Header("JobID|JobIDRaw", "Submit|Eligible|Start", "Elapsed|ElapsedRaw|End",
		"AllocCPUS|ReqCPUS|NCPUS") {
		return
	}
	columns, asked := len(t.Fields), false // memory, for the job whose steps follow
	for t.Next() {
		if !t.Whole(columns, x.opt.Repair) {
			continue
		}
		whole, _, step := bytes.Cut(t.Field("jobid|jobidraw"), []byte("."))
		id := x.key(whole, "")
		if step {
			if !asked {
				x.stepMemory(id, t)
			}
			continue
		}
		s := &sacctRow{archiveRow: archiveRow{x: x, t: t, is: "job"}}
		at, row := s.times(), archivedTask{}
		row.run, row.estimate = s.run, s.span("timelimit", "timelimitraw", time.Minute)
		row.cores = float32(s.field("alloccpus|ncpus", reader.MaxCores))
		if row.cores == 0 {
			row.cores = float32(s.field("reqcpus", reader.MaxCores))
		}
		row.memory = s.memory("reqmem", float64(row.cores))
		if asked = row.memory > 0; !asked {
			row.memory = s.memory("maxrss", 1)
		}
		switch {
		case s.bad:
		case len(whole) == 0:
			x.faults.Fail("missing-id", t.Line, "", "a job without JobID")
		case !s.ran:
			x.leave("jobs that have not run to their end")
		default:
			user := t.Field("user|uid")
			name := t.Field("jobname")
			if len(name) == 0 {
				name = []byte("job")
			}
			row.kind = x.text(name)
			x.add(id, at, x.text(user), row, t)
		}
	}
}

// stepMemory raises the memory of a job to that of its step.
func (x *archiver) stepMemory(id int64, t *reader.Table) {
	k, ok := x.of[id]
	n, err := slurmBytes(t.Field("maxrss"), 1, 1)
	if !ok || err != nil || int(k) >= len(x.rows) {
		return // a step of a job that was left out
	}
	if row := &x.rows[k]; n > row.memory {
		row.memory = n
	}
}

// sacctRow reads the fields of a job.
type sacctRow struct {
	archiveRow
	run time.Duration
	ran bool
}

func (s *sacctRow) field(names string, most float64) float64 {
	return s.number(names, s.t.Field(names), most)
}

// times returns when the job was handed in, since 1970, and sets how long it ran, and whether it did to its end.
func (s *sacctRow) times() time.Duration {
	state, _, _ := strings.Cut(string(s.t.Field("state")), " ")
	start, started := s.instant("start")
	end, ended := s.instant("end")
	s.run = s.span("elapsed", "elapsedraw", time.Second)
	if s.run == 0 && started && ended && end > start {
		s.run = end - start
	}
	unfinished := slices.Contains([]string{"PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING"}, state)
	s.ran = !unfinished && (s.run > 0 || started && state == "COMPLETED")
	for _, name := range []string{"submit", "eligible", "start"} {
		if at, ok := s.instant(name); ok {
			return at
		}
	}
	s.ran = false
	return 0
}

// instant reads a time of Slurm; false where there is none.
func (s *sacctRow) instant(name string) (time.Duration, bool) {
	field := s.t.Field(name)
	switch string(field) {
	case "", "Unknown", "None", "N/A":
		return 0, false
	}
	if n, ok := reader.Digits(field); ok && n < 9e9 { // SLURM_TIME_FORMAT=%s
		return time.Duration(n) * time.Second, true
	}
	at, err := time.Parse("2006-01-02T15:04:05", string(field))
	if err != nil || at.Year() < 1970 || at.Year() > 2200 {
		s.fail(name, field, errors.New("not a time such as 2026-01-31T10:00:00"))
		return 0, false
	}
	return time.Duration(at.Unix()) * time.Second, true
}

// span reads a time as [DD-]HH:MM:SS, or from another column as a number.
func (s *sacctRow) span(names, raw string, unit time.Duration) time.Duration {
	if field := s.t.Field(raw); len(field) > 0 {
		if n, err := reader.Float(field, float64(reader.MaxTime/unit)); err == nil {
			return time.Duration(n * float64(unit))
		}
	}
	field := s.t.Field(names)
	switch string(field) {
	case "", "UNLIMITED", "Partition_Limit", "INVALID", "NOT_SET":
		return 0
	}
	d, err := slurmTime(field)
	if err != nil {
		s.fail(names, field, err)
	}
	return d
}

// slurmTime reads [DD-]HH:MM:SS, HH:MM:SS.mmm or MM:SS.
func slurmTime(field []byte) (time.Duration, error) {
	wrong := errors.New("not a time such as 1-12:30:00")
	days, clock, ok := bytes.Cut(field, []byte("-"))
	if !ok {
		days, clock = []byte("0"), field
	}
	d, err := reader.Float(days, 36500)
	if err != nil {
		return 0, wrong
	}
	parts := bytes.Split(clock, []byte(":"))
	if len(parts) < 2 || len(parts) > 3 {
		return 0, wrong
	}
	sum := 0.0
	for _, p := range parts {
		n, err := reader.Float(p, 876_000)
		if err != nil {
			return 0, wrong
		}
		sum = 60*sum + n
	}
	if sum += d * 86400; sum > reader.MaxTime.Seconds() {
		return 0, reader.Above(reader.MaxTime.Seconds())
	}
	return seconds(sum), nil
}

// memory reads an amount of memory, 0 if it is not known.
func (s *sacctRow) memory(name string, cores float64) int64 {
	field := s.t.Field(name)
	n, err := slurmBytes(field, cores, s.field("nnodes|allocnodes", reader.MaxCores))
	if err != nil {
		s.fail(name, field, err)
	}
	return n
}

// slurmBytes reads an amount in units of 1024, as of 4000M, 4Gn of each node and 2Gc of each core.
func slurmBytes(field []byte, cores, nodes float64) (int64, error) {
	if len(field) == 0 {
		return 0, nil
	}
	times, last := 1.0, len(field)-1
	switch field[last] {
	case 'c':
		times, field = max(1, cores), field[:last]
	case 'n':
		times, field = max(1, nodes), field[:last]
	}
	n, err := reader.BinaryBytes(string(field), 1)
	if err == nil && (n < 0 || float64(n)*times > float64(reader.MaxBytes)) {
		err = errors.New("negative, or " + reader.Above(float64(reader.MaxBytes)).Error())
	}
	return int64(float64(n) * times), err
}
