package trace

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"gantry/trace/reader"
)

// profile is one piece of Pegasus' advice to a task.
type profile struct {
	namespace, key, value string
	line                  int // in the workflow's own file; 0: elsewhere
	rank                  int // of its source; set where sources meet
}

type profiles []profile

// add adds a profile, if there may be that many: tasks inherit those of their transformation.
func (p *profiles) add(b *builder, one profile) {
	if len(*p) >= reader.MaxAttrs {
		b.faults.Fail("bound", one.line, "", "more than %d profiles", reader.MaxAttrs)
		return
	}
	*p = append(*p, one)
}

// The sources of profiles, the weakest first ("Profiles Conflict Resolution" in the Pegasus manual, chapter
// Configuration). A transformation's site counts above the transformation.
const (
	rankProperties = iota
	rankWorkflow
	rankContainer
	rankJob
	rankSite
	rankTransformation
)

// ranked appends profiles as they come from a source.
func ranked(to, given profiles, rank int) profiles {
	for _, p := range given {
		p.rank = rank
		to = append(to, p)
	}
	return to
}

// value is that of a key, "" if there is none.
func (p profiles) value(namespace, key string) string {
	for i := range p {
		if p[i].namespace == namespace && p[i].key == key {
			return p[i].value
		}
	}
	return ""
}

// pegasusKeys are the keys of pegasus that applyProfiles honours.
var pegasusKeys = []string{"runtime", "job.runtime", "cores", "memory", "pmc_request_cpus", "pmc_request_memory",
	"maxwalltime", "container.image"}

// applyProfiles takes the resources that profiles give. The keys of an environment (condor, globus) beat those of
// pegasus, as the Pegasus manual has it, and the attributes that simulators write beat both; of equal keys the
// strongest source counts. Memory is in MB, by which HTCondor and Pegasus mean 2^20 bytes, and in bytes in the
// attribute.
func (b *builder) applyProfiles(t *Task, given profiles) {
	slices.SortStableFunc(given, func(x, y profile) int {
		return cmp.Or(cmp.Compare(x.weight(), y.weight()), cmp.Compare(x.rank, y.rank))
	})
	var env []string
	for _, p := range given {
		switch p.namespace + ":" + p.key {
		case "attribute:runtime", "pegasus:runtime", "pegasus:job.runtime":
			b.runtime(t, p.value, p.line)
		case "attribute:cores", "pegasus:cores":
			b.cores(t, p.value, p.line)
		case "condor:request_cpus", "globus:count", "pegasus:pmc_request_cpus":
			if isNumber(p.value) {
				b.cores(t, p.value, p.line)
			} else {
				b.expression(t, p)
			}
		case "attribute:memory":
			b.memory(t, p.value, 1, p.line)
		case "pegasus:memory", "globus:maxmemory", "pegasus:pmc_request_memory", "condor:request_memory":
			n, err := reader.BinaryBytes(p.value, 1<<20)
			if isNumber(p.value) || err == nil || p.namespace == "pegasus" {
				b.measured(t, Memory, "memory", p.value, n, err, p.line)
			} else {
				b.expression(t, p)
			}
		case "globus:maxwalltime", "pegasus:maxwalltime":
			before := t.TimeLimit
			if !isNumber(p.value) {
				b.expression(t, p)
			} else if b.limit(t, p.key, p.value, time.Minute, p.line); b.opt.EnforceWalltime {
				b.wf.Walltimes = true
			} else {
				t.TimeLimit = before
				b.noEffect(p.namespace + "." + p.key + " (--enforce-walltime)")
			}
		case "dagman:RETRY", "dagman:retry":
			if n := b.whole(t, "retries", p.value, reader.MaxRetries, p.line); n > 0 || isNumber(p.value) {
				t.Retries = int(n)
			}
		case "gantry:phase":
			t.Phase = int32(b.whole(t, "phase", p.value, maxPhase, p.line))
		case "gantry:disk":
			t.DiskBps = int64(b.positive(t, "disk", p.value, maxRate, p.line))
		case "condor:concurrency_limits":
			b.tokens(t, p.key, p.value, p.line)
		case "gantry:network":
			b.network(t, p.namespace+"."+p.key, p.value, p.line)
		case "gantry:time-limit":
			b.limit(t, p.key, p.value, time.Second, p.line)
		case "pegasus:container.image":
			b.image(t, p.value)
		case "selector:execution.site", "hints:execution.site", "hints:executionpool": // of program
		default:
			what, has := p.demand()
			switch {
			case what == gpuDemand && (strings.EqualFold(p.key, "gpus") || strings.EqualFold(p.key, "request_gpus")):
				b.gpus(t, t.ID, "profile "+p.namespace+"."+p.key, p.value, p.line)
			case what != "":
				b.ungiven(p.line, t.ID, what, "profile "+p.namespace+"."+p.key, p.value, has)
			case p.namespace == "env" && p.key != "":
				env = append(env, b.same(p.key+"="+p.value))
			default:
				b.noEffect(p.namespace + "." + p.key)
			}
		}
	}
	if len(env) == 0 {
		return
	}
	// The last of equal names wins; then sorted.
	name := func(s string) string { return s[:strings.IndexByte(s, '=')] }
	slices.Reverse(env)
	seen := map[string]bool{}
	env = slices.DeleteFunc(env, func(s string) bool { n := name(s); was := seen[n]; seen[n] = true; return was })
	slices.Sort(env)
	b.keep(24 * cap(env))
	t.Env = env
}

