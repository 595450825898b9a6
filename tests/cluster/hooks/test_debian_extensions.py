# SPDX-License-Identifier: PostgreSQL
"""Nothing is stale beside the extensions that Debian packages for PostgreSQL 15.

They need the network and several hundred megabytes, so they only run by
`make extensions-check`.  Each package has a server of its own: its library is preloaded where
it asks for that, its extensions are created and used a little, and tables are changed in the
ways of support/ddl.py, every hit verified.  The results are written to out/extensions-check, from
which tools/extensions_to_docs.py makes docs/reference/extensions.md.
"""

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pg
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, assert_never_stale, compared_hits, create_cached
from support.cluster import REPOSITORY, ClusterFactory, build_install
from support.ddl import checkpoint, load_tables, regrow_tail, update_rows, vacuum_full, vacuum_tail
from support.world import World

pytestmark = [pytest.mark.extensions_check, pytest.mark.timeout(1800)]

OUT = REPOSITORY / "out" / "extensions-check"

#: Blocks that are compared in each trial at least.
HITS_MIN = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How a package is tried: its settings, and the statements that use it."""

    preload: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    #: Extensions that are created; None: all that the package has.
    create: tuple[str, ...] | None = None
    #: Run before the load and again after it.
    use: tuple[str, ...] = ()
    #: Run once, after the extensions were created.
    prepare: tuple[str, ...] = ()
    #: Why no more is tested.
    remark: str = ""


LOGICAL = {
    "wal_level": "logical",
    "max_replication_slots": "8",
    "max_wal_senders": "8",
    # Of minor releases since that setting came; named like an extension's setting, it is ignored by
    # others.
    "output_plugin_libraries": "wal2json,decoderbufs,pglogical_output,test_decoding",
}


REFUSED = "loaded only: this minor release of PostgreSQL refuses its script"


def decoding(plugin: str, function: str) -> Trial:
    """Try an output plugin."""
    return Trial(
        settings=LOGICAL,
        prepare=(f"select pg_create_logical_replication_slot('s', '{plugin}')",),
        use=(f"select count(*) from {function}('s', null, null)",),
    )


def preloaded(library: str, *use: str, **settings: str) -> Trial:
    """Try one that wants to be preloaded."""
    return Trial(
        preload=library,
        settings={name.replace("__", "."): value for name, value in settings.items()},
        use=use,
    )


def indexed(kind: str, column: str, values: str, query: str) -> Trial:
    """Try one that brings types and operators for indexes: QUERY counts rows."""
    return Trial(
        prepare=(
            f"create table things as select i, {values} as thing from generate_series(1, 2000) i",
            f"create index things_index on things using {kind} (thing{column})",
            "vacuum analyze things",
        ),
        use=(
            "set enable_seqscan = off",
            f"select count(*) from things where {query}",
            "update things set i = i + 1 where i % 7 = 0",
            "reset enable_seqscan",
        ),
    )


TRIALS: dict[str, Trial] = {
    "asn1oid": indexed("btree", "", "('1.2.' || i)::asn1oid", "thing > '1.2.50'"),
    "auto-failover": Trial(preload="pgautofailover"),
    "bgw-replstatus": preloaded("bgw_replstatus", bgw_replstatus__port="0"),
    "cron": Trial(
        preload="pg_cron",
        prepare=("select cron.schedule('j', '* * * * *', 'select 1')",),
        use=("select count(*) from cron.job",),
        settings={"cron.database_name": "postgres"},
    ),
    "debversion": Trial(create=(), use=("load 'debversion'",), remark=REFUSED),
    "decoderbufs": Trial(
        settings=LOGICAL,
        create=(),
        prepare=("select pg_create_logical_replication_slot('s', 'decoderbufs')",),
        use=("select count(*) from pg_logical_slot_get_binary_changes('s', null, null)",),
    ),
    "dirtyread": Trial(
        use=("select count(*) from pg_dirtyread('stock') as t(id int, v int, pad text)",),
    ),
    "extra-window-functions": Trial(
        use=("select count(*) from (select flip_flop(i = 5) over (order by i) from"
             " generate_series(1, 9) i) t",),
    ),
    "first-last-agg": Trial(use=("select first(v order by id), last(v order by id) from stock",)),
    "hll": Trial(
        prepare=("create table sketches (s hll)",),
        use=("insert into sketches select hll_add_agg(hll_hash_integer(v)) from stock",
             "select hll_cardinality(hll_union_agg(s)) from sketches"),
    ),
    "hypopg": Trial(
        use=("select hypopg_create_index('create index on stock (pad)')",
             "explain select from stock where pad = 'x'"),
    ),
    "icu-ext": Trial(use=("select icu_transform(pad, 'Any-Upper') from stock limit 100",)),
    "ip4r": indexed("gist", "", "('10.0.' || i % 250 || '.0/24')::ip4r", "thing >>= '10.0.7.1'"),
    "jsquery": indexed(
        "gin", " jsonb_path_value_ops", "jsonb_build_object('a', i % 50)",
        "thing @@ 'a = 7'::jsquery",
    ),
    "londiste-sql": Trial(create=("plpgsql", "pgq", "pgq_node", "londiste")),
    "mimeo": Trial(create=(), remark="needs pgjobmon, which Debian does not package"),
    "mysql-fdw": Trial(
        prepare=("create server remote foreign data wrapper mysql_fdw",),
        remark="no MySQL server to talk to",
    ),
    "numeral": Trial(use=("select 'twelve'::numeral + i from generate_series(1, 9) i",)),
    "ogr-fdw": Trial(
        prepare=(
            "copy (select 'id,name' union all select '1,one') to '/tmp/pgflash-ogr.csv'",
            "create server ogr foreign data wrapper ogr_fdw"
            " options (datasource '/tmp/pgflash-ogr.csv', format 'CSV')",
            "import foreign schema ogr_all from server ogr into public",
        ),
    ),
    "omnidb": Trial(preload="omnidb_plpgsql_debugger"),
    "orafce": Trial(
        use=("select oracle.add_months(date '2026-01-31', id % 5) from stock limit 50",),
    ),
    "partman": Trial(
        preload="pg_partman_bgw",
        settings={"pg_partman_bgw.dbname": "postgres", "pg_partman_bgw.interval": "60"},
        prepare=(
            "create table parts (id int not null) partition by range (id)",
            "select create_parent('public.parts', 'id', 'native', '1000')",
        ),
        use=("insert into parts select generate_series(1, 900)", "select count(*) from parts"),
    ),
    "periods": Trial(
        create=("btree_gist", "periods"),
        prepare=("create table spans (id int primary key, note text)",
                 "select periods.add_system_time_period('spans')",
                 "select periods.add_system_versioning('spans')"),
        use=("insert into spans select coalesce(max(id), 0) + 1 from spans",
             "update spans set note = 'x'"),
    ),
    "pg-catcheck": Trial(create=(), remark="a client program"),
    "pg-checksums": Trial(create=(), remark="a program for servers that are down"),
    "pg-fact-loader": Trial(create=("pg_fact_loader",)),
    "pg-qualstats": Trial(
        preload="pg_qualstats", use=("select count(*) from pg_qualstats",),
        settings={"pg_qualstats.sample_rate": "1"},
    ),
    "pg-stat-kcache": Trial(
        preload="pg_stat_statements,pg_stat_kcache",
        create=("pg_stat_statements", "pg_stat_kcache"),
        use=("select count(*) from pg_stat_kcache_detail",),
    ),
    "pg-track-settings": Trial(use=("select pg_track_settings_snapshot()",)),
    "pg-wait-sampling": Trial(
        preload="pg_wait_sampling", use=("select count(*) from pg_wait_sampling_profile",)
    ),
    "pgaudit": Trial(preload="pgaudit", settings={"pgaudit.log": "all"}),
    "pgauditlogtofile": Trial(
        preload="pgaudit,pgauditlogtofile",
        create=("pgaudit", "pgauditlogtofile"),
        settings={"pgaudit.log": "all", "pgaudit.log_directory": "log"},
    ),
    "pgextwlist": Trial(preload="pgextwlist", settings={"extwlist.extensions": "citext"}),
    "pgfincore": Trial(
        use=("select * from pgfadvise_dontneed('stock')",
             "select * from pgfadvise_willneed('stock')",
             "select count(*) from pgfincore('stock')"),
    ),
    "pgl-ddl-deploy": Trial(
        preload="pglogical", settings=LOGICAL, create=("pglogical", "pgl_ddl_deploy"),
    ),
    "pglogical": Trial(
        preload="pglogical",
        settings=LOGICAL,
        create=("pglogical",),
        prepare=(
            "select pglogical.create_node('here', 'host=/nowhere')",
            "select pglogical.replication_set_add_table('default', 'stock')",
        ),
    ),
    "pglogical-ticker": Trial(
        preload="pglogical,pglogical_ticker",
        settings=LOGICAL,
        create=("pglogical", "pglogical_ticker"),
    ),
    "pgmemcache": Trial(preload="pgmemcache", remark="no memcached to talk to"),
    "pgmp": indexed("btree", "", "(i::text || '0000000000000000000000')::mpz", "thing > 7"),
    "pgpcre": Trial(use=("select count(*) from stock where pad ~ pcre 'a+b'",)),
    "pgpool2": Trial(remark="no pgpool to talk to"),
    "pgq-node": Trial(create=("pgq", "pgq_node")),
    "pgq3": Trial(
        create=("pgq",),
        prepare=("select pgq.create_queue('q')",),
        use=("select pgq.insert_event('q', 'kind', pad) from stock limit 200",
             "select pgq.ticker()"),
    ),
    "pgrouting": Trial(
        create=("plpgsql", "postgis", "pgrouting"),
        prepare=("create table edges as select i as id, i as source, i + 1 as target,"
                 " 1.0::float8 as cost from generate_series(1, 500) i",),
        use=("select count(*) from pgr_dijkstra("
             "'select id, source, target, cost from edges', 1, 400)",),
    ),
    "pgsphere": Trial(create=(), use=("load 'pg_sphere'",), remark=REFUSED),
    "pgtap": Trial(use=("select plan(1)", "select pass('it')", "select finish()")),
    "pldebugger": Trial(preload="plugin_debugger"),
    "pllua": Trial(
        create=("pllua", "plluau", "hstore", "hstore_pllua"),
        use=("do language pllua $$ print('x') $$",
             "do language plluau $$ local f = io.open('pg_stat/lua', 'w')"
             " f:write('x') f:close() os.remove('pg_stat/lua') $$"),
    ),
    "plpgsql-check": Trial(
        preload="plpgsql_check",
        prepare=("create function f() returns int language plpgsql as"
                 " $$ begin return (select count(*) from stock); end $$",),
        use=("select count(*) from plpgsql_check_function('f()')",),
    ),
    "plprofiler": Trial(
        preload="plprofiler",
        prepare=("create function f() returns int language plpgsql as"
                 " $$ begin return (select count(*) from stock); end $$",),
        use=("select pl_profiler_set_enabled_local(true)", "select f()"),
    ),
    "plproxy": Trial(
        prepare=("create function far() returns setof int language plproxy as"
                 " $$ connect 'dbname=postgres host=/nowhere'; select 1; $$",),
        remark="the other server does not answer",
    ),
    "plr": Trial(
        prepare=("create function mean(float8[]) returns float8 language plr as 'mean(arg1)'",),
        use=("select mean(array_agg(v::float8)) from stock",),
    ),
    "plsh": Trial(
        prepare=("create function say(text) returns text language plsh as"
                 " E'#!/bin/sh\\necho $1 | tee pg_stat/said'",),
        use=("select say('x')",),
    ),
    "pointcloud": Trial(create=("pointcloud", "postgis", "pointcloud_postgis")),
    "postgis-3": Trial(
        create=("plpgsql", "postgis", "postgis_raster", "postgis_sfcgal", "fuzzystrmatch",
                "postgis_topology", "address_standardizer"),
        prepare=(
            "create table places as select i, st_makepoint(i % 100, i / 100.0) as g"
            " from generate_series(1, 3000) i",
            "create index places_g on places using gist (g)",
            "vacuum analyze places",
        ),
        use=(
            "select count(*) from places where g && st_makeenvelope(1, 1, 9, 9)",
            "select st_area(st_union(st_buffer(g, 1))) from places where i < 50",
            "update places set g = st_translate(g, 1, 0) where i % 9 = 0",
            "select st_astext(st_transform(st_setsrid(g, 4326), 3857)) from places limit 20",
            "select length(st_asgdalraster(st_addband(st_makeemptyraster(20, 20, 0, 0, 1),"
            " '8BUI'::text, 1, 0), 'PNG'))",
        ),
        settings={"postgis.gdal_enabled_drivers": "ENABLE_ALL"},
    ),
    "powa": Trial(
        preload="pg_stat_statements,powa",
        create=("btree_gist", "pg_stat_statements", "powa"),
        settings={"powa.frequency": "5s"},
        use=("select powa_take_snapshot()",),
    ),
    "prefix": indexed("gist", "", "i::text::prefix_range", "thing @> '123'"),
    "preprepare": preloaded("pre_prepare"),
    "prioritize": Trial(use=("select set_backend_priority(pg_backend_pid(), 5)",)),
    "q3c": Trial(
        prepare=("create table stars as select i, i % 360 as ra, i % 90 as dec"
                 " from generate_series(1, 3000) i",
                 "create index on stars (q3c_ang2ipix(ra, dec))"),
        use=("select count(*) from stars where q3c_radial_query(ra, dec, 10, 10, 5)",),
    ),
    "rational": indexed("btree", "", "(i || '/7')::rational", "thing > '5/7'"),
    "rdkit": Trial(create=(), use=("load 'rdkit'",), remark=REFUSED),
    "repack": Trial(
        use=("select repack.version()",),
        remark="its program repacks a table between the two uses",
    ),
    "repmgr": Trial(preload="repmgr"),
    "rum": indexed("rum", " rum_tsvector_ops", "to_tsvector('word' || i % 50)", "thing @@ 'word7'"),
    "semver": indexed("btree", "", "('1.2.' || i)::semver", "thing > '1.2.50'"),
    "set-user": Trial(
        preload="set_user",
        settings={"set_user.superuser_allowlist": "*"},
        use=("select set_user_u('postgres')", "select reset_user()"),
    ),
    "similarity": Trial(use=("select avg(jaro(pad, 'abc')) from stock",)),
    "slony1-2": Trial(
        prepare=(
            "create function slon_version() returns text language c"
            " as '$libdir/slony1_funcs.2.2.11', '_Slony_I_2_2_11__getModuleVersion'",
        ),
        use=("select slon_version()",),
    ),
    "snakeoil": Trial(remark="no signatures of viruses to load"),
    "tablelog": Trial(
        prepare=("create table noted (id int primary key, v int)",
                 "select table_log_init(5, 'noted')"),
        use=("insert into noted select coalesce(max(id), 0) + 1, 1 from noted",
             "update noted set v = v + 1"),
    ),
    "tdigest": Trial(use=("select tdigest_percentile(v, 100, 0.9) from stock",)),
    "tds-fdw": Trial(
        prepare=("create server remote foreign data wrapper tds_fdw",),
        remark="no SQL Server to talk to",
    ),
    "toastinfo": Trial(use=("select pg_toastinfo(pad) from stock limit 50",)),
    "unit": Trial(
        create=(), use=("load 'unit'",), remark="loaded only: its script wants to be installed"
    ),
    "wal2json": decoding("wal2json", "pg_logical_slot_get_changes"),
    "plperl": Trial(
        create=("plperl", "plperlu", "hstore", "hstore_plperl", "jsonb_plperl", "bool_plperl"),
        use=("do language plperlu $$ open(my $f, '>', 'pg_stat/perl') or die; print $f 'x';"
             " close $f; unlink 'pg_stat/perl'; $$",),
    ),
    "plpython3": Trial(
        create=("plpython3u", "hstore", "hstore_plpython3u", "jsonb_plpython3u", "ltree",
                "ltree_plpython3u"),
        use=("do language plpython3u $$\nimport os, mmap\nf = open('pg_stat/py', 'w+b')\n"
             "f.write(b'x' * 8192)\nf.flush()\nmmap.mmap(f.fileno(), 8192)[0:1] = b'y'\n"
             "os.truncate('pg_stat/py', 10)\nos.rename('pg_stat/py', 'pg_stat/py2')\n"
             "os.unlink('pg_stat/py2')\n$$",),
    ),
    "pltcl": Trial(
        create=("pltcl", "pltclu"),
        prepare=("create function tcl() returns int language pltclu as"
                 " $$ set f [open pg_stat/tcl w]; puts $f x; close $f;"
                 " file delete pg_stat/tcl; return 1 $$",),
        use=("select tcl()",),
    ),
    "contrib": Trial(
        preload="pg_stat_statements,auto_explain,auth_delay,passwordcheck,basic_archive",
        settings={"auto_explain.log_min_duration": "0", "auth_delay.milliseconds": "1"},
        create=(
            *("adminpack", "amcheck", "autoinc", "bloom", "btree_gin", "btree_gist", "citext"),
            *("cube", "dblink", "dict_int", "dict_xsyn", "earthdistance", "file_fdw"),
            *("fuzzystrmatch", "hstore", "insert_username", "intagg", "intarray", "isn", "lo"),
            *("ltree", "moddatetime", "old_snapshot", "pageinspect", "pg_buffercache"),
            *("pg_freespacemap", "pg_prewarm", "pg_stat_statements", "pg_surgery", "pg_trgm"),
            *("pg_visibility", "pg_walinspect", "pgcrypto", "pgrowlocks", "pgstattuple"),
            *("postgres_fdw", "refint", "seg", "sslinfo", "tablefunc", "tcn", "tsm_system_rows"),
            *("tsm_system_time", "unaccent", "uuid-ossp", "xml2"),
        ),
        prepare=("create index stock_bloom on stock using bloom (v)",
                 "create index stock_trgm on stock using gin (pad gin_trgm_ops)"),
        use=("select pg_prewarm('stock', 'read')",
             "select pg_file_write('pg_stat/note', 'x', false)",
             "select pg_file_rename('pg_stat/note', 'pg_stat/note2')",
             "select pg_file_unlink('pg_stat/note2')",
             "select count(*) from pg_stat_statements",
             "select heap_force_freeze('stock', array['(0,1)'::tid])",
             "select * from pgstattuple('stock')"),
    ),
    "jit": Trial(
        create=(),
        use=("set jit = on", "set jit_above_cost = 0", "set jit_inline_above_cost = 0",
             "set jit_optimize_above_cost = 0",
             "select sum(v), count(*) from stock where v % 3 = 1"),
        remark="PostgreSQL's own, with LLVM 14",
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def packages() -> dict[str, dict[str, Any]]:
    """Return the downloads: versions, libraries and extensions by package."""
    root = PgInstall.from_pg_config(pg.fetch_debian_extensions()).root
    found: dict[str, dict[str, Any]] = json.loads((root / "extensions.json").read_text())
    return {re.sub(r"^postgresql-(15-)?|-15$", "", name): what for name, what in found.items()}


@pytest.fixture(scope="session")
def install() -> PgInstall:
    """Return the server with all of them, and with pgflash."""
    stock = PgInstall.from_pg_config(pg.fetch_debian_extensions())
    return build_install(stock, assertions=True, variant="extensions")


def test_every_package_of_debian_is_tried(packages: dict[str, dict[str, Any]]) -> None:
    assert set(packages) == set(TRIALS) - {"contrib", "jit"}


def run_all(cached: CachedServer, statements: tuple[str, ...]) -> None:
    """Run statements in one session."""
    with cached.server.connect() as session:
        session.autocommit = True
        for statement in statements:
            session.execute(statement)


@pytest.fixture(scope="session")
def own_libraries(install: PgInstall) -> set[str]:
    """Return the libraries that are watched in a server without any extension."""
    factory = ClusterFactory(install)
    try:
        cached = create_cached(factory, install, settings={"log_min_messages": "debug1"})
        return set(watched_libraries(cached))
    finally:
        factory.close()


def watched_libraries(cached: CachedServer) -> list[str]:
    """Return the libraries whose imports are watched, according to the log."""
    return sorted(
        set(re.findall(r'imports of library "([^"]+)" are watched', cached.server.log_text()))
    )


def changers_of(library: Path) -> list[str]:
    """Return a library's imports that change files: all that pgflash watches except openings."""
    source = (REPOSITORY / "extension/src/hooks/library_calls.c").read_text()
    watched = set(re.findall(r'IMPORT(?:_64)?\("(\w+)"', source))
    harmless = re.compile(r"_*(open|openat|dup|fcntl|fsync|fdatasync|sync)")
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    return sorted(
        name for name in names if name.removesuffix("64") in watched and not harmless.match(name)
    )


