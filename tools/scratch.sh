#!/usr/bin/env bash
# Run a command with folders of its own for what it leaves: TMPDIR, and MEMDIR in memory.
#
#	tools/scratch.sh COMMAND...
#
# A test that aborts, as negative controls do, or is killed, cannot tidy up after itself.
# Both folders go when the command is over, however it ended.
set -u

TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/pgflash-run.XXXXXX") || exit 1
MEMDIR=$(mktemp -d "${MEMDIR:-/dev/shm}/pgflash-run.XXXXXX" 2>/dev/null || echo "$TMPDIR")
export TMPDIR MEMDIR
chmod 1777 "$TMPDIR" "$MEMDIR" # servers run as another user
trap 'rm -rf "$TMPDIR" "$MEMDIR"' EXIT

"$@"
