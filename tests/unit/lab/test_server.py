# SPDX-License-Identifier: PostgreSQL
"""The private server: starting, stopping, crashing, and leaving nothing behind."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import psycopg
import pytest

from pgflash_lab import account
from pgflash_lab.account import ServerError, server_account
from pgflash_lab.leftovers import SEGMENTS, remove_data, remove_tree
from pgflash_lab.postgres import PgInstall, PgInstallError
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import PATIENCE_S, eventually


def is_alive(pid: int) -> bool:
    """Say whether a process runs, one that only waits to be reaped not counted."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] != "Z"


@pytest.fixture
def server(cluster: ClusterFactory) -> Server:
    return cluster()


def test_a_started_server_answers_with_checksums_on(server: Server, pg_install: PgInstall) -> None:
    with server.connect() as connection:
        row = connection.execute(
            "select current_setting('data_checksums'), current_setting('server_version_num')::int,"
            " current_setting('listen_addresses'), current_user"
        ).fetchone()
    assert row is not None
    assert row[0] == "on"
    assert row[1] // 10000 == pg_install.major
    assert row[2] == ""
    assert row[3] == "postgres"


def test_the_server_never_runs_as_root(server: Server) -> None:
    uid = Path(f"/proc/{server.postmaster_pid}").stat().st_uid
    account = server_account()
    assert uid != 0
    assert uid == (os.geteuid() if account is None else account.uid)


def test_a_process_that_was_killed_is_the_reason_for_a_lost_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash_lab.server._LOG_WAIT_S", PATIENCE_S)
    with server.connect() as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        with (
            pytest.raises(ServerError, match=r"PID \d+\) was terminated by signal 9") as raised,
            server.explaining_its_end(),
        ):
            connection.execute("select 1")
    assert "dmesg" in raised.value.hint


def test_another_lost_connection_is_no_killed_process(server: Server) -> None:
    with (
        pytest.raises(psycopg.OperationalError),
        server.explaining_its_end(),
        server.connect() as connection,
    ):
        connection.execute("select pg_terminate_backend(pg_backend_pid())")


