#!/usr/bin/env bash
# Builds a container image from packages of the distribution, with what they depend on:
#
#   scripts/debian-image.sh [--force] NAME PACKAGE...
#   scripts/debian-image.sh gantry/montage montage
#
# The packages come from the machine's own package sources (Debian or Ubuntu), through mmdebstrap; no registry is asked,
# and nothing is installed. Packages are unpacked, not configured: programs run, services and alternatives are not set up.
# A shell and its usual commands are always there (busybox). Equal packages give an equal image, down to its ID. Does nothing if the image was built from
# these packages before; --force builds it again.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/engine.sh"
EPOCH=1577836800 # of all files: an image says nothing of when it was built

say() { echo "debian-image: $*" >&2; }
die() {
	printf 'debian-image: %s\n' "$@" >&2
	exit 1
}

usage="usage: scripts/debian-image.sh [--force] NAME PACKAGE..."
force=
[[ ${1:-} != --force ]] || { force=1 && shift; }
[[ ${1:-} != -h && ${1:-} != --help ]] || { echo "$usage" && exit 0; }
[[ $# -ge 2 && $1 != -* ]] || { echo "$usage" >&2 && exit 2; }
name=$1
shift
[[ $name =~ ^[a-z0-9][a-z0-9._/:-]*$ ]] || die "$name is not the name of an image: lower-case letters, digits, and . _ - / :"
[[ ${name##*/} == *:* ]] || name+=:latest
for package in "$@"; do
	[[ $package =~ ^[a-z0-9][a-z0-9.+-]+$ ]] || die "$package is not the name of a package"
done
packages=$(printf '%s\n' "$@" | sort -u | tr '\n' ' ')
packages=${packages% }

command -v docker >/dev/null || die "there is no docker command: install it (apt-get install docker-cli, or docker.io), then try again"
engine version >/dev/null 2>&1 ||
	die "the Docker Engine at $DOCKER_HOST does not answer: $(engine version 2>&1 | tail -n 1)" "make setup installs and starts one"
if [[ -z $force && $(engine image inspect --format '{{index .Config.Labels "gantry.packages"}}' "$name" 2>/dev/null || true) == "$packages" ]]; then
	say "$name is there"
	exit 0
fi

command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
	die "this is not Debian or Ubuntu: put the programs into an image $name by other means"
ID='' VERSION_CODENAME=''
# shellcheck disable=SC1091
[[ ! -r /etc/os-release ]] || . /etc/os-release
[[ -n $VERSION_CODENAME ]] || die "/etc/os-release does not name the release of $ID (VERSION_CODENAME)"

dir=$(mktemp -d)
chmod 755 "$dir"
trap 'rm -rf "$dir" 2>/dev/null || sudo rm -rf "$dir"' EXIT
# apt waits for ever on a full disk.
(($(df -Pm "$dir" | awk 'END { print $4 }') >= 600)) ||
	die "less than 600 MB are free in $(dirname "$dir")" "free space there, or set TMPDIR to another directory"

# mmdebstrap: installed, or from the package's archive, which is one script.
mmdebstrap=$(command -v mmdebstrap || true)
if [[ -z $mmdebstrap ]]; then
	say "fetch mmdebstrap from the distribution (apt-get download; nothing is installed)"
	command -v perl >/dev/null && command -v python3 >/dev/null || die "mmdebstrap needs perl and python3: apt-get install mmdebstrap"
	fetch() { (cd "$dir" && apt-get download -qq mmdebstrap >"$dir/log" 2>&1); }
	if ! fetch; then
		say "fetch new package lists (apt-get update)"
		if [[ $(id -u) == 0 ]]; then apt-get update -qq; else sudo apt-get update -qq; fi
		fetch || die "apt-get download mmdebstrap: $(cat "$dir/log")" "look at the package sources of this machine, then try again"
	fi
	dpkg -x "$dir"/mmdebstrap_*.deb "$dir/mmdebstrap"
	mmdebstrap=$dir/mmdebstrap/usr/bin/mmdebstrap
fi

# The machine's own sources, as a mirror or proxy may be set there.
sources=()
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
	[[ ! -s $file ]] || ! grep -qE '^[[:space:]]*(deb |Types:)' "$file" || sources+=("$file")
done
run=()
mode=auto
if [[ $(id -u) != 0 ]] && ! { command -v newuidmap >/dev/null && grep -q "^$(id -un):" /etc/subuid 2>/dev/null && unshare -U true 2>/dev/null; }; then
	# Without user name spaces files cannot belong to root while they are unpacked.
	command -v sudo >/dev/null || die "user $(id -un) may not use user name spaces, and there is no sudo" \
		"install uidmap and give the user a range in /etc/subuid and /etc/subgid, or run this as root"
	run=(sudo)
fi

say "build $name from $packages (about a minute)"
if ! "${run[@]}" env SOURCE_DATE_EPOCH=$EPOCH timeout 900 "$mmdebstrap" --mode=$mode --variant=extract --format=tar --quiet \
	--include="busybox-static,${packages// /,}" \
	--aptopt='Acquire::Languages "none"' \
	--extract-hook='cd "$1" && rm -rf usr/share/doc usr/share/man usr/share/info usr/share/locale usr/share/lintian usr/share/bug' \
	--extract-hook='cd "$1" && mkdir -p tmp etc bin usr/bin && chmod 1777 tmp &&
		printf "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n" >etc/passwd &&
		printf "root:x:0:\nnogroup:x:65534:\n" >etc/group &&
		for a in $(bin/busybox --list || usr/bin/busybox --list); do [ -e bin/$a ] || [ -L bin/$a ] || [ -e usr/bin/$a ] || [ -L usr/bin/$a ] || ln -s busybox bin/$a; done &&
		{ [ -e usr/bin/env ] || ln -s ../../bin/busybox usr/bin/env; }' \
	"$VERSION_CODENAME" "$dir/layer.tar" "${sources[@]}" >"$dir/log" 2>&1; then
	missing=$(for package in "$@"; do apt-cache show "$package" >/dev/null 2>&1 || echo "the package sources have no package $package"; done)
	if grep -q 'No space left on device' "$dir/log"; then
		die "the disk is full: free space in $(dirname "$dir"), or set TMPDIR to another directory"
	fi
	die "${missing:-$(grep -E '^E: |^Err' "$dir/log" | head -n 8 || true)}" \
		"image $name is not built: correct the packages (apt-cache search WORD), or look at the package sources of this machine"
fi
[[ -r $dir/layer.tar ]] || sudo chown "$(id -u)" "$dir/layer.tar"
# What belongs to this machine or to mmdebstrap goes.
tar -tf "$dir/layer.tar" | { grep -E '^\./(etc/(apt|resolv.conf|hostname|fstab|dpkg)|var/(lib/(apt|dpkg)|cache|log))(/|$)' || true; } | sort -r >"$dir/drop"
tar --delete -f "$dir/layer.tar" -T "$dir/drop" 2>/dev/null || die "cannot take $(wc -l <"$dir/drop") files out of the archive"

# An image as "docker save" writes it: unlike docker import it says no time, so that its ID depends on its content only.
sum=$(sha256sum "$dir/layer.tar" | cut -d' ' -f1)
printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/usr/local/bin:/usr/bin:/bin:/usr/games"],"Cmd":["/bin/sh"],"Labels":{"gantry.image":"debian","gantry.packages":"%s"}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
	"$(dpkg --print-architecture | sed 's/armhf/arm/; s/ppc64el/ppc64le/; s/i386/386/')" "$packages" "$sum" >"$dir/config.json"
id=$(sha256sum "$dir/config.json" | cut -d' ' -f1)
mv "$dir/config.json" "$dir/$id.json"
printf '[{"Config":"%s.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$id" "$name" >"$dir/manifest.json"
tar -C "$dir" -cf - "$id.json" layer.tar manifest.json | engine load -q >"$dir/log" 2>&1 ||
	die "docker load: $(tail -n 3 "$dir/log")" "if the disk is full, free space in the directory of the Docker Engine (docker system prune)"
say "built $name ($(du -m "$dir/layer.tar" | cut -f1) MB)"
