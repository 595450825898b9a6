# SPDX-License-Identifier: PostgreSQL
"""Running the oltp mix with pgbench on a real server."""

import itertools
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgflash_lab.leftovers import remove_tree
from pgflash_lab.oltp import (
    Access,
    DriverError,
    OltpParameters,
    OltpResult,
    Verdict,
    check_consistency,
    load,
    run,
)
from pgflash_lab.oltp.driver import RAMP_UP_S, Constants, choose_constants, pgbench_command
from pgflash_lab.oltp.scripts import SCRIPTS, with_pauses
from pgflash_lab.oltp.sql_files import read_terminal
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from pgflash_lab.workload import Observer
from support.cluster import FAST_SETTINGS
from support.patience import eventually
from support.workloads import parameters_of

PARAMETERS = parameters_of(OltpParameters, warehouses=2, clients=4, measure_s=4, seed=5)

#: One chance in a million to be beyond it, for 39 degrees of freedom.
CHI_SQUARE_40_BINS = 97


class Recorder(Observer):
    """Remembers what it hears, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.seconds: list[float] = []
        self.latencies: list[float | None] = []

    def measuring_began(self) -> None:
        self.events.append("began")

    def second(self, at_s: float, tps: float, latency_ms: float | None) -> None:
        self.events.append("second")
        self.seconds.append(at_s)
        self.latencies.append(latency_ms)

    def measuring_ended(self) -> None:
        self.events.append("ended")


@pytest.fixture(scope="module")
def server(pg_install: PgInstall) -> Iterator[Server]:
    if not (pg_install.bindir / "pgbench").exists():
        pytest.skip(f"PostgreSQL {pg_install.version} comes without pgbench here")
    folder = Path(tempfile.mkdtemp(prefix="pgflash-oltp-"))
    folder.chmod(0o755)
    settings = {**FAST_SETTINGS, "shared_buffers": "128MB", "max_wal_size": "1GB"}
    with Server.create(pg_install, folder / "server", settings=settings) as server:
        server.start()
        load(server.conninfo(), PARAMETERS)
        yield server
    remove_tree(folder)


@pytest.fixture(scope="module")
def finished(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> tuple[OltpResult, Recorder]:
    """Return a run that several tests look at."""
    recorder = Recorder()
    result = run(
        server.install, server.conninfo(), PARAMETERS, tmp_path_factory.mktemp("run"), recorder
    )
    return result, recorder


def value(server: Server, query: str) -> Any:  # noqa: ANN401
    with server.connect() as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_terminals_and_database_count_the_same_new_orders(
    finished: tuple[OltpResult, Recorder],
) -> None:
    result, _ = finished
    assert result.new_orders_acknowledged == result.new_orders_in_database > 0
    assert result.counts_agree
    assert result.failures == 0


def test_the_databases_commits_are_those_of_the_terminals(
    finished: tuple[OltpResult, Recorder],
) -> None:
    result, _ = finished
    # Apart from the terminals, only the run's own few look-ups used this database.
    surplus = result.database_commits - result.transactions_acknowledged
    assert 0 <= surplus < 50
    assert result.database_rollbacks == result.rollbacks_acknowledged


def test_every_condition_holds_after_a_run(
    server: Server, finished: tuple[OltpResult, Recorder]
) -> None:
    assert [r for r in check_consistency(server.conninfo()) if not r.holds] == []


def test_the_window_is_cut_out_of_the_whole_run(finished: tuple[OltpResult, Recorder]) -> None:
    result, _ = finished
    assert result.window_s == pytest.approx(PARAMETERS.measure_s, abs=0.5)
    assert result.window_s < result.elapsed_s
    assert result.transactions < result.transactions_acknowledged
    assert result.tpm == pytest.approx(60 * result.transactions / result.window_s)
    assert result.nopm == pytest.approx(60 * result.new_orders / result.window_s)
    assert sum(point.transactions for point in result.seconds) == result.transactions_acknowledged
    assert -RAMP_UP_S <= result.seconds[0].at_s < 0


def test_every_transaction_type_is_measured(finished: tuple[OltpResult, Recorder]) -> None:
    result, _ = finished
    names = [latency.transaction for latency in result.latencies]
    assert names == ["", "new_order", "payment", "order_status", "delivery", "stock_level"]
    assert result.latency().count == result.transactions
    assert sum(latency.count for latency in result.latencies[1:]) == result.transactions


def test_the_mix_and_the_validity_figures_are_kept(
    finished: tuple[OltpResult, Recorder],
) -> None:
    result, _ = finished
    for name, share in (("new_order", 0.45), ("payment", 0.43), ("delivery", 0.04)):
        error = (share * (1 - share) / result.transactions) ** 0.5
        assert result.latency(name).count / result.transactions == pytest.approx(
            share, abs=4 * error
        )
    assert len(result.validity) == 6
    for figure in result.validity:
        assert figure.sample > 0
        assert figure.verdict in (Verdict.OK, Verdict.SMALL_SAMPLE), figure


def test_an_observer_hears_the_run_in_order(finished: tuple[OltpResult, Recorder]) -> None:
    _, recorder = finished
    assert recorder.events[0] == "second"  # the ramp-up's
    assert recorder.events.count("began") == 1
    assert recorder.events[-1] == "ended"
    assert recorder.seconds == sorted(recorder.seconds)
    assert len(recorder.seconds) >= PARAMETERS.measure_s


def test_the_samples_of_the_validity_figures_are_the_runs_rows(
    finished: tuple[OltpResult, Recorder],
) -> None:
    result, _ = finished
    sample = {figure.name: figure.sample for figure in result.validity}
    payments = sample["payments by last name"]
    assert sample["rolled back new orders"] == (
        result.new_orders_acknowledged + result.rollbacks_acknowledged
    )
    # Rows that found room before the tables' old ends are missed, but they are few.
    orders = sample["lines of a new order"]
    assert 0.9 * result.new_orders_acknowledged < orders <= result.new_orders_acknowledged
    assert 0.9 * payments < sample["payments of a remote customer"] <= payments
    assert 9 * orders < sample["lines from a remote warehouse"] < 11 * orders


def test_runs_on_one_load_have_the_same_hot_rows(
    server: Server, finished: tuple[OltpResult, Recorder], tmp_path: Path
) -> None:
    first, _ = finished
    others = replace(PARAMETERS, clients=1, measure_s=1, seed=77)
    second = run(server.install, server.conninfo(), others, tmp_path, ramp_up_s=0)
    assert (second.c_last_constant, second.c_customer_constant, second.c_item_constant) == (
        first.c_last_constant,
        first.c_customer_constant,
        first.c_item_constant,
    )


def test_a_rate_sets_the_pace_and_a_late_transaction_counts_from_when_it_was_due(
    server: Server, tmp_path: Path
) -> None:
    paced = replace(PARAMETERS, rate_tps=20)
    result = run(server.install, server.conninfo(), paced, tmp_path)
    expected = paced.rate_tps * (RAMP_UP_S + paced.measure_s)
    # Six standard deviations above the mean; a busy machine does less.
    assert 0 < result.transactions_acknowledged < expected + 6 * expected**0.5
    assert result.counts_agree

    # No server does a hundred thousand a second: a late transaction waits, and its wait counts.
    late = replace(PARAMETERS, rate_tps=100_000, measure_s=2)
    result = run(server.install, server.conninfo(), late, tmp_path / "late", ramp_up_s=0)
    assert result.latency().max_ms > 500 * result.elapsed_s


def test_clients_that_think_pause_between_transactions(server: Server, tmp_path: Path) -> None:
    thinking = replace(PARAMETERS, think_factor=0.02)
    recorder = Recorder()
    result = run(server.install, server.conninfo(), thinking, tmp_path, recorder)
    # 45 % key for 18 s and think for 12 s, 43 % for 3 s and 12 s, the others for 12, 7 and 7 s.
    pause_s = 0.02 * (0.45 * 30 + 0.43 * 15 + 0.04 * (12 + 7 + 7))
    most = thinking.clients * (1 + result.elapsed_s / pause_s)
    assert 0 < result.transactions_acknowledged < most + 6 * most**0.5
    assert result.counts_agree
    # Each pause asks the server once how much time is left.
    pauses = result.database_commits - result.transactions_acknowledged
    rolled_back = result.rollbacks_acknowledged
    assert 0 <= pauses + rolled_back - result.transactions_acknowledged < 50 + thinking.clients
    # And no pause is part of a response time, of which a client has one at a time.
    busy_s = result.latency().mean_ms * result.transactions / 1000
    assert busy_s + (result.transactions - thinking.clients) * 0.02 * 2 <= (
        thinking.clients * result.elapsed_s
    )
    assert set(recorder.latencies) == {None}


def test_another_number_of_warehouses_than_was_loaded_is_refused(
    server: Server, tmp_path: Path
) -> None:
    with pytest.raises(DriverError, match="has 2 warehouses, not 3"):
        run(server.install, server.conninfo(), replace(PARAMETERS, warehouses=3), tmp_path)


def test_a_client_that_fails_fails_the_run(server: Server, tmp_path: Path) -> None:
    class Breaker(Observer):
        def second(self, at_s: float, tps: float, latency_ms: float | None) -> None:
            with server.connect() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'pgbench'"
                )

    with pytest.raises(DriverError, match="pgbench ended with exit code"):
        run(server.install, server.conninfo(), PARAMETERS, tmp_path, Breaker())


def test_an_interrupted_run_leaves_no_pgbench(server: Server, tmp_path: Path) -> None:
    class Interrupter(Observer):
        def second(self, at_s: float, tps: float, latency_ms: float | None) -> None:
            raise KeyboardInterrupt

    def sessions() -> int:
        count = value(
            server, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'"
        )
        return int(count)

    with pytest.raises(KeyboardInterrupt):
        run(server.install, server.conninfo(), PARAMETERS, tmp_path, Interrupter())
    assert _pgbench_children() == []
    # Its sessions end after the transaction they were in.
    assert eventually(lambda: sessions() == 0)
    assert [r for r in check_consistency(server.conninfo()) if not r.holds] == []


def _pgbench_children() -> list[str]:
    """Return the command lines of our own children that are pgbench."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            command = (entry / "cmdline").read_text()
        except OSError:
            continue
        if int(parent) == os.getpid() and "pgbench" in command:
            found.append(command)
    return found


