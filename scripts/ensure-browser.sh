#!/usr/bin/env bash
# Installs what tests look at gantry with, from the distribution and if it is missing: a headless Chromium opens its pages, zsh and fish complete
# its commands. Tests are skipped without them, so this never fails.
set -u
missing=()
for program in chromium-headless-shell zsh fish; do command -v "$program" >/dev/null || missing+=("$program"); done
((${#missing[@]})) || exit 0
root=()
if [[ $(id -u) != 0 ]]; then
	if ! sudo -n true 2>/dev/null && ! [[ -t 0 ]]; then
		echo "ensure-browser: installing ${missing[*]} needs root: tests that need them will be skipped"
		exit 0
	fi
	root=(sudo)
fi
echo "ensure-browser: install ${missing[*]} from the distribution (apt-get install ${missing[*]})"
apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >/dev/null 2>&1; }
apt update
for program in "${missing[@]}"; do
	apt install -y --no-install-recommends "$program" ||
		echo "ensure-browser: $program cannot be installed here: tests that need it will be skipped"
done
exit 0
