# SPDX-License-Identifier: PostgreSQL
"""The doctor's commands, in pairs: one takes effect now, the other at every start.

    kernel settings    sysctl -w           /etc/sysctl.d
    files in /sys      echo                /etc/tmpfiles.d
    disks              echo                /etc/udev/rules.d, by the disk's own name if it has one
    mount options      mount -o remount    /etc/fstab
    limits             (a restart)         a drop-in of the server's unit, or /etc/security/limits.d
    parameters         (reload, restart)   ALTER SYSTEM

Files are named zz-pgflash-*, so they are read last, and removing one reverts its setting.  No line
may keep a machine or a server from starting.  So a line of /etc/fstab gets only one more option,
which its file system supports, and a setting that needs space or memory is advised only if there is
some.
"""

import re
import shlex

from pgflash.model.device import DeviceFacts, DiskFacts
from pgflash.model.doctor import HostSettings

_NAME = "zz-pgflash"


def set_sysctl(name: str, value: int | str) -> tuple[str, ...]:
    """Return the commands for a kernel setting."""
    file = f"/etc/sysctl.d/{_NAME}-{name.rpartition('.')[2]}.conf"
    return (
        f"sysctl -w {name}={shlex.quote(str(value))}",
        f"echo '{name} = {value}' > {file}",
    )


def set_file(path: str, value: str) -> tuple[str, ...]:
    """Return the commands for a file of /sys that exists at every start."""
    file = f"/etc/tmpfiles.d/{_NAME}-{path.split('/')[-2]}.conf"
    return (f"echo {value} > {path}", f"echo 'w {path} - - - - {value}' > {file}")


# ---- disks


def set_disk(disk: DiskFacts, attribute: str, value: str) -> tuple[str, ...]:
    """Return the commands for a file below a disk's folder in /sys/block."""
    return _set_block(disk.name, _which(disk), attribute, value)


def set_read_ahead(device: DeviceFacts, kilobytes: int) -> tuple[str, ...]:
    """Return the commands for the read-ahead of what is mounted."""
    attribute, value = "queue/read_ahead_kb", str(kilobytes)
    if not device.kernel_name:  # a network's: its number is another one after each mount
        where = f"$(mountpoint -d {shlex.quote(device.mount_point)})"
        return (
            f"echo {value} > /sys/class/bdi/{where}/read_ahead_kb",
            "# for every mount to come: nfsrahead in /etc/nfs.conf",
        )
    if device.mapping:
        which = f'ENV{{DM_NAME}}=="{_plain(device.mapping)}"'
        return _set_block(device.kernel_name, which, attribute, value)
    # A partition reads ahead as its disk does, or as its array.
    for disk in device.disks:
        if re.fullmatch(rf"{re.escape(disk.name)}(p?\d+)?", device.kernel_name):
            return set_disk(disk, attribute, value)
    whole = re.sub(r"(?<=\d)p\d+$", "", device.kernel_name)
    return _set_block(whole, f'KERNEL=="{whole}"', attribute, value)


def _set_block(name: str, which: str, attribute: str, value: str) -> tuple[str, ...]:
    # A new scheduler forgets the length of the queue, so it is set first.
    order = 1 if attribute.endswith("scheduler") else 2
    file = f"/etc/udev/rules.d/{_NAME}-{name}-{order}-{attribute.rpartition('/')[2]}.rules"
    rule = f'ACTION=="add|change", {which}, ATTR{{{attribute}}}="{value}"'
    return (
        f"echo {shlex.quote(value)} > /sys/block/{name}/{attribute}",
        f"echo '{rule}' > {file}",
    )


def _which(disk: DiskFacts) -> str:
    """Return how udev finds a disk: its name may be another disk's after the next start."""
    if not disk.wwid:
        return f'KERNEL=="{disk.name}"'
    return f'ENV{{DEVTYPE}}=="disk", ATTRS{{wwid}}=="{_plain(disk.wwid)}"'


def _plain(name: str) -> str:
    """Return a pattern of udev for a name that anybody may have given."""
    return re.sub(r"[^\w .:-]", "?", name, flags=re.ASCII)


# ---- mounts


def set_option(host: HostSettings, mount_point: str, option: str) -> tuple[str, ...]:
    """Return the commands for one more mount option; the last of two that contradict counts."""
    now = f"mount -o remount,{option} {shlex.quote(mount_point)}"
    if mount_point not in host.fstab:
        return (now, f"# and for every start: {option} where this mount is configured")
    # In /etc/fstab a space is written \040; whatever sed or a shell may misread is any character.
    written = re.sub(r"[^\w/-]", ".", mount_point.replace(" ", r"\040"), flags=re.ASCII)
    word = "[^#[:space:]][^[:space:]]*"
    line = f"^({word}[[:space:]]+{written}([[:space:]]+{word}){{2}})"
    return (now, f"sed -E -i.before-pgflash 's|{line}|\\1,{option}|' /etc/fstab")


# ---- the server's process


def set_unit(host: HostSettings, name: str, *lines: str) -> tuple[str, ...]:
    """Return the commands for settings of the server's unit, in a drop-in."""
    folder = f"/etc/systemd/system/{host.unit}.d"
    text = "\\n".join(("[Service]", *lines, ""))
    return (
        f"mkdir -p {shlex.quote(folder)}",
        f"printf '{text}' > {shlex.quote(f'{folder}/{_NAME}-{name}.conf')}",
        "systemctl daemon-reload",
        f"# then restart the server: systemctl restart {shlex.quote(host.unit)}",
    )


def set_limit(host: HostSettings, name: str, value: int) -> tuple[str, ...]:
    """Return the commands for a limit of the server's processes, such as nofile."""
    if host.unit:
        return set_unit(host, name, f"Limit{name.upper()}={value}")
    if host.container:
        return (f"docker run --ulimit {name}={value} ...",)
    user = host.postmaster_user or (
        "" if host.postmaster_uid is None else f":{host.postmaster_uid}"
    )
    # There the stack is in kB.
    written = value // 1024 if name == "stack" else value
    return (
        f"echo '{user or '*'} - {name} {written}' > /etc/security/limits.d/{_NAME}-{name}.conf",
        "# then log in again as that user, and restart the server from there",
    )


def set_parameter(name: str, value: str, *, restart: bool = False) -> tuple[str, ...]:
    """Return the commands that set one of the server's parameters."""
    then = "-- then restart the server" if restart else "SELECT pg_reload_conf();"
    return (f"ALTER SYSTEM SET {name} = {value};", then)