# ---- what the terminals draw


def exact_nurand(a: int, x: int, y: int, c: int) -> list[float]:
    """Return the probability of each value of NURand from x to y, by its formula.

    The OR of two draws is counted by subsets: P(first | second is within a mask) is the
    product of both being within it, and the Moebius transform takes the sums apart.
    """
    bits = max(a, y).bit_length()
    first = [0.0] * (1 << bits)
    second = [0.0] * (1 << bits)
    for number in range(a + 1):
        first[number] = 1 / (a + 1)
    for number in range(x, y + 1):
        second[number] = 1 / (y - x + 1)
    for table in (first, second):
        _over_subsets(table, bits, 1)
    both = [p * q for p, q in zip(first, second, strict=True)]
    _over_subsets(both, bits, -1)
    width = y - x + 1
    values = [0.0] * width
    for number, probability in enumerate(both):
        values[(number + c) % width] += probability
    return values


def _over_subsets(table: list[float], bits: int, sign: int) -> None:
    for bit in range(bits):
        step = 1 << bit
        for mask in range(len(table)):
            if mask & step:
                table[mask] += sign * table[mask ^ step]


def chi_square(drawn: list[int], exact: list[float], *, x: int, bins: int = 40) -> float:
    """Return the distance of draws from their exact distribution, in bins of like weight."""
    edges = [0.0, *itertools.accumulate(exact)]
    bin_of = [
        min(int((low + high) / 2 * bins), bins - 1) for low, high in itertools.pairwise(edges)
    ]
    expected = [0.0] * bins
    for number, probability in zip(bin_of, exact, strict=True):
        expected[number] += probability * len(drawn)
    seen = Counter(bin_of[value - x] for value in drawn)
    return sum((seen[b] - expected[b]) ** 2 / expected[b] for b in range(bins) if expected[b] > 0)


