"""Streams of programs that calculate: in every way, what is streamed is what is evaluated."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.generate import Case
from oracle.numbers import programs_with_numbers
from support.deep import examples
from support.streams import streams_what_is_evaluated

from tidelog.errors import NoAnswer

WAYS: tuple[dict[str, str], ...] = (
    {},
    {"emit": "eager"},
    {"history": "strict"},
    {"mode": "online"},
    {"mode": "online", "emit": "eager"},
)
randoms = st.randoms(use_true_random=False)


@examples(7, deep=1000)
@given(
    programs_with_numbers(connected=True),
    st.integers(0, 3),
    randoms,
    st.sampled_from(WAYS),
)
def test_every_way(case: Case, late: int, random: Random, how: dict[str, str]) -> None:
    try:
        done = streams_what_is_evaluated(case, late, random, **how)
    except NoAnswer:
        done = False
    event("compared" if done else "refused")


@examples(3, deep=200)
@given(programs_with_numbers(connected=True), randoms, st.sampled_from(WAYS))
def test_across_snapshots(
    tmp_path_factory: pytest.TempPathFactory, case: Case, random: Random, how: dict[str, str]
) -> None:
    file: Path = tmp_path_factory.mktemp("kept") / "snapshot"
    try:
        streams_what_is_evaluated(case, 1, random, file, **how)
    except NoAnswer:
        event("refused")
