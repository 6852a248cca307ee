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
	may string // names or patterns of packages
	why string
}

// layers says which packages of gantry each package may import. Data goes trace -> planner -> runtime -> events -> log,
// and no package reaches back. The first row that matches a package holds; * stands for one element of a path, ** for
// any number.
var layers = []layer{
	{"cgroup/**", "cgroup", "it is a leaf"},
	{"docs", "", "it is a leaf"},
	{"examples", "", "it is a leaf"},
	{"trace/shown", "", "it is a leaf"},
	{"trace/spelling", "", "it is a leaf"},
	{"trace/reader", "", "it is a leaf"},
	{"trace/**", "trace/**", "traces know nothing else"},

	{"planner/unit", "", "it is a leaf"},
	{"planner/heap", "", "it is a leaf"},
	{"planner/seed", "", "it is a leaf"},
	{"planner/timeline", "planner/unit", "a timeline knows units only"},
	{"planner/order", "planner planner/unit planner/exact planner/timeline planner/heap planner/rank planner/cp " +
		"planner/share planner/predict planner/retain", "a queue knows no allocator"},
	{"planner/alloc", "planner planner/unit planner/exact planner/timeline planner/rank planner/match " +
		"planner/share",
		"an allocator asks of queues what its own interface says"},
	{"planner/**", "planner/**", "the planner knows no traces, containers or log"},

	{"executor", "trace/reader trace trace/scenario planner/** executor/emulate",
		"the engine knows runtimes and stores by their interfaces"},
	{"executor/emulate", "", "it is a leaf"},
	{"executor/lock", "", "it is a leaf"},
	{"executor/own", "trace/reader planner/**", "programs of users are asked for plans, and know no runtime"},
	{"executor/sim/hostmodel", "executor/emulate", "a host model is data, for the log and for simulations"},
	{"executor/sim/**", "trace planner/** executor executor/emulate executor/sim/**",
		"simulations know no containers, log or commands"},
	{"executor/estimate", "planner/** executor executor/sim/hostmodel", "estimators know admission, and no runtime"},
	{"executor/forecast/**", "planner/** executor executor/sim", "forecasts simulate the rest of runs"},
	{"executor/experiment/load", "trace/** planner/** executor", "loads make submissions of workload files"},
	{"executor/experiment/adversary", "trace trace/scenario planner/** executor executor/estimate " +
		"executor/experiment/metrics executor/sim", "a search simulates"},
	{"executor/experiment/metrics", "planner/** executor", "metrics know the engine's events"},
	{"executor/experiment", "trace/reader trace trace/scenario planner/** executor executor/estimate " +
		"executor/experiment/* executor/own executor/sim",
		"experiments simulate loads and measure; stores come by their interface"},
	{"executor/*test", "trace trace/scenario planner/** executor/**", "support of tests"},

	{"executor/container/control", "", "it is a leaf"},
	{"executor/container/fault", "", "it is a leaf"},
	{"executor/container/fetch", "", "it is a leaf"},
	{"executor/container/launch/first", "", "it runs before Go does"},
	{"executor/container/launch", "executor/container/control", "the launcher stays small"},
	{"executor/container/gpu", "", "it is a leaf"},
	{"executor/container/oci/userns", "", "it is a leaf"},
	{"executor/container/oci/image", "executor/container/fetch", "it is a store of its own"},
	{"executor/container/oci", "planner/** cgroup executor executor/container executor/container/evidence " +
		"executor/container/control executor/container/fault executor/container/fetch executor/container/gpu " +
		"executor/container/oci/*", engines},
	{"executor/container/docker/**", "planner/** cgroup executor executor/emulate executor/container " +
		"executor/container/stage executor/container/evidence executor/container/control " +
		"executor/container/fetch executor/container/fault executor/container/launch " +
		"executor/container/docker/**", engines},
	{"executor/container/slurm/allocation", "cgroup", "an allocation knows nothing of runs"},
	{"executor/container/slurm/slurmtest", "", "it is a leaf"},
	{"executor/container/slurm/node", "cgroup executor/container executor/container/evidence " +
		"executor/container/control executor/container/fetch executor/container/stage",
		"a node's side knows no Slurm"},
	{"executor/container/slurm", "planner/** cgroup executor executor/container executor/container/evidence " +
		"executor/container/fetch executor/container/stage executor/container/slurm/*", engines},
	{"executor/container", "trace planner/** cgroup executor executor/emulate executor/container/stage " +
		"executor/container/evidence executor/container/control executor/container/fault executor/container/fetch " +
		"executor/container/launch executor/container/gpu", "containers know no engine that makes them"},
	{"executor/container/**", "trace planner/** cgroup executor executor/emulate executor/container/*",
		"files and outcomes of containers know no log and no commands"},
	{"executor/*", "trace planner/** executor executor/emulate executor/container/stage " +
		"executor/container/fault",
		"runtimes know the engine, never each other, the log or the commands"},

	{"sqlite/report/columns", "sqlite", "tables know the spans of the log"},
	{"sqlite/**", "trace trace/scenario planner/** executor executor/experiment executor/experiment/metrics " +
		"executor/reuse executor/sim/hostmodel sqlite/**",
		"the log knows the engine's events, and no runtime"},

	{"cmd/api", "", "it is a leaf: clients need nothing else"},
	{"cmd/internal/sbatch", "", "it is a leaf"},
	{"cmd/internal/exit", "cmd/gantry/early", "it is a leaf"},
	{"cmd/internal/term", "planner planner/unit executor executor/container/fetch sqlite sqlite/report/columns",
		"a terminal shows a run, and knows no command"},
	{"cmd/internal/server", "cmd/api trace/reader trace planner/** executor sqlite",
		"a server knows the engine and the log, no runtime"},
	{"cmd/internal/session", ". cgroup cmd/gantry/early cmd/internal/exit cmd/internal/term trace/** planner/** " +
		"executor/** sqlite/**", "a session knows no command line, and no requests"},
	{"cmd/internal/serve", ". cmd/api cmd/internal/exit cmd/internal/server cmd/internal/session cmd/internal/term " +
		"trace/** planner/** executor/** sqlite/**", "a run that takes work knows no command line"},
	{"cmd/internal/trial", "cmd/gantry/early cmd/internal/exit cmd/internal/session cmd/internal/term trace/generate " +
		"trace/scenario executor/** sqlite", "experiments on a runtime are runs, and know no command line"},
	{"cmd/gantry/early", "", "it is a leaf"},
	{"cmd/gantry/debian", "", "it is a leaf"},
	{"cmd/gantry-task", "executor/emulate executor/container/launch executor/container/launch/first",
		"the task emulator stays small"},
	{"cmd", ". cgroup trace/** planner/** executor/** sqlite/** cmd/**", "it wires everything"},
	{"cmd/gantry", "cmd", "it is the command, and nothing else"},
	{"scripts/**", "scripts/measure cgroup trace/** planner/** executor/** sqlite/** cmd/api",
		"no package imports a command"},
	{".", "", "it is a leaf"},
}

