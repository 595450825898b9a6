# SPDX-License-Identifier: PostgreSQL
"""Authorization: every request is checked before its route is called.

A token is required, either once in a form, which starts a session with a cookie, or with each
request as `Authorization: Bearer`.  That includes loopback, which every user of the machine can
reach; but only there can the token be switched off.  URLs are logged, stored and passed on, so a
request with a token in its URL is refused.

Another site's page in the same browser can send requests here.  So the name in Host must be ours
(another name that resolves to us is DNS rebinding), POST requests must come from our own pages, and
only these get data.  Every answer, including errors, has a Content-Security-Policy without
exceptions: scripts and styles are files of ours.  Files that a guest page shows (guests.py) have a
policy of their own, which must be stricter.

Tokens are compared as digests in constant time.  Every token is checked, and the right one is
accepted whatever others try: otherwise strangers could lock users out.  So only its length protects
a token from being guessed.  After five wrong tokens, more than one a second are told to wait.
Session words are random, kept in memory as digests, and valid for twelve hours.  Each process draws
a name for its cookie, since browsers send a cookie to every port of a host.
"""

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgflash.errors import UsageError

_log = logging.getLogger(__name__)

SESSION_S = 12 * 3600
SESSIONS_MAX = 1000
TOKEN_MIN = 16
#: A token has at least this many different characters: a repeated word is easily guessed.
TOKEN_DIFFERENT_MIN = 8
#: This many wrong tokens are allowed at once, then one a second.
FREE_TRIES = 5
BODY_MAX_BYTES = 4096

METHODS = ("GET", "HEAD", "POST")

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer, browsers would post our own forms with Origin: null.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

#: Paths that need no token: its form and the health check.
_OPEN = ("/login", "/health")
_STATIC = "/static/"

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for one listening address."""

    #: The names and addresses that Host may have, in lower case; IPv6 in brackets.
    names: frozenset[str]
    #: The digest of the token; None: no token is required.
    token: bytes | None = None
    #: Browsers connect by https to a proxy in front of us.
    https: bool = False


def make_policy(
    address: str, *, token: str = "", names: Iterable[str] = (), https: bool = False
) -> Policy:
    """Return the policy of an address; only on loopback may there be no token."""
    if token and len(token) < TOKEN_MIN:
        raise UsageError(
            f"the token has {len(token)} characters, fewer than {TOKEN_MIN}",
            hint="Make one with: openssl rand -hex 16",
        )
    if token and len(set(token)) < TOKEN_DIFFERENT_MIN:
        raise UsageError(
            f"the token has {len(set(token))} different characters, "
            f"fewer than {TOKEN_DIFFERENT_MIN}",
            hint="Make one with: openssl rand -hex 16",
        )
    if address not in _LOOPBACK and not token:
        raise UsageError(
            f"listening on {address} needs a token, since others can reach it",
            hint="Leave out --no-token, or listen on 127.0.0.1.",
        )
    own = {*names, address, *_LOOPBACK} - {"0.0.0.0", "::", "*"}
    return Policy(
        names=frozenset(_bracketed(name.lower()) for name in own),
        token=digest(token) if token else None,
        https=https,
    )


def _bracketed(name: str) -> str:
    """Return an IPv6 address in brackets, as in Host, and any other name unchanged."""
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name


def _name_of(host: str) -> str:
    """Return the name in Host without the port, which a tunnel or a proxy may change."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() and not host.endswith("]") else host.lower()


def digest(word: str) -> bytes:
    """Return the digest by which tokens and session words are compared."""
    return hashlib.sha256(word.encode("utf-8", "surrogateescape")).digest()


