# SPDX-License-Identifier: PostgreSQL
"""A real Patroni cluster on this machine: three members on loopback, each a Patroni with a server.

Patroni is PyPI's, an optional dependency of the lab, with its own Raft among the members, so
nothing else has to run.  It runs as the server's user, from a copy of its packages if the driver is
root.  Each member reads a folder of configuration files, as `patroni FOLDER` does; JSON is YAML,
too.  A member whose data folder has a cluster starts with it; otherwise it makes or copies one.

All members of a cluster share one address of 127.0.0.0/8 that no other process of the lab has, with
ports below those that the kernel hands out: nobody can take a port in between.

Every user of this machine can connect to them.  So each cluster has a random password, which its
servers, its REST APIs and its Raft ask for.  It is in our memory, and in files that only the
server's user can read; a server's Unix socket, in a folder of that user, asks for none.

kill() is a crash of the machine: Patroni, then its postmaster, by their process ids.  If the driver
is killed, the kernel ends Patroni, which stops its server.
"""

import base64
import contextlib
import importlib.metadata
import json
import os
import re
import secrets
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
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgflash.errors import PgflashError
from pgflash.trusted import replace_file
from pgflash.waiting import wait_until
from pgflash_lab.account import ServerError, as_server_user, make_server_dir, server_account
from pgflash_lab.delayed_port import DelayedPort
from pgflash_lab.leftovers import forget_memory
from pgflash_lab.postgres import PgInstall, folder_lock
from pgflash_lab.processes import servers_in, spawn

SCOPE = "fleet"
#: The roles of Patroni, which have the cluster's password.
SUPERUSER, REPLICATOR, REWINDER = "postgres", "replicator", "rewinder"
NAMES = ("alpha", "beta", "gamma")

_RAFT, _REST, _SERVER, _DELAYED = 17001, 17101, 17201, 17301
#: The address of a cluster is made of the process's number and of one below this.
_NUMBERS = 32
_POLL_S = 0.02
_STOP_WAIT_S = 120.0

_free_numbers = set(range(_NUMBERS))
_numbers_lock = threading.Lock()

#: What Patroni with its own Raft needs; cryptography, so that Raft asks for a password.
_PACKAGES = ("patroni", "pysyncobj", "cryptography")


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
    #: Of Patroni's roles, of Raft, and of the REST API.
    password: str = field(default_factory=secrets.token_urlsafe, repr=False)
    #: Another user and password of the REST API, which asks for them where it changes something.
    login: tuple[str, str] | None = field(default=None, repr=False)
    #: Roles, not Patroni's, that log in without a password: those of tests.
    trusted: Sequence[str] = ()
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

    def conninfo(self, dbname: str = "postgres", user: str = SUPERUSER) -> str:
        """Return a connection string of its server, with the superuser's password.

        A command's arguments are public: see without_password().
        """
        password = self.cluster.plan.password if user == SUPERUSER else None
        return make_conninfo(
            "", host=self.host, port=self.port, dbname=dbname, user=user, password=password,
            connect_timeout="10",
        )  # fmt: skip

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
        """Have its data replaced by a base backup of the leader, as `patronictl reinit` does.

        The new folder gets other memory, so a server that was killed on the old one leaves its own.
        """
        forget_memory(self.data)
        self.cluster.wait_for(
            f"Patroni rebuilds {self.name}",
            self._accepts_reinitialization,
        )

    def _accepts_reinitialization(self) -> bool:
        with contextlib.suppress(OSError):  # Patroni has just been started
            return not _ask(
                f"{self.url}/reinitialize",
                {"force": True},
                method="POST",
                login=self.cluster.login,
            )
        return False

    def log_tail(self) -> str:
        """Return the end of its log."""
        lines = self.log_path.read_text(errors="replace").splitlines() if self.base.exists() else []
        return f"{self.name}:\n" + "\n".join(lines[-60:])

    def _write_configuration(self) -> None:
        plan = self.cluster.plan
        wal = [plan.wal[self.name]] if self.name in plan.wal else []
        username, password = self.cluster.login
        configuration = {
            "scope": SCOPE,
            "name": self.name,
            "restapi": {
                "listen": self._rest,
                "connect_address": self._rest,
                "authentication": {"username": username, "password": password},
            },
            "raft": {
                # Without one, Raft runs whatever code a stranger sends.
                "password": plan.password,
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
                    "superuser": {"username": SUPERUSER, "password": plan.password},
                    "replication": {"username": REPLICATOR, "password": plan.password},
                    "rewind": {"username": REWINDER, "password": plan.password},
                },
                "basebackup": ["no-sync", *({"waldir": str(path)} for path in wal)],
                "parameters": {
                    "unix_socket_directories": str(self.base),
                    **plan.own_parameters.get(self.name, {}),
                },
                "pg_hba": [
                    "local all all trust",
                    *(f"host all {role} all trust" for role in plan.trusted),
                    "host all all all scram-sha-256",
                    "host replication all all scram-sha-256",
                ],
            },
        }  # fmt: skip
        _write_secret(self.config / "10-patroni.yml", json.dumps(configuration).encode())


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
        #: User and password of the REST APIs.
        self.login = plan.login or ("lab", plan.password)
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
        """Return a connection string that leads to whichever member accepts writes.

        Its password must not be among the arguments of a command: see without_password().
        """
        return make_conninfo(
            "",
            host=",".join(member.host for member in self.members),
            port=",".join(str(member.port) for member in self.members),
            target_session_attrs="read-write",
            dbname=dbname,
            user=SUPERUSER,
            password=self.plan.password,
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
                refused = _ask(member.url + path, body, method=method, login=self.login)
                if refused:
                    raise ServerError(f"Patroni refused {method} {path}: {refused}")
                return
        raise ServerError("no member of the Patroni cluster answers")


def _ask(url: str, body: Mapping[str, object], *, method: str, login: tuple[str, str]) -> str:
    """Have a member change something; return why it refuses, or "".

    OSError: it does not answer.
    """
    known = base64.b64encode(":".join(login).encode()).decode()
    headers = {"Authorization": f"Basic {known}"}
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=_STOP_WAIT_S):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode(errors="replace") or str(error)


