package session

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/fetch"
	"gantry/executor/forecast"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// DryRun is the output of gantry run --dry-run. Times are on the axis of the run.
type DryRun struct {
	Policy      string       `json:"policy"`
	Runtime     string       `json:"runtime"`
	Basis       string       `json:"basis"`
	Tasks       int          `json:"tasks"`
	Repetitions int          `json:"repetitions"`
	Makespan    *sqlite.Span `json:"makespan_s"` // null: not known
	Low         *sqlite.Span `json:"makespan_low_s"`
	High        *sqlite.Span `json:"makespan_high_s"`
	Steps       []dryStep    `json:"steps"` // in the order of the starts
	Images      []dryImage   `json:"images"`
	Inputs      []dryInput   `json:"inputs"`
	Reused      []dryReused  `json:"reused"` // tasks that would take over results
	Size        string       `json:"-"`      // of the platform
	Expected    string       `json:"-"`      // the makespan, or why there is none
	Warning     string       `json:"-"`
	Reuse       bool         `json:"-"`
}

// dryStep is a task that would run.
type dryStep struct {
	Workflow   string       `json:"workflow"`
	Task       string       `json:"task"`
	Kind       string       `json:"kind"`
	Node       string       `json:"node"`
	Start      *sqlite.Span `json:"start_s"` // its place is taken; null: not known, as the next two
	Begin      *sqlite.Span `json:"begin_s"` // its program runs
	End        *sqlite.Span `json:"end_s"`   // its place is free
	Millicores int64        `json:"millicores"`
	Memory     int64        `json:"memory_bytes"`
	Image      string       `json:"image"`   // "" if it is emulated
	Command    string       `json:"command"` // as executor.CommandLine has it
	Reason     string       `json:"reason"`  // for which it takes over no results; "" without --reuse
}

// dryReused is a task that would take over the results of an earlier run.
type dryReused struct {
	Workflow string `json:"workflow"`
	Task     string `json:"task"`
	Run      string `json:"from_run"`
	Command  string `json:"command"`
}

// dryImage is an image that programs would run in.
type dryImage struct {
	Image  string `json:"image"`
	ID     string `json:"id"`     // "" if it is not here
	Action string `json:"action"` // present, or that of the run: pull, load, unpack; on Slurm: look for
}

// dryInput is a file from outside.
type dryInput struct {
	Workflow string `json:"workflow"`
	File     string `json:"file"`
	Path     string `json:"path"` // or the address; "" if the file is made up
	Bytes    int64  `json:"bytes"`
}

// dry predicts the course of a run. It starts no container, writes no log, fetches nothing, and refuses the same
// workflows as a run does, with the same exit codes.
func (s *Session) dry(ctx context.Context) (*DryRun, error) {
	if err := checkName(s.Name); err != nil {
		return nil, err
	}
	if Capabilities(s.Set.Runtime).Programs {
		if err := s.checkRoom(filepath.Join(s.Home, cmp.Or(s.Name, "run")), s.subs); err != nil {
			return nil, err
		}
	}
	db, err := earlier(ctx, s.Home, s.Name)
	if err != nil {
		return nil, err
	}
	if db != nil {
		defer db.Close()
	}
	d := &DryRun{Size: term.Describe(s.Platform), Reuse: s.Set.Reuse, Policy: s.Set.Policy, Runtime: s.Set.Runtime,
		Tasks: s.tasks, Steps: []dryStep{}, Inputs: s.outside(s.Set.SizeScale), Reused: []dryReused{}}
	if d.Images, err = s.look(ctx, &s.Planning, s.wanted); err != nil {
		return nil, err
	}
	if db != nil {
		if err := s.recall(ctx, runsBefore(db, s.Set.Runtime, s.Set)); err != nil {
			return nil, err
		}
	}
	p, ids := &Prediction{Planning: &s.Planning, asks: true}, map[string]string{}
	for _, x := range d.Images {
		ids[x.Image] = x.ID
	}
	id := func(name string) string { return ids[name] }
	if err := p.prepare(ctx, db, &s.work, id, s.slurm != nil); err != nil {
		return nil, err
	}
	s.DB = db // of models; it is open for reading only
	defer func() { s.DB = nil }()
	past := &forecast.Past{Arrivals: s.subs}
	if p.reuse != nil { // which looks at files, however long that takes
		_, err = p.Simulate(ctx, past, 0)
	}
	var f *forecast.Forecast
	if err == nil {
		f, err = p.make(ctx, past)
	}
	if err != nil {
		return nil, exit.With(exit.Input, err)
	}
	d.Basis, d.Repetitions = p.basis(), f.Repetitions
	p.describe(d, f)
	return d, nil
}