class Doorman:
    """Checks tokens and sessions."""

    def __init__(self, policy: Policy, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Apply a policy."""
        self.policy = policy
        self.cookie = f"pgflash_{secrets.token_hex(4)}"
        self._clock = clock
        self._sessions: dict[bytes, float] = {}
        #: How many wrong tokens were still allowed after the last one.
        self._tries = float(FREE_TRIES)
        self._wrong_s = clock()

    def knows(self, token: str) -> bool:
        """Return whether a token is the right one."""
        assert self.policy.token is not None
        return hmac.compare_digest(digest(token), self.policy.token)

    def may_try_again(self) -> bool:
        """Count a wrong token; return False if there have been too many."""
        _log.warning("a request had a wrong token")
        now_s = self._clock()
        self._tries = min(self._tries + now_s - self._wrong_s, FREE_TRIES)
        self._wrong_s = now_s
        if self._tries < 1.0:
            return False
        self._tries -= 1.0
        return True

    def open_session(self) -> str:
        """Return the secret word of a new session."""
        word = secrets.token_urlsafe(32)
        while len(self._sessions) >= SESSIONS_MAX:
            self._sessions.pop(next(iter(self._sessions)))  # the oldest
        self._sessions[digest(word)] = self._clock() + SESSION_S
        return word

    def has_session(self, word: str) -> bool:
        """Return whether a session is open."""
        ends_s = self._sessions.get(digest(word))
        if ends_s is not None and ends_s <= self._clock():
            del self._sessions[digest(word)]
            return False
        return ends_s is not None

    def close_session(self, word: str) -> None:
        """End a session."""
        self._sessions.pop(digest(word), None)

    def session_word(self, headers: Headers) -> str:
        """Return the session word in a request's cookie, or nothing."""
        for pair in headers.get("cookie", "").split(";"):
            name, _equals, word = pair.strip().partition("=")
            if name == self.cookie:
                return word
        return ""


class Guard:
    """Passes authorized requests on, and adds our headers to every answer."""

    def __init__(self, app: ASGIApp, doorman: Doorman, *, files: Iterable[str] = ()) -> None:
        """Guard an application; answers below the paths FILES have a policy of their own."""
        self._app = app
        self._doorman = doorman
        self._files = tuple(files)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with one sentence."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no WebSockets
            await send({"type": "websocket.close", "code": 1008})
            return

        if self._doorman.policy.https:
            scope["scheme"] = "https"  # where redirects lead

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                own = headers.get("content-security-policy", "")
                for name, value in HEADERS.items():
                    headers[name] = value
                if own and scope["path"].startswith(self._files):
                    headers["content-security-policy"] = own
                if not scope["path"].startswith(_STATIC):
                    headers["cache-control"] = "no-store"
            await send(message)

        refusal = self._refusal(scope)
        answer = self._app if refusal is None else refusal
        await answer(scope, _limited(receive), send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer that refuses a request, or None."""
        headers = Headers(scope=scope)
        method = str(scope["method"])
        if method not in METHODS:
            return _no(
                405, f"Only {', '.join(METHODS)} are supported here.", allow=", ".join(METHODS)
            )
        hosts = headers.getlist("host")
        # An address is allowed: unlike a name, an attacker cannot make it resolve to us.
        # A socket for IPv6 shows an address of IPv4 with this prefix.
        own = str((scope.get("server") or ("",))[0]).lower().removeprefix("::ffff:")
        reached = _bracketed(own)
        names = self._doorman.policy.names | {reached}
        if len(hosts) != 1 or _name_of(hosts[0]) not in names:
            return _no(
                421, "This name is not served here. pgflash serve --allowed-host NAME adds it."
            )
        if _foreign(scope, headers, self._doorman.policy):
            return _no(403, "This request comes from a page of another site.")
        query = bytes(scope.get("query_string", b"")).decode("latin-1")
        if any(
            name.lower() == "token" for name, _value in parse_qsl(query, keep_blank_values=True)
        ):
            return _no(
                400, "A token does not belong in a URL, because URLs are logged. Change it now."
            )
        if _length(headers) > BODY_MAX_BYTES:
            return _no(413, f"More than {BODY_MAX_BYTES} bytes are not read.")
        return self._who(scope, headers)

    def _who(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse a client without token or session; report any other to the Door as known."""
        path = str(scope["path"])
        scheme, _blank, token = headers.get("authorization", "").partition(" ")
        brings_token = scheme.lower() == "bearer"
        word = self._doorman.session_word(headers)
        always = self._doorman.policy.token is None or (
            brings_token and self._doorman.knows(token.strip())
        )
        known = always or self._doorman.has_session(word)
        scope["state"]["know"](known)
        # A stream may outlive the session.
        scope["state"]["is_known"] = lambda: always or self._doorman.has_session(word)
        if known or path in _OPEN or path.startswith(_STATIC):
            return None
        if brings_token:
            if not self._doorman.may_try_again():
                return _no(429, "Too many wrong tokens: wait a second.", **{"retry-after": "1"})
        elif scope["method"] != "POST" and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", status_code=303)
        return _no(
            401,
            "A token is needed, as Authorization: Bearer, or by /login.",
            **{"www-authenticate": 'Bearer realm="pgflash"'},
        )


def _foreign(scope: Scope, headers: Headers, policy: Policy) -> bool:
    """Return whether another site's page sent a request.

    A link to one of our pages is no such request: only the browser's user sees the page.
    """
    origin = headers.get("origin")
    if origin is not None:
        scheme, _colon, host = origin.lower().partition("://")
        if scheme != ("https" if policy.https else "http") or host != headers["host"].lower():
            return True
    site = headers.get("sec-fetch-site", "none")
    if site in ("same-origin", "none"):
        return False
    navigates = headers.get("sec-fetch-mode") == "navigate" and scope["method"] != "POST"
    return not navigates


def _length(headers: Headers) -> int:
    try:
        return int(headers.get("content-length", "0"))
    except ValueError:
        return BODY_MAX_BYTES + 1


def _limited(receive: Receive) -> Receive:
    """Return a receiver that ends a body of undeclared length when it is too long."""
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > BODY_MAX_BYTES:
            return {"type": "http.disconnect"}
        return message

    return limited


def _no(code: int, sentence: str, **headers: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", status_code=code, headers=headers)
