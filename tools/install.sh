#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Build the extension and install it in a PostgreSQL server's folders, or remove it.
#
#	tools/install.sh install PG_CONFIG      and say what to do next
#	tools/install.sh extension PG_CONFIG    the same, silent if it succeeds
#	tools/install.sh uninstall PG_CONFIG
#
# The manual and the shells' completions (share/) go below PREFIX, which is /usr/local unless set.
#
# Only the copying needs root.  Root builds as the owner of this folder, so that `sudo make
# install` leaves no file of root's in a user's clone.  Files that are as they were built
# are not written again, so a server that already has them needs no root.  The same holds for
# DESTDIR, for packages.
set -eu
trap 'exit 130' INT
cd "$(dirname "$0")/.."
what=$1 named=$2

fail()
{
	printf 'pgflash: %s\n' "$@" >&2
	exit 1
}

[ -n "$named" ] || fail "Say which server: make $what PG_CONFIG=/usr/bin/pg_config"
pg_config=$(command -v "$named") && version=$("$pg_config" --version 2>/dev/null) || fail \
	"$named does not run: name the pg_config of a PostgreSQL server." \
	'On Debian it comes with postgresql-server-dev-15 (or another major).'
version=${version#PostgreSQL } version=${version%% *}
major=${version%%[!0-9]*}
library=${DESTDIR:-}$("$pg_config" --pkglibdir)
scripts=${DESTDIR:-}$("$pg_config" --sharedir)/extension
share=${DESTDIR:-}${PREFIX:-/usr/local}/share
shared=$(cd share && find . -type f)
ours=$(sed -n "s/^default_version = '\(.*\)'$/\1/p" extension/pgflash.control)

# ---- uninstall

# A process that has loaded the library; root sees those of all users.
loaded()
{
	grep -lsF " $(realpath "$library")/pgflash.so" /proc/[0-9]*/maps | grep -o '[0-9]*' | sort -n | head -n 1
}

# The control file of another server that has pgflash, in this one's layout or where packages are.
other()
{
	local sharedir layout
	sharedir=$("$pg_config" --sharedir)
	for layout in "${sharedir//$major/*}" '/usr/share/postgresql/*' '/usr/pgsql-*/share'; do
		compgen -G "${DESTDIR:-}$layout/extension/pgflash.control" && return
	done
}

if [ "$what" = uninstall ]; then
	[ -e "$library/pgflash.so" ] || [ -e "$scripts/pgflash.control" ] ||
		fail "There is no pgflash in PostgreSQL $version ($library)."
	[ -w "$library" ] && [ -w "$scripts" ] || fail \
		"You may not write in $library and $scripts:" "sudo make uninstall PG_CONFIG=$named"
	process=$(loaded) || process=
	[ -z "$process" ] || fail \
		"A running server has loaded pgflash, and would not start again without it (process $process)." \
		'Take pgflash out of its shared_preload_libraries and restart it first: docs/guide/uninstall.md'
	rm -fv "$library/pgflash.so" "$scripts/pgflash.control" "$scripts"/pgflash--*.sql
	if other=$(other); then
		echo "The manual, completions and files for monitoring, ephemeral drives and Kubernetes stay in $share, for other servers with pgflash:"
		printf '%s\n' "$other" | sed 's/^/  /'
	else
		for file in $shared; do
			rm -fv "$share/$file" || true
		done
		rmdir "$share/pgflash/monitoring" "$share/pgflash/ephemeral" "$share/pgflash/kubernetes" "$share/pgflash" 2>/dev/null || true
	fi
	echo 'A server that still has pgflash in shared_preload_libraries does not start.'
	echo 'Cache files, and the pgflash command, are where they were: docs/guide/uninstall.md'
	exit 0
fi

# ---- build

case $(uname -sm) in
'Linux x86_64' | 'Linux aarch64') ;;
*) fail "pgflash runs on Linux, on x86-64 or 64-bit ARM, and this is $(uname -sm)." ;;
esac
case $major in
15 | 16 | 17 | 18 | 19) ;;
*) fail "pgflash is for PostgreSQL 15 to 19, and $named is of $version." ;;
esac
if [ ! -e "$("$pg_config" --includedir-server)/postgres.h" ] || [ ! -e "$("$pg_config" --pgxs)" ]; then
	fail "PostgreSQL $version has no files for building extensions ($("$pg_config" --includedir-server))." \
		"On Debian: sudo apt-get install postgresql-server-dev-$major" \
		"On RHEL, from PGDG: sudo dnf install postgresql$major-devel"
fi
compiler=${CC:-cc}
command -v ${compiler%% *} >/dev/null ||
	fail "A C compiler is needed, and there is no $compiler. On Debian: sudo apt-get install gcc libc6-dev"

# make_extension GOAL BEFORE... : words before make run it as another user.
make_extension()
{
	local goal=$1
	shift
	"$@" make --no-print-directory -C extension "$goal" PG_CONFIG="$pg_config"
}

as_owner=()
if [ "$(id -u)" = 0 ] && [ "$(stat -c %u .)" != 0 ]; then
	as_owner=(setpriv --reuid="$(stat -c %u .)" --regid="$(stat -c %g .)" --clear-groups --)
fi
make_extension all "${as_owner[@]}" || fail "The extension could not be built for PostgreSQL $version."

# ---- install

built=extension/build/$major
is_installed()
{
	cmp -s "$built/pgflash.so" "$library/pgflash.so" &&
		cmp -s extension/pgflash.control "$scripts/pgflash.control" || return
	for script in "$built"/pgflash--*.sql; do
		cmp -s "$script" "$scripts/${script##*/}" || return
	done
}

replaced=
if ! is_installed; then
	for folder in "$library" "$scripts"; do
		[ ! -e "$folder" ] || [ -w "$folder" ] || fail \
			"The extension is built, but you may not write in $folder. Install it as root:" \
			"sudo make install PG_CONFIG=$named"
	done
	[ ! -e "$scripts/pgflash.control" ] || replaced=1
	make_extension install || fail "The extension could not be installed into $library."
fi
[ "$what" = install ] || exit 0

documented=1
for file in $shared; do
	cmp -s "share/$file" "$share/$file" ||
		install -D -m 644 "share/$file" "$share/$file" 2>/dev/null || documented=
done

echo "pgflash $ours is installed in PostgreSQL $version:"
ls -d "$library/pgflash.so" "$scripts/pgflash.control" "$scripts"/pgflash--*.sql | sed 's/^/  /'
if [ -n "$documented" ]; then
	echo "The manual (man pgflash), completions for bash, zsh and fish, and files for monitoring, ephemeral drives and Kubernetes are in $share."
else
	echo "The manual, completions and files for monitoring, ephemeral drives and Kubernetes are not installed: you may not write in $share (PREFIX=FOLDER)."
fi
if [ -n "$replaced" ]; then
	cat <<-END
	It replaces an earlier build. To use it:
	  1. Restart the server.
	  2. In each database that has the extension: ALTER EXTENSION pgflash UPDATE;
	More: docs/guide/upgrade.md
	END
else
	cat <<-END
	Next:
	  1. Make a folder on flash for the cache, owned by the server's user.
	  2. Set shared_preload_libraries, pgflash.cache_file and pgflash.cache_size, and restart the server.
	  3. In the databases whose tables you want to see: CREATE EXTENSION pgflash;
	How: docs/guide/install.md
	END
fi
