# SPDX-License-Identifier: PostgreSQL
"""The three members of an attempt: each with its own array and flash, all with the same files.

The loaded database is restored once and started alone, to get the extension, the roles that Patroni
wants, and the ledger.  Its stopped files are then copied to the other members, so that no base
backup has to be taken; Patroni lets one of them lead and the others follow it.

The emulator has six devices in one state: an array and a flash drive for each member, which no
member shares with another.
"""

import contextlib
import shutil
from collections.abc import Iterator, Mapping

from pgflash_lab.account import make_server_dir, our_dir, reachable_preloads
from pgflash_lab.attempt import Lab
from pgflash_lab.devices import Folders, Places
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice
from pgflash_lab.extension import create_extension
from pgflash_lab.failover.ledger import make_ledger
from pgflash_lab.failover.model import FailoverParameters
from pgflash_lab.leftovers import remove_data
from pgflash_lab.model.run import Approach
from pgflash_lab.patroni import NAMES, ClusterPlan, PatroniCluster, make_roles
from pgflash_lab.postgres import copy_files
from pgflash_lab.server import Server, move_wal
from pgflash_lab.store import write_file
from pgflash_lab.workload import DATABASE

#: For the members' connections, workers and the WAL that a standby may still need.
_PARAMETERS = {
    "max_worker_processes": 16,
    "max_connections": 120,
    "wal_keep_size": "1GB",
    # No query of the lab on a standby is cancelled by what replication removes.
    "hot_standby_feedback": "on",
    "max_standby_streaming_delay": "60s",
}


def emulated_members(
    folders: Folders, array: DeviceProfile, flash: DeviceProfile
) -> list[EmulatedDevice]:
    """Return an array and a flash drive for each member."""
    return [
        EmulatedDevice(
            name=f"{role}-{name}", profile=profile, paths=(make_server_dir(folder / name),)
        )
        for name in NAMES
        for role, profile, folder in (
            ("array", array, folders.array),
            ("flash", flash, folders.flash),
        )
    ]


@contextlib.contextmanager
def running_fleet(lab: Lab, approach: Approach) -> Iterator[PatroniCluster]:
    """Run three members with the loaded database until they are not needed."""
    assert lab.emulator is not None
    places = {name: _places(lab.folders, name, approach) for name in NAMES}
    base = lab.work / "fleet"
    try:
        plan = _plan(lab, approach, places)
        _prepare(lab, approach, places, plan)
        cluster = PatroniCluster(lab.install, base, plan, packages=our_dir())
        try:
            cluster.start()
            cluster.wait_for("a standby is synchronous", cluster.synchronous)
            yield cluster
        except Exception:
            _keep_logs(lab, cluster)
            raise
        finally:
            cluster.close()
    finally:
        for one in places.values():
            one.clear()
        remove_data(base)


def _keep_logs(lab: Lab, cluster: PatroniCluster) -> None:
    """Keep the members' logs, Patroni's with its server's, in the run's folder."""
    if lab.out is not None:
        for member in cluster.members:
            if member.log_path.exists():
                write_file(lab.out / f"{member.name}.log", member.log_path.read_bytes())


def erase_flash(folders: Folders, name: str) -> None:
    """Empty a member's flash, and make the folders for its files, as a start on a blank drive does.

    The member must not run.
    """
    flash = folders.flash / name
    for folder in flash.iterdir():
        shutil.rmtree(folder)
        make_server_dir(folder)


def _places(folders: Folders, name: str, approach: Approach) -> Places:
    """Return where a member's files are."""
    flash = folders.flash / name
    return Places(
        base=make_server_dir(folders.array / name) / "server",
        wal=make_server_dir(flash / "wal") if approach.wal == "flash" else None,
        cache_files=(make_server_dir(flash / "cache") / "pgflash.cache",),
        tablespaces={},
        archive=None,
    )


def _prepare(lab: Lab, approach: Approach, places: Mapping[str, Places], plan: ClusterPlan) -> None:
    """Give each member the loaded database, with what the members need."""
    first, *others = (places[name] for name in NAMES)
    alone = Places(base=first.base, wal=None, cache_files=(), tablespaces={}, archive=None)
    server = Server.open(lab.install, first.base, settings=lab.settings(approach, alone))
    server.restore(lab.database.path)
    with server:
        server.start()
        with server.connect() as connection:
            make_roles(connection, plan.password)
        create_extension(server, statements=False)
        with server.connect(DATABASE) as connection:
            make_ledger(connection)
    # Patroni has the settings now.
    server.configure(dict.fromkeys(server.settings))
    for other in others:
        make_server_dir(other.base)
        remove_data(other.base / "data")
        copy_files("-T", "--reflink=auto", server.data, other.base / "data")
    for place in places.values():
        if place.wal is not None:
            move_wal(place.base / "data", place.wal)


def _plan(lab: Lab, approach: Approach, places: Mapping[str, Places]) -> ClusterPlan:
    parameters = lab.scenario.parameters_of(approach)
    assert isinstance(parameters, FailoverParameters)
    assert lab.emulator is not None
    settings = {name: lab.settings(approach, place) for name, place in places.items()}
    own = "pgflash.cache_file"
    common = {key: value for key, value in settings[NAMES[0]].items() if key != own}
    variables = reachable_preloads(lab.emulator.env)
    return ClusterPlan(
        dynamic={
            "ttl": parameters.ttl_s,
            "loop_wait": parameters.loop_wait_s,
            "retry_timeout": parameters.retry_timeout_s,
            "maximum_lag_on_failover": 1 << 40,
            "synchronous_mode": True,
            # A leader on a busy machine that reaches its members keeps its lead without Raft.
            "failsafe_mode": True,
        },
        parameters={**_PARAMETERS, **common, "pgflash.verify": str(parameters.verify)},
        own_parameters={name: {own: one[own]} for name, one in settings.items()},
        data={name: place.base / "data" for name, place in places.items()},
        wal={name: place.wal for name, place in places.items() if place.wal is not None},
        delay_s=parameters.network_ms / 2000,
        env=dict.fromkeys(NAMES, variables),
    )
