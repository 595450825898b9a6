"""PostgreSQL's own regression and isolation tests give the same results with the cache on.

They need a source tree of the server's major, so they only run by
`make postgres-check PG_SRC=DIR`.  Each suite runs twice against like servers, without and
with the extension (small buffers, every hit verified), and the lists of passed tests are
compared.  The tree may be of another minor release, or of a server built with other
options: a test that fails without the cache, too, says nothing about the cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server
from support.cached import assert_never_stale, create_cached
from support.cluster import ClusterFactory

pytestmark = [pytest.mark.postgres_check, pytest.mark.timeout(3600)]

#: Small enough that nearly every block is read again and again, large enough for the
#: twenty sessions that a group of the regression tests has.  The isolation tests have few
#: sessions and tiny tables.  With that, how many hits must have been compared.
SUITES = {"regress": ("4MB", 10_000), "isolation": ("1MB", 2_000)}

#: A line of a result: "test name ... ok 12 ms" up to PostgreSQL 15, TAP since 16.
RESULT = re.compile(
    r"^(?:(?P<tap>not ok|ok) +\d+ +[-+] (?P<tap_name>\S+)"
    r"|(?:test|parallel group|) *(?P<name>\S+) +\.\.\. (?P<word>ok|FAILED)\b)",
    re.M,
)


def passed_tests(printed: str) -> dict[str, bool]:
    """Return for each test that a suite printed whether it passed."""
    return {
        found["tap_name"] or found["name"]: (found["tap"] or found["word"]) == "ok"
        for found in RESULT.finditer(printed)
    }


def test_both_kinds_of_output_are_understood() -> None:
    old = (
        "test test_setup                   ... ok          312 ms\n"
        "parallel group (2 tests):  int4 char\n"
        "     char                         ... ok          101 ms\n"
        "     int4                         ... FAILED       99 ms\n"
    )
    new = "ok 1         - test_setup      312 ms\nnot ok 2     + int4     99 ms\n# a remark\n"
    assert passed_tests(old) == {"test_setup": True, "char": True, "int4": False}
    assert passed_tests(new) == {"test_setup": True, "int4": False}


@pytest.fixture
def source(request: pytest.FixtureRequest, pg_install: PgInstall) -> Path:
    """Return the source tree, if it is one of the server's major."""
    named = request.config.getoption("--pg-src")
    if not named:
        pytest.skip("needs a source tree: make postgres-check PG_SRC=DIR")
    source = Path(named)
    found = re.search(r"PACKAGE_VERSION='(\d+)", (source / "configure").read_text())
    assert found is not None, f"{source} is no PostgreSQL source tree"
    assert int(found[1]) == pg_install.major, (
        f"{source} is PostgreSQL {found[1]}, the server is {pg_install.version}: "
        f"make postgres-check PG_SRC={source} PG={found[1]}"
    )
    return source


def run_suite(server: Server, source: Path, suite: str) -> dict[str, bool]:
    """Run a suite against a server; return for each test whether it passed."""
    # Some tests name the database, so it cannot be any.
    driver, schedule, database = {
        "regress": ("pg_regress", "parallel_schedule", "regression"),
        "isolation": ("pg_isolation_regress", "isolation_schedule", "isolation_regression"),
    }[suite]
    work = server.base / suite
    shutil.copytree(source / "src" / "test" / suite, work)
    if suite == "regress":
        build_regress_library(server.install, work)
    if server.account is not None:
        owner = f"{server.account.uid}:{server.account.gid}"
        subprocess.run(["chown", "-R", owner, work], check=True)
    pgxs = Path(
        subprocess.run(
            [server.install.pg_config, "--pgxs"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    done = server.run(
        [
            pgxs.parents[1] / "test" / suite / driver,
            f"--inputdir={work}",
            f"--outputdir={work}",
            f"--dlpath={work}",
            f"--bindir={server.install.bindir}",
            f"--schedule={work / schedule}",
            f"--host={server.socket_dir}",
            "--user=postgres",
            f"--dbname={database}",
        ],
        cwd=work,
        check=False,
    )
    results = passed_tests(done.stdout)
    assert len(results) > 80, f"{driver} ran {len(results)} tests:\n{done.stdout}\n{done.stderr}"
    return results


def build_regress_library(install: PgInstall, work: Path) -> None:
    """Compile the C functions that the regression tests call."""
    subprocess.run(
        [
            *("gcc", "-O1", "-fPIC", "-shared", "-w", f"-I{install.includedir_server}"),
            *(f"-I{work}", "-o", work / "regress.so", work / "regress.c"),
        ],
        check=True,
    )


@pytest.mark.parametrize("suite", SUITES)
def test_the_same_tests_pass_with_the_cache_and_without(
    cluster: ClusterFactory, pgflash_install: PgInstall, source: Path, suite: str
) -> None:
    shared_buffers, compared_min = SUITES[suite]
    settings = {"shared_buffers": shared_buffers}
    plain = cluster(install=pgflash_install, settings=settings)
    without = run_suite(plain, source, suite)
    plain.stop()

    cached = create_cached(cluster, pgflash_install, settings=settings)
    with_cache = run_suite(cached.server, source, suite)
    assert_never_stale(cached, compared_min=compared_min)

    report(cached.server, source, suite, with_cache)
    assert {name for name, passed in without.items() if passed} <= {
        name for name, passed in with_cache.items() if passed
    }
    assert without.keys() == with_cache.keys()
    # A suite that mostly fails without the cache proves nothing with it.
    assert sum(without.values()) >= 0.9 * len(without), sorted(
        name for name, passed in without.items() if not passed
    )


def report(server: Server, source: Path, suite: str, results: dict[str, bool]) -> None:
    """Keep the differences where they can be read after the server's folder is gone."""
    out = Path(os.environ.get("PGFLASH_OUT", "out")) / "postgres-check"
    out.mkdir(parents=True, exist_ok=True)
    failed = sorted(name for name, passed in results.items() if not passed)
    summary = f"{suite} of {source.name}: {len(results) - len(failed)} passed, failed: {failed}\n"
    (out / f"{suite}.txt").write_text(summary)
    diffs = server.base / suite / "regression.diffs"
    if diffs.exists():
        shutil.copy(diffs, out / f"{suite}.diffs")
