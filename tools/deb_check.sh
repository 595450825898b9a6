#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Build Debian packages on Debians of several ages, and install them on others.
#
#	tools/deb_check.sh [FOLDER]     as root; needs debootstrap and a network
#
#	ROWS="bookworm trixie sid"      which; all by default.  sid also has experimental's PostgreSQL 19
#	STEPS="build install piuparts rpm image"    which steps; all by default
#
# FOLDER (out/deb-check) keeps, for each row, a bare Debian (ROW), one with compilers (ROW.build,
# about 2 GB) and the packages (ROW.packages).  Removed ones are made again.
#
# build: an ordinary user builds the last commit twice, in folders, time zones and umasks that
# differ.  The packages must be equal byte by byte, and lintian must find neither errors nor
# warnings.  install: in a copy of the bare Debian, the packages come from a local repository by
# apt.  Their own tests (debian/tests) pass, and after the purge the list of files is what it was
# before.  piuparts: its own installation, removal and purge.  rpm, on trixie: an RPM from
# packaging/rpm, without an error or a warning of rpmlint's; Debian's tools cannot install it.
# image, on sid: the package of 18 becomes an extension image, and a server that has no pgflash
# of its own loads it from there.
# FOLDER/ROW.txt says how it ended, FOLDER/ROW.log has the whole output.
set -eu
clone=$(realpath "$(dirname "$0")/..")
. "$clone/tools/debians.sh"

# ---- outside: make the Debians, and go in

run_step()
{
	local row=$1 step=$2 root
	case $step in
	build | rpm)
		root=$folder/$row.build
		[ -e "$root" ] || cp -a --reflink=auto "$folder/$row" "$root"
		;;
	*)
		root=$folder/$row.run
		rm -rf "$root"
		cp -a --reflink=auto "$folder/$row" "$root"
		cp -r "$folder/$row.packages" "$root/packages"
		git -C "$clone" archive --format=tar HEAD debian/tests tools/image.sh tools/folder.sh | tar -x -C "$root"
		# piuparts makes a copy of its own.
		[ "$step" != piuparts ] || cp -a --reflink=auto "$folder/$row" "$root/bare"
		;;
	esac
	enter_debian "$root" deb_check.sh MIRROR="$(debian_mirror)" -- "$step" "$row"
	[ "$step" != build ] || {
		rm -rf "$folder/$row.packages"
		cp -r "$root/srv/builder/packages" "$folder/$row.packages"
	}
	rm -rf "$folder/$row.run"
}

if [ "${1:-}" != inside ]; then
	folder=$(realpath -m "${1:-$clone/out/deb-check}")
	need_debians
	mkdir -p "$folder"
	failed=0
	for row in ${ROWS:-bookworm trixie sid}; do
		: >"$folder/$row.txt"
		: >"$folder/$row.log"
		[ -e "$folder/$row" ] || make_debian "$row" "$folder/$row" ca-certificates,git,procps,util-linux ||
			fail "debootstrap failed: $folder/$row.debootstrap.log"
		for step in ${STEPS:-build install piuparts rpm image}; do
			[ "$step" != rpm ] || [ "$row" = trixie ] || continue
			[ "$step" != image ] || [ "$row" = sid ] || continue
			printf '\n==== %s: %s\n' "$row" "$step"
			run_step "$row" "$step" 2>&1 | tee -a "$folder/$row.log"
			if [ "${PIPESTATUS[0]}" = 0 ]; then
				echo "ok: $step" >>"$folder/$row.txt"
			else
				echo "FAILED: $step" >>"$folder/$row.txt"
				failed=1
				break
			fi
		done
	done
	printf '\n==== summary\n'
	for row in ${ROWS:-bookworm trixie sid}; do
		printf '%s\n' "$row:"
		sed 's/^/    /' "$folder/$row.txt"
	done
	exit $failed
fi

# ---- inside

step=$2 row=$3
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
echo "127.0.0.1 localhost $(hostname)" >/etc/hosts
apt=(apt-get --quiet --quiet --yes -o Acquire::Check-Valid-Until=false -o APT::Install-Recommends=false)
# No server of the packages' own: tests make theirs.
mkdir -p /etc/postgresql-common/createcluster.d
echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/none.conf