def test_items_are_drawn_by_nurand(server: Server, finished: tuple[OltpResult, Recorder]) -> None:
    result, _ = finished
    with server.connect() as connection:
        rows = connection.execute(
            "SELECT ol_i_id FROM oltp.order_line JOIN oltp.orders"
            " ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id"
            " WHERE o_id > 3000 ORDER BY o_entry_d LIMIT 20000"
        ).fetchall()
    drawn = [item for (item,) in rows]
    assert len(drawn) > 5_000
    skewed = exact_nurand(8_191, 1, 100_000, result.c_item_constant)
    assert chi_square(drawn, skewed, x=1) < CHI_SQUARE_40_BINS
    # The test would see the difference: the same draws are not uniform.
    assert chi_square(drawn, [1e-5] * 100_000, x=1) > 5 * CHI_SQUARE_40_BINS


def command_of(
    server: Server, parameters: OltpParameters, constants: Constants, file: Path, transactions: int
) -> list[str]:
    """Return the load's command, changed to one script and so many transactions of each client."""
    command = [
        word
        for word in pgbench_command(
            server.install.bindir / "pgbench",
            server.conninfo(),
            parameters,
            constants,
            scripts_dir=file.parent,
            log_prefix=file.parent / "log",
        )
        if not word.startswith(("--file=", "--time=", "--log"))
    ]
    command[1:1] = [f"--file={file}", f"--transactions={transactions}"]
    return command


