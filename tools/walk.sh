#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Follow README word by word on a fresh Debian, as a person would.
#
#	tools/walk.sh [FOLDER]      as root; needs debootstrap and a network
#
# FOLDER (/var/tmp/pgflash-walk) keeps the Debian with its PostgreSQL 15; each walk works on a copy,
# in separate namespaces, so that nothing is left running or mounted, however it ends. In it a user
# with sudo clones this repository's last commit and runs README's commands: blocks marked `sh` in
# one shell, blocks marked `sql` in the database app.  Then come the pages on upgrade and removal,
# the tutorial, and common mistakes.
set -eu
clone=$(realpath "$(dirname "$0")/..")
. "$clone/tools/debians.sh"

# ---- outside: make the Debian, and go in

if [ "${1:-}" != inside ]; then
	folder=${1:-/var/tmp/pgflash-walk}
	need_debians
	mkdir -p "$folder"
	[ -e "$folder/debian" ] ||
		make_debian bookworm "$folder/debian" ca-certificates,git,sudo,postgresql-15,procps ||
		fail "debootstrap failed: $folder/debian.debootstrap.log"
	rm -rf "$folder/walk"
	cp -a --reflink=auto "$folder/debian" "$folder/walk"
	enter_debian "$folder/walk" walk.sh --
	exit
fi

# ---- inside: a machine with a server, and a user

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
useradd --create-home --home-dir /srv/dba --shell /bin/bash dba
chmod 700 /srv/dba
echo 'dba ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/dba
echo "127.0.0.1 localhost $(hostname)" >/etc/hosts # or sudo complains
mkdir /nvme
apt-get update --quiet --quiet
[ -e /etc/postgresql/15/main ] || pg_createcluster 15 main
pg_ctlcluster 15 main start
cd /
setpriv --reuid=postgres --regid=postgres --init-groups createdb app
git config --system --add safe.directory '*'

# user COMMANDS: what the user types, in the clone; questions are answered by yes.
user()
{
	yes | su - dba -c "set -eux; cd pgflash; $1"
}

# blocks KIND PAGE: the blocks of a page with this mark, without indentation.
blocks()
{
	awk -v mark="$1" '$1 == "```" mark { on = 1; match($0, /^ */); next }
		$1 == "```" { on = 0 } on { print substr($0, RLENGTH + 1) }' "/srv/dba/pgflash/$2"
}

# ask SQL: as a superuser, in the database.
ask()
{
	(cd / && setpriv --reuid=postgres --regid=postgres --init-groups \
		psql --no-psqlrc --set=ON_ERROR_STOP=1 --tuples-only --no-align --dbname=app) <<<"$1"
}

# walk TITLE COMMAND... : say how long it took.
walk()
{
	local title=$1 began=$SECONDS
	shift
	printf '\n==== %s\n' "$title"
	"$@" || fail "FAILED: $title"
	printf '==== %d s: %s\n' $((SECONDS - began)) "$title"
}

# refused SENTENCE COMMANDS: the user's commands fail, and say so.
refused()
{
	local said
	! said=$(user "$2" 2>&1) && printf '%s\n' "$said" && [[ $said == *"$1"* ]]
}

# demo_measures OPTION: make demo gets as far as a first result; then it is ended.
demo_measures()
{
	local log=/tmp/demo.log demo
	# A session of its own, so that the demo and all that it starts can be signalled together.
	setsid setpriv --reuid=dba --regid=dba --init-groups env HOME=/srv/dba \
		make -C /srv/dba/pgflash demo "$1" >$log 2>&1 &
	demo=$!
	until grep --quiet ' TPM' $log; do
		kill -0 $demo || break
		sleep 1
	done
	kill -TERM -- -$demo || true
	wait $demo || true
	cat $log
	grep --quiet ' TPM' $log && grep --quiet 'everything that it started has been stopped' $log
}

no_file_of_root_in_the_clone()
{
	[ -z "$(find /srv/dba/pgflash -not -user dba -print -quit)" ]
}

su - dba -c 'git clone --quiet /repository pgflash'
ask 'CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE audit_log (id int)' >/dev/null

install_guide=docs/guide/install.md removal=docs/guide/uninstall.md
walk 'make install before its packages' refused 'sudo apt-get install postgresql-server-dev-15' \
	'sudo apt-get install gcc libc6-dev make libpq-dev; make install PG_CONFIG=/usr/bin/pg_config'
walk 'the shell commands of README' user "$(blocks sh README.md)"
walk 'no file of root in the clone' no_file_of_root_in_the_clone
walk 'the SQL of README' ask "$(blocks sql README.md)"
walk 'the cache serves' test "$(ask 'SELECT mode FROM pgflash_cache')" = serve
walk 'the command, by the user' user 'cd /; PGDATABASE=app pgflash snapshot'
walk 'the command, by the server'"'"'s user' user 'sudo -u postgres pgflash devices --dsn dbname=app'
walk 'make install without sudo, when all is there' user 'make install PG_CONFIG=/usr/bin/pg_config'
walk 'make demo on another major' demo_measures PG=17
walk 'make demo on the server of Debian' demo_measures PG_CONFIG=/usr/bin/pg_config
walk 'make demo on a server without pg_prewarm' refused 'has no pg_prewarm' 'make demo PG=16'
walk 'the lab on the server of Debian' user 'make extension PG_CONFIG=/usr/bin/pg_config
	.venv/bin/pgflash lab run oltp-approaches --pg-config /usr/bin/pg_config --set warehouses=2 --set clients=4 \
		--set warmup_s=2 --set measure_s=5 --set approaches=baseline,flash-cache'
walk "the query of $install_guide" ask "$(blocks sql $install_guide)"
walk 'the shell commands of docs/guide/upgrade.md' user "$(blocks sh docs/guide/upgrade.md)"
walk 'the SQL of docs/guide/upgrade.md' ask "$(blocks sql docs/guide/upgrade.md)"
walk 'no file of root in the clone' no_file_of_root_in_the_clone
ask 'DROP ROLE dba' >/dev/null # the tutorial begins with none
walk 'the tutorial' user "$(blocks sh docs/guide/tutorial.md)"
walk 'make uninstall too early' refused 'shared_preload_libraries' 'sudo make uninstall PG_CONFIG=/usr/bin/pg_config'
walk "the SQL of $removal" ask "$(blocks sql $removal)"
walk "the shell commands of $removal" user "$(blocks sh $removal)"
walk 'the server runs without it' test "$(ask 'SHOW shared_preload_libraries')" = ''
walk 'no file is left' test -z "$(find /usr/lib/postgresql /usr/share/postgresql /dev/shm /nvme /opt -name 'pgflash*')"

mount -t tmpfs -o size=100m small /mnt
chown dba /mnt
walk 'make build on a full disk' refused 'MB of free space' \
	'git clone --quiet . /mnt/pgflash; cd /mnt/pgflash; make build'
walk 'make demo in a folder with a space' refused 'a space in its name' \
	'git clone --quiet . "/tmp/my clone"; cd "/tmp/my clone"; make demo'
printf '\nThe walk went to its end in %d s.\n' "$SECONDS"
