"""The examples count what they mean: neither the lint nor a run warns of equal rows."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from support.places import ROOT

import tidelog
from tidelog.language.checks import check
from tidelog.language.diagnostics import Code

EXAMPLES = ROOT / "examples"
RULES = sorted(path for path in EXAMPLES.glob("*/*.tdl") if ":-" in path.read_text())
# Examples with files that have all inputs, and the length of a tick unless the rules say it.
RUN = {
    "auctions/rules": None,
    "datacentre/rules": "1m",
    "la_haute_borne/fleet": None,
    "payments/rules": "1s",
    "payments/totals": "1s",
}


@pytest.mark.parametrize("path", RULES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_count_of_an_example_counts_ticks(path: Path) -> None:
    found = check(path.read_text(), str(path)).diagnostics
    assert not [one for one in found if one.code is Code.COUNTS_TICKS]


@pytest.mark.parametrize("name", RUN)
def test_no_row_of_an_example_is_lost_among_equal_ones(name: str) -> None:
    program, tick = tidelog.load(str(EXAMPLES / f"{name}.tdl")), RUN[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for query in program.outputs:
            program.query(query, (EXAMPLES / name).parent / "facts", tick=tick)
    assert not [str(w.message) for w in caught if "equal" in str(w.message)]
