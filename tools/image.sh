#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Make an extension image for CloudNativePG of a Debian package: no root, no container engine.
#
#	tools/image.sh PACKAGE [FOLDER]     postgresql-18-pgflash_*.deb, into FOLDER (out/image)
#
# FOLDER, from which an earlier image is removed, becomes an OCI image layout with one tag,
# VERSION-MAJOR.  CloudNativePG mounts such an image beside a server of 18 or later, which finds
# the extension by extension_control_path and the library by dynamic_library_path:
#
#	/share/extension    control file and SQL scripts
#	/lib                the library
#	/licenses           the package's copyright file
#
# The same package gives the same bytes: all times are those of the package's files.  Needs umoci
# and dpkg-deb.
set -eu
cd "$(dirname "$0")/.."
. tools/folder.sh

fail()
{
	printf 'image: %s\n' "$@" >&2
	exit 1
}

package=${1:-}
[ -f "$package" ] || fail 'Name the package: tools/image.sh out/deb/postgresql-18-pgflash_*.deb'
for program in umoci dpkg-deb; do
	command -v "$program" >/dev/null || fail "$program is missing: apt-get install umoci dpkg"
done
folder=$(realpath -m "${2:-out/image}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
umask 022

name=$(dpkg-deb --field "$package" Package)
case $name in
postgresql-[0-9]*-pgflash) ;;
*) fail "$package is not of the extension, but $name" ;;
esac
major=${name#postgresql-} major=${major%-pgflash}
[ "$major" -ge 18 ] || fail "PostgreSQL $major has no extension_control_path: 18 is the first"
version=$(dpkg-deb --field "$package" Version)
version=${version%-*}
tag=$version-$major

dpkg-deb --extract "$package" "$scratch/package"
root=$scratch/root
mkdir -p "$root/share/extension" "$root/lib" "$root/licenses"
cp -p "$scratch/package/usr/share/postgresql/$major/extension"/pgflash* "$root/share/extension"
cp -p "$scratch/package/usr/lib/postgresql/$major/lib/pgflash.so" "$root/lib"
cp -p "$scratch/package/usr/share/doc/$name/copyright" "$root/licenses/pgflash"
epoch=$(stat -c %Y "$root/licenses/pgflash")
# Not by umoci insert, whose archive has no end in version 0.4.7.
tar --create --file="$scratch/layer.tar" --directory="$root" --sort=name --format=ustar --mtime="@$epoch" \
	--owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX lib licenses share
created=$(date --utc --date="@$epoch" +%Y-%m-%dT%H:%M:%SZ)

# By its label, which is in a file of blobs.
empty "$folder" -name index.json -o -name oci-layout -o -name blobs -exec grep -rqF '"org.opencontainers.image.title":"pgflash"' {} \;
rmdir "$folder"
umoci init --layout "$folder"
umoci new --image "$folder:$tag"
umoci raw add-layer --no-history --image "$folder:$tag" "$scratch/layer.tar"
umoci config --no-history --image "$folder:$tag" --created "$created" --os linux \
	--architecture "$(dpkg-deb --field "$package" Architecture)" \
	--config.label org.opencontainers.image.title=pgflash \
	--config.label "org.opencontainers.image.version=$version" \
	--config.label org.opencontainers.image.licenses=PostgreSQL
umoci gc --layout "$folder"
chmod -R u=rwX,go=rX "$folder"
echo "The image is $folder:$tag"
