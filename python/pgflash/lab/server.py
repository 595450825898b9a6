"""A private PostgreSQL server that never outlives its driver.

    with Server.create(PgInstall.embedded(), base, settings={"fsync": "off"}) as server:
        server.start()
        with server.connect() as connection: ...

One base folder holds everything: data/ (the cluster), server.log, sock/ (the only way
in: no TCP, trust authentication behind a folder only the owner may enter).

**Who it runs as.**  PostgreSQL refuses root.  If the driver is root, server and client
programs run as `postgres`, or `nobody` where there is no such user.  That user must be
able to reach the installation, the base folder and preloaded libraries; what it cannot
reach (a clone below /root, say) is copied or moved below /var/tmp, and the log says so.

**How it dies.**  stop() escalates from the asked mode to SIGKILL of the postmaster's own
children.  If the driver is killed, the kernel sends the postmaster SIGQUIT (setpriv
--pdeathsig), which is an immediate shutdown.  That signal is bound to the *thread* that
started the child, so all children are started by one thread that lives as long as the
driver.  A server that an earlier driver left on the same base is stopped before ours
starts.

**Settings** live in data/pgflash.conf, rewritten before every start, so that a restored
snapshot runs with the settings of this server and not with those it was taken under.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import pwd
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import psycopg

from pgflash.errors import PgflashError
from pgflash.lab.postgres import PgInstall

log = logging.getLogger(__name__)

StopMode = Literal["smart", "fast", "immediate"]

#: Where things go that the server's user could not reach where they are.
REACHABLE_BASE = Path("/var/tmp")

START_WAIT_S = 120.0
STOP_WAIT_S = 60.0
#: How long an immediate stop may take, and orphans to notice that their postmaster died.
#: The postmaster itself gives its children 5 s before it sends SIGKILL.
IMMEDIATE_WAIT_S = 15.0
#: Longest path of a Unix socket, without the final zero byte (sun_path is 108 bytes).
SOCKET_PATH_BYTES_MAX = 107

_POLL_S = 0.01
_PORT = 5432
_SUPERUSER = "postgres"
#: From soft to hard.
_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


class ServerError(PgflashError):
    """The private server could not be made, started or stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The ordinary user a root driver hands its programs to."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """Return the user that servers run as, or None if it is the driver's own."""
    if os.geteuid() != 0:
        return None
    for name in (_SUPERUSER, "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise ServerError(
        "PostgreSQL does not run as root, and there is no user postgres or nobody",
        hint="Run as an ordinary user.",
    )


def make_server_dir(path: Path) -> Path:
    """Make a folder that the server's user owns, for a WAL or a tablespace location, say."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    account = server_account()
    if account is not None:
        os.chown(path, account.uid, account.gid)
    return path


def is_reachable(path: Path, *, mode: Literal["-r", "-x"] = "-r") -> bool:
    """Say whether the server's user can read (or enter, run) PATH."""
    done = subprocess.run(["test", mode, path], check=False, **_as_server_user())
    return done.returncode == 0


def reachable_file(path: Path) -> Path:
    """Return PATH, or a copy of it that the server's user can read."""
    if is_reachable(path):
        return path
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    copy = _our_dir() / f"{digest}-{path.name}"
    if not copy.exists():
        temporary = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copy(path, temporary)
        temporary.chmod(0o755)
        temporary.replace(copy)
    return copy


def reachable_dir(path: Path) -> Path:
    """Return PATH, made if need be, or a folder to use instead that the server's user can enter."""
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_reachable(path.parent, mode="-x"):
        path.mkdir(exist_ok=True)
        return path
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    instead = _our_dir() / f"{path.name}-{digest}"
    log.warning("%s cannot be reached by the server's user: using %s", path, instead)
    instead.mkdir(exist_ok=True)
    return instead


def reachable_install(install: PgInstall) -> PgInstall:
    """Return the installation, or an up-to-date copy that the server's user can run."""
    if is_reachable(install.bindir / "postgres", mode="-x") and is_reachable(install.sharedir):
        return install
    dest = _our_dir() / f"postgresql-{install.major}-{install.fingerprint()}"
    log.warning(
        "%s cannot be reached by the server's user: running a copy in %s", install.root, dest
    )
    return install.copy_to(dest)


