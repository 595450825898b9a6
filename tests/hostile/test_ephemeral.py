# SPDX-License-Identifier: PostgreSQL
"""A drive that may be empty: root formats it only if it is blank, and follows no one's names.

The script is share/pgflash/ephemeral/pgflash-ephemeral; its drives are loop devices.  That a cache
and a temporary tablespace come back on an empty drive is tested here, too.
"""

import contextlib
import hashlib
import os
import pty
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from pgflash_lab.account import Account
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import REPOSITORY, ClusterFactory
from support.disk import attach
from support.hostile import the_attacker
from support.patience import eventually

FILES = REPOSITORY / "share" / "pgflash" / "ephemeral"
SCRIPT = FILES / "pgflash-ephemeral"
UNIT = FILES / "pgflash-ephemeral@.service"

SIZE = 64 << 20
LABEL = "pgflash"


@dataclass(slots=True, kw_only=True)
class Rig:
    """A drive, a folder that only root can change, and the settings of the script."""

    folder: Path
    owner: Account
    image: Path
    device: str
    script: Path = SCRIPT
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def mount(self) -> Path:
        """The mount point."""
        return self.folder / "mount"

    @property
    def link(self) -> Path:
        """The name of the drive that stays the same, as in /dev/disk/by-id."""
        return Path("/dev") / self.folder.name

    @property
    def conf(self) -> Path:
        """The file of settings."""
        return self.folder / "nvme.conf"

    def run(self, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run the script as at boot."""
        values = {
            "DEVICE": str(self.link),
            "MOUNT": str(self.mount),
            "OWNER": self.owner.name,
            "CACHE": "cache",
            **self.settings,
            **settings,
        }
        self.conf.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        return self.again()

    def again(self) -> subprocess.CompletedProcess[str]:
        """Run the script with the settings as they are."""
        return subprocess.run(
            ["sh", self.script, self.conf], capture_output=True, text=True, check=False
        )

    def refused(self, words: str, **settings: str) -> None:
        """Fail unless the script refuses, for this reason, and the drive is as it was."""
        before = self.digest()
        done = self.run(**settings)
        assert done.returncode == 1, done.stderr
        assert words in done.stderr
        assert self.digest() == before
        assert not os.path.ismount(self.mount)

    def digest(self) -> str:
        """Return a digest of every byte of the drive."""
        subprocess.run(["blockdev", "--flushbufs", self.device], check=True)
        return hashlib.sha256(Path(self.device).read_bytes()).hexdigest()

    def unmount(self) -> None:
        """Unmount the drive, as at a stop of the machine."""
        if os.path.ismount(self.mount):
            assert eventually(
                lambda: subprocess.run(["umount", self.mount], check=False).returncode == 0
            )

    def stop_machine(self) -> None:
        """Come back empty, as the drive of a cloud instance does."""
        self.unmount()
        subprocess.run(["blkdiscard", "--force", self.device], check=True, capture_output=True)
        with Path(self.device).open("r+b") as drive:
            assert not any(drive.read(SIZE))

    def detach(self) -> None:
        """Take the drive away."""
        if self.link.is_symlink():
            self.link.unlink()
            subprocess.run(["losetup", "--detach", self.device], check=True)

    def shell(self, words: str) -> None:
        """Do something to the drive."""
        subprocess.run(words.format(self.device), shell=True, check=True, capture_output=True)


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A blank drive."""
    owner = the_attacker()
    for program in ("mkfs.ext4", "blkid", "wipefs", "cmp", "lsblk", "mountpoint"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")
    folder = Path(tempfile.mkdtemp(prefix="pgflash-test-", dir="/run"))
    folder.chmod(0o755)
    image = Path(tempfile.mkdtemp(prefix="pgflash-test-", dir="/var/tmp")) / "drive"
    with image.open("wb") as file:
        file.truncate(SIZE)
    one = Rig(folder=folder, owner=owner, image=image, device=attach(image))
    one.link.symlink_to(one.device)
    try:
        yield one
    finally:
        one.unmount()
        one.detach()
        shutil.rmtree(folder)
        shutil.rmtree(image.parent)


def label_of(device: str) -> str:
    """Return the label of a drive's file system."""
    words = ("blkid", "--probe", "--match-tag", "LABEL", "--output", "value", device)
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def state(path: Path) -> tuple[int, int]:
    """Return the owner and the mode of a folder."""
    found = path.stat()
    return found.st_uid, found.st_mode & 0o7777


def test_a_blank_drive_gets_a_file_system_and_folders(rig: Rig) -> None:
    done = rig.run()
    assert done.returncode == 0, done.stderr
    assert label_of(rig.device) == LABEL
    assert state(rig.mount) == (0, 0o755)
    assert state(rig.mount / "cache") == (rig.owner.uid, 0o700)
    flags = next(
        line.split()[3]
        for line in Path("/proc/mounts").read_text().splitlines()
        if line.split()[1] == str(rig.mount)
    )
    assert {"nodev", "nosuid", "noexec", "noatime"} <= set(flags.split(","))


def test_a_drive_that_was_prepared_keeps_what_is_on_it(rig: Rig) -> None:
    assert rig.run().returncode == 0
    (rig.mount / "cache" / "file").write_text("warm")
    for _ in range(2):  # mounted, and after a restart
        done = rig.again()
        assert (done.returncode, done.stderr) == (0, "")
        assert (rig.mount / "cache" / "file").read_text() == "warm"
        rig.unmount()


#: What may be on a drive that is not blank.
OTHERS = {
    "a file system of another name": "mkfs.ext4 -q -F -L data {0}",
    "a file system without a name": "mkfs.ext4 -q -F {0}",
    "another file system of our name": "mkswap -L pgflash {0}",
    "swap": "mkswap {0}",
    "a partition table": "printf '\\0\\0\\0\\0\\203\\0\\0\\0\\0\\010\\0\\0\\0\\020\\0\\0' "
    "| dd of={0} bs=1 seek=446 conv=notrunc; "
    "printf '\\125\\252' | dd of={0} bs=1 seek=510 conv=notrunc",
    "a byte at the beginning": "printf x | dd of={0} bs=1 seek=70000 conv=notrunc",
    "a byte at the end": f"printf x | dd of={{0}} bs=1 seek={SIZE - 1} conv=notrunc",
}


@pytest.mark.parametrize("command", OTHERS.values(), ids=OTHERS)
def test_a_drive_that_is_not_blank_stays_as_it_is(rig: Rig, command: str) -> None:
    rig.shell(command)
    rig.refused("is not blank, and is left as it is")


@pytest.mark.parametrize("edges", ["is_zero 0 && is_zero $((bytes - EDGE))", "true"])
def test_a_drive_with_bytes_that_nobody_knows_is_formatted_without_the_look(
    rig: Rig, edges: str
) -> None:
    """The control: what blkid and wipefs do not know would be lost."""
    text = SCRIPT.read_text()
    assert text.count("is_zero 0 && is_zero $((bytes - EDGE))") == 1
    rig.script = rig.folder / "script"
    rig.script.write_text(text.replace("is_zero 0 && is_zero $((bytes - EDGE))", edges))
    rig.shell(OTHERS["a byte at the beginning"])
    assert rig.run().returncode == (0 if edges == "true" else 1)
    assert (label_of(rig.device) == LABEL) is (edges == "true")


def test_a_drive_that_is_in_use_stays_as_it_is(rig: Rig) -> None:
    elsewhere = rig.folder / "elsewhere"
    elsewhere.mkdir()
    rig.shell("mkfs.ext4 -q -F -L pgflash {0}")
    subprocess.run(["mount", "-o", "ro", rig.device, elsewhere], check=True)
    try:
        rig.refused("is in use, or has partitions")
    finally:
        subprocess.run(["umount", elsewhere], check=True)


def test_another_device_on_the_mount_point_is_not_taken_for_the_drive(rig: Rig) -> None:
    rig.mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", rig.mount], check=True)
    done = rig.run()
    assert done.returncode == 1
    assert "another device is mounted" in done.stderr
    assert not label_of(rig.device)
    assert not (rig.mount / "cache").exists()


# ---- names of others


def _conf_of_others(rig: Rig) -> None:
    rig.conf.chmod(0o666)


def _conf_owned(rig: Rig) -> None:
    os.chown(rig.conf, rig.owner.uid, rig.owner.gid)


def _conf_link(rig: Rig) -> None:
    rig.conf.rename(rig.folder / "real.conf")
    rig.conf.symlink_to(rig.folder / "real.conf")


def _folder_owned(rig: Rig) -> None:
    os.chown(rig.folder, rig.owner.uid, rig.owner.gid)


def _mount_link(rig: Rig) -> None:
    (rig.folder / "victim").mkdir()
    rig.mount.symlink_to(rig.folder / "victim")


def _mount_owned(rig: Rig) -> None:
    rig.mount.mkdir()
    os.chown(rig.mount, rig.owner.uid, rig.owner.gid)


@pytest.mark.parametrize(
    "attack",
    [_conf_of_others, _conf_owned, _conf_link, _folder_owned, _mount_link, _mount_owned],
)
def test_what_others_can_change_is_not_trusted(rig: Rig, attack: Callable[[Rig], None]) -> None:
    rig.run(DEVICE="/dev/null")  # writes the settings
    rig.conf.write_text(rig.conf.read_text().replace("/dev/null", rig.device))
    if rig.mount.exists():
        rig.mount.rmdir()
    attack(rig)
    done = rig.again()
    assert done.returncode == 1
    assert "is a link, or others than root may change it" in done.stderr
    assert not label_of(rig.device)
    assert not (rig.folder / "victim" / "cache").exists()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("DEVICE", "/etc/passwd", "is not a path below /dev"),
        ("DEVICE", "/dev/../etc/passwd", "is not a path below /dev"),
        ("DEVICE", "/dev/null", "is not a block device"),
        ("MOUNT", "/run/$(touch {folder}/sprung)", "MOUNT is not"),
        ("MOUNT", "/run/a b", "MOUNT is not"),
        ("MOUNT", "/", "MOUNT is not"),
        ("CACHE", "../cache", "CACHE is not a plain name"),
        ("CACHE", "-rf", "CACHE is not a plain name"),
        ("OWNER", "root", "OWNER is root"),
        ("OWNER", "no;body", "there is no user"),
        ("TEMP", "temp", "TEMP needs DATA"),
        ("PATH", "/tmp", "is not a setting"),
    ],
)
def test_a_setting_that_is_no_plain_name_is_refused(
    rig: Rig, name: str, value: str, words: str
) -> None:
    rig.refused(words, **{name: value.format(folder=rig.folder)})
    assert not (rig.folder / "sprung").exists()


