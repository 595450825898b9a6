#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Refuse a commit whose subject is longer than 72 characters: lists of commits cut it off.
#
#	tools/subject.sh FILE    the file of the message, as git gives it to a commit-msg hook
#
# Commits that git words itself (merges, reverts, fixups to be squashed) are let through.
set -euo pipefail

most=72
subject=$(grep -v '^#' "$1" | sed -n '/[^[:space:]]/{p;q}' || true)
case $subject in
	'Merge '* | 'Revert '* | 'fixup! '* | 'squash! '* | 'amend! '*) exit 0 ;;
esac
LC_ALL=C.UTF-8
if [ "${#subject}" -gt "$most" ]; then
	printf 'The subject has %d characters, %d at most:\n%s\n' "${#subject}" "$most" "$subject" >&2
	exit 1
fi
