# SPDX-License-Identifier: PostgreSQL
"""A real Patroni cluster on this machine: three members on loopback, each a Patroni with a server.

Patroni is PyPI's, an optional dependency of the lab, with its own Raft among the members, so
nothing else has to run.  It runs as the server's user, from a copy of its packages if the driver is
root.  Each member reads a folder of configuration files, as `patroni FOLDER` does; JSON is YAML,
too.  A member whose data folder has a cluster starts with it; otherwise it makes or copies one.

All members of a cluster share one address of 127.0.0.0/8 that no other process of the lab has, with
ports below those that the kernel hands out: nobody can take a port in between.

kill() is a crash of the machine: Patroni, then its postmaster, by their process ids.  If the driver
is killed, the kernel ends Patroni, which stops its server.
"""

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from pgflash.errors import PgflashError
from pgflash.waiting import wait_until
from pgflash_lab.account import ServerError, as_server_user, make_server_dir, server_account
from pgflash_lab.delayed_port import DelayedPort
from pgflash_lab.leftovers import forget_memory
from pgflash_lab.postgres import PgInstall, folder_lock
from pgflash_lab.processes import servers_in, spawn

SCOPE = "fleet"
NAMES = ("alpha", "beta", "gamma")

_RAFT, _REST, _SERVER, _DELAYED = 17001, 17101, 17201, 17301
#: The address of a cluster is made of the process's number and of one below this.
_NUMBERS = 32
_POLL_S = 0.02
_STOP_WAIT_S = 120.0

_free_numbers = set(range(_NUMBERS))
_numbers_lock = threading.Lock()


