# SPDX-License-Identifier: PostgreSQL
"""Patroni's REST API, only at the URLs that the user named.

Answers are not trusted: any program may be behind a URL, and member names come from a store that
others can write.  So an answer is limited in bytes and time, redirects are not followed, no proxy
of the environment is used, and a document is checked field by field.  Texts from it may hold escape
sequences, which the command line does not print as they are.

The name and the password are sent only with requests that change something, which are the only
ones that Patroni protects.  They come from a file or the environment, never from a URL, which every
user of the machine can read on the command line.

Limits of http.client itself: a header line of 64 kB, a hundred headers.
"""

import base64
import http.client
import json
import os
import socket
import ssl
import stat
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pgflash.errors import PgflashError, UsageError
from pgflash.model.fleet import PatroniCluster, PatroniMember
from pgflash.model.words import duration, size
from pgflash.trusted import ChangeableError, read_file

DEFAULT_PORT = 8008
#: For a whole answer.
TIMEOUT_S = 10.0
#: Patroni answers when the switchover is made, or after twice its loop_wait and 20 s at least.
SWITCHOVER_TIMEOUT_S = 300.0
BODY_BYTES_MAX = 1 << 20
MEMBERS_MAX = 100
_TEXT_MAX = 255
_WORDS_MAX = 200

USER_VARIABLE = "PATRONI_RESTAPI_USERNAME"
PASSWORD_VARIABLE = "PATRONI_RESTAPI_PASSWORD"


class PatroniError(PgflashError):
    """Patroni does not answer, or refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatroniAccess:
    """How Patroni is reached where it asks for more than a URL."""

    user: str = ""
    password: str = ""
    #: Certificates that its own must be signed by; without them, the system's.
    ca: Path | None = None
    #: What Patroni asks for with verify_client.
    certificate: Path | None = None
    key: Path | None = None

    def __repr__(self) -> str:
        return f"PatroniAccess(user={self.user!r}, ca={str(self.ca)!r})"


def read_access(
    auth: Path | None = None,
    *,
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
) -> PatroniAccess:
    """Return how Patroni is reached; the file AUTH holds one line, NAME:PASSWORD.

    Without it, name and password are those of the environment, if they are there.
    """
    if auth is None:
        user, password = os.environ.get(USER_VARIABLE, ""), os.environ.get(PASSWORD_VARIABLE, "")
    else:
        user, password = _read_auth(auth)
    if any(one < " " for one in user + password):
        raise UsageError("the name or the password of Patroni's API has a control character")
    return PatroniAccess(user=user, password=password, ca=ca, certificate=certificate, key=key)


def _read_auth(path: Path) -> tuple[str, str]:
    try:
        text = read_file(path).decode()
        mode = path.stat().st_mode
    except ChangeableError as error:
        raise UsageError(f'"{path}" is not read: {error.message}', hint=error.hint) from error
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f'could not read "{path}": {why}') from error
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        raise UsageError(f'others may read "{path}"', hint=f"chmod 600 {path}")
    user, colon, password = text.strip("\n").partition(":")
    if not user or not colon or "\n" in password:
        raise UsageError(f'"{path}" is not one line with NAME:PASSWORD')
    return user, password


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A member that became the leader."""

    leader: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """A URL that the user named."""

    url: str
    is_tls: bool
    host: str
    port: int
    path: str


