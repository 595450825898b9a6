# SPDX-License-Identifier: PostgreSQL
"""Fixtures for all tests: PostgreSQL installations and private servers.

`--pg-major` (or PG in the environment) picks the server, by a name of tools/pg.py.  Tests of the
extension bear the mark `extension` and are repeated on every major that is available.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import pg
from pgflash import session
from pgflash.api import fleets
from pgflash.collect import live, member
from pgflash.live import collector
from pgflash_lab.postgres import PgInstall
from support import plausible
from support.cluster import ClusterFactory, build_install, find_install, forget_used_data
from support.patience import PATIENCE_S
from support.turns import Turns, turn

if TYPE_CHECKING:
    from xdist.remote import Producer  # type: ignore[import-untyped]

# A server is given some seconds to answer; more here, so that a busy machine loses none.
live.STATEMENT_TIMEOUT_MS = int(PATIENCE_S * 1000)
member.STATEMENT_TIMEOUT_MS = live.STATEMENT_TIMEOUT_MS
session.CONNECT_TIMEOUT_S = member.CONNECT_TIMEOUT_S = int(PATIENCE_S)
collector.LATE_S = fleets.RELOAD_WAIT_S = PATIENCE_S

# No report, advice or sample of a test may contain an impossible value.
plausible.hold_all()

# Tests ignore the file of defaults of the user who runs them.
os.environ["PGFLASH_CONFIG"] = ""

# On a busy machine the duration of an example means nothing.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

_failed = pytest.StashKey[bool]()

# A background shell makes the tests ignore Ctrl-C, and also the programs that they start and
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pg-major",
        choices=pg.NAMES,
        default=os.environ.get("PG") or "18",
        help="the PostgreSQL to test against",
    )
    parser.addoption(
        "--no-controls", action="store_true", help="leave out what breaks pgflash on purpose"
    )
    parser.addoption("--pg-src", default="", help="a PostgreSQL source tree, for its own tests")
    parser.addoption("--pg-tap", default="", help="of its TAP scripts those whose name has this")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> Turns | None:
    """Use the order of turns where tests are distributed by file."""
    return Turns(config, log) if config.getoption("dist") == "loadfile" else None


def _fault_of(item: pytest.Item) -> str:
    """Return the mechanism that a test omits, or an empty string."""
    return item.callspec.params.get("fault", "") if hasattr(item, "callspec") else ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Omit negative controls (--no-controls); put a worker's tests in the order of turns.

    A negative control is a test whose parameter `fault` names an omitted mechanism.
    """
    if config.getoption("--no-controls"):
        controls = [item for item in items if _fault_of(item)]
        config.hook.pytest_deselected(items=controls)
        items[:] = [item for item in items if not _fault_of(item)]
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: turn(item.nodeid))


@pytest.fixture(autouse=True)
def nothing_impossible() -> Iterator[None]:
    """Fail a test in which something impossible was made, also where a thread went on."""
    yield
    found, plausible.wrong[:] = plausible.wrong[:], []
    assert not found


def pytest_sessionfinish() -> None:
    """Remove what one test left to the next."""
    forget_used_data()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the reasons for skips to the file PGFLASH_SKIPS, for the summary of make test."""
    named = os.environ.get("PGFLASH_SKIPS")
    skips = terminalreporter.stats.get("skipped", [])
    if not named or not skips:
        return
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skips)
    major = terminalreporter.config.getoption("--pg-major")
    with Path(named).open("a") as file:
        for reason, count in sorted(reasons.items()):
            file.write(f"skipped {count} on PostgreSQL {major}: {reason}\n")


@pytest.fixture(scope="session")
def pg_install(request: pytest.FixtureRequest) -> PgInstall:
    """Return the PostgreSQL installation under test, without the extension."""
    return find_install(request.config.getoption("--pg-major"))


@pytest.fixture(scope="session")
def pgflash_install(pg_install: PgInstall) -> PgInstall:
    """Return a private copy of the installation with the extension in it."""
    return build_install(pg_install, assertions=True)


@pytest.fixture(scope="session")
def broken_install(pg_install: PgInstall, pgflash_install: PgInstall) -> Callable[[str], PgInstall]:
    """Return private copies with one deliberate fault each, for negative controls.

    They are built after the sound one, with which they share all objects without a fault.
    """
    assert pgflash_install.major == pg_install.major
    return cache(lambda fault: build_install(pg_install, assertions=True, fault=fault))


@pytest.fixture
def cluster(request: pytest.FixtureRequest, pg_install: PgInstall) -> Iterator[ClusterFactory]:
    """Return a factory of private servers that end with the test."""
    factory = ClusterFactory(pg_install)
    yield factory
    if request.node.stash.get(_failed, False):
        print(factory.log_tails())  # noqa: T201 - pytest shows it with the failure
    factory.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell the `cluster` fixture whether its test failed."""
    report = yield
    if call.when == "call" and report.failed:
        item.stash[_failed] = True
    return report
