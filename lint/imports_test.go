// Package lint_test checks what no linter knows: the directions of imports and the length of lines.
package lint_test

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// layer is a row of layers.
type layer struct {
	pkg string
	may []string
	why string
}

// layers says what each package of gantry may import of gantry. Data goes trace -> planner -> runtime -> events -> log,
// and no package reaches back. The first row that matches a package holds; * stands for one element of a path, ** for
// any number.
var layers = []layer{
	{"gantry", nil, "it is a leaf"},
	{"gantry/cgroup", nil, "it is a leaf"},
	{"gantry/columns", nil, "it is a leaf"},
	{"gantry/shown", nil, "it is a leaf"},
	{"gantry/reader", nil, "it is a leaf"},
	{"gantry/sbatch", nil, "it is a leaf"},
	{"gantry/trace/spelling", nil, "it is a leaf"},
	{"gantry/planner/unit", nil, "it is a leaf"},
	{"gantry/executor/emulate", nil, "it is a leaf"},
	{"gantry/executor/hostmodel", []string{"gantry/executor/emulate"},
		"a host model is data, for the log and for simulations"},
	{"gantry/executor/control", nil, "it is a leaf"},
	{"gantry/executor/fault", nil, "it is a leaf"},
	{"gantry/executor/container/launch", []string{"gantry/executor/control"}, "the launcher stays small"},
	{"gantry/executor/container/launch/first", nil, "it runs before Go does"},
	{"gantry/trace/**", []string{"gantry/reader", "gantry/trace/**"}, "traces know nothing else"},
	{"gantry/scenario", []string{"gantry/reader", "gantry/trace", "gantry/trace/generate"},
		"scenarios name traces and generators"},
	{"gantry/planner/timeline", []string{"gantry/planner/unit"}, "a timeline knows units only"},
	{"gantry/planner/heap", nil, "it is a leaf"},
	{"gantry/planner/seed", nil, "it is a leaf"},
	{"gantry/planner/order", []string{"gantry/planner", "gantry/planner/unit", "gantry/planner/exact",
		"gantry/planner/timeline", "gantry/planner/heap", "gantry/planner/rank", "gantry/planner/cp",
		"gantry/planner/share", "gantry/planner/predict", "gantry/planner/retain"}, "a queue knows no allocator"},
	{"gantry/planner/alloc", []string{"gantry/planner", "gantry/planner/unit", "gantry/planner/exact",
		"gantry/planner/timeline", "gantry/planner/rank", "gantry/planner/match", "gantry/planner/share"},
		"an allocator asks of queues what its own interface says"},
	{"gantry/planner/**", []string{"gantry/planner/**"}, "the planner knows no traces, containers or log"},
	{"gantry/executor", []string{"gantry/reader", "gantry/trace", "gantry/scenario", "gantry/planner/**",
		"gantry/executor/emulate"},
		"the engine knows runtimes and stores by their interfaces"},
	{"gantry/executor/load", []string{"gantry/scenario", "gantry/trace/**", "gantry/planner/**", "gantry/executor"},
		"loads make submissions of workload files"},
	{"gantry/executor/estimate", []string{"gantry/planner/**", "gantry/executor", "gantry/executor/hostmodel"},
		"estimators know admission, and no runtime"},
	{"gantry/executor/metrics", []string{"gantry/planner/**", "gantry/executor"}, "metrics know the engine's events"},
	{"gantry/executor/experiment", []string{"gantry/reader", "gantry/trace",
		"gantry/scenario", "gantry/planner/**", "gantry/executor",
		"gantry/executor/estimate", "gantry/executor/load", "gantry/executor/metrics", "gantry/executor/sim"},
		"experiments simulate loads and measure; stores come by their interface"},
	{"gantry/executor/forecast", []string{"gantry/planner/**", "gantry/executor", "gantry/executor/sim"},
		"forecasts simulate what is left of runs"},
	{"gantry/executor/*test", []string{"gantry/trace", "gantry/scenario", "gantry/planner/**", "gantry/executor/**"},
		"support of tests"},
	{"gantry/executor/container/fetch", nil, "it is a leaf"},
	{"gantry/executor/container/**", []string{"gantry/trace", "gantry/planner/**", "gantry/cgroup", "gantry/executor",
		"gantry/executor/emulate", "gantry/executor/stage", "gantry/executor/evidence", "gantry/executor/control",
		"gantry/executor/fault", "gantry/executor/container/**"}, "containers know no engine that makes them"},
	{"gantry/executor/oci", []string{"gantry/planner/**", "gantry/cgroup", "gantry/executor",
		"gantry/executor/evidence", "gantry/executor/control", "gantry/executor/fault", "gantry/executor/container",
		"gantry/executor/container/fetch", "gantry/executor/oci/image", "gantry/executor/oci/userns"},
		"runtimes know the engine, never each other, the log or the commands"},
	{"gantry/executor/docker/**", []string{"gantry/trace", "gantry/planner/**", "gantry/cgroup", "gantry/executor",
		"gantry/executor/emulate", "gantry/executor/stage", "gantry/executor/evidence",
		"gantry/executor/control", "gantry/executor/fault", "gantry/executor/container/**",
		"gantry/executor/docker/**"},
		"runtimes know the engine, never each other, the log or the commands"},
	{"gantry/executor/oci/image", []string{"gantry/executor/container/fetch"}, "it is a store of its own"},
	{"gantry/executor/oci/userns", nil, "it is a leaf"},
	{"gantry/executor/slurm/allocation", []string{"gantry/cgroup"}, "an allocation knows nothing of runs"},
	{"gantry/executor/slurm/slurmtest", nil, "it is a leaf"},
	{"gantry/executor/slurm", []string{"gantry/planner/**", "gantry/cgroup", "gantry/executor",
		"gantry/executor/evidence", "gantry/executor/container", "gantry/executor/container/fetch",
		"gantry/executor/slurm/**"},
		"runtimes know the engine, never each other, the log or the commands"},
	{"gantry/executor/slurm/node", []string{"gantry/cgroup", "gantry/executor/evidence", "gantry/executor/control",
		"gantry/executor/container", "gantry/executor/container/fetch"}, "what runs on nodes knows no Slurm"},
	{"gantry/executor/*", []string{"gantry/trace", "gantry/planner/**", "gantry/executor", "gantry/executor/emulate",
		"gantry/executor/stage", "gantry/executor/outside", "gantry/executor/evidence", "gantry/executor/control",
		"gantry/executor/fault", "gantry/executor/hostmodel"},
		"runtimes know the engine, never each other, the log or the commands"},
	{"gantry/sqlite/**", []string{"gantry/columns", "gantry/trace", "gantry/scenario", "gantry/planner/**",
		"gantry/executor",
		"gantry/executor/experiment",
		"gantry/executor/metrics", "gantry/executor/reuse", "gantry/executor/hostmodel", "gantry/sqlite/**"},
		"the log knows the engine and what it logs, no runtime"},
	{"gantry/server/api", nil, "it is a leaf: clients need nothing else"},
	{"gantry/server", []string{"gantry/server/api", "gantry/reader", "gantry/trace",
		"gantry/planner/**", "gantry/executor",
		"gantry/sqlite"}, "a server knows the engine and the log, no runtime"},
	{"gantry/scripts/**", []string{"gantry/cgroup", "gantry/scenario", "gantry/trace/**", "gantry/planner/**",
		"gantry/executor/**", "gantry/server/api",
		"gantry/sqlite/**"}, "commands are imported by nothing"},
	{"gantry/cmd/gantry/early", nil, "it is a leaf"},
	{"gantry/cmd/gantry/debian", nil, "it is a leaf"},
	{"gantry/cmd/gantry", []string{"gantry", "gantry/columns", "gantry/cmd/gantry/early", "gantry/cmd/gantry/debian",
		"gantry/cgroup", "gantry/reader",
		"gantry/scenario", "gantry/sbatch",
		"gantry/trace/**", "gantry/planner/**",
		"gantry/executor/**", "gantry/sqlite/**", "gantry/server/**"},
		"it wires everything"},
	{"gantry/cmd/gantry-task", []string{"gantry/executor/emulate", "gantry/executor/container/launch",
		"gantry/executor/container/launch/first"}, "the task emulator stays small"},
}

