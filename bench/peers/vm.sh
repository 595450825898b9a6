#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Run compare.py in a virtual machine, which limits its disk: DISK_IOPS reads a second (500;
# with uml 100).
#
#	bench/peers/vm.sh [--quick]
#
# The machine runs a kernel of Debian's, which has bcache and dm-cache, on this machine's own files,
# read only; what it writes to them is gone with it.  Nothing here is changed but out/peers/, and
# root is not needed.  MACHINE says what it is:
#
#	kvm  QEMU with KVM, as fast as this machine; the default where this
#	     processor has it
#	uml  User-Mode Linux, a kernel that is a process of this one; the default elsewhere.  It has
#	     one processor, and a system call takes several times as long, so that the disk matters
#	     less than it would: the caches can be compared with each other
#	tcg  QEMU that emulates the processors; it shows that everything works, and no more
#
# FOLDER: where the two disks' images are, 5 GB (/var/tmp; with uml /dev/shm).  KERNEL and MODULES,
# for QEMU: other ones than the newest of /boot that has its modules in /lib/modules.  MEMORY of the
# machine: 4G.
set -euo pipefail
cd "$(dirname "$0")/../.."
repository=$PWD
PATH=$PATH:/sbin:/usr/sbin

fail()
{
	echo "bench/peers/vm.sh: $1" >&2
	exit 2
}

need()
{
	local program
	for program in busybox cpio modprobe "${@:2}"; do
		command -v "$program" >/dev/null ||
			fail "$program is missing (Debian: busybox-static, cpio, kmod, $1)"
	done
}

if [ -z "${MACHINE:-}" ]; then
	MACHINE=uml
	[ -w /dev/kvm ] && grep -qwE 'svm|vmx' /proc/cpuinfo && MACHINE=kvm
fi
case $MACHINE in
kvm | tcg)
	need qemu-system-x86 qemu-system-x86_64
	if [ -z "${KERNEL:-}" ]; then
		for kernel in $(find /boot -maxdepth 1 -name 'vmlinuz-*' | sort --version-sort); do
			version=${kernel#/boot/vmlinuz-}
			[ -n "$(find "/lib/modules/$version" -name 'dm-cache.ko*' 2>/dev/null)" ] && KERNEL=$kernel MODULES=/lib/modules/$version
		done
	fi
	[ -r "${KERNEL:-}" ] || fail 'no kernel with dm-cache in /boot (Debian: linux-image-amd64)'
	[ -d "${MODULES:-}" ] || fail "no modules of the kernel: MODULES=DIR"
	first='virtio_pci virtio_blk 9pnet_virtio 9p overlay ext4'
	plan9=trans=virtio,version=9p2000.L,msize=512000
	lower="-t 9p -o ro,cache=loose,$plan9 lower" modules="-t 9p -o ro,cache=loose,$plan9 modules"
	out="-t 9p -o $plan9 out"
	disk=/dev/vda flash=/dev/vdb
	limit='mount -t cgroup2 cgroup /all/sys/fs/cgroup'
	;;
uml)
	need user-mode-linux linux.uml
	# Its processor reaches no limit of 500.
	DISK_IOPS=${DISK_IOPS:-100}
	MODULES=$(find /usr/lib/uml/modules -mindepth 1 -maxdepth 1 | tail -n 1)
	FOLDER=${FOLDER:-/dev/shm}
	first=overlay
	lower='-t hostfs -o ro,/ none' modules="-t hostfs -o ro,$MODULES none"
	out="-t hostfs -o $repository/out/peers none"
	disk=/dev/ubda flash=/dev/ubdb
	# With version 1, the group above all others can be limited: the caches' own threads are in it.
	limit="mount -t tmpfs cgroup /all/sys/fs/cgroup
for one in blkio memory; do
	\$b mkdir /all/sys/fs/cgroup/\$one
	\$b mount -t cgroup -o \$one cgroup /all/sys/fs/cgroup/\$one
done
echo \"\$(\$b cat /all/sys/class/block/ubda/dev) $DISK_IOPS\" \\
	>/all/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device"
	;;
*) fail "MACHINE=$MACHINE: kvm, uml or tcg" ;;
esac