def _prepare(rig: Rig, change: Callable[[Path], None]) -> None:
    """Let somebody prepare a drive with our label."""
    rig.shell("mkfs.ext4 -q -F -L pgflash {0}")
    rig.mount.mkdir()
    subprocess.run(["mount", rig.device, rig.mount], check=True)
    change(rig.mount)
    rig.unmount()


def test_a_prepared_drive_leads_nowhere(rig: Rig) -> None:
    victim = rig.folder / "victim"
    victim.mkdir()
    _prepare(rig, lambda mount: (mount / "cache").symlink_to(victim))
    done = rig.run()
    assert done.returncode == 1
    assert "is not a folder of" in done.stderr
    assert state(victim) == (0, 0o755)


@pytest.mark.parametrize(("uid", "mode"), [(1, 0o700), (None, 0o777)], ids=["another's", "open"])
def test_a_prepared_folder_of_others_is_refused(rig: Rig, uid: int | None, mode: int) -> None:
    def change(mount: Path) -> None:
        (mount / "cache").mkdir()
        (mount / "cache").chmod(mode)
        os.chown(mount / "cache", rig.owner.uid if uid is None else uid, 0)

    _prepare(rig, change)
    done = rig.run()
    assert done.returncode == 1
    assert "is not a folder of" in done.stderr


