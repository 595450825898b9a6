#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Build the wheels of pgflash and of its lab, and install each alone, as a user does.
#
#	tools/wheels.sh [FOLDER]    into FOLDER (out/wheels), from which earlier wheels are removed
#
# Built twice, the wheels must be equal: times are those of the last commit.  Then pgflash, pgflash
# with its live page, and the lab go into an empty environment each, with what they need from an
# index; only pgflash itself comes from FOLDER.  There its commands answer, pip finds nothing
# missing, and no module is of this folder.
set -eu
cd "$(dirname "$0")/.."
. tools/folder.sh
python=$PWD/.venv/bin/python
folder=$(realpath -m "${1:-out/wheels}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail()
{
	printf 'wheels: %s\n' "$@" >&2
	exit 1
}

# build FOLDER: both wheels.
build()
{
	local room
	for room in . lab; do
		(cd "$room" && "$python" -m hatchling build -t wheel -d "$1" >/dev/null 2>&1) || fail "no wheel of $room"
	done
}

SOURCE_DATE_EPOCH=$(git -c safe.directory='*' log -1 --format=%ct)
export SOURCE_DATE_EPOCH
empty "$folder" -type f \( -name 'pgflash-[0-9]*.whl' -o -name 'pgflash_lab-[0-9]*.whl' \)
build "$folder"
build "$scratch/again"
diff -r "$folder" "$scratch/again" || fail 'the same commit gave two wheels'
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset SOURCE_DATE_EPOCH

# check NAME REQUIREMENT COMMANDS: they are run by a shell that knows only that environment.
check()
{
	local venv=$scratch/$1
	"$python" -m venv "$venv"
	"$venv/bin/pip" install --quiet --find-links "$folder" "$2" || fail "$2 does not install alone"
	"$venv/bin/pip" check >/dev/null || fail "$2 leaves something missing"
	(cd "$scratch" && env -i PATH="$venv/bin:/usr/bin:/bin" HOME="$scratch" sh -euc "$3" >"$scratch/said" 2>&1) ||
		fail "$2: $(tail -n 3 "$scratch/said")"
	rm -rf "$venv"
	echo "ok: ${2##*/} alone"
}

wheel=$(ls "$folder"/pgflash-[0-9]*.whl)
lab=$(ls "$folder"/pgflash_lab-*.whl)
answers='pgflash --version; pgflash report --help; pgflash completion bash'
check alone "$wheel" "$answers; if pgflash lab list; then exit 1; fi"
check web "$wheel[web]" "$answers; python -c 'import pgflash.web.serve'"
check lab "$lab" "$answers; pgflash lab list; pgflash cost --help"
ls -l "$folder"