const engines = "engines know containers, never each other, the log or the commands"

// anybody may be imported by every package.
const anybody = "trace/shown trace/spelling cgroup/thread executor/lock"

// libraries says which packages of gantry may import a library.
var libraries = []layer{
	{"github.com/docker/docker/**", "executor/container/docker", "one package has a Docker client"},
	{"github.com/mattn/go-sqlite3", "sqlite sqlite/report/results", "only the log and results have a database driver"},
	{"github.com/urfave/cli/**", "cmd", "only the command has a flag library"},
	{"github.com/containerd/cgroups/**", "cgroup", "one package talks to the kernel's control groups"},
}

// impure are packages of the standard library that the planner does without: it does no input or output.
const impure = "os/** io/** net/** database/** syscall log/**"

// matches reports whether a package matches one of some patterns.
func matches(patterns, pkg string) bool {
	for pattern := range strings.FieldsSeq(patterns) {
		base, deep := strings.CutSuffix(pattern, "/**")
		if ok, _ := path.Match(base, pkg); ok || deep && strings.HasPrefix(pkg, base+"/") {
			return true
		}
	}
	return false
}

// list runs go list. Packages of gantry are named by their folders.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// folder names a package of gantry by its folder, and "." is the top one.
func folder(pkg string) (string, bool) {
	if pkg == "gantry" {
		return ".", true
	}
	return strings.CutPrefix(pkg, "gantry/")
}

func TestImportsGoOneWay(t *testing.T) {
	for _, line := range list(t, "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...") {
		pkg, imports, _ := strings.Cut(line, " ")
		pkg, _ = folder(pkg)
		row := slices.IndexFunc(layers, func(l layer) bool { return matches(l.pkg, pkg) })
		if row < 0 {
			t.Errorf("%s is in no row of layers: add one", pkg)
			continue
		}
		for imp := range strings.FieldsSeq(imports) {
			for _, l := range libraries {
				if matches(l.pkg, imp) && !matches(l.may, pkg) {
					t.Errorf("%s imports %s: %s", pkg, imp, l.why)
				}
			}
			if matches("planner/**", pkg) && matches(impure, imp) && !strings.HasSuffix(pkg, "test") {
				t.Errorf("%s imports %s: the planner does no input or output", pkg, imp)
			}
			if dir, ours := folder(imp); ours && !matches(layers[row].may+" "+anybody, dir) {
				t.Errorf("%s imports %s: %s", pkg, dir, layers[row].why)
			}
		}
	}
}

// The true runtimes of a trace must not reach the planner by any detour.
func TestThePlannerReachesNothingButItself(t *testing.T) {
	for _, dep := range list(t, "-deps", "./planner/...") {
		if dir, ours := folder(dep); ours && !matches("planner/** "+anybody, dir) {
			t.Errorf("the planner reaches %s", dep)
		}
	}
}
