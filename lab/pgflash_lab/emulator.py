# SPDX-License-Identifier: PostgreSQL
"""Devices that do not exist: control the lab's device emulator.

A DeviceProfile says how a device behaves; it is read from a TOML file under emulator/profiles and
checked here, field by field.  An Emulator is one state file that maps directories to devices: it
provides the environment in which a server must be started, switches the delays, and reads the
devices' counters.  All its figures are about emulated devices and must be shown as such.

Two programs under emulator/build do the work: a library that the server preloads and a control
tool.  This module only writes the tool's configuration (plain integers, in nanoseconds and bytes)
and reads its JSON.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self, cast

from pgflash.errors import PgflashError
from pgflash.model.sizes import KB, MB

#: The variable that names the state file to the preloaded library.
STATE_VARIABLE = "PGFLASH_EMULATOR"

#: The emulator's folder, if it is not beside this source tree.
FOLDER_VARIABLE = "PGFLASH_EMULATOR_FOLDER"

#: The model's limit, EM_SERVERS_MAX in emulator/src/device.h.
SERVERS_MAX = 64

Kind = Literal["disk", "flash"]
Layout = Literal["stripe", "raid10", "raid5"]
Operation = Literal["read", "write", "log_write", "log_sync", "data_sync", "metadata"]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")
#: Where debian/rules puts it, below Python's own prefix.
_PACKAGED = "lib/pgflash-lab/emulator"
_NS_PER_US = 1_000
_NS_PER_MS = 1_000_000
_PPM = 1_000_000


class EmulatorError(PgflashError):
    """The emulator is not built, or refused a request."""


class ProfileError(EmulatorError):
    """A device profile does not exist or has an invalid field."""

    exit_code = 2


def emulator_folder() -> Path:
    """Return the folder that holds the emulator's build and profiles.

    The clone's; where the lab is installed from a package of a distribution, the package's.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    clone = Path(__file__).resolve().parents[2] / "emulator"
    packaged = Path(sys.prefix) / _PACKAGED
    return packaged if packaged.is_dir() and not clone.is_dir() else clone


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCache:
    """The write-back cache of an array's controller."""

    size_mb: float
    latency_us: float
    #: Part of a write's positioning that remains when the dirty blocks are sorted.
    destage_factor: float = 1.0
    #: Part of a spindle's time that destaging takes while reads wait.
    destage_share: float = 0.1
    #: Part of the dirty bytes that an fsync of a data file waits for.
    fsync_destages: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Limits of the device as a whole; None means no limit."""

    mb_s: float | None = None
    iops: int | None = None
    burst: int = 1
    io_kb: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """How a device behaves.  Times are ranges, drawn uniformly."""

    name: str
    kind: Kind
    description: str
    layout: Layout
    #: Spindles of an array or channels of a flash drive.
    servers: int
    stripe_kb: int
    read_position_ms: tuple[float, float]
    write_position_ms: tuple[float, float]
    rotation_ms: float
    bandwidth_mb_s: float
    log_sync_ms: tuple[float, float]
    write_cache: WriteCache | None = None
    limit: Limit = field(default_factory=Limit)

    @classmethod
    def load(cls, path: Path) -> "DeviceProfile":
        """Read a profile from a TOML file; its name is the file's."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ProfileError(
                f'there is no device profile "{path}"',
                hint=f"Profiles are: {', '.join(p.name for p in list_profiles()) or 'none'}.",
            ) from error
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ProfileError(f'could not read device profile "{path}": {error}') from error
        return cls.from_mapping(path.stem, content)

    @classmethod
    def named(cls, name: str) -> "DeviceProfile":
        """Read one of the profiles that come with the emulator."""
        return cls.load(emulator_folder() / "profiles" / f"{name}.toml")

    @classmethod
    def from_mapping(cls, name: str, content: Mapping[str, object]) -> "DeviceProfile":
        """Make a profile from a TOML file's content, or say which field is wrong."""
        if not _NAME.fullmatch(name):
            raise ProfileError(
                f'"{name}" is not a profile name',
                hint="Use up to 63 letters, digits, '-', '_' and '.'.",
            )
        fields = _Fields(name, "", content)
        kind = cast(Kind, fields.choice("kind", ("disk", "flash")))
        profile = _disk(name, fields) if kind == "disk" else _flash(name, fields)
        fields.refuse_others()
        _check_layout(profile)
        return profile

    @property
    def service_ms(self) -> float:
        """Mean positioning of a single read, without transfer and queueing."""
        return sum(self.read_position_ms) / 2 + self.rotation_ms / 2

    def lines(self) -> list[str]:
        """Return the profile in the control tool's format."""
        cache = self.write_cache or WriteCache(size_mb=0, latency_us=0)
        limit = self.limit
        values: dict[str, object] = {
            "profile": self.name,
            "kind": self.kind,
            "layout": self.layout,
            "servers": self.servers,
            "stripe_bytes": self.stripe_kb * KB,
            "bandwidth_bytes_s": round(self.bandwidth_mb_s * MB),
            "read_position_min_ns": round(self.read_position_ms[0] * _NS_PER_MS),
            "read_position_max_ns": round(self.read_position_ms[1] * _NS_PER_MS),
            "write_position_min_ns": round(self.write_position_ms[0] * _NS_PER_MS),
            "write_position_max_ns": round(self.write_position_ms[1] * _NS_PER_MS),
            "rotation_max_ns": round(self.rotation_ms * _NS_PER_MS),
            "log_sync_min_ns": round(self.log_sync_ms[0] * _NS_PER_MS),
            "log_sync_max_ns": round(self.log_sync_ms[1] * _NS_PER_MS),
            "cache_bytes": round(cache.size_mb * MB),
            "cache_latency_ns": round(cache.latency_us * _NS_PER_US),
            "destage_factor_ppm": round(cache.destage_factor * _PPM),
            "destage_share_ppm": round(cache.destage_share * _PPM),
            "fsync_destages_ppm": round(cache.fsync_destages * _PPM),
            "limit_bytes_s": round((limit.mb_s or 0) * MB),
            "limit_iops": limit.iops or 0,
            "limit_burst": limit.burst,
            "limit_io_bytes": (limit.io_kb or 0) * KB,
        }
        return [f"{key} = {value}" for key, value in values.items()]


