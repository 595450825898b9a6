#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Build and test on Debians of several ages, each with its own compiler and its own PostgreSQL.
#
#	tools/matrix.sh [FOLDER]        as root; needs debootstrap and a network
#
#	ROWS="bookworm trixie sid experimental"     which; all by default
#	TESTS="tests/... tests/..."                 which tests of the extension; a first set by default
#
# FOLDER (out/matrix) keeps the Debians, 1 to 3 GB each, which a later run uses again; one that
# debootstrap has made elsewhere may be put there.  sid and experimental change every day, and stay
# as they are until their folders are removed.  In each, in namespaces of its own, an ordinary user
# clones this repository's last commit and runs the C tests, with warnings as errors, and tests of
# the extension on a copy of the Debian's newest PostgreSQL.  FOLDER/ROW.txt says what was there
# and how it ended; FOLDER/ROW.log has the whole output.
set -eu
clone=$(realpath "$(dirname "$0")/..")

fail()
{
	printf 'matrix: %s\n' "$@" >&2
	exit 1
}

# What may go wrong differently on another system: stale blocks, crashes, the import table,
# counts, and SQL.
first_set="tests/cluster/hooks/test_never_stale_ddl.py tests/cluster/hooks/test_never_stale_load.py
	tests/cluster/account/test_account.py tests/cluster/server/test_installcheck.py
	tests/crash/test_kill.py tests/crash/test_warm_restart.py tests/crash/test_warm_crash.py
	tests/hostile/test_libraries_that_write.py tests/unit/extension/hooks"

# ---- outside: make each Debian, and go in

packages=ca-certificates,git,gcc,libc6-dev,make,perl,procps,python3-venv,util-linux

# make_debian ROW: a Debian in FOLDER/ROW.
make_debian()
{
	local row=$1 suite=${1/experimental/sid} mirror
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
	rm -rf "$folder/$row.new"
	debootstrap --variant=minbase --include="$packages" "$suite" "$folder/$row.new" "$mirror" \
		>"$folder/$row.debootstrap.log" || return 1
	if [ "$row" = experimental ]; then
		echo "deb $mirror experimental main" >"$folder/$row.new/etc/apt/sources.list.d/experimental.list"
	fi
	mv "$folder/$row.new" "$folder/$row"
}

# enter ROW: run this script in it.
enter()
{
	local root=$folder/$1 file
	mkdir -p "$root/repository" "$root/dev/shm"
	# How this machine reaches the network, the Debian does too.
	for file in /etc/resolv.conf /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
		[ ! -e "$file" ] || { mkdir -p "$root$(dirname "$file")" && cp -L "$file" "$root$file"; }
	done
	git -C "$clone" archive --format=tar HEAD tools/matrix.sh | tar -x -C "$root"
	unshare --mount --pid --fork --kill-child -- bash -euc '
		cd "$1"
		mount --bind . . && cd "$1"
		mount --bind "$2" repository
		mount -t proc proc proc
		mount --rbind /sys sys
		mount --rbind /dev dev
		mount -t tmpfs shm dev/shm
		exec chroot . /usr/bin/env TESTS="$3" /tools/matrix.sh inside' \
		matrix "$root" "$clone" "${TESTS:-$first_set}"
}

if [ "${1:-}" != inside ]; then
	folder=$(realpath -m "${1:-$clone/out/matrix}")
	[ "$(id -u)" = 0 ] || fail 'it takes root: Debians are made and entered by chroot'
	command -v debootstrap >/dev/null || fail 'apt-get install debootstrap'
	git config --global --get-all safe.directory | grep -qxF -e '*' -e "$clone" ||
		export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
	mkdir -p "$folder"
	failed=0
	for row in ${ROWS:-bookworm trixie sid experimental}; do
		printf '\n==== %s\n' "$row"
		rm -f "$folder/$row.txt"
		if [ ! -e "$folder/$row" ] && ! make_debian "$row"; then
			echo "not run: debootstrap failed, see $folder/$row.debootstrap.log" >"$folder/$row.txt"
			failed=1
			continue
		fi
		enter "$row" 2>&1 | tee "$folder/$row.log" || true
		cp "$folder/$row/srv/builder/matrix.txt" "$folder/$row.txt" 2>/dev/null ||
			echo 'not run: it did not begin' >"$folder/$row.txt"
		grep -q '^passed$' "$folder/$row.txt" || failed=1
	done
	printf '\n==== summary\n'
	for row in ${ROWS:-bookworm trixie sid experimental}; do
		printf '%s\n' "$row:"
		sed 's/^/    /' "$folder/$row.txt"
	done
	exit $failed
fi

# ---- inside: a machine with a compiler, and a user

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
id builder >/dev/null 2>&1 ||
	useradd --create-home --home-dir /srv/builder --shell /bin/bash builder
rm -rf /srv/builder/pgflash /srv/builder/matrix.txt
apt=(apt-get --quiet --quiet -o Acquire::Check-Valid-Until=false)
"${apt[@]}" update
"${apt[@]}" install --yes --no-install-recommends ${packages//,/ } >/dev/null
git config --system --replace-all safe.directory '*'

# user COMMANDS: what the user runs, in the clone.
user()
{
	su - builder -c "set -eu; cd pgflash; export PGFLASH_CACHE=/srv/builder/cache WERROR=-Werror; $1"
}

report=/srv/builder/matrix.txt
su - builder -c 'git clone --quiet /repository pgflash'
user 'make venv-dev'
# The library's needs come with the server: a package's scripts would start one.
config=$(user '.venv/bin/python tools/pg.py debian')
{
	echo "Debian $(cat /etc/debian_version), $(gcc --version | head -n 1), $(ldd --version | head -n 1)"
	echo "$("$config" --version), Linux $(uname -r), commit $(user 'git rev-parse --short HEAD')"
} >"$report"
cat "$report"

# step COMMANDS: run them as the user and note how they ended.
step()
{
	if user "$1"; then echo "ok: $1" >>"$report"; else echo "FAILED: $1" >>"$report"; fi
}

step 'make -C core test'
step 'make -C emulator test'
step "make -C extension test PG_CONFIG=$config"
step "tools/scratch.sh .venv/bin/python -m pytest --quiet --pg-major=debian --no-controls --numprocesses=2 --dist=loadfile -m extension $(echo $TESTS)"
grep -q '^FAILED' "$report" || echo passed >>"$report"
cat "$report"
