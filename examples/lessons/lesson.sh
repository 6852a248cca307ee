#!/bin/sh
# Simulates the runs of a lesson and puts their timelines on one page.
# usage: examples/lessons/lesson.sh LESSON [DIR]    (GANTRY: the binary; default bin/gantry)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
lesson=${1:-}
if [ -z "$lesson" ] || [ ! -f "$here/$lesson/runs" ]; then
	echo "usage: $0 LESSON [DIR]; lessons: $(cd "$here" && ls -d */ | tr -d '/' | tr '\n' ' ')" >&2
	exit 2
fi
dir=${2:-lessons/$lesson}
gantry=${GANTRY:-bin/gantry}
if [ -e "$dir/gantry.sqlite" ]; then
	echo "$dir has runs already: remove it, or name another directory" >&2
	exit 2
fi
names=
while read -r name options; do
	# shellcheck disable=SC2086 # options are words
	"$gantry" simulate --quiet --dir "$dir" --name "$name" $options --cluster "$here/$lesson/cluster.yaml" \
		"$here/$lesson/workload.yaml"
	names="$names $name"
done <"$here/$lesson/runs"
# shellcheck disable=SC2086
"$gantry" report $names --dir "$dir" --out "$dir/figures" >/dev/null
# shellcheck disable=SC2086
"$gantry" report $names --dir "$dir" --html "$dir/$lesson.html"
