#!/usr/bin/env python3
"""Run PostgreSQL's own tests with the flash cache on: make postgres-check PG_SRC=DIR.

    tools/postgres_check.py SOURCE [--pg-config PATH] [--suite regress|isolation]

SOURCE is a source tree of PostgreSQL, of any minor version of a major that can be had
(tools/pg.py) or is named; of it only the tests are used.  Each suite runs twice against
private servers with the same settings and small buffers: without the extension, and with
a cache whose every hit is compared with the file.  The second server runs under the device
emulator, delays off, so that the page cache of this machine does not answer instead.

It passes (exit code 0) if the same tests pass in both, many hits were compared and none
was wrong, every cached block equals its file at the end, and the cache still serves.  What
fails without the extension, too (a test may not like this machine, or another minor
version) is shown; if it failed in the same way, by its output, it is not held against it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pg
from pgflash.errors import PgflashError, UsageError
from pgflash.lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server, make_server_dir, reachable_dir, server_account

REPOSITORY = Path(__file__).resolve().parent.parent

#: What pg_regress asks of a server that it did not make, and buffers as small as its
#: twenty sessions can do with.
SETTINGS = {
    "shared_buffers": "4MB",
    "fsync": "off",
    "max_prepared_transactions": "2",
    "max_connections": "60",
    # Otherwise a scan begins where another one is, and rows come in another order: the
    # tests take for granted that their tables are small beside shared_buffers.
    "synchronize_seqscans": "off",
}

CACHE_SIZE = "512MB"

#: Hits without which a suite has not asked the cache enough to prove anything.
COMPARED_MIN = {"regress": 20_000, "isolation": 1_000}

#: How long a suite may take.
SUITE_WAIT_S = 3600.0

# "test boolean  ... ok   102 ms" or "     boolean ... FAILED", up to 15 with and without
# the word; from 16 on "ok 2   + boolean   102 ms" or "not ok 2 ...".
_RESULT_15 = re.compile(r"^(?:test )?\s*(\S+)\s+\.\.\. (ok|FAILED|failed \(ignored\))")
_RESULT_16 = re.compile(r"^(not ok|ok) \d+\s+[-+] (\S+)")


class CheckError(PgflashError):
    """The suites could not be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One of PostgreSQL's suites, ready to be run."""

    name: str
    #: Its program, below the installation's PGXS folder, and its folder in the sources.
    program: str
    folder: str
    schedule: str
    arguments: tuple[str, ...] = ()


SUITES = (
    Suite(
        name="regress",
        program="src/test/regress/pg_regress",
        folder="src/test/regress",
        schedule="parallel_schedule",
        arguments=("--max-concurrent-tests=20",),
    ),
    Suite(
        name="isolation",
        program="src/test/isolation/pg_isolation_regress",
        folder="src/test/isolation",
        schedule="isolation_schedule",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a suite did on one server."""

    passed: frozenset[str]
    failed: frozenset[str]
    output: Path
    #: The row of pgflash_cache, and what comparing every cached block said; None without.
    cache: Mapping[str, Any] | None = None
    verified: tuple[int, int] = (0, 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suites, print the table, and say by the exit code whether all is well."""
    parser = argparse.ArgumentParser(
        prog="tools/postgres_check.py",
        description="Run PostgreSQL's own tests without the flash cache and with it.",
    )
    parser.add_argument("source", type=Path, help="a source tree of PostgreSQL")
    parser.add_argument("--pg-config", type=Path, help="the installation (default: tools/pg.py)")
    parser.add_argument("--suite", choices=[suite.name for suite in SUITES], action="append")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "out" / "postgres-check")
    options = parser.parse_args(argv)
    try:
        return _check(options)
    except (PgflashError, pg.UnavailableError) as error:
        print(f"tools/postgres_check.py: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, PgflashError) else pg.EXIT_UNAVAILABLE


def _check(options: argparse.Namespace) -> int:
    source: Path = options.source.absolute()
    version = source_version(source)
    stock = PgInstall.from_pg_config(
        options.pg_config or pg.find_or_fetch(int(re.sub(r"\D.*", "", version)))
    )
    if not version.startswith(str(stock.major)):
        raise UsageError(f"the sources are of PostgreSQL {version}, the server is {stock.version}")
    install = with_extension(stock)
    base = Path(tempfile.mkdtemp(prefix="pgflash-check-"))
    base.chmod(0o755)
    good = True
    try:
        for suite in SUITES:
            if options.suite and suite.name not in options.suite:
                continue
            print(f"{suite.name} of PostgreSQL {version} on {install.version} ...", flush=True)
            runner = Runner(install=install, source=source, suite=suite, base=base)
            plain, cached = runner.run(cached=False), runner.run(cached=True)
            good &= report(suite, plain, cached)
            keep_outputs(options.out / suite.name, plain, cached)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"Outputs are in {options.out}.")
    print("postgres-check passed" if good else "postgres-check FAILED")
    return 0 if good else 1


def source_version(source: Path) -> str:
    """Return the version that a source tree says it is of."""
    try:
        text = (source / "configure").read_text(errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^PACKAGE_VERSION='([^']+)'", text, re.M)
    if found is None:
        raise UsageError(
            f"{source} does not look like a source tree of PostgreSQL",
            hint="Name its top folder: make postgres-check PG_SRC=DIR.",
        )
    return found[1]


