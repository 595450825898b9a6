#!/bin/sh
# Negative controls: each build of hooks_test with one safeguard left out must fail a
# test that bears the safeguard's name.  A TAP program, run by prove.
# usage: negative_controls.sh FOLDER NAME...   (FOLDER/hooks-NAME.t)
# SPDX-License-Identifier: PostgreSQL
folder=$1
shift
number=0
failures=0
for name; do
	number=$((number + 1))
	# Not grep -q: the program must come to its end, where it tidies up.
	if "$folder/hooks-$name.t" | grep "^not ok [0-9]* - $name: " >/dev/null; then
		echo "ok $number - a library without $name is found out"
	else
		echo "not ok $number - a library without $name is found out"
		failures=$((failures + 1))
	fi
done
echo "1..$number"
exit $((failures > 0))
