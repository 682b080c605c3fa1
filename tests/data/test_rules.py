"""Facts in the syntax of rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.facts import DECLARED, ask, refused


def test_a_file_of_facts_in_the_language(tmp_path: Path) -> None:
    (tmp_path / "facts.tdl").write_text(
        '% readings\nE(a, 1, 0.5, true) @ 0.\nE("it\'s", -3, 2, false) @ -61.\n'
    )
    assert ask(DECLARED, tmp_path / "facts.tdl") == [
        ("it's", -3, 2.0, False, -61),
        ("a", 1, 0.5, True, 0),
    ]


def test_a_fact_at_an_interval_is_one_at_each_tick(tmp_path: Path) -> None:
    (tmp_path / "facts.tdl").write_text("E(a, 1, 0.5, true) @ [58, 61]. E(b, 2, 1, true) @ [7, 7].")
    a, b = ("a", 1, 0.5, True), ("b", 2, 1.0, True)
    assert ask(DECLARED, tmp_path / "facts.tdl") == [(*b, 7), *((*a, t) for t in range(58, 62))]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("P(X) @ T :- Temp(X) @ T.", "a file of facts holds facts only"),
        ("input Temp(x: text) @ t.", "a file of facts holds facts only"),
        ("Temp(a).", "`Temp` has 1 arguments and a time in the rules"),
        ("Temp(a, b) @ 0.", "`Temp` has 1 arguments and a time in the rules"),
        ("Temp(X) @ 0.", "a fact has no variables"),
        ("Temp(a) @ T.", "a fact has no variables"),
        ("Temp(a) @ [T, T+1].", "a fact has no variables"),
        ("Temp(X) @ [0, 1].", "a fact has no variables"),
        ("Temp(a) @ [0, 1000000].", "an interval of 1000001 ticks is too long"),
        ("Temp(7) @ 0.", "column `x`: 7 is not text"),
        ("Tmep(a) @ 0.", "did you mean `Temp`?"),
    ],
)
def test_a_bad_file_of_facts(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "facts.tdl"
    path.write_text(f"Temp(a) @ 0.\n\n{line}\n")
    (message,) = refused("input Temp(x: text) @ t. P(X) @ T :- Temp(X) @ T.", path)
    assert message.startswith(f"{path}:3: ")
    assert problem in message
