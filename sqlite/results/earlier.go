package results

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/sqlite"
)

// Check says that a sample of the runs of earlier builds was repeated by another one, and came out the same digit for
// digit.
type Check struct {
	Earlier []string `json:"earlier"`
	Build   string   `json:"build"`
	Runs    int      `json:"runs"`
}

// Earlier has the short form of results of an experiment, of which another build, or the same on another day, takes
// runs over instead of simulating them again.
type Earlier struct {
	set     *Set
	cells   map[string]*Cell // by Key of the experiment's cells
	version string           // of the build that takes over
	sample  map[sampled]bool // the runs that are simulated again
	took    time.Duration    // of a run, on average
}

// sampled is a run of the sample.
type sampled struct {
	key string // of the cell
	rep int
}

// NewEarlier looks through results in short form. The error says why no run of them counts.
func NewEarlier(set *Set, info Info) (*Earlier, error) {
	text, err := json.Marshal(info.Settings)
	settings := string(text)
	switch {
	case err != nil:
		return nil, err
	case set.Name != info.Name || set.Settings != settings:
		return nil, fmt.Errorf("they are of experiment %s with %s, not of %s with %s", set.Name, set.Settings,
			info.Name, settings)
	case len(set.Dots) > 0:
		return nil, fmt.Errorf("they are without all the workflows that this experiment keeps")
	}
	e := &Earlier{set: set, cells: map[string]*Cell{}, version: info.Version, sample: map[sampled]bool{}}
	runs := 0
	for _, c := range set.Cells {
		if c.Inputs != "" {
			e.cells[c.key()] = c
			runs += len(c.Runs)
		}
	}
	if runs == 0 {
		return nil, fmt.Errorf("they have no runs of known files")
	}
	e.took = set.Took / time.Duration(runs)
	e.choose()
	return e, nil
}

// key returns experiment.Cell.Key of the cell.
func (c *Cell) key() string {
	e := experiment.Cell{Inputs: c.Inputs}
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		e.Params = append(e.Params, experiment.Param{Name: name, Value: c.Params[name]})
	}
	return e.Key()
}

// choose chooses the sample: a run of each policy on each load by each other build that this one did not check, of
// those whose planning is not charged. Other builds choose others.
func (e *Earlier) choose() {
	type choice struct {
		sampled
		place uint64
	}
	best := map[string]choice{}
	for key, c := range e.cells {
		if charged, err := strconv.ParseFloat(c.Params["charge_planning"], 64); err == nil && charged > 0 {
			continue
		}
		of := ""
		for _, name := range slices.Sorted(maps.Keys(c.Params)) {
			if name == "policy" || strings.HasPrefix(name, "policy.") || name == "workload" {
				of += name + "=" + c.Params[name] + " "
			}
		}
		for _, r := range c.Runs {
			if r.State == experiment.Failed || e.known(r.Build) {
				continue
			}
			h := fnv.New64a()
			fmt.Fprintf(h, "%s %s %d", e.version, key, r.Repetition)
			x := choice{sampled{key, r.Repetition}, h.Sum64()}
			if b, ok := best[of+r.Build]; !ok || x.place < b.place {
				best[of+r.Build] = x
			}
		}
	}
	for _, x := range best {
		e.sample[x.sampled] = true
	}
}

// known reports whether a build is the present one, or was checked by it. A build that is of no commit has its name in
// common with others.
func (e *Earlier) known(build string) bool {
	if strings.HasSuffix(e.version, "-dirty") || e.version == "unknown" {
		return false
	}
	return build == e.version || slices.ContainsFunc(e.set.Checks, func(c Check) bool {
		return c.Build == e.version && slices.Contains(c.Earlier, build)
	})
}

// Sample reports whether a run has to be repeated before any run of other builds is taken over.
func (e *Earlier) Sample(c *experiment.Cell, repetition int) bool {
	return e.sample[sampled{c.Key(), repetition}]
}

// Has reports whether a run is among the earlier ones.
func (e *Earlier) Has(c *experiment.Cell, repetition int) bool {
	x := e.cells[c.Key()]
	return x != nil && slices.ContainsFunc(x.Runs, func(r Run) bool {
		return r.Repetition == repetition && r.State != experiment.Failed
	})
}

// Samples is how many those are.
func (e *Earlier) Samples() int { return len(e.sample) }

// byTheClock reports whether a metric is measured: it is another one each time.
func byTheClock(metric string) bool {
	return strings.HasPrefix(metric, "mapping_") || strings.HasPrefix(metric, "planning_")
}

