#!/bin/sh
# Hands a job in that comes after others: submit.sh 'JOB JOB...' OPTION... SCRIPT
after=$(echo $1 | tr ' ' :)
shift
exec gantry sbatch --parsable ${after:+--dependency "afterok:$after"} "$@"
