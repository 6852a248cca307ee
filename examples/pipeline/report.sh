# The warmest month of each station, the warmest station first.
sort -k3,3nr -k1,1 "$@" | awk '!seen[$1]++ { printf "%-8s month %s %6.1f\n", $1, $2, $3 }'
