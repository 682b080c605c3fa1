"""Streams of programs with cycles through aggregates: what is streamed is what is evaluated."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.aggregates import programs_with_cycles
from oracle.generate import Case
from support.deep import examples
from support.streams import streams_what_is_evaluated

from tidelog.errors import NoAnswer

WAYS: tuple[dict[str, object], ...] = (
    {},
    {"emit": "eager"},
    {"history": "strict"},
    {"mode": "online"},
    {"intervals": True},
)
randoms = st.randoms(use_true_random=False)


@examples(16, deep=800)
@given(programs_with_cycles(connected=True), st.integers(0, 3), randoms, st.sampled_from(WAYS))
def test_every_way(case: Case, late: int, random: Random, how: dict[str, object]) -> None:
    try:
        done = streams_what_is_evaluated(case, late, random, **how)
    except NoAnswer:
        done = False
    event("compared" if done else "refused")


@examples(4, deep=200)
@given(programs_with_cycles(connected=True), randoms, st.sampled_from(WAYS[:2]))
def test_across_snapshots(
    tmp_path_factory: pytest.TempPathFactory, case: Case, random: Random, how: dict[str, object]
) -> None:
    file: Path = tmp_path_factory.mktemp("kept") / "snapshot"
    streams_what_is_evaluated(case, 1, random, file, **how)
