#!/bin/bash
# Records what Slurm does, for the tests of package sbatch: record.sh DIR, beside a cluster of Slurm whose SLURM_CONF is
# set, with nodes n1 and n2 of two CPUs and the partition main. Writes squeue.txt to the current directory, and jobs.txt
# anew there: its answers, to the scripts and options that it has, as printf and a shell read these.
set -u
here=$PWD
mkdir -p "$1"
cd "$1" || exit
scancel -u "$(id -un)"

# ask NUMBER ARGUMENT...: submits t.sh, held, and says what Slurm made of it.
ask() {
	local id
	if id=$(sbatch --parsable -H "$@" 2>&1); then
		squeue -h -r -j "$id" -o '= %j|%C|%m|%l|%k|%K' | head -1
	else
		echo "! $(echo "$id" | tail -1)"
	fi
	scancel -u "$(id -un)"
}

while IFS= read -r line; do
	case $line in
	'= '*|'! '*) continue ;;
	'script '*)
		printf '#!/bin/sh\n%b\necho\n' "${line#script }" >t.sh
		args=(t.sh) ;;
	'options '*)
		printf '#!/bin/sh\necho\n' >t.sh
		eval "args=(${line#options } t.sh)" ;;
	'wrap '*) eval "args=(${line#wrap })" ;;
	'raw '*)
		printf "${line#raw }" >t.sh
		args=(t.sh) ;;
	esac
	echo "$line"
	ask "${args[@]}"
done <"$here/jobs.txt" >jobs.txt
mv jobs.txt "$here"

sbatch -J alongjobname -c 2 --mem 100 -t 5 --nodelist n1 --comment 'two words' --wrap 'sleep 600' >/dev/null
sbatch -J waiting -c 2 --nodelist n1 --wrap 'sleep 500' >/dev/null
sbatch --array 0-2 -c 2 --mem 2G -t 2-3 --nodelist n2 --wrap 'sleep 100' >/dev/null
sbatch -J fails --wrap 'exit 3' >/dev/null
sbatch -J ends --wrap true >/dev/null
id=$(sbatch --parsable -J gone -H --wrap true)
scancel "$id"
sleep 5
only="-u $(id -un) -S i --name alongjobname,waiting,wrap,fails,ends,gone -j $(squeue -h -t all -o %A | sort -un | tail -8 | paste -sd,)"
{
	echo "rows"
	squeue -h -r -t all $only -o '%A|%F|%K|%j|%u|%U|%t|%r|%N|%P|%a|%k|%o|%Z|%C|%m|%l|%M|%V|%S|%e'
	for format in "%i %t" "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R" "%3j|%.3j|%20T|%.20T|%T" "%A,%F,%K;%C %m %l %L" \
		"x%%" "%r %R" "%Z %o %P %a %k"; do
		echo "format $format"
		squeue -r -t all $only -o "$format" 2>&1
	done
} >"$here/squeue.txt"
scancel -u "$(id -un)"
