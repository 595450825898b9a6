# SPDX-License-Identifier: PostgreSQL
"""Make the schema and the rows that exist before a load: batch 0, of the hot table only."""

import tempfile
from importlib import resources
from pathlib import Path

import psycopg

from pgflash_lab.bulk.model import BulkParameters
from pgflash_lab.loading import Progress, index_memory
from pgflash_lab.warehouse.data import generate, part_count

#: The columns that the generator's rows have; the batch is the session's.
LINE_COLUMNS = (
    "l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount, "
    "l_tax, l_returnflag, l_linestatus, l_shipdate, l_commitdate, l_receiptdate, l_shipinstruct, "
    "l_shipmode, l_comment"
)
ORDER_COLUMNS = (
    "o_orderkey, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_orderpriority, o_clerk, "
    "o_shippriority, o_comment"
)

_LEDGER = """
INSERT INTO load.ledger
SELECT 0, count(*), coalesce(sum(l_extendedprice), 0), 0, 0 FROM load.lineitem
"""
_COPY_BYTES = 256 * 1024


def load(conninfo: str, parameters: BulkParameters, progress: Progress | None = None) -> None:
    """Make the schema "load" and fill the hot table, in one transaction."""
    report = progress or (lambda _stage, _fraction: None)
    with psycopg.connect(conninfo, application_name="pgflash load") as connection:
        connection.execute(f"SET LOCAL maintenance_work_mem = '{index_memory()}'".encode())
        connection.execute(_text("tables.sql").encode())
        connection.execute("SET LOCAL load.batch = '0'")
        parts = part_count(parameters.base_scale_factor)
        for part in range(1, parts + 1):
            report("load rows", (part - 1) / parts)
            _fill(connection, parameters.base_scale_factor, part, parts)
        connection.execute(_LEDGER)
        report("create indexes", 0.0)
        connection.execute(_text("indexes.sql").encode())
        connection.commit()
        connection.autocommit = True
        report("vacuum", 0.0)
        connection.execute("VACUUM (ANALYZE) load.lineitem, load.orders, load.ledger")
    report("vacuum", 1.0)


def _fill(connection: psycopg.Connection, scale_factor: float, part: int, parts: int) -> None:
    """Copy a part of the base."""
    statement = f"COPY load.lineitem ({LINE_COLUMNS}) FROM STDIN (FORMAT csv, HEADER)"
    with tempfile.TemporaryDirectory(prefix="pgflash-load-") as folder:
        file = generate(
            Path(folder), scale_factor=scale_factor, part=part, parts=parts, tables=("lineitem",)
        )["lineitem"]
        with (
            file.open("rb") as rows,
            connection.cursor() as cursor,
            cursor.copy(statement.encode()) as copy,
        ):
            while block := rows.read(_COPY_BYTES):
                copy.write(block)


def _text(name: str) -> str:
    return resources.files(__package__).joinpath("sql", name).read_text(encoding="utf-8")
