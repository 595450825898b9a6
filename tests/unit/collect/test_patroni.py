# SPDX-License-Identifier: PostgreSQL
"""What a Patroni answers is not trusted: its length, its time, its words, where it sends us."""

import base64
import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pgflash.collect.patroni import (
    BODY_BYTES_MAX,
    PASSWORD_VARIABLE,
    USER_VARIABLE,
    Patroni,
    PatroniAccess,
    PatroniError,
    read_access,
)
from pgflash.errors import UsageError
from support.answering import answering, document, fixed
from support.patience import PATIENCE_S

ACCESS = PatroniAccess(user="operator", password="s3cret")
BASIC = base64.b64encode(b"operator:s3cret")

CLUSTER = {
    "scope": "main",
    "members": [
        {
            "name": "a",
            "role": "leader",
            "state": "running",
            "host": "10.0.0.1",
            "port": 5432,
            "timeline": 3,
            "api_url": "http://10.0.0.1:8008/patroni",
        },
        {
            "name": "b",
            "role": "replica",
            "state": "streaming",
            "host": "10.0.0.2",
            "port": 5432,
            "timeline": 3,
            "lag": 7,
            "tags": {"pgflash_warm": True, "nofailover": "false"},
        },
        {"name": "c", "role": "replica", "state": "start failed", "lag": "unknown"},
    ],
}


def promotion(history: object) -> tuple[str, str] | None:
    """Return who became leader last, and when, by a history."""
    with answering(document(history)) as told:
        found = Patroni([told.url]).last_promotion()
    return None if found is None else (found.leader, found.at.isoformat())


def test_the_history_tells_who_leads_since_when() -> None:
    first = [1, 99, "no recovery target specified", "2026-11-22T10:00:00+00:00", "a"]
    last = [2, 199, "no recovery target specified", "2026-11-22T11:00:00.5+01:00", "b"]
    assert promotion([first, last]) == ("b", "2026-11-22T11:00:00.500000+01:00")


@pytest.mark.parametrize(
    "history",
    [
        [], {}, None, "x", [[]], [[1, 99, "old"]], [[1, 99, "no zone", "2026-11-22T10:00:00", "a"]],
        [[1, 99, "no time", "soon", "a"]], [[1, 99, "no time", 7, "a"]],
    ],
)  # fmt: skip
def test_a_history_without_a_time_tells_nothing(history: object) -> None:
    assert promotion(history) is None


def refusal(say: Callable[[socket.socket], None], *, timeout_s: float = PATIENCE_S) -> str:
    """Return why a cluster cannot be read from this answer."""
    with answering(say) as told, pytest.raises(PatroniError) as caught:
        Patroni([told.url], timeout_s=timeout_s).cluster()
    return str(caught.value)


def test_a_cluster_is_read_with_its_members_lags_and_tags() -> None:
    with answering(document(CLUSTER)) as told:
        cluster = Patroni([told.url]).cluster()
    assert (cluster.name, cluster.leader, cluster.url) == ("main", "a", told.url)
    leader, follower, broken = cluster.members
    assert (leader.host, leader.port, leader.timeline, leader.lag_bytes) == (
        "10.0.0.1",
        5432,
        3,
        None,
    )
    assert follower.lag_bytes == 7
    assert follower.tags["pgflash_warm"] == "true"
    assert (broken.lag_bytes, broken.host) == (None, "")
    assert [one.name for one in cluster.candidates] == ["b"]


def test_the_lag_of_replay_is_preferred_to_that_of_receiving() -> None:
    member = {"name": "b", "role": "replica", "lag": 0, "receive_lag": 0, "replay_lag": 9}
    with answering(document({"members": [member]})) as told:
        assert Patroni([told.url]).cluster().members[0].lag_bytes == 9


def test_with_synchronous_replication_only_a_synchronous_standby_is_a_candidate() -> None:
    members = [
        {"name": "a", "role": "leader", "state": "running"},
        {"name": "b", "role": "replica", "state": "streaming"},
        {"name": "c", "role": "sync_standby", "state": "streaming"},
    ]
    with answering(document({"members": members})) as told:
        assert [one.name for one in Patroni([told.url]).cluster().candidates] == ["c"]


