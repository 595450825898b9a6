# SPDX-License-Identifier: PostgreSQL
"""Where several servers are: what the user named, or what Patroni lists; and what they all say.

A NamedServer says how one server is connected to, or why it is not.  The rules about what may be
sent to a server that Patroni names are those of member.py.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pgflash.collect.member import is_host, member_dsn, read_member
from pgflash.model.fleet import PatroniMember, ServerFacts
from pgflash.session import parse_dsn

#: Servers that are asked at the same time.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedServer:
    """A server, and how it is connected to."""

    name: str
    #: For people.
    address: str
    #: None: it is not connected to, and `problem` says why.  It may hold a password.
    dsn: str | None = field(repr=False)
    problem: str = ""


def named_servers(dsns: Sequence[str]) -> list[NamedServer]:
    """Return the servers of connection strings, named after their addresses."""
    addresses = [_address_in(one) for one in dsns]
    return [
        NamedServer(name=name, address=address, dsn=dsn)
        for name, address, dsn in zip(distinct(addresses), addresses, dsns, strict=True)
    ]


def patroni_server(member: PatroniMember, dsn: str | None) -> NamedServer:
    """Return the server of a member; DSN has database and role."""
    host, port = member.host, member.port
    if not host or not port:
        problem = "Patroni does not know the address of its server"
    elif not is_host(host):
        problem = "the address that Patroni has is not one of a host"
    else:
        problem = ""
    shown = f"[{host}]" if ":" in host else host
    return NamedServer(
        name=member.name,
        address=f"{shown}:{port}" if host else "",
        dsn=None if problem else member_dsn(dsn, host, port),
        problem=problem,
    )


def read_servers(servers: Sequence[NamedServer]) -> list[ServerFacts]:
    """Return what servers say of themselves, asked at the same time."""

    def read(one: NamedServer) -> ServerFacts:
        return ServerFacts(problem=one.problem) if one.dsn is None else read_member(one.dsn)

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(pool.map(read, servers))


def distinct(names: Sequence[str]) -> list[str]:
    """Return names of which no two are the same, by numbers behind the later ones."""
    found: list[str] = []
    for name in names:
        number = 2
        one = name
        while one in found:
            one, number = f"{name} ({number})", number + 1
        found.append(one)
    return found


def _address_in(dsn: str) -> str:
    """Return where a connection string leads, as far as it says so."""
    parts = parse_dsn(dsn)
    if "host" not in parts and "hostaddr" not in parts:
        return str(parts.get("service") or "local")
    host = str(parts.get("host") or parts["hostaddr"])
    return f"{host}:{parts['port']}" if "port" in parts else host
