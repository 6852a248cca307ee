# Sourced by the scripts here.
VM=${GANTRY_VM_DIR:-$PWD/bin/vm}

say() { echo "vm: $*"; }
die() {
	printf 'vm: %s\n' "$@" >&2
	exit 1
}

# need PROGRAM PACKAGE: installs the distribution's package if the program is missing.
need() {
	PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null && return
	command -v apt-get >/dev/null || die "$1 is missing, and this is not Debian or Ubuntu: install it, then try again"
	[[ $(id -u) == 0 ]] || die "$1 is missing: apt-get install $2 (or run this as root)"
	say "install $2 from the distribution (apt-get install $2)"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1 ||
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null; } ||
		die "apt-get install $2 failed: repair that, then try again"
}
