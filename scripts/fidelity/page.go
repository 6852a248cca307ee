package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"gantry/executor/experiment/metrics"
	"gantry/scripts/measure"
)

// row is a workflow under a policy: its repetitions, which were all predicted alike.
type row struct {
	workflow
	policy string
	runs   []run
}

// title names a row in sentences.
func (r *row) title() string { return r.name + " under " + r.policy }

func (r *row) median(of func(run) float64) float64 { return median(measure.Each(r.runs, of)) }
func (r *row) actual() float64                     { return r.median(func(x run) float64 { return x.Actual }) }
func (r *row) predicted() float64                  { return r.median(func(x run) float64 { return x.Predicted }) }
func (r *row) tau() float64                        { return r.median(func(x run) float64 { return x.Tau }) }
func (r *row) err() float64                        { return r.predicted()/r.actual() - 1 }

// reach is the distance of the longest from the shortest repetition, in seconds, and spread that over their median.
func (r *row) reach() float64 {
	all := measure.Each(r.runs, func(x run) float64 { return x.Actual })
	return slices.Max(all) - slices.Min(all)
}

func (r *row) spread() float64 { return r.reach() / r.actual() }

// noise is by how many seconds two rows may differ as repetitions do.
func noise(a, b *row) float64 { return max(a.reach(), b.reach(), 0.01*min(a.actual(), b.actual())) }

// beyond says that a row is off by more than 8 %, or twice the spread of its repetitions where that is more.
func (r *row) beyond() bool { return math.Abs(r.err()) > max(0.08, 2*r.spread()) }

// inside counts the repetitions in their intervals, and longer those that took longer.
func (r *row) inside() (inside, longer int) {
	for _, x := range r.runs {
		switch {
		case x.Actual > x.High:
			longer++
		case x.Actual >= x.Low:
			inside++
		}
	}
	return inside, longer
}

func median(all []float64) float64 { return metrics.Summarise(all).Median }

