"""Online: what is streamed is what is evaluated, as early and from as little as can be proved."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle.generate import Case, programs_and_facts
from support.deep import examples, times
from support.streams import rows, streams_what_is_evaluated

import tidelog
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.data.schema import schemas
from tidelog.logic.normalise import core
from tidelog.streaming import offline as offline_module
from tidelog.streaming.offline import Endless
from tidelog.streaming.snapshot import SnapshotError
from tidelog.streaming.stream import Growing, Stream

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


@examples(3, deep=120)
@given(programs_and_facts(connected=True, huge=False), st.integers(0, 3), randoms, ways)
def test_online_equals_naive_evaluation(
    case: Case, lateness: int, random: Random, how: dict[str, str]
) -> None:
    streams_what_is_evaluated(case, lateness, random, **how)


@examples(3, deep=2000)
@given(
    programs_and_facts(connected=True, wide=True),
    st.integers(0, 3),
    randoms,
    ways | offline,
)
def test_what_an_attack_has_found_mistakes_with(
    case: Case, lateness: int, random: Random, how: dict[str, str]
) -> None:
    streams_what_is_evaluated(case, lateness, random, **how)


@examples(5, deep=500)
@given(programs_and_facts(connected=True, explicit_times=False), st.integers(0, 3), randoms, ways)
def test_online_with_huge_offsets_equals_naive_evaluation(
    case: Case, lateness: int, random: Random, how: dict[str, str]
) -> None:
    # The timeline does not go that far.
    assume(dependencies(core(case.program), case.queries).cls is not Class.BLOCKING)
    streams_what_is_evaluated(case, lateness, random, **how)


@examples(4, deep=200)
@given(programs_and_facts(connected=True, huge=False), st.integers(0, 3), randoms, offline)
def test_offline_in_every_style_equals_naive_evaluation(
    case: Case, lateness: int, random: Random, how: dict[str, str]
) -> None:
    streams_what_is_evaluated(case, lateness, random, **how)


@examples(4, deep=200)
@given(
    programs_and_facts(connected=True, huge=False),
    st.integers(0, 3),
    randoms,
    st.sampled_from([{}, {"emit": "eager"}]),
    st.integers(0, 6),
    st.sampled_from([0, 3, 1_000]),
)
def test_a_wave_takes_over_when_there_are_many_facts(
    case: Case, lateness: int, random: Random, how: dict[str, str], most: int, kept: int
) -> None:
    """And hands what it keeps back, if that is little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offline_module, "MOST_FACTS", most)
        patch.setattr(offline_module, "MOST_KEPT", kept)
        streams_what_is_evaluated(case, lateness, random, **how)


@examples(3, deep=120)
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


@examples(3, deep=120)
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
        facts = [(d, random.choice(("high", "low"))) for d in "abcde"]
        sizes.append(stream.push(tick, {"Temp": facts}).history)
    assert max(sizes) <= 10  # two ticks of five devices


def test_large_tables_go_to_a_wave_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_module, "MOST_FACTS", 3)
    random = Random(1)
    given = [
        [(f"d{i}", random.choice(("high", "low", None)), t) for i in range(4 if t % 3 else 2)]
        for t in range(12)
    ]
    program = tidelog.load("examples/turbines/rules.tdl")
    answers: list[list] = []
    for table, kept in ((True, 0), (True, 1_000), (False, 0), (False, 1_000)):
        monkeypatch.setattr(offline_module, "MOST_KEPT", kept)
        stream = Stream(program, ["Malfunc"], lateness=1)
        told: list = []
        for tick, facts in enumerate(given):
            columns = dict(zip(("device", "level", "time"), zip(*facts, strict=True), strict=True))
            late = pa.table(columns) if table else [f for f in facts if None not in f]
            told += rows(stream.push(tick + 1, {"Temp": late}).answers["Malfunc"])
        answers.append(sorted(told + rows(stream.close().answers["Malfunc"])))
    assert answers[0] == answers[1] == answers[2] == answers[3] != []


