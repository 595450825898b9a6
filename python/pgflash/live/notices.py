# SPDX-License-Identifier: PostgreSQL
"""What viewers are told when the server has changed: one sentence for each change.

A change is a restart, a promotion, another server behind the same connection string, or an
extension that was created, dropped or updated.  Figures before and after it may not be comparable.
"""

from collections.abc import Iterator

from pgflash.model.live import LiveServer


def changes(before: LiveServer, now: LiveServer) -> Iterator[str]:
    """Yield a sentence for each difference between two descriptions of a server."""
    if now.system_identifier != before.system_identifier:
        yield "Another server answers now: earlier counts belong to a different one."
        return
    if now.started_at != before.started_at:
        yield "The server restarted, or another copy of it answers: counts start at 0."
    if now.version_num != before.version_num:
        yield f"The server changed from PostgreSQL {_version(before)} to {_version(now)}."
    if now.in_recovery != before.in_recovery:
        yield (
            "The server is a standby now."
            if now.in_recovery
            else "The server was promoted and is no longer a standby."
        )
    if now.database != before.database:
        yield f'The database was "{before.database}" and is "{now.database}" now.'
    yield from _of_the_extension(before, now)


def _of_the_extension(before: LiveServer, now: LiveServer) -> Iterator[str]:
    then, version = before.extension_version, now.extension_version
    if version and not then:
        yield f"Extension pgflash {version} was installed."
    elif then and not version:
        yield "Extension pgflash was dropped: only PostgreSQL's own statistics are shown."
    elif then != version:
        yield f"Extension pgflash was updated from {then} to {version}."
    elif now.schema != before.schema:
        yield "Extension pgflash was moved to another schema."
    if version and then and now.sampler != before.sampler:
        yield "The sampler was started." if now.sampler else "The sampler was stopped."


def _version(server: LiveServer) -> str:
    return f"{server.version_num // 10_000}.{server.version_num % 10_000}"
