#!/usr/bin/env bash
# Checks the directions of imports: data goes trace -> planner -> runtime -> events -> log, and no package reaches back.
set -euo pipefail
cd "$(dirname "$0")/.."

bad=0
refuse() {
	echo "check-imports: $1 imports $2: $3" >&2
	bad=1
}

# may PKG IMPORT WHY PATTERN...: an import of one of gantry's own packages has to match one of the patterns.
may() {
	local pkg=$1 imp=$2 why=$3 pattern
	shift 3
	for pattern in "$@"; do
		# shellcheck disable=SC2053
		[[ $imp == $pattern ]] && return 0
	done
	refuse "$pkg" "$imp" "$why"
}

while read -r pkg imp; do
	case $imp in
	github.com/docker/docker/*) [[ $pkg == gantry/executor/docker || $pkg == gantry/scripts/benchmark ]] || refuse "$pkg" "$imp" "only executor/docker has a Docker client (and the benchmark that compares it)" ;;
	github.com/mattn/go-sqlite3) [[ $pkg == gantry/sqlite || $pkg == gantry/sqlite/results ]] || refuse "$pkg" "$imp" "only sqlite has a database driver" ;;
	github.com/urfave/cli/*) [[ $pkg == gantry/cmd/gantry ]] || refuse "$pkg" "$imp" "only cmd/gantry has a flag library" ;;
	github.com/containerd/cgroups/*) [[ $pkg == gantry/cgroup ]] || refuse "$pkg" "$imp" "only cgroup talks to the kernel's control groups" ;;
	os | os/* | io | io/* | net | net/* | database/* | syscall | log | log/*)
		[[ $pkg != gantry/planner && $pkg != gantry/planner/* || $pkg == gantry/planner/plannertest* ]] ||
			refuse "$pkg" "$imp" "the planner is pure: no input and output" ;;
	gantry/cmd/*) refuse "$pkg" "$imp" "commands are imported by nothing" ;;
	gantry/trace/spelling) ;; # words only: anybody may ask what was meant
	gantry/*)
		case $pkg in
		gantry/cgroup | gantry/reader | gantry/trace/spelling | gantry/planner/unit | gantry/executor/emulate | gantry/executor/docker/launch) refuse "$pkg" "$imp" "it is a leaf" ;;
		gantry/trace | gantry/trace/*) may "$pkg" "$imp" "packages of trace know traces only" gantry/reader gantry/trace 'gantry/trace/*' ;;
		gantry/scenario) may "$pkg" "$imp" "scenarios name traces and generators" gantry/reader gantry/trace/generate ;;
		gantry/planner/timeline) may "$pkg" "$imp" "a timeline knows units only" gantry/planner/unit ;;
		gantry/planner | gantry/planner/*)
			may "$pkg" "$imp" "the planner cannot know traces, containers or the log" gantry/planner 'gantry/planner/*' ;;
		gantry/executor)
			may "$pkg" "$imp" "the engine knows the planner and traces, runtimes and stores by their interfaces" \
				gantry/trace gantry/scenario gantry/planner 'gantry/planner/*' ;;
		gantry/executor/load) may "$pkg" "$imp" "loads make submissions of workload files" gantry/scenario gantry/trace gantry/trace/generate gantry/planner gantry/planner/unit gantry/executor ;;
		gantry/executor/metrics) may "$pkg" "$imp" "metrics know the engine's events" gantry/planner 'gantry/planner/*' gantry/executor ;;
		gantry/executor/experiment)
			may "$pkg" "$imp" "experiments simulate loads and measure; stores come by their interface" \
				gantry/trace gantry/scenario gantry/planner 'gantry/planner/*' gantry/executor gantry/executor/load gantry/executor/metrics gantry/executor/sim ;;
		gantry/executor/oracletest)
			may "$pkg" "$imp" "support of tests simulates instances" gantry/trace gantry/planner 'gantry/planner/*' gantry/executor gantry/executor/sim ;;
		gantry/executor/*)
			may "$pkg" "$imp" "runtimes know the engine, never each other, the log or the commands" \
				gantry/trace gantry/planner 'gantry/planner/*' gantry/cgroup gantry/executor gantry/executor/emulate gantry/executor/stage gantry/executor/evidence "$pkg/*" ;;
		gantry/sqlite | gantry/sqlite/*)
			may "$pkg" "$imp" "the log knows the engine and what it logs, no runtime" \
				gantry/trace gantry/scenario gantry/planner 'gantry/planner/*' gantry/executor gantry/executor/experiment gantry/executor/metrics gantry/sqlite 'gantry/sqlite/*' ;;
		gantry/cmd/gantry-task) may "$pkg" "$imp" "the task emulator stays small" gantry/executor/emulate gantry/executor/docker/launch ;;
		esac
		;;
	esac
done < <(go list -f '{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}' ./... | grep .)

# What a trace tells of true runtimes must not reach the planner by any detour.
for dep in $(go list -deps ./planner/... | grep -E '^gantry/' | grep -vE '^gantry/(planner(/|$)|trace/spelling$)' || true); do
	refuse gantry/planner "$dep" "reached indirectly"
done
exit $bad