def _base(url: str) -> _Base:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    except ValueError as error:
        raise UsageError(f'"{url}" is not a URL: {error}') from error
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "a URL with a name or a password is visible to all users of this machine",
            hint=f"Use --patroni-auth FILE, or {USER_VARIABLE} and {PASSWORD_VARIABLE}.",
        )
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise UsageError(
            f'"{url}" is not the URL of a Patroni', hint="Write it as http://db1.example.org:8008."
        )
    shown = f"[{host}]" if ":" in host else host
    return _Base(
        url=f"{parts.scheme}://{shown}:{port}{parts.path.rstrip('/')}",
        is_tls=parts.scheme == "https",
        host=host,
        port=port,
        path=parts.path.rstrip("/"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    body: bytes

    def words(self) -> str:
        """Return what Patroni said, in one short line."""
        return " ".join(self.body.decode(errors="replace").split())[:_WORDS_MAX]


class Patroni:
    """A cluster's Patronis; the first one that answers is used."""

    def __init__(
        self,
        urls: Sequence[str],
        access: PatroniAccess | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Ask at these URLs, in this order."""
        self._timeout_s = timeout_s
        self._bases = [_base(url) for url in urls]
        self._access = access or PatroniAccess()
        if not self._bases:
            raise UsageError("no URL of a Patroni was named")

    def cluster(self) -> PatroniCluster:
        """Return the cluster as the first Patroni that answers sees it."""
        base, answer = self._first_answer("/cluster")
        if answer.status != http.client.OK:
            raise _refused(base, answer)
        return _cluster(base, _document(base, answer))

    def last_promotion(self) -> Promotion | None:
        """Return who became leader last, and when, if the cluster's history has both."""
        _base, answer = self._first_answer("/history")
        try:
            lines = json.loads(answer.body)
            # Timeline, LSN, reason, time and, since Patroni 2.1, the name of the new leader.
            _timeline, _lsn, _reason, at, name = lines[-1]
            moment = datetime.fromisoformat(at)
        except (ValueError, TypeError, LookupError, RecursionError):
            return None
        if answer.status != http.client.OK or moment.tzinfo is None:
            return None
        return Promotion(leader=_text(name), at=moment)

    def tags(self) -> Mapping[str, str]:
        """Return the tags of the member behind the URL, as Patroni works with them now."""
        base, answer = self._first_answer("/patroni")
        return _tags(_document(base, answer).get("tags"))

    def switch_over(self, leader: str, candidate: str) -> str:
        """Ask for a switchover, wait until it is made, and return Patroni's words.

        Patroni refuses if another member leads by then.
        """
        body = json.dumps({"leader": leader, "candidate": candidate}).encode()
        base, answer = self._first_answer("/switchover", body=body, timeout_s=SWITCHOVER_TIMEOUT_S)
        if answer.status != http.client.OK:
            raise _refused(base, answer)
        return answer.words()

    def reload(self) -> None:
        """Have Patroni read its configuration files again."""
        base, answer = self._first_answer("/reload", body=b"")
        if answer.status not in {http.client.OK, http.client.ACCEPTED}:
            raise _refused(base, answer)

    def _first_answer(
        self, path: str, *, body: bytes | None = None, timeout_s: float = 0.0
    ) -> tuple[_Base, _Answer]:
        """Return the first answer; a change is requested of only one that can be reached.

        TIMEOUT_S is for what takes longer than other requests.
        """
        timeout_s = timeout_s or self._timeout_s
        failures = []
        for base in self._bases:
            try:
                connection = self._connected(base, timeout_s)
            except (OSError, ValueError) as error:
                failures.append(f"{base.url}: {_why(error)}")
                continue
            try:
                return base, self._ask(connection, base.path + path, body, timeout_s)
            except (OSError, http.client.HTTPException, ValueError) as error:
                failures.append(f"{base.url}: {_why(error)}")
                if body is not None:
                    raise _lost(failures) from error
            finally:
                connection.close()
        raise PatroniError(
            f"could not ask Patroni at {'; '.join(failures)}",
            hint="--patroni names the REST API of a member that runs; name several to have the "
            "next one asked.",
        )

    def _connected(self, base: _Base, timeout_s: float) -> http.client.HTTPConnection:
        """Return a connection; its handshake is done."""
        own = socket.create_connection((base.host, base.port), timeout=self._timeout_s)
        try:
            if base.is_tls:
                with _limited(own, self._timeout_s):
                    own = self._context().wrap_socket(own, server_hostname=base.host)
            own.settimeout(timeout_s)
        except BaseException:
            own.close()
            raise
        connection = http.client.HTTPConnection(base.host, base.port)
        connection.sock = own
        return connection

    def _context(self) -> ssl.SSLContext:
        access = self._access
        context = ssl.create_default_context(cafile=access.ca)
        if access.certificate is not None:
            context.load_cert_chain(access.certificate, access.key, password=_no_password)
        return context

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        path: str,
        body: bytes | None,
        timeout_s: float,
    ) -> _Answer:
        with _limited(connection.sock, timeout_s):
            headers = {"Accept": "application/json", "User-Agent": "pgflash"}
            if body is not None:
                headers |= {"Content-Type": "application/json", **self._authorization()}
            connection.request("GET" if body is None else "POST", path, body, headers)
            response = connection.getresponse()
            content = response.read(BODY_BYTES_MAX + 1)
        if len(content) > BODY_BYTES_MAX:
            raise ValueError(f"its answer is longer than {size(BODY_BYTES_MAX)}")
        return _Answer(status=response.status, body=content)

    def _authorization(self) -> dict[str, str]:
        if not self._access.user:
            return {}
        pair = f"{self._access.user}:{self._access.password}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


class _limited:
    """Ends a connection after a time: a socket's own limit is for each of its bytes."""

    def __init__(self, own: socket.socket, seconds: float) -> None:
        # TLS takes over the descriptor of its socket, so shut down a duplicate.
        self._own = socket.socket(fileno=os.dup(own.fileno()))
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._seconds = seconds
        self._ended = False

    def _end(self) -> None:
        self._ended = True
        with suppress(OSError):
            self._own.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_exc: object) -> None:
        self._timer.cancel()
        self._timer.join()
        self._own.close()
        if self._ended:
            raise TimeoutError(f"no complete answer within {duration(self._seconds)}")


def _no_password() -> str:
    raise ValueError("the key of the certificate is encrypted, which is not supported")


def _why(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:_WORDS_MAX]


def _lost(failures: Sequence[str]) -> PatroniError:
    return PatroniError(
        f"Patroni was asked, and what became of it is not known: {failures[-1]}",
        hint="'pgflash fleet status' shows who leads now.",
    )


def _refused(base: _Base, answer: _Answer) -> PatroniError:
    hint = ""
    if answer.status == http.client.UNAUTHORIZED:
        hint = f"Use --patroni-auth FILE, or {USER_VARIABLE} and {PASSWORD_VARIABLE}."
    elif 300 <= answer.status < 400:
        hint = "Redirects are not followed: name the URL that it leads to."
    said = f": {words}" if (words := answer.words()) else ""
    return PatroniError(f"Patroni at {base.url} answered {answer.status}{said}", hint=hint)


def _document(base: _Base, answer: _Answer) -> Mapping[str, Any]:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PatroniError(
            f"what answers at {base.url} is not a Patroni",
            hint="Patroni's REST API has port 8008 unless its configuration says otherwise.",
        )
    return found


def _cluster(base: _Base, found: Mapping[str, Any]) -> PatroniCluster:
    members = found.get("members")
    if not isinstance(members, list) or len(members) > MEMBERS_MAX:
        raise PatroniError(f"what answers at {base.url} is not a Patroni of 1.6 or later")
    read = [_member(one) for one in members if isinstance(one, dict)]
    return PatroniCluster(
        url=base.url,
        name=_text(found.get("scope")),
        members=tuple(one for one in read if one.name),
    )


def _member(found: Mapping[str, Any]) -> PatroniMember:
    # Before 4.1 there is only `lag`, which is what it has not received or not replayed.
    lag = _whole(found.get("replay_lag"))
    return PatroniMember(
        name=_text(found.get("name")),
        role=_text(found.get("role")),
        state=_text(found.get("state")),
        host=_text(found.get("host")),
        port=_whole(found.get("port")) or 0,
        timeline=_whole(found.get("timeline")),
        lag_bytes=_whole(found.get("lag")) if lag is None else lag,
        tags=_tags(found.get("tags")),
    )


def _tags(found: object) -> Mapping[str, str]:
    """Return tags by name, as Patroni compares them: true and false, and texts."""
    if not isinstance(found, dict):
        return {}
    return {
        _text(name): value if isinstance(value, str) else str(value).lower()
        for name, value in found.items()
    }


def _text(value: object) -> str:
    """Return a text that can be written as UTF-8: JSON may have half a character."""
    if not isinstance(value, str):
        return ""
    return value[:_TEXT_MAX].encode(errors="replace").decode()


def _whole(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and isinstance(value, int) and 0 <= value < 1 << 63 else None
