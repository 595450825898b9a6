# SPDX-License-Identifier: PostgreSQL
"""PostgreSQL's own regression, isolation and TAP tests give the same results with the cache on.

They need a source tree of the server's major, so they only run by
`make postgres-check PG_SRC=DIR`.  Each suite runs twice against like servers, without and
with the extension (small buffers, every hit verified), and the lists of passed tests are
compared.  The tree may be of another minor release, or of a server built with other
options: a test that fails without the cache, too, must print the same with it.  The results are
written to out/postgres-check, and make shows them.

The TAP suites (tests/support/tap.py) make their own servers, hundreds of them: standbys,
restored, rewound and upgraded ones.  They need Perl's IPC::Run.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from pgflash_lab.account import reachable_install
from pgflash_lab.leftovers import remove_tree
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import assert_never_stale, create_cached
from support.cluster import ClusterFactory
from support.tap import (
    Outcome,
    TapSuites,
    build_regress_library,
    end_leftovers,
    has_perl_modules,
)

pytestmark = [pytest.mark.postgres_check, pytest.mark.timeout(3600)]

#: Small enough that nearly every block is read again and again, large enough for the
#: twenty sessions that a group of the regression tests has.  The isolation tests have few
#: sessions and tiny tables.  And the least number of hits that must have been compared.
SUITES = {"regress": ("4MB", 10_000), "isolation": ("1MB", 2_000)}

#: The settings of pg_regress for its own server; and scans that begin at a table's beginning,
#: since the tests take for granted that their tables are small beside shared_buffers; and
#: that there are background workers for parallel queries, of which pgflash takes some.
SETTINGS = {
    "max_prepared_transactions": "2",
    "synchronize_seqscans": "off",
    "max_worker_processes": "16",
}

#: Of the TAP suites, one that reads what it has written.
CONTROL_SCRIPT = "recovery/008_fsm_truncation.pl"

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


@pytest.mark.parametrize("suite", SUITES)
def test_the_same_tests_pass_with_the_cache_and_without(
    cluster: ClusterFactory, pgflash_install: PgInstall, source: Path, suite: str
) -> None:
    shared_buffers, compared_min = SUITES[suite]
    settings = {**SETTINGS, "shared_buffers": shared_buffers}
    plain = cluster(install=pgflash_install, settings=settings)
    without = run_suite(plain, source, suite)
    plain.stop()

    cached = create_cached(cluster, pgflash_install, settings=settings)
    with_cache = run_suite(cached.server, source, suite)
    failed_in_both = {
        name for name, passed in without.items() if not passed and not with_cache.get(name)
    }
    unlike = {
        name
        for name in failed_in_both
        if printed_by(plain, suite, name) != printed_by(cached.server, suite, name)
    }
    keep_differences(plain, suite, "without")
    keep_differences(cached.server, suite, "with")
    compared, mismatched = cached.verify()
    view = cached.view()
    write_table(
        suite,
        {
            "sources, server": f"{source.name}, {pgflash_install.version}",
            "tests passed without the cache": sum(without.values()),
            "tests passed with the cache": sum(with_cache.values()),
            "failed only with the cache": names(
                name for name, passed in without.items() if passed and not with_cache.get(name)
            ),
            "failed in both, printing the same": names(failed_in_both - unlike),
            "failed in both, printing other things": names(unlike),
            "hits, each compared with its file": f"{view['hits']:,}",
            "misses": f"{view['misses']:,}",
            "changes announced": f"{view['invalidations']:,}",
            "blocks cached at the end, compared": f"{compared:,}",
            "stale": view["verify_mismatches"] + mismatched,
            "mode": f"{view['mode']} ({view['mode_reason']})",
        },
    )
    assert_never_stale(cached, compared_min=compared_min)
    assert not unlike
    assert {name for name, passed in without.items() if passed} <= {
        name for name, passed in with_cache.items() if passed
    }
    assert without.keys() == with_cache.keys()
    # A suite that mostly fails without the cache proves nothing with it.
    assert sum(without.values()) >= 0.9 * len(without), sorted(
        name for name, passed in without.items() if not passed
    )


@pytest.fixture
def work(pgflash_install: PgInstall) -> Iterator[Path]:
    """Return a folder that the server's user can enter, for the TAP suites."""
    assert has_perl_modules(), "the TAP suites need Perl's IPC::Run (Debian: libipc-run-perl)"
    folder = Path(tempfile.mkdtemp(prefix="pgflash-tap-"))
    folder.chmod(0o755)
    yield folder
    end_leftovers(folder)
    remove_tree(folder)


