"""Streams in process over generated programs: what is streamed must be what is evaluated."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import assume
from oracle import naive
from oracle.generate import Case

from support.disguise import disguised
from support.spells import due, spells
from tidelog.data.schema import schemas
from tidelog.evaluation.timeline import TooHard
from tidelog.language.program import Row
from tidelog.streaming.offline import Endless
from tidelog.streaming.schedule import Blocking
from tidelog.streaming.stream import Growing, Step, Stream


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    if table.column_names == ["holds"]:
        return [()] * table.num_rows
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def arrivals(case: Case, lateness: int, random: Random) -> dict[int, dict[str, list[Row]]]:
    """The temporal facts by the tick they arrive at, each up to `lateness` ticks late."""
    layout = schemas(case.program)
    by_tick: dict[int, dict[str, list[Row]]] = {}
    for name, facts in case.facts.items():
        if layout[name].time is not None:
            for row in facts:
                at = int(row[-1]) + random.randint(0, lateness)
                by_tick.setdefault(at, {}).setdefault(name, []).append(row)
    return dict(sorted(by_tick.items()))


def rigid_facts(case: Case) -> dict[str, list[Row]]:
    layout = schemas(case.program)
    return {n: r for n, r in case.facts.items() if layout[n].time is None}


def interrupted(
    stream: Stream, pushes: dict[int, dict[str, list[Row]]], again: Callable[[Stream], Stream]
) -> Iterator[Step]:
    """Take a snapshot after every tick, and go on from it in another stream."""
    for tick, facts in pushes.items():
        stream = again(stream)
        yield stream.push(tick, facts)
    yield again(stream).close()


def streams_what_is_evaluated(
    case: Case,
    lateness: int,
    random: Random,
    file: Path | None = None,
    disguises: bool = False,
    **how: Any,
) -> bool:
    """Whether the program can be streamed that way; if so, its answers have been compared.

    With `disguises` the stream goes on from each snapshot with the same rules in disguise.
    """
    pushes = arrivals(case, lateness, random)
    if not pushes:
        return True

    def made() -> Stream:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Growing)
            asked = list(case.queries)
            random.shuffle(asked)
            return Stream(
                disguised(case.program, random) if disguises else case.program,
                asked if disguises else case.queries,
                lateness=lateness,
                rigid=rigid_facts(case),
                budget=0.2,
                **how,
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
        return False
    again = None if file is None else restored
    got: dict[str, list[Row]] = {query: [] for query in case.queries}
    touts: list[tuple[int | None, dict[str, set[Row]]]] = []
    steps = stream.run(pushes.items()) if again is None else interrupted(stream, pushes, again)
    try:
        for step in steps:
            assert not step.late
            for query, table in step.answers.items():
                got[query] += rows(table)
            touts.append((step.tout, {query: set(some) for query, some in got.items()}))
    except TooHard:
        assume(False)  # the timeline's answers do not come within the budget either
    times = [int(row[-1]) for facts in pushes.values() for some in facts.values() for row in some]
    want = naive.evaluate(
        case.program, case.facts, case.queries, min(*times, *pushes), max(*times, *pushes)
    )
    if how.get("intervals"):
        temporal = [query for query in case.queries if stream.deps.core.predicates[query].temporal]
        for query in temporal:
            want[query] = spells(want[query], eager=how.get("emit") == "eager")
            for tout, told in touts:
                assert tout is None or due(want[query], tout) <= told[query], "told too late"
    for query in case.queries:
        assert len(got[query]) == len(set(got[query])), "an answer came twice"
        assert set(got[query]) == want[query]
    return True
