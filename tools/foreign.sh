#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Real servers of other platforms: do they serve hits, and only right ones?
#
#	tools/foreign.sh arm64|alpine...        as root; needs a network the first time
#
# arm64: a server for 64-bit ARM, run by qemu-user.  alpine: one for Alpine Linux, whose C
# library is musl.  Both are from Maven Central; headers are those of tools/pg.py's 17.  The
# extension is built by gcc-aarch64-linux-gnu or musl-gcc.  Under pgflash.verify = all, each
# server reads a table that is larger than its memory between changes, is killed in the middle
# of one (kill -9), recovers, and reads again.  It must serve hits before and after, all of
# them equal to the file, and lose no row.
#
# Negative control: with FC_BREAK=WRITE in the environment, a build that leaves out the
# announcement of writes, it must fail.
#
# qemu-user lacks Linux AIO, io_uring, cachestat, and mincore of memory that cannot be read.
# So arm64 reads flash by plain calls, and asks no page cache.
set -euo pipefail
cd "$(dirname "$0")/.."
version=17.5.0 # Maven Central has it for both; the newest such is 18.4.0 (November 2026)
port=5432      # of the socket's name alone

fail()
{
	printf 'foreign: %s\n' "$@" >&2
	exit 1
}

need()
{
	command -v "$1" >/dev/null || fail "$1 is missing: apt-get install $2"
}

as_postgres()
{
	setpriv --reuid=postgres --regid=postgres --clear-groups env HOME="$folder" LC_ALL=C "$@"
}

sql()
{
	psql --host="$folder" --port="$port" --username=postgres --no-psqlrc --quiet --no-align --tuples-only \
		--set=ON_ERROR_STOP=1 --dbname=postgres "$@"
}

# ---- parts

