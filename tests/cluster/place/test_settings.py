# SPDX-License-Identifier: PostgreSQL
"""Settings move temporary files and the archive: checked, undone, interrupted."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgflash.cli import main
from pgflash.model.plan import Move, MoveKind, MoveState
from pgflash.place import Cluster, Journal, PlaceError, apply_plan, look_at, undo_plan
from pgflash.place.archive import ArchiveMover
from pgflash.place.journal import read_plan
from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.patience import eventually
from support.placed import PlacedServer, StallWatch, cut_off, placed_server
from support.tpcb import end_load, load_tpcb, start_tpcb


@pytest.fixture(scope="module")
def placed(pg_install: PgInstall) -> Iterator[PlacedServer]:
    """A server that archives to a folder, on segments of 1 MB."""
    factory = ClusterFactory(pg_install)
    settings = {"archive_mode": "on", "max_wal_size": "16MB", "min_wal_size": "2MB"}
    with placed_server(factory, settings=settings, initdb_args=["--wal-segsize=1"]) as placed:
        placed.tablespace("flash")
        placed.folder("archive")
        archive_to(placed, placed.server.base / "archive")
        load_tpcb(placed.server)
        yield placed
    factory.close()


def archive_to(placed: PlacedServer, folder: Path) -> None:
    with placed.server.connect() as connection:
        command = f"test ! -f {folder}/%f && cp %p {folder}/%f"
        connection.execute(f"alter system set archive_command = '{command}'")
        connection.execute("select pg_reload_conf()")


def setting(placed: PlacedServer, name: str) -> str:
    with placed.server.connect() as connection:
        row = connection.execute("select current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])


def temp_files(placed: PlacedServer) -> list[str]:
    """Sort more than fits into memory, and return the tablespaces that received files for it."""
    with placed.server.connect(autocommit=False) as connection:
        connection.execute("set work_mem = '64kB'")
        connection.execute(
            "declare sorted cursor for select md5(n::text) one from "
            "generate_series(1, 50000) n order by one"
        )
        connection.execute("fetch 1 from sorted")
        rows = connection.execute(
            "select spcname from pg_tablespace t where spcname <> 'pg_global' and exists "
            "(select from pg_ls_tmpdir(t.oid)) order by 1"
        ).fetchall()
    return [name for (name,) in rows]


# ---- temp


def test_temporary_files_move_under_load_and_whatever_is_cut_off(
    placed: PlacedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert temp_files(placed) == ["pg_default"]
    path = placed.plan(Move(kind=MoveKind.TEMP, to="flash"), name="temp")
    load = start_tpcb(placed.server, rate=200)
    try:
        with StallWatch(placed.dsn, "update pgbench_branches set filler = 't'") as watch:
            assert eventually(lambda: watch.done > 30)
            places = cut_off(apply_plan, path, placed.dsn, None)
            assert read_plan(path).records[0].was == "reset"
            assert temp_files(placed) == ["flash"]
            placed.undo(path)
        assert temp_files(placed) == ["pg_default"]
        assert places is not None
        said = "change temp_tablespaces"
        assert [place for place, _times in places] == [
            *("change the setting", f"before: {said}", f"after: {said}")
        ]
        for place in places:
            assert cut_off(apply_plan, path, placed.dsn, place) is None
            assert placed.apply(path).records[0].state is MoveState.DONE
            assert temp_files(placed) == ["flash"]
            assert cut_off(undo_plan, path, placed.dsn, place) is None
            placed.undo(path)
            assert "temp_tablespaces" not in (placed.data / "postgresql.auto.conf").read_text()
        assert load.poll() is None
    finally:
        load.terminate()
        end_load(load)
    assert eventually(lambda: temp_files(placed) == ["pg_default"])
    with capsys.disabled():
        print(f"\ntemp: longest stall {watch.longest_s * 1000:.0f} ms")  # noqa: T201


def test_a_former_list_of_tablespaces_comes_back_as_it_was(placed: PlacedServer) -> None:
    odd = placed.folder("odd")
    with placed.server.connect() as connection:
        connection.execute(f"""create tablespace "Odd, one" location '{odd}'""")
        connection.execute("""alter system set temp_tablespaces = 'flash', 'Odd, one'""")
        connection.execute("select pg_reload_conf()")
    former = 'flash, "Odd, one"'
    assert eventually(lambda: setting(placed, "temp_tablespaces") == former)
    path = placed.plan(Move(kind=MoveKind.TEMP, to="Odd, one"), name="list")
    placed.apply(path)
    assert setting(placed, "temp_tablespaces") == '"Odd, one"'
    assert temp_files(placed) == ["Odd, one"]
    placed.undo(path)
    assert eventually(lambda: setting(placed, "temp_tablespaces") == former)
    with placed.server.connect() as connection:
        connection.execute("alter system reset temp_tablespaces")
        connection.execute("select pg_reload_conf()")
    assert eventually(lambda: setting(placed, "temp_tablespaces") == "")


def test_a_setting_that_something_stronger_hides_is_taken_back(placed: PlacedServer) -> None:
    path = placed.plan(Move(kind=MoveKind.TEMP, to="flash"), name="hidden")
    with placed.server.connect() as connection:
        connection.execute("alter role postgres set temp_tablespaces = 'pg_default'")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pgflash.place.settings._SEEN_WAIT_S", 0.5)
            with pytest.raises(PlaceError, match="does not see it"):
                placed.apply(path)
        connection.execute("alter role postgres reset temp_tablespaces")
    assert "temp_tablespaces" not in (placed.data / "postgresql.auto.conf").read_text()


def test_roles_that_may_not_use_the_tablespace_are_named(placed: PlacedServer) -> None:
    with placed.server.connect() as connection:
        connection.execute("create role reader login")
    path = placed.plan(Move(kind=MoveKind.TEMP, to="flash"), name="roles")
    (seen,) = look_at(read_plan(path), placed.dsn)
    assert seen.look is not None
    assert any("reader" in text and "GRANT" in text for text in seen.look.warnings)
    dsn = psycopg.conninfo.make_conninfo(placed.dsn, user="reader")
    (seen,) = look_at(read_plan(path), dsn)
    assert seen.refused is not None
    assert "may not change temp_tablespaces" in str(seen.refused)


# ---- archive


def segments(folder: Path) -> list[int]:
    """Return the numbers of the segments in a folder; those of 1 MB count up to 4096 a log."""
    names = [path.name for path in folder.iterdir() if re.fullmatch("[0-9A-F]{24}", path.name)]
    return sorted(int(name[8:16], 16) * 4096 + int(name[16:], 16) for name in names)


def assert_no_gap(folder: Path) -> None:
    """Fail unless a folder holds every segment from the first to the last, whole."""
    numbers = segments(folder)
    assert numbers
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert {path.stat().st_size for path in folder.iterdir() if len(path.name) == 24} == {1 << 20}


def archived(placed: PlacedServer) -> bool:
    """Say whether every finished segment has been archived."""
    with placed.server.connect() as connection:
        row = connection.execute(
            "select count(*) from pg_ls_archive_statusdir() where name like '%.ready'"
        ).fetchone()
    return row == (0,)


def archive_move(placed: PlacedServer, name: str, **options: str) -> Move:
    folder = placed.server.base / name
    return Move(kind=MoveKind.ARCHIVE, to=str(folder), options=options)


def test_the_archive_moves_under_load_without_a_gap(
    placed: PlacedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = placed.server.base / "archive", placed.server.base / "archive-flash"
    path = placed.plan(archive_move(placed, new.name), name="archive")
    # Slower than segments are copied on a very busy machine, whose memory they would fill.
    load = start_tpcb(placed.server, rate=100)
    try:
        assert eventually(lambda: len(segments(old)) > 3)
        with StallWatch(placed.dsn, "update pgbench_branches set filler = 'x'") as watch:
            placed.apply(path)
        last_of_old = segments(old)[-1]
        assert eventually(lambda: segments(new)[-1] > last_of_old + 2)
        placed.undo(path)
        assert load.poll() is None
    finally:
        load.terminate()
        end_load(load)
    with capsys.disabled():
        print(f"\narchive: longest stall {watch.longest_s * 1000:.0f} ms")  # noqa: T201
    assert eventually(lambda: archived(placed))
    # The old folder was in use before and after, the new one meanwhile: each has the chain.
    assert_no_gap(old)
    assert_no_gap(new)
    assert segments(new)[0] == segments(old)[0]
    for one in new.iterdir():
        assert (old / one.name).read_bytes() == one.read_bytes()


def test_every_cut_of_the_archive_loses_no_segment(placed: PlacedServer) -> None:
    old, new = placed.server.base / "archive", placed.server.base / "archive-cut"
    path = placed.plan(archive_move(placed, new.name), name="archive-cut")
    steps = cut_off(apply_plan, path, placed.dsn, None)
    back = cut_off(undo_plan, path, placed.dsn, None)
    assert steps
    assert back
    assert "wait for the next segment" in {step for step, _times in steps}
    for number, place in enumerate(steps):
        cut_off(apply_plan, path, placed.dsn, place)
        if number % 2:
            assert placed.apply(path).records[0].state is MoveState.DONE
            assert_no_gap(new)
            assert str(new) in setting(placed, "archive_command")
        placed.undo(path)
        assert str(old) in setting(placed, "archive_command")
    assert eventually(lambda: archived(placed))
    assert_no_gap(old)
    assert not list(old.glob("*.pgflash-part"))


def test_an_archive_that_was_cut_off_after_the_change_is_completed(placed: PlacedServer) -> None:
    """The old folder has received a file that the new one lacks."""
    old, new = placed.server.base / "archive", placed.server.base / "archive-late"
    path = placed.plan(archive_move(placed, new.name), name="archive-late")
    assert cut_off(apply_plan, path, placed.dsn, ("wait for the next segment", 1)) is None
    late = old / "000000010000000000000001.00000028.backup"
    late.write_text("late")
    try:
        assert main(["plan", "apply", str(path), "--dsn", placed.dsn, "--yes"]) == 0
        assert (new / late.name).read_text() == "late"
        assert_no_gap(new)
    finally:
        late.unlink()
        placed.undo(path)


def test_room_is_asked_for_what_the_new_folder_lacks(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = placed.folder("archive-half")
    path = placed.plan(archive_move(placed, new.name), name="archive-half")
    monkeypatch.setattr("pgflash.place.files.free_bytes", lambda _path: 64 << 20)
    (seen,) = look_at(read_plan(path), placed.dsn)
    assert seen.look is not None
    assert any("The archive needs" in warning for warning in seen.look.warnings)
    with pytest.raises(PlaceError, match="where 64 MB are free"):
        placed.apply(path)
    apply_plan(Journal(path, read_plan(path)), placed.dsn, room_is_there=True)
    placed.undo(path)
    # Most of it is there by now.
    monkeypatch.setattr("pgflash.place.files.free_bytes", lambda _path: 70 << 20)
    placed.apply(path)
    placed.undo(path)


def test_a_folder_the_server_cannot_write_to_is_given_up(placed: PlacedServer) -> None:
    old = placed.server.base / "archive"
    asked = archive_move(placed, "archive-bad", command="false %p %f")
    path = placed.plan(asked, name="archive-bad")
    with pytest.raises(PlaceError, match="does not archive to"):
        placed.apply(path)
    assert read_plan(path).records[0].state is MoveState.FAILED
    assert str(old) in setting(placed, "archive_command")
    assert eventually(lambda: archived(placed))
    assert_no_gap(old)


def test_old_segments_can_be_left_where_they_are(placed: PlacedServer) -> None:
    new = placed.server.base / "archive-new"
    path = placed.plan(archive_move(placed, new.name, copy="no"), name="archive-new")
    placed.apply(path)
    assert len(segments(new)) < len(segments(placed.server.base / "archive"))
    placed.undo(path)


def test_a_command_that_hides_its_folder_is_refused(placed: PlacedServer) -> None:
    former = setting(placed, "archive_command")
    with placed.server.connect() as connection:
        connection.execute("alter system set archive_command = 'backup-tool push %p'")
        connection.execute("select pg_reload_conf()")
        assert eventually(lambda: "tool" in setting(placed, "archive_command"))
        path = placed.plan(archive_move(placed, "archive-x"), name="hides")
        with pytest.raises(PlaceError, match="does not show one folder"):
            placed.apply(path)
        archive_to(placed, placed.server.base / "archive")
    assert eventually(lambda: setting(placed, "archive_command") == former)


def test_a_command_of_two_copies_is_changed_for_one_that_is_named(placed: PlacedServer) -> None:
    former = setting(placed, "archive_command")
    old, new, second = (placed.server.base / name for name in ("archive", "archive-n", "second"))
    placed.folder(second.name)
    two = f"cp %p {old}/%f && cp %p {second}/%f"
    with placed.server.connect() as connection:
        connection.execute(f"alter system set archive_command = '{two}'")
        connection.execute("select pg_reload_conf()")
    assert eventually(lambda: setting(placed, "archive_command") == two)
    command = f"cp %p {new}/%f && cp %p {second}/%f"
    asked = archive_move(placed, new.name, command=command)
    with pytest.raises(PlaceError, match="does not show one folder"):
        placed.apply(placed.plan(asked, name="two"))
    path = placed.plan(archive_move(placed, new.name, command=command, copy="no"), name="named")
    placed.apply(path)
    assert setting(placed, "archive_command") == command
    assert segments(new)
    placed.undo(path)
    assert setting(placed, "archive_command") == two
    archive_to(placed, old)
    assert eventually(lambda: setting(placed, "archive_command") == former)


def test_a_folder_that_only_the_shell_knows_is_left_for_one_that_is_named(
    placed: PlacedServer,
) -> None:
    former = setting(placed, "archive_command")
    new = placed.server.base / "archive-known"
    with placed.server.connect() as connection:
        connection.execute("alter system set archive_command = 'ARCHIVE=x; cp %p /mnt/$ARCHIVE/%f'")
        connection.execute("select pg_reload_conf()")
    assert eventually(lambda: "$ARCHIVE" in setting(placed, "archive_command"))
    with pytest.raises(PlaceError, match="does not exist here") as told:
        placed.apply(placed.plan(archive_move(placed, new.name), name="unknown"))
    assert "--leave-old" in told.value.hint
    asked = archive_move(placed, new.name, command=f"cp %p {new}/%f", copy="no")
    assert placed.apply(placed.plan(asked, name="known")).records[0].state is MoveState.DONE
    assert segments(new)
    archive_to(placed, placed.server.base / "archive")
    assert eventually(lambda: setting(placed, "archive_command") == former)


def test_a_folder_that_the_command_cannot_name_is_refused_when_it_is_looked_at(
    placed: PlacedServer,
) -> None:
    path = placed.plan(archive_move(placed, "with space"), name="space")
    (seen,) = look_at(read_plan(path), placed.dsn)
    assert "cannot be used in a shell command" in str(seen.refused)


def test_a_new_command_for_another_folder_is_refused(placed: PlacedServer) -> None:
    asked = archive_move(placed, "archive-m", command="cp %p /elsewhere/%f")
    with pytest.raises(PlaceError, match="archives to /elsewhere, not to"):
        placed.apply(placed.plan(asked, name="elsewhere"))


def test_a_segment_that_is_being_archived_just_now_is_left_to_the_archiver(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of half of it would keep the new command from archiving it, for ever."""
    old, new = placed.folder("busy"), placed.folder("busy-new")
    (old / "000000010000000000000001").write_bytes(b"whole")
    (old / "00000002.history").write_bytes(b"half")
    path = placed.plan(archive_move(placed, new.name), name="busy")
    steps = Journal(path, read_plan(path)).steps(0)

    def waiting(_mover: ArchiveMover) -> tuple[str, ...]:
        (old / "000000010000000000000002").write_bytes(b"half")
        return ("00000002.history",)

    monkeypatch.setattr(ArchiveMover, "_waiting", waiting)
    with Cluster(placed.dsn) as cluster:
        mover = ArchiveMover(cluster, read_plan(path).moves[0])
        mover._copy_missing(old, new, steps, "copy", "Copy it yourself.")
    assert [one.name for one in new.iterdir()] == ["000000010000000000000001"]