def test_a_member_that_must_not_lead_is_no_candidate() -> None:
    member = {"name": "b", "role": "replica", "state": "streaming", "tags": {"nofailover": True}}
    with answering(document({"members": [member]})) as told:
        assert Patroni([told.url]).cluster().candidates == ()


@pytest.mark.parametrize(
    "body",
    [b"", b"hello", b"[1, 2]", b"\xff\xfe", b"[" * 200_000, b'{"members": ' + b"9" * 100_000],
    ids=["nothing", "text", "a list", "no UTF-8", "deep", "a long number"],
)
def test_what_is_no_document_is_not_a_patroni(body: bytes) -> None:
    assert "is not a Patroni" in refusal(fixed(body))


@pytest.mark.parametrize("members", [None, {}, "a", [{"name": "x"}] * 101])
def test_what_has_no_list_of_members_is_not_a_patroni(members: object) -> None:
    assert "is not a Patroni" in refusal(document({"members": members}))


def test_fields_of_a_wrong_kind_are_unknown() -> None:
    member = {"name": "b", "role": 1, "state": [], "host": {}, "port": "x", "timeline": True,
              "lag": -1, "tags": []}  # fmt: skip
    others: list[object] = ["text", {"name": 7}, None]
    with answering(document({"scope": 1, "members": [member, *others]})) as told:
        (one,) = Patroni([told.url]).cluster().members
    assert (one.role, one.state, one.host, one.port) == ("", "", "", 0)
    assert (one.timeline, one.lag_bytes, dict(one.tags)) == (None, None, {})


def test_a_longer_answer_than_any_cluster_has_is_not_read() -> None:
    assert "longer than" in refusal(fixed(b" " * (BODY_BYTES_MAX + 1)))


def test_an_answer_that_never_ends_has_a_limit_of_time() -> None:
    ended = threading.Event()

    def drip(own: socket.socket) -> None:
        own.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        # Each byte comes in time; one cannot be sent once the other end has given up.
        with contextlib.suppress(OSError):
            while True:
                own.sendall(b" ")
                ended.wait(0.01)

    assert "no complete answer within" in refusal(drip, timeout_s=0.5)


def test_a_redirect_is_not_followed() -> None:
    with answering(document(CLUSTER)) as other:
        head = f"Location: {other.url}/cluster\r\n"
        assert "Redirects are not followed" in refusal(fixed(b"", "302 Found", head))
    assert other.requests == []


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(document(CLUSTER)) as told, answering(document(CLUSTER)) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        Patroni([told.url]).cluster()
    assert (len(told.requests), proxy.requests) == (1, [])


def test_the_first_patroni_that_answers_is_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}"
        unused.shutdown(socket.SHUT_RDWR)  # bound, so nobody else can listen there
        with answering(document(CLUSTER)) as told:
            assert Patroni([nobody, told.url]).cluster().url == told.url


def test_a_patroni_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
        unused.shutdown(socket.SHUT_RDWR)
        with pytest.raises(PatroniError, match=f"http://127.0.0.1:{port}"):
            Patroni([f"http://127.0.0.1:{port}"]).cluster()


def test_the_password_is_sent_only_with_what_changes_something() -> None:
    with answering(document(CLUSTER)) as told:
        asked = Patroni([told.url], ACCESS)
        asked.cluster()
        asked.tags()
        asked.reload()
        asked.switch_over("a", "b")
    reads, changes = told.requests[:2], told.requests[2:]
    assert not any(b"Authorization" in one for one in reads)
    assert all(b"Authorization: Basic " + BASIC in one for one in changes)
    assert changes[0].startswith(b"POST /reload ")
    assert changes[1].startswith(b"POST /switchover ")


def test_a_refused_request_says_why_and_how_to_name_oneself() -> None:
    say = fixed(b"no auth header received", "401 Unauthorized")
    with answering(say) as told, pytest.raises(PatroniError) as caught:
        Patroni([told.url]).reload()
    assert "401: no auth header received" in caught.value.message
    assert "--patroni-auth" in caught.value.hint


