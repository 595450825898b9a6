# SPDX-License-Identifier: PostgreSQL
"""Attackers without a token want to see the live page, or want nobody else to see it.

Some can only reach the page; others are users of the machine that serves it, and see what all users
see: processes, their command lines, files.
"""

import contextlib
import os
import pty
import re
import resource
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash.errors import PgflashError
from pgflash.web.security import FREE_TRIES
from pgflash.web.tokens import default_file, token_of
from support.patience import PATIENCE_S, until
from support.serving import RIGHT, TOKEN, Serving, serving, stranger

#: An ordinary user of every Debian.
STRANGER = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")


def form(token: str) -> bytes:
    return f"token={token}".encode()


@contextlib.contextmanager
def guessing(page: Serving) -> Iterator[list[int]]:
    """Have a stranger try wrong tokens as fast as he can, in both ways."""
    codes: list[int] = []
    over = threading.Event()

    def guess() -> None:
        while not over.is_set():
            wrong = {"Authorization": f"Bearer wrong-{len(codes)}-0123456789"}
            codes.append(page.ask("/metrics", headers=wrong)[0])
            codes.append(page.ask("/login", method="POST", body=form(f"wrong-{len(codes)}"))[0])

    thread = threading.Thread(target=guess)
    thread.start()
    try:
        until(lambda: len(codes) >= 10)
        yield codes
    finally:
        over.set()
        thread.join()


def test_a_stranger_who_guesses_shuts_nobody_out(tmp_path: Path) -> None:
    """Wrong tokens without a pause, as header and by the form.

    Each right one opens meanwhile: that of Prometheus, that of a user who logs in, and the session
    that follows.  The log has a line about it, and nothing that the stranger sent.
    """
    begun_s = time.monotonic()
    with serving(tmp_path) as page, guessing(page) as codes:
        for _ in range(30):
            assert page.ask("/metrics", headers=RIGHT)[0] == 200
            assert page.ask("/login", method="POST", body=form(TOKEN))[0] == 303
        assert set(codes) <= {401, 403, 429}
        not_told_to_wait = codes.count(401) + codes.count(403)
        assert not_told_to_wait <= FREE_TRIES + time.monotonic() - begun_s
        said = [line for line in page.lines if "wrong" in line]
        assert said[0] == "pgflash: a request had a wrong token"
        assert "wrong-" not in page.log.read_text()


def test_a_user_of_the_machine_sees_nothing_without_the_token(tmp_path: Path) -> None:
    """On loopback, as it is served unless told otherwise: statements, metrics, runs, reports."""
    with serving(tmp_path, token="") as page:
        for path in ("/", "/live/samples", "/live/events", "/live/details", "/metrics", "/lab"):
            assert page.ask(path) == (
                401,
                "A token is needed, as Authorization: Bearer, or by /login.\n",
            )
        assert page.ask("/report", method="POST", body=b"")[0] == 401
        kept = tmp_path / "config" / "pgflash" / "token"
        token = kept.read_text().strip()
        assert page.ask("/metrics", headers={"Authorization": f"Bearer {token}"})[0] == 200
        # Other users see nothing of it.
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
        process = Path("/proc", str(page.process.pid))
        assert token not in (process / "cmdline").read_bytes().decode()
        assert token not in page.log.read_text()
        assert f"the token that is stored in {kept}" in page.log.read_text()
    # It is the same the next time, so its clients continue.
    with serving(tmp_path, token="") as page:
        assert page.ask("/metrics", headers={"Authorization": f"Bearer {token}"})[0] == 200


