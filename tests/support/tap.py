# SPDX-License-Identifier: PostgreSQL
"""PostgreSQL's TAP suites, run against a private copy of an installation.

Each script creates servers as it likes: by initdb, from backups, by pg_upgrade.  To give each of
them a cache, the copy's `postgres` is a small script that adds pgflash and a cache file beside the
data folder to the server's arguments, and changes nothing else.  All servers run under the device
emulator with its delays off, which hides the operating system's page cache, so that nearly every
read asks the cache; and every hit is verified.

Nothing in the sources is configured or built but the library of PostgreSQL's regression tests,
which some scripts run.  A script that needs more than the installation has (a server built for
tests, another version of the server) says so and is skipped, with the cache and without.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgflash.machine.processes import processes
from pgflash_lab.account import as_server_user, make_server_dir, server_account
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash_lab.postgres import PgInstall
from pgflash_lab.processes import spawn

#: The scripts' folders in the sources.
SUITES = {
    "recovery": "src/test/recovery",
    "subscription": "src/test/subscription",
    "pg_rewind": "src/bin/pg_rewind",
    "pg_basebackup": "src/bin/pg_basebackup",
    "pg_upgrade": "src/bin/pg_upgrade",
}

#: How long a script may take; the longest runs all regression tests twice.
SCRIPT_S_MAX = 3600.0

#: pgflash uses some background workers: with it or without, there must be enough for the tests.
COMMON_SETTINGS = {"max_worker_processes": "16"}

#: These invocations do not start a server: they are run unchanged.
WRAPPER = """\
#!/bin/sh
# {real} with pgflash, and a cache file beside its data folder.
real={real}
data=$PGDATA before=
case "$1" in
--single | --boot | --check | --describe-config | --help | -\\? | --version | -V | "")
	exec "$real" "$@"
	;;
