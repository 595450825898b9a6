# SPDX-License-Identifier: PostgreSQL
"""A real Patroni cluster: three members on loopback, each a Patroni with a server and its cache.

Patroni is PyPI's, with its own Raft among the members, so nothing else has to run.  It runs as the
server's user, from a copy of its packages if that user cannot enter ours.  Each member reads a
folder of configuration files, as `patroni FOLDER` does; JSON is YAML, too.

All members of a cluster share one address of 127.0.0.0/8 that no other process of tests has, with
ports below those that the kernel hands out: nobody can take a port in between.

Timings are Patroni's shortest for its loop, so that tests are not slow, and long for everything
that a busy machine could miss: the leader's key lives for thirty seconds, and failsafe mode keeps a
leader that cannot reach Raft while it reaches the members.

kill() is a crash of the machine: Patroni, then its postmaster, by their process ids.
"""

import contextlib
import importlib.metadata
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgflash_lab.account import as_server_user, make_server_dir, reachable_dir, server_account
from pgflash_lab.leftovers import forget_memory, remove_tree
from pgflash_lab.postgres import PgInstall
from pgflash_lab.processes import servers_in, spawn
from support.cluster import REPOSITORY, folder_in_memory, locked
from support.patience import PATIENCE_S, until

SCOPE = "fleet"
NAMES = ("alpha", "beta", "gamma")
#: The password of the REST API of a cluster that has one.
USER, PASSWORD = "operator", "s3cret of the API"

_RAFT, _REST, _SERVER = 17001, 17101, 17201
_CACHE_SIZE = "16MB"
_numbers = itertools.count()

