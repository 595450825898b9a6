#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Make .venv from a lock file, or do nothing if it is current.
#
#	tools/venv.sh requirements.lock | requirements-dev.lock
#
# .venv/.ready-LOCK names its sources (lock file, this folder, Python) and
# is written last, so a half-made or moved .venv is made again.  Two makes at once wait
# for each other.  PYTHON=... picks the interpreter.
set -eu
trap 'exit 130' INT # pip's own complaint is enough
cd "$(dirname "$0")/.."
lock=$1

fail()
{
	printf 'pgflash: %s\n' "$@" >&2
	exit 1
}

usable()
{
	"$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

python=${PYTHON:-}
if [ -z "$python" ]; then
	for candidate in /usr/bin/python3 python3 python3.11 python3.12 python3.13; do
		if usable "$candidate" && "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
			python=$candidate
			break
		fi
	done
fi
[ -n "$python" ] || fail \
	'Python 3.11 or later with venv and ensurepip is needed, and none was found.' \
	'On Debian: apt-get install python3-venv   (or name one: make PYTHON=/path/to/python3)'
usable "$python" || fail "$python is not Python 3.11 or later."

exec 9>.venv.lock || fail "This folder cannot be written: work in a clone of your own."
flock 9

place="$PWD $("$python" -c 'import sys; print(sys.version.split()[0], sys.executable)')"

# The sources of a finished .venv.
mark()
{
	printf '%s\n' "$place"
	sha256sum "$1" pyproject.toml lab/pyproject.toml
}

# Say whether .venv was made from this lock file, here, and completely.
ready()
{
	[ -x .venv/bin/python ] && [ -f ".venv/.ready-$1" ] &&
		mark "$1" | cmp -s - ".venv/.ready-$1"
}

# The development tools come with all that a user needs.
if ready "$lock" || ready requirements-dev.lock; then
	exit 0
fi

# With pip's temporary files.
needed_mb=300
[ "$lock" = requirements.lock ] || needed_mb=700
free_mb=$(($(df --output=avail -k . | tail -n 1) / 1024))
[ "$free_mb" -ge "$needed_mb" ] || fail \
	"This folder's disk has $free_mb MB of free space, and .venv needs $needed_mb MB."

echo "Installing $lock into .venv (once) ..."
# A finished .venv of this folder and this Python gets the additions of the new lock in place, so
# that running programs keep it; anything else starts over.
if [ "$(cat .venv/.place 2>/dev/null)" = "$place" ] && ls .venv/.ready-* >/dev/null 2>&1; then
	rm -f .venv/.ready-*
else
	rm -rf .venv
	"$python" -m venv .venv || fail \
		"$python could not make a virtual environment." \
		'On Debian: apt-get install python3-venv'
	printf '%s\n' "$place" >.venv/.place
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# /tmp may be too small for what pip unpacks.
export TMPDIR=$PWD/.venv/tmp
mkdir -p "$TMPDIR"
trap 'rm -rf "$TMPDIR"' EXIT
# What is used is compiled at its first use; compiling everything would take as long as the rest.
.venv/bin/python -m pip install --quiet --no-compile --require-hashes -r "$lock" || fail \
	'The Python packages could not be installed; pip says why, above.' \
	'Run the same command again when that is mended; what was downloaded is kept.'
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation -e . -e lab ||
	fail 'pgflash itself could not be installed into .venv.'
mark "$lock" >".venv/.ready-$lock"