// rows reads the measurements.
func (x *harness) rows() (out []row, _ error) {
	for _, w := range workflows() {
		for _, p := range policies {
			r := row{workflow: w, policy: p}
			for k := 1; ; k++ {
				one := run{Workflow: w.name, Policy: p, Repetition: k}
				ok, err := x.parts.Read(one.name(), &one)
				if err != nil {
					return nil, err
				}
				if !ok {
					break
				}
				r.runs = append(r.runs, one)
			}
			if len(r.runs) > 0 {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// runsOf are the runs of all rows.
func runsOf(rows []row) (all []run) {
	for i := range rows {
		all = append(all, rows[i].runs...)
	}
	return all
}

// byWorkflow divides rows by workflow.
func byWorkflow(rows []row) (out [][]row) {
	for i := range rows {
		if i == 0 || rows[i].name != rows[i-1].name {
			out = append(out, nil)
		}
		last := len(out) - 1
		out[last] = append(out[last], rows[i])
	}
	return out
}

// ranking compares the order of policies as predicted with that of reality, over all pairs of policies of a workflow
// that differ in reality by more than their repetitions do. It returns pairs in the same order, and in the other one
// with their names.
func ranking(rows []row) (same, ties int, wrong []string) {
	for _, of := range byWorkflow(rows) {
		for i := range of {
			for j := i + 1; j < len(of); j++ {
				a, b := &of[i], &of[j]
				d := a.actual() - b.actual()
				switch {
				case math.Abs(d) <= noise(a, b):
					ties++
				case (a.predicted()-b.predicted())*d > 0:
					same++
				default:
					wrong = append(wrong, fmt.Sprintf("%s and %s (%.2f and %.2f s predicted, %.2f and %.2f s taken)",
						a.title(), b.policy, a.predicted(), b.predicted(), a.actual(), b.actual()))
				}
			}
		}
	}
	return same, ties, wrong
}

// write writes the page.
func (x *harness) write() error {
	text, err := x.text()
	if err == nil {
		err = os.WriteFile(page, []byte(text), 0o644)
	}
	if err == nil {
		fmt.Fprintf(os.Stderr, "fidelity: wrote %s\n", page)
	}
	return err
}

func (x *harness) text() (string, error) {
	rows, err := x.rows()
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("nothing was measured yet in %s", x.dir)
	}
	var b strings.Builder
	if err := x.head(&b, rows); err != nil {
		return "", err
	}
	verdicts(&b, rows)
	table(&b, rows)
	causes(&b, rows)
	order(&b, rows)
	replays(&b, rows)
	return b.String(), nil
}

func (x *harness) head(b *strings.Builder, rows []row) error {
	var c calibration
	if _, err := x.parts.Read("calibration", &c); err != nil {
		return err
	}
	times, took := 1, c.Took
	for ; ; times++ {
		var more calibration
		if ok, err := x.parts.Read(fmt.Sprint("calibration-", times), &more); err != nil {
			return err
		} else if !ok {
			break
		}
		took += more.Took
	}
	runs := runsOf(rows)
	busy := measure.Each(runs, func(r run) float64 { return r.Busy })
	above := 0
	for _, cores := range busy {
		if cores > 0.3 {
			above++
		}
	}
	byTime := func(a, b run) int { return a.At.Compare(b.At) }
	fmt.Fprintf(b, `# One planner, two worlds: predicted and actual

This page is generated by `+"`make fidelity`"+`. It predicts each run before it begins, from a calibration of the host
(`+"`gantry calibrate`"+`) that saw none of these workflows, then runs it in containers. The host is calibrated
before each repetition of all runs. Real programs are predicted from one earlier run, once another one
has read them from the disk. The cluster is
[nodes.yaml](nodes.yaml): a node of one core and one of half a core.
[docs/predictions.md](../../docs/predictions.md) says how predictions are made.

Measured on %s to %s (UTC): %d runs, %s, gantry %s, calibrated %d times in %.0f s. How quiet the host was: before a run,
all its programs kept %.2f cores busy in the median, %.2f at most (%d of %d times more than 0.3).

`, slices.MinFunc(runs, byTime).At.Format("2006-01-02 15:04"), slices.MaxFunc(runs, byTime).At.Format("15:04"),
		len(runs), c.Host, strings.TrimPrefix(c.Version, "gantry "), times, took, median(busy), slices.Max(busy), above,
		len(busy))
	return nil
}

// bars holds measurements against bars, and collects the reasons for those that are missed.
type bars struct {
	b       *strings.Builder
	reasons []string
}

func (v *bars) line(bar, measured string, met bool, why string) {
	verdict := "met"
	if !met {
		verdict = "**missed**"
		v.reasons = append(v.reasons, why)
	}
	measure.Row(v.b, bar, measured, verdict)
}

// verdicts holds the measurements against the bars, and explains missed bars by the measurements.
func verdicts(b *strings.Builder, rows []row) {
	errs := metrics.Summarise(measure.Each(rows, func(r row) float64 { return math.Abs(r.err()) }))
	taus := metrics.Summarise(measure.Each(rows, func(r row) float64 { return r.tau() }))
	runs := runsOf(rows)
	inside, longer := 0, 0
	var beyond, disordered []string
	var replayed []float64
	for i := range rows {
		r := &rows[i]
		in, over := r.inside()
		inside, longer = inside+in, longer+over
		if r.beyond() {
			beyond = append(beyond, why(r))
		}
		if r.tau() < 0.95 {
			disordered = append(disordered, r.title())
			replayed = append(replayed, replayTaus(r.runs)...)
		}
	}
	v := &bars{b: b}
	b.WriteString("| bar | measured | |\n| --- | --- | --- |\n")
	v.line("median error of the makespan at most 2 %", fmt.Sprintf("%.1f %%", 100*errs.Median), errs.Median <= 0.02,
		medianText(rows))
	v.line("worst error 8 %, or twice the spread of three repetitions where that is more",
		fmt.Sprintf("%.1f %%, %d of %d beyond", 100*errs.Max, len(beyond), len(rows)), len(beyond) == 0,
		"The rows beyond their limits, each with the two causes that most of the difference is put down to:\n\n"+
			strings.Join(beyond, "\n"))
	disorder := "Starts in another order: " + strings.Join(disordered, ", ") + "."
	if len(replayed) > 0 {
		disorder += fmt.Sprintf(" Simulated with the durations that these runs measured, tau is at least %.3f: with "+
			"1, all that differs is how long tasks take, not what the policy does then.", slices.Min(replayed))
	}
	v.line("order of starts: Kendall's tau at least 0.95", fmt.Sprintf("median %.3f, least %.3f, %d of %d below",
		taus.Median, taus.Min, len(disordered), len(rows)), len(disordered) == 0, disorder)
	coverage := float64(inside) / float64(len(runs))
	wide := median(measure.Each(runs, func(x run) float64 { return (x.High - x.Low) / 2 / x.Predicted }))
	off := measure.Each(runs, func(x run) float64 { return math.Abs(x.Actual/x.Predicted - 1) })
	slices.Sort(off)
	v.line("intervals of 80 % cover 70 to 90 % of runs", fmt.Sprintf("%.1f %% (%d of %d)", 100*coverage, inside,
		len(runs)), coverage >= 0.7 && coverage <= 0.9, fmt.Sprintf("Of the runs outside their intervals, %d took "+
		"longer and %d less. Intervals reach %.1f %% to either side in the median, and the errors of 80 %% of the "+
		"runs %.1f %%.", longer, len(runs)-inside-longer, 100*wide, 100*off[len(off)*4/5]))
	same, ties, wrong := ranking(rows)
	tau := float64(same-len(wrong)) / float64(same+len(wrong))
	v.line("policies ranked as in reality: tau at least 0.8", fmt.Sprintf("%.2f (%d pairs alike, %d not; %d differ "+
		"less than their repetitions do)", tau, same, len(wrong), ties), tau >= 0.8,
		"Pairs in the other order: "+strings.Join(wrong, "; ")+".")
	b.WriteString("\n")
	if len(v.reasons) > 0 {
		b.WriteString("What the measurements show of the bars that are missed:\n\n" + strings.Join(v.reasons, "\n\n") +
			"\n\n")
	}
}

// medianText says how the median error is composed, and how far apart runs are that were predicted alike.
func medianText(rows []row) string {
	var alone []float64
	short := 0
	for i := range rows {
		if len(rows[i].runs) > 1 {
			alone = append(alone, rows[i].spread())
		}
		if rows[i].err() < 0 {
			short++
		}
	}
	actual := median(measure.Each(rows, func(r row) float64 { return r.actual() }))
	parts := measure.Each(meanCauses(rows), func(c cause) string {
		return fmt.Sprintf("%s %+.1f %%", c.Cause, 100*c.Seconds/actual)
	})
	text := fmt.Sprintf("Of %d rows, %d were predicted too short. The mean difference from the simulation without "+
		"noise, by cause and in percent of the median makespan: %s.", len(rows), short, strings.Join(parts, ", "))
	if len(alone) > 0 {
		text += fmt.Sprintf(" Repetitions of one row, predicted alike, are %.1f %% apart in the median.",
			100*median(alone))
	}
	return text
}

// why says of a row beyond its limit which causes it errs by most.
func why(r *row) string {
	all := meanCauses([]row{*r})
	slices.SortStableFunc(all, func(a, c cause) int { return cmp.Compare(math.Abs(c.Seconds), math.Abs(a.Seconds)) })
	most := measure.Each(all[:min(2, len(all))], func(c cause) string {
		return fmt.Sprintf(" %s (%+.2f s)", c.Cause, c.Seconds)
	})
	return fmt.Sprintf("- %s is %+.1f %% off (%.2f s predicted, %.2f s taken): most of it is%s.", r.title(),
		100*r.err(), r.predicted(), r.actual(), strings.Join(most, ", then"))
}

func table(b *strings.Builder, rows []row) {
	b.WriteString("## Makespan\n\nSeconds. *Actual* is the median of the repetitions, *spread* the distance between " +
		"the longest and the shortest over it, *inside* how many repetitions were in the interval of 80 %. " +
		"*Starts* is Kendall's tau of the order of starts against the simulation without noise.\n\n")
	measure.Head(b, "---", "workflow", "tasks", "policy", "predicted", "interval of 80 %", "actual", "error", "spread",
		"inside", "starts")
	for _, of := range byWorkflow(rows) {
		name := fmt.Sprintf("%s: %s", of[0].name, of[0].what)
		for i := range of {
			r := &of[i]
			inside, _ := r.inside()
			mark := ""
			if r.beyond() {
				mark = " (!)"
			}
			fmt.Fprintf(b, "| %s | %d | %s | %.2f | %.2f to %.2f | %.2f | %+.1f %%%s | %.1f %% | %d of %d | %.3f |\n",
				name, r.runs[0].Tasks, r.policy, r.predicted(), r.runs[0].Low, r.runs[0].High, r.actual(), 100*r.err(),
				mark, 100*r.spread(), inside, len(r.runs), r.tau())
			name = ""
		}
	}
	b.WriteString("\n")
}

// meanCauses is the mean of each cause over the runs of rows, in the order in which causes appear.
func meanCauses(rows []row) (out []cause) {
	runs := runsOf(rows)
	for _, x := range runs {
		for _, c := range x.Causes {
			k := slices.IndexFunc(out, func(o cause) bool { return o.Cause == c.Cause })
			if k < 0 {
				k = len(out)
				out = append(out, cause{Cause: c.Cause})
			}
			out[k].Seconds += c.Seconds / float64(len(runs))
		}
	}
	return out
}

func causes(b *strings.Builder, rows []row) {
	all := meanCauses(rows)
	if len(all) == 0 {
		return
	}
	b.WriteString("## Error by cause\n\n`gantry compare RUN SIM` of each run and its simulation without noise, in " +
		"percent of the actual makespan, means over policies and repetitions: positive, reality took " +
		"longer.\n\n")
	names := measure.Each(all, func(c cause) string { return c.Cause })
	measure.Head(b, "---", slices.Concat([]string{"workflow"}, names, []string{"in all"})...)
	for _, of := range byWorkflow(rows) {
		actual := metrics.Summarise(measure.Each(of, func(r row) float64 { return r.actual() })).Mean
		cells := slices.Repeat([]string{"+0.0"}, len(names)+1)
		sum := 0.0
		for _, c := range meanCauses(of) {
			sum += c.Seconds
			cells[slices.Index(names, c.Cause)] = fmt.Sprintf("%+.1f", 100*c.Seconds/actual)
		}
		cells[len(names)] = fmt.Sprintf("%+.1f", 100*sum/actual)
		measure.Row(b, append([]string{of[0].name}, cells...)...)
	}
	b.WriteString("\n")
}

func order(b *strings.Builder, rows []row) {
	b.WriteString("## Order of policies\n\nThe shortest makespan first; `=` joins policies whose makespans differ by " +
		"less than their repetitions do.\n\n")
	measure.Head(b, "---", "workflow", "predicted", "actual")
	for _, of := range byWorkflow(rows) {
		ranked := func(by func(r row) float64) string {
			s := slices.Clone(of)
			slices.SortStableFunc(s, func(a, c row) int { return cmp.Compare(by(a), by(c)) })
			text := s[0].policy
			for k := 1; k < len(s); k++ {
				sign := " < "
				if by(s[k])-by(s[k-1]) <= noise(&s[k], &s[k-1]) {
					sign = " = "
				}
				text += sign + s[k].policy
			}
			return text
		}
		measure.Row(b, of[0].name, ranked(func(r row) float64 { return r.predicted() }),
			ranked(func(r row) float64 { return r.actual() }))
	}
	b.WriteString("\n")
}

// replayTaus says how close the order of starts is to that of the runs in simulations with the measured durations.
func replayTaus(runs []run) (taus []float64) {
	for _, r := range runs {
		if r.Replay != nil {
			taus = append(taus, r.Replay.Tau)
		}
	}
	return taus
}

// replays gives the errors that remain when durations are known.
func replays(b *strings.Builder, rows []row) {
	runs := slices.DeleteFunc(runsOf(rows), func(r run) bool { return r.Replay == nil })
	if len(runs) == 0 {
		return
	}
	errs := metrics.Summarise(measure.Each(runs, func(r run) float64 { return math.Abs(r.Replay.Error) }))
	taus := metrics.Summarise(replayTaus(runs))
	fmt.Fprintf(b, `## The scheduling logic alone

`+"`gantry simulate --replay RUN`"+` simulates a run with the durations that were measured in it, so that only
decisions can differ. Each of %d runs above was replayed: the makespan was off by %.2f %% in the median and by %.2f %%
at most, and Kendall's tau of the order of starts was %.3f in the median and %.3f at least.
`, len(runs), 100*errs.Median, 100*errs.Max, taus.Median, taus.Min)
}
