"""Streams of long windows: done in one step, and very long counts never written out in clauses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from oracle.generate import Case
from oracle.keyed import keyed
from oracle.windows import programs_with_windows
from support.deep import examples
from support.streams import rows, streams_what_is_evaluated

import tidelog
from tidelog.analysis import sliced
from tidelog.analysis.dependencies import Class
from tidelog.analysis.passes import passes
from tidelog.logic import windows
from tidelog.logic.core import rules_for, rules_of
from tidelog.streaming import offline
from tidelog.streaming.options import StreamMode
from tidelog.streaming.snapshot import SnapshotError

LONG = "input Trip(x: text) @ t. Busy(X) @ T :- at least 100 Trip(X) @ [{}]."
PAST, AHEAD = LONG.format("T-1439, T"), LONG.format("T, T+1439")

WAYS: tuple[dict[str, str], ...] = (
    {},
    {"emit": "eager"},
    {"history": "strict"},
    {"mode": "online"},
    {"mode": "online", "emit": "eager"},
)
ways = st.sampled_from(WAYS)
randoms = st.randoms(use_true_random=False)
lateness = st.integers(0, 3)
connected = programs_with_windows(connected=True)


@contextmanager
def only_named(
    clauses: int = 3, most: int | None = None, long: int = sliced.LONG_WINDOW
) -> Iterator[None]:
    """Windows of more than some clauses are done in a step, and in slices those of more than some
    ticks; more facts than some go in a wave.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "MOST_WRITTEN_OUT", clauses)
        patch.setattr(sliced, "LONG_WINDOW", long)
        if most is not None:
            patch.setattr(offline, "MOST_FACTS", most)
        yield


def streamed(case: Case, late: int, random: Random, file: Path | None = None, **how: str) -> None:
    """In slices, in waves, or first in one and then in the other; nothing is special where answers
    may wait for ever.
    """
    case = keyed(case, random) if random.random() < 0.3 else case
    clauses, long = random.choice(((3, 64), (500, 2)))
    with only_named(clauses, random.choice((0, 3, 60_000)), long):
        needed = passes(case.program, case.queries)
        assume(needed.planned.cls is not Class.BLOCKING)
        rules = needed.planned if long == 64 else needed.sliced
        event(f"a window is done in a step: {bool(rules.core.windows)}: {long == 2}")
        done = streams_what_is_evaluated(case, late, random, file, **how)
    assert done or how.get("history") == "strict", case.text


@examples(4, deep=300)
@given(connected, lateness, randoms, ways)
def test_any_way(case: Case, late: int, random: Random, how: dict[str, str]) -> None:
    streamed(case, late, random, None, **how)


@examples(3, deep=60)
@given(
    programs_with_windows(connected=True, long=True, any_number=True, max_rules=2),
    lateness,
    randoms,
    ways,
)
def test_windows_longer_than_a_word(
    case: Case, late: int, random: Random, how: dict[str, str]
) -> None:
    streamed(case, late, random, None, **how)


@examples(3, deep=100)
@given(connected, lateness, randoms, ways)
def test_across_snapshots(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    late: int,
    random: Random,
    how: dict[str, str],
) -> None:
    file = tmp_path_factory.getbasetemp() / "counts.snapshot"
    streamed(case, late, random, file, **how)


@pytest.mark.parametrize("mode", ["offline", "online"])
@pytest.mark.parametrize("rule", [PAST, AHEAD])
def test_nothing_is_written_out(rule: str, mode: StreamMode) -> None:
    program = tidelog.parse(rule)
    stream = tidelog.Stream(program, "Busy", mode=mode)
    stream.push(0, {"Trip": [("a",)]})
    core = stream.deps.core
    assert (len(rules_of(core)), len(core.windows)) == (1, 1)
    assert stream.facts() == {"Trip": {0: {("a",)}}}


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_what_is_kept_are_the_facts_of_the_window(mode: StreamMode) -> None:
    stream = tidelog.Stream(tidelog.parse(PAST), "Busy", mode=mode)
    held = [stream.push(t, {"Trip": [("a",)]}).answers["Busy"].num_rows for t in range(1600)]
    assert held == [0] * 99 + [1] * 1501
    assert stream.history == 1439


