#!/usr/bin/env bash
# Gets the programs with which tests read exports: pandas and R from the distribution, hyparquet and DuckDB by npm into bin/readers. Tests are
# skipped without them, so this never fails.
set -u
cd "$(dirname "$0")/.." || exit 0
root=()
[[ $(id -u) == 0 ]] || root=(sudo -n)
/usr/bin/python3 -c 'import pandas' 2>/dev/null && Rscript -e 'library(jsonlite)' >/dev/null 2>&1 || {
	echo "ensure-readers: install python3-pandas, r-base-core and r-cran-jsonlite from the distribution (apt-get install)"
	apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >/dev/null 2>&1; }
	apt update
	apt install -y --no-install-recommends python3-pandas r-base-core r-cran-jsonlite ||
		echo "ensure-readers: they cannot be installed here: tests that read exports with them will be skipped"
}
[[ -d bin/readers/node_modules/@duckdb/node-api ]] || {
	mkdir -p bin/readers && command -v npm >/dev/null &&
		timeout 300 npm install --silent --no-fund --no-audit --prefix bin/readers hyparquet@1.33.0 @duckdb/node-api@1.5.6-r.1 >/dev/null 2>&1 ||
		echo "ensure-readers: npm cannot install hyparquet and @duckdb/node-api here: tests that read exports with them will be skipped"
}
exit 0