// maxRate keeps sums of rates in range.
const maxRate = 1_000_000_000_000_000

// maxPhase keeps sums of phases and laxities in range.
const maxPhase = 1_000_000

func (p profile) weight() int {
	switch {
	case p.namespace == "attribute":
		return 50
	case p.namespace == "condor" || p.namespace == "globus":
		return 20
	case p.namespace == "pegasus" && !strings.HasPrefix(p.key, "pmc_"):
		return 10
	}
	return 0
}

// gpuDemand is the demand for GPUs of a kind.
const gpuDemand = "GPUs"

// demand is a kind of thing that a profile asks for, and how many of them one host has at most; "" for a profile that
// asks for none.
func (p profile) demand() (what string, has float64) {
	key, value := strings.ToLower(p.key), strings.ToLower(p.value)
	listed := strings.HasSuffix(key, "requirements") || strings.HasSuffix(key, "arguments") ||
		strings.HasSuffix(key, "args")
	switch {
	case !slices.Contains([]string{"pegasus", "condor", "globus"}, p.namespace):
	case strings.Contains(key, "gpu"), listed && (strings.Contains(value, "gpu") || strings.Contains(value, "cuda")):
		return gpuDemand, 0
	case key == "nodes", key == "hostcount", key == "host_count", key == "machine_count", key == "node_count":
		return "several hosts", 1
	case key == "universe" && slices.Contains([]string{"parallel", "mpi", "vm"}, value),
		key == "jobtype" && value == "mpi":
		return "several hosts or a virtual machine", 0
	case key == "container.arguments":
		return "options of containers", 0
	}
	return "", 0
}

// GPUs are x of them in thousandths, as tasks ask for them: whole ones, or a part of one. It returns false for others.
func GPUs(x float64) (int32, bool) {
	n := math.Round(1000 * x)
	if x >= 0 && x <= reader.MaxCores && x == math.Trunc(x) || n > 0 && n < 1000 {
		return int32(n), true
	}
	return 0, false
}

// gpus reads how many GPUs a task asks for. It refuses a value that is neither whole nor a part of one by name, with
// the task if there is one.
func (b *builder) gpus(t *Task, task, by, value string, line int) {
	x, err := reader.Number(value)
	n, ok := GPUs(x)
	switch {
	case strings.TrimSpace(value) == "":
	case err != nil || !ok && x != math.Trunc(x):
		b.obstacle(line, task, "%s %q is no number of GPUs: gantry gives out whole ones, or a part of one such as "+
			"0.5, and knows no kinds", by, value)
	default:
		b.positive(t, by, value, reader.MaxCores, line)
		t.GPUs = n
	}
}

// mostTokens is the most of one resource that a task may hold.
const mostTokens = 1<<16 - 1

// tokens reads the resources of a user's own that a task holds: NAME or NAME:COUNT, with commas.
func (b *builder) tokens(t *Task, by, value string, line int) {
	t.Tokens = b.same(strings.ReplaceAll(value, " ", ""))
	for part := range strings.SplitSeq(t.Tokens, ",") {
		if _, count, counted := strings.Cut(part, ":"); counted {
			b.positive(t, by, count, mostTokens, line)
		}
	}
}

// network reads whether a task asks for connections to other hosts.
func (b *builder) network(t *Task, by, value string, line int) {
	if t.Network = value == "outbound"; !t.Network && value != "none" {
		b.faults.Warn("not-honoured", line, t.ID, "%s %q is neither outbound nor none: it changes nothing", by, value)
	}
}

// ungiven refuses a value that asks for more of something than one host has.
func (b *builder) ungiven(line int, task, what, by, value string, has float64) {
	if x, err := reader.Number(value); strings.TrimSpace(value) != "" && (err != nil || x > has) {
		b.obstacle(line, task, "%s %q asks for %s, which gantry does not give", by, value, what)
	}
}

// isNumber reports whether a value looks like a number, of any size, rather than like an expression.
func isNumber(text string) bool {
	text = strings.TrimSpace(text)
	return text != "" && strings.Trim(text, "0123456789.+-eE") == "" && strings.ContainsAny(text, "0123456789")
}

// expression warns of a value that only HTCondor can compute.
func (b *builder) expression(t *Task, p profile) {
	b.faults.Warn("profile", p.line, t.ID, "task %s: profile %s:%s is %q, which is no number: ignored", t.ID,
		p.namespace, p.key, p.value)
}
