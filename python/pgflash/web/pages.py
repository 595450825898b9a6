# SPDX-License-Identifier: PostgreSQL
"""The contents of the pages, from what the collector knows: words, figures, tables.

The served page contains everything, so it is complete without script; the script only adds what
follows.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from pgflash.live.collector import Collector
from pgflash.live.ring import Ring
from pgflash.live.tables import NOTHING_YET, tables
from pgflash.model.live import Sample, Stretch
from pgflash.model.words import percent, sentence
from pgflash.report.printed import print_table
from pgflash.web import cache_words, figures

#: Tables of the present without a figure.
_FACTS = ("Transactions", "Flash cache")


def newest_sample(ring: Ring) -> tuple[Sample | None, Mapping[str, Any] | None]:
    """Return the newest sample, and the same in the form that viewers get."""
    messages, _gap = ring.after(ring.newest - 10)
    for message in reversed(messages):
        if message.kind == "sample":
            return msgspec.json.decode(message.data, type=Sample), msgspec.json.decode(message.data)
    return None, None


def newest_notice(ring: Ring) -> str:
    """Return the last notice of a change of the server, as long as the ring keeps it."""
    messages, _gap = ring.after(0)
    for message in reversed(messages):
        if message.kind == "notice":
            said = msgspec.json.decode(message.data)
            return f"{said['at'][11:19]}: {said['sentence']}"
    return ""


def performance(collector: Collector, *, begin: str, end: str) -> dict[str, object]:
    """Return the contents of the Performance page; marked() adds the stretch's own tables."""
    sample, plain = newest_sample(collector.ring)
    live = collector.status.state == "live"
    drawn = figures.performance(sample, collector.server)
    facts = tables(sample) if sample is not None and live else ()
    return {
        "place": "Performance",
        "status": collector.status,
        "notice": newest_notice(collector.ring),
        "server": collector.server,
        "headline": sample.headline if sample is not None else NOTHING_YET,
        "figures": drawn,
        "hatchings": figures.hatchings(drawn),
        "sample": plain if live else None,
        "facts": [print_table(one) for one in facts if one.title in _FACTS],
        "begin": begin,
        "end": end,
        "details": None,
        "length_s": 1.0,
        "error": "",
        "percent": percent,
    }


def marked(answer: bytes) -> dict[str, object]:
    """Return the page's contents for a marked stretch, from the answer that scripts get."""
    stretch = msgspec.json.decode(answer, type=Stretch)
    length = datetime.fromisoformat(stretch.end) - datetime.fromisoformat(stretch.begin)
    return {"details": msgspec.json.decode(answer), "length_s": length.total_seconds()}


# ---- the flash cache


def flash(collector: Collector, view: Mapping[str, Any] | None, *, error: str) -> dict[str, object]:
    """Return the contents of the flash cache's page from a CacheView as scripts get it."""
    _sample, plain = newest_sample(collector.ring)
    live = collector.status.state == "live"
    found = view or {}
    present = bool(found.get("present"))
    drawn = figures.flash() if present else ()
    return {
        "place": "Flash cache",
        "status": collector.status,
        "notice": newest_notice(collector.ring),
        "server": collector.server,
        "sentence": _mode(found) if view is not None else "",
        "error": error,
        "figures": drawn,
        "hatchings": figures.hatchings(drawn),
        "sample": plain if live else None,
        "outcome": cache_words.outcome(found) if present else None,
        "facts": cache_words.facts(found["cache"]) if present else (),
        "budget": cache_words.budget(found["budget"]) if found.get("budget") else None,
        "curve": cache_words.curve(found) if found.get("advice") else None,
        "tables": cache_words.tables(found) if present else (),
        "missing": {
            name: why
            for name, why in found.get("missing", {}).items()
            if present or name != "flash cache"  # the first sentence says it
        },
    }


def _mode(view: Mapping[str, Any]) -> str:
    if not view.get("present"):
        why = view.get("missing", {}).get("flash cache", "")
        return f"There is no flash cache: {why}." if why else "There is no flash cache."
    reason = str(view.get("mode_reason") or "")
    return f"Mode: {view['mode']}. {sentence(reason)}{'.' if reason else ''}"
