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
# as they are until their folders are removed.  In each, in separate namespaces, an ordinary user
# clones this repository's last commit and runs the C tests, with warnings as errors, and tests of
# the extension on a copy of the Debian's newest PostgreSQL.  FOLDER/ROW.txt has the versions and
# the results; FOLDER/ROW.log has the whole output.
set -eu
clone=$(realpath "$(dirname "$0")/..")
. "$clone/tools/debians.sh"

# Tests whose result may differ on another system: stale blocks, crashes, the import table, counts,
# and SQL.
first_set="tests/cluster/hooks/test_never_stale_ddl.py tests/cluster/hooks/test_never_stale_load.py
	tests/cluster/account/test_account.py tests/cluster/server/test_installcheck.py
	tests/crash/test_kill.py tests/crash/test_warm_restart.py tests/crash/test_warm_crash.py
	tests/hostile/test_libraries_that_write.py tests/unit/extension/hooks"

# ---- outside: make each Debian, and go in

packages=ca-certificates,git,clang,gcc,libc6-dev,make,perl,procps,python3-venv,util-linux

if [ "${1:-}" != inside ]; then
	folder=$(realpath -m "${1:-$clone/out/matrix}")
	need_debians
	mkdir -p "$folder"
	failed=0
	for row in ${ROWS:-bookworm trixie sid experimental}; do
		printf '\n==== %s\n' "$row"
		rm -f "$folder/$row.txt"
		if [ ! -e "$folder/$row" ] && ! make_debian "${row/experimental/sid}" "$folder/$row" "$packages"; then
			echo "not run: debootstrap failed, see $folder/$row.debootstrap.log" >"$folder/$row.txt"
			failed=1
			continue
		fi
		[ "$row" != experimental ] || echo "deb $(debian_mirror) experimental main" \
			>"$folder/$row/etc/apt/sources.list.d/experimental.list"
		enter_debian "$folder/$row" matrix.sh TESTS="${TESTS:-$first_set}" -- 2>&1 | tee "$folder/$row.log" || true
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
# Unpacked, not installed: the scripts of a package would start a server.
config=$(user '.venv/bin/python tools/pg.py debian')
{
	echo "Debian $(cat /etc/debian_version), $(gcc --version | head -n 1), $(clang --version | head -n 1), $(ldd --version | head -n 1)"
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
step 'tools/scratch.sh .venv/bin/python -m pytest --quiet --pg-major=debian tests/unit/extension/test_makefile.py'
step "tools/scratch.sh .venv/bin/python -m pytest --quiet --pg-major=debian --no-controls --numprocesses=2 --dist=loadfile -m extension $(echo $TESTS)"
grep -q '^FAILED' "$report" || echo passed >>"$report"
cat "$report"
