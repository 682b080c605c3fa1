"""Streams of programs with windows: in every way, what is streamed is what is evaluated."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.generate import Case
from oracle.keyed import keyed
from oracle.windows import programs_with_windows
from support.deep import examples
from support.streams import streams_what_is_evaluated

from tidelog.analysis.dependencies import Class, dependencies
from tidelog.errors import NoAnswer
from tidelog.logic.normalise import core

WAYS: tuple[dict[str, str], ...] = (
    {},
    {"emit": "eager"},
    {"history": "strict"},
    {"history": "strict", "emit": "eager"},
    {"mode": "online"},
    {"mode": "online", "emit": "eager"},
)
ways = st.sampled_from(WAYS)
randoms = st.randoms(use_true_random=False)
lateness = st.integers(0, 3)
connected = programs_with_windows(connected=True)


def streamed(case: Case, late: int, random: Random, file: Path | None = None, **how: str) -> None:
    """Refused is only what looks ahead without end, and a window that is not finite."""
    if random.random() < 0.3:
        case = keyed(case, random)
    deps = dependencies(core(case.program, case.queries), case.queries)
    ahead = deps.cls is Class.BLOCKING
    try:
        done = streams_what_is_evaluated(case, late, random, file, **how)
    except NoAnswer:
        assert ahead, case.text
        assert deps.cycles_through_not, case.text
        done = False
    event("compared" if done else "refused")
    assert done or ahead or how.get("history") == "strict", case.text


@examples(4, deep=200)
@given(connected, lateness, randoms, ways)
def test_any_way(case: Case, late: int, random: Random, how: dict[str, str]) -> None:
    streamed(case, late, random, **how)


@examples(3, deep=50)
@given(programs_with_windows(connected=True, long=True), lateness, randoms, ways)
def test_windows_longer_than_a_word(
    case: Case, late: int, random: Random, how: dict[str, str]
) -> None:
    streamed(case, late, random, **how)


@pytest.mark.deep
@examples(1, deep=15)
@given(
    programs_with_windows(connected=True, long=True, any_number=True, max_rules=2),
    lateness,
    randoms,
    ways,
)
def test_any_number_of_ticks_of_a_long_window(
    case: Case, late: int, random: Random, how: dict[str, str]
) -> None:
    streamed(case, late, random, **how)


@examples(3, deep=50)
@given(connected, lateness, randoms, ways)
def test_across_snapshots(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    late: int,
    random: Random,
    how: dict[str, str],
) -> None:
    file = tmp_path_factory.getbasetemp() / "windows.snapshot"
    streamed(case, late, random, file, **how)