def probe(
    server: Server,
    script: str,
    columns: str,
    tmp_path: Path,
    constants: Constants,
    count: int,
    *,
    access: Access = Access.NURAND,
) -> list[tuple[int, ...]]:
    """Let pgbench draw a script's variables and write them down instead of using them."""
    draws = [line for line in read_terminal(script).splitlines() if not line.endswith(";")]
    variables = ", ".join(f":{name}" for name in columns.split())
    file = tmp_path / "probe.sql"
    file.write_text("\n".join([*draws, f"INSERT INTO probe VALUES ({variables});"]) + "\n")
    with server.connect() as connection:
        types = ", ".join(f"{name} int" for name in columns.split())
        connection.execute(f"CREATE TABLE probe ({types})".encode())
    parameters = replace(PARAMETERS, warehouses=5, clients=2, seed=3, access=access)
    command = command_of(server, parameters, constants, file, count // parameters.clients)
    try:
        subprocess.run(
            command, env={**os.environ, **server.install.env}, check=True, capture_output=True
        )
        with server.connect() as connection:
            return connection.execute("SELECT * FROM probe").fetchall()
    finally:
        with server.connect() as connection:
            connection.execute("DROP TABLE probe")


def test_customers_and_names_are_drawn_by_nurand(server: Server, tmp_path: Path) -> None:
    constants = choose_constants(seed=9, load_constant=50)
    customers = [c for (c,) in probe(server, "payment_by_id.sql", "c", tmp_path, constants, 8_000)]
    exact = exact_nurand(1_023, 1, 3_000, constants.customer)
    assert chi_square(customers, exact, x=1) < CHI_SQUARE_40_BINS
    assert chi_square(customers, [1 / 3_000] * 3_000, x=1) > CHI_SQUARE_40_BINS

    names = [n for (n,) in probe(server, "payment_by_name.sql", "n", tmp_path, constants, 8_000)]
    exact = exact_nurand(255, 0, 999, constants.name)
    assert chi_square(names, exact, x=0) < CHI_SQUARE_40_BINS
    assert chi_square(names, [1 / 1_000] * 1_000, x=0) > CHI_SQUARE_40_BINS


def test_uniform_access_draws_all_customers_and_names_alike(server: Server, tmp_path: Path) -> None:
    constants = choose_constants(seed=9, load_constant=50)
    for script, name, first, count in (
        ("payment_by_id.sql", "c", 1, 3_000),
        ("payment_by_name.sql", "n", 0, 1_000),
    ):
        rows = probe(server, script, name, tmp_path, constants, 8_000, access=Access.UNIFORM)
        assert chi_square([n for (n,) in rows], [1 / count] * count, x=first) < CHI_SQUARE_40_BINS


def test_each_client_works_for_its_own_warehouses_and_all_are_worked_for(
    server: Server, tmp_path: Path
) -> None:
    constants = choose_constants(seed=1, load_constant=50)
    rows = probe(server, "payment_by_id.sql", "client_id w c_w d", tmp_path, constants, 4_000)
    assert {w for client, w, _, _ in rows if client == 0} == {1, 3, 5}
    assert {w for client, w, _, _ in rows if client == 1} == {2, 4}
    assert {d for _, _, _, d in rows} == set(range(1, 11))
    remote = [(w, c_w) for _, w, c_w, _ in rows if w != c_w]
    # 15 % of 4,000 with a standard deviation of 23.
    assert 500 <= len(remote) <= 700
    assert set(remote) == {(w, c_w) for w in range(1, 6) for c_w in range(1, 6) if w != c_w}


@pytest.mark.parametrize("think_factor", [0.0, 0.0001])
def test_every_script_is_accepted_by_the_server(
    server: Server, tmp_path: Path, think_factor: float
) -> None:
    constants = choose_constants(seed=1, load_constant=50)
    for script in SCRIPTS:
        text = read_terminal(script.file)
        one = replace(PARAMETERS, clients=1, think_factor=think_factor)
        (tmp_path / script.file).write_text(with_pauses(script, text) if think_factor else text)
        command = command_of(server, one, constants, tmp_path / script.file, 20)
        done = subprocess.run(
            command,
            env={**os.environ, **server.install.env},
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert "actually processed: 20/20" in done.stdout