_DCS_SETTINGS = {
    "ttl": 30,
    "loop_wait": 1,
    "retry_timeout": 10,
    "failsafe_mode": True,
    "maximum_lag_on_failover": 1 << 30,
}
#: The same on all members.
_PARAMETERS = {
    "shared_preload_libraries": "pgflash",
    "fsync": "off",
    "autovacuum": "off",
    "shared_buffers": "16MB",
    "max_connections": 40,
    "max_worker_processes": 16,
    "min_wal_size": "4MB",
    "max_wal_size": "64MB",
    "wal_keep_size": "64MB",
    "pgflash.cache_size": _CACHE_SIZE,
    "pgflash.snapshot_interval": 0,
    "pgflash.read_deadline": "10s",
}


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
        self.data = self.base / "data"
        self.log_path = self.base / "patroni.log"
        #: The folder of configuration files that Patroni reads.
        self.config = make_server_dir(self.base / "conf.d")
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = f"{cluster.host}:{_REST + number}"

    def start(self) -> None:
        """Start Patroni, which makes or joins the cluster, and starts its server."""
        self._write_configuration()
        with self.log_path.open("ab") as log:
            self._process = spawn(
                [*as_server_user(with_driver="TERM"), *self.cluster.python, "-m", "patroni",
                 self.config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.base,
                env=self.cluster.env, start_new_session=True,
            )  # fmt: skip

    @property
    def is_running(self) -> bool:
        """Whether its Patroni runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End Patroni as a service manager does: it stops its server, and hands the lead over."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        """Crash: no process of this member can do another thing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
        for process in servers_in(self.data):
            process.send(signal.SIGKILL)
        until(lambda: not servers_in(self.data))

    def conninfo(self, dbname: str = "postgres", user: str = "postgres") -> str:
        """Return a connection string of its server."""
        return make_conninfo(
            "", host=self.host, port=self.port, dbname=dbname, user=user, connect_timeout="10"
        )

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect to its server as superuser."""
        return psycopg.connect(self.conninfo(), autocommit=True)

    def answers(self) -> bool:
        """Say whether its server takes connections."""
        with contextlib.suppress(psycopg.Error), self.connect():
            return True
        return False

    def status(self, path: str) -> int:
        """Return the status with which its REST API answers a path; 0 without an answer."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=PATIENCE_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def ask(self, path: str) -> Any:  # noqa: ANN401
        """Return the document with which its REST API answers a path."""
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def log_tail(self) -> str:
        """Return the end of its log."""
        lines = self.log_path.read_text(errors="replace").splitlines() if self.base.exists() else []
        return f"{self.name}:\n" + "\n".join(lines[-60:])

    def _write_configuration(self) -> None:
        own = {"pgflash.cache_file": str(self.base / "cache")}
        own |= self.cluster.own_parameters.get(self.name, {})
        restapi: dict[str, Any] = {"listen": self._rest, "connect_address": self._rest}
        if self.cluster.guarded:
            restapi["authentication"] = {"username": USER, "password": PASSWORD}
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
                    **_DCS_SETTINGS,
                    "postgresql": {"use_pg_rewind": True, "parameters": _PARAMETERS},
                },
                "initdb": [
                    {"encoding": "UTF8"}, {"locale": "C"}, {"wal-segsize": "1"}, "data-checksums",
                    "no-sync",
                ],
            },
            "postgresql": {
                "listen": f"{self.host}:{self.port}",
                "connect_address": f"{self.host}:{self.port}",
                "data_dir": str(self.data),
                "bin_dir": str(self.cluster.install.bindir),
                "pgpass": str(self.base / "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres", "password": "p"},
                    "replication": {"username": "replicator", "password": "p"},
                    "rewind": {"username": "rewinder", "password": "p"},
                },
                "basebackup": ["no-sync"],
                "parameters": {"unix_socket_directories": str(self.base), **own},
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
    """Members with one leader, as the fixture of a test has it."""

    def __init__(
        self,
        install: PgInstall,
        *,
        guarded: bool = False,
        own_parameters: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Describe a cluster; GUARDED asks for a password where its REST API changes something.

        OWN_PARAMETERS are settings of one member, by its name.
        """
        self.install = install
        self.guarded = guarded
        self.own_parameters = own_parameters or {}
        number = next(_numbers)
        pid = os.getpid()
        assert number < 32
        #: No other process of tests, and no other cluster of this one, has it.
        self.host = f"127.{64 + number * 4 + (pid >> 16 & 3)}.{pid >> 8 & 255}.{pid & 255}"
        self.base = Path(tempfile.mkdtemp(prefix="pgflash-test-", dir=folder_in_memory()))
        self.base.chmod(0o755)
        #: The interpreter below our environment, which every user may run.
        self.python = [getattr(sys, "_base_executable", sys.executable)]
        self.env = {
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(_packages()),
            **install.env,
        }
        self.members = [PatroniMember(self, number) for number in range(len(NAMES))]

    def start(self) -> None:
        """Start all members, and wait until two of them follow the third."""
        for member in self.members:
            member.start()
        until(self.is_whole)
        with self.leader().connect() as connection:
            connection.execute("create extension if not exists pgflash")

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
        body = json.dumps(settings).encode()
        for member in self.members:
            asked = urllib.request.Request(member.url + "/config", body, method="PATCH")
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(asked, timeout=PATIENCE_S),
            ):
                return
        raise AssertionError("no member answers")

    def leaders(self) -> list[str]:
        """Return the names of the leader, if there is one that accepts writes."""
        return [
            one["name"]
            for one in self.view()["members"]
            if one["role"] == "leader" and one["state"] == "running"
        ]

    def leader(self) -> PatroniMember:
        """Wait for a leader, and return it."""
        until(self.leaders)
        return self.member(self.leaders()[0])

    def replicas(self) -> list[PatroniMember]:
        """Return the members that follow."""
        leader = self.leader()
        return [one for one in self.members if one is not leader]

    def is_whole(self) -> bool:
        """Say whether there is a leader, and all others stream from it."""
        members = self.view()["members"]
        following = [one for one in members if one["state"] == "streaming"]
        return (
            len(self.leaders()) == 1
            and len(following) == len(NAMES) - 1
            # What Patroni knows of a server may be as old as its loop.
            and all(member.answers() for member in self.members)
        )

    def log_tails(self) -> str:
        """Return the ends of all logs, for the report of a failed test."""
        return "\n".join(member.log_tail() for member in self.members)

    def close(self) -> None:
        """End every member, and remove all that they made."""
        for member in self.members:
            member.kill()
            forget_memory(member.data)
        remove_tree(self.base)


@contextlib.contextmanager
def running_cluster(
    install: PgInstall,
    *,
    guarded: bool = False,
    own_parameters: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[PatroniCluster]:
    """Run a cluster until it is not needed; print its logs if it does not come to be."""
    cluster = PatroniCluster(install, guarded=guarded, own_parameters=own_parameters)
    try:
        try:
            cluster.start()
        except BaseException:
            print(cluster.log_tails())  # noqa: T201 - pytest shows it with the failure
            raise
        yield cluster
    finally:
        cluster.close()


@contextlib.contextmanager
def as_patronis_user() -> Iterator[None]:
    """Act as the user that Patroni runs as, whose folder of configuration files it is."""
    account = server_account()
    if account is None:
        yield
        return
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def _packages() -> Path:
    """Return a folder with Patroni and what it needs, which the server's user can enter."""
    names = _required("patroni", "pysyncobj", "psycopg", "psycopg-binary")
    versions = [importlib.metadata.version(name) for name in names]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    path = reachable_dir(REPOSITORY / "build" / "pg") / f"patroni-{versions[0]}-python{python}"
    with locked(path.name):
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


def _required(*names: str) -> list[str]:
    """Return distributions, and those that they need, without extras."""
    found: list[str] = []
    todo = list(names)
    while todo:
        name = todo.pop(0)
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            if name in names:
                pytest.skip(f"there is no {name}: make venv-dev")
            continue  # for another Python or system
        if name not in found:
            found.append(name)
            todo += [
                match[0] for one in needs if "extra ==" not in one
                if (match := re.match(r"[A-Za-z0-9._-]+", one))
            ]  # fmt: skip
    return found
