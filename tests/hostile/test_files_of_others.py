# SPDX-License-Identifier: PostgreSQL
"""Files that a command is told to use, in folders to which others may write.

A neighbour on the machine writes to a folder that we use as well, or to a file of ours that
we left open to him.  A plan of his must not be carried out, since it names commands that run
as us; and what root writes must not go where a link of his leads.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pgflash import trusted
from pgflash.cli import main
from pgflash.cli.output import write_page
from pgflash.collect import probe as probing
from pgflash.errors import PgflashError
from pgflash.model.plan import Move, MoveKind, PlanError, make_plan, plan_to_json
from pgflash.model.snapshot import SnapshotError
from pgflash.place.journal import write_plan
from pgflash.store import FileStore
from pgflash_lab.account import server_account
from support.hostile import Victim, attacking, swap, swap_back, the_attacker
from support.patience import until

#: A server that does not answer: a command that gets so far has trusted the plan.
NOBODY = "host=/nowhere port=1 connect_timeout=1"

PLAN = make_plan(
    [
        Move(
            kind=MoveKind.WAL,
            to="/nowhere/wal",
            options={"stop_command": "touch /tmp/stopped", "start_command": "true"},
        )
    ],
    id="theirs",
    system_identifier="",
    made_at=datetime(2026, 11, 22, tzinfo=UTC),
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of ours alone."""
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def victim() -> Iterator[Victim]:
    the_attacker()
    victim = Victim()
    yield victim
    victim.remove()


def a_plan(folder: Path) -> Path:
    path = folder / "plan.json"
    path.write_bytes(plan_to_json(PLAN))
    path.chmod(0o600)
    return path


def everybody_writes_it(path: Path) -> None:
    path.chmod(0o606)


def a_group_writes_it(path: Path) -> None:
    os.chown(path, -1, a_group_of_ours())
    path.chmod(0o660)


def everybody_writes_to_its_folder(path: Path) -> None:
    path.parent.chmod(0o707)


def everybody_writes_above(path: Path) -> None:
    path.parent.parent.chmod(0o707)


def it_is_somebody_elses(path: Path) -> None:
    os.chown(path, the_attacker().uid, -1)


def its_folder_is_somebody_elses(path: Path) -> None:
    os.chown(path.parent, the_attacker().uid, -1)


def a_link_is_somebody_elses(path: Path) -> None:
    path.rename(path.with_name("other.json"))
    path.symlink_to("other.json")
    os.chown(path, the_attacker().uid, -1, follow_symlinks=False)


def a_group_of_ours() -> int:
    """Return a group of ours in which others may be, too."""
    if os.geteuid() == 0:
        return 12345
    others = [gid for gid in os.getgroups() if not trusted._is_own_group(gid, trusted.ours())]
    if not others:
        pytest.skip("we are in no group but our own")
    return others[0]


@pytest.mark.parametrize(
    "spoil",
    [
        everybody_writes_it,
        a_group_writes_it,
        everybody_writes_to_its_folder,
        everybody_writes_above,
        it_is_somebody_elses,
        its_folder_is_somebody_elses,
        a_link_is_somebody_elses,
    ],
)
@pytest.mark.parametrize("verb", ["apply", "undo"])
def test_a_plan_that_others_may_write_is_refused(
    own: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None], verb: str
) -> None:
    """A neighbour writes a plan, or into one: its stop command would run as us."""
    path = a_plan(own)
    spoil(path)
    assert main(["plan", verb, str(path), "--yes", "--dsn", NOBODY]) == 1
    said = capsys.readouterr().err
    assert "another user may have written the plan" in said
    assert "pgflash plan show" in said


