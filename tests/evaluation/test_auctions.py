"""The rules of the auctions, whose answers SQL over all bids gives as well."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.csv
import pytest
from support.places import ROOT

import tidelog
from tidelog.streaming.options import StreamMode

AUCTIONS = ROOT / "examples" / "auctions"
QUERIES = ("Hot", "Recent", "LastTen")


@pytest.fixture
def bids(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    return import_module("benchmarks._bids")


def write(bids: ModuleType, folder: Path, ticks: int, bidders: int) -> Path:
    path, many = folder / "Bid.csv", 6 * ticks
    bids.write(bids.Sizes(many, at_once=6, auctions=30, wanted=3, change=20, bidders=bidders), path)
    return path


@pytest.fixture
def file(bids: ModuleType, tmp_path: Path) -> Path:
    """Six bids at each of 150 ticks, by 40 bidders: some twenty of each, at uneven distances."""
    return write(bids, tmp_path, 150, 40)


def rows(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("query", QUERIES)
def test_a_query(bids: ModuleType, file: Path, query: str) -> None:
    wanted = rows(bids.by_sql(query, file))
    assert len(wanted) > 100
    assert rows(tidelog.load(str(AUCTIONS / "rules.tdl")).query(query, str(file))) == wanted


@pytest.mark.parametrize(
    ("ticks", "bidders"), [(25, 13), pytest.param(150, 40, marks=pytest.mark.deep)]
)
@pytest.mark.parametrize("mode", ["offline", "online"])
def test_a_stream(
    bids: ModuleType, tmp_path: Path, mode: StreamMode, ticks: int, bidders: int
) -> None:
    """Some eleven bids of each of few bidders, or twenty of each of many."""
    file = write(bids, tmp_path, ticks, bidders)
    told: dict[str, Counter[tuple[object, ...]]] = {query: Counter() for query in QUERIES}
    by_tick: dict[int, list[tuple[object, ...]]] = {}
    for row in pa.csv.read_csv(file).to_pylist():
        by_tick.setdefault(row["time"], []).append(tuple(row.values()))
    stream = tidelog.Stream(tidelog.load(str(AUCTIONS / "rules.tdl")), mode=mode)
    steps = [stream.push(tick, {"Bid": facts}) for tick, facts in by_tick.items()]
    for step in (*steps, stream.close()):
        for query, table in step.answers.items():
            told[query] += rows(table)
    assert told == {query: rows(bids.by_sql(query, file)) for query in QUERIES}


@pytest.mark.parametrize("query", QUERIES)
def test_the_answers_beside_the_example(bids: ModuleType, query: str) -> None:
    kept = pa.csv.read_csv(AUCTIONS / "expected" / f"{query}.csv")
    assert rows(kept) == rows(bids.by_sql(query, AUCTIONS / "facts" / "Bid.csv"))


def test_nobody_bids_twice_in_a_tick(bids: ModuleType, file: Path) -> None:
    by_whom = pa.csv.read_csv(file).group_by(["bidder", "time"])
    assert by_whom.aggregate([]).num_rows == 900
    with pytest.raises(ValueError, match="40 bidders cannot all differ, 41 at a tick"):
        bids.Sizes(900, at_once=41, bidders=40)
