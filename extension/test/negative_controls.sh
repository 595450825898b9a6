#!/bin/sh
# SPDX-License-Identifier: PostgreSQL
# Negative controls: each build of a test with one safeguard left out must fail a test
# that has the safeguard's name, and end by itself.  A TAP program, run by prove.
# $RUN runs a program of another machine.
# usage: negative_controls.sh FOLDER/TEST-NAME.t...
number=0
failures=0
for program; do
	name=${program##*-}
	name=${name%.t}
	number=$((number + 1))
	said=$($RUN "$program")
	status=$?
	case $said in
	'1..0 # SKIP '*)
		echo "ok $number - a library without $name # SKIP ${said#*SKIP }"
		continue
		;;
	esac
	# 1: it ended by itself, cleaned up, and something failed.
	if [ $status = 1 ] && printf '%s\n' "$said" | grep -q "^not ok [0-9]* - $name: "; then
		echo "ok $number - a library without $name is found out"
	else
		echo "not ok $number - a library without $name is found out"
		failures=$((failures + 1))
	fi
done
echo "1..$number"
exit $((failures > 0))
