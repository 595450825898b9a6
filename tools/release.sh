#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Make the files of a release from the last commit.
#
#	tools/release.sh [FOLDER]   into FOLDER (out/release), from which an earlier release is removed
#
#	pgflash-VERSION.tar.gz      the tracked files
#	pgflash-VERSION.cdx.json    what it depends on, from the lock files: a CycloneDX SBOM
#	pgflash-VERSION.md          the part of CHANGELOG.md about this version
#	SHA256SUMS                  of these three: sha256sum --check
#
# All of them are made of what is in the tarball.  The same commit gives the same bytes, whatever
# the user's umask and time zone: times are those of the commit.  The packages are made of the same
# commit by tools/deb.sh and tools/wheels.sh, which compare two builds.
set -eu
cd "$(dirname "$0")/.."
. tools/folder.sh
folder=$(realpath -m "${1:-out/release}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
umask 022
export LC_ALL=C

fail()
{
	printf 'release: %s\n' "$@" >&2
	exit 1
}

archive()
{
	git -c safe.directory='*' archive --format=tar "$@"
}

version=$(archive HEAD python/pgflash/__init__.py | tar -xO | sed -n 's/^__version__ = "\(.*\)"$/\1/p')
[ -n "$version" ] || fail 'the last commit has no version in python/pgflash/__init__.py'
name=pgflash-$version

archive --prefix="$name/" HEAD >"$scratch/$name.tar"
tar -xf "$scratch/$name.tar" -C "$scratch"
[ -z "$(git -c safe.directory='*' status --porcelain)" ] ||
	echo 'release: changes that are not committed are not in it.' >&2

empty "$folder" -type f \( -name 'pgflash-[0-9]*' -o -name SHA256SUMS \)
gzip --best --no-name <"$scratch/$name.tar" >"$folder/$name.tar.gz"

awk -v version="$version" '/^## / { wanted = $2 == version || $2 == version "," } wanted' \
	"$scratch/$name/CHANGELOG.md" >"$folder/$name.md"
[ -s "$folder/$name.md" ] || fail "CHANGELOG.md says nothing of version $version"
! head -n 1 "$folder/$name.md" | grep -q unreleased ||
	echo "release: CHANGELOG.md calls $version unreleased." >&2

python3 "$scratch/$name/tools/sbom.py" "$(git -c safe.directory='*' log -1 --format=%ct)" >"$folder/$name.cdx.json"

cd "$folder"
sha256sum "$name".* >"$scratch/sums"
cp "$scratch/sums" SHA256SUMS
cat SHA256SUMS
