#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Empty the folder that a script writes its results to; for scripts that source this file.

# empty FOLDER TESTS... : remove an earlier run's results, or make the folder.  They are what TESTS
# of find say; if anything else is there, the user has named a wrong folder, and nothing is removed.
# It ends by the script's own fail().
empty()
{
	local folder=$1 other
	shift
	mkdir -p "$folder"
	other=$(find "$folder" -mindepth 1 -maxdepth 1 ! \( "$@" \) -printf '%f' -quit)
	[ -z "$other" ] || fail "$folder would be emptied first, but $other in it is not from an earlier run." \
		'Nothing is removed: name another folder, or empty it yourself.'
	find "$folder" -mindepth 1 -delete
}
