#!/usr/bin/env bash
# Puts Debian's docker-registry into bin/docker-registry, for the tests that pull images. It is taken from the package's
# archive: nothing is installed or started. If it cannot be had, these tests are skipped, so this never fails.
set -u
cd "$(dirname "$0")/.." || exit 0
[[ -x bin/docker-registry ]] && exit 0
fetch() {
	local dir
	dir=$(mktemp -d) && chmod 755 "$dir" || return 1
	trap 'rm -rf "$dir"' RETURN
	(cd "$dir" && apt-get download -qq docker-registry >/dev/null 2>&1) || return 1
	dpkg -x "$dir"/docker-registry_*.deb "$dir/root" && mkdir -p bin &&
		cp "$dir/root/usr/bin/docker-registry" bin/docker-registry.new && mv bin/docker-registry.new bin/docker-registry
}
command -v apt-get >/dev/null && command -v dpkg >/dev/null || {
	echo "ensure-registry: this is not Debian or Ubuntu: tests that pull images will be skipped"
	exit 0
}
echo "ensure-registry: fetch docker-registry from the distribution (apt-get download; nothing is installed)"
if ! fetch; then
	if [[ $(id -u) == 0 ]]; then apt-get update -qq >/dev/null 2>&1; else sudo -n apt-get update -qq >/dev/null 2>&1; fi
	fetch || echo "ensure-registry: it cannot be had here: tests that pull images will be skipped"
fi
exit 0