def run_tap(
    install: PgInstall, source: Path, folder: Path, *, cached: bool, only: str
) -> dict[str, Outcome]:
    """Run the TAP suites; keep what failed."""
    suites = TapSuites(source, install, folder, cached=cached)
    outcomes = suites.run(
        [name for name in suites.scripts() if only in name], jobs=os.cpu_count() or 1
    )
    for name, outcome in outcomes.items():
        if outcome.ended in {"failed", "hung"}:
            suites.keep(name, out_folder() / ("with" if cached else "without"))
    return outcomes


@pytest.mark.timeout(8 * 3600)
def test_the_tap_suites_say_the_same_with_the_cache_and_without(
    request: pytest.FixtureRequest,
    pg_install: PgInstall,
    pgflash_install: PgInstall,
    source: Path,
    work: Path,
) -> None:
    only = request.config.getoption("--pg-tap")
    plain = reachable_install(pg_install)
    without = run_tap(plain, source, work / "without", cached=False, only=only)
    own = pgflash_install.copy_to(work / "pg")
    with_cache = run_tap(own, source, work / "with", cached=True, only=only)
    unlike = {
        name for name, outcome in without.items() if with_cache[name].says() != outcome.says()
    }
    ended = [outcome.ended.split(":")[0] for outcome in without.values()]
    write_table(
        "tap",
        {
            "sources, server": f"{source.name}, {pgflash_install.version}",
            "scripts": len(without),
            "passed without the cache": ended.count("passed"),
            "skipped without the cache": ended.count("skipped"),
            "tests passed without the cache": sum(one.passed for one in without.values()),
            "tests passed with the cache": sum(one.passed for one in with_cache.values()),
            "unlike with the cache": names(unlike),
            "failed in both, alike": names(
                name
                for name, outcome in without.items()
                if outcome.ended in {"failed", "hung"} and name not in unlike
            ),
            "servers with a cache": sum(one.served for one in with_cache.values()),
            "stale": sum(one.stale for one in with_cache.values()),
        },
    )
    assert not unlike, {name: (without[name], with_cache[name]) for name in unlike}
    assert not any(one.stale for one in with_cache.values())
    # A test that was skipped, or hung, proves nothing.
    assert ended.count("passed") >= 0.8 * len(ended)
    assert all(
        one.served for one in with_cache.values() if one.ended == "passed" and one.passed > 20
    )


def test_the_tap_suites_would_show_a_stale_block(
    pgflash_install: PgInstall,
    broken_install: Callable[[str], PgInstall],
    source: Path,
    work: Path,
) -> None:
    """A library that forgets to announce writes serves blocks that the file no longer has."""
    assert pgflash_install.major == broken_install("WRITE").major
    own = broken_install("WRITE").copy_to(work / "pg")
    suites = TapSuites(source, own, work / "broken", cached=True)
    outcomes = suites.run([CONTROL_SCRIPT], jobs=1)
    assert outcomes[CONTROL_SCRIPT].stale > 0


def printed_by(server: Server, suite: str, name: str) -> bytes | None:
    """Return what a test printed, without the name of the folder it ran in."""
    work = server.base / suite
    found = [
        path
        for folder in ("results", "output_iso/results")
        if (path := work / folder / f"{name}.out").exists()
    ]
    return found[0].read_bytes().replace(bytes(work), b"") if found else None


def out_folder() -> Path:
    """Return where results are kept when the servers' folders are gone."""
    out = Path(os.environ.get("PGFLASH_OUT", "out")) / "postgres-check"
    out.mkdir(parents=True, exist_ok=True)
    return out


def names(listed: Iterable[str]) -> str:
    """Return names in a line."""
    return ", ".join(sorted(listed)) or "none"


def write_table(suite: str, lines: Mapping[str, object]) -> None:
    """Write the results of a suite."""
    text = "".join(f"  {what:40}{value}\n" for what, value in lines.items())
    (out_folder() / f"{suite}.txt").write_text(f"{suite}\n{text}")


def keep_differences(server: Server, suite: str, which: str) -> None:
    """Keep the differences from what PostgreSQL expects."""
    kept = out_folder() / f"{suite}-{which}.diffs"
    kept.unlink(missing_ok=True)
    for folder in ("", "output_iso"):
        diffs = server.base / suite / folder / "regression.diffs"
        if diffs.exists():
            shutil.copy(diffs, kept)