// TakeOver takes runs over from now on when they are asked for, if those of the sample that are kept are the same digit
// for digit in all that is not measured by the clock. Else it takes none, and returns the difference.
func (db *DB) TakeOver(ctx context.Context, e *Earlier) (differs string, err error) {
	checked := Check{Build: e.version}
	for _, x := range slices.SortedFunc(maps.Keys(e.sample), func(a, b sampled) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.rep, b.rep))
	}) {
		rep, c := x.rep, e.cells[x.key]
		id, ok := db.cells[x.key]
		if !ok {
			continue // the experiment does not have it any more
		}
		i := slices.IndexFunc(c.Runs, func(r Run) bool { return r.Repetition == rep })
		was := &c.Runs[i]
		var state experiment.State
		err := db.sql.QueryRowContext(ctx, "SELECT state FROM runs WHERE cell = ? AND repetition = ?", id, rep).
			Scan(&state)
		if err == sql.ErrNoRows {
			continue
		}
		if err != nil {
			return "", wrap("compare", err)
		}
		values, err := db.values(ctx, id, rep)
		if err != nil {
			return "", err
		}
		where := fmt.Sprintf("%s, repetition %d", object(params(c)), rep)
		if state != was.State {
			return fmt.Sprintf("%s: %s, was %s", where, state, was.State), nil
		}
		is := map[string]float64{}
		for _, v := range values {
			is[v.Name] = v.Value
		}
		for name, v := range was.Values {
			got, ok := is[name]
			if !byTheClock(name) && (!ok || digits(got) != digits(v)) {
				return fmt.Sprintf("%s: %s is %s, was %s", where, name, digits(got), digits(v)), nil
			}
		}
		checked.Runs++
		if !slices.Contains(checked.Earlier, was.Build) {
			checked.Earlier = append(checked.Earlier, was.Build)
		}
	}
	if len(e.sample) > 0 && checked.Runs == 0 {
		return "the experiment does not have the runs that would show whether it is the same", nil
	}
	checks := slices.Clone(e.set.Checks)
	if checked.Runs > 0 {
		for _, b := range e.set.Builds { // all of its runs were charged, or have failed
			if !e.known(b) && !slices.Contains(checked.Earlier, b) {
				checked.Earlier = append(checked.Earlier, b)
			}
		}
		slices.Sort(checked.Earlier)
		checks = append(checks, checked)
	}
	for _, c := range checks {
		if _, err := db.sql.ExecContext(ctx, "INSERT OR REPLACE INTO checks VALUES (?,?,?)",
			strings.Join(c.Earlier, ","), c.Build, c.Runs); err != nil {
			return "", wrap("keep a check", err)
		}
	}
	db.earlier = e
	return "", nil
}

func params(c *Cell) (out []experiment.Param) {
	for name, value := range c.Params {
		out = append(out, experiment.Param{Name: name, Value: value})
	}
	return out
}

// digits writes a value as the short form does.
func digits(v float64) string {
	text, _ := number(v).MarshalJSON() // it cannot fail
	return string(text)
}

// takeOver keeps a run of earlier results, if they have it.
func (db *DB) takeOver(ctx context.Context, c *experiment.Cell, repetition int) (*experiment.Outcome, error) {
	if db.earlier == nil || db.earlier.cells[c.Key()] == nil {
		return nil, nil
	}
	e := db.earlier
	runs := e.cells[c.Key()].Runs
	i := slices.IndexFunc(runs, func(r Run) bool { return r.Repetition == repetition && r.State != experiment.Failed })
	if i < 0 {
		return nil, nil
	}
	o := &experiment.Outcome{Cell: c, Repetition: repetition, State: runs[i].State, Message: runs[i].Message,
		Took: e.took}
	for _, name := range slices.Sorted(maps.Keys(runs[i].Values)) {
		o.Values = append(o.Values, metrics.Value{Name: name, Value: runs[i].Values[name]})
	}
	ended := e.set.To
	if repetition == 0 {
		ended = e.set.From // when each run ended is not known, only when the first and the last did
	}
	return o, db.keep(ctx, o, runs[i].Build, ended)
}

func (db *DB) checks(ctx context.Context) (out []Check, err error) {
	rows, err := sqlite.RowsOf[struct {
		Earlier, Build string
		Runs           int
	}](ctx, db, "SELECT earlier, version, runs FROM checks ORDER BY version, earlier")
	for _, c := range rows {
		out = append(out, Check{strings.Split(c.Earlier, ","), c.Build, c.Runs})
	}
	return out, err
}
