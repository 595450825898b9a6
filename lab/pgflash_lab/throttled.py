# SPDX-License-Identifier: PostgreSQL
"""A small cloud volume: a file system whose reads the kernel limits, for a group of processes.

    with throttled_volume(Path("/var/tmp"), size_bytes=4 << 30, memory_bytes=700 << 20) as volume:
        volume.limit(read_iops=500)
        with volume.entered():
            server.start()      # it and its children stay in the group

The volume is a file on a loop device.  The limits are a control group's: reads a second of that
device (blkio.throttle.read_iops_device, or io.max in version 2) and memory, page cache included
(memory.limit_in_bytes, or memory.max).  Nothing is emulated: the kernel delays the calls.

Needs root, a loop device, and control groups with these controllers; otherwise ThrottleError says
what is missing.  Writes are not limited.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgflash.errors import PgflashError
from pgflash.machine.mounts import read_mounts
from pgflash.machine.tree import HERE, Machine
from pgflash.model.words import size, whole

#: How long processes that have ended may keep a mount or a group busy.
_BUSY_S = 30.0
_POLL_S = 0.1
_NAME = "pgflash-volume-"


class ThrottleError(PgflashError):
    """This machine cannot limit a volume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How small a volume is to be."""

    read_iops: int
    #: Of all processes that use it, page cache included.
    memory_bytes: int

    @property
    def summary(self) -> str:
        """Return the limits in words."""
        return f"{whole(self.read_iops)} reads a second, {size(self.memory_bytes)} of memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A new control group."""

    #: Its folders, each with that of the group from which this process comes: with version 1 one
    #: for block devices and one for memory, with version 2 the same for both.
    blocks: Path
    memory: Path
    before: Mapping[Path, Path]
    version: int

    def limit_reads(self, device: str, iops: int | None) -> None:
        """Limit the reads a second of a device, MAJOR:MINOR; None: no limit."""
        if self.version == 1:
            _write(self.blocks / "blkio.throttle.read_iops_device", f"{device} {iops or 0}")
        else:
            _write(self.blocks / "io.max", f"{device} riops={iops or 'max'}")

    def limit_memory(self, limit_bytes: int) -> None:
        """Limit the memory, page cache included."""
        name = "memory.limit_in_bytes" if self.version == 1 else "memory.max"
        _write(self.memory / name, str(limit_bytes))

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be in the group: processes started meanwhile stay there."""
        try:
            for folder in self.before:
                _write(folder / "cgroup.procs", str(os.getpid()))
            yield
        finally:
            for before in self.before.values():
                _write(before / "cgroup.procs", str(os.getpid()))

    def remove(self) -> None:
        """Remove the group, once its processes have ended."""
        for folder in self.before:
            retry(folder.rmdir)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A mounted volume."""

    path: Path
    loop: str
    #: MAJOR:MINOR of its loop device.
    device: str
    group: Group

    def limit(self, *, read_iops: int | None) -> None:
        """Limit the reads a second of processes in the group; None: no limit."""
        self.group.limit_reads(self.device, read_iops)

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """Be in the group: servers started meanwhile feel the limits."""
        return self.group.entered()

    def mount_again(self) -> None:
        """Unmount and mount it: nothing of it is in the page cache then."""
        retry(lambda: run("umount", str(self.path)))
        run("mount", self.loop, str(self.path))

    def reads(self) -> int:
        """Return the number of reads from the device so far."""
        return int(HERE.read(f"/sys/dev/block/{self.device}/stat").split()[0])


