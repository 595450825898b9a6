# SPDX-License-Identifier: PostgreSQL
"""A server as a process of this machine: see how it was started, stop it, start it the same way.

What a start needs is read from the running server (/proc: its arguments, its environment, the
destination of its messages).  The caller stores it before the server is stopped, since it cannot be
found out afterwards. pg_ctl starts the server as the owner of the data directory, in a session of
its own, so that Ctrl-C at our terminal does not reach it.

The server's files are read as its owner, too, and the recorded start command runs as its owner: it
comes from the server, and root must not obey it.  A process counts as the server's only if it
belongs to the owner.

A server that is supervised (by systemd, a supervisor or a container's first process) is not stopped
without its supervisor: the administrator names the two commands that stop and start it.  They run
in a shell, as the user who runs pgflash.

Before the server is stopped, as much of the start as possible is rehearsed while it runs: its
program reads the configuration again (rehearse()).
"""

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pgflash.machine.processes import Process, processes, system_service
from pgflash.place import files
from pgflash.place.errors import PlaceError
from pgflash.place.owner import Owner
from pgflash.waiting import wait_until

STOP_WAIT_S = 600
START_WAIT_S = 600

#: Variables that pg_ctl adds, or that belong to one start only.
_NOT_KEPT = {"PG_GRANDPARENT_PID", "PWD", "OLDPWD", "SHLVL", "_"}

#: Processes that adopt orphans and do not restart anything by themselves.
_ADOPTS = {"init", "systemd"}

#: How long the remaining processes of a killed server may take to end.
_ORPHANS_WAIT_S = 20