// anybody may be imported by every package.
var anybody = []string{"gantry/shown", "gantry/trace/spelling", "gantry/cgroup/thread"}

// libraries says which packages may import a library.
var libraries = []struct {
	pkg string
	by  []string
	why string
}{
	{"github.com/docker/docker/**", []string{"gantry/executor/docker"},
		"one package has a Docker client"},
	{"github.com/mattn/go-sqlite3", []string{"gantry/sqlite/sqlite3", "gantry/sqlite/results"},
		"only the log and results have a database driver"},
	{"github.com/urfave/cli/**", []string{"gantry/cmd/gantry"}, "only the command has a flag library"},
	{"github.com/containerd/cgroups/**", []string{"gantry/cgroup"}, "one package talks to the kernel's control groups"},
}

// impure are packages of the standard library that the planner does without: it does no input or output.
var impure = []string{"os/**", "io/**", "net/**", "database/**", "syscall", "log/**"}

// matches reports whether a package matches a pattern.
func matches(pattern, pkg string) bool {
	if base, ok := strings.CutSuffix(pattern, "/**"); ok {
		return pkg == base || strings.HasPrefix(pkg, base+"/")
	}
	ok, _ := path.Match(pattern, pkg)
	return ok
}

func matchesAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, pkg) })
}

func list(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestImportsGoOneWay(t *testing.T) {
	for _, line := range list(t, "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...") {
		pkg, imports, _ := strings.Cut(line, " ")
		for imp := range strings.FieldsSeq(imports) {
			for _, l := range libraries {
				if matches(l.pkg, imp) && !matchesAny(l.by, pkg) {
					t.Errorf("%s imports %s: %s", pkg, imp, l.why)
				}
			}
			if matches("gantry/planner/**", pkg) && matchesAny(impure, imp) && !strings.HasSuffix(pkg, "test") {
				t.Errorf("%s imports %s: the planner does no input or output", pkg, imp)
			}
			if !matches("gantry/**", imp) || matchesAny(anybody, imp) {
				continue
			}
			at := slices.IndexFunc(layers, func(l layer) bool { return matches(l.pkg, pkg) })
			switch {
			case at < 0:
				t.Errorf("%s is in no row of layers: add one", pkg)
			case !matchesAny(layers[at].may, imp):
				t.Errorf("%s imports %s: %s", pkg, imp, layers[at].why)
			}
		}
	}
}

// What a trace says of true runtimes must not reach the planner by any detour.
func TestThePlannerReachesNothingButItself(t *testing.T) {
	for _, dep := range list(t, "-deps", "./planner/...") {
		if matches("gantry/**", dep) && !matches("gantry/planner/**", dep) && !matchesAny(anybody, dep) {
			t.Errorf("the planner reaches %s", dep)
		}
	}
}