# majors: of PostgreSQL, in this Debian.
case $row in
bookworm) majors=15 ;;
trixie) majors=17 ;;
sid)
	majors='18 19'
	echo "deb $MIRROR experimental main" >/etc/apt/sources.list.d/experimental.list
	printf 'Package: src:postgresql-19\nPin: release a=experimental\nPin-Priority: 500\n' >/etc/apt/preferences.d/experimental
	;;
esac
export PG_SUPPORTED_VERSIONS=$majors

# install PACKAGES...
install()
{
	"${apt[@]}" install "$@" >/dev/null
}

# as_builder COMMANDS
as_builder()
{
	su - builder -c "set -eu; export PG_SUPPORTED_VERSIONS='$majors'; $1"
}

build_packages()
{
	id builder >/dev/null 2>&1 || useradd --create-home --home-dir /srv/builder --shell /bin/bash builder
	"${apt[@]}" update
	install build-essential debhelper lintian xz-utils postgresql-server-dev-all $(printf 'postgresql-server-dev-%s postgresql-%s ' $(printf '%s\n' $majors | sed p))
	git config --system --replace-all safe.directory '*'
	rm -rf /srv/builder/pgflash /srv/builder/packages /srv/builder/again
	as_builder 'git clone --quiet /repository pgflash; cd pgflash; pg_buildext updatecontrol'
	local profile=
	apt-cache show python3-msgspec >/dev/null 2>&1 || profile=--build-profiles=pkg.pgflash.nopython
	(cd /srv/builder/pgflash && "${apt[@]}" build-dep $profile ./ >/dev/null)
	apt-get clean
	as_builder 'cd pgflash; tools/deb.sh ~/packages'
	as_builder 'umask 077; export TZ=Asia/Tokyo LC_ALL=C; cp -r pgflash somewhere-else; cd somewhere-else
		DEB_BUILD_OPTIONS=nocheck tools/deb.sh ~/again/and/deeper; cd; rm -rf somewhere-else'
	local file
	for file in /srv/builder/packages/*.deb /srv/builder/packages/*.dsc /srv/builder/packages/*.tar.*; do
		cmp "$file" "/srv/builder/again/and/deeper/${file##*/}"
	done
	echo 'ok: both builds are equal'
	as_builder 'lintian --fail-on error,warning --tag-display-limit 0 packages/*.changes'
	echo "ok: lintian $(dpkg-query --show --showformat '${Version}' lintian)"
	(cd /srv/builder/packages && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)
}

# files: everything that a package could have left, with its owner.
files()
{
	find / -xdev \( -path /packages -o -path /repository -o -path /tmp -o -path /run -o -path /root \
		-o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/cache/apt \
		-o -path /var/cache/debconf -o -path /var/cache/ldconfig -o -path /var/cache/man -o -name __pycache__ \) -prune -o \
		-printf '%p %y %#m %u %g\n' | sort
}

from_the_repository()
{
	echo 'deb [trusted=yes] file:/packages ./' >/etc/apt/sources.list.d/local.list
	"${apt[@]}" update
	packages=$(sed -n 's/^Package: //p' /packages/Packages | grep -v -e -dbgsym | sort -u)
}

install_packages()
{
	"${apt[@]}" update
	# apt removes nothing as important as e2fsprogs, which pgflash-ephemeral needs.
	install e2fsprogs $(printf 'postgresql-%s ' $majors)
	from_the_repository
	files >/tmp/before
	install $packages
	echo "installed: "$packages
	/debian/tests/first-hit
	case $packages in *pgflash-lab*)
		setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=/tmp/nobody PATH=/usr/bin:/bin USER=nobody /debian/tests/command
		ls /usr/share/man/man1/pgflash.1.gz /usr/share/man/man1/pgflash-lab.1.gz
		;;
	esac
	plant_links
	"${apt[@]}" purge --auto-remove $packages >/dev/null
	ls /srv/precious/file
	rm -r /srv/precious
	files >/tmp/after
	diff /tmp/before /tmp/after
	echo 'ok: nothing is left'
}

