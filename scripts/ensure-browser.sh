#!/usr/bin/env bash
# Installs a headless Chromium from the distribution, if there is none: tests open gantry's pages with it.
# If it cannot be had, these tests are skipped, so this never fails.
set -u
command -v chromium-headless-shell >/dev/null && exit 0
root=()
if [[ $(id -u) != 0 ]]; then
	if ! sudo -n true 2>/dev/null && ! [[ -t 0 ]]; then
		echo "ensure-browser: no chromium-headless-shell, and installing it needs root: tests of pages will be skipped"
		exit 0
	fi
	root=(sudo)
fi
echo "ensure-browser: install chromium-headless-shell from the distribution (apt-get install chromium-headless-shell)"
apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >/dev/null 2>&1; }
apt update
apt install -y --no-install-recommends chromium-headless-shell ||
	echo "ensure-browser: it cannot be installed here: tests of pages will be skipped"
exit 0