def with_extension(stock: PgInstall) -> PgInstall:
    """Return a private copy of the installation with the extension just built in it."""
    install = stock.copy_to(reachable_dir(REPOSITORY / "build" / "pg") / stock.version)
    done = subprocess.run(
        [
            *("make", "--no-print-directory", "-C", REPOSITORY / "extension", "install"),
            f"PG_CONFIG={install.pg_config}",
            f"BUILD={REPOSITORY / 'build' / 'extension' / stock.version}",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )
    if done.returncode != 0:
        raise CheckError(f"the extension does not build:\n{done.stdout}{done.stderr}")
    return install


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs one suite against new servers."""

    install: PgInstall
    source: Path
    suite: Suite
    base: Path

    def run(self, *, cached: bool) -> Outcome:
        """Run the suite with or without the cache."""
        base = self.base / f"{self.suite.name}-{'cached' if cached else 'plain'}"
        with Server.create(self.install, base, settings=SETTINGS) as server:
            output = base / "output"
            start(server, cached=cached)
            passed, failed = self._run_schedule(server, output)
            if cached:
                with server.connect() as connection:
                    connection.execute("create extension if not exists pgflash")
                return Outcome(
                    passed=passed,
                    failed=failed,
                    output=output,
                    cache=cache_view(server),
                    verified=verify(server),
                )
            return Outcome(passed=passed, failed=failed, output=output)

    def _run_schedule(self, server: Server, output: Path) -> tuple[frozenset[str], frozenset[str]]:
        """Run the suite's schedule and return what passed and what failed."""
        make_server_dir(output)
        inputs = self._copy_inputs(output)
        done = server.run(
            [
                self._program(),
                f"--inputdir={inputs}",
                f"--outputdir={output}",
                f"--bindir={self.install.bindir}",
                f"--dlpath={self._libraries(output)}",
                f"--host={server.socket_dir}",
                "--user=postgres",
                *self.suite.arguments,
                f"--schedule={inputs / self.suite.schedule}",
            ],
            check=False,
            cwd=output,
            timeout_s=SUITE_WAIT_S,
        )
        (output / "pg_regress.out").write_text(done.stdout + done.stderr)
        passed, failed = parse_results(done.stdout)
        if not passed:
            raise CheckError(f"{self._program()} ran no test:\n{done.stdout}{done.stderr}")
        return passed, failed

    def _program(self) -> Path:
        """Return the suite's driver, which packages keep beside PGXS."""
        done = subprocess.run(
            [self.install.pg_config, "--pgxs"], capture_output=True, text=True, check=True
        )
        # .../pgxs/src/makefiles/pgxs.mk
        program = Path(done.stdout.strip()).parents[2] / self.suite.program
        if not program.exists():
            raise CheckError(f"PostgreSQL {self.install.version} has no {program}")
        return program

    def _copy_inputs(self, output: Path) -> Path:
        """Copy the tests to where the server's user can read them."""
        inputs = output / "inputs"
        subprocess.run(["cp", "-rT", self.source / self.suite.folder, inputs], check=True)
        subprocess.run(["chmod", "-R", "a+rX", inputs], check=True)
        return inputs

    def _libraries(self, output: Path) -> Path:
        """Build or copy the libraries that the tests load."""
        folder = output / "lib"
        folder.mkdir()
        folder.chmod(0o755)
        sources = {"regress": "src/test/regress"}
        sources |= {"autoinc": "contrib/spi", "refint": "contrib/spi"}
        for name, place in sources.items():
            ready = self.install.pkglibdir / f"{name}.so"
            if ready.exists():
                shutil.copy(ready, folder)
                continue
            subprocess.run(
                [
                    *("gcc", "-std=gnu11", "-O2", "-w", "-fPIC", "-shared"),
                    *("-fno-strict-aliasing", "-fwrapv"),
                    f"-I{self.install.includedir_server}",
                    *("-o", folder / f"{name}.so", self.source / place / f"{name}.c"),
                ],
                check=True,
            )
        return folder


def start(server: Server, *, cached: bool) -> None:
    """Start a server, with a cache whose every hit is verified or without the extension."""
    if not cached:
        server.start()
        return
    flash = make_server_dir(server.base / "flash")
    account = server_account()
    emulator = Emulator.create(
        server.base / "emulator.state",
        devices=[
            EmulatedDevice(
                name="disk",
                profile=DeviceProfile.named("sas15k-raid10-6"),
                paths=(server.data,),
            )
        ],
        owner=account.uid if account is not None else None,
        delays_on=False,
    )
    server.configure(
        {
            "shared_preload_libraries": "pgflash",
            "pgflash.cache_file": str(flash / "cache"),
            "pgflash.cache_size": CACHE_SIZE,
            "pgflash.verify": "all",
        }
    )
    server.start(emulator.env)


def cache_view(server: Server) -> Mapping[str, Any]:
    """Return the row of pgflash_cache."""
    with server.connect() as connection:
        cursor = connection.execute("select * from pgflash_cache")
        row = cursor.fetchone()
        assert row is not None
        assert cursor.description is not None
        names = [column.name for column in cursor.description]
        return dict(zip(names, row, strict=True))


def verify(server: Server) -> tuple[int, int]:
    """Compare every cached block with its file: (compared, mismatched)."""
    with server.connect() as connection:
        row = connection.execute(
            "select compared, mismatched from pgflash_cache_verify()"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def parse_results(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return which tests passed and which failed, by pg_regress's own words."""
    passed: set[str] = set()
    failed: set[str] = set()
    for line in text.splitlines():
        if found := _RESULT_16.match(line):
            (passed if found[1] == "ok" else failed).add(found[2])
        elif found := _RESULT_15.match(line):
            (passed if found[2] == "ok" else failed).add(found[1])
    return frozenset(passed), frozenset(failed)


def report(suite: Suite, plain: Outcome, cached: Outcome) -> bool:
    """Print what came out of a suite; say whether it is as it should be."""
    view = cached.cache
    assert view is not None
    failed_in_both = plain.failed & cached.failed
    unlike = frozenset(name for name in failed_in_both if not same_result(name, plain, cached))
    compared, mismatched = cached.verified
    lines = {
        "tests passed, without the cache": len(plain.passed),
        "tests passed, with the cache": len(cached.passed),
        "failed in both, with the same output": _names(failed_in_both - unlike),
        "failed in both, not in the same way": _names(unlike),
        "failed only without": _names(plain.failed - cached.failed),
        "failed only with": _names(cached.failed - plain.failed),
        "hits, each compared with its file": f"{view['hits']:,}",
        "hits that differed": view["verify_mismatches"],
        "misses": f"{view['misses']:,}",
        "changes announced": f"{view['invalidations']:,}",
        "cached at the end, compared": f"{compared:,}",
        "of these differed": mismatched,
        "mode at the end": f"{view['mode']} ({view['mode_reason']})",
    }
    for what, value in lines.items():
        print(f"  {what:38}{value}")
    problems = [
        problem
        for problem, there in {
            "a test passes only without the cache": cached.failed - plain.failed,
            "a test fails in another way with the cache": unlike,
            "tests are missing": plain.passed - cached.passed - cached.failed,
            "stale blocks": view["verify_mismatches"] or mismatched,
            f"fewer than {COMPARED_MIN[suite.name]:,} hits": view["hits"]
            < COMPARED_MIN[suite.name],
            "the cache gave up": view["mode"] != "serve",
        }.items()
        if there
    ]
    print(f"  {'verdict':38}{'; '.join(problems) or 'good'}", flush=True)
    return not problems


def same_result(name: str, plain: Outcome, cached: Outcome) -> bool:
    """Say whether a test printed the same on both servers, but for the folder's name."""
    texts = []
    for outcome in (plain, cached):
        found = list(outcome.output.glob(f"*results/{name}.out")) or list(
            outcome.output.glob(f"*/results/{name}.out")
        )
        texts.append(found[0].read_bytes().replace(bytes(outcome.output), b"") if found else None)
    return texts[0] is not None and texts[0] == texts[1]


def _names(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def keep_outputs(folder: Path, plain: Outcome, cached: Outcome) -> None:
    """Keep what pg_regress wrote, for whoever wants to know why."""
    for name, outcome in (("plain", plain), ("cached", cached)):
        dest = folder / name
        shutil.rmtree(dest, ignore_errors=True)
        dest.mkdir(parents=True)
        for file in ("pg_regress.out", "regression.diffs", "output_iso/regression.diffs"):
            if (outcome.output / file).exists():
                shutil.copy(outcome.output / file, dest)


if __name__ == "__main__":
    sys.exit(main())
