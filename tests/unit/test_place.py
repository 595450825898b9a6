# SPDX-License-Identifier: PostgreSQL
"""Commands, lists, arguments and answers that placement must understand."""

import os
import signal
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pgflash.machine.processes import Process
from pgflash.machine.tree import Machine
from pgflash.model.plan import Move, MoveKind, MoveState, PlanError, make_plan
from pgflash.place import control
from pgflash.place.archive import folder_of, with_folder
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Journal, Shield, only_one, read_plan, write_plan
from pgflash.place.names import quote_name, split_names
from pgflash.progress import Listener
from pgflash_lab.account import make_server_dir


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        ("cp %p /mnt/archive/%f", "/mnt/archive"),
        ("test ! -f /mnt/a/%f && cp %p /mnt/a/%f", "/mnt/a"),
        ('cp "%p" "/mnt/with space/%f"', "/mnt/with space"),
        ("cp '%p' '/mnt/single/%f'", "/mnt/single"),
        ("gzip <%p >/mnt/a/%f.gz", "/mnt/a"),
        ("cp %p /mnt/a/%f && cp %p /mnt/b/%f", None),
        ("pgbackrest archive-push %p", None),
        ("rsync %p host:/mnt/a/%f", None),
        ("cp %p /mnt/a/%f && rsync %p host:/mnt/a/%f", None),
        ("dd if=%p of=/mnt/a/%f", "/mnt/a"),
        ('cp %p "/mnt/a/%f.new" && mv "/mnt/a/%f.new" "/mnt/a/%f"', "/mnt/a"),
        ("cp %p relative/%f", None),
        ("cp %p /mnt/a//%f", "/mnt/a"),
        ("test ! -f /mnt/a/%f && cp %p /mnt/a//%f", "/mnt/a"),
        ("sh -c '/bin/cp %p /mnt/a/%f'", "/mnt/a"),
        ('sh -c "/bin/cp %p /mnt/a/%f"', "/mnt/a"),
        ('cp "%p" "/mnt/100%% flash/%f"', "/mnt/100% flash"),
        ("cp %p /mnt/a\\ b/%f", None),
        ("cp %p $HOME/a/%f", None),
        ("", None),
    ],
)
def test_the_folder_is_told_from_the_command(command: str, folder: str | None) -> None:
    assert folder_of(command) == folder


def test_a_command_gets_its_new_folder_everywhere() -> None:
    command = "test ! -f /mnt/a/%f && cp %p /mnt/a/%f"
    assert with_folder(command, "/f/b") == "test ! -f /f/b/%f && cp %p /f/b/%f"


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("test ! -f /mnt/a/%f && cp %p /mnt/a//%f", "test ! -f /f/b/%f && cp %p /f/b/%f"),
        ("gzip <%p >/mnt/a//%f.gz", "gzip <%p >/f/b/%f.gz"),
        ('cp "%p" "/mnt/100%% flash/%f"', 'cp "%p" "/f/b/%f"'),
        ("sh -c '/bin/cp %p /mnt/a/%f'", "sh -c '/bin/cp %p /f/b/%f'"),
    ],
)
def test_however_a_command_writes_its_folder_it_is_changed(command: str, changed: str) -> None:
    """A command that is left unchanged would look like one that is there already."""
    assert with_folder(command, "/f/b") == changed


@pytest.mark.parametrize(
    "name", ["/a b", "/a;rm", "/$x", "/a%f", '/"', "/a'", "/a*", "/a?", "/a#b", "/a\nb", "/h:a"]
)
def test_a_folder_that_a_shell_would_misread_is_refused(name: str) -> None:
    with pytest.raises(PlaceError, match="cannot be used in a shell command"):
        with_folder("cp %p /mnt/a/%f", name)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("flash", ["flash"]),
        ("Flash , b", ["flash", "b"]),
        ('a, "B c", d', ["a", "B c", "d"]),
        ('"with ""quotes"", and comma"', ['with "quotes", and comma']),
    ],
)
def test_a_list_of_names_is_read_as_the_server_does(text: str, names: list[str]) -> None:
    assert split_names(text) == names


@pytest.mark.parametrize("name", ["flash", "Flash", "a b", 'q"q', "1a", "a,b", "ä"])
def test_a_name_that_is_quoted_is_read_back(name: str) -> None:
    assert split_names(quote_name(name)) == [name]


@pytest.mark.parametrize(
    ("words", "config", "others"),
    [
        (["postgres", "-D", "/d", "-c", "port=1"], "/d", ("-c", "port=1")),
        (["postgres", "-D/d", "-p", "1"], "/d", ("-p", "1")),
        (["postgres"], "", ()),
        (["postgres", "-c", "x=a b'c"], "", ("-c", "x=a b'c")),
    ],
)
def test_arguments_of_a_server_are_told_apart(
    words: list[str], config: str, others: tuple[str, ...]
) -> None:
    cmdline = b"".join(word.encode() + b"\0" for word in words)
    assert control._arguments(cmdline) == (config, others)


