#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# All tests.  `make test` calls it after building the environment and the rooms.
#
# First the C rooms under prove, then everything Python on one PostgreSQL (18), and beside
# it the tests marked `extension` on 19, 17, 16 and 15, without the negative controls, which
# 18 runs.  15, the oldest, runs all of these, and the others what deals with the server's own
# code, files and processes.  With PG=n in the environment, everything runs on that one only.
# Twelve tests for two processors run at a time (JOBS=n: so many), since most of them wait for
# servers; 18 has most of the work, and seven of them.  A failure does not stop the rest;
# the summary at the end says what ran, what failed and what could not run and why.  A major
# that is not available is no failure.
set -u
trap 'wait; exit 130' INT # not the next step, and nothing that still runs is left behind
cd "$(dirname "$0")/.."

kept=$(mktemp -d "${TMPDIR:-/tmp}/pgflash-test.XXXXXX")
trap 'rm -rf "$kept"' EXIT
summary=$kept/summary
export PGFLASH_SKIPS=$kept/skips # tests that pytest skipped, and why
touch "$summary" "$PGFLASH_SKIPS"
verbosity=()
jobs=${JOBS:-$(($(nproc) * 6))}
[ "${V:-}" = 1 ] && verbosity=(-v)

# step TITLE COMMAND... : run it, remember how it ended.
step()
{
	local title=$1
	shift
	printf '\n==== %s\n' "$title"
	local begin=$SECONDS
	if "$@"; then
		echo "passed  $title ($((SECONDS - begin)) s)" >>"$summary"
	else
		echo "FAILED  $title ($((SECONDS - begin)) s)" >>"$summary"
	fi
}

# pg_major MAJOR JOBS TITLE PYTEST-ARGUMENTS... : run pytest on a major, if it is available.
pg_major()
{
	local major=$1 jobs=$2 title=$3 reason
	shift 3
	if reason=$(.venv/bin/python tools/pg.py "$major" 2>&1 >/dev/null); then
		step "$title on PostgreSQL $major" \
			.venv/bin/python -m pytest --pg-major="$major" --numprocesses="$jobs" \
			--dist=loadfile "${verbosity[@]}" "$@"
	else
		echo "NOT RUN $title on PostgreSQL $major: ${reason##*$'\n'}" >>"$summary"
	fi
}

# Python's files are compiled once, not by each of a thousand processes.
unset PYTHONDONTWRITEBYTECODE
.venv/bin/python -m pytest --collect-only -q >/dev/null 2>&1 &

room()
{
	step "$1" make --no-print-directory --jobs="$jobs" -C "$1" test \
		PROVE_FLAGS="--jobs=$jobs ${V:+-v}"
}

# The emulator's tests wait most of the time.
room emulator >"$kept/emulator" 2>&1 &
room core
room extension
wait # for both
cat "$kept/emulator"

all='not soak and not postgres_check and not extensions_check and not monitoring_check and not older_check'
if [ -n "${PG:-}" ]; then
	pg_major "$PG" "$jobs" 'all Python tests' -m "$all"
else
	# The other files need not even be read.
	mapfile -t outer < <(grep -rl --include='test_*.py' 'mark\.extension' tests | sort)
	mapfile -t inner < <(printf '%s\n' "${outer[@]}" | grep -E \
		'/cluster/(account|bridge|hooks|sampler|server|statement)/|/crash/|/unit/')
	share=$(((jobs + 11) / 12))
	declare -A running
	for major in 19 17 16 15; do
		marked=("${outer[@]}")
		[[ $major == 1[679] ]] && marked=("${inner[@]}")
		pg_major "$major" $((major == 15 ? 2 * share : share)) 'extension tests' \
			"${marked[@]}" --no-controls \
			-m "extension and $all" >"$kept/$major" 2>&1 &
		running[$major]=$!
	done
	own=$((jobs - 5 * share))
	pg_major 18 $((own > 1 ? own : 1)) 'all Python tests' -m "$all"
	for major in 19 17 16 15; do
		wait "${running[$major]}" || echo "FAILED  extension tests on PostgreSQL $major" >>"$summary"
		cat "$kept/$major"
	done
fi

printf '\n==== summary\n'
cat "$summary" "$PGFLASH_SKIPS"
! grep -q '^FAILED' "$summary"
