# SPDX-License-Identifier: PostgreSQL
"""EXPLAIN (ANALYZE, FLASH), in each of its formats."""

import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.account import one, session
from support.cluster import ClusterFactory
from support.statements import IN_PARALLEL, less, read, statements_server, wait_for_workers

pytestmark = pytest.mark.extension

QUERY = "select count(*) from item"
#: Numbers of a source, by the names of SQL.
SOURCES = {"Page Cache": "page cache", "Flash": "flash", "Disk": "disk"}


def explained(connection: psycopg.Connection[Any], form: str) -> str:
    found = connection.execute(
        f"explain (analyze, flash, costs off, timing off, format {form}) {QUERY}"
    ).fetchall()
    return "\n".join(row[0] if isinstance(row[0], str) else json.dumps(row[0]) for row in found)


def of_json(text: str) -> dict[str, Any]:
    sources: dict[str, Any] = json.loads(text)[0]["Block Sources"]
    return sources


def of_yaml(text: str) -> dict[str, Any]:
    part = text.split("Block Sources:")[1]
    return {
        name: float(number) for name, number in re.findall(r"^\s+([\w ]+): ([\d.]+)$", part, re.M)
    }


def of_xml(text: str) -> dict[str, Any]:
    (part,) = [one for one in ET.fromstring(text).iter() if one.tag.endswith("}Block-Sources")]
    return {one.tag.split("}")[1].replace("-", " "): float(one.text or "") for one in part}


def of_text(text: str) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    found = re.search(r"^Block Sources:\n  Shared Buffers: hit=(\d+)$", text, re.M)
    assert found is not None, text
    numbers["Shared Hit Blocks"] = int(found[1])
    for name in SOURCES:
        found = re.search(rf"^  {name}: blocks=(\d+) reads=(\d+) time=([\d.]+)$", text, re.M)
        assert found is not None, text
        numbers |= {
            f"{name} Read Blocks": int(found[1]),
            f"{name} Reads": int(found[2]),
            f"{name} Read Time": float(found[3]),
        }
    return numbers


FORMS = {"text": of_text, "json": of_json, "yaml": of_yaml, "xml": of_xml}


def skip_before_18(install: PgInstall) -> None:
    if install.major < 18:
        pytest.skip("options of EXPLAIN exist since PostgreSQL 18")


@pytest.mark.parametrize("parallel", [False, True], ids=["alone", "in parallel"])
def test_each_format_has_what_was_read(
    cluster: ClusterFactory, pgflash_install: PgInstall, parallel: bool
) -> None:
    skip_before_18(pgflash_install)
    settings = IN_PARALLEL if parallel else {}
    server = statements_server(cluster, pgflash_install, settings)
    with session(server) as worker, session(server) as observer:
        pages = one(worker, "select pg_relation_size('item') / 8192")
        worker.execute("set pgflash.track_statements = 'none'")
        for form, numbers_of in FORMS.items():
            for _ in range(2):
                explained(worker, form)
                read(observer)
            wait_for_workers(observer)
            before = read(observer)
            numbers = numbers_of(explained(worker, form))
            wait_for_workers(observer)
            reads = less(read(observer), before)
            assert numbers["Shared Hit Blocks"] >= 0
            blocks = 0
            for name, source in SOURCES.items():
                assert numbers[f"{name} Reads"] == reads[source]["calls"]
                assert numbers[f"{name} Read Blocks"] * 8192 == reads[source]["bytes"]
                assert numbers[f"{name} Read Time"] == pytest.approx(reads[source]["ms"], abs=0.001)
                blocks += numbers[f"{name} Read Blocks"]
            assert blocks >= pages - 128


def test_it_is_shown_only_where_it_was_asked_for_and_with_analyze(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    skip_before_18(pgflash_install)
    server = statements_server(cluster, pgflash_install, {})
    with session(server) as worker:
        for options in ("analyze", "analyze, flash off", "analyze, flash, flash off"):
            plan = worker.execute(f"explain ({options}) {QUERY}").fetchall()
            assert not [row for row in plan if "Block Sources" in row[0]]
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="FLASH requires ANALYZE"):
            worker.execute(f"explain (flash) {QUERY}")
        worker.execute("prepare p as select count(*) from item where id < 100")
        plan = worker.execute("explain (analyze, flash) execute p").fetchall()
        assert [row for row in plan if "Block Sources" in row[0]]