def test_a_switchover_without_an_answer_is_not_called_a_failure() -> None:
    with answering(lambda own: None) as told, pytest.raises(PatroniError) as caught:
        Patroni([told.url, told.url]).switch_over("a", "b")
    assert "what became of it is not known" in caught.value.message
    assert len(told.requests) == 1  # asking twice could switch over twice


@pytest.mark.parametrize(
    "url",
    ["", "db1", "ftp://db1", "http://", "http://db1:x", "http://db1/?a=1", "http://db1/#a",
     "file:///etc/passwd", "http://[::1"],
)  # fmt: skip
def test_what_is_no_url_of_a_patroni_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        Patroni([url])


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        Patroni(["http://operator:s3cret@db1:8008"])
    assert "s3cret" not in str(caught.value)


def test_the_access_does_not_show_its_password() -> None:
    assert "s3cret" not in repr(ACCESS)


def test_name_and_password_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "auth"
    path.write_text("operator:s3:cret\n")
    path.chmod(0o600)
    found = read_access(path)
    assert (found.user, found.password) == ("operator", "s3:cret")


def test_name_and_password_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USER_VARIABLE, "operator")
    monkeypatch.setenv(PASSWORD_VARIABLE, "s3cret")
    assert (read_access().user, read_access().password) == ("operator", "s3cret")


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        ("operator:s3cret\n", 0o644, "others may read"),
        ("operator\n", 0o600, "NAME:PASSWORD"),
        (":s3cret\n", 0o600, "NAME:PASSWORD"),
        ("operator:a\nb:c\n", 0o600, "NAME:PASSWORD"),
        ("operator:a\tb\n", 0o600, "control character"),
    ],
)
def test_a_file_that_is_not_one_private_line_is_refused(
    tmp_path: Path, content: str, mode: int, why: str
) -> None:
    path = tmp_path / "auth"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(UsageError, match=why):
        read_access(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        read_access(tmp_path / "nowhere")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate of 127.0.0.1 that signs itself; its key is in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    pem, key = folder / "cert.pem", folder / "key.pem"
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=fleet", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", key, "-out", pem],
            check=True, capture_output=True,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("there is no openssl: apt-get install openssl")
    (folder / "both.pem").write_bytes(pem.read_bytes() + key.read_bytes())
    return folder


def _context(certificate: Path, *, asks: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "both.pem")
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate / "cert.pem")
    return context


def test_a_certificate_of_an_authority_that_was_named_is_trusted(certificate: Path) -> None:
    with answering(document(CLUSTER), _context(certificate)) as told:
        url = f"https://127.0.0.1:{told.port}"
        access = PatroniAccess(ca=certificate / "cert.pem")
        assert Patroni([url], access).cluster().leader == "a"


def test_a_certificate_of_an_unknown_authority_is_not_trusted(certificate: Path) -> None:
    with (
        answering(document(CLUSTER), _context(certificate)) as told,
        pytest.raises(PatroniError, match="its certificate is not valid"),
    ):
        Patroni([f"https://127.0.0.1:{told.port}"], ACCESS).reload()
    assert told.requests == []


def test_a_certificate_is_shown_to_a_patroni_that_asks_for_one(certificate: Path) -> None:
    with answering(document(CLUSTER), _context(certificate, asks=True)) as told:
        access = PatroniAccess(
            ca=certificate / "cert.pem",
            certificate=certificate / "cert.pem",
            key=certificate / "key.pem",
        )
        assert Patroni([f"https://127.0.0.1:{told.port}"], access).cluster().leader == "a"


def test_a_handshake_that_never_ends_has_a_limit_of_time() -> None:
    ended = threading.Event()

    def silent(own: socket.socket) -> None:
        ended.wait(PATIENCE_S)

    with answering(silent) as told, contextlib.ExitStack() as stack:
        stack.callback(ended.set)
        with pytest.raises(PatroniError, match=r"within|timed out"):
            Patroni([f"https://127.0.0.1:{told.port}"], timeout_s=0.5).cluster()
