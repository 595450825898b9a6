# SPDX-License-Identifier: PostgreSQL
"""A private PostgreSQL server that never outlives its driver.

    with Server.create(PgInstall.embedded(), base, settings={"fsync": "off"}) as server:
        server.start()
        with server.connect() as connection: ...

One base folder contains everything: data/ (the cluster), server.log, sock/ (the only way in: no
TCP, trust authentication behind a folder that only the owner may enter).

**Which user it runs as**: the driver's, or another one if that is root (account.py).

**How it ends.** stop() escalates from the requested mode to SIGKILL of the postmaster's own
children.  If the driver is killed, the kernel sends the postmaster SIGQUIT, which is an immediate
shutdown (processes.py).  A server that an earlier driver left on the same base is stopped before
ours starts.

**Settings** are in data/pgflash.conf, rewritten before every start, so that a restored copy
runs with the settings of this server and not with those under which it was made.
"""

import atexit
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import psycopg

from pgflash.waiting import wait_until
from pgflash_lab.account import (
    ServerError,
    as_server_user,
    make_server_dir,
    reachable_dir,
    reachable_install,
    reachable_preloads,
    server_account,
)
from pgflash_lab.leftovers import remove_data
from pgflash_lab.postgres import PgInstall, copy_files
from pgflash_lab.processes import children, servers_in, spawn

log = logging.getLogger(__name__)

StopMode = Literal["smart", "fast", "immediate"]

#: Signals that a program sends to itself by a mistake.
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}

START_WAIT_S = 120.0
STOP_WAIT_S = 60.0
#: How long an immediate stop may take, and how long orphans may take to notice that their
#: postmaster has died. The postmaster itself gives its children 5 s before it sends SIGKILL.
IMMEDIATE_WAIT_S = 15.0
#: Longest path of a Unix socket, without the final zero byte (sun_path is 108 bytes).
SOCKET_PATH_BYTES_MAX = 107

#: The postmaster's word in its log for a process that a signal ended.
_KILLED = "was terminated by signal"
#: It may come a little later than the connection's end.
_LOG_WAIT_S = 2.0

_POLL_S = 0.01
_PORT = 5432
_SUPERUSER = "postgres"
#: From soft to hard.
_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


