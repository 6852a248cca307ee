#!/bin/sh
# Makes the inputs of pieces.json in a directory: inputs.sh DIR
set -eu
mkdir -p "$1"
cd "$1"
while read -r name bytes; do
	head -c "$bytes" /dev/urandom >"$name"
done <<END
compress-1.in 1200000
compress-2.in 2800000
compress-3.in 4000000
compress-4.in 5600000
compress-5.in 6800000
compress-6.in 8000000
compare-1.in 900000
compare-2.in 1400000
compare-3.in 2000000
compare-4.in 2600000
compare-5.in 3300000
compare-6.in 4200000
END
