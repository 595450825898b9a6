#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Run a command with its own temporary folders: TMPDIR, and MEMDIR in memory.
#
#	tools/scratch.sh COMMAND...
#
# A test that aborts, as negative controls do, or is killed, cannot clean up. Both folders are
# removed when the command is over, however it ended. On a signal to end (make passes its signals to
# its children), it interrupts the command with all that it runs, as Ctrl-C does, and waits for it.
# If it is killed itself, the folders are removed when it runs the next time: a run that is alive,
# or has left a process behind, holds a lock on its own.
set -u

folders=("${TMPDIR:-/tmp}" "${MEMDIR:-/dev/shm}")
for folder in "${folders[@]}"; do
	# Not the newest: their owners may be about to lock them.
	find "$folder" -maxdepth 1 -type d -name 'pgflash-scratch.*' -user "$(id -u)" -mmin +1 \
		-exec flock -n {} rm -rf {} \; 2>/dev/null
done

TMPDIR=$(mktemp -d "${folders[0]}/pgflash-scratch.XXXXXX") || exit 1
MEMDIR=$(mktemp -d "${folders[1]}/pgflash-scratch.XXXXXX" 2>/dev/null || echo "$TMPDIR")
export TMPDIR MEMDIR
trap 'rm -rf "$TMPDIR" "$MEMDIR"' EXIT
chmod 1777 "$TMPDIR" "$MEMDIR" # servers run as another user
exec 8<"$TMPDIR" 9<"$MEMDIR"
flock -n 8
flock -n 9

# interrupt PROCESS: and then those that it has started, so that none takes another step.
interrupt()
{
	local children child
	children=$(pgrep -P "$1")
	kill -INT "$1" 2>/dev/null
	for child in $children; do
		interrupt "$child"
	done
}

# told SIGNAL: interrupt the command if it has been started.
told()
{
	told=$1
	[ -z "$job" ] || interrupt "$job"
}

trap '' INT # Ctrl-C also reaches the command, which answers
told=0      # by another signal, while it waited
job=
trap 'told 15' TERM
trap 'told 1' HUP

# A background job of a script ignores interrupts and has no input by default.
env --default-signal=INT,QUIT "$@" <&0 &
job=$!
[ $told = 0 ] || kill "$job" 2>/dev/null # until env runs, it would ignore an interrupt
# A wait that was ended by a signal says nothing about the command.
while told=0; wait "$job"; status=$?; [ $told -gt 0 ] && [ $status = $((128 + told)) ]; do :; done
exit $status