def list_profiles() -> list[DeviceProfile]:
    """Return the profiles that come with the emulator, by name."""
    return [DeviceProfile.load(path) for path in sorted(_profile_paths())]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedDevice:
    """A device of a run: its name, its behaviour, and its directories."""

    name: str
    profile: DeviceProfile
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStats:
    """The cost of one kind of request."""

    count: int
    bytes: int
    #: By the model: the request's own time, and its wait for servers and limits.
    service_ms: float
    wait_ms: float
    #: By the clock: what the server saw, including late wake-ups.
    latency_ms: float
    #: Requests with a latency below 1, 2, 4, 8 ... us, but not below the previous bound.
    histogram_log2_us: tuple[int, ...]

    @property
    def mean_ms(self) -> float:
        """Mean latency by the clock; zero if there was no request."""
        return self.latency_ms / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStats:
    """One emulated device's statistics since the last reset."""

    name: str
    profile: str
    kind: Kind
    servers: int
    #: Busy share of the busiest of its bottlenecks; over 1 while requests are queued.
    utilisation: float
    #: Its bottlenecks: time of requests and destaging on the mean server, time of the bytes at the
    #: bandwidth limit, and of the requests at the IOPS limit; zero without that limit.
    busy_s: tuple[float, float, float]
    dirty_bytes: int
    #: How much longer it will be stalled.
    stalled_s: float
    #: 1 is as in its profile, 10 is ten times slower.
    slowness: float
    operations: Mapping[Operation, OperationStats]

    @property
    def reads(self) -> OperationStats:
        """Reads of any file."""
        return self.operations["read"]

    @property
    def writes(self) -> OperationStats:
        """Writes of any file but the log."""
        return self.operations["write"]

    @property
    def log_syncs(self) -> OperationStats:
        """Syncs of the log, for which commits wait."""
        return self.operations["log_sync"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorStats:
    """The emulated devices' statistics since the last reset."""

    delays_on: bool
    elapsed_s: float
    devices: tuple[DeviceStats, ...]

    def device(self, name: str) -> DeviceStats:
        """Return one device by its name."""
        for device in self.devices:
            if device.name == name:
                return device
        raise EmulatorError(f'there is no emulated device "{name}"')


class Emulator:
    """One state file, and its mapping of directories to devices.

    As a context manager it removes the state file at the end.  A server that is still running keeps
    its mapping and continues, so the order of stopping does not matter.
    """

    def __init__(self, state_path: Path, *, devices: Sequence[EmulatedDevice]) -> None:
        """Wrap an existing state file; see create()."""
        self.state_path = state_path
        self.devices = tuple(devices)

    @classmethod
    def create(
        cls,
        state_path: Path,
        *,
        devices: Sequence[EmulatedDevice],
        owner: int | None = None,
        delays_on: bool = True,
    ) -> "Emulator":
        """Make the state file.

        The directories must exist: they are stored without symbolic links.  OWNER is the user id
        that the server runs as; omit it if that is ours.
        """
        library_path()
        lines = [line for device in devices for line in _device_lines(device)]
        config_path = state_path.with_name(state_path.name + ".conf")
        config_path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        try:
            _control(
                "create",
                str(state_path),
                str(config_path),
                *(("--owner", str(owner)) if owner is not None else ()),
                *(() if delays_on else ("--off",)),
            )
        finally:
            config_path.unlink()
        return cls(state_path, devices=devices)

    @property
    def env(self) -> dict[str, str]:
        """Variables to add to the environment of a server that shall use the devices."""
        return {"LD_PRELOAD": str(library_path()), STATE_VARIABLE: str(self.state_path)}

    def on(self) -> None:
        """Switch the delays on."""
        _control("on", str(self.state_path))

    def off(self) -> None:
        """Switch the delays off, for setting up and warming up; counting continues."""
        _control("off", str(self.state_path))

    def reset(self) -> None:
        """Reset the statistics."""
        _control("reset", str(self.state_path))

    def stall(self, device: str, *, seconds: float) -> None:
        """From now on, let no call and no request of a device finish for this long.

        This holds with delays on and off. 0 ends a stall.
        """
        _control("stall", str(self.state_path), device, str(round(seconds * 1000)))

    def slow(self, device: str, *, factor: float) -> None:
        """From now on, make a device this much slower than its profile; 1 restores it."""
        _control("slow", str(self.state_path), device, str(round(factor * _PPM)))

    def stats(self) -> EmulatorStats:
        """Read the statistics since the last reset."""
        return _parse_stats(_control("stats", str(self.state_path)))

    def destroy(self) -> None:
        """Remove the state file, if it is still there."""
        if self.state_path.exists():
            _control("destroy", str(self.state_path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.destroy()


def library_path() -> Path:
    """Return the library to preload; both programs must have been built."""
    return _built("libpgflash_emulator.so")


# Reading profiles.


class _Fields:
    """A TOML table that is read field by field, with errors that name the field."""

    def __init__(self, profile: str, table: str, content: Mapping[str, object]) -> None:
        self._where = f'device profile "{profile}"'
        self._profile = profile
        self._table = table
        self._content = dict(content)

    def wrong(self, key: str, what: str) -> ProfileError:
        return ProfileError(f"{self._where}: {self._table}{key} {what}")

    def _take(self, key: str) -> object:
        if key not in self._content:
            raise self.wrong(key, "is missing")
        return self._content.pop(key)

    def has(self, key: str) -> bool:
        return key in self._content

    def choice(self, key: str, choices: Sequence[str]) -> str:
        value = self._take(key)
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(key, f"must be one of {', '.join(choices)}")
        return value

    def text(self, key: str) -> str:
        value = self._take(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "must be a text")
        return value

    def integer(self, key: str, *, least: int, most: int) -> int:
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(key, f"must be an integer from {least} to {most}")
        return value

    def _number(self, key: str, value: object, *, least: float, most: float) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= float(cast(float, value)) <= most:
            raise self.wrong(key, f"must be a number from {least:g} to {most:g}")
        return float(cast(float, value))

    def number(self, key: str, *, least: float, most: float) -> float:
        return self._number(key, self._take(key), least=least, most=most)

    def range(self, key: str, *, most: float) -> tuple[float, float]:
        value = self._take(key)
        if not isinstance(value, list) or len(value) != 2:
            raise self.wrong(key, "must be a pair [least, most]")
        low, high = (self._number(key, part, least=0, most=most) for part in value)
        if low > high:
            raise self.wrong(key, "must not be turned round: [least, most]")
        return low, high

    def table(self, key: str) -> "_Fields":
        value = self._take(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "must be a table")
        return _Fields(self._profile, f"{self._table}{key}.", value)

    def refuse_others(self) -> None:
        for key in self._content:
            raise self.wrong(key, "is not a field of a device profile")


def _disk(name: str, fields: _Fields) -> DeviceProfile:
    seek_ms = fields.range("seek_ms", most=1000)
    return DeviceProfile(
        name=name,
        kind="disk",
        description=fields.text("description"),
        layout=cast(Layout, fields.choice("layout", ("stripe", "raid10", "raid5"))),
        servers=fields.integer("spindles", least=1, most=SERVERS_MAX),
        stripe_kb=fields.integer("stripe_kb", least=4, most=1_048_576),
        read_position_ms=seek_ms,
        write_position_ms=seek_ms,
        rotation_ms=fields.number("rotation_ms", least=0, most=1000),
        bandwidth_mb_s=fields.number("bandwidth_mb_s", least=0.1, most=1_000_000),
        log_sync_ms=fields.range("log_sync_ms", most=1000),
        write_cache=_write_cache(fields),
        limit=_limit(fields),
    )


def _flash(name: str, fields: _Fields) -> DeviceProfile:
    def ms(key: str) -> tuple[float, float]:
        low_us, high_us = fields.range(key, most=1_000_000)
        return low_us / 1000, high_us / 1000

    return DeviceProfile(
        name=name,
        kind="flash",
        description=fields.text("description"),
        layout="stripe",
        servers=fields.integer("channels", least=1, most=SERVERS_MAX),
        stripe_kb=fields.integer("stripe_kb", least=4, most=1_048_576),
        read_position_ms=ms("read_us"),
        write_position_ms=ms("write_us"),
        rotation_ms=0.0,
        bandwidth_mb_s=fields.number("bandwidth_mb_s", least=0.1, most=1_000_000),
        log_sync_ms=fields.range("log_sync_ms", most=1000),
        write_cache=_write_cache(fields),
        limit=_limit(fields),
    )


def _write_cache(fields: _Fields) -> WriteCache | None:
    if not fields.has("write_cache"):
        return None
    table = fields.table("write_cache")
    cache = WriteCache(
        size_mb=table.number("size_mb", least=0.1, most=1_048_576),
        latency_us=table.number("latency_us", least=0, most=1_000_000),
        destage_factor=table.number("destage_factor", least=0, most=1),
        destage_share=table.number("destage_share", least=0, most=0.9),
        fsync_destages=table.number("fsync_destages", least=0, most=1),
    )
    table.refuse_others()
    return cache


def _limit(fields: _Fields) -> Limit:
    if not fields.has("limit"):
        return Limit()
    table = fields.table("limit")
    limit = Limit(
        mb_s=table.number("mb_s", least=0.1, most=1_000_000) if table.has("mb_s") else None,
        iops=table.integer("iops", least=1, most=100_000_000) if table.has("iops") else None,
        burst=table.integer("burst", least=1, most=1_000_000) if table.has("burst") else 1,
        io_kb=table.integer("io_kb", least=4, most=1_048_576) if table.has("io_kb") else None,
    )
    table.refuse_others()
    return limit


def _check_layout(profile: DeviceProfile) -> None:
    wrong = ""
    if profile.layout == "raid10" and profile.servers % 2:
        wrong = "spindles must be even with layout raid10"
    if profile.layout == "raid5" and profile.servers < 3:
        wrong = "spindles must be at least 3 with layout raid5"
    if wrong:
        raise ProfileError(f'device profile "{profile.name}": {wrong}')


def _profile_paths() -> list[Path]:
    return list((emulator_folder() / "profiles").glob("*.toml"))


# Talking to the control tool.


def _built(name: str) -> Path:
    path = emulator_folder() / "build" / name
    if not path.is_file():
        raise EmulatorError(
            f'the device emulator is not built: there is no "{path}"',
            hint="Build it with `make -C emulator`.",
        )
    return path


def _control(*arguments: str) -> str:
    program = _built("pgflash-emulator")
    done = subprocess.run(
        [str(program), *arguments], check=False, capture_output=True, encoding="utf-8"
    )
    if done.returncode != 0:
        raise EmulatorError(done.stderr.strip() or f"{program} {arguments[0]} failed")
    return done.stdout


def _device_lines(device: EmulatedDevice) -> list[str]:
    if not _NAME.fullmatch(device.name):
        raise EmulatorError(f'"{device.name}" is not a device name')
    for path in device.paths:
        if "\n" in str(path):
            raise EmulatorError(f"a path must not hold a line break: {str(path)!r}")
    paths = [f"path = {path.resolve()}" for path in device.paths]
    return [f"[{device.name}]", *device.profile.lines(), *paths]


def _parse_stats(text: str) -> EmulatorStats:
    raw = json.loads(text)
    return EmulatorStats(
        delays_on=raw["delays_on"],
        elapsed_s=raw["elapsed_ns"] / 1e9,
        devices=tuple(
            DeviceStats(
                name=device["name"],
                profile=device["profile"],
                kind=device["kind"],
                servers=device["servers"],
                utilisation=device["utilisation"],
                busy_s=(
                    device["used_ns"] / device["servers"] / 1e9,
                    device["pipe_used_ns"] / 1e9,
                    device["admitted_used_ns"] / 1e9,
                ),
                dirty_bytes=device["dirty_bytes"],
                stalled_s=device["stalled_ns"] / 1e9,
                slowness=device["slowness_ppm"] / _PPM,
                operations={
                    name: OperationStats(
                        count=tally["count"],
                        bytes=tally["bytes"],
                        service_ms=tally["service_ns"] / _NS_PER_MS,
                        wait_ms=tally["wait_ns"] / _NS_PER_MS,
                        latency_ms=tally["latency_ns"] / _NS_PER_MS,
                        histogram_log2_us=tuple(tally["histogram_log2_us"]),
                    )
                    for name, tally in device["operations"].items()
                },
            )
            for device in raw["devices"]
        ),
    )