func (p *Prediction) describe(d *DryRun, f *forecast.Forecast) {
	known := func(ok bool, t int64) *sqlite.Span {
		if !ok {
			return nil
		}
		return new(sqlite.Span(t))
	}
	d.Expected = p.Unpredicted(f.Course)
	sure := d.Expected == ""
	if sure {
		d.Expected = "expected makespan " + rangeText(f.Makespan, f.Repetitions) + p.basisNote()
		d.Warning = p.startsNote(f)
	}
	d.Makespan, d.Low, d.High = known(sure, int64(f.Makespan.Expected)), known(sure, int64(f.Makespan.Low)),
		known(sure, int64(f.Makespan.High))
	reasons := map[[2]string]string{}
	if p.reuse != nil {
		for _, x := range p.reuse.Decisions() {
			if reasons[[2]string{x.Workflow, x.Task}] = x.Reason; x.From != nil {
				d.Reused = append(d.Reused, dryReused{x.Workflow, x.Task, x.From.Run, executor.CommandLine(x.Spec)})
			}
		}
	}
	starts, ends := p.Foreseen(f.Course)
	for i := range f.Course.Attempts {
		a := &f.Course.Attempts[i]
		d.Steps = append(d.Steps, dryStep{Workflow: a.Task.Workflow.Name, Task: a.Task.Name, Kind: a.Task.Kind,
			Node: p.Platform.Nodes[a.Node].Name, Start: known(starts[i], int64(a.Queued)),
			Begin: known(starts[i], int64(a.Started)), End: known(ends[i], int64(a.Over)),
			Millicores: a.Hold[unit.CPU], Memory: a.Hold[unit.Memory], Image: a.Task.Image,
			Command: executor.CommandLine(a.Task), Reason: reasons[[2]string{a.Task.Workflow.Name, a.Task.Name}]})
	}
}

// earlier opens the log that a run would be kept in, for reading; nil if there is none yet. It refuses a name that the
// log has.
func earlier(ctx context.Context, home, run string) (*sqlite.DB, error) {
	db, err := readLog(home)
	if errors.Is(err, sqlite.ErrNoLog) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if info, err := db.Info(ctx, run); run != "" && err == nil && info.Name == run {
		db.Close()
		return nil, exit.With(exit.Input, sqlite.Taken(run))
	}
	return db, nil
}

// look looks at the images of programs, and at the engine that makes their containers.
func (i *images) look(ctx context.Context, p *Planning, programs map[string]bool) ([]dryImage, error) {
	out := []dryImage{}
	row := RuntimeNamed(p.Set.Runtime)
	if !row.Programs {
		return out, nil
	}
	binary, err := TaskBinary(ctx)
	if err == nil && row.Engine != nil {
		_, err = row.Engine.host(ctx, EngineWants{Binary: binary}) // as a run does first
	}
	if err != nil {
		return nil, exit.Hostf("%w\nnothing was started", err)
	}
	names := slices.Sorted(maps.Keys(programs))
	if row.Cluster != nil { // each node looks for itself when the run begins
		for _, name := range names {
			out = append(out, dryImage{Image: name, Action: "look for"})
		}
		return out, nil
	}
	if len(names) == 0 {
		return out, nil
	}
	wanted := make([]fetch.Wanted, len(names))
	for k, name := range names {
		wanted[k].Ref = name
	}
	o := fetching(p.Set.Pull, p.View)
	o.Look = true
	found, err := row.Images(ctx, i, o, wanted)
	if err != nil {
		return nil, notFetched(err)
	}
	for k, x := range found {
		if x.Source == "local" {
			x.Source = "present"
		}
		if x.Ref == executor.HostImage {
			x.ID, x.Source = "", "show"
		}
		out = append(out, dryImage{names[k], x.ID, x.Source})
	}
	return out, nil
}

// outside lists the files from outside.
func (w *work) outside(scale float64) []dryInput {
	out := []dryInput{}
	for i := range w.subs {
		sub := &w.subs[i]
		for k := range sub.Workflow.Files {
			f := &sub.Workflow.Files[k]
			if f.Producer >= 0 {
				continue
			}
			in := dryInput{Workflow: sub.Name, File: f.Name, Bytes: int64(float64(f.Size) * scale)}
			if sub.Sources != nil {
				if src := &sub.Sources[k]; src.Path+src.URL != "" {
					in.Path, in.Bytes = cmp.Or(src.Path, src.URL), src.Size
				}
			}
			out = append(out, in)
		}
	}
	return out
}
