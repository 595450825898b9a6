# SPDX-License-Identifier: PostgreSQL
"""What pgflash serve watches: one server, several, or a Patroni's."""

import pytest

from pgflash.errors import PgflashError
from pgflash.live.collector import Collector
from pgflash.live.fleet import SERVERS_MAX, LiveFleet
from pgflash.web.serve import to_watch

URL = "http://127.0.0.1:1"


def test_one_server_is_watched_alone_and_several_are_a_fleet() -> None:
    assert isinstance(to_watch([]), Collector)
    assert isinstance(to_watch(["dbname=app"]), Collector)
    assert isinstance(to_watch(["host=a", "host=b"]), LiveFleet)
    assert isinstance(to_watch([], patroni=[URL]), LiveFleet)
    assert isinstance(to_watch(["dbname=app"], patroni=[URL]), LiveFleet)


@pytest.mark.parametrize(
    ("dsns", "urls", "why"),
    [
        (["host=a", "host=b"], [URL], "with --patroni, --dsn is given once"),
        (["nonsense=1"], [], "the connection string is wrong"),
        (["nonsense=1"], [URL], "the connection string is wrong"),
        ([], ["http://me:secret@db1:8008"], "visible to all users"),
        (["host=a"] * (SERVERS_MAX + 1), [], "33 servers are more than 32"),
    ],
)
def test_what_can_never_be_watched_is_refused_at_the_start(
    dsns: list[str], urls: list[str], why: str
) -> None:
    with pytest.raises(PgflashError, match=why):
        to_watch(dsns, patroni=urls)
