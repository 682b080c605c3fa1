"""The note that two facts of one tick are both the last value; its texts are cases."""

from __future__ import annotations

import re

import pytest

import tidelog
from tidelog.errors import TidelogWarning
from tidelog.language.checks import check
from tidelog.language.diagnostics import Code, Diagnostic, Severity

READ = "input Read(x: text, n: int, v: float) @ time.  input On(x: text) @ time.\n"
CARRIED = "Last(X, V) @ T+1 :- Last(X, V) @ T, not Read(X, _, _) @ T+1."
BEGUN = "Last(X, V) @ T :- Read(X, _, V) @ T."


def rows(rules: str, facts: dict[str, list[tuple[object, ...]]]) -> list[tuple[object, ...]]:
    answers = tidelog.parse(rules).query("Last", facts, to=2)
    return [tuple(row.values()) for row in answers.to_pylist()]


def notes(text: str) -> list[Diagnostic]:
    return [d for d in check(text).diagnostics if d.code is Code.NO_ORDER]


@pytest.mark.parametrize(
    "rules",
    [
        f"{BEGUN} {CARRIED}",
        # the same rule, written the other way round
        f"{BEGUN} Last(X, V) @ T :- Last(X, V) @ T-1, not Read(X, _, _) @ T.",
        # the next value
        f"{BEGUN} Last(X, V) @ T-1 :- Last(X, V) @ T, not Read(X, _, _) @ T-1.",
        # other ends, and what is asked of the key alone, choose none
        f"{BEGUN} {CARRIED[:-1]}, not On(X) @ T+1.",
        f"Last(X, V) @ T :- Read(X, _, V) @ T, On(X) @ T. {CARRIED}",
        f"Last(X, V) @ T :- Read(X, _, V) @ T, V > 3.0. {CARRIED}",
        f"Last(X, V) @ T :- Read(X, _, W) @ T, V = W * 2.0. {CARRIED}",
        "input Name(n: int, m: int).  Last(X, N, V) @ T :- Read(X, M, V) @ T, Name(M, N)."
        " Last(X, N, V) @ T+1 :- Last(X, N, V) @ T, not Read(X, _, _) @ T+1.",
        f"input Unit(x: text, n: int).  Last(X, V) @ T :- Read(X, N, V) @ T, Unit(X, N), On(X) @ T."
        f" {CARRIED}",
        # through a rule, and ended by another
        f"Good(X, V) @ T :- Read(X, _, V) @ T, V > 3.0. Last(X, V) @ T :- Good(X, V) @ T."
        f" {CARRIED}",
        f"{BEGUN} Any(X) @ T :- Read(X, _, _) @ T. {CARRIED.replace('Read(X, _, _)', 'Any(X)')}",
        # one key, a key that is a constant, and none
        f"{BEGUN} {CARRIED}".replace("(X,", "(a,"),
        "Last(V) @ T :- Read(_, _, V) @ T. Last(V) @ T+1 :- Last(V) @ T, not Read(_, _, _) @ T+1.",
        # asked for more than the greatest
        f"output Sum. {BEGUN} {CARRIED} Sum(S) @ T :- Last(_, _) @ T, S = sum(V : Last(X, V) @ T).",
        f"output Many. {BEGUN} {CARRIED} Many(X) @ T :- Last(X, V) @ T, V > 9.0.",
        f"output P. {BEGUN} {CARRIED} P(X) @ T :- Last(X, _) @ T, not Last(X, 1.0) @ T.",
    ],
)
def test_two_facts_of_a_tick(rules: str) -> None:
    (note,) = notes(READ + rules)
    assert note.severity is Severity.NOTE
    assert "of two `Read`" in note.message
    assert not check(READ + rules).errors