def test_the_folder_of_a_version_is_made_as_the_server_s_user(rig: Rig) -> None:
    """He has put a link there: it leads where he may write, and nowhere else."""
    data, victim = rig.folder / "data", rig.folder / "victim"
    (data / "global").mkdir(parents=True)
    (data / "pg_tblspc").mkdir()
    victim.mkdir()
    (data / "PG_VERSION").write_text("18\n")
    (data / "global" / "pg_control").write_bytes(bytes(12) + (202506291).to_bytes(4, "little"))
    assert rig.run(TEMP="temp", DATA=str(data)).returncode == 0
    # Before CREATE TABLESPACE, which refuses a folder that is there already.
    assert list((rig.mount / "temp").iterdir()) == []
    (data / "pg_tblspc" / "16384").symlink_to(rig.mount / "temp")
    assert rig.again().returncode == 0
    made = rig.mount / "temp" / "PG_18_202506291"
    assert state(made) == (rig.owner.uid, 0o700)
    made.rmdir()
    made.symlink_to(victim / "made")
    assert rig.again().returncode == 1
    assert list(victim.iterdir()) == []
    for version in ("18/../../victim/x", "", "x" * 100):
        (data / "PG_VERSION").write_text(version)
        assert rig.again().returncode == 1
        assert list(victim.iterdir()) == []