# plant_links: among its cache files, the server's user has a link to what must stay.
plant_links()
{
	local major
	mkdir /srv/precious
	touch /srv/precious/file
	chmod -R a+w /srv/precious
	for major in $majors; do
		setpriv --reuid=postgres --regid=postgres --clear-groups sh -euc '
			cd "/var/cache/pgflash/$1"
			mkdir folder
			touch main folder/main
			ln -s /srv/precious link' plant "$major"
	done
}

run_piuparts()
{
	"${apt[@]}" update
	install piuparts
	from_the_repository
	local debs=() package
	# Its one mirror has no PostgreSQL 19, which is in experimental.
	for package in ${packages/postgresql-19-pgflash/}; do
		debs+=(/packages/"$package"_*.deb)
	done
	echo 'Acquire::Check-Valid-Until "false";' >/bare/etc/apt/apt.conf.d/valid-until
	piuparts --existing-chroot=/bare --mirror="$MIRROR main" --distribution="$row" --no-eatmydata "${debs[@]}"
}

build_rpm()
{
	install rpm rpmlint debugedit elfutils
	as_builder 'umask 022; rm -rf rpm pgflash; mkdir -p rpm/SOURCES; git clone --quiet /repository pgflash; cd pgflash
		version=$(sed -n "s/^Version: *//p" packaging/rpm/pgflash.spec)
		git archive --prefix="pgflash-$version/" --output="$HOME/rpm/SOURCES/pgflash-$version.tar.gz" HEAD
		rpmbuild -ba --nodeps --define "_topdir $HOME/rpm" --define "pgmajorversion 17" \
			--define "pginstdir /usr/lib/postgresql/17" --define "pgsharedir /usr/share/postgresql/17" \
			--define "_tmpfilesdir /usr/lib/tmpfiles.d" packaging/rpm/pgflash.spec
		rpmlint --strict --rpmlintrc packaging/rpm/pgflash.rpmlintrc packaging/rpm/pgflash.spec \
			$HOME/rpm/RPMS/*/pgflash_17-[0-9]*.rpm $HOME/rpm/SRPMS/*.rpm'
}

# as_postgres COMMAND...
as_postgres()
{
	(cd / && setpriv --reuid=postgres --regid=postgres --init-groups env PGCLUSTER=18/image "$@")
}

load_image()
{
	"${apt[@]}" update
	install umoci postgresql-18
	/tools/image.sh /packages/postgresql-18-pgflash_*.deb /tmp/image
	umoci unpack --image "/tmp/image:$(umoci list --layout /tmp/image)" /tmp/bundle
	mkdir /extensions
	mv /tmp/bundle/rootfs /extensions/pgflash
	[ ! -e /usr/lib/postgresql/18/lib/pgflash.so ]
	pg_createcluster 18 image >/dev/null
	cat >/etc/postgresql/18/image/conf.d/pgflash.conf <<-'CONF'
		shared_preload_libraries = 'pgflash'
		extension_control_path = '$system:/extensions/pgflash/share'
		dynamic_library_path = '$libdir:/extensions/pgflash/lib'
		pgflash.cache_file = '/var/lib/postgresql/cache'
		pgflash.cache_size = '64MB'
	CONF
	pg_ctlcluster --skip-systemctl-redirect 18 image start
	as_postgres psql --no-psqlrc --set=ON_ERROR_STOP=1 postgres --command='CREATE EXTENSION pgflash' \
		--command="SELECT 'ok: the cache is in mode ' || mode FROM pgflash_cache WHERE mode_reason <> ''" \
		--command='SELECT pgflash_snapshot(), mismatched FROM pgflash_cache_verify()'
	pg_ctlcluster --skip-systemctl-redirect 18 image stop
	echo 'ok: a server loads the extension from the image'
}

case $step in
build) build_packages ;;
install) install_packages ;;
piuparts) run_piuparts ;;
rpm) build_rpm ;;
image) load_image ;;
esac