folder=$(mktemp -d "${FOLDER:-/var/tmp}/pgflash-peers.XXXXXX")
machine=
clean_up()
{
	[ -z "$machine" ] || { kill "$machine" && wait "$machine"; } 2>/dev/null || true
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 143' HUP INT TERM
truncate -s 4G "$folder/disk"
truncate -s 512M "$folder/flash"
mkdir -p out/peers

# ---- a first file system: modules, and how to get to the real one
tree=$folder/tree
mkdir -p "$tree"/{bin,dev,proc,sys,lower,upper,all,lib}
cp "$(command -v busybox)" "$tree/bin/busybox"
version=$(basename "$MODULES")
mkdir -p "$folder/lib" && ln -s "$(dirname "$MODULES")" "$folder/lib/modules"
for module in $first; do
	modprobe --dirname="$folder" --set-version="$version" --show-depends "$module" 2>/dev/null
done | sed -n 's/^insmod //p' | awk '!seen[$1]++ { print $1 }' >"$folder/modules"
[ -s "$folder/modules" ] || fail "\"$MODULES\" lacks modules: $first"
while read -r path; do cp "$path" "$tree/lib/"; done <"$folder/modules"
cat >"$tree/init" <<END
#!/bin/busybox sh
b=/bin/busybox
\$b mount -t proc proc /proc
\$b mount -t sysfs sys /sys
\$b mount -t devtmpfs dev /dev
for module in $(xargs -n1 basename <"$folder/modules" | xargs); do \$b insmod /lib/\$module; done
\$b mount $lower /lower
\$b mount -t tmpfs upper /upper
\$b mkdir /upper/upper /upper/work
\$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/upper,workdir=/upper/work overlay /all
for one in proc sys dev; do \$b mount --move /\$one /all/\$one; done
\$b mkdir -p /all/dev/shm /all/lib/modules/$version
for one in tmp run dev/shm; do \$b mount -t tmpfs tmpfs /all/\$one; done
\$b chmod 1777 /all/tmp /all/dev/shm
\$b mount $modules /all/lib/modules/$version
\$b mount $out '/all$repository/out/peers'
\$b $limit
\$b hostname peers
\$b chroot /all /bin/sh -c 'cd "$repository" &&
	PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TERM=dumb PYTHONPATH=python:tests \\
	.venv/bin/python bench/peers/compare.py --disk $disk --flash $flash --erase --out out/peers $*
	echo \$? >out/peers/status'
\$b sync
\$b poweroff -f
END
chmod +x "$tree/init"
(cd "$tree" && find . | cpio --quiet -o -H newc) >"$folder/initrd"

rm -f out/peers/status
if [ "$MACHINE" = uml ]; then
	TMPDIR=/dev/shm linux.uml "mem=${MEMORY:-4G}" "ubd0=$folder/disk" "ubd1=$folder/flash" \
		"initrd=$folder/initrd" root=/dev/ram0 con=null con0=null,fd:1 loglevel=2 panic=-1 2>&1 </dev/null &
else
	model=none
	[ "$(id -u)" = 0 ] && model=passthrough
	share() { echo "local,path=$1,mount_tag=$2,security_model=$model,id=$2,multidevs=remap"; }
	drive() { echo "file=$1,if=virtio,format=raw,cache=none,discard=unmap"; }
	qemu-system-x86_64 -machine "accel=$MACHINE" -cpu max -smp "$(nproc)" -m "${MEMORY:-4G}" \
		-nodefaults -no-reboot -display none -serial stdio \
		-kernel "$KERNEL" -initrd "$folder/initrd" -append 'console=ttyS0 quiet panic=-1' \
		-virtfs "$(share / lower),readonly=on" -virtfs "$(share "$MODULES" modules),readonly=on" \
		-virtfs "$(share "$repository/out/peers" out)" \
		-drive "$(drive "$folder/disk"),throttling.iops-read=${DISK_IOPS:-500}" \
		-drive "$(drive "$folder/flash")" 2>&1 </dev/null &
fi
machine=$!
wait "$machine" || true
machine=
[ -r out/peers/status ] || fail 'the machine ended before the bench did'
code=$(cat out/peers/status)
rm -f out/peers/status
exit "$code"
