#!/usr/bin/env bash
# Runs README.md, but for the other formats, and takes its pictures of the pages that it writes, with the browser of the tests.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ln -s "$here"/../../{bin,examples} "$dir"
cd "$dir"
awk '/^## In other formats/ { exit } /^```/ { on = $0 == "```sh"; next } on' "$here/README.md" >walk
bash -euo pipefail walk
for page in first broken; do
	chromium-headless-shell --no-sandbox --hide-scrollbars --virtual-time-budget=5000 --window-size=1000,900 --screenshot="$here/$page.png" "file://$dir/$page.html"
done
