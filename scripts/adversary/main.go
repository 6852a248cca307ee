// Command adversary searches for the worst instances of all pairs of policies, runs those in containers on which one
// policy is much worse, and makes the page examples/adversary. It keeps what it has: interrupted, or stopped by -for,
// it continues with the same command.
//
//	adversary [-results DIR] [-page FILE] [-instances DIR] [-for DURATION] [-confirm] [-runtime NAME]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gantry/executor/experiment/adversary"
	"gantry/scripts/measure"
	"gantry/sqlite"
)

// much is the ratio from which an instance is kept beside the page, and runs in containers.
const much = 1.5

// group are policies that are compared with one another.
type group struct {
	name, title, metric string
	policies            []string
	options             []string
}

var groups = []group{
	{"one", "One workflow: makespan", "makespan", []string{"gbf", "cpp", "owm", "hr", "heft", "wheft", "dla", "owm-mp",
		"mows"}, nil},
	{"many", "Three workflows: mean slowdown", "slowdown", []string{"gbf", "cpp", "owm", "fdws", "hr", "fwp", "wheft",
		"heft"}, []string{"--workflows=3", "--tasks=6"}},
	{"deadlines", "Four workflows with deadlines: lateness", "lateness", []string{"fifo", "edf", "rm-dcwf", "mrcp-rm"},
		[]string{"--workflows=4", "--tasks=5"}},
	{"tenants", "Four workflows of two tenants: mean slowdown", "slowdown", []string{"capacity", "drf", "dla", "pds",
		"3dsf"}, []string{"--workflows=4", "--tasks=5", "--tenants=2"}},
}

// pair is the worst instance of a policy against another, in the group's metric.
type pair struct {
	A     float64 `json:"a"`
	B     float64 `json:"b"`
	Tasks int     `json:"tasks"`
	file  string
}

func (p *pair) ratio() float64 { return p.A / max(p.B, 1e-9) }

// confirmed are the same metrics in containers, and as the model of the host predicts them.
type confirmed struct{ A, B, PredictedA, PredictedB float64 }

type search struct {
	ctx                             context.Context
	parts                           measure.Parts
	dir, instances, runtime         string
	chains, steps                   string
	asked, sought, large, ran, held int
	why                             strings.Builder
}

func main() {
	s := &search{}
	flag.StringVar(&s.dir, "results", "gantry-runs/adversary", "what is kept")
	flag.StringVar(&s.instances, "instances", "examples/adversary", "directory of the instances with a large ratio")
	flag.StringVar(&s.runtime, "runtime", "oci", "that runs instances with -confirm")
	flag.StringVar(&s.chains, "chains", "4", "of each search")
	flag.StringVar(&s.steps, "steps", "1000", "of each chain")
	page := flag.String("page", "examples/adversary/README.md", "the page")
	limit := flag.Duration("for", 0, "stop after this time; 0: when all is done")
	confirm := flag.Bool("confirm", false, "run instances in containers")
	measure.Main("adversary", func(ctx context.Context) error {
		s.ctx, s.parts.Dir = ctx, s.dir
		if *limit > 0 {
			s.parts.Until = time.Now().Add(*limit)
		}
		var text strings.Builder
		var more error
		for i := range groups {
			if err := s.table(&text, &groups[i], *confirm); errors.Is(err, measure.ErrMore) {
				more = err
			} else if err != nil {
				return err
			}
		}
		return errors.Join(more, s.write(*page, text.String()))
	})
}

// table makes the table of a group. The worst instance of each row lies beside the page, and runs in containers.
func (s *search) table(w *strings.Builder, g *group, confirm bool) (more error) {
	fmt.Fprintf(w, "## %s\n\n", g.title)
	measure.Head(w, "---", append([]string{""}, g.policies...)...)
	for _, a := range g.policies {
		cells, worst, at := []string{"**" + a + "**"}, pair{}, 0
		for i, b := range g.policies {
			p := pair{file: fmt.Sprintf("%s-%s-%s", g.name, a, b)}
			if a == b {
				cells = append(cells, "")
				continue
			}
			s.asked++
			err := s.parts.Once(s.ctx, p.file, func() (any, error) { return s.find(g, a, b, &p) })
			found, err2 := s.parts.Read(p.file, &p)
			if err != nil && !errors.Is(err, measure.ErrMore) || err2 != nil {
				return errors.Join(err, err2)
			} else if !found {
				cells, more = append(cells, "-"), err
				continue
			}
			s.sought++
			cells = append(cells, fmt.Sprintf("%.3g", p.ratio()))
			if p.ratio() > worst.ratio() {
				worst, at = p, i
			}
		}
		if worst.ratio() >= much {
			text, err := s.show(g, a, g.policies[at], &worst, confirm)
			if err != nil && !errors.Is(err, measure.ErrMore) {
				return err
			}
			cells[at+1], more = text, errors.Join(more, err)
		}
		measure.Row(w, cells...)
	}
	w.WriteString("\n")
	return more
}

