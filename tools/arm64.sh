#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# The tests of core and of the extension's parts for 64-bit ARM, on any machine.
#
#	tools/arm64.sh [core|extension]...
#
# Debian's cross compiler builds them; qemu-user runs them, first with pages of 4 kB, then
# with pages of 64 kB, which some kernels for ARM have.  qemu-user makes the system calls of
# this machine's kernel, and has no Linux AIO: tests that need AIO are skipped, and say so.  A
# run takes about five minutes of CPU time.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=aarch64-linux-gnu-
for needed in "${prefix}gcc:gcc-aarch64-linux-gnu" qemu-aarch64-static:qemu-user-static prove:perl; do
	command -v "${needed%%:*}" >/dev/null || {
		echo "tools/arm64.sh: ${needed%%:*} is missing: apt-get install ${needed##*:}" >&2
		exit 3
	}
done

# The leak checker needs ptrace, which qemu-user lacks.
export ASAN_OPTIONS=detect_leaks=0
[ $# -gt 0 ] || set -- core extension
build=(FOR=arm64)
for pages in 4096 65536; do
	# The address sanitizer does not support pages of that size here.
	[ "$pages" = 4096 ] || build=(FOR=arm64-plain SANITIZE=)
	for room; do
		echo "---- $room, pages of $((pages / 1024)) kB"
		make --no-print-directory -C "$room" test "${build[@]}" CC="${prefix}gcc" AR="${prefix}ar" NM="${prefix}nm" \
			RUN="qemu-aarch64-static -L /usr/aarch64-linux-gnu -p $pages" PROVE_FLAGS="${PROVE_FLAGS:-}"
	done
done
