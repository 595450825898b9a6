#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Run compare.py in a virtual machine whose disk QEMU limits: DISK_IOPS reads a second (500).
#
#	bench/peers/vm.sh [--quick]
#
# The machine runs Debian's kernel, which has bcache and dm-cache, on this machine's own files, read
# only; what it writes to them is gone with it.  Nothing here is changed but out/peers/, and root is
# not needed.  With KVM it is as fast as this machine.  Without, QEMU emulates the processors:
# then it shows that everything works, and its figures say nothing.
#
# FOLDER: where the two disks' images are, 5 GB (/var/tmp).  KERNEL and MODULES: other ones than
# the newest of /boot that has its modules in /lib/modules.  MEMORY of the machine: 4G.
# ACCEL=tcg: without KVM, though there is one.
set -euo pipefail
cd "$(dirname "$0")/../.."
repository=$PWD

fail()
{
	echo "bench/peers/vm.sh: $1" >&2
	exit 2
}

for program in qemu-system-x86_64 busybox cpio modprobe; do
	command -v "$program" >/dev/null || PATH=$PATH:/sbin:/usr/sbin command -v "$program" >/dev/null ||
		fail "$program is missing (Debian: qemu-system-x86, busybox-static, cpio, kmod)"
done
PATH=$PATH:/sbin:/usr/sbin
if [ -z "${KERNEL:-}" ]; then
	for kernel in $(find /boot -maxdepth 1 -name 'vmlinuz-*' | sort --version-sort); do
		version=${kernel#/boot/vmlinuz-}
		[ -n "$(find "/lib/modules/$version" -name 'dm-cache.ko*' 2>/dev/null)" ] && KERNEL=$kernel MODULES=/lib/modules/$version
	done
fi
[ -r "${KERNEL:-}" ] || fail 'no kernel with dm-cache in /boot (Debian: linux-image-amd64)'
[ -d "${MODULES:-}" ] || fail "no modules of the kernel: MODULES=DIR"

folder=$(mktemp -d "${FOLDER:-/var/tmp}/pgflash-peers.XXXXXX")
trap 'rm -rf "$folder"' EXIT
truncate -s 4G "$folder/disk"
truncate -s 512M "$folder/flash"
mkdir -p out/peers

# ---- a first file system: modules, and how to get to the real one
tree=$folder/tree
mkdir -p "$tree"/{bin,dev,proc,sys,lower,upper,all,lib}
cp "$(command -v busybox)" "$tree/bin/busybox"
base=$(dirname "$(dirname "$(dirname "$MODULES")")")
version=$(basename "$MODULES")
for module in virtio_pci virtio_blk 9pnet_virtio 9p overlay ext4; do
	modprobe --dirname="$base" --set-version="$version" --show-depends "$module" 2>/dev/null
done | sed -n 's/^insmod //p' | awk '!seen[$1]++ { print $1 }' >"$folder/modules"
[ -s "$folder/modules" ] || fail "\"$MODULES\" has no virtio modules"
while read -r path; do cp "$path" "$tree/lib/"; done <"$folder/modules"
cat >"$tree/init" <<END
#!/bin/busybox sh
b=/bin/busybox
\$b mount -t proc proc /proc
\$b mount -t sysfs sys /sys
\$b mount -t devtmpfs dev /dev
for module in $(xargs -n1 basename <"$folder/modules" | xargs); do \$b insmod /lib/\$module; done
shared=trans=virtio,version=9p2000.L,msize=512000
\$b mount -t 9p -o ro,cache=loose,\$shared lower /lower
\$b mount -t tmpfs upper /upper
\$b mkdir /upper/upper /upper/work
\$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/upper,workdir=/upper/work overlay /all
for one in proc sys dev; do \$b mount --move /\$one /all/\$one; done
\$b mkdir -p /all/dev/shm /all/lib/modules/$version
for one in tmp run dev/shm; do \$b mount -t tmpfs tmpfs /all/\$one; done
\$b chmod 1777 /all/tmp /all/dev/shm
\$b mount -t 9p -o ro,cache=loose,\$shared modules /all/lib/modules/$version
\$b mount -t 9p -o \$shared out '/all$repository/out/peers'
\$b mount -t cgroup2 cgroup /all/sys/fs/cgroup
\$b hostname peers
\$b chroot /all /bin/sh -c 'cd "$repository" &&
	PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TERM=dumb PYTHONPATH=python:tests \\
	.venv/bin/python bench/peers/compare.py --disk /dev/vda --flash /dev/vdb --erase --out out/peers $*
	echo \$? >out/peers/status'
\$b sync
\$b poweroff -f
END
chmod +x "$tree/init"
(cd "$tree" && find . | cpio --quiet -o -H newc) >"$folder/initrd"

model=none
[ "$(id -u)" = 0 ] && model=passthrough
share() { echo "local,path=$1,mount_tag=$2,security_model=$model,id=$2,multidevs=remap"; }
drive() { echo "file=$1,if=virtio,format=raw,cache=none,discard=unmap"; }
rm -f out/peers/status
qemu-system-x86_64 -machine "accel=${ACCEL:-kvm:tcg}" -cpu max -smp "$(nproc)" -m "${MEMORY:-4G}" \
	-nodefaults -no-reboot -display none -serial stdio \
	-kernel "$KERNEL" -initrd "$folder/initrd" -append 'console=ttyS0 quiet panic=-1' \
	-virtfs "$(share / lower),readonly=on" -virtfs "$(share "$MODULES" modules),readonly=on" \
	-virtfs "$(share "$repository/out/peers" out)" \
	-drive "$(drive "$folder/disk"),throttling.iops-read=${DISK_IOPS:-500}" \
	-drive "$(drive "$folder/flash")" 2>&1 </dev/null
[ -r out/peers/status ] || fail 'the machine ended before the bench did'
code=$(cat out/peers/status)
rm -f out/peers/status
exit "$code"