def test_basic_archive_is_known(placed: PlacedServer) -> None:
    if not has_contrib_module(placed.server.install, "basic_archive"):
        pytest.skip("this installation has no basic_archive")
    folder = placed.folder("basic")
    with placed.server.connect() as connection:
        connection.execute("load 'basic_archive'")
        connection.execute(f"alter system set basic_archive.archive_directory = '{folder}'")
        connection.execute("alter system set archive_command = ''")
        connection.execute("alter system set archive_library = 'basic_archive'")
        connection.execute("select pg_reload_conf()")
        connection.execute("select pg_switch_wal()")
    path = placed.plan(archive_move(placed, "basic-flash"), name="basic")
    placed.apply(path)
    assert_no_gap(placed.server.base / "basic-flash")
    placed.undo(path)
    assert setting(placed, "basic_archive.archive_directory") == str(folder)
    with placed.server.connect() as connection:
        connection.execute("alter system reset archive_library")
        connection.execute("alter system reset basic_archive.archive_directory")
    archive_to(placed, placed.server.base / "archive")


def has_contrib_module(install: PgInstall, name: str) -> bool:
    return (install.pkglibdir / f"{name}.so").exists()


def test_an_undone_archive_begins_again_from_where_it_is_now(placed: PlacedServer) -> None:
    new = placed.server.base / "archive-again"
    path = placed.plan(archive_move(placed, new.name), name="archive-again")
    placed.apply(path)
    placed.undo(path)
    second = placed.folder("archive-second")
    (second / "00000009.history").write_text("second")
    archive_to(placed, second)
    assert eventually(lambda: str(second) in setting(placed, "archive_command"))
    placed.apply(path)
    assert (new / "00000009.history").read_text() == "second"
    placed.undo(path)
    assert str(second) in setting(placed, "archive_command")