@pytest.mark.parametrize(
    "rules",
    [
        # nothing is carried on, or nothing ends it
        BEGUN,
        f"{BEGUN} Last(X, V) @ T+1 :- Last(X, V) @ T.",
        f"{BEGUN} Last(X, V) @ T :- Read(X, _, V) @ T, not Last(X, V) @ T-1.",
        # something else ends it: all values since then are kept
        f"{BEGUN} Last(X, V) @ T+1 :- Last(X, V) @ T, not On(X) @ T+1.",
        f"{BEGUN} Last(X, V) @ T+1 :- Last(X, V) @ T, not Read(X, 7, _) @ T+1.",
        f"{BEGUN} High(X) @ T :- Read(X, _, V) @ T, V > 9.0."
        " Last(X, V) @ T+1 :- Last(X, V) @ T, not High(X) @ T+1.",
        "input Pair(x: text, a: int, b: int) @ time.  Same(X) @ T :- Pair(X, A, A) @ T."
        " Last(X, A) @ T :- Pair(X, A, _) @ T."
        " Last(X, A) @ T+1 :- Last(X, A) @ T, not Same(X) @ T+1.",
        # facts of other ticks
        f"Last(X, V) @ T :- Read(X, _, V) @ T-1. {CARRIED}",
        f"{BEGUN} Last(X, V) @ T+1 :- Last(X, V) @ T, not Read(X, _, _) @ T.",
        # a fact has a key and nothing else
        "Last(X) @ T :- On(X) @ T. Last(X) @ T+1 :- Last(X) @ T, not On(X) @ T+1.",
        # a rule chooses: where it begins, on the way, where it is carried on, and where it is read
        f"Last(X, V) @ T :- Read(X, _, _) @ T, V = max(W : Read(X, _, W) @ T). {CARRIED}",
        f"Last(X, V) @ T :- Read(X, _, V) @ T, V = min(W : Read(X, _, W) @ T). {CARRIED}",
        f"Top(X, M) @ T :- Read(X, _, _) @ T, M = max(W : Read(X, _, W) @ T)."
        f" Last(X, V) @ T :- Read(X, _, V) @ T, Top(X, M) @ T, V >= M. {CARRIED}",
        f"Top(X, M) @ T :- Read(X, _, _) @ T, M = max(W : Read(X, _, W) @ T)."
        f" Last(X, V) @ T :- Top(X, V) @ T. {CARRIED}",
        f"{BEGUN} Less(X, V) @ T :- Read(X, _, V) @ T, Read(X, _, W) @ T, W > V."
        f" {CARRIED[:-1]}, not Less(X, V) @ T+1.",
        f"output Top. {BEGUN} {CARRIED}"
        " Top(X, M) @ T :- Last(X, _) @ T, M = max(V : Last(X, V) @ T).",
        # the head of another shape, with other things wrong
        f"{BEGUN} {CARRIED} Last(X) @ T :- On(X) @ T.",
        f"{BEGUN} {CARRIED} P(X) @ T :- Read(X) @ T.",
    ],
)
def test_nothing_to_say(rules: str) -> None:
    assert notes(READ + rules) == []


def test_the_key_has_its_constants() -> None:
    (note,) = notes(
        f"{READ} Last(X, V) @ T :- Read(X, 7, V) @ T."
        " Last(X, V) @ T+1 :- Last(X, V) @ T, not Read(X, 7, _) @ T+1."
    )
    assert note.message.endswith("of two `Read` of one `x` and `n`")


@pytest.mark.parametrize(
    "begun",
    [
        BEGUN,
        "Last(W, V) @ T :- Read(W, _Seen, V) @ T.",
        "Last(X, V) @ T :- Read(X, 7, V) @ T.",
    ],
)
def test_the_rule_of_the_hint_leaves_one_value_and_no_note(begun: str) -> None:
    text = f"{READ}output Last, On.\n{begun}\n{CARRIED}"
    facts = {"Read": [("a", 7, 2.0, 0), ("a", 7, 1.0, 0), ("a", 7, 0.5, 2)]}
    with pytest.warns(TidelogWarning):
        assert len(rows(text, facts)) == 5
    (note,) = notes(text)
    (rule,) = re.findall("`(Last.*)`", note.hint or "")
    chosen = text.replace(begun, rule)
    assert not check(chosen).diagnostics
    assert rows(chosen, facts) == [("a", 2.0, 0), ("a", 2.0, 1), ("a", 0.5, 2)]


def test_many_rules_are_looked_at_once() -> None:
    """Two rules a predicate make 2^60 ways down, and 300 ends of 300 beginnings 90,000 pairs."""
    deep = "".join(
        f"P{i}(X, V) @ T :- P{i + 1}(X, V) @ T. P{i}(X, V) @ T :- P{i + 1}(X, V) @ T, V > 3.0."
        for i in range(60)
    )
    other = "input E(x: text, v: float) @ time."
    assert (
        notes(
            f"{READ} {other} {deep} P60(X, V) @ T :- E(X, V) @ T. {CARRIED}"
            " Last(X, V) @ T :- P0(X, V) @ T."
        )
        == []
    )
    wide = "".join(f"{BEGUN[:-1]}, V > {i}.5. {CARRIED[:-1]}, V > {i}.5." for i in range(300))
    assert len(notes(READ + wide)) == 1