@contextlib.contextmanager
def throttled_volume(place: Path, *, size_bytes: int, memory_bytes: int) -> Iterator[Volume]:
    """Yield a new volume, not limited yet, as a file in PLACE; remove it at the end.

    Processes that enter its group have MEMORY_BYTES.
    """
    if os.geteuid() != 0:
        raise ThrottleError("only root can limit a volume", hint="Run this as root.")
    with contextlib.ExitStack() as undo:
        folder = Path(tempfile.mkdtemp(prefix=_NAME, dir=place))
        undo.callback(shutil.rmtree, folder)
        folder.chmod(0o755)
        group = make_group(folder.name)
        undo.callback(group.remove)
        group.limit_memory(memory_bytes)
        image, path = folder / "image", folder / "volume"
        with image.open("wb") as file:
            file.truncate(size_bytes)
        path.mkdir()
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
        # By direct I/O: otherwise its blocks would be in the page cache twice.
        loop = run("losetup", "--find", "--show", "--direct-io=on", str(image))
        undo.callback(run, "losetup", "--detach", loop)
        run("mount", loop, str(path))
        undo.callback(retry, lambda: run("umount", str(path)))
        device = HERE.read(f"/sys/block/{Path(loop).name}/dev").strip()
        yield Volume(path=path, loop=loop, device=device, group=group)


def make_group(name: str, machine: Machine = HERE, *, only_memory: bool = False) -> Group:
    """Make a control group with the controllers for block devices and memory.

    ONLY_MEMORY: it can limit no device, and the limits of devices for the group from which this
    process comes stay in force.  Raises ThrottleError if this machine has no such controllers, or
    none that may be used.
    """
    memory = _version_1("memory", machine)
    blocks = memory if only_memory else _version_1("blkio", machine)
    version = 1
    if blocks is None or memory is None:
        version = 2
        needed = ("memory",) if only_memory else ("io", "memory")
        root, before = _version_2(machine, needed)
        blocks = memory = (root, before)
        # A group can limit what the one above it hands on.
        _write(root / "cgroup.subtree_control", " ".join(f"+{one}" for one in needed))
    folders = {above / name: before for above, before in (blocks, memory)}
    with contextlib.ExitStack() as undo:
        for folder in folders:
            try:
                folder.mkdir()
            except OSError as error:
                raise ThrottleError(
                    f'could not make the control group "{folder}": {error.strerror}'
                ) from error
            undo.callback(folder.rmdir)
        undo.pop_all()
    return Group(blocks=blocks[0] / name, memory=memory[0] / name, before=folders, version=version)


def _version_1(controller: str, machine: Machine) -> tuple[Path, Path] | None:
    """Return the group to make one below, and this process's own: with version 1 they are one."""
    own = _own_group(controller, machine)
    for mount in read_mounts(machine):
        if mount.file_system == "cgroup" and controller in mount.options and own is not None:
            folder = machine.path(mount.mount_point) / own
            return folder, folder
    return None


def _version_2(machine: Machine, needed: Collection[str]) -> tuple[Path, Path]:
    """Return the same for version 2, where a group with processes may have none below it."""
    own = _own_group("", machine)
    for mount in read_mounts(machine):
        known = (machine.text(f"{mount.mount_point}/cgroup.controllers") or "").split()
        if mount.file_system == "cgroup2" and own is not None and set(needed) <= set(known):
            root = machine.path(mount.mount_point)
            return root, root / own
    raise ThrottleError(
        "this machine has no control groups that limit block devices and memory",
        hint="It needs the controllers blkio and memory (version 1) or io and memory (version 2).",
    )


def _own_group(controller: str, machine: Machine) -> str | None:
    """Return the path of this process's group below the root; "" is the controller of version 2."""
    for line in (machine.text("/proc/self/cgroup") or "").splitlines():
        _number, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    return None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise ThrottleError(f'could not write "{text}" to "{path}": {error.strerror}') from error


def run(*command: str) -> str:
    """Run a command; return its output, or raise if it fails or is not installed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ThrottleError(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise ThrottleError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


def retry(do: Callable[[], object]) -> None:
    """Do it again, for half a minute, while something is still busy."""
    end = time.monotonic() + _BUSY_S
    while True:
        try:
            do()
        except (OSError, ThrottleError):
            if time.monotonic() > end:
                raise
            time.sleep(_POLL_S)
        else:
            return
