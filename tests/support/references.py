# SPDX-License-Identifier: PostgreSQL
"""References of an installed extension to anything but PostgreSQL's objects and its own.

Two sources are searched: pg_depend, which PostgreSQL maintains, and the stored expressions
themselves (views, bodies of functions, defaults, checks, conditions), by the OIDs in them.
"""

import re

from support.world import Connection

#: The first OID that initdb does not use.
FIRST_FOREIGN = 16384

_MEMBERS = """
with recursive extension as (
	select oid, extnamespace from pg_extension where extname = 'pgflash'
), member(classid, objid) as (
	select d.classid, d.objid from pg_depend d join extension e
		on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid and d.deptype = 'e'
	union
	select d.classid, d.objid from pg_depend d join member m
		on d.refclassid = m.classid and d.refobjid = m.objid and d.deptype in ('i', 'a')
)
"""

_DEPENDS = f"""{_MEMBERS}
select distinct pg_describe_object(m.classid, m.objid, 0),
	pg_describe_object(d.refclassid, d.refobjid, 0)
from member m
join pg_depend d on d.classid = m.classid and d.objid = m.objid
where d.refobjid >= {FIRST_FOREIGN}
	and (d.refclassid, d.refobjid) not in (select classid, objid from member)
	and (d.refclassid, d.refobjid) not in (
		select 'pg_extension'::regclass::oid, oid from extension
		union all select 'pg_namespace'::regclass::oid, extnamespace from extension)
"""

#: Where expressions are stored: catalog, column.
_STORED = (
    *(("pg_rewrite", "ev_action"), ("pg_rewrite", "ev_qual"), ("pg_attrdef", "adbin")),
    *(("pg_constraint", "conbin"), ("pg_proc", "prosqlbody"), ("pg_proc", "proargdefaults")),
    *(("pg_index", "indexprs"), ("pg_index", "indpred"), ("pg_trigger", "tgqual")),
)
_OWNER = {"pg_index": "indexrelid"}
_CLASS = {"pg_index": "pg_class"}

_OID = re.compile(
    r":(\w*(?:opno|funcid|fnoid|eqop|sortop|relid|resorigtbl|typeid|type|collid)) (\d+)"
)


def stored_expressions(connection: Connection) -> list[tuple[str, str]]:
    """Return each expression that the extension has stored: of which object, and its text."""
    found = []
    for catalog, column in _STORED:
        number = _OWNER.get(catalog, "oid")
        found += connection.execute(
            f"""{_MEMBERS}
            select pg_describe_object(m.classid, m.objid, 0), c.{column}::text
            from member m join {catalog} c on c.{number} = m.objid
            where m.classid = '{_CLASS.get(catalog, catalog)}'::regclass
                and c.{column} is not null"""
        ).fetchall()
    return [(str(what), str(text)) for what, text in found]


def foreign_references(connection: Connection) -> list[str]:
    """Return the extension's references to anything but PostgreSQL's objects and its own."""
    connection.execute("set search_path = pg_catalog, pg_temp")
    depends = [f"{one} on {other}" for one, other in connection.execute(_DEPENDS).fetchall()]
    own = {row[0] for row in connection.execute(f"{_MEMBERS} select objid from member").fetchall()}
    inside = [
        f"{what}: {key} {number}"
        for what, text in stored_expressions(connection)
        for key, number in _OID.findall(text)
        if int(number) >= FIRST_FOREIGN and int(number) not in own
    ]
    return sorted({*depends, *inside})
