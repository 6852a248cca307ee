#!/usr/bin/env bash
# What gantry setup runs, and make before there is a gantry:  setup.sh [compiler|runtime|engine]...
# Makes sure that a Docker Engine answers (engine), crun and slirp4netns are there (runtime), and a C compiler, which building needs (compiler); all by default.
# What is there already is left alone: nothing is installed, started or configured then, and nothing is ever removed.
# Otherwise, on Debian and Ubuntu and as root or through sudo, the packages of the distribution are used.
# Every change is announced before it is made.
set -euo pipefail

HOST=${DOCKER_HOST:-unix:///var/run/docker.sock} # as gantry's own client sees it: docker contexts do not count
SOCKET=${HOST#unix://}
LOG=/var/log/gantry-dockerd.log
WAIT=${GANTRY_DOCKER_WAIT:-60} # seconds for the engine to come up
SPACE=600                      # MB that the packages take

say() { echo "setup: $*"; }
die() {
	printf 'setup: %s\n' "$@" >&2
	exit 1
}

# ping [CMD...]: does an engine answer at the socket, for the user of CMD? Perl is essential on Debian, curl and the docker CLI are not.
ping() {
	"$@" timeout 20 perl -MIO::Socket::UNIX -e '
		my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or exit 1;
		print $s "GET /_ping HTTP/1.0\r\n\r\n"; local $/; exit(<$s> =~ m{^HTTP/1\.\d 200} ? 0 : 1)' "$SOCKET"
}

# answers: does an engine answer at $HOST, for this user?
answers() {
	if [[ $HOST == unix://* ]] && command -v perl >/dev/null; then
		ping
	elif command -v docker >/dev/null; then
		DOCKER_HOST=$HOST timeout 20 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
	else
		die "DOCKER_HOST=$HOST cannot be asked without a docker command: install the docker CLI, or unset DOCKER_HOST"
	fi
}

# answers_root: does it answer to root? Where root cannot be asked, a dockerd that runs is taken to answer.
answers_root() {
	if [[ $(id -u) != 0 && -S $SOCKET && ! -w $SOCKET ]]; then
		if sudo -n true 2>/dev/null; then ping sudo; else dockerd_runs; fi
	else
		answers
	fi
}

# as_root CMD...: by sudo where this is not root.
as_root() {
	if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

# may_change WHAT: ends with advice where this script has no means to do WHAT.
may_change() {
	if [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; then
		die "$1, which needs root, and there is no sudo here" "run this once as root: $0"
	fi
	if [[ $(id -u) != 0 ]] && ! sudo -n true 2>/dev/null && ! [[ -t 0 ]]; then
		die "$1, which needs root; sudo would ask for a password and there is no terminal" "run this once as root: sudo $0"
	fi
}

updated=
# update_lists fetches the package lists, once.
update_lists() {
	[[ -z $updated ]] || return 0
	updated=1
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq ||
		say "apt-get update gave errors; going on with the package lists that are there"
}

# half_installed prints the packages that dpkg has begun with and not ended.
half_installed() { dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -nE 's/^(half-.*|unpacked|triggers-.*) //p' | tr '\n' ' '; }

# why_not FILE: what to do about the errors of apt-get install in it.
why_not() {
	local half
	half=$(half_installed)
	if [[ -n $half ]] || grep -q 'dpkg was interrupted' "$1"; then
		echo "packages are half installed${half:+: $half}; end that (sudo dpkg --configure -a; sudo apt-get -f install), then try again"
	elif grep -qE 'Unable to locate|Unable to fetch|Failed to fetch|no installation candidate|Temporary failure' "$1"; then
		echo "look at the connection of this machine and at its package sources (/etc/apt; apt-get update), then try again"
	elif grep -qE 'need to be removed|remove is disabled' "$1"; then
		echo "other packages of this machine stand against it, and nothing is removed: install a Docker Engine that goes with them"
	else
		echo "repair that by hand, then try again"
	fi
}

install_packages() {
	local what="install $* from the distribution" ids='' out free
	[[ -r /etc/os-release ]] && ids=$(. /etc/os-release && echo "${ID:-} ${ID_LIKE:-}")
	if ! [[ " $ids " =~ \ (debian|ubuntu)\  ]] || ! command -v apt-get >/dev/null; then
		die "this is not Debian or Ubuntu (${ids:-unknown system}), so nothing was installed" \
			"install $* (or what it is called here) by the means of this system, then try again"
	fi
	may_change "$what"
	free=$(df -Pm /var | awk 'END { print $4 }')
	((free >= SPACE)) || die "$what: $free MB are free in /var, and $SPACE MB are needed" "free space there, then try again"
	say "$what (apt-get install $*)"
	update_lists
	# Newer releases have the docker command in a package of its own.
	if [[ " $* " == *" docker.io "* ]] && ! command -v docker >/dev/null && apt-cache show docker-cli >/dev/null 2>&1; then
		say "and docker-cli"
		set -- "$@" docker-cli
	fi
	out=$(mktemp)
	as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get install -y -qq --no-install-recommends --no-remove \
		-o DPkg::Lock::Timeout=300 "$@" >"$out" 2>&1 || {
		grep -E '^(E:|Err|dpkg:| .* : )' "$out" | head -n 8 >&2 || tail -n 5 "$out" >&2
		what=$(why_not "$out")
		rm -f "$out"
		die "apt-get install $* ended with an error (above)" "$what"
	}
	rm -f "$out"
}

ensure_compiler() {
	local cc=${CC:-$(go env CC 2>/dev/null || true)}
	cc=${cc:-gcc}
	# A compiler without headers is of no use to cgo, so try it.
	works() { echo '#include <stdlib.h>' | ${cc} -E -x c - >/dev/null 2>&1; }
	if works; then return; fi
	say "no working C compiler (${cc}); go-sqlite3 needs one"
	install_packages gcc libc6-dev
	works || die "the C compiler ${cc} does not work" "unset CC (and go env -u CC), then try again"
}

has_engine() { PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin command -v dockerd >/dev/null; }

install_engine() {
	local packages=(docker.io iptables ca-certificates)
	# The command is that of Docker's own packages: so is the engine.
	[[ $(dpkg-query -W -f '${db:Status-Status}' docker-ce-cli 2>/dev/null || true) != installed ]] || packages=(docker-ce containerd.io)
	# Where the kernel confines by AppArmor, containers start only with its parser.
	[[ $(cat /sys/module/apparmor/parameters/enabled 2>/dev/null || true) == Y ]] && packages+=(apparmor)
	# Without systemd nothing may have mounted the cgroup hierarchies.
	[[ -e /sys/fs/cgroup/cgroup.controllers || -d /sys/fs/cgroup/memory ]] || packages+=(cgroupfs-mount)
	install_packages "${packages[@]}"
}

# up SECONDS: waits for an answer. Root is asked, too: the engine may be up while this user may not use it.
up() {
	local end=$((SECONDS + $1))
	while ((SECONDS < end)); do
		if answers || answers_root; then return 0; fi
		sleep 0.3
	done
	return 1
}

dockerd_runs() { grep -qx dockerd /proc/[0-9]*/comm 2>/dev/null; }

# daemon FLAGS...: dockerd as a process of its own that outlives this script and its terminal.
daemon() {
	say "start dockerd $* (log: $LOG)"
	# shellcheck disable=SC2016
	as_root env PATH="$PATH:/usr/sbin:/sbin:/usr/local/sbin" bash -c \
		'log=$1; shift; cd /; setsid nohup dockerd "$@" >>"$log" 2>&1 </dev/null &' daemon "$LOG" "$@"
	local end=$((SECONDS + WAIT))
	sleep 0.5
	while ((SECONDS < end)); do
		if up 1; then return 0; fi
		dockerd_runs || return 1
	done
	return 1
}

# start_engine tries the ways to start an engine, the machine's own first.
start_engine() {
	may_change "start the Docker Engine"
	if [[ -d /run/systemd/system ]]; then
		say "start the engine (systemctl start docker)"
		if as_root systemctl start docker && up "$WAIT"; then return; fi
		die "the Docker Engine does not come up under systemd; the end of its log:" \
			"$(as_root journalctl -u docker -n 15 --no-pager 2>&1 || true)" "repair that (systemctl status docker), then try again"
	fi
	if [[ -x /etc/init.d/docker ]]; then
		say "start the engine (service docker start)"
		if as_root service docker start >/dev/null 2>&1 && up 15; then return; fi
		# The init script may have started what cannot live; give way before the next try.
		as_root service docker stop >/dev/null 2>&1 || true
	fi
	if dockerd_runs; then
		die "a dockerd runs, but does not answer at $HOST" "point DOCKER_HOST at its socket, or stop it, then try again"
	fi
	if daemon; then return; fi
	# Kernels without netfilter modules (small virtual machines) have an engine all the same: gantry's tasks use no network.
	if tail -n 40 "$LOG" 2>/dev/null | grep -qiE 'iptables|nf_tables|ip_tables|bridge|netfilter'; then
		say "the engine stumbles over the network set-up of this kernel; once more without iptables and bridge"
		if daemon --iptables=false --ip6tables=false --bridge=none; then return; fi
	fi
	die "the Docker Engine does not come up; the end of its log ($LOG, /var/log/docker.log):" \
		"$(as_root tail -n 15 "$LOG" 2>&1 || true)" "repair that, or set DOCKER_HOST to an engine elsewhere, then try again"
}

# Containers without a daemon are optional: what is missing for them is no error.
ensure_runtime() {
	local program missing=()
	for program in crun slirp4netns; do
		PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin command -v $program >/dev/null || missing+=("$program")
	done
	((${#missing[@]})) || return 0
	say "no ${missing[*]}; gantry run --runtime oci is fastest with crun, and gives tasks a network by slirp4netns"
	(install_packages "${missing[@]}") || say "without ${missing[*]}: --runtime oci needs runc, and --network needs --runtime docker then"
}

ensure_engine() {
	if answers; then return; fi
	if [[ -n ${DOCKER_HOST:-} && $SOCKET != /var/run/docker.sock && $SOCKET != /run/docker.sock ]]; then
		die "no Docker Engine answers at DOCKER_HOST=$DOCKER_HOST" "start it, or unset DOCKER_HOST to use an engine of this machine"
	fi
	if ! answers_root; then
		if [[ -S $SOCKET ]] && ! dockerd_runs; then
			say "no Docker Engine answers at $HOST: its socket is there, and no dockerd runs"
		else
			say "no Docker Engine answers at $HOST"
		fi
		local half
		half=$(half_installed)
		if [[ $half == *docker* || $half == *containerd* ]]; then
			die "packages of the Docker Engine are half installed: $half" "end that (sudo dpkg --configure -a; sudo apt-get -f install), then try again"
		fi
		has_engine || install_engine
		up 2 || start_engine
	fi
	# Installed and started now, or there all along: may this user talk to it?
	if [[ $(id -u) != 0 ]] && ! answers; then
		if sudo -n true 2>/dev/null || [[ -t 0 ]]; then
			say "the engine answers to root only (user $(id -un) is not in the group docker): gantry is run through sudo"
			return
		fi
		die "a Docker Engine is there, but user $(id -un) may not use it" \
			"add the user to its group (sudo usermod -aG docker $(id -un)), log in again, then try again"
	fi
	say "the engine answers at $HOST"
}

(($#)) || set -- compiler runtime engine
for step in "$@"; do
	"ensure_$step"
done
