# SPDX-License-Identifier: PostgreSQL
"""What is to be run, on what, and with which devices: fixed before anything is measured.

A run can be continued only as it was ordered: its stored description is compared with the new one,
and differences are named.  If half of the attempts had other settings, two experiments would share
one name.
"""

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pgflash
from pgflash.errors import PgflashError, UsageError
from pgflash.progress import Listener
from pgflash_lab import devices, host, store
from pgflash_lab.attempt import common_settings
from pgflash_lab.emulator import DeviceProfile
from pgflash_lab.extension import can_prefill, has_extension
from pgflash_lab.model.run import Device, Run
from pgflash_lab.parameters import Parameters
from pgflash_lab.postgres import PgInstall
from pgflash_lab.scenario import Scenario
from pgflash_lab.throttled import Limits

#: Fields of a run that must be the same when it is continued.
_FIXED = (
    *("scenario", "preset", "parameters", "files", "settings", "approaches", "devices"),
    *("machine", "postgres_version", "pgflash_version"),
)


class ExtensionMissingError(PgflashError):
    """The approaches need an extension that this PostgreSQL does not have."""


class ResumeError(PgflashError):
    """A run cannot be continued with this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be run, and where."""

    scenario: Scenario
    install: PgInstall
    store: store.Store
    #: Folder of the run; None: one by the run's id in the store.
    out: Path | None = None
    #: Id of the run; empty: one from the time when it begins.
    id: str = ""
    #: A run to continue, in its folder; None: a new one.
    resumed: Run | None = None
    #: If the run to continue was ordered differently, begin a new one instead of refusing.
    or_new: bool = False
    #: Two real devices; None: emulated ones.
    real: tuple[Path, Path] | None = None
    #: A volume on the first of them takes its place; None: the device itself.
    limits: Limits | None = None


def require_workload(order: Order) -> None:
    """Refuse early what would fail after the loading: a missing program, a script with an error."""
    scenario = order.scenario
    if order.real is not None and scenario.parameters.servers > 1:
        raise UsageError(
            f"the scenario {scenario.name} has {scenario.parameters.servers} servers, which would "
            "share your two devices",
            hint="Leave out --hdd and --flash: each server then has emulated devices of its own.",
        )
    for approach in scenario.approaches:
        scenario.workload.require(order.install, scenario.parameters_of(approach))


def without_second_flash(order: Order, listener: Listener) -> Order:
    """Leave out approaches whose cache is on two flash devices if the user named only one.

    Two files on one device would be measured, and called two devices.
    """
    scenario = order.scenario
    two = [one for one in scenario.approaches if one.cache and one.cache_files > 1]
    if order.real is None or not two:
        return order
    left = tuple(one for one in scenario.approaches if one not in two)
    if not left:
        raise UsageError(
            f"the cache of {two[0].name} is on two flash devices, and --flash names one",
            hint="Leave out --hdd and --flash, or measure other approaches: --set approaches=...",
        )
    for one in two:
        listener.note(f"{one.title}: left out, as it needs two flash devices and --flash names one")
    return dataclasses.replace(order, scenario=dataclasses.replace(scenario, approaches=left))


def require_extension(order: Order) -> None:
    """Refuse early what would fail after the loading: a cache without the extension.

    The same holds for a cache that is to be filled first if nothing can fill it: a cache that
    begins empty is another measurement.
    """
    scenario = order.scenario
    cached = [one for one in scenario.approaches if one.cache]
    if not cached:
        return
    if has_extension(order.install):
        if any(scenario.parameters_of(one).prewarms for one in cached) and not can_prefill(
            order.install
        ):
            raise ExtensionMissingError(
                f"PostgreSQL {order.install.version} has no pg_prewarm, which fills the cache",
                hint="Install PostgreSQL's contrib modules; or measure a cache that begins "
                "empty: --set prefill=false.",
            )
        return
    names = ",".join(one.name for one in order.scenario.approaches if not one.cache)
    raise ExtensionMissingError(
        f"the extension pgflash is not installed in PostgreSQL {order.install.version} "
        f"({order.install.pkglibdir})",
        hint=f"Install it: sudo make install PG_CONFIG={order.install.pg_config}; or leave the "
        f"cache out: --set approaches={names}.",
    )


def profiles(parameters: Parameters) -> tuple[DeviceProfile, DeviceProfile]:
    """Return the profiles of the emulated devices."""
    return DeviceProfile.named(parameters.array), DeviceProfile.named(parameters.flash)


def describe(order: Order, run_id: str, started: datetime, folders: devices.Folders) -> Run:
    """Describe the run as it is before its first attempt."""
    scenario = order.scenario
    if order.real is not None:
        hdd, flash = order.real
        array = devices.real_device("array", hdd)
        if order.limits is not None:
            array = devices.throttled_device(array, order.limits)
        described = (array, devices.real_device("flash", flash))
    else:
        array_profile, flash_profile = profiles(scenario.parameters)
        described = (
            emulated_device("array", array_profile),
            emulated_device("flash", flash_profile),
        )
    return Run(
        id=run_id,
        scenario=scenario.name,
        title=scenario.title,
        preset=scenario.preset,
        paper=scenario.paper,
        started_at=started.isoformat(timespec="seconds"),
        pgflash_version=pgflash.__version__,
        postgres_version=order.install.version,
        machine=host.machine_facts(folders.array),
        parameters=scenario.parameters.as_text(),
        files={
            name: digest
            for approach in scenario.approaches
            for name, digest in scenario.parameters_of(approach).files().items()
        },
        settings=common_settings(scenario, order.install),
        devices=described,
        approaches=scenario.approaches,
    )


def emulated_device(role: str, profile: DeviceProfile) -> Device:
    """Describe an emulated device by its profile."""
    facts = dict(line.split(" = ", 1) for line in profile.lines())
    return Device(
        role=role, name=profile.name, emulated=True, summary=profile.description, facts=facts
    )


def require_same(stored: Run, ordered: Run) -> None:
    """Refuse to continue a run that was ordered differently."""
    for name in _FIXED:
        before, now = getattr(stored, name), getattr(ordered, name)
        if before == now:
            continue
        what = name.replace("_", " ")
        if isinstance(before, dict):
            keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
            parts = [f"{key} was {before.get(key, 'not there')!r}" for key in keys]
            parts += [f"is {now.get(key, 'not there')!r} now" for key in keys[:1] if len(keys) == 1]
            what = f"{what}: {', '.join(parts)}"
        raise ResumeError(
            f"cannot resume run {stored.id}: it differs in {what}",
            hint="Order it as it was, or begin a new run without --resume.",
        )