_POLL_S = 0.1
_SAY_HOW = "Say how to stop and start it: --stop-command"


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """How a server was started."""

    #: The folder of its programs.
    bindir: str
    #: The argument of -D: the data directory, or the folder of its configuration.
    config_directory: str
    #: The other arguments of the server.
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    #: The file that the server's messages go to.
    log: str = ""
    #: The administrator's commands, used instead of pg_ctl.
    stop_command: str = ""
    start_command: str = ""
    #: The server's user; None if the note is from a version that did not record it.
    uid: int | None = None

    def to_json(self) -> str:
        """Return it as text, for the notes of a plan."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> "Startup":
        """Return it from the notes of a plan."""
        return msgspec.json.decode(text, type=cls)


class ServerProcess:
    """The server of a data directory on this machine."""

    def __init__(self, data: Path) -> None:
        """Remember the data directory, and check that we may do what its owner may."""
        try:
            self.data = data = data.resolve()
            self.owner = Owner.of(data)
            identity = (data / "PG_VERSION").stat()
        except OSError as error:
            raise PlaceError(
                f"could not read the data directory {data}: {error.strerror}",
                hint="Run pgflash on the server's machine, as the server's user or as root.",
            ) from error
        if os.geteuid() not in {0, identity.st_uid}:
            raise PlaceError(
                f"the data directory {data} belongs to another user",
                hint=f"Run pgflash as {self.owner.name} or as root.",
            )

    def pid(self) -> int | None:
        """Return the postmaster's process id, or None if no server runs here."""
        number = self._noted_pid()
        # The file outlives a killed server, and its number may belong to another process by now.
        return number if number is not None and self._is_here(Process(number)) else None

    def _pid_file(self) -> list[str]:
        """Return the lines of postmaster.pid; none if there is none."""
        try:
            return self.owner.do(_lines, self.data / "postmaster.pid")
        except OSError:
            return []

    def _noted_pid(self) -> int | None:
        lines = self._pid_file()
        return int(lines[0]) if lines and re.fullmatch(r"-?\d+", lines[0].strip()) else None

    def startup(
        self,
        *,
        stop_command: str = "",
        start_command: str = "",
        collector_log: Path | None = None,
    ) -> Startup:
        """Return how the running server was started; refuse a start that cannot be repeated.

        COLLECTOR_LOG receives the messages of a server that sends them to its own collector.
        """
        pid = self.pid()
        if pid is None:
            raise PlaceError(f"no server runs in {self.data}")
        process = Process(pid)
        program = process.program()
        if not program.exists():
            raise PlaceError(
                f"the program of the running server, {program}, is gone or was replaced",
                hint="Restart the server first.",
            )
        if not start_command:
            self._refuse_if_looked_after(process)
        config, arguments = _arguments(process.command_line())
        environment = _environment(process.environment())
        config = config or environment.get("PGDATA", "")
        return Startup(
            bindir=str(program.parent),
            # It is no longer known what a relative path was relative to when the server was
            # started.
            config_directory=config if Path(config).is_absolute() else str(self.data),
            arguments=arguments,
            environment=environment,
            log=self._log(process, collector_log, needed=not start_command),
            stop_command=stop_command,
            start_command=start_command,
            uid=self.owner.uid,
        )

    def _refuse_if_looked_after(self, process: Process) -> None:
        groups = process.groups()
        if unit := system_service(groups):
            stop, start = (shlex.join(["systemctl", verb, unit]) for verb in ("stop", "start"))
            raise PlaceError(
                f"systemd manages this server ({unit})",
                hint=f"{_SAY_HOW} {shlex.quote(stop)} --start-command {shlex.quote(start)}",
            )
        if re.search(r"/(?!user@)[^/\n]+\.service$", groups, re.MULTILINE):
            raise PlaceError(
                "a systemd of some user manages this server",
                hint=f"{_SAY_HOW} and --start-command.",
            )
        if process.pid == 1:
            raise PlaceError(
                "the server is the first process of its container, which would end with it",
                hint="Stop the container and create the server with initdb --waldir, or name "
                "the folder of the WAL in the description of the container.",
            )
        by_pg_ctl = b"PG_GRANDPARENT_PID=" in process.environment()
        if not by_pg_ctl and (parent := _parent(process)) is not None:
            raise PlaceError(
                f"process {parent} started this server, and may restart it when it is stopped",
                hint=f"{_SAY_HOW} and --start-command.",
            )

    def rehearse(self, startup: Startup) -> None:
        """Refuse to stop a server that could not read its configuration when it starts again."""
        if startup.start_command:
            return
        words = ["postgres", "-D", startup.config_directory, *startup.arguments]
        done = self._run(startup, [*words, "-C", "data_directory"])
        if done.returncode != 0:
            raise PlaceError(
                f"the server would not start again: {_first_line(done)}",
                hint="Correct its configuration first. Nothing was done.",
            )
        if Path(done.stdout.strip()).resolve() != self.data:
            raise PlaceError(
                f"the server would start in {done.stdout.strip()} instead of {self.data}",
                hint="Restart it with full paths first, or say how to stop and start it: "
                "--stop-command and --start-command.",
            )

    def _log(self, process: Process, collector_log: Path | None, *, needed: bool) -> str:
        """Return the file that the server's messages go to."""
        if collector_log is not None and collector_log.parent.is_dir():
            return str(collector_log)
        target = process.messages()
        if target.is_absolute() and target.is_file():
            return str(target)
        if needed and str(target) != "/dev/null":
            raise PlaceError(
                f"the server's messages go to {target}, which a server started by pgflash "
                f"cannot use",
                hint=f"{_SAY_HOW} and --start-command.",
            )
        return "/dev/null"

    # ---- stop and start

    def stop(self, startup: Startup) -> None:
        """Stop the server cleanly, and wait until it is gone."""
        if (pid := self.pid()) is None:
            return
        if startup.stop_command:
            self._run_command(startup.stop_command, "stop")
        else:
            done = self._run(
                startup,
                [
                    "pg_ctl",
                    "stop",
                    "-D",
                    str(self.data),
                    "-m",
                    "fast",
                    "-w",
                    "-t",
                    str(STOP_WAIT_S),
                ],
            )
            if done.returncode != 0 and self.pid() == pid:
                raise PlaceError(
                    f"the server did not stop within {STOP_WAIT_S} s: {_last_line(done)}",
                    hint="It is shutting down; start it again when it is down. Nothing was moved.",
                )
        if not wait_until(lambda: self.pid() != pid, STOP_WAIT_S, every_s=_POLL_S):
            raise PlaceError(
                f"the server still runs, {STOP_WAIT_S} s after --stop-command",
                hint="Nothing was moved.",
            )
        self.refuse_if_started()

    def refuse_if_started(self) -> None:
        """Fail if another program has started the server that we had stopped."""
        if self.pid() is not None:
            raise PlaceError(
                "something else started the server during the move; its WAL stays where it was",
                hint="Pause its cluster manager, or say how to stop and start it: --stop-command "
                "and --start-command.",
            )

    def stop_at_once(self, startup: Startup) -> None:
        """Stop a server that does not work as it should, by force if need be."""
        for mode in ("fast", "immediate"):
            if self.pid() is None:
                return
            words = ["pg_ctl", "stop", "-D", str(self.data), "-m", mode, "-w", "-t", "60"]
            self._run(startup, words)
        # A process that has lost its postmaster continues until it has to wait for its client.
        if self.pid() is not None or not self._are_orphans_gone():
            raise PlaceError(f"the server in {self.data} does not stop")

    def start(self, startup: Startup) -> None:
        """Start the server as it was started before, and wait until it reports that it is ready."""
        if self.pid() is None:
            # Orphans would prevent the start; they end by themselves when they notice.
            self._are_orphans_gone()
            if startup.start_command:
                self._run_command(startup.start_command, "start")
            else:
                self._start_by_pg_ctl(startup)
        if not wait_until(
            self._is_ready, START_WAIT_S if self.pid() is not None else 10, every_s=_POLL_S
        ):
            raise PlaceError(f"the server in {self.data} does not become ready")

    def _are_orphans_gone(self) -> bool:
        """Wait until no process of a killed server is left; say whether none was left in time."""
        return wait_until(lambda: not self._has_orphans(), _ORPHANS_WAIT_S, every_s=_POLL_S)

    def _has_orphans(self) -> bool:
        """Say whether processes of a killed server are still there."""
        number = self._noted_pid()
        if number is None:
            return False  # it ended normally
        # A dead process holds the lock until its parent has waited for it.
        return Process(number).is_ending() or any(map(self._is_here, processes()))

    def _is_here(self, process: Process) -> bool:
        """Say whether a process belongs to a server in this data directory."""
        try:
            folder, program, users = process.folder(), process.program(), process.users()
        except OSError:
            return False
        # A program with more rights than the owner is not the server.
        is_owners = set(users[:3]) == {self.owner.uid}
        return is_owners and folder == self.data and program.name.startswith("postgres")

    def _start_by_pg_ctl(self, startup: Startup) -> None:
        words = ["pg_ctl", "start", "-D", startup.config_directory, "-w", "-t", str(START_WAIT_S)]
        words += ["-l", startup.log]
        if startup.arguments:
            # pg_ctl hands this to a shell.
            words += ["-o", shlex.join(startup.arguments)]
        done = self._run(startup, words)
        # Another program may have started it first; the next check shows whether it becomes ready.
        if done.returncode != 0 and self.pid() is None:
            raise PlaceError(
                f"the server did not start: {_last_line(done)}",
                hint=f"Its messages are in {startup.log}.",
            )

    def _is_ready(self) -> bool:
        lines = self._pid_file()
        return (
            self.pid() is not None and len(lines) >= 8 and lines[7].strip() in {"ready", "standby"}
        )

    # ---- what pg_control says

    def control(self, startup: Startup) -> dict[str, str]:
        """Return what pg_controldata prints."""
        done = self._run(startup, ["pg_controldata", "-D", str(self.data)])
        if done.returncode != 0:
            raise PlaceError(f"pg_controldata failed: {_last_line(done)}")
        pairs = (line.partition(":") for line in done.stdout.splitlines())
        return {name.strip(): value.strip() for name, _colon, value in pairs}

    def is_clean(self, startup: Startup) -> bool:
        """Say whether the stopped cluster was shut down cleanly."""
        state = self.control(startup).get("Database cluster state", "")
        return state in {"shut down", "shut down in recovery"}

    # ---- programs

    def _run(self, startup: Startup, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program of the server's installation as the server's user."""
        environment = startup.environment or {"PATH": os.defpath}
        program = Path(startup.bindir) / words[0]
        try:
            # Do not capture output in a pipe that a server inherits: pg_ctl gets -l. The shell
            # enters the folder as the owner, since root may not be able to.
            return subprocess.run(
                ["/bin/sh", "-c", 'cd "$0" && exec "$@"', self.data, program, *words[1:]],
                cwd="/",
                env={**environment, "LC_ALL": "C"} if words[0] == "pg_controldata" else environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                start_new_session=True,
                **self.owner.as_user(),
            )
        except OSError as error:
            raise PlaceError(f"could not run {program}: {error.strerror}") from error

    def _run_command(self, command: str, what: str) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            start_new_session=True,
        )
        if done.returncode != 0:
            raise PlaceError(f"--{what}-command failed with exit code {done.returncode}: {command}")


def _lines(path: Path) -> list[str]:
    return files.read_path(path).decode(errors="replace").split("\n")


def _arguments(cmdline: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the argument of -D, and the other arguments."""
    words = [os.fsdecode(word) for word in cmdline.rstrip(b"\0").split(b"\0")][1:]
    config, others = "", list[str]()
    while words:
        word = words.pop(0)
        if word == "-D" and words:
            config = words.pop(0)
        elif word.startswith("-D") and len(word) > 2:
            config = word[2:]
        else:
            others.append(word)
    return config, tuple(others)


def _environment(environ: bytes) -> dict[str, str]:
    """Return the environment that a server was started with."""
    pairs = (os.fsdecode(entry).partition("=") for entry in environ.split(b"\0") if b"=" in entry)
    return {
        name: value
        for name, _sign, value in pairs
        if re.fullmatch(r"[A-Za-z_]\w*", name) and name not in _NOT_KEPT
    }


def _parent(process: Process) -> str | None:
    """Return a process's supervisor as "NUMBER (PROGRAM)", or None if its parent is only init."""
    number = process.stat().parent
    try:
        name = Process(number).name()
    except OSError:
        return None  # it has just ended
    # systemd is either init or a user's instance, which adopts the orphans of that user's sessions.
    return None if name in _ADOPTS else f"{number} ({name})"


def _first_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[0] if lines else f"exit code {done.returncode}"


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