class PatroniMissingError(PgflashError):
    """Patroni is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """How a cluster is to be."""

    #: Patroni's dynamic configuration, without what is said below.
    dynamic: Mapping[str, object]
    #: The servers' settings, the same on all members, and those of one member by its name.
    parameters: Mapping[str, object]
    own_parameters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Data folders by the members' names; by default in the member's own folder.
    data: Mapping[str, Path] = field(default_factory=dict)
    #: Folders of WAL outside the data folders, by the members' names.
    wal: Mapping[str, Path] = field(default_factory=dict)
    #: The emulated network between the servers: seconds of one way.  Clients are not behind it.
    delay_s: float = 0.0
    #: Variables of a member's Patroni and server, by its name.
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: User and password of the REST API, if it asks for them where it changes something.
    login: tuple[str, str] | None = None
    #: How long the cluster may take until it is as it should be.
    wait_s: float = 120.0


class PatroniMember:
    """One Patroni, its server, and their folder."""

    def __init__(self, cluster: "PatroniCluster", number: int) -> None:
        """Describe a member; start() starts it."""
        self.cluster = cluster
        self.name = NAMES[number]
        self.host = cluster.host
        self.port = _SERVER + number
        self.url = f"http://{cluster.host}:{_REST + number}"
        self.raft = f"{cluster.host}:{_RAFT + number}"
        self.base = make_server_dir(cluster.base / self.name)
        self.data = cluster.plan.data.get(self.name, self.base / "data")
        self.log_path = self.base / "patroni.log"
        #: The folder of configuration files that Patroni reads.
        self.config = make_server_dir(self.base / "conf.d")
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = f"{cluster.host}:{_REST + number}"
        #: By which other members reach its server.
        self.peer_port = _DELAYED + number if cluster.plan.delay_s else self.port

    def start(self) -> None:
        """Start Patroni, which makes or joins the cluster, and starts its server."""
        self._write_configuration()
        with self.log_path.open("ab") as log:
            self._process = spawn(
                [*as_server_user(with_driver="TERM"), *self.cluster.python, "-m", "patroni",
                 self.config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.base,
                env={**self.cluster.env, **self.cluster.plan.env.get(self.name, {})},
                start_new_session=True,
            )  # fmt: skip

    @property
    def is_running(self) -> bool:
        """Whether its Patroni runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def patroni_pid(self) -> int | None:
        """The process id of its Patroni, or None if it does not run."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def postmaster_pid(self) -> int | None:
        """The process id of its postmaster, or None if it does not run."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            if any(one.pid == pid for one in servers_in(self.data)):
                return pid
        return None

    def stop(self) -> None:
        """End Patroni as a service manager does: it stops its server, and hands the lead over."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_STOP_WAIT_S)

    def kill(self) -> None:
        """Crash: no process of this member can do another thing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_WAIT_S)
        for process in servers_in(self.data):
            process.send(signal.SIGKILL)
        wait_for(
            f"the processes of member {self.name} end",
            lambda: not servers_in(self.data),
            wait_s=_STOP_WAIT_S,
        )

    def conninfo(self, dbname: str = "postgres", user: str = "postgres") -> str:
        """Return a connection string of its server."""
        return make_conninfo(
            "", host=self.host, port=self.port, dbname=dbname, user=user, connect_timeout="10"
        )

    def connect(self, dbname: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """Connect to its server as superuser."""
        return psycopg.connect(self.conninfo(dbname), autocommit=True)

    def answers(self) -> bool:
        """Say whether its server takes connections."""
        with contextlib.suppress(psycopg.Error), self.connect():
            return True
        return False

    def status(self, path: str) -> int:
        """Return the status with which its REST API answers a path; 0 without an answer."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=_STOP_WAIT_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def ask(self, path: str) -> Any:  # noqa: ANN401
        """Return the document with which its REST API answers a path."""
        with urllib.request.urlopen(self.url + path, timeout=_STOP_WAIT_S) as answer:
            return json.load(answer)

    def reinitialize(self) -> None:
        """Have its data replaced by a base backup of the leader, as `patronictl reinit` does."""
        self.cluster.wait_for(
            f"Patroni rebuilds {self.name}",
            self._accepts_reinitialization,
        )

    def _accepts_reinitialization(self) -> bool:
        with contextlib.suppress(OSError):  # Patroni has just been started
            return not _ask(f"{self.url}/reinitialize", {"force": True}, method="POST")
        return False

    def log_tail(self) -> str:
        """Return the end of its log."""
        lines = self.log_path.read_text(errors="replace").splitlines() if self.base.exists() else []
        return f"{self.name}:\n" + "\n".join(lines[-60:])

    def _write_configuration(self) -> None:
        plan = self.cluster.plan
        wal = [plan.wal[self.name]] if self.name in plan.wal else []
        restapi: dict[str, Any] = {"listen": self._rest, "connect_address": self._rest}
        if plan.login is not None:
            username, password = plan.login
            restapi["authentication"] = {"username": username, "password": password}
        configuration = {
            "scope": SCOPE,
            "name": self.name,
            "restapi": restapi,
            "raft": {
                "data_dir": str(make_server_dir(self.base / "raft")),
                "self_addr": self.raft,
                # Otherwise it binds the port of all addresses, where another cluster may be.
                "bind_addr": self.raft,
                "partner_addrs": [f"{self.host}:{_RAFT + n}" for n in range(len(NAMES))],
            },
            "bootstrap": {
                "dcs": {
                    **plan.dynamic,
                    "postgresql": {"use_pg_rewind": True, "parameters": dict(plan.parameters)},
                },
                "initdb": [
                    {"encoding": "UTF8"}, {"locale": "C"}, {"wal-segsize": "1"}, "data-checksums",
                    "no-sync",
                ],
            },
            "postgresql": {
                "listen": f"{self.host}:{self.port}",
                "connect_address": f"{self.host}:{self.peer_port}",
                "data_dir": str(self.data),
                "bin_dir": str(self.cluster.install.bindir),
                "pgpass": str(self.base / "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres", "password": "p"},
                    "replication": {"username": "replicator", "password": "p"},
                    "rewind": {"username": "rewinder", "password": "p"},
                },
                "basebackup": ["no-sync", *({"waldir": str(path)} for path in wal)],
                "parameters": {
                    "unix_socket_directories": str(self.base),
                    **plan.own_parameters.get(self.name, {}),
                },
                "pg_hba": [
                    "local all all trust",
                    "host all guarded all scram-sha-256",
                    "host all all all trust",
                    "host replication all all trust",
                ],
            },
        }  # fmt: skip
        path = self.config / "10-patroni.yml"
        path.write_text(json.dumps(configuration))
        account = server_account()
        if account is not None:
            os.chown(path, account.uid, account.gid)


class PatroniCluster:
    """Three members with one leader."""

    def __init__(
        self, install: PgInstall, base: Path, plan: ClusterPlan, *, packages: Path
    ) -> None:
        """Describe a cluster with its members' folders in BASE.

        PACKAGES is where a copy of Patroni is kept for a user that cannot enter ours.
        """
        self.install = install
        self.plan = plan
        self.base = base
        require_patroni()
        self.python = [sys.executable]
        self.env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **install.env}
        if server_account() is not None:
            # The interpreter below our environment, which every user may run.
            self.python = [getattr(sys, "_base_executable", sys.executable)]
            self.env["PYTHONPATH"] = str(_copied_packages(packages))
        with _numbers_lock:
            self._number = min(_free_numbers)
            _free_numbers.remove(self._number)
        pid = os.getpid()
        #: No other process of the lab, and no other cluster of this one, has it.
        self.host = f"127.{64 + self._number * 4 + (pid >> 16 & 3)}.{pid >> 8 & 255}.{pid & 255}"
        self.members = [PatroniMember(self, number) for number in range(len(NAMES))]
        self._network: list[DelayedPort] = []

    def start(self) -> None:
        """Start all members, and wait until two of them follow the third."""
        if self.plan.delay_s:
            self._network = [
                DelayedPort(self.host, one.peer_port, to_port=one.port, delay_s=self.plan.delay_s)
                for one in self.members
            ]
        for member in self.members:
            member.start()
        self.wait_for("two members follow the third", self.is_whole)

    def wait_for(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until a condition holds, or raise."""
        wait_for(what, condition, wait_s=self.plan.wait_s)

    def conninfo(self, dbname: str) -> str:
        """Return a connection string that leads to whichever member accepts writes."""
        return make_conninfo(
            "",
            host=",".join(member.host for member in self.members),
            port=",".join(str(member.port) for member in self.members),
            target_session_attrs="read-write",
            dbname=dbname,
            user="postgres",
            connect_timeout="10",
        )

    def member(self, name: str) -> PatroniMember:
        """Return a member by its name."""
        return self.members[NAMES.index(name)]

    def view(self) -> dict[str, Any]:
        """Return what Patroni says of the cluster; nothing if no member answers."""
        for member in self.members:
            with contextlib.suppress(OSError, ValueError):
                return dict(member.ask("/cluster"))
        return {"members": []}

    def configure(self, settings: Mapping[str, object]) -> None:
        """Change the dynamic configuration, by the first member that answers."""
        self._request("/config", settings, method="PATCH")

    def switch_over(self, *, leader: str, candidate: str) -> None:
        """Ask Patroni to let another member lead; return once it has, or raise."""
        self._request("/switchover", {"leader": leader, "candidate": candidate}, method="POST")

    def leaders(self) -> list[str]:
        """Return the names of the leader, if there is one that accepts writes."""
        return self._named(lambda one: one["role"] == "leader" and one["state"] == "running")

    def leader(self) -> PatroniMember:
        """Wait for a leader, and return it."""
        found: list[str] = []

        def leads() -> bool:
            found[:] = self.leaders()
            return bool(found)

        self.wait_for("a member leads", leads)
        return self.member(found[0])

    def replicas(self) -> list[PatroniMember]:
        """Return the members that follow."""
        leader = self.leader()
        return [one for one in self.members if one is not leader]

    def synchronous(self) -> list[str]:
        """Return the names of the synchronous standbys."""
        return self._named(lambda one: one["role"] == "sync_standby")

    def is_whole(self) -> bool:
        """Say whether there is a leader, and all others stream from it."""
        following = self._named(lambda one: one["state"] == "streaming")
        return (
            len(self.leaders()) == 1
            and len(following) == len(NAMES) - 1
            # What Patroni knows of a server may be as old as its loop.
            and all(member.answers() for member in self.members)
        )

    def log_tails(self) -> str:
        """Return the ends of all logs, for the report of a failure."""
        return "\n".join(member.log_tail() for member in self.members)

    def close(self) -> None:
        """End every member; its files remain."""
        for member in self.members:
            member.kill()
            forget_memory(member.data)
        for port in self._network:
            port.close()
        with _numbers_lock:
            _free_numbers.add(self._number)

    def _named(self, condition: Callable[[Mapping[str, Any]], bool]) -> list[str]:
        return [one["name"] for one in self.view()["members"] if condition(one)]

    def _request(self, path: str, body: Mapping[str, object], *, method: str) -> None:
        """Have the first member that answers change something."""
        for member in self.members:
            with contextlib.suppress(OSError):
                refused = _ask(member.url + path, body, method=method)
                if refused:
                    raise ServerError(f"Patroni refused {method} {path}: {refused}")
                return
        raise ServerError("no member of the Patroni cluster answers")


def _ask(url: str, body: Mapping[str, object], *, method: str) -> str:
    """Have a member change something; return why it refuses, or "".

    OSError: it does not answer.
    """
    asked = urllib.request.Request(url, json.dumps(body).encode(), method=method)
    try:
        with urllib.request.urlopen(asked, timeout=_STOP_WAIT_S):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode(errors="replace") or str(error)


def wait_for(what: str, condition: Callable[[], object], *, wait_s: float) -> None:
    """Wait until a condition holds; raise if it does not in time."""
    if not wait_until(lambda: bool(condition()), wait_s, every_s=_POLL_S):
        raise ServerError(f"waited {wait_s:g} s in vain until {what}")


def require_patroni() -> None:
    """Raise if Patroni or its Raft is not installed."""
    for name in ("patroni", "pysyncobj"):
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError as error:
            raise PatroniMissingError(
                f"the Python package {name} is not installed",
                hint="Install Patroni and its Raft beside the lab: "
                f"`{sys.executable} -m pip install patroni pysyncobj`.",
            ) from error


def _copied_packages(folder: Path) -> Path:
    """Return a folder with Patroni and what it needs, which the server's user can enter."""
    names = _required("patroni", "pysyncobj", "psycopg", "psycopg-binary")
    version = importlib.metadata.version("patroni")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    path = folder / f"patroni-{version}-python{python}"
    with folder_lock(path):
        if not path.exists():
            new = path.with_name(f"{path.name}.new")
            shutil.rmtree(new, ignore_errors=True)
            for name in names:
                _copy_distribution(name, new)
            new.rename(path)
    return path


def _copy_distribution(name: str, into: Path) -> None:
    """Copy what a distribution has installed as modules."""
    for file in importlib.metadata.files(name) or ():
        source = Path(str(file.locate()))
        if ".." not in file.parts and "__pycache__" not in file.parts and source.is_file():
            target = into.joinpath(*file.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def _required(*names: str) -> Sequence[str]:
    """Return distributions, and those that they need, without extras."""
    found: list[str] = []
    todo = list(names)
    while todo:
        name = todo.pop(0)
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another Python or system
        if name not in found:
            found.append(name)
            todo += [
                match[0] for one in needs if "extra ==" not in one
                if (match := re.match(r"[A-Za-z0-9._-]+", one))
            ]  # fmt: skip
    return found