class Server:
    """One private server and its base folder."""

    def __init__(
        self, *, install: PgInstall, base: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        """Describe a server; use create() or open() to get one."""
        self.install = reachable_install(install)
        self.base = reachable_dir(base)
        self.data = self.base / "data"
        self.log_path = self.base / "server.log"
        self.account = server_account()
        self._settings: dict[str, str] = dict(settings or {})
        self._postmaster: subprocess.Popen[bytes] | None = None
        self._log_start_bytes = 0
        self._socket_dir: Path | None = None
        make_server_dir(self.base)

    @classmethod
    def create(
        cls,
        install: PgInstall,
        base: Path,
        *,
        settings: Mapping[str, str] | None = None,
        initdb_args: Sequence[str] = (),
    ) -> "Server":
        """Make a new cluster in BASE, clearing an earlier run's remains away."""
        server = cls(install=install, base=base, settings=settings)
        server.stop_leftover()
        remove_data(server.data)
        server.log_path.unlink(missing_ok=True)
        server.run(
            [
                "initdb",
                f"--pgdata={server.data}",
                f"--username={_SUPERUSER}",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--data-checksums",
                "--no-instructions",
                "--no-sync",
                *initdb_args,
            ]
        )
        return server

    @classmethod
    def open(
        cls, install: PgInstall, base: Path, *, settings: Mapping[str, str] | None = None
    ) -> "Server":
        """Return the server of a base that has a cluster, or will get one from restore()."""
        server = cls(install=install, base=base, settings=settings)
        server.stop_leftover()
        return server

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    # ---- start and stop

    def start(
        self, extra_env: Mapping[str, str] | None = None, *, wait_s: float = START_WAIT_S
    ) -> None:
        """Start the server and wait until it answers.

        EXTRA_ENV is for the server alone; the programs that start the server do not see an
        LD_PRELOAD in it, and libraries that its user cannot reach are copied.
        """
        if self.running:
            raise ServerError(f"the server in {self.base} is running already")
        self.stop_leftover()
        self._write_settings()
        variables = reachable_preloads(extra_env or {})
        self._log_start_bytes = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log_file:
            self._postmaster = spawn(
                [
                    *as_server_user(with_driver="QUIT"),
                    "env",
                    *(f"{name}={value}" for name, value in variables.items()),
                    self.install.program("postgres"),
                    "-D",
                    self.data,
                    *_options(
                        {
                            "listen_addresses": "",
                            "port": str(_PORT),
                            "unix_socket_directories": str(self.socket_dir),
                            "unix_socket_permissions": "0700",
                        }
                    ),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                cwd=self.base,
                env=_clean_environment(self.install),
                start_new_session=True,
            )
        _running.add(self)
        try:
            self._wait_until_ready(wait_s)
        except BaseException:
            self.stop("immediate")
            raise

    def stop(self, mode: StopMode = "fast", *, wait_s: float = STOP_WAIT_S) -> None:
        """Stop the server, using harder means until it and its children are gone.

        Raises ServerError if the postmaster crashed, now or before.
        """
        postmaster = self._postmaster
        if postmaster is not None:
            steps = list(_SIGNALS)
            for step in steps[steps.index(mode) :]:
                if postmaster.poll() is None:
                    postmaster.send_signal(_SIGNALS[step])
                    # The answer to a timeout is the next, harder step.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        postmaster.wait(IMMEDIATE_WAIT_S if step == "immediate" else wait_s)
            if postmaster.poll() is None:
                postmaster.kill()
                postmaster.wait()
            # There is none, unless the postmaster was killed, by us or before.
            self._reap_orphans()
        self._forget()
        if postmaster is not None and -postmaster.returncode in _CRASHES:
            raise ServerError(
                f"the postmaster was ended by {signal.Signals(-postmaster.returncode).name}",
                hint=f"Its log is {self.log_path}.",
            )

    def restart(self, extra_env: Mapping[str, str] | None = None) -> None:
        """Stop the server if it runs, and start it."""
        self.stop()
        self.start(extra_env)

    def kill_postmaster(self) -> None:
        """Kill the postmaster as in a crash, and wait until all its children are gone."""
        if self._postmaster is None or not self.running:
            raise ServerError("there is no running server to kill")
        self._postmaster.kill()
        self._postmaster.wait()
        self._reap_orphans()
        self._forget()

    def stop_leftover(self) -> bool:
        """Stop a server that an interrupted driver left running on this base; say if there was one.

        The pid file is not used: it outlives its server, and its number may belong to another
        process by now.
        """
        leftover = servers_in(self.data)
        if not leftover:
            return False
        log.warning("stopping a server that an earlier run left in %s", self.base)
        for process in leftover:
            process.send(signal.SIGQUIT)
        self._reap_orphans()
        return True

    # ---- its state

    @property
    def running(self) -> bool:
        """Whether the postmaster runs."""
        return self._postmaster is not None and self._postmaster.poll() is None

    @property
    def postmaster_pid(self) -> int | None:
        """The postmaster's process id, or None if it does not run."""
        return self._postmaster.pid if self._postmaster is not None and self.running else None

    @property
    def socket_dir(self) -> Path:
        """The folder of the server's socket: in the base, or a short one if that is too long."""
        if self._socket_dir is None:
            inside = self.base / "sock"
            longest = len(os.fsencode(inside / f".s.PGSQL.{_PORT}.lock"))
            fits = longest <= SOCKET_PATH_BYTES_MAX
            self._socket_dir = make_server_dir(
                inside if fits else Path(tempfile.mkdtemp(prefix="pgflash-", dir="/tmp"))
            )
        return self._socket_dir

    def child_pids(self) -> list[int]:
        """Return the process ids of the postmaster's children."""
        return [child.pid for child in children(self.postmaster_pid or -1)]

    def backend_pids(self) -> list[int]:
        """Return the process ids that serve a client connection."""
        return [child.pid for child in children(self.postmaster_pid or -1) if child.is_backend()]

    def log_text(self, *, since_start: bool = False) -> str:
        """Return the server's log, of all starts or of the last one."""
        if not self.log_path.exists():
            return ""
        content = self.log_path.read_bytes()
        return content[self._log_start_bytes if since_start else 0 :].decode(errors="replace")

    @contextlib.contextmanager
    def explaining_its_end(self) -> Iterator[None]:
        """Raise ServerError with the log's reason if a killed process took a connection with it."""
        try:
            yield
        except psycopg.OperationalError as error:
            wait_until(lambda: bool(self._killed()), _LOG_WAIT_S, every_s=_POLL_S)
            for line in self._killed():
                raise ServerError(
                    f"PostgreSQL lost a process: {line}",
                    hint="The kernel sends signal 9 when memory runs out: dmesg says so.",
                ) from error
            raise

    def _killed(self) -> list[str]:
        """Return the lines of the log about processes that a signal ended, since the start."""
        return [one for one in self.log_text(since_start=True).splitlines() if _KILLED in one]

    # ---- settings

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of the next start."""
        return dict(self._settings)

    def configure(self, settings: Mapping[str, str | None]) -> None:
        """Change settings for the next start or reload(); None resets one."""
        for name, value in settings.items():
            if value is None:
                self._settings.pop(name, None)
            else:
                self._settings[name] = value
        if self.data.exists():
            self._write_settings()

    def reload(self) -> None:
        """Make the running server read its settings again."""
        if self._postmaster is not None:
            self._postmaster.send_signal(signal.SIGHUP)

    # ---- talking to it

    def conninfo(self, dbname: str = "postgres") -> str:
        """Return the connection string of one of its databases."""
        return psycopg.conninfo.make_conninfo(
            host=str(self.socket_dir), port=_PORT, user=_SUPERUSER, dbname=dbname
        )

    def connect(
        self, dbname: str = "postgres", *, autocommit: bool = True
    ) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect as superuser; each statement commits itself unless told otherwise."""
        return psycopg.connect(self.conninfo(dbname), autocommit=autocommit)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        check: bool = True,
        cwd: Path | None = None,
        extra_env: Mapping[str, str] | None = None,
        input_text: str | None = None,
        timeout_s: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the installation (or any, by path) as the server's user.

        PGHOST, PGPORT and PGUSER refer to this server.
        """
        process = self.popen(
            argv,
            cwd=cwd,
            extra_env=extra_env,
            stdin=subprocess.DEVNULL if input_text is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with process:
            try:
                stdout, stderr = process.communicate(input_text, timeout=timeout_s)
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise ServerError(f"{argv[0]} took more than {timeout_s:g} s") from error
            except BaseException:
                process.kill()
                raise
        if check and process.returncode != 0:
            raise ServerError(
                f"{argv[0]} failed with exit code {process.returncode}: {_tail(stderr or stdout)}"
            )
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def popen(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        extra_env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a program as run() does, without waiting; it ends with the driver."""
        program = Path(argv[0])
        if len(program.parts) == 1:
            program = self.install.program(program.name)
        environment = {
            **_clean_environment(self.install),
            "PGHOST": str(self.socket_dir),
            "PGPORT": str(_PORT),
            "PGUSER": _SUPERUSER,
            "PGDATABASE": "postgres",
            **(extra_env or {}),
        }
        process: subprocess.Popen[str] = spawn(
            [*as_server_user(with_driver="TERM"), program, *argv[1:]],
            cwd=cwd or self.base,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        return process

    # ---- copies of a stopped cluster

    def copy_to(self, dest: Path) -> None:
        """Copy the stopped cluster to DEST, replacing what is there.

        The WAL is copied along, wherever it is.
        """
        self._require_stopped("copy")
        if any((self.data / "pg_tblspc").iterdir()):
            raise ServerError(
                "a copy holds no tablespaces", hint="Drop the tablespaces before it is made."
            )
        shutil.rmtree(dest, ignore_errors=True)
        make_server_dir(dest)
        self._copy_tree(self.data, dest / "data")
        wal = self.data / "pg_wal"
        if wal.is_symlink():
            (dest / "data" / "pg_wal").unlink()
            self._copy_tree(wal.resolve(), dest / "data" / "pg_wal")

    def restore(self, src: Path, *, wal_dir: Path | None = None) -> None:
        """Replace the stopped cluster by the copy SRC; the log starts over.

        With WAL_DIR the WAL is put there, and that folder's former content is removed.
        """
        self._require_stopped("restore")
        remove_data(self.data)
        self._copy_tree(src / "data", self.data)
        if wal_dir is not None:
            move_wal(self.data, wal_dir)
        self.log_path.unlink(missing_ok=True)

    # ---- helpers

    def _reap_orphans(self) -> None:
        """Wait until processes without a postmaster have noticed, then kill the rest.

        They notice by themselves, unless they are stopped or stuck.  A dying postmaster may start
        another one while we look, so we look until there is none.
        """
        if wait_until(lambda: not servers_in(self.data), IMMEDIATE_WAIT_S, every_s=_POLL_S):
            return
        for process in servers_in(self.data):
            process.send(signal.SIGKILL)
        if not wait_until(lambda: not servers_in(self.data), IMMEDIATE_WAIT_S, every_s=_POLL_S):
            alive = ", ".join(str(process.pid) for process in servers_in(self.data))
            raise ServerError(f"processes {alive} of a server in {self.base} do not go away")

    def _require_stopped(self, doing: str) -> None:
        if self.running:
            raise ServerError(
                f"cannot {doing} a running server", hint="Stop the server in a clean way first."
            )

    @staticmethod
    def _copy_tree(source: Path, dest: Path) -> None:
        """Copy a folder, ownership included, onto DEST (-T: never into it)."""
        copy_files("-T", "--reflink=auto", source, dest)

    def _write_settings(self) -> None:
        """Write data/pgflash.conf, and the line that includes it if it is not there yet."""
        lines = [f"{name} = {_quoted(value)}\n" for name, value in self._settings.items()]
        own = self.data / "pgflash.conf"
        own.write_text("".join(lines))
        include = "include 'pgflash.conf'\n"
        main = self.data / "postgresql.conf"
        if not main.read_text().endswith(include):
            with main.open("a") as conf:
                conf.write(include)
        if self.account is not None:
            os.chown(own, self.account.uid, self.account.gid)

    def _wait_until_ready(self, wait_s: float) -> None:
        """Wait until the pid file says ready, then connect once to confirm it."""
        assert self._postmaster is not None
        deadline = time.monotonic() + wait_s
        while not self._says_ready():
            if self._postmaster.poll() is not None:
                raise ServerError(
                    f"PostgreSQL {self.install.version} did not start in {self.base}:\n"
                    + _tail(self.log_text(since_start=True))
                )
            if time.monotonic() > deadline:
                raise ServerError(
                    f"PostgreSQL in {self.base} was not ready after {wait_s:g} s:\n"
                    + _tail(self.log_text(since_start=True))
                )
            time.sleep(_POLL_S)
        try:
            self.connect().close()
        except psycopg.Error as error:
            raise ServerError(
                f"PostgreSQL in {self.base} takes no connection: {error}\n"
                + _tail(self.log_text(since_start=True))
            ) from error

    def _says_ready(self) -> bool:
        """Read the status line of our own postmaster's postmaster.pid: the eighth line."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        assert self._postmaster is not None
        return (
            len(lines) >= 8
            and lines[0] == str(self._postmaster.pid)
            and lines[7].strip() in {"ready", "standby"}
        )

    def _forget(self) -> None:
        self._postmaster = None
        _running.discard(self)
        if self._socket_dir is not None and not self._socket_dir.is_relative_to(self.base):
            shutil.rmtree(self._socket_dir, ignore_errors=True)
            self._socket_dir = None


# ---- servers still running when the driver ends

_running: set[Server] = set()


@atexit.register
def _stop_all() -> None:
    for server in list(_running):
        server.stop("immediate")


def _clean_environment(install: PgInstall) -> dict[str, str]:
    """Return a small environment: no variable of the caller may affect a server."""
    return {
        "PATH": f"{install.bindir}:/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
        **install.env,
    }


# ---- texts


def _options(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _quoted(value: str) -> str:
    """Quote a value for postgresql.conf."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _tail(text: str, *, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def move_wal(data: Path, folder: Path) -> None:
    """Put a stopped cluster's WAL into FOLDER, whose former content is removed."""
    wal = data / "pg_wal"
    shutil.rmtree(folder, ignore_errors=True)
    copy_files("-T", "--reflink=auto", wal, make_server_dir(folder))
    shutil.rmtree(wal)
    wal.symlink_to(folder)