def test_a_restart_keeps_what_was_committed(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("create table t as select 42 as answer")
    server.restart()
    with server.connect() as connection:
        assert connection.execute("select answer from t").fetchone() == (42,)


def test_settings_reach_the_server_as_they_are(cluster: ClusterFactory) -> None:
    awkward = "it's a \\ 'quoted' name"
    server = cluster(settings={"cluster_name": awkward, "work_mem": "7MB"})
    with server.connect() as connection:
        row = connection.execute(
            "select current_setting('cluster_name'), current_setting('work_mem')"
        ).fetchone()
    assert row == (awkward, "7MB")


def test_a_changed_setting_takes_hold_at_a_reload(server: Server) -> None:
    server.configure({"work_mem": "9MB"})
    server.reload()

    def shown() -> bool:
        with server.connect() as connection:
            return connection.execute("show work_mem").fetchone() == ("9MB",)

    assert eventually(shown)


def test_stop_leaves_no_process_and_no_pid_file(server: Server) -> None:
    pids = [server.postmaster_pid or 0, *server.child_pids()]
    assert len(pids) > 4
    server.stop()
    assert not any(is_alive(pid) for pid in pids)
    assert not (server.data / "postmaster.pid").exists()
    assert not server.running


def test_stop_gets_rid_of_a_backend_that_does_not_listen(cluster: ClusterFactory) -> None:
    server = cluster()
    with server.connect() as connection:
        backend = connection.info.backend_pid
        # The session that asked whether the server is ready may still be ending.
        assert eventually(lambda: server.backend_pids() == [backend])
        os.kill(backend, signal.SIGSTOP)
        # Neither fast nor immediate wakes it; the postmaster's SIGKILL ends it after 5 s.
        server.stop("fast", wait_s=0.2)
        assert not is_alive(backend)


def test_a_killed_postmaster_takes_its_children_along_and_recovers(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("create table t as select generate_series(1, 1000) as n")
    pids = [server.postmaster_pid or 0, *server.child_pids()]
    server.kill_postmaster()
    # A process that has released everything may become a zombie only a moment later.
    assert eventually(lambda: not any(is_alive(pid) for pid in pids))
    server.start()
    assert "automatic recovery in progress" in server.log_text(since_start=True)
    with server.connect() as connection:
        assert connection.execute("select count(*) from t").fetchone() == (1000,)


def test_a_postmaster_that_crashed_does_not_stop_in_silence(server: Server) -> None:
    pid = server.postmaster_pid
    assert pid is not None
    os.kill(pid, signal.SIGSEGV)
    assert eventually(lambda: not server.running)
    with pytest.raises(ServerError, match="the postmaster was ended by SIGSEGV"):
        server.stop()
    assert not server.running
    server.start()


def test_orphans_of_a_postmaster_that_somebody_killed_are_stopped(server: Server) -> None:
    with server.connect() as connection:
        backend = connection.info.backend_pid
        # A stopped orphan cannot notice that its postmaster died.
        os.kill(backend, signal.SIGSTOP)
        os.kill(server.postmaster_pid or 0, signal.SIGKILL)
        assert eventually(lambda: not server.running)
        server.start()
        assert not is_alive(backend)


def test_a_server_that_cannot_start_says_why(cluster: ClusterFactory) -> None:
    server = cluster(start=False, settings={"shared_buffers": "all of it"})
    with pytest.raises(ServerError, match='invalid value for parameter "shared_buffers"'):
        server.start()
    assert not server.running


def test_a_program_that_fails_says_why(server: Server) -> None:
    with pytest.raises(ServerError, match='relation "nowhere" does not exist'):
        server.run(["psql", "-c", "select * from nowhere"])


def test_programs_of_the_installation_reach_the_server(server: Server) -> None:
    assert server.run(["psql", "-Atc", "select 6 * 7"]).stdout.strip() == "42"
    done = server.run(["psql", "-At"], input_text="select 'from stdin';")
    assert done.stdout.strip() == "from stdin"


def test_a_program_that_takes_too_long_is_ended(server: Server) -> None:
    with pytest.raises(ServerError, match=r"took more than 0\.5 s"):
        server.run(["psql", "-c", "select pg_sleep(600)"], timeout_s=0.5)


def test_a_data_folder_goes_with_what_its_server_left_in_memory(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    memory = []
    for folder in (data, other):
        folder.mkdir()
        status = folder.stat()
        name = f"pgflash.{status.st_uid}.{status.st_dev:x}.{status.st_ino:x}"
        memory.append(Path("/dev/shm") / name)
        memory[-1].touch()
    try:
        remove_data(data)
        assert not data.exists()
        assert not memory[0].exists()
        assert memory[1].exists()
        remove_data(data)
    finally:
        for path in memory:
            path.unlink(missing_ok=True)


def posix_segments(pid: int) -> set[Path]:
    """Return what a process has mapped of PostgreSQL's own in /dev/shm."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split()[-1]) for line in lines if "/dev/shm/PostgreSQL." in line}


def system_v_segment(server: Server) -> str:
    """Return the number of a server's segment, as postmaster.pid has it."""
    return (server.data / "postmaster.pid").read_text().splitlines()[6].split()[1]


def there_is(segment: str) -> bool:
    return any(line.split()[1] == segment for line in Path(SEGMENTS).read_text().splitlines())


def test_a_killed_servers_folder_goes_with_postgresqls_memory(cluster: ClusterFactory) -> None:
    killed, running = cluster(), cluster()
    seen = {}
    for server in (killed, running):
        assert server.postmaster_pid is not None
        seen[server] = (posix_segments(server.postmaster_pid), system_v_segment(server))
        assert seen[server][0]
    killed.kill_postmaster()
    posix, segment = seen[killed]
    assert there_is(segment)
    assert all(path.exists() for path in posix)

    for server in (killed, running):
        remove_tree(server.base)
    assert not there_is(segment)
    assert not any(path.exists() for path in posix)

    # A running server keeps its memory, though its folder is removed.
    posix, segment = seen[running]
    assert there_is(segment)
    assert all(path.exists() for path in posix)


def test_a_copy_brings_back_the_cluster_and_only_it(
    cluster: ClusterFactory, tmp_path: Path
) -> None:
    server = cluster()
    with server.connect() as connection:
        connection.execute("create table before as select 1 as n")
    with pytest.raises(ServerError, match="cannot copy a running server"):
        server.copy_to(tmp_path / "copy")
    server.stop()
    server.copy_to(tmp_path / "copy")
    server.start()
    with server.connect() as connection:
        connection.execute("create table after as select 2 as n")
    server.stop()

    wal = server.base / "elsewhere"
    server.restore(tmp_path / "copy", wal_dir=wal)
    server.start()
    with server.connect() as connection:
        assert connection.execute("select n from before").fetchone() == (1,)
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("select n from after")
    assert (server.data / "pg_wal").resolve() == wal.resolve()
    assert any(len(path.name) == 24 for path in wal.iterdir())


def test_a_snapshot_takes_wal_that_lives_elsewhere_and_restores_it_inside(
    cluster: ClusterFactory, tmp_path: Path
) -> None:
    server = cluster()
    server.stop()
    server.copy_to(tmp_path / "first")
    server.restore(tmp_path / "first", wal_dir=server.base / "elsewhere")
    server.copy_to(tmp_path / "second")
    server.restore(tmp_path / "second")
    assert not (server.data / "pg_wal").is_symlink()
    server.start()


def test_only_the_server_gets_its_extra_environment(cluster: ClusterFactory) -> None:
    server = cluster(extra_env={"PGFLASH_MARK": "here"})
    environment = Path(f"/proc/{server.postmaster_pid}/environ").read_bytes()
    assert b"PGFLASH_MARK=here" in environment.split(b"\0")
    assert "PGFLASH_MARK" not in server.run([Path("/usr/bin/env")]).stdout


def test_the_callers_environment_does_not_reach_the_server(
    cluster: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=1MB")
    server = cluster()
    environment = Path(f"/proc/{server.postmaster_pid}/environ").read_bytes()
    assert b"PGOPTIONS" not in environment
    assert "PGOPTIONS" not in server.run([Path("/usr/bin/env")]).stdout


def test_a_server_started_by_a_thread_outlives_the_thread(cluster: ClusterFactory) -> None:
    server = cluster(start=False)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    # The kernel would have sent the signal before join() returned.
    assert not eventually(lambda: not server.running, seconds=0.5)
    with server.connect() as connection:
        assert connection.execute("select 1").fetchone() == (1,)


DRIVER = textwrap.dedent(
    """
    import sys, threading
    from pathlib import Path
    from pgflash_lab.postgres import PgInstall
    from pgflash_lab.server import Server
    server = Server.open(PgInstall.from_pg_config(sys.argv[1]), Path(sys.argv[2]))
    server.start()
    print(server.postmaster_pid, flush=True)
    threading.Event().wait()
    """
)


def driver_of(server: Server) -> tuple[subprocess.Popen[str], int]:
    """Start another driver on this server's base; return it and its postmaster's pid."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, server.install.pg_config, server.base],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    return driver, int(driver.stdout.readline())


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_its_driver(cluster: ClusterFactory, death: signal.Signals) -> None:
    server = cluster(start=False)
    driver, postmaster = driver_of(server)
    with driver:
        assert is_alive(postmaster)
        driver.send_signal(death)
        driver.wait()
    assert eventually(lambda: not is_alive(postmaster))
    assert eventually(lambda: not (server.data / "postmaster.pid").exists())


def test_a_leftover_server_is_stopped_before_ours_starts(cluster: ClusterFactory) -> None:
    server = cluster(start=False)
    driver, postmaster = driver_of(server)
    with driver:
        server.start()
        assert not is_alive(postmaster)
        assert server.postmaster_pid != postmaster
        driver.kill()


def test_a_stale_pid_file_that_names_a_stranger_harms_nobody(cluster: ClusterFactory) -> None:
    server = cluster(start=False)
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        (server.data / "postmaster.pid").write_text(f"{stranger.pid}\n{server.data}\n")
        assert not server.stop_leftover()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_base_with_a_long_path_gets_a_short_socket(
    cluster: ClusterFactory, pg_install: PgInstall
) -> None:
    near = cluster(start=False)
    base = near.base.parent / ("long" * 25) / "server"
    with Server.create(pg_install, base) as server:
        server.start()
        folder = server.socket_dir
        assert not folder.is_relative_to(base)
        with server.connect() as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders its server cannot reach")
def test_what_the_servers_user_cannot_reach_is_used_from_where_it_can(
    pg_install: PgInstall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    hidden = pg_install.copy_to(closed / "pg")
    opened = Path("/var/tmp") / f"pgflash-test-{os.getpid()}"
    opened.mkdir(mode=0o755)
    monkeypatch.setattr(account, "REACHABLE_BASE", opened)
    try:
        with Server.create(hidden, closed / "server") as server:
            server.start()
            assert server.base.is_relative_to(opened)
            assert server.install.root.is_relative_to(opened)
            assert server.run(["psql", "-Atc", "select 1"]).stdout == "1\n"
    finally:
        subprocess.run(["rm", "-rf", opened], check=True)


def test_a_private_copy_of_an_installation_stands_alone(
    pg_install: PgInstall, tmp_path: Path
) -> None:
    copy = pg_install.copy_to(tmp_path / "copy")
    assert copy.version == pg_install.version
    for folder in (copy.bindir, copy.pkglibdir, copy.sharedir, copy.includedir_server):
        assert folder.is_relative_to(tmp_path)
    before = copy.fingerprint()
    (copy.pkglibdir / "new.so").write_bytes(b"")
    assert copy.fingerprint() != before
    assert pg_install.copy_to(tmp_path / "copy").fingerprint() == copy.fingerprint()


def test_a_program_that_is_no_pg_config_is_refused_with_a_hint() -> None:
    with pytest.raises(PgInstallError, match="does not answer as a pg_config does"):
        PgInstall.from_pg_config("/bin/true")
    with pytest.raises(PgInstallError, match="could not run"):
        PgInstall.from_pg_config("/nowhere/pg_config")
