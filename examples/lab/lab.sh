#!/usr/bin/env bash
# Three users share one gantry, under each of some policies; then tables and pages say what each user got:
#   sudo examples/lab/lab.sh [--short] [DIR [POLICY...]]        default: a new directory below /var/tmp, fifo 3dsf
# The users have no accounts: they are numbers, whose work counts for the tenants astronomy, genetics and language.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD short=
if [[ ${1:-} == --short ]]; then short=1; shift; fi
dir=${1:-$(mktemp -d /var/tmp/gantry-lab-XXXXXX)}
shift || true
policies=("$@")
[[ ${#policies[@]} -gt 0 ]] || policies=(fifo 3dsf)
[[ $EUID == 0 ]] || { echo "lab: a server of several users needs root: sudo examples/lab/lab.sh" >&2; exit 4; }
group=47100 astronomer=47101 geneticist=47102 linguist=47103

command -v sqlite3 >/dev/null || { echo "lab: sqlite3, which makes the tables, is missing: apt-get install sqlite3" >&2; exit 4; }
missing() { ! docker image inspect "$1" >/dev/null 2>&1; }
for image in gantry/montage gantry/variants; do
	! missing $image || { echo "lab: the image $image is missing: make images" >&2; exit 4; }
done
snakemake=1
if ! command -v snakemake >/dev/null || missing gantry/snakemake; then
	echo "lab: without Snakemake and its image (examples/snakemake/README.md) the linguist hands in nothing" >&2
	snakemake=
fi

mkdir -p "$dir/bin"
chmod 755 "$dir" "$dir/bin"
install -m 755 bin/gantry bin/gantry-task "$dir/bin"
gantry=$dir/bin/gantry

# as USER COMMAND...: in the home of that user, with that user's rights and no others
as() {
	local id=$1 home=$served/../home-$1
	shift
	(cd "$home" && exec setpriv --reuid "$id" --regid "$id" --groups $group env -i HOME="$(pwd -P)" \
		PATH="$dir/bin:/usr/local/bin:/usr/bin:/bin" GANTRY_DIR="$served" "$@")
}

# submit USER FLAGS... FILE: hands in a workflow, and notes what is expected of it
submit() {
	local user=$1 said id
	shift
	said=$(as "$user" gantry submit --json "$@") # it waits a moment for a prediction
	id=${said#*\"ids\":[}
	id=${id%%]*}
	echo "$said" >"$served/../planned-$id.json"
	ids+=("$user:$id")
}

stream() { # eight calls of variants, one every 4 s
	local n=8
	[[ -z $short ]] || n=1
	for ((i = 1; i <= n; i++)); do
		submit $geneticist --name "call-$i" variants/workflow.yml
		[[ $i == "$n" ]] || sleep 4
	done
	for x in "${ids[@]}"; do as $geneticist gantry wait "${x#*:}"; done
}

mosaic() { # handed in when four calls of variants are there, and due before all of them are done
	sleep 14
	submit $astronomer --name mosaic --deadline "${DEADLINE:-30s}" mosaic/workflow.yml
	for x in "${ids[@]}"; do as $astronomer gantry wait "${x#*:}"; done
}

words() {
	[[ -n $snakemake ]] || return 0
	sleep 6
	as $linguist env GANTRY_IMAGE=gantry/snakemake GANTRY_WORKFLOW=words \
		sh -c 'cd snakemake && exec snakemake --quiet --profile profile'
}

for policy in "${policies[@]}"; do
	top=$dir/$policy served=$dir/$policy/runs
	mkdir -p "$top"
	for user in $astronomer $geneticist $linguist; do
		mkdir -m 700 "$top/home-$user"
		cp -r examples/mosaic examples/variants examples/snakemake "$top/home-$user"
		chown -R $user:$user "$top/home-$user"
	done
	echo "lab: policy $policy"
	$gantry serve --dir "$served" --group $group --tenant $astronomer=astronomy --tenant $geneticist=genetics \
		--tenant $linguist=language --name "$policy" --policy "$policy" --cluster examples/lab/cluster.yaml \
		--oversubscribe >"$top/serve.log" 2>&1 &
	server=$!
	trap 'kill $server 2>/dev/null || true' EXIT
	until [[ -S $served/gantry.sock ]]; do
		kill -0 $server || { cat "$top/serve.log" >&2; exit 4; }
		sleep 0.1
	done
	users=()
	for work in stream mosaic words; do
		(ids=(); $work) &
		users+=($!)
	done
	bad=
	for pid in "${users[@]}"; do wait "$pid" || bad=1; done
	$gantry queue --dir "$served" --all
	$gantry drain --dir "$served"
	wait $server || bad=1
	trap - EXIT
	[[ -z $bad ]] || { echo "lab: not all work ended well: see $top/serve.log" >&2; exit 1; }
	cat "$served/$policy"/results/mosaic-*/mosaic.png >/dev/null
	grep -h "planted variants found" "$served/$policy"/results/call-*/report.txt
done
cd "$here"
for policy in "${policies[@]}"; do
	printf '\nPolicy %s:\n\n' "$policy"
	(cd "$dir/$policy" && sqlite3 -readonly runs/gantry.sqlite <"$here/examples/lab/lab.sql")
	bin/gantry report --dir "$dir/$policy/runs" --html "$dir/$policy.html" "$policy"
done
