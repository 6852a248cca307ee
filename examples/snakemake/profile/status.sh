#!/bin/sh
# Says how a job is, as Snakemake asks: success, failed or running.
case $(gantry sacct -j "$1" -a -X -n -P -o State) in
COMPLETED) echo success ;;
PENDING | RUNNING | SUSPENDED) echo running ;;
'') exit 1 ;; # no answer: Snakemake asks again
*) echo failed ;;
esac
