"""Windows that would hold at more ticks than can be written out."""

from __future__ import annotations

import pytest

import tidelog
from tidelog.errors import DataError

FACTS = {"E": [(0,), (1,)]}


@pytest.mark.parametrize("words", ["some", "at least 2"])
def test_a_window_that_reaches_too_far_is_refused(words: str) -> None:
    program = tidelog.parse(f"input E @ t. P @ T :- {words} E @ [T-{10**12}, T].")
    assert program.query("P", FACTS).num_rows == (2 if words == "some" else 1)
    with pytest.raises(DataError, match="a window over `E` may hold at each of"):
        program.query("P", FACTS, to=10**11)


def test_a_run_is_no_longer_than_its_facts() -> None:
    program = tidelog.parse(f"input E @ t. P @ T :- always E @ [T-{10**12}, T].")
    assert program.query("P", FACTS, to=10**11).num_rows == 0
