# SPDX-License-Identifier: PostgreSQL
"""What the pages show, made of what the collector knows: words, figures, tables.

Everything stands in the page as it is served, so it is complete without script; the script
only follows what comes after.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from pgflash.analyze.words import percent
from pgflash.model.live import Sample, Stretch
from pgflash.web import figures
from pgflash.web.collector import Collector
from pgflash.web.ring import Ring
from pgflash.web.tables import headline, tables

#: Tables of the present that no figure has.
_FACTS = ("Transactions", "Flash cache")


def newest_sample(ring: Ring) -> tuple[Sample | None, Mapping[str, Any] | None]:
    """Return the newest sample, and the same as viewers get it."""
    messages, _gap = ring.after(ring.newest - 10)
    for message in reversed(messages):
        if message.kind == "sample":
            return msgspec.json.decode(message.data, type=Sample), msgspec.json.decode(message.data)
    return None, None


def performance(collector: Collector, *, begin: str, end: str) -> dict[str, object]:
    """Return what the Performance page says; the stretch's own tables come with marked()."""
    sample, plain = newest_sample(collector.ring)
    live = collector.status.state == "live"
    drawn = figures.performance(sample, collector.server)
    facts = tables(sample) if sample is not None and live else ()
    return {
        "place": "Performance",
        "status": collector.status,
        "server": collector.server,
        "headline": headline(sample, collector.server),
        "figures": drawn,
        "hatchings": figures.hatchings(drawn),
        "sample": plain if live else None,
        "facts": [one for one in facts if one.title in _FACTS],
        "begin": begin,
        "end": end,
        "details": None,
        "length_s": 1.0,
        "error": "",
        "percent": percent,
    }


def marked(answer: bytes) -> dict[str, object]:
    """Return what the page says of a marked stretch, from the answer that scripts get."""
    stretch = msgspec.json.decode(answer, type=Stretch)
    length = datetime.fromisoformat(stretch.end) - datetime.fromisoformat(stretch.begin)
    return {"details": msgspec.json.decode(answer), "length_s": length.total_seconds()}