def test_variables_of_one_start_are_not_kept() -> None:
    environ = b"PATH=/bin\0PG_GRANDPARENT_PID=7\0LD_PRELOAD=/x=y.so\0garbage\0PWD=/\0"
    assert control._environment(environ) == {"PATH": "/bin", "LD_PRELOAD": "/x=y.so"}


def test_a_startup_is_read_back_as_it_was() -> None:
    startup = control.Startup(
        bindir="/b", config_directory="/d", arguments=("-c", "a='b'"), environment={"A": "ü"}
    )
    assert control.Startup.from_json(startup.to_json()) == startup


def a_process(tmp_path: Path, cgroup: str) -> Process:
    folder = tmp_path / "proc" / "4711"
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(cgroup)
    (folder / "environ").write_bytes(b"PG_GRANDPARENT_PID=7\0")
    return Process(4711, Machine(root=tmp_path))


def a_data_directory(tmp_path: Path) -> control.ServerProcess:
    (tmp_path / "PG_VERSION").write_text("18\n")
    return control.ServerProcess(tmp_path)


def test_a_server_of_systemd_is_not_stopped_behind_its_back(tmp_path: Path) -> None:
    process = a_process(tmp_path, "0::/system.slice/postgresql@18-main.service\n")
    with pytest.raises(PlaceError, match="systemd manages") as refused:
        a_data_directory(tmp_path)._refuse_if_looked_after(process)
    assert "systemctl stop postgresql@18-main.service" in refused.value.hint


def test_a_service_that_a_user_may_have_named_is_not_in_a_command_to_paste(tmp_path: Path) -> None:
    session = "0::/user.slice/user-26.slice/user@26.service/x'; rm -rf $HOME; '.service\n"
    with pytest.raises(PlaceError, match="systemd of some user") as refused:
        a_data_directory(tmp_path)._refuse_if_looked_after(a_process(tmp_path, session))
    assert "rm -rf" not in str(refused.value) + refused.value.hint
    assert "--stop-command" in refused.value.hint


def test_a_server_in_a_session_of_a_user_is_an_ordinary_one(tmp_path: Path) -> None:
    cgroup = "0::/user.slice/user-1000.slice/user@1000.service\n"
    a_data_directory(tmp_path)._refuse_if_looked_after(a_process(tmp_path, cgroup))


def test_a_pid_file_that_outlived_its_server_is_not_believed() -> None:
    # Not below pytest's tmp_path: where root runs the tests it is looked at as the owner.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        server = a_data_directory(make_server_dir(Path(name) / "data"))
        (server.data / "postmaster.pid").write_text(f"{os.getpid()}\n{server.data}\n")
        assert server.pid() is None


def test_a_data_directory_of_root_is_nobodys(tmp_path: Path) -> None:
    """Otherwise root would work on it as root, in any folder that a server claims as its own."""
    if os.geteuid() != 0:
        pytest.skip("only root could become root")
    server = a_data_directory(tmp_path)
    with pytest.raises(PlaceError, match="belongs to root"):
        server.pid()
    with pytest.raises(PlaceError, match="belongs to root"):
        server.owner.as_user()


def test_two_processes_do_not_work_on_one_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.place.journal._LOCK_WAIT_S", 0.1)
    path = tmp_path / "plan.json"
    with only_one(path):
        with pytest.raises(PlanError, match="another pgflash"), only_one(path):
            pass
        with only_one(tmp_path / "other.json"):
            pass
    with only_one(path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_shield_holds_an_interrupt_back_until_it_is_safe() -> None:
    done = list[str]()

    def work(number: signal.Signals, *, is_safe: bool) -> None:
        with Shield(Listener()) as shield:
            os.kill(os.getpid(), number)
            time.sleep(0)  # the handler runs
            done.append("went on")
            if is_safe:
                shield.raise_if_asked()
            done.append("to the end")

    with pytest.raises(KeyboardInterrupt):
        work(signal.SIGINT, is_safe=True)
    assert done == ["went on"]
    with pytest.raises(KeyboardInterrupt):
        work(signal.SIGTERM, is_safe=False)
    assert done == ["went on", "went on", "to the end"]


def test_a_step_is_in_the_file_before_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = make_plan(
        [Move(kind=MoveKind.WAL, to="/w")],
        id="p",
        system_identifier="1",
        made_at=datetime.now(UTC),
    )
    write_plan(path, plan)
    steps = Journal(path, plan).steps(0)
    steps.put(state=MoveState.DOING, was="/old")
    steps.at("stop the server")
    steps.note("startup", "{}")
    (record,) = read_plan(path).records
    assert (record.state, record.was, record.step) == (MoveState.DOING, "/old", "stop the server")
    assert record.notes == {"startup": "{}"}
    steps.drop_note("startup")
    assert read_plan(path).records[0].notes == {}