// show puts an instance beside the page, and has it run in containers.
func (s *search) show(g *group, a, b string, p *pair, confirm bool) (text string, more error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "instances", p.file, "*[nl]")) // .json and .yaml
	for _, file := range files {
		if err == nil && filepath.Ext(file) != ".jsonl" {
			var text []byte
			if text, err = os.ReadFile(file); err == nil {
				err = os.WriteFile(filepath.Join(s.instances, filepath.Base(file)), text, 0o644)
			}
		}
	}
	if err != nil {
		return "", err
	}
	name := p.file + ".json"
	if g.options != nil {
		name = p.file + ".yaml"
	}
	s.large++
	if err := s.explain(a, b, name); err != nil {
		return "", err
	}
	text = fmt.Sprintf("[%.3g](%s)", p.ratio(), name)
	if confirm {
		more = s.parts.Once(s.ctx, p.file+"-run", func() (any, error) { return s.run(g, a, b, name) })
	}
	var c confirmed
	ran, err := s.parts.Read(p.file+"-run", &c)
	if ran {
		s.ran++
		real := c.A / c.B
		if predicted := c.PredictedA / c.PredictedB; real >= 0.9*predicted && real <= 1.1*predicted {
			s.held++
		}
		text += fmt.Sprintf(" (%.3g, %.3g)", c.PredictedA/c.PredictedB, real)
	}
	return text, errors.Join(more, err)
}

// find searches for the worst instance of a pair, and keeps its files if the ratio is large.
func (s *search) find(g *group, a, b string, p *pair) (any, error) {
	prefix := filepath.Join(s.dir, "instances", p.file, p.file)
	if err := os.MkdirAll(filepath.Dir(prefix), 0o755); err != nil {
		return nil, err
	}
	args := append([]string{"adversary", "--metric", g.metric, "--chains", s.chains, "--steps", s.steps, "--cores", "2",
		"-o", prefix}, g.options...)
	if _, err := measure.Built.Run(s.ctx, append(args, a, b)...); err != nil {
		return nil, err
	}
	worst, err := worst(prefix + ".jsonl")
	if err != nil {
		return nil, err
	}
	p.A, p.B = worst.A, worst.B
	for _, f := range worst.Instance.Flows {
		p.Tasks += len(f.Tasks)
	}
	return p, nil
}

// worst reads the record of a search.
func worst(path string) (*adversary.Found, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all adversary.Record
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		f := &adversary.Found{}
		if err := json.Unmarshal([]byte(line), f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all.Found = append(all.Found, f)
	}
	return all.Worst(1 << 30), nil
}

// run runs an instance under both policies, and simulates it as this host runs containers.
func (s *search) run(g *group, a, b, name string) (any, error) {
	var c confirmed
	for _, of := range []struct {
		policy string
		to     *float64
		args   []string
	}{
		{a, &c.A, []string{"run", "--runtime", s.runtime, "--estimator", "declared"}},
		{b, &c.B, []string{"run", "--runtime", s.runtime, "--estimator", "declared"}},
		{a, &c.PredictedA, []string{"simulate", "--host-model", "this"}},
		{b, &c.PredictedB, []string{"simulate", "--host-model", "this"}},
	} {
		var out struct {
			Makespan  float64            `json:"makespan_s"`
			Metrics   map[string]float64 `json:"metrics"`
			Deadlines []struct {
				Name  string
				Due   float64 `json:"due_s"`
				Ended float64 `json:"ended_s"`
			} `json:"deadlines"`
			Workflows []struct {
				Name     string
				Response float64 `json:"response_s"`
			} `json:"workflow_summaries"`
		}
		stem := strings.TrimSuffix(filepath.Join(s.instances, name), filepath.Ext(name))
		args := append(of.args, "--json", "--policy", of.policy, "--dir", filepath.Join(s.dir, "runs"), "--cluster",
			stem+".cluster.yaml", filepath.Join(s.instances, name))
		if err := measure.Built.JSON(s.ctx, &out, args...); err != nil {
			return nil, err
		}
		switch g.metric {
		case "makespan":
			*of.to = out.Makespan
		case "slowdown":
			*of.to = out.Metrics["slowdown_mean"]
		default:
			for _, d := range out.Deadlines {
				for _, w := range out.Workflows {
					if w.Name == d.Name { // arrived when it ended less its response
						*of.to += (1 + max(0, d.Ended-d.Due)/(d.Due-d.Ended+w.Response)) / float64(len(out.Deadlines))
					}
				}
			}
		}
	}
	return &c, nil
}

