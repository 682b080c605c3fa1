"""The report puts first what is nearest to the outputs, and stays small enough to be sent."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

import tidelog
from tidelog.analysis.passes import passes
from tidelog.views.pictures import graph_svg

EXAMPLES = sorted(p for p in (ROOT / "examples").glob("*/*.tdl") if ":-" in p.read_text())
CHAIN = """
input Seen(id: text, x: text, v: int) @ t.
output Out(x, n).
Far(I, X) @ T :- Seen(I, X, V) @ T, V > 5.
Near(X, N) @ T :- Far(_, X) @ T, N = count(Far(_, X) @ [T-4, T]).
Out(X, N) @ T :- Near(X, N) @ T, N > 1.
"""


def report(folder: Path, rows: list[tuple[Any, ...]]) -> str:
    out = folder / "report.html"
    tidelog.parse(CHAIN).report(out, {"Seen": rows})
    return out.read_text("utf-8")


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def test_lanes_are_ordered_by_nearness_and_none_crowds_out_the_others(tmp_path: Path) -> None:
    """With 100,000 facts, as many objects, and a count over each."""
    rows = [(f"id{i:06}", f"x{i % 7}", i % 9, i // 100) for i in range(100_000)]
    page = report(tmp_path, rows)
    data = data_of(page)
    names = [predicate["name"] for predicate in data["predicates"]]
    lanes = Counter(names[lane[0]] for lane in data["lanes"])
    assert len(page.encode()) < 2_000_000
    assert list(lanes) == ["Out", "Near", "Far", "Seen"]
    assert (lanes["Out"], lanes["Near"]) == (7, 7)
    assert {"Far has more lanes than are shown"} <= {*data["notes"]}
    proved = {names[data["lanes"][lane][0]] for _, lane, *_ in data["facts"] if lane >= 0}
    assert {"Out", "Near"} <= proved
    assert max(len(premises) for _, _, _, _, premises, *_ in data["facts"]) <= 6
    assert all(p < len(data["facts"]) for fact in data["facts"] for p in fact[4])


def test_of_many_counted_facts_the_first_are_shown(tmp_path: Path) -> None:
    page = report(tmp_path, [(f"i{n}", "x", 7, n) for n in range(8)])
    proofs = {fact[0]: fact for fact in data_of(page)["facts"]}
    small = proofs["count(Far(_, x) @ [-2, 2]) = 3"]
    assert (len(small[4]), small[5:]) == (3, [])
    page = report(tmp_path, [(f"i{n}", "x", 7, 0) for n in range(8)])
    many = {fact[0]: fact for fact in data_of(page)["facts"]}["count(Far(_, x) @ [-4, 0]) = 8"]
    assert (len(many[4]), many[5]) == (3, ["... 5 more facts"])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_labels_of_edges_lie_over_no_box(path: Path) -> None:
    """A character of a label is at most 6.4 wide; numbers are shown where they say something."""
    program = tidelog.load(str(path))
    svg = graph_svg(passes(program, program.outputs).dependencies)
    rects = re.findall(r'<rect x="([-\d.]+)" y="([-\d.]+)" width="([\d.]+)" height="([\d.]+)"', svg)
    boxes = [tuple(map(float, rect)) for rect in rects]
    labels = re.findall(
        r'<text x="([-\d.]+)" y="([-\d.]+)" text-anchor="(\w+)" font-size="10.5">([^<]*)<', svg
    )
    assert boxes
    assert re.search(r'viewBox="0 0 (\d+)', svg)
    for left, base, anchor, text in labels:
        wide = 6.4 * len(text.replace("&gt;", ">").replace("&lt;", "<"))
        x = float(left) - (wide if anchor == "end" else 0)
        y = float(base) - 8
        for bx, by, bw, bh in boxes:
            apart = x + wide <= bx or bx + bw <= x or y + 10 <= by or by + bh <= y
            assert apart, f"{text} lies over the box at {bx}, {by}"
    assert not re.search(r"phi 0|keep 0|keep -", svg)
