package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"gantry/trace/reader"
)

// readBenchmark reads a benchmark file of Snakemake: measurements of one job, a repetition a line. What it measured is
// of a rule that only newer versions name; else the path does.
func (b *builder) readBenchmark() {
	b.wf.OpaqueNames, b.line = true, 1
	t := reader.NewTable(b.in, '\t', &b.faults)
	if !t.Next() || !t.Header("s") {
		return
	}
	columns, rule := len(t.Fields), ruleOf(b.wf.Source)
	text := func(name string) string {
		if f := string(t.Field(name)); f != "-" && f != "NA" {
			return f
		}
		return ""
	}
	for n := 1; t.Next() && !b.full(t.Line); n++ {
		if !t.Whole(columns, b.opt.Repair) {
			continue
		}
		x := b.task(fmt.Sprintf("%s-%d", rule, n), t.Line)
		if x == nil {
			return
		}
		x.Name, x.Kind = x.ID, rule
		if name := text("rule_name"); name != "" {
			x.Kind = b.same(name)
		}
		if s := text("s"); s != "" {
			b.runtime(x, s, t.Line)
		}
		if s := text("threads"); s != "" {
			b.cores(x, s, t.Line)
		}
		if s := text("mean_load"); s != "" {
			if x.AvgCPU = b.positive(x, "mean_load", s, 100*reader.MaxCores, t.Line); x.AvgCPU > 0 {
				x.Known |= AvgCPU
			}
		}
		if s := text("max_rss"); s != "" {
			b.memory(x, s, 1<<20, t.Line)
		}
		for i, name := range []string{"io_in", "io_out"} {
			if s := text(name); s != "" {
				n, err := reader.Count(s, 1<<20)
				b.measured(x, ReadBytes<<i, name, s, n, err, t.Line)
			}
		}
	}
}

// ruleOf is the rule that a benchmark file is of: its directory, unless that is for all benchmarks, or the beginning
// of its name.
func ruleOf(source string) string {
	if dir := path.Base(path.Dir(filepath.ToSlash(source))); !strings.HasPrefix(dir, "benchmark") && dir != "." &&
		dir != "/" && strings.Contains(filepath.ToSlash(source), "benchmark") {
		return dir
	}
	name, _, _ := strings.Cut(path.Base(filepath.ToSlash(source)), ".")
	if name == "" || name == "-" {
		return "job"
	}
	return name
}

// metadataDir is where Snakemake keeps what it knows of outputs, below the directory that it works in.
const metadataDir = ".snakemake/metadata/"

// readMetadata reads what Snakemake keeps about one output: the rule, how long its job ran, and its inputs, whose sizes
// are those of files that are still there.
func (b *builder) readMetadata() {
	b.wf.OpaqueNames, b.line = true, 1
	data, err := b.in.All()
	if err != nil {
		b.faults.Damage(err, 1)
		return
	}
	var m struct {
		Rule       string
		Input      []string
		Start      *float64 `json:"starttime"`
		End        *float64 `json:"endtime"`
		Incomplete bool
	}
	if err := json.Unmarshal(data, &m); err != nil {
		b.faults.Fail("syntax", 1, "", "not metadata of Snakemake: %v", err)
		return
	}
	t := b.task(path.Base(filepath.ToSlash(b.wf.Source)), 1)
	if t == nil || m.Incomplete {
		return
	}
	t.Name, t.Kind = t.ID, cmp.Or(m.Rule, "job")
	if m.Start != nil && m.End != nil {
		b.runtime(t, strconv.FormatFloat(*m.End-*m.Start, 'f', -1, 64), 1)
	}
	root, _, ok := strings.Cut(filepath.ToSlash(b.wf.Source), metadataDir)
	for _, name := range m.Input {
		f := b.reads(b.file(name))
		if info, err := os.Stat(filepath.Join(root, name)); ok && b.opt.near && err == nil && !info.IsDir() {
			b.bytes(f, info.Size(), false, 1)
		}
	}
}