@pytest.mark.parametrize("package", sorted(TRIALS))
def test_nothing_is_stale_beside(
    cluster: ClusterFactory,
    install: PgInstall,
    packages: dict[str, dict[str, Any]],
    own_libraries: set[str],
    package: str,
) -> None:
    trial = TRIALS[package]
    what = packages.get(package, {"version": install.version, "libraries": [], "controls": []})
    usr = install.root
    cached = create_cached(
        cluster,
        install,
        settings={
            "shared_preload_libraries": ",".join(filter(None, (trial.preload, "pgflash"))),
            "max_worker_processes": "24",
            "log_min_messages": "debug1",
            "jit": "off",
            **trial.settings,
        },
        preload_env={
            "LD_LIBRARY_PATH": f"{install.libdir}:{usr / 'lib'}",
            "R_HOME": str(usr / "lib" / "R"),
            "PROJ_LIB": str(usr / "share" / "proj"),
            "GDAL_DATA": str(usr / "share" / "gdal"),
        },
    )
    world = World(server=cached.server, space=cached.space)
    load_tables(world)
    outcome = "right"
    used = True
    names = what["controls"] if trial.create is None else trial.create
    try:
        run_all(cached, tuple(f'create extension if not exists "{name}" cascade' for name in names))
        run_all(cached, trial.prepare)
        run_all(cached, trial.use)
    except psycopg.Error as error:
        used = False
        outcome = f"could not be used: {str(error).splitlines()[0]}"
    for step in (update_rows, checkpoint, vacuum_tail, regrow_tail, vacuum_full):
        step(world)
    if package == "repack":
        cached.server.run(["pg_repack", "--table=stock", "postgres"])
    if used:
        run_all(cached, trial.use)
    world.check()
    view = assert_never_stale(cached, compared_min=HITS_MIN, go_on=world.check)
    libraries = [usr.parent / one.lstrip("/") for one in what["libraries"]]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{package}.json").write_text(
        json.dumps(
            {
                "package": package,
                "version": what["version"],
                "changers": sorted({name for one in libraries for name in changers_of(one)}),
                "watched": [one for one in watched_libraries(cached) if one not in own_libraries],
                "preload": trial.preload,
                "compared": compared_hits(view),
                "wrong": view["verify_mismatches"],
                "outcome": outcome,
                "remark": trial.remark,
            },
            indent=1,
        )
    )
    world.disconnect()
    assert used or trial.remark, outcome