// spent is where the time of a task goes, in seconds.
type spent struct {
	Flow, Task, Node       string
	Speed, Wait, Copy, Run float64
}

// explain simulates an instance under both policies, and says for which task they differ most.
func (s *search) explain(a, b, name string) error {
	stem := filepath.Join(s.instances, strings.TrimSuffix(name, filepath.Ext(name)))
	var under [2]map[string]spent
	dir := filepath.Join(s.dir, "runs")
	for i, policy := range []string{a, b} {
		var out struct{ Run string }
		if err := measure.Built.JSON(s.ctx, &out, "simulate", "--json", "--host-model", "none", "--policy", policy,
			"--dir", dir, "--cluster", stem+".cluster.yaml", filepath.Join(s.instances, name)); err != nil {
			return err
		}
		log, err := sqlite.Open(filepath.Join(dir, sqlite.FileName), sqlite.ReadOnly)
		if err != nil {
			return err
		}
		defer log.Close()
		tasks, err := sqlite.RowsOf[spent](s.ctx, log, "SELECT t.workflow, t.task, t.node, (SELECT n.speed FROM "+
			"nodes n JOIN runs r ON r.id = n.run WHERE r.name = t.run AND n.name = t.node), t.wait_s, "+
			"(a.started_ns - a.queued_ns) / 1e9, a.ran_ns / 1e9 FROM v_tasks t JOIN v_attempts a ON a.run = t.run "+
			"AND a.workflow = t.workflow AND a.task = t.task AND a.outcome = 'ok' WHERE t.run = ?", out.Run)
		if err != nil {
			return err
		}
		under[i] = map[string]spent{}
		for _, t := range tasks {
			under[i][t.Flow+" "+t.Task] = t
		}
	}
	stem = filepath.Base(stem)
	fmt.Fprintf(&s.why, "- [%s](%s): %s\n", stem, name, differ(stem, a, b, under))
	return nil
}

// differ says for which task two schedules differ most. A wait follows from what others do, so it has to be twice as
// long as any copy or run.
func differ(stem, a, b string, under [2]map[string]spent) (why string) {
	most := 0.0
	for _, key := range slices.Sorted(maps.Keys(under[0])) {
		x, y := under[0][key], under[1][key]
		task := x.Task
		if _, number, several := strings.Cut(x.Flow, stem+"-"); several {
			task += " of workflow " + number
		}
		for _, d := range []struct {
			by   float64
			text string
		}{
			{x.Run - y.Run, fmt.Sprintf("%s runs %s on a node of speed %.2g for %.3g s, %s on one of speed %.2g for "+
				"%.3g s.", a, task, x.Speed, x.Run, b, y.Speed, y.Run)},
			{x.Copy - y.Copy, fmt.Sprintf("%s copies the inputs of %s to another node for %.3g s, %s for %.3g s.", a,
				task, x.Copy, b, y.Copy)},
			{(x.Wait - y.Wait) / 2, fmt.Sprintf("%s waits %.3g s for a node under %s, %.3g s under %s.", task, x.Wait,
				a, y.Wait, b)},
		} {
			if d.by > most {
				most, why = d.by, d.text
			}
		}
	}
	return why
}

func (s *search) write(page, tables string) error {
	text, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, _, _ := strings.Cut(string(text), "## ")
	note := fmt.Sprintf("Row over column: how many times the metric of the column's policy the row's policy has. "+
		"%d of %d pairs are searched. %d rows have a ratio of %g or more somewhere; the instance of the "+
		"largest lies here. In brackets are the ratios that the model of the host predicts, and those in containers: "+
		"%d ran there, and %d have the predicted ratio within 10 %%.\n\n",
		s.sought, s.asked, s.large, much, s.ran, s.held)
	tables += "## What makes them hard\n\nOf each instance the largest difference between the two schedules.\n\n"
	return os.WriteFile(page, []byte(before+"## Results\n\n"+note+tables+strings.TrimSpace(s.why.String())+"\n"), 0o644)
}