esac
for word; do
	case "$word" in
	-C) exec "$real" "$@" ;;
	-D?*) data=${{word#-D}} ;;
	esac
	[ "$before" = -D ] && data=$word
	before=$word
done
others=$("$real" "$@" -C shared_preload_libraries 2>/dev/null)
data=$(cd "$data" && pwd) || exit 1
{environment}
exec "$real" "$@" -c shared_preload_libraries="${{others:+$others,}}pgflash" \\
	-c pgflash.cache_file="$data.pgflash" {settings}
"""

CACHE_SETTINGS = {
    "pgflash.cache_size": "16MB",
    "pgflash.verify": "all",
    # A busy machine must not be mistaken for a device that hangs.
    "pgflash.read_deadline": "10s",
}

#: A line of a script's report.
RESULT = re.compile(r"^(?P<word>not ok|ok) \d+(?P<name>.*)$", re.M)
SKIPPED = re.compile(r"^1\.\.0 # SKIP\s*(?P<why>.*)$", re.M)

DIFFERING = re.compile(r"^diff .* (\S+)$", re.M)

#: A server's log says this if a hit differed from its file.
STALE = "differed between cache and"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a script."""

    #: "passed", "failed", "hung", or "skipped: " and the reason.
    ended: str
    passed: int
    failed: tuple[str, ...]
    #: PostgreSQL's regression tests with a different output, in scripts that run them.
    differing: tuple[str, ...]
    seconds: float
    #: Servers that used their cache, and lines of their logs about stale blocks.
    served: int
    stale: int

    def says(self) -> tuple[str, int, tuple[str, ...], tuple[str, ...]]:
        """Return what must be the same with the cache and without."""
        return self.ended, self.passed, self.failed, self.differing


def has_perl_modules() -> bool:
    """Say whether Perl has the modules that the suites need beyond its own."""
    return (
        subprocess.run(["perl", "-MIPC::Run", "-e", "1"], capture_output=True, check=False)
    ).returncode == 0


def build_regress_library(install: PgInstall, work: Path) -> None:
    """Compile the C functions that the regression tests call."""
    subprocess.run(
        [
            *("gcc", "-O1", "-fPIC", "-shared", "-w", f"-I{install.includedir_server}"),
            *(f"-I{work}", "-o", work / "regress.so", work / "regress.c"),
        ],
        check=True,
    )


def end_leftovers(folder: Path) -> None:
    """End the servers that a script left behind below a folder."""
    for process in processes():
        with suppress(OSError):  # it is gone, or another user's
            if process.folder().is_relative_to(folder):
                os.kill(process.pid, signal.SIGKILL)


class TapSuites:
    """The suites of one source tree, for one installation with the cache or without."""

    def __init__(self, source: Path, install: PgInstall, work: Path, *, cached: bool) -> None:
        """Prepare a folder to run them in; INSTALL is a copy of our own if CACHED."""
        self._install = install
        self._cached = cached
        self._work = make_server_dir(work)
        work.chmod(0o755)
        for folder in ("src/test", "src/bin"):
            (work / folder).parent.mkdir(exist_ok=True)
            subprocess.run(
                ["cp", "-r", "--reflink=auto", source / folder, work / folder], check=True
            )
        build_regress_library(install, work / "src/test/regress")
        account = server_account()
        if account is not None:
            owner = f"{account.uid}:{account.gid}"
            subprocess.run(["chown", "-R", owner, work / "src"], check=True)
        (work / "node.conf").write_text(
            "".join(f"{name} = {value}\n" for name, value in COMMON_SETTINGS.items())
        )
        make_server_dir(work / "ports")
        make_server_dir(work / "runs")
        if cached:
            self._wrap()

    def _wrap(self) -> None:
        """Replace the server by the script."""
        postgres = self._install.bindir / "postgres"
        real = postgres.with_name("postgres.real")
        if not real.exists():
            postgres.rename(real)
        account = server_account()
        emulator = Emulator.create(
            self._work / "emulator.state",
            devices=[
                EmulatedDevice(
                    name="disk",
                    profile=DeviceProfile.named("sas15k-raid10-6"),
                    paths=(self._work / "runs",),
                )
            ],
            owner=account.uid if account is not None else None,
            delays_on=False,
        )
        postgres.write_text(
            WRAPPER.format(
                real=real,
                environment="\n".join(
                    f"export {name}={value}" for name, value in emulator.env.items()
                ),
                settings=" ".join(f"-c {name}={value}" for name, value in CACHE_SETTINGS.items()),
            )
        )
        postgres.chmod(0o755)

    def scripts(self) -> list[str]:
        """Return the names of all scripts: suite/script."""
        return [
            f"{suite}/{script.name}"
            for suite, folder in SUITES.items()
            for script in sorted((self._work / folder / "t").glob("*.pl"))
        ]

    def run(self, scripts: Iterable[str], *, jobs: int) -> dict[str, Outcome]:
        """Run scripts, this many at once."""
        scripts = list(scripts)
        with ThreadPoolExecutor(jobs) as pool:
            return dict(zip(scripts, pool.map(self._run_script, scripts), strict=True))

    def _run_script(self, name: str) -> Outcome:
        suite, script = name.split("/")
        folder = make_server_dir(self._work / "runs" / f"{suite}-{script.removesuffix('.pl')}")
        report = folder / "report.tap"
        begin = time.monotonic()
        with report.open("w") as output, (folder / "errors").open("w") as errors:
            process = spawn(
                [*as_server_user(with_driver="TERM"), "perl", "-I../../test/perl", f"t/{script}"],
                cwd=self._work / SUITES[suite],
                env=self._environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            try:
                code = process.wait(SCRIPT_S_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
                ended = "hung"
            else:
                ended = "passed" if code == 0 else "failed"
        end_leftovers(folder)
        text = report.read_text(errors="replace")
        if skipped := SKIPPED.search(text):
            ended = f"skipped: {skipped['why']}"
        logs = [path.read_text(errors="replace") for path in folder.rglob("*.log")]
        results = RESULT.findall(text)
        outcome = Outcome(
            ended=ended,
            passed=sum(word == "ok" for word, _ in results),
            failed=tuple(what.strip(" -") for word, what in results if word != "ok"),
            differing=tuple(
                sorted(
                    Path(name).stem
                    for diffs in folder.rglob("regression.diffs")
                    for name in DIFFERING.findall(diffs.read_text(errors="replace"))
                )
            ),
            seconds=time.monotonic() - begin,
            served=sum(log.count("pgflash: cache file") for log in logs),
            stale=sum(log.count(STALE) for log in logs),
        )
        if ended == "passed" or ended.startswith("skipped"):
            shutil.rmtree(folder)
        return outcome

    def keep(self, name: str, into: Path) -> None:
        """Keep the output of a failed script: its report, and its servers' logs."""
        folder = self._work / "runs" / name.replace("/", "-").removesuffix(".pl")
        for path in (*folder.glob("report.tap"), *folder.glob("errors"), *folder.rglob("*.log")):
            kept = into / folder.name / path.relative_to(folder)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, kept)

    def _environment(self, folder: Path) -> Mapping[str, str]:
        """Return the variables that the makefiles of the suites would set."""
        pgxs = Path(
            subprocess.run(
                [self._install.pg_config, "--pgxs"], capture_output=True, text=True, check=True
            ).stdout.strip()
        )
        return {
            "PATH": f"{self._install.bindir}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "LC_ALL": "C",
            "TZ": "UTC",
            **({"PERL5LIB": os.environ["PERL5LIB"]} if "PERL5LIB" in os.environ else {}),
            **self._install.env,
            "PG_REGRESS": str(pgxs.parents[1] / "test" / "regress" / "pg_regress"),
            "REGRESS_SHLIB": str(self._work / "src/test/regress/regress.so"),
            "PG_TEST_PORT_DIR": str(self._work / "ports"),
            "TEMP_CONFIG": str(self._work / "node.conf"),
            "TESTDIR": str(folder),
            "TESTDATADIR": str(folder / "tmp_check"),
            "TESTLOGDIR": str(folder / "tmp_check" / "log"),
            "top_builddir": str(self._work),
            "enable_injection_points": "no",
            "with_icu": "no",
            "TAR": "tar",
            "GZIP_PROGRAM": "gzip",
            "LZ4": "",
        }
