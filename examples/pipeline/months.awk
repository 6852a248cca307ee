# The mean temperature of each month of a station, whose name is that of the file.
FNR == 1 { station = FILENAME; sub(/[.].*/, "", station) }
$2 !~ /^-?[0-9]+[.][0-9]$/ { print FILENAME ":" FNR ": " $2 " is no temperature" >"/dev/stderr"; failed = 1; exit 1 }
{ month = substr($1, 6, 2); sum[month] += $2; n[month]++ }
END {
	if (failed) exit 1
	for (i = 1; i <= 12; i++) {
		month = sprintf("%02d", i)
		if (n[month]) printf "%s %s %.1f\n", station, month, sum[month] / n[month]
	}
}
