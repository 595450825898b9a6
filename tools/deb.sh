#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Build Debian packages of the last commit, for the majors of PostgreSQL that this Debian has.
#
#	tools/deb.sh [FOLDER]       into FOLDER (out/deb), from which earlier packages are removed; no root
#
#	PG_SUPPORTED_VERSIONS="18 19"       for which majors; see pg_buildext(1)
#	DEB_BUILD_OPTIONS="nocheck"         see deb-build-options; parallel by default
#
# A Debian without python3-msgspec (Debian 12) gets no packages of the command and the lab.  The same
# commit gives the same bytes: times are those of the commit and of debian/changelog.
set -eu
cd "$(dirname "$0")/.."
. tools/folder.sh
folder=$(realpath -m "${1:-out/deb}")

fail()
{
	printf 'deb: %s\n' "$@" >&2
	exit 1
}

for program in dpkg-buildpackage pg_buildext dh git xz; do
	command -v "$program" >/dev/null || fail "$program is missing." \
		'apt-get install build-essential debhelper git postgresql-server-dev-all xz-utils' \
		'On Debian 13 or later: dh-python pybuild-plugin-pyproject python3-hatchling, too.'
done
commit=(git -c safe.directory='*' archive --format=tar)
version=$(dpkg-parsechangelog --show-field Version)
upstream=${version%-*}
source=$folder/pgflash-$upstream

empty "$folder" -type f -regex '.*/\(pgflash\|postgresql-[0-9]+-pgflash\)[_-][^/]*\.\(deb\|dsc\|changes\|buildinfo\|tar\.xz\)'
trap 'rm -rf "$source"' EXIT
umask 022
# Without what only the tests of the live page in a browser need, whose source is elsewhere.
"${commit[@]}" --prefix="pgflash-$upstream/" HEAD . ':!debian' ':!tests/browser/vendor' | xz --threads=1 >"$folder/pgflash_$upstream.orig.tar.xz"
tar -xf "$folder/pgflash_$upstream.orig.tar.xz" -C "$folder"
"${commit[@]}" HEAD debian | tar -xf - -C "$source"

cd "$source"
profile=
apt-cache show python3-msgspec >/dev/null 2>&1 || profile=pkg.pgflash.nopython
pg_buildext updatecontrol
[ -z "$profile" ] || echo "This Debian has no python3-msgspec: no packages of the command and the lab."
export DEB_BUILD_PROFILES=${DEB_BUILD_PROFILES:+$DEB_BUILD_PROFILES }$profile
export DEB_BUILD_OPTIONS=${DEB_BUILD_OPTIONS:+$DEB_BUILD_OPTIONS }parallel=$(nproc)
dpkg-buildpackage --unsigned-source --unsigned-changes --build=full
cd "$folder"
echo "The packages are in $folder:"
sha256sum -- *.deb
