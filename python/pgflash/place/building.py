# SPDX-License-Identifier: PostgreSQL
"""How much room it takes to rebuild a table or an index, which may be more than it has now.

**The result** is packed to the fill factor, which may have been lowered since: pages that are full
now grow by that much. (The rebuild also removes bloat, which is not counted.)

**The sort** of a new index holds every entry once, with its key.  An index that stores equal keys
once (B-tree since 13, GIN) is several times smaller than its sort.  The sort uses temporary files
if it does not fit into maintenance_work_mem, and always when several processes build together,
since they hand over sorted data in files.  REINDEX CONCURRENTLY then sorts the addresses of all
entries once more.  That takes less, except for GIN, which has an entry for each word of each row.

Measured on 15 to 18: a B-tree 20 bytes a row for an int4, GIN 12 bytes an entry.
"""

from pgflash.place.cluster import Cluster
from pgflash.place.relations import Relation

#: Access methods whose indexes several processes may build together in at least one major version.
_PARALLEL = frozenset({"btree", "gin", "brin"})

#: The densest GIN takes this many bytes per entry, and sorting its address takes so many.
_GIN_ENTRY_BYTES, _GIN_SORTED_BYTES = 1.4, 12

_FILL_FACTOR = """
select option_value::float8 from pg_class c, pg_options_to_table(c.reloptions)
 where c.oid = %s and option_name = 'fillfactor'
"""

#: Bytes of an entry in the sort: its length, its header and its key, in steps of eight.
_ENTRY = """
select a.amname, c.relpages * current_setting('block_size')::int8, greatest(c.reltuples, 0)::float8,
       4 + 8 * ceil((8 + sum(case when k.attlen > 0 then k.attlen else coalesce(
           (select max(s.avg_width) from pg_stats s
             where s.schemaname = n.nspname
               and s.tablename = case when of.attname is null then c.relname else t.relname end
               and s.attname = coalesce(of.attname, k.attname)), 32) end)) / 8.0)::float8,
       current_setting('max_parallel_maintenance_workers')::int
  from pg_class c
  join pg_am a on a.oid = c.relam
  join pg_index i on i.indexrelid = c.oid
  join pg_class t on t.oid = i.indrelid
  join pg_namespace n on n.oid = c.relnamespace
  join pg_attribute k on k.attrelid = c.oid
  left join pg_attribute of on of.attrelid = t.oid and of.attnum = i.indkey[k.attnum - 1]
                           and of.attnum > 0
 where c.oid = %s
 group by 1, 2, 3, 5
"""


def built_bytes(cluster: Cluster, relation: Relation) -> int:
    """Return how large a relation may be after a rebuild."""
    percent = float(cluster.value(_FILL_FACTOR, relation.oid, database=relation.database) or 100)
    return round(relation.bytes * 100 / percent)


def sort_bytes(cluster: Cluster, index: Relation, memory_bytes: int) -> int:
    """Return how much the sort of an index may put into temporary files."""
    rows = cluster.rows(_ENTRY, index.oid, database=index.database)
    if not rows:
        return 0  # it has just been dropped
    method, counted_bytes, entries, entry_bytes, workers = rows[0]
    sorted_bytes = float(index.bytes)
    if method == "btree" and counted_bytes:
        # Assume the same density as when the entries were counted.
        sorted_bytes *= max(entries * entry_bytes / counted_bytes, 1)
    elif method == "gin":
        sorted_bytes *= _GIN_SORTED_BYTES / _GIN_ENTRY_BYTES
    is_parallel = workers > 0 and method in _PARALLEL
    return round(sorted_bytes) if is_parallel or sorted_bytes > memory_bytes else 0