@pytest.mark.parametrize("name", ["PG_VERSION", "global/pg_control"])
def test_a_pipe_in_place_of_a_file_holds_up_no_boot(rig: Rig, name: str, tmp_path: Path) -> None:
    """Its reader would wait until somebody writes to it."""
    data = rig.folder / "data"
    (data / "global").mkdir(parents=True)
    (data / "pg_tblspc").mkdir()
    (data / "PG_VERSION").write_text("18\n")
    (data / "pg_tblspc" / "16384").symlink_to(rig.mount / "temp")
    (data / name).unlink(missing_ok=True)
    os.mkfifo(data / name)
    (data / name).chmod(0o666)
    # The script's own limit, shortened.
    rig.script = tmp_path / "script"
    rig.script.write_text(SCRIPT.read_text().replace("timeout 20", "timeout 2"))
    assert rig.run(TEMP="temp", DATA=str(data)).returncode == 1


@pytest.mark.parametrize("script", ["postrm", "ephemeral"])
def test_the_owner_of_files_gets_no_terminal_of_root(rig: Rig, tmp_path: Path, script: str) -> None:
    """He may trace a process of his, and so type into a terminal that it has."""
    programs, report = rig.folder / "bin", rig.folder / "report"
    programs.mkdir()
    report.mkdir()
    os.chown(report, rig.owner.uid, 0)
    for name in ("find", "od"):
        (programs / name).write_text(
            "#!/bin/sh\n"
            f"cut -d ' ' -f 7 /proc/$$/stat > {report}/terminal\n"
            f"ls -l /proc/$$/fd > {report}/files\n"
        )
        (programs / name).chmod(0o755)
    if script == "postrm":
        cache = rig.folder / "18"
        cache.mkdir()
        os.chown(cache, rig.owner.uid, 0)
        text = (REPOSITORY / "debian" / "extension.postrm.in").read_text()
        program = tmp_path / "postrm"
        program.write_text(
            text.replace("/var/cache/pgflash/@PGVERSION@", str(cache)).replace("#DEBHELPER#", "")
        )
        command = ["sh", str(program), "purge"]
    else:
        data = rig.folder / "data"
        (data / "pg_tblspc").mkdir(parents=True)
        (data / "PG_VERSION").write_text("18\n")
        (data / "pg_tblspc" / "16384").symlink_to(rig.mount / "temp")
        rig.run(TEMP="temp", DATA=str(data))
        program = tmp_path / "ephemeral"
        program.write_text(SCRIPT.read_text().replace("\nPATH=", f"\nPATH={programs}:"))
        command = ["sh", str(program), str(rig.conf)]
    child, terminal = pty.fork()
    if child == 0:
        os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
        os.execvp(command[0], command)
    with contextlib.suppress(OSError):  # the end of a terminal
        while os.read(terminal, 4096):
            pass
    os.waitpid(child, 0)
    os.close(terminal)
    assert (report / "terminal").read_text() == "0\n"
    assert "/dev/pts" not in (report / "files").read_text()


