"""The files of a batch by Spark's own log.

Spark lists new files, writes the list down, and opens them later: one that has gone meanwhile it
leaves out without a word, and never looks for again.
"""

from __future__ import annotations

import json
from urllib.parse import unquote

from tidelog.pipeline.store import Store


def listed(store: Store, place: str, number: int) -> set[str]:
    """The addresses of the files that Spark wrote down for a batch of the query kept at a place."""
    before = _ends(store, place, number - 1)
    addresses: set[str] = set()
    for source, end in enumerate(_ends(store, place, number)):
        first = before[source] + 1 if before else 0
        for entry in range(first, end + 1):
            addresses |= _entry(store, place, source, entry)
    return addresses


def _ends(store: Store, place: str, number: int) -> list[int]:
    """How far a batch reads in the log of each source; nothing for a batch that is not there."""
    if number < 0 or not store.exists(place, "offsets", str(number)):
        return []
    _, _, *offsets = store.read(place, "offsets", str(number)).decode().splitlines()
    return [-1 if offset == "-" else json.loads(offset)["logOffset"] for offset in offsets]


def _entry(store: Store, place: str, source: int, entry: int) -> set[str]:
    """The files of one entry; now and then Spark writes all entries so far in one file."""
    for name in (str(entry), f"{entry}.compact"):
        if store.exists(place, "sources", str(source), name):
            text = store.read(place, "sources", str(source), name).decode()
            ours = [line for line in text.splitlines()[1:] if f'"batchId":{entry}' in line]
            files = map(json.loads, ours)
            return {unquote(file["path"]) for file in files if file["batchId"] == entry}
    return set()