def _write_secret(path: Path, content: bytes) -> None:
    """Write a file that only the server's user can read, in a folder of that user."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        replace_file(folder, path.name, content, mode=0o600, sync=False)
        account = server_account()
        if account is not None:
            os.chown(path.name, account.uid, account.gid, dir_fd=folder, follow_symlinks=False)
    finally:
        os.close(folder)


def make_roles(connection: psycopg.Connection[Any], password: str) -> None:
    """Make Patroni's roles with their password, for a server that it did not make.

    The server is told no more than what it stores: what it is told may be in its log.
    """
    made = ((SUPERUSER, None), (REPLICATOR, "replication"), (REWINDER, "superuser"))
    for name, right in made:
        role = sql.Identifier(name)
        stored = connection.pgconn.encrypt_password(
            password.encode(), name.encode(), b"scram-sha-256"
        )
        if right is not None:
            connection.execute(sql.SQL("create role {} login {}").format(role, sql.SQL(right)))
        connection.execute(
            sql.SQL("alter role {} password {}").format(role, sql.Literal(stored.decode()))
        )


def wait_for(what: str, condition: Callable[[], object], *, wait_s: float) -> None:
    """Wait until a condition holds; raise if it does not in time."""
    if not wait_until(lambda: bool(condition()), wait_s, every_s=_POLL_S):
        raise ServerError(f"waited {wait_s:g} s in vain until {what}")


def require_patroni() -> None:
    """Raise if Patroni, its Raft or what that needs is not installed."""
    for name in _PACKAGES:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError as error:
            raise PatroniMissingError(
                f"the Python package {name} is not installed",
                hint="Install Patroni and its Raft beside the lab: "
                f"`{sys.executable} -m pip install {' '.join(_PACKAGES)}`.",
            ) from error


def _copied_packages(folder: Path) -> Path:
    """Return a folder with Patroni and what it needs, which the server's user can enter."""
    names = _required(*_PACKAGES, "psycopg", "psycopg-binary")
    versions = [f"{name}-{importlib.metadata.version(name)}" for name in _PACKAGES]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    path = folder / "-".join([*versions, f"python{python}"])
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