# ---- a server


def use_temp(server: Server) -> str:
    """Sort more than memory has room for, and make a temporary table; return where that is."""
    with server.connect() as session:
        session.execute("set work_mem = '64kB'")
        session.execute(
            "create temporary table sorted as "
            "select md5(i::text) m from generate_series(1, 60000) i order by m"
        )
        row = session.execute("select pg_relation_filepath('sorted')").fetchone()
    assert row is not None
    return str(row[0])


def test_cache_and_temporary_tablespace_come_back_on_an_empty_drive_and_without_one(
    rig: Rig, cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash")
    rig.settings = {"TEMP": "temp", "DATA": str(server.data)}
    done = rig.run()
    # The folders above a data directory need not be root's: it is read as the server's user.
    assert done.returncode == 0, done.stderr
    with server.connect() as session:
        session.autocommit = True
        session.execute(f"create tablespace fast location '{rig.mount}/temp'")
        session.execute("alter system set temp_tablespaces = 'fast'")
    server.stop()
    server.configure(
        {
            "pgflash.cache_file": str(rig.mount / "cache" / "file"),
            "pgflash.cache_size": "16MB",
        }
    )
    modes: list[tuple[str, str]] = []

    def start() -> None:
        server.start()
        with server.connect() as session:
            session.execute("create extension if not exists pgflash")
            now = "select mode, mode_reason from pgflash_cache"
            assert eventually(
                lambda: session.execute(now).fetchone() not in (None, ("passthrough", "starting"))
            )
            (row,) = session.execute(now).fetchall()
            modes.append(row)
        assert use_temp(server).startswith("pg_tblspc/")
        server.stop()
        # What was sorted was there, too.
        assert len(list(rig.mount.glob("temp/PG_*/pgsql_tmp"))) == 1

    start()
    rig.stop_machine()
    assert not (rig.mount / "cache").exists()
    assert rig.again().returncode == 0
    start()
    rig.unmount()
    rig.detach()
    done = rig.again()
    assert done.returncode == 0
    assert "is not there: the server starts without the cache" in done.stderr
    assert not (rig.mount / "cache").exists()
    start()
    assert [mode for mode, _ in modes] == ["serve", "serve", "offline"]
    assert "No such file" in server.log_text(since_start=True)


def test_control_without_the_folder_of_a_version_there_are_no_temporary_tables(
    rig: Rig, cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install)
    assert rig.run(TEMP="temp", DATA=str(server.data)).returncode == 0
    with server.connect() as session:
        session.autocommit = True
        session.execute(f"create tablespace fast location '{rig.mount}/temp'")
        session.execute("alter system set temp_tablespaces = 'fast'")
    server.stop()
    rig.stop_machine()
    server.start()
    with pytest.raises(psycopg.Error, match="could not create directory"):
        use_temp(server)
    server.stop()


def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze: apt-get install systemd")
    text = UNIT.read_text()
    assert text.count("ExecStart=/usr/local/libexec/pgflash-ephemeral ") == 1
    unit = tmp_path / "pgflash-ephemeral@nvme.service"
    unit.write_text(text.replace("/usr/local/libexec/pgflash-ephemeral", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if "pgflash" in line]
    assert (done.returncode, said) == (0, [])