def forget_memory(data: Path) -> None:
    """Remove what a server that was not shut down left in shared memory for its next start."""
    with contextlib.suppress(FileNotFoundError):
        status = data.stat()
        # The cache's memory is named after the server's user and its data folder.
        name = f"pgflash.{status.st_uid}.{status.st_dev:x}.{status.st_ino:x}"
        (Path("/dev/shm") / name).unlink(missing_ok=True)


def remove_data(data: Path) -> None:
    """Remove a data folder, and what its server left in shared memory."""
    forget_memory(data)
    shutil.rmtree(data, ignore_errors=True)


class Server:
    """One private server and its base folder."""

    def __init__(
        self, *, install: PgInstall, base: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        """Describe a server; create() and open() are the ways to get one."""
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
    ) -> Server:
        """Make a new cluster in BASE, where an earlier run's remains are cleared away."""
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
    ) -> Server:
        """Return the server of a base that has a cluster, or will get one from restore()."""
        server = cls(install=install, base=base, settings=settings)
        server.stop_leftover()
        return server

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    # ---- start and stop

    def start(
        self, extra_env: Mapping[str, str] | None = None, *, wait_s: float = START_WAIT_S
    ) -> None:
        """Start the server and wait until it answers.

        EXTRA_ENV is for the server alone; an LD_PRELOAD in it is not seen by the programs
        that lead to the server, and libraries its user cannot reach are copied.
        """
        if self.running:
            raise ServerError(f"the server in {self.base} is running already")
        self.stop_leftover()
        self._write_settings()
        variables = dict(extra_env or {})
        if "LD_PRELOAD" in variables:
            paths = [reachable_file(Path(path)) for path in variables["LD_PRELOAD"].split(":")]
            variables["LD_PRELOAD"] = ":".join(map(str, paths))
        self._log_start_bytes = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log_file:
            self._postmaster = _spawn(
                [
                    *_die_with_driver("QUIT"),
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
                **_as_server_user(),
            )
        _running.add(self)
        try:
            self._wait_until_ready(wait_s)
        except BaseException:
            self.stop("immediate")
            raise

    def stop(self, mode: StopMode = "fast", *, wait_s: float = STOP_WAIT_S) -> None:
        """Stop the server, harder and harder until it and its children are gone."""
        postmaster = self._postmaster
        if postmaster is not None:
            steps = list(_SIGNALS)
            for step in steps[steps.index(mode) :]:
                if postmaster.poll() is None:
                    postmaster.send_signal(_SIGNALS[step])
                    # A timeout is answered by the next, harder step.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        postmaster.wait(IMMEDIATE_WAIT_S if step == "immediate" else wait_s)
            if postmaster.poll() is None:
                postmaster.kill()
                postmaster.wait()
            # None is left, unless the postmaster was killed, by us or before.
            self._reap_orphans()
        self._forget()

    def restart(self, extra_env: Mapping[str, str] | None = None) -> None:
        """Stop the server if it runs, and start it."""
        self.stop()
        self.start(extra_env)

    def kill_postmaster(self) -> None:
        """Kill the postmaster as a crash would, and wait until all its children are gone."""
        if self._postmaster is None or not self.running:
            raise ServerError("there is no running server to kill")
        self._postmaster.kill()
        self._postmaster.wait()
        self._reap_orphans()
        self._forget()

    def stop_leftover(self) -> bool:
        """Stop what an interrupted driver left running on this base; say if there was any.

        The pid file is not asked: it outlives its server, and its number may belong to
        somebody else by now.
        """
        leftover = _servers_in(self.data)
        if not leftover:
            return False
        log.warning("stopping a server that an earlier run left in %s", self.base)
        for process in leftover:
            process.send(signal.SIGQUIT)
        self._reap_orphans()
        return True

    # ---- what it is

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
        return [child.pid for child in _children(self.postmaster_pid or -1)]

    def backend_pids(self) -> list[int]:
        """Return the process ids that serve a client connection."""
        return [child.pid for child in _children(self.postmaster_pid or -1) if child.is_backend()]

    def log_text(self, *, since_start: bool = False) -> str:
        """Return the server's log, of all starts or of the last one."""
        if not self.log_path.exists():
            return ""
        content = self.log_path.read_bytes()
        return content[self._log_start_bytes if since_start else 0 :].decode(errors="replace")

    # ---- settings

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of the next start."""
        return dict(self._settings)

    def configure(self, settings: Mapping[str, str | None]) -> None:
        """Change settings for the next start or reload(); None takes one back."""
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

        PGHOST, PGPORT and PGUSER lead to this server.
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
        process: subprocess.Popen[str] = _spawn(
            [*_die_with_driver("TERM"), program, *argv[1:]],
            cwd=cwd or self.base,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
            **_as_server_user(),
        )
        return process

    # ---- snapshots of a stopped cluster

    def snapshot(self, dest: Path) -> None:
        """Copy the stopped cluster to DEST, replacing what is there.

        The WAL is copied with it wherever it lives.
        """
        self._require_stopped("take a snapshot of")
        if any((self.data / "pg_tblspc").iterdir()):
            raise ServerError(
                "a snapshot holds no tablespaces", hint="Drop the tablespaces before it is taken."
            )
        shutil.rmtree(dest, ignore_errors=True)
        make_server_dir(dest)
        self._copy_tree(self.data, dest / "data")
        wal = self.data / "pg_wal"
        if wal.is_symlink():
            (dest / "data" / "pg_wal").unlink()
            self._copy_tree(wal.resolve(), dest / "data" / "pg_wal")

    def restore(self, src: Path, *, wal_dir: Path | None = None) -> None:
        """Put the snapshot SRC in place of the stopped cluster; the log starts anew.

        With WAL_DIR the WAL lives there, and its former content is gone.
        """
        self._require_stopped("restore")
        remove_data(self.data)
        self._copy_tree(src / "data", self.data)
        if wal_dir is not None:
            wal = self.data / "pg_wal"
            shutil.rmtree(wal_dir, ignore_errors=True)
            self._copy_tree(wal, make_server_dir(wal_dir.parent / wal_dir.name))
            shutil.rmtree(wal)
            wal.symlink_to(wal_dir)
        self.log_path.unlink(missing_ok=True)

    # ---- helpers

    def _reap_orphans(self) -> None:
        """Wait until processes without a postmaster have noticed, then kill the rest.

        They notice by themselves, unless they are stopped or stuck.  One may be born while
        we look, of a postmaster that is just dying, so we look until there is none.
        """
        if _wait_until(lambda: not _servers_in(self.data), IMMEDIATE_WAIT_S):
            return
        for process in _servers_in(self.data):
            process.send(signal.SIGKILL)
        if not _wait_until(lambda: not _servers_in(self.data), IMMEDIATE_WAIT_S):
            alive = ", ".join(str(process.pid) for process in _servers_in(self.data))
            raise ServerError(f"processes {alive} of a server in {self.base} do not go away")

    def _require_stopped(self, doing: str) -> None:
        if self.running:
            raise ServerError(
                f"cannot {doing} a running server", hint="Stop the server in a clean way first."
            )

    @staticmethod
    def _copy_tree(source: Path, dest: Path) -> None:
        """Copy a folder, ownership included, onto DEST (-T: never into it)."""
        subprocess.run(["cp", "-a", "-T", "--reflink=auto", source, dest], check=True)

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
        """Wait until the pid file says ready, then connect once to see that it is true."""
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
        """Read the status line of postmaster.pid: the eighth, of our own postmaster."""
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


# ---- servers that run when the driver ends

_running: set[Server] = set()


@atexit.register
def _stop_all() -> None:
    for server in list(_running):
        server.stop("immediate")


# ---- processes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """A process told apart from a later one with the same number by its start time."""

    pid: int
    parent: int
    start_ticks: int

    @classmethod
    def find(cls, pid: int) -> _Process | None:
        """Return process PID, or None if there is none or it is only waiting to be reaped."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        # The name in brackets may hold anything, so count fields behind the last bracket:
        # field 3 of proc(5), the state, comes first there.
        fields = stat[stat.rindex(")") + 2 :].split()
        if fields[0] in {"Z", "X"}:
            return None
        return cls(pid=pid, parent=int(fields[1]), start_ticks=int(fields[19]))

    def is_alive(self) -> bool:
        """Say whether this very process still runs."""
        now = _Process.find(self.pid)
        return now is not None and now.start_ticks == self.start_ticks

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.is_alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return
            except PermissionError as error:
                raise ServerError(
                    f"process {self.pid} belongs to another user",
                    hint="Stop it as the user who started it.",
                ) from error

    def is_server_in(self, data: Path) -> bool:
        """Say whether it is a postgres, postmaster or child, that works in this data folder."""
        try:
            folder = Path(f"/proc/{self.pid}/cwd").readlink()
        except OSError:
            return False
        try:
            program = Path(f"/proc/{self.pid}/exe").readlink()
        except OSError:
            # It is about to be gone, and may hold the server's shared memory until then.
            return folder == data
        return program.name.startswith("postgres") and folder == data

    def is_backend(self) -> bool:
        """Say whether its title is that of a backend with a client on the Unix socket."""
        try:
            title = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return False
        return title.startswith(b"postgres: ") and b" [local] " in title


def _processes() -> Iterator[_Process]:
    """Yield all processes."""
    for entry in Path("/proc").glob("[0-9]*"):
        process = _Process.find(int(entry.name))
        if process is not None:
            yield process


def _children(pid: int) -> list[_Process]:
    """Return the children of a process."""
    return [process for process in _processes() if process.parent == pid]


def _servers_in(data: Path) -> list[_Process]:
    """Return the server processes that work in a data folder, orphans included."""
    folder = data.resolve()
    return [process for process in _processes() if process.is_server_in(folder)]


def _wait_until(condition: Callable[[], bool], wait_s: float) -> bool:
    """Wait for a condition; False if the time ran out first."""
    deadline = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


class _Spawner(threading.Thread):
    """The thread that starts every child.

    PR_SET_PDEATHSIG fires when the thread that made the child ends, not the process, so
    a worker thread that starts a server and ends would take the server with it.
    """

    def __init__(self) -> None:
        super().__init__(name="pgflash-spawner", daemon=True)
        self.orders: queue.SimpleQueue[tuple[Future[Any], list[Any], dict[str, Any]]] = (
            queue.SimpleQueue()
        )

    def run(self) -> None:
        """Start what is ordered, for ever."""
        while True:
            answer, argv, options = self.orders.get()
            try:
                answer.set_result(subprocess.Popen(argv, **options))
            except BaseException as error:  # handed to the thread that ordered
                answer.set_exception(error)


_spawner_lock = threading.Lock()
_spawner: _Spawner | None = None


def _spawn(argv: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401
    """Start a program from the thread that lives as long as the driver."""
    global _spawner
    with _spawner_lock:
        if _spawner is None or not _spawner.is_alive():
            _spawner = _Spawner()
            _spawner.start()
    answer: Future[subprocess.Popen[Any]] = Future()
    _spawner.orders.put((answer, list(argv), options))
    try:
        return answer.result()
    except OSError as error:
        raise ServerError(f"could not run {argv[0]}: {error}") from error


def _die_with_driver(signal_name: str) -> list[str]:
    """Return the words before a command that make the kernel end it with the driver."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise ServerError(
            "setpriv is needed so that no server outlives its driver",
            hint="Install the util-linux package.",
        )
    return [setpriv, "--pdeathsig", signal_name, "--"]


def _as_server_user() -> dict[str, Any]:
    """Return the Popen arguments that drop root, extra groups included."""
    account = server_account()
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def _clean_environment(install: PgInstall) -> dict[str, str]:
    """Return a small environment: nothing of the caller's may change what a server does."""
    return {
        "PATH": f"{install.bindir}:/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
        **install.env,
    }


# ---- folders the server's user can reach


def _our_dir() -> Path:
    """Return our folder below REACHABLE_BASE, made so that nobody else can plant files in it."""
    folder = REACHABLE_BASE / f"pgflash-{os.geteuid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise ServerError(f"{folder} belongs to somebody else", hint="Remove it.")
    return folder


# ---- texts


def _options(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _quoted(value: str) -> str:
    """Quote a value as postgresql.conf wants it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _tail(text: str, *, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