def test_after_a_large_push_small_ones_are_taken_tick_by_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tidelog.parse("Again(X) @ T :- E(X) @ T-50, E(X) @ T.")
    stream = Stream(program, ["Again"])
    monkeypatch.setattr(offline_module, "MOST_FACTS", 100)
    first = stream.push(199, {"E": [(f"x{t % 5}", t) for t in range(200)]})
    waves: list[object] = []
    monkeypatch.setattr(offline_module.OfflineAlgorithm, "_waves", lambda *_: waves.append(1))
    answers = rows(first.answers["Again"])
    for tick in range(200, 300):
        step = stream.push(tick, {"E": [(f"x{tick % 5}",)]})
        assert step.history == 50
        answers += rows(step.answers["Again"])
    assert sorted(answers) == sorted((f"x{t % 5}", t) for t in range(50, 300))
    assert not waves


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_long_gap_is_one_step(mode: str) -> None:
    """A year of silence is not lived through second by second."""
    program = tidelog.parse("P(X) @ T :- E(X) @ T-2, F(X) @ T+3.")
    stream = Stream(program, ["P"], mode=mode)
    stream.push(0, {"E": [("a",)]})
    step = stream.push(31_536_000, {"E": [("b",)]})
    assert step.history == 1
    assert step.tout == 31_536_000 - (0 if mode == "online" else 3)


def test_eager_answers_come_once_and_tout_says_what_is_final() -> None:
    program = tidelog.parse("P(X) @ T :- E(X) @ T. P(X) @ T :- F(X) @ T+2.")
    stream = Stream(program, ["P"], mode="online", emit="eager")
    step = stream.push(0, {"E": [("a",)]})
    assert (rows(step.answers["P"]), step.tout) == ([("a", 0)], -1)
    step = stream.push(1)
    assert (rows(step.answers["P"]), step.tout) == ([], -1)
    step = stream.push(2, {"F": [("a",), ("b",)]})
    assert (rows(step.answers["P"]), step.tout) == ([("b", 0)], 0)


def test_blocking_queries_stream_with_a_warning() -> None:
    program = tidelog.parse("Late @ T :- Alarm @ T.\nLate @ T :- Late @ T+1.", "late.tdl")
    with pytest.warns(Growing, match=r"every fact is kept.*late\.tdl:2"):
        stream = Stream(program, ["Late"], mode="online")
    assert stream.push(0).tout == -1
    step = stream.push(1, {"Alarm": [()]})
    assert (rows(step.answers["Late"]), step.tout) == ([(0,), (1,)], 1)
    assert [p.time for p in (stream.push(2), *stream.pending())[1:]] == [2]
    assert rows(stream.close().answers["Late"]) == []