def test_who_wants_no_token_says_so_and_is_told_what_it_means(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-token") as page:  # also if there is one in the environment
        assert page.ask("/metrics")[0] == 200
        assert "everybody who can log in to this machine sees everything" in page.log.read_text()
    assert not (tmp_path / "config").exists()


def test_the_token_is_shown_to_who_starts_it_in_a_terminal(tmp_path: Path) -> None:
    """And nowhere else: standard error may be a log."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "pgflash", "serve", "--dsn", "host=/nowhere", "--listen",
         "127.0.0.1:0", "--token-file", tmp_path / "token"],
        stderr=follower,
    )  # fmt: skip
    os.close(follower)
    said = ""
    try:
        while said.count("\n") < 2:
            said += os.read(leader, 4096).decode()
    finally:
        child.terminate()
        child.wait(PATIENCE_S)
        os.close(leader)
    token = (tmp_path / "token").read_text().strip()
    assert len(token) >= 32
    assert f"which is stored in {tmp_path / 'token'}: {token}\r\n" in said
    # No link contains it: following a link can put it onto a browser's command line.
    (link,) = re.findall(r"http://\S+", said)
    assert token not in link


# ---- the file that keeps the token


def test_a_file_that_others_may_read_or_write_keeps_no_token(tmp_path: Path) -> None:
    """An attacker waits for the administrator to use a file whose name he knows."""
    kept = tmp_path / "token"
    for mode in (0o640, 0o604, 0o620, 0o602):
        kept.write_text(TOKEN)
        kept.chmod(mode)
        with pytest.raises(PgflashError, match="others may read"):
            token_of(kept)
    kept.chmod(0o600)
    assert token_of(kept) == TOKEN
    for content, why in ((b"", "is empty"), (b" \n", "is empty"), (b"\xff\xfe", "no text")):
        kept.write_bytes(content)
        with pytest.raises(PgflashError, match=why):
            token_of(kept)


def test_a_pipe_a_folder_or_a_device_keeps_no_token_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(0o700)
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "folder", "link"):
        with pytest.raises(PgflashError, match="is not a file"):
            token_of(tmp_path / name)


@needs_root
def test_a_token_that_a_stranger_has_put_there_is_not_taken(tmp_path: Path) -> None:
    """He makes the file before root does, in a folder that all may write, or by a link."""
    his = tmp_path / "his"
    his.write_text(TOKEN)
    his.chmod(0o600)
    os.chown(his, STRANGER, STRANGER)
    (tmp_path / "token").symlink_to(his)
    for name in ("his", "token"):
        with pytest.raises(PgflashError, match="belongs to another user"):
            token_of(tmp_path / name)


@needs_root
@pytest.mark.parametrize("kind", ["all may write", "his own"])
def test_no_token_is_made_where_a_stranger_can_put_another(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if kind == "his own":
        os.chown(folder, STRANGER, STRANGER)
    else:
        folder.chmod(0o1777)
    with pytest.raises(PgflashError, match="others may write to its folder"):
        token_of(folder / "token")
    assert list(folder.iterdir()) == []


def test_two_that_start_at_once_have_the_same_token(tmp_path: Path) -> None:
    found: list[str] = []
    together = threading.Barrier(8)

    def start() -> None:
        together.wait()
        found.append(token_of(tmp_path / "new" / "token"))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE_S)
    assert (len(found), len(set(found))) == (8, 1)
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["token"]


def test_a_token_that_cannot_be_kept_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PgflashError, match="could not"):
        token_of(tmp_path / "file" / "token")
    # Without room for it nothing is left.
    monkeypatch.setattr("os.link", _no_room)
    with pytest.raises(PgflashError, match="No space left"):
        token_of(tmp_path / "other" / "token")
    assert list((tmp_path / "other").iterdir()) == []
    monkeypatch.setenv("XDG_CONFIG_HOME", "not/absolute")
    assert default_file().is_absolute()


def _no_room(*_names: object, **_folders: object) -> None:
    raise OSError(28, "No space left on device")


# ---- the log


def test_what_strangers_do_wrong_is_a_line_a_minute(tmp_path: Path) -> None:
    """Invalid requests, upgrades to unknown protocols, bodies that are too long or cut off.

    A library complains about each, some with a traceback; all of them contain escape sequences.
    """
    evil = "\x1b]0;owned\x07"
    head = b"HTTP/1.1\r\nHost: localhost\r\n"
    upgrade = b"GET /health " + head + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    chunked = b"POST /login " + head + b"Transfer-Encoding: chunked\r\n\r\n1400\r\n"
    wrongs = (
        upgrade,
        evil.encode() + b"\r\n\r\n",
        f"GET /{evil} HTTP/1.1\r\n\r\n".encode(),
        chunked + evil.encode() + b"x" * (5120 - len(evil)) + b"\r\n0\r\n\r\n",
        b"POST /login " + head + b"Content-Length: 100\r\n\r\n" + evil.encode(),
        b"GET /static/%00%1b " + head + b"\r\n",
        b"GET /static/" + b"a" * 5000 + b" " + head + b"\r\n",
        b"GET /lab/runs/%00/report.html "
        + head
        + b"Authorization: Bearer %s\r\n\r\n" % TOKEN.encode(),
        b"GET / " + head + b"Cookie: " + evil[2:-1].encode() + b"\r\n\r\n",
    )
    with serving(tmp_path) as page:
        for _ in range(50):
            for words in wrongs:
                with stranger(page.port, words) as one, contextlib.suppress(OSError):
                    one.shutdown(1)
                    while one.recv(65536):
                        pass
        until(lambda: page.ask("/health")[0] == 200)
        said = page.log.read_bytes()
        assert b"\x1b" not in said
        assert b"Traceback" not in said
        assert page.says_little(6), page.lines
        assert [line for line in page.lines if "Invalid HTTP request" in line]
        assert not [line for line in page.lines if "Exception" in line], page.lines


def test_memory_does_not_grow_with_what_strangers_try(tmp_path: Path) -> None:
    """Wrong tokens, and invalid cookies and sessions, each one different."""
    with serving(tmp_path) as page:

        def held() -> int:
            words = Path(f"/proc/{page.process.pid}/statm").read_text().split()
            return int(words[1]) * resource.getpagesize()

        def trying(rounds: int) -> None:
            for number in range(rounds):
                word = f"{number}-{'x' * 12_000}"
                page.ask("/metrics", headers={"Authorization": f"Bearer {word}"})
                page.ask("/", headers={"Cookie": f"pgflash_{number}={word}", "Host": word[:200]})

        trying(100)
        before = held()
        trying(300)
        assert held() < before + 4 * 2**20  # of seven million bytes that were tried
