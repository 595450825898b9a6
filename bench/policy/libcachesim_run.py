# SPDX-License-Identifier: PostgreSQL
"""One policy of libcachesim over one stream: misses at each size, as JSON.

python libcachesim_run.py POLICY STREAM.bin BLOCKS...

A separate process, in a separate environment: a policy that crashes or never ends costs its line in
the table and nothing else.
"""

import json
import sys

import libcachesim


def misses(policy: str, stream: str, blocks: int) -> float:
    reader = libcachesim.TraceReader(
        stream,
        libcachesim.TraceType.ORACLE_GENERAL_TRACE,
        libcachesim.ReaderInitParam(ignore_obj_size=True),
    )
    cache = getattr(libcachesim, policy)(cache_size=blocks)
    miss_ratio, _ = cache.process_trace(reader)
    return float(miss_ratio)


if __name__ == "__main__":
    print(json.dumps([misses(sys.argv[1], sys.argv[2], int(n)) for n in sys.argv[3:]]))
