#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Make Debians and run commands in them; for scripts that source this file, as root.
#
# Such a script runs itself in the Debian, as of the last commit: /tools/NAME.sh inside ...
# The repository is /repository in there.  Namespaces of the Debian's own see to it that
# nothing is left running or mounted, however it ends.

# fail WORDS... : say why, and end.
fail()
{
	printf '%s: %s\n' "$(basename "$0" .sh)" "$@" >&2
	exit 1
}

# need_debians: what the functions below need, before anything is done.
need_debians()
{
	[ "$(id -u)" = 0 ] || fail 'it takes root: Debians are made and entered by chroot'
	command -v debootstrap >/dev/null || fail 'apt-get install debootstrap'
	git config --global --get-all safe.directory | grep -qxF -e '*' -e "$clone" ||
		export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
}

# debian_mirror: where this machine's packages come from.
debian_mirror()
{
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1
}

# make_debian SUITE FOLDER PACKAGES: FOLDER is complete or absent; FOLDER.debootstrap.log.
make_debian()
{
	local suite=$1 folder=$2 packages=$3
	rm -rf "$folder.new"
	debootstrap --variant=minbase --include="$packages" "$suite" "$folder.new" "$(debian_mirror)" \
		>"$folder.debootstrap.log" || return 1
	mv "$folder.new" "$folder"
}

# enter_debian FOLDER SCRIPT [NAME=VALUE]... -- WORDS... : run tools/SCRIPT inside WORDS there.
enter_debian()
{
	local root=$1 script=$2 file
	shift 2
	mkdir -p "$root/repository" "$root/dev/shm"
	# The Debian reaches the network as this machine does.
	for file in /etc/resolv.conf /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
		[ ! -e "$file" ] || { mkdir -p "$root$(dirname "$file")" && cp -L "$file" "$root$file"; }
	done
	git -C "$clone" archive --format=tar HEAD "tools/$script" tools/debians.sh | tar -x -C "$root"
	local variables=()
	while [ "$1" != -- ]; do
		variables+=("$1")
		shift
	done
	shift
	unshare --mount --pid --fork --kill-child -- bash -euc '
		cd "$1"
		mount --bind . . && cd "$1"
		mount --bind "$2" repository
		mount -t proc proc proc
		mount --rbind /sys sys
		mount --rbind /dev dev
		mount -t tmpfs shm dev/shm
		shift 2
		exec chroot . /usr/bin/env "$@"' \
		debian "$root" "$clone" "${variables[@]}" "/tools/$script" inside "$@"
}
