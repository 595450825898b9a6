# SPDX-License-Identifier: PostgreSQL
"""The contents of the pages, from the collector's data: words, figures, tables.

A page is complete as it is served, without scripts; the script only adds later samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec

from pgflash.live.collector import Collector
from pgflash.live.ring import Ring
from pgflash.live.tables import NOTHING_YET, tables
from pgflash.model.live import Focus, Sample, TimeRange
from pgflash.model.moments import print_clock
from pgflash.model.words import figure, percent, sentence
from pgflash.report.printed import print_table
from pgflash.web import cache_words, figures

#: Tables of the newest sample that have no figure.
_FACTS = ("Transactions", "Flash cache")


def newest_sample(ring: Ring) -> tuple[Sample | None, Mapping[str, Any] | None]:
    """Return the newest sample, and the same as decoded JSON."""
    messages, _gap = ring.after(ring.newest - 10)
    for message in reversed(messages):
        if message.kind == "sample":
            return msgspec.json.decode(message.data, type=Sample), msgspec.json.decode(message.data)
    return None, None


def newest_notice(ring: Ring) -> str:
    """Return the last notice of a change of the server in the ring, or nothing."""
    messages, _gap = ring.after(0)
    for message in reversed(messages):
        if message.kind == "notice":
            said = msgspec.json.decode(message.data)
            return f"{print_clock(datetime.fromisoformat(said['at']))}: {said['sentence']}"
    return ""


def standing(collector: Collector) -> dict[str, object]:
    """Return the state of the server, for any page."""
    return {
        "status": collector.status,
        "notice": newest_notice(collector.ring),
        "server": collector.server,
    }


def performance(
    collector: Collector, *, begin: str, end: str, focus: Focus, root: str = ""
) -> dict[str, object]:
    """Return the contents of the Performance page; marked() adds the tables of a range.

    ROOT is the beginning of its server's paths.
    """
    sample, plain = newest_sample(collector.ring)
    live = collector.status.state == "live"
    drawn = figures.performance(sample, collector.server)
    if not focus.is_all:
        drawn = (figures.focused(focus, collector.server),)
    facts = tables(sample) if sample is not None and live and focus.is_all else ()
    times = {name: word for name, word in (("from", begin), ("to", end)) if word}
    chosen = {one.name: getattr(focus, one.name) for one in fields(Focus)}
    address = partial(_address, root, times, {name: word for name, word in chosen.items() if word})
    return {
        **standing(collector),
        "place": "Performance",
        "headline": sample.headline if sample is not None else NOTHING_YET,
        "figures": drawn,
        "hatchings": figures.hatchings(drawn),
        "sample": plain if live else None,
        "facts": [print_table(one) for one in facts if one.title in _FACTS],
        "begin": begin,
        "end": end,
        "chosen": chosen,
        "address": address,
        "chips": [
            (_TITLES[name], word, address(name, "")) for name, word in chosen.items() if word
        ],
        "unnamed": UNNAMED,
        "about": None,
        "details": None,
        "length_s": 1.0,
        "error": "",
        "number": figure,
        "percent": percent,
    }


#: Rows that stand for several things, and so are not links; range.js has the same list.
UNNAMED = ("without an identifier", "all others together", "without a name")

_TITLES = {
    "query": "Statement",
    "session": "Session",
    "wait": "Wait",
    "relation": "Relation",
    "user": "User",
    "database": "Database",
    "application": "Application",
    "client": "Client",
}


def _address(
    root: str, times: Mapping[str, str], chosen: Mapping[str, str], name: str, word: str
) -> str:
    """Return the URL of the page with one more filter, or with one less if WORD is empty.

    It is unknown for which relation a session waits, so a relation excludes the other filters.
    """
    apart = name == "relation"
    kept = {one: of for one, of in chosen.items() if not apart and one not in ("relation", name)}
    words = {**times, **kept, name: word}
    return f"{root}/?{urlencode({one: of for one, of in words.items() if of})}"


def marked(answer: bytes) -> dict[str, object]:
    """Return the page's contents for a selected range, from the answer that scripts get."""
    time_range = msgspec.json.decode(answer, type=TimeRange)
    length = datetime.fromisoformat(time_range.end) - datetime.fromisoformat(time_range.begin)
    found: dict[str, object] = {
        "details": msgspec.json.decode(answer),
        "length_s": length.total_seconds(),
    }
    if time_range.spans:
        found["sample"] = {
            "aas": _mean([(one.elapsed_s, one.aas) for one in time_range.spans]),
            "files": _mean([(one.elapsed_s, one.files) for one in time_range.spans]),
        }
    return found


def _mean(spans: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Return the mean of each name's values, weighted by time."""
    elapsed = sum(seconds for seconds, _values in spans)
    names = {name for _seconds, values in spans for name in values}
    return {
        name: sum(values.get(name, 0.0) * seconds for seconds, values in spans) / elapsed
        for name in names
    }


# ---- the flash cache


def flash(collector: Collector, view: Mapping[str, Any] | None, *, error: str) -> dict[str, object]:
    """Return the contents of the flash cache's page from a CacheView as decoded JSON."""
    _sample, plain = newest_sample(collector.ring)
    live = collector.status.state == "live"
    found = view or {}
    present = bool(found.get("present"))
    drawn = figures.flash() if present else ()
    return {
        **standing(collector),
        "place": "Flash cache",
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
            if present or name != "flash cache"  # the page's first sentence is about that
        },
    }


def _mode(view: Mapping[str, Any]) -> str:
    if not view.get("present"):
        why = view.get("missing", {}).get("flash cache", "")
        return f"There is no flash cache: {why}." if why else "There is no flash cache."
    reason = str(view.get("mode_reason") or "")
    return f"Mode: {view['mode']}. {sentence(reason)}{'.' if reason else ''}"
