# SPDX-License-Identifier: PostgreSQL
"""What viewers are told when the server has changed: one sentence for each change.

A restart, a promotion, another server behind the same connection string, or an extension that was
added, removed or updated: figures before and after it may not be comparable.
"""

from collections.abc import Iterator

from pgflash.model.live import LiveServer


def changes(before: LiveServer, now: LiveServer) -> Iterator[str]:
    """Yield what has changed since the server was last described."""
    if now.system_identifier != before.system_identifier:
        yield "Another server answers now: what was counted before is not its own."
        return
    if now.started_at != before.started_at:
        yield "The server has restarted, or another of its copies answers: it counts anew."
    if now.version_num != before.version_num:
        yield f"PostgreSQL {_version(now)} answers now, before it was {_version(before)}."
    if now.in_recovery != before.in_recovery:
        yield (
            "The server is a standby now."
            if now.in_recovery
            else "The server was promoted: it is a standby no longer."
        )
    if now.database != before.database:
        yield f'Database "{now.database}" is asked now, before it was "{before.database}".'
    yield from _of_the_extension(before, now)


def _of_the_extension(before: LiveServer, now: LiveServer) -> Iterator[str]:
    then, version = before.extension_version, now.extension_version
    if version and not then:
        yield f"The extension pgflash has come, in version {version}."
    elif then and not version:
        yield "The extension pgflash has gone: only what PostgreSQL itself counts is shown."
    elif then != version:
        yield f"The extension pgflash was changed from version {then} to {version}."
    elif now.schema != before.schema:
        yield "The extension pgflash has moved to another schema."
    if version and then and now.sampler != before.sampler:
        yield "The sampler looks again." if now.sampler else "The sampler looks no longer."


def _version(server: LiveServer) -> str:
    return f"{server.version_num // 10_000}.{server.version_num % 10_000}"
