"""Online: what is streamed is what is evaluated, as early and from as little as can be proved."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deep import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case, programs_and_facts

import tidelog
from tidelog.analysis.core import core
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.evaluation.facts import schemas
from tidelog.streaming.offline import Endless
from tidelog.streaming.schedule import Blocking
from tidelog.streaming.stream import Growing, Step, Stream


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    if table.column_names == ["holds"]:
        return [()] * table.num_rows
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def arrivals(case: Case, lateness: int, random: Random) -> dict[int, dict[str, list]]:
    """The temporal facts by the tick they arrive at, each up to `lateness` ticks late."""
    layout = schemas(case.program)
    found: dict[int, dict[str, list]] = {}
    for name, facts in case.facts.items():
        if layout[name].time is not None:
            for row in facts:
                at = row[-1] + random.randint(0, lateness)
                found.setdefault(at, {}).setdefault(name, []).append(row)
    return dict(sorted(found.items()))


def rigid_facts(case: Case) -> dict[str, list]:
    layout = schemas(case.program)
    return {n: r for n, r in case.facts.items() if layout[n].time is None}


def interrupted(
    stream: Stream, pushes: dict[int, dict[str, list]], again: Callable[[Stream], Stream]
) -> Iterator[Step]:
    """Take a snapshot after every tick, and go on from it in another stream."""
    for tick, facts in pushes.items():
        stream = again(stream)
        yield stream.push(tick, facts)
    yield again(stream).close()


def streams_what_is_evaluated(
    case: Case, lateness: int, random: Random, file: Path | None = None, **how: Any
) -> None:
    pushes = arrivals(case, lateness, random)
    if not pushes:
        return

    def made() -> Stream:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Growing)
            return Stream(
                case.program, case.queries, lateness=lateness, rigid=rigid_facts(case), **how
            )

    def restored(stream: Stream) -> Stream:
        assert file is not None
        stream.snapshot(file, {"kept": stream.history})
        new = made()
        assert new.restore(file) == {"kept": stream.history}
        assert new.history == stream.history
        assert new.facts() == stream.facts()
        return new

    try:
        stream = made()
    except (Blocking, Endless):
        return
    again = None if file is None else restored
    got: dict[str, list] = {query: [] for query in case.queries}
    for step in stream.run(pushes.items()) if again is None else interrupted(stream, pushes, again):
        assert not step.late
        for query, table in step.answers.items():
            got[query] += rows(table)
    times = [t for facts in pushes.values() for found in facts.values() for *_, t in found]
    want = naive.evaluate(
        case.program, case.facts, case.queries, min(*times, *pushes), max(*times, *pushes)
    )
    for query in case.queries:
        assert len(got[query]) == len(set(got[query])), "an answer came twice"
        assert set(got[query]) == want[query]


ways = st.sampled_from(
    [
        {"mode": "online"},
        {"mode": "online", "emit": "eager"},
    ]
)
offline = st.sampled_from(
    [
        {},
        {"emit": "eager"},
        {"history": "strict"},
        {"history": "strict", "emit": "eager"},
    ]
)
randoms = st.randoms(use_true_random=False)


@examples(150)
@given(programs_and_facts(connected=True, huge=False), st.integers(0, 3), randoms, ways)
def test_online_equals_naive_evaluation(
    case: Case, lateness: int, random: Random, how: dict[str, str]
) -> None:
    streams_what_is_evaluated(case, lateness, random, **how)


@examples(50)
@given(programs_and_facts(connected=True, explicit_times=False), st.integers(0, 3), randoms, ways)
def test_online_with_huge_offsets_equals_naive_evaluation(
    case: Case, lateness: int, random: Random, how: dict[str, str]
) -> None:
    # The timeline does not go that far.
    assume(dependencies(core(case.program), case.queries).cls is not Class.BLOCKING)
    streams_what_is_evaluated(case, lateness, random, **how)


@examples(60)
@given(programs_and_facts(connected=True, huge=False), st.integers(0, 3), randoms, offline)
def test_offline_in_every_style_equals_naive_evaluation(
    case: Case, lateness: int, random: Random, how: dict[str, str]
) -> None:
    streams_what_is_evaluated(case, lateness, random, **how)


@examples(60)
@given(programs_and_facts(connected=True, huge=False), st.integers(0, 3), randoms, ways)
def test_online_across_snapshots_equals_naive_evaluation(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    lateness: int,
    random: Random,
    how: dict[str, str],
) -> None:
    file = tmp_path_factory.getbasetemp() / "online.snapshot"
    streams_what_is_evaluated(case, lateness, random, file, **how)


@examples(30)
@given(programs_and_facts(connected=True, huge=False), st.integers(0, 3), randoms, offline)
def test_offline_across_snapshots_equals_naive_evaluation(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    lateness: int,
    random: Random,
    how: dict[str, str],
) -> None:
    file = tmp_path_factory.getbasetemp() / "offline.snapshot"
    streams_what_is_evaluated(case, lateness, random, file, **how)


@pytest.mark.parametrize("query", ["Malfunc", "Shdn"])
def test_history_stays_flat(query: str) -> None:
    program = tidelog.load("examples/turbines/rules.tdl")
    stream = Stream(program, [query], mode="online")
    random = Random(7)
    sizes = []
    for tick in range(2_000):
        found = [(d, random.choice(("high", "low"))) for d in "abcde"]
        sizes.append(stream.push(tick, {"Temp": found}).history)
    assert max(sizes[1000:]) <= max(sizes[:1000])
    assert max(sizes) <= 15