def test_recursion_keeps_what_it_carries_on_and_not_where_it_came_from() -> None:
    program = tidelog.load("examples/turbines/rules.tdl")
    stream = Stream(program, ["AtRisk"], mode="online", rigid={"Near": [("a", "b")]})
    for tick in range(3):
        stream.push(tick, {"Temp": [("a", "high")]})
    for tick in range(3, 200):
        step = stream.push(tick)
        assert rows(step.answers["AtRisk"]) == [("b", tick)]
        assert step.history == 1
    assert stream.facts() == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "both"}, "mode is offline or online"),
        ({"emit": "never"}, "emit is definitive or eager"),
        ({"history": "all"}, "history is derived or strict"),
        ({"mode": "online", "history": "strict"}, "strict is a style of offline"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stream(tidelog.parse("P @ T :- E @ T."), **options)


def test_strict_needs_a_window() -> None:
    program = tidelog.load("examples/turbines/rules.tdl")
    with pytest.raises(Endless, match="no window is enough for AtRisk"):
        Stream(program, ["AtRisk"], history="strict")


# Snapshots


def stream_of(text: str = "P(X) @ T :- E(X) @ T, F(X) @ T+1.", **options: Any) -> Stream:
    return Stream(tidelog.parse(text), ["P"], **{"mode": "online", **options})


def test_recursive_rules_keep_no_fact_longer_than_a_restored_stream(tmp_path: Path) -> None:
    """With no E at 6 nothing can follow from E at 0, though P is carried on for ever."""
    rules = "input E @ t. P @ T+2 :- E @ T-5, E @ T+1. P @ T+1 :- P @ T."
    stream = Stream(tidelog.parse(rules), "P", mode="online")
    for tick in range(7):
        stream.push(tick, {"E": [()] if tick == 0 else []})
        stream.snapshot(tmp_path / "kept")
        restored = Stream(tidelog.parse(rules), "P", mode="online")
        restored.restore(tmp_path / "kept")
        assert stream.history == restored.history == (1 if tick < 6 else 0)


def test_a_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "snapshot"
    stream = stream_of()
    stream.push(0, {"E": [("a",)]})
    stream.snapshot(file)
    whole = file.read_bytes()
    for n in range(0, len(whole), 7):
        for damaged in (whole[:n], whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :]):
            file.write_bytes(damaged)
            with pytest.raises(SnapshotError, match=r"snapshot"):
                stream_of().restore(file)
    with pytest.raises(SnapshotError, match="there is no snapshot"):
        stream_of().restore(tmp_path / "nowhere")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["snapshot"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"text": "P(X) @ T :- E(X) @ T, F(X) @ T+2."}, "rules"),
        ({"mode": "offline"}, "mode"),
        ({"emit": "eager"}, "emit"),
        ({"from_": 3}, "from"),
    ],
)
def test_a_snapshot_of_another_stream_is_refused(
    tmp_path: Path, options: dict[str, Any], what: str
) -> None:
    stream = stream_of()
    stream.push(0, {"E": [("a",)]})
    stream.snapshot(tmp_path / "snapshot")
    with pytest.raises(SnapshotError, match=f"a stream with other {what}[;:]"):
        stream_of(**options).restore(tmp_path / "snapshot")


def test_a_stream_that_has_begun_is_not_restored(tmp_path: Path) -> None:
    stream = stream_of()
    stream.push(0)
    stream.snapshot(tmp_path / "snapshot")
    with pytest.raises(ValueError, match="has not begun"):
        stream.restore(tmp_path / "snapshot")


# Real data


@pytest.mark.grows
@pytest.mark.parametrize("mode", ["online", "offline"])
@pytest.mark.parametrize("name", ["la_haute_borne", "nab"])
def test_real_data_tick_by_tick(name: str, mode: str, shared_data: Path) -> None:
    folder = shared_data / name
    program = tidelog.load(folder / "rules.tdl")
    layout = schemas(program)
    rigid: dict[str, list] = {}
    by_tick: dict[int, dict[str, list]] = {}
    for predicate, schema in layout.items():
        converters = [{"int": int, "float": float}.get(str(c.type), str) for c in schema.columns]
        with (folder / "facts" / f"{predicate}.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                if any(row[n] == "" for n in schema.names):
                    continue
                values = tuple(
                    f(row[c.name]) for f, c in zip(converters, schema.columns, strict=True)
                )
                if schema.time is None:
                    rigid.setdefault(predicate, []).append(values)
                else:
                    at = int(row[schema.time])
                    by_tick.setdefault(at, {}).setdefault(predicate, []).append(values)
    # The whole of it takes minutes; `make test-deep` reads further.
    some = sorted(by_tick)[: times(400)]
    stream = Stream(program, rigid=rigid, mode=mode)
    got: dict[str, list] = {query: [] for query in program.outputs}
    for step in stream.run((tick, by_tick[tick]) for tick in some):
        for query, table in step.answers.items():
            got[query] += rows(table)
    facts = {p: [(*r, t) for t in some for r in by_tick[t].get(p, ())] for p in layout}
    for query in program.outputs:
        want = program.query(query, {**facts, **rigid}, from_=some[0], to=some[-1])
        assert sorted(got[query], key=str) == sorted(rows(want), key=str)
