#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# All tests.  `make test` calls it when environment and rooms are built.
#
# First the C rooms under prove, then everything Python on one PostgreSQL (18), then
# the tests marked `extension` on 15, 16 and 17.  PG=n in the environment means: all
# of it, on that major only.  Two tests more than there are processors run at a time
# (JOBS=n: so many): most of them wait for servers.  A failure does not stop the rest; the
# summary at the end says what ran, what failed and what could not run and why.  A major
# that cannot be had is no failure.
set -u
trap 'exit 130' INT # not the next step
cd "$(dirname "$0")/.."

summary=()
failed=0
PGFLASH_SKIPS=$(mktemp "${TMPDIR:-/tmp}/pgflash-skips.XXXXXX") # what pytest did not try, and why
export PGFLASH_SKIPS
trap 'rm -f "$PGFLASH_SKIPS"' EXIT
verbosity=()
jobs=${JOBS:-$(($(nproc) + 2))}
[ "${V:-}" = 1 ] && verbosity=(-v)

# step TITLE COMMAND... : run it, remember how it ended.
step()
{
	local title=$1
	shift
	printf '\n==== %s\n' "$title"
	local begin=$SECONDS
	if "$@"; then
		summary+=("passed  $title ($((SECONDS - begin)) s)")
	else
		summary+=("FAILED  $title ($((SECONDS - begin)) s)")
		failed=1
	fi
}

# pg_major MAJOR TITLE PYTEST-ARGUMENTS... : run pytest on a major, if it can be had.
pg_major()
{
	local major=$1 title=$2 reason
	shift 2
	if reason=$(.venv/bin/python tools/pg.py "$major" 2>&1 >/dev/null); then
		step "$title on PostgreSQL $major" \
			.venv/bin/python -m pytest --pg-major="$major" --numprocesses="$jobs" \
			--dist=loadfile "${verbosity[@]}" "$@"
	else
		summary+=("NOT RUN $title on PostgreSQL $major: ${reason##*$'\n'}")
	fi
}

for room in core emulator extension; do
	step "$room" make --no-print-directory --jobs="$jobs" -C "$room" test \
		PROVE_FLAGS="--jobs=$jobs ${V:+-v}"
done

if [ -n "${PG:-}" ]; then
	pg_major "$PG" 'all Python tests' -m 'not soak and not postgres_check and not extensions_check'
else
	pg_major 18 'all Python tests' -m 'not soak and not postgres_check and not extensions_check'
	# The others need not even be looked at.
	mapfile -t marked < <(grep -rl --include='test_*.py' 'mark\.extension' tests | sort)
	for major in 17 16 15; do
		pg_major "$major" 'extension tests' "${marked[@]}" \
			-m 'extension and not soak and not postgres_check and not extensions_check'
	done
fi

printf '\n==== summary\n'
printf '%s\n' "${summary[@]}"
cat "$PGFLASH_SKIPS"
exit $failed