def test_a_window_longer_than_any_data() -> None:
    program = tidelog.parse(LONG.format("T-1000000000, T"))
    stream = tidelog.Stream(program, "Busy")
    told = [
        row for t in range(150) for row in rows(stream.push(t, {"Trip": [("a",)]}).answers["Busy"])
    ]
    assert told == [("a", t) for t in range(99, 150)]


def test_redundant_rules_are_left_out_around_a_count() -> None:
    """Whatever a count comes to: such a rule would make answers wait for its window."""
    more = "Seen(X) @ T :- Trip(X) @ T. Seen(X) @ T :- Trip(X) @ T, Busy(X) @ T."
    stream = tidelog.Stream(tidelog.parse(f"{AHEAD} {more}"), "Seen")
    assert rows(stream.push(0, {"Trip": [("a",)]}).answers["Seen"]) == [("a", 0)]
    assert stream.history == 0
    also = (
        "Often(X) @ T :- Busy(X) @ T, Trip(X) @ T. Often(X) @ T :- Busy(X) @ T, Trip(X) @ T-1439."
    )
    planned = passes(tidelog.parse(f"{PAST} {also}"), ["Often"]).planned
    assert [len(clause.premises) for clause in rules_for(planned.core, "Often")] == [2, 2]


def test_a_count_beside_the_input_that_it_counts() -> None:
    """What is worked out about it as an input is not mixed up with the facts of the other."""
    rules = "input F(a: text, b: text) @ t. input G. H(a) :- G. N @ T :- F(X, X) @ T, not H(X),"
    program = tidelog.parse(f"{rules} not at least 100 F(X, _) @ [T-1439, T].")
    stream = tidelog.Stream(program, ["N"], rigid={"G": [()]})
    told = [
        stream.push(t, {"F": [("a", "a"), ("b", "b"), ("b", "c")]}).answers["N"].num_rows
        for t in range(120)
    ]
    assert told == [1] * 99 + [0] * 21


def test_what_is_pending_is_told_all_the_same() -> None:
    rule = "P(X) @ T :- Trip(X) @ T, at least 3 Trip(X) @ [T+1, T+9]."
    facts = {0: ["a"], 2: ["a", "b"], 3: ["a"], 5: ["a", "b"], 6: ["b"], 11: ["a"]}

    def told() -> list[tuple[list[object], list[str]]]:
        program = tidelog.parse(f"input Trip(x: text) @ t. {rule}")
        stream = tidelog.Stream(program, "P", mode="online")
        steps = []
        for t in range(14):
            step = stream.push(t, {"Trip": [(x,) for x in facts.get(t, [])]})
            steps.append((step.answers["P"].to_pylist(), list(map(str, stream.pending()))))
        return steps

    written_out = told()
    with only_named():
        assert told() == written_out
    assert any(answers for answers, _ in written_out)


@pytest.mark.parametrize("most", [60_000, 0])
def test_a_snapshot_of_what_was_written_out_is_refused(tmp_path: Path, most: int) -> None:
    rule = "input Trip(x: text) @ t. P(X) @ T :- at least 3 Trip(X) @ [T-9, T]."
    file = tmp_path / "stream.snapshot"
    with only_named(clauses=500, most=most):
        stream = tidelog.Stream(tidelog.parse(rule), "P")
        stream.push(0, {"Trip": [("a",)]})
        stream.snapshot(file)
    with only_named(most=most), pytest.raises(SnapshotError) as raised:
        tidelog.Stream(tidelog.parse(rule), "P").restore(file)
    told = str(raised.value)
    assert told.startswith(f"{file}: another version of tidelog took the snapshot")
    assert told.endswith("go on with that version, or start again without the snapshot")