def test_a_plan_of_our_own_is_believed(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_plan(own)
    (own / "link.json").symlink_to(path.name)
    (own / "folder").symlink_to(own)
    for name in (path, own / "link.json", own / "folder" / "link.json"):
        assert main(["plan", "apply", str(name), "--yes", "--dsn", NOBODY]) == 1
        assert "could not connect" in capsys.readouterr().err


def test_no_plan_is_written_where_others_could_put_another(own: Path) -> None:
    own.chmod(0o707)
    with pytest.raises(PlanError, match="others could replace the plan"):
        write_plan(own / "plan.json", PLAN)
    assert list(own.iterdir()) == []


def test_the_folder_of_plans_is_not_made_where_others_write(own: Path) -> None:
    """As with sudo, which may keep the HOME of the user who calls it."""
    own.chmod(0o707)
    with pytest.raises(trusted.ChangeableError):
        trusted.make_folders(own / "state" / "plans")
    assert list(own.iterdir()) == []
    own.chmod(0o700)
    trusted.make_folders(own / "state" / "plans")
    trusted.make_folders(own / "state" / "plans")
    assert (own / "state" / "plans").stat().st_mode & 0o777 == 0o700


def test_a_folder_with_the_sticky_bit_is_good_enough(own: Path) -> None:
    """As /tmp has it: others make files there, but change and rename none of ours."""
    own.chmod(0o1777)
    write_plan(own / "plan.json", PLAN)
    assert trusted.read_file(own / "plan.json") == plan_to_json(PLAN)


@pytest.mark.parametrize(
    ("another", "is_own"),
    [
        ("", True),
        ("toor:x:0:0::/:/bin/sh\n", True),
        ("neighbour:x:4242:0::/:/bin/sh\n", False),
    ],
    ids=["nobody", "ourselves by another name", "a neighbour"],
)
def test_a_group_is_not_ours_alone_if_a_neighbour_has_it_as_his_first(
    tmp_path: Path, another: str, is_own: bool
) -> None:
    """The system's list of the group's members leaves such a user out."""
    (tmp_path / "passwd").write_text("root:x:0:0::/:/bin/sh\n" + another)
    (tmp_path / "group").write_text("root:x:0:\n")
    # These users exist for one process only, which is root there.
    alone = ("unshare", "--mount", *(["--map-root-user"] if os.geteuid() else []))
    if subprocess.run((*alone, "true"), capture_output=True).returncode != 0:
        pytest.skip("this kernel or container allows no namespaces")
    bind = 'for one in passwd group; do mount --bind "$0/$one" "/etc/$one"; done; exec "$@"'
    asked = "from pgflash import trusted; print(trusted._is_own_group(0, trusted.ours()))"
    done = subprocess.run(
        (*alone, "sh", "-euc", bind, tmp_path, sys.executable, "-c", asked),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{is_own}\n"


# ---- what root writes


@pytest.fixture
def theirs(victim: Victim) -> Iterator[Path]:
    """A folder of the attacker's."""
    folder = victim.file.parent.with_name(f"{victim.file.parent.name}-theirs")
    folder.mkdir()
    os.chown(folder, the_attacker().uid, the_attacker().gid)
    yield folder
    shutil.rmtree(folder)


def test_a_page_goes_through_no_link_of_others(theirs: Path, victim: Victim) -> None:
    """Root writes a report into a user's folder, who has put a link of that name there."""
    page = theirs / "report.html"
    page.symlink_to(victim.file)
    with pytest.raises(PgflashError, match=r"link|not a file"):
        write_page("a page", page, what="Report")
    victim.assert_untouched()
    page.unlink()
    write_page("a page", page, what="Report")
    assert page.read_text() == "a page"
    (theirs / "below").symlink_to(victim.folder)
    with pytest.raises(PgflashError, match="link"):
        write_page("a page", theirs / "below" / "shadow", what="Report")
    victim.assert_untouched()


def test_a_page_whose_name_is_swapped_all_the_time(theirs: Path, victim: Victim) -> None:
    page = theirs / "report.html"

    def attack() -> int:
        bitten = swap(str(page), victim.file)
        swap_back(str(page))
        return bitten

    write_page("a page", page, what="Report")
    os.chown(page, the_attacker().uid, -1)

    def write_often() -> int:
        for _time in range(200):
            try:
                write_page("another page", page, what="Report")
            except PgflashError as error:
                assert "link" in error.message or "not a file" in error.message  # noqa: PT017
        return bitten()

    with attacking(attack) as bitten:
        until(write_often)  # an attacker may have to wait for a processor
    victim.assert_untouched()


def test_root_keeps_no_snapshots_where_others_make_files(theirs: Path, victim: Victim) -> None:
    """SQLite finds the journal of a kill beside the file, and writes what it says."""
    for store in (FileStore.create, FileStore.open):
        path = theirs / "kept.snapshots"
        path.touch()
        with pytest.raises(SnapshotError, match="root does not use"):
            store(path)
    victim.assert_untouched()


def test_a_probe_opens_nothing_that_it_has_not_made(
    theirs: Path, victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that has no unnamed files, a user swaps the file of the probe.

    He does so as soon as it exists.  Root writes random bytes to what he has opened.
    """
    opened = os.open

    def and_swapped(path: object, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        number = opened(path, flags, *rest, dir_fd=dir_fd)  # type: ignore[arg-type]
        if ".pgflash-probe-" in (name := str(path)):
            swapped.append(swap(str(theirs / name), victim.file))
        return number

    swapped = list[int]()
    monkeypatch.setattr(os, "open", and_swapped)
    number = probing._open(theirs, 0)
    os.write(number, b"random bytes")
    os.close(number)
    assert swapped[0] == 1
    victim.assert_untouched()


def test_who_is_not_root_writes_as_ever(own: Path) -> None:
    """The same without root: a link of our own is followed, as by every program."""
    if server_account() is not None:
        pytest.skip("for users other than root")
    (own / "link").symlink_to("page")
    write_page("a page", own / "link", what="Report")
    assert (own / "page").read_text() == "a page"