# fetch NAME: the binaries, into $folder/pg.
fetch()
{
	local group=io.zonky.test.postgres artifact=embedded-postgres-binaries-$1
	local kept=${PGFLASH_CACHE:-/var/cache/pgflash}/maven
	local jar=$kept/${group//.//}/$artifact/$version/$artifact-$version.jar
	[ -e "$jar" ] || mvn --quiet --batch-mode dependency:get "-Dmaven.repo.local=$kept" -Dtransitive=false \
		"-Dartifact=$group:$artifact:$version" >"$folder/mvn.log" 2>&1 ||
		fail "Maven has no $artifact $version: $(tail -n 1 "$folder/mvn.log")"
	mkdir "$folder/pg"
	unzip -q -d "$folder/jar" "$jar"
	tar -xf "$folder"/jar/*.txz -C "$folder/pg"
}

# build FOR CC...: the extension, into the server's folders.
build()
{
	local machine=$1 pg_config built
	built=extension/build/$machine-17${FC_BREAK:+-broken-$FC_BREAK}
	shift
	pg_config=$(tools/pg.py 17)
	make --silent --no-print-directory -C extension all FOR="$machine" FC_BREAK="${FC_BREAK:-}" "$@" PG_CONFIG="$pg_config" >"$folder/build.log" 2>&1 ||
		fail "the extension does not build: $folder/build.log"
	cp "$built/pgflash.so" "$folder/pg/lib/postgresql/"
	cp "$built"/pgflash--*.sql extension/pgflash.control "$folder/pg/share/postgresql/extension/"
}

make_arm64()
{
	need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
	need qemu-aarch64-static qemu-user-static
	fetch linux-arm64v8
	build arm64 CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar
	# initdb starts it by its name, which this machine's kernel cannot run.
	mv "$folder/pg/bin/postgres" "$folder/pg/bin/postgres.arm64"
	printf '#!/bin/sh\nexec %s "${0%%/*}/postgres.arm64" "$@"\n' "$run" >"$folder/pg/bin/postgres"
	chmod 755 "$folder/pg/bin/postgres"
}

make_alpine()
{
	need musl-gcc musl-tools
	fetch linux-amd64-alpine
	# musl's compiler knows only musl's own headers.
	mkdir "$folder/kernel"
	ln -s /usr/include/linux /usr/include/asm-generic /usr/include/x86_64-linux-gnu/asm "$folder/kernel/"
	build musl CC=musl-gcc CPPFLAGS="-idirafter $folder/kernel"
	# Alpine's name for the C library, which is the loader as well.
	ln -s /lib/ld-musl-x86_64.so.1 "$folder/pg/lib/libc.musl-x86_64.so.1"
}

# ---- the server

start()
{
	as_postgres sh -c 'exec "$0/pg/bin/postgres" -D "$0/data" >>"$0/log" 2>&1 & echo $! >"$0/pid"' "$folder"
	for _ in $(seq 600); do
		sql --command='SELECT' >/dev/null 2>&1 && return
		kill -0 "$(cat "$folder/pid")" 2>/dev/null || break
		sleep 0.2
	done
	fail "the server does not start: $folder/log"
}

# The children of a postmaster that was killed notice, and end.
kill_it()
{
	local killed of_it
	killed=$(cat "$folder/pid")
	of_it=$(pgrep -P "$killed")
	kill -9 "$killed"
	for process in $killed $of_it; do
		for _ in $(seq 300); do
			kill -0 "$process" 2>/dev/null || continue 2
			sleep 0.2
		done
		fail "process $process has not ended"
	done
}

# Empty the operating system's page cache, so that flash is asked.
forget()
{
	sql --command=CHECKPOINT
	sync -f "$folder/data"
	find "$folder/data/base" -type f -exec dd if={} iflag=nocache count=0 status=none \;
}

# counter NAME
counter()
{
	sql --command="SELECT $1 FROM pgflash_cache"
}

is()
{
	[ "$2" = "$3" ] || fail "$kind: $1: $2, not $3"
}

# reads WHEN: the table is unchanged, and blocks of it come from flash.
reads()
{
	local before changes=$1
	before=$(counter hits)
	for _ in 1 2 3; do
		forget
		is 'rows and their texts' "$(sql --command='SELECT count(*), sum(hashtext(filler)) FROM t')" "$texts"
		is 'changes' "$(sql --command='SELECT DISTINCT v FROM t')" "$changes"
	done
	hits=$(($(counter hits) - before))
	[ "$hits" -gt 0 ] || fail "$kind: no hit"
	is 'hits compared with the file' "$(counter verify_compared)" "$(counter hits)"
	is 'hits that differ' "$(counter verify_mismatches)" 0
	is 'the mode' "$(counter mode)" serve
}

try()
{
	as_postgres $run "$folder/pg/bin/initdb" -D "$folder/data" -A trust --no-sync --locale=C -E UTF8 >"$folder/initdb.log" 2>&1 ||
		fail "$kind: initdb: $(tail -n 1 "$folder/initdb.log")"
	cat >"$folder/data/postgresql.auto.conf" <<-END
		shared_preload_libraries = 'pgflash'
		pgflash.cache_file = '$folder/cache'
		pgflash.cache_size = '64MB'
		pgflash.verify = all
		pgflash.read_deadline = '1min'
		shared_buffers = '1MB'
		max_parallel_workers_per_gather = 0
		autovacuum = off
		listen_addresses = ''
		unix_socket_directories = '$folder'
		port = $port
	END
	start
	echo "$kind: $(sql --command='SELECT version()')"
	sql --command='CREATE EXTENSION pgflash' --command='
		CREATE TABLE t WITH (fillfactor = 40) AS
			SELECT i AS id, 0 AS v, repeat(md5(i::text), 20) AS filler FROM generate_series(1, 5000) i'
	texts=$(sql --command='SELECT count(*), sum(hashtext(filler)) FROM t')
	reads 0
	echo "$kind: $hits hits, all equal to the file"
	sql --command='UPDATE t SET v = 1'
	reads 1
	echo "$kind: $hits hits after a change of every block"

	# Killed with changes on their way to the files.
	sql --command='BEGIN' --command='UPDATE t SET v = 2' --command='SELECT pg_sleep(600)' >/dev/null 2>&1 &
	for _ in $(seq 600); do
		[ "$(sql --command="SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")" != 1 ] || break
		sleep 0.2
	done
	kill_it
	wait
	start
	reads 1
	echo "$kind: $hits hits after kill -9 and recovery"
}

end()
{
	[ ! -s "$folder/pid" ] || kill -INT "$(cat "$folder/pid")" 2>/dev/null || true
	for _ in $(seq 100); do
		kill -0 "$(cat "$folder/pid" 2>/dev/null)" 2>/dev/null || break
		sleep 0.2
	done
}

# ---- all of it

[ "$(id -u)" = 0 ] || fail 'it takes root, to run the servers as postgres'
id postgres >/dev/null 2>&1 || fail 'there is no user postgres: apt-get install postgresql-common'
[ $# -gt 0 ] || set -- arm64 alpine
for program in mvn:maven unzip:unzip psql:postgresql-client xz:xz-utils; do
	need "${program%%:*}" "${program##*:}"
done
for kind; do
	run=
	[ "$kind" != arm64 ] || run='qemu-aarch64-static -L /usr/aarch64-linux-gnu'
	# Not in memory: pages of files there cannot leave the page cache.
	folder=$(mktemp -d "/var/tmp/pgflash-$kind.XXXXXX")
	trap end EXIT
	case $kind in
	arm64 | alpine) "make_$kind" ;;
	*) fail "$kind is not known here: arm64, alpine" ;;
	esac
	chown -R postgres "$folder"
	chmod 755 "$folder"
	try
	end
	trap - EXIT
	rm -rf "$folder"
	echo "$kind: passed"
done
