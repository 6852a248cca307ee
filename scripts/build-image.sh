#!/usr/bin/env bash
# Builds the image gantry/busybox:latest, on which the real tasks of examples/ run: Debian's or Ubuntu's busybox-static, links for its
# commands, and nothing else. No registry is asked. Does nothing if the image is there; --force builds it again.
set -euo pipefail

REF=gantry/busybox:latest
. "$(dirname "${BASH_SOURCE[0]}")/engine.sh"

say() { echo "build-image: $*"; }
die() {
	printf 'build-image: %s\n' "$@" >&2
	exit 1
}

command -v docker >/dev/null || die "there is no docker command: install it (apt-get install docker-cli, or docker.io), then try again"

if [[ ${1:-} != --force ]] && engine image inspect "$REF" >/dev/null 2>&1; then
	exit 0
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
root=$dir/root
mkdir -p "$root"/{bin,etc,tmp,usr}

# The program: from the package if it is installed, else from the package's archive, which needs no installation.
busybox=$(dpkg -L busybox-static 2>/dev/null | grep -E '/bin/busybox$' | head -n 1 || true)
if [[ -z $busybox || ! -x $busybox ]]; then
	command -v apt-get >/dev/null || die "this is not Debian or Ubuntu: put a static busybox into an image $REF by other means"
	say "fetch busybox-static from the distribution (apt-get download; nothing is installed)"
	chmod 755 "$dir"
	if ! (cd "$dir" && apt-get download -qq busybox-static >"$dir/log" 2>&1); then
		say "fetch new package lists (apt-get update)"
		if [[ $(id -u) == 0 ]]; then apt-get update -qq; else sudo apt-get update -qq; fi
		(cd "$dir" && apt-get download -qq busybox-static >"$dir/log" 2>&1) ||
			die "apt-get download busybox-static: $(cat "$dir/log")" "look at the package sources of this machine, then try again"
	fi
	dpkg -x "$dir"/busybox-static_*.deb "$dir/deb"
	busybox=$(find "$dir/deb" -path '*/bin/busybox' | head -n 1)
fi

say "build $REF from $("$busybox" | head -n 1)"
cp "$busybox" "$root/bin/busybox"
chmod 755 "$root/bin/busybox"
for applet in $("$busybox" --list); do
	[[ $applet == busybox ]] || ln -s busybox "$root/bin/$applet"
done
ln -s ../bin "$root/usr/bin" # for scripts that begin with #!/usr/bin/env
chmod 1777 "$root/tmp"
printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"

tar -C "$root" --numeric-owner --owner=0 --group=0 -cf - . |
	engine import -c 'ENV PATH=/bin' -c 'CMD ["sh"]' -c 'LABEL gantry.image=busybox' - "$REF" >/dev/null
say "built $REF"
