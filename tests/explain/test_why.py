"""Every proof is valid and none is smaller; a fact has one exactly if it is derived."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case, programs_and_facts
from oracle.horizon import temporal_predicates
from oracle.windows import programs_with_windows
from support import checker
from support.deep import examples

import tidelog
from tidelog.analysis.containment import Ground
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.timeline import TooHard
from tidelog.explain import proofs
from tidelog.explain.text import why_json, why_lines
from tidelog.explain.why import Why, why
from tidelog.language.program import Type, Value
from tidelog.language.types import infer
from tidelog.logic.clause import Clause

PLAIN = {
    Type.TEXT: ("a", "b", "c"),
    Type.INT: (0, 1, 2),
    Type.FLOAT: (0.5, 1.0, 2.0),
    Type.BOOL: (False, True),
}


def model(case: Case) -> dict[str, set[tuple[Value, ...]]]:
    """All that holds from low to high."""
    names = [*case.program.heads, *case.program.inputs]
    try:
        return naive.evaluate(case.program, case.facts, names, case.low, case.high, limit=20_000)
    except naive.TooLargeError:
        assume(False)
    raise AssertionError


def fact(name: str, row: tuple[Value, ...], temporal: set[str]) -> Ground:
    if name in temporal:
        time = row[-1]
        assert isinstance(time, int)
        return Ground(name, row[:-1], time)
    return Ground(name, row)


def some_goals(case: Case, data: st.DataObject) -> list[tuple[Ground, bool]]:
    """Facts that hold and facts that do not, with which is which."""
    temporal = set(temporal_predicates(case.program))
    holding = model(case)
    true = [(n, row) for n, rows in holding.items() for row in sorted(rows)]
    types = infer(case.program).columns
    goals = []
    if true:
        chosen = data.draw(st.lists(st.sampled_from(true), min_size=1, max_size=3, unique=True))
        goals += [(fact(n, row, temporal), True) for n, row in chosen]
    for _ in range(3):
        name = data.draw(st.sampled_from(case.program.heads))
        args = tuple(data.draw(st.sampled_from(PLAIN[t or Type.TEXT])) for t in types[name])
        # Near the data, where something almost holds.
        middle = [row[-1] for n, rows in case.facts.items() if n in temporal for row in rows]
        near = data.draw(st.sampled_from(middle or [0])) + data.draw(st.integers(-2, 2))  # type: ignore[operator]
        row = (*args, min(max(near, case.low), case.high)) if name in temporal else args
        goals.append((fact(name, row, temporal), row in holding[name]))
    return goals


def explained(engine: Engine, goal: Ground, most: int = 1) -> Why:
    try:
        return why(engine, goal, most, budget=3.0)
    except TooHard:
        assume(False)
    raise AssertionError


def is_explained(case: Case, goals: list[tuple[Ground, bool]]) -> None:
    temporal = set(temporal_predicates(case.program))
    facts = checker.given(case.facts, temporal)
    with Engine(case.program, case.facts) as engine:
        for goal, holds in goals:
            explanation = explained(engine, goal)
            assert explanation.holds == holds, (goal, case.text)
            assert all(len(line) < 20_000 for line in why_lines(explanation))
            told = why_json(replace(explanation, full=True))
            assert told["holds"] == holds
            if holds:
                assert not explanation.misses
                first: Any = told["proofs"]
                checker.check(case.program, facts, as_tuple(goal), first[0])
            else:
                for miss in told["misses"]:  # type: ignore[attr-defined]
                    is_miss(case, miss)


def as_tuple(goal: Ground) -> checker.Fact:
    return goal.predicate, goal.args, goal.time


def is_miss(case: Case, miss: dict[str, Any]) -> None:
    """What is said to hold does, what is said to be missing does not, and values are off."""
    rule = checker.rule_at(case.program, miss)
    assert miss["missing"] or miss["unmet"]
    assert len(miss["holds"]) + len(miss["missing"]) == len(rule.atoms)
    wide = case._replace(low=case.low - 400, high=case.high + 400)
    holding = model(wide) if not case_is_huge(case) else None
    temporal = set(temporal_predicates(case.program))
    if holding is not None:
        true = checker.given({n: list(rows) for n, rows in holding.items()}, temporal)
        assert all(checker.as_fact(f) in true for f in miss["holds"])
        for missing in miss["missing"]:
            assert not any(fits(missing, f) for f in true), missing
    for unmet in miss["unmet"]:
        (comparison,) = {c for c in rule.comparisons if text(c) == unmet["comparison"]}
        assert not checker.COMPARE[comparison.operator.value](unmet["left"], unmet["right"])
    for missing in miss["missing"]:
        if missing["because"]:
            assert missing["because"]["fact"]["predicate"] == missing["predicate"]
            is_miss(case, missing["because"])


def text(comparison: Any) -> str:
    from tidelog.language.printer import print_literal

    return print_literal(comparison)


def case_is_huge(case: Case) -> bool:
    return case.high - case.low > 1000


def fits(missing: dict[str, Any], true: checker.Fact) -> bool:
    """Whether a fact is what is missing; the same variable stands for the same value."""
    name, args, time = true
    if name != missing["predicate"] or missing.get("time") not in (None, time):
        return False
    named: dict[str, Value] = {}
    names = missing.get("variables") or [None] * len(args)
    for wanted, variable, value in zip(missing["args"], names, args, strict=True):
        if wanted is None:
            if variable != "_" and named.setdefault(variable, value) != value:
                return False
        elif wanted != value:
            return False
    return True


@given(programs_and_facts(), st.data())
@examples(4, deep=150)
def test_any_program(case: Case, data: st.DataObject) -> None:
    is_explained(case, some_goals(case, data))


@given(programs_and_facts(connected=True, huge=False), st.data())
@examples(3, deep=120)
def test_connected_programs(case: Case, data: st.DataObject) -> None:
    is_explained(case, some_goals(case, data))


@given(programs_and_facts(hostile=True, huge=False, max_rules=4), st.data())
@examples(4, deep=150)
def test_hostile_values(case: Case, data: st.DataObject) -> None:
    is_explained(case, some_goals(case, data))


@given(programs_with_windows(negated=False, max_rules=4), st.data())
@examples(3, deep=100)
def test_proofs_over_intervals(case: Case, data: st.DataObject) -> None:
    """A proof of `always` has every tick, one of `at least 3` has three."""
    goals = [(goal, holds) for goal, holds in some_goals(case, data) if holds]
    is_explained(case, goals)


@given(programs_with_windows(recursive=False, negated=False, max_rules=4), st.data())
@examples(3, deep=100)
def test_windows_that_are_only_named(case: Case, data: st.DataObject) -> None:
    """Proofs are right and as small as with windows that are written out; misses are the same."""
    goals = some_goals(case, data)
    told: list[list[Any]] = []
    for clauses in (500, 3):
        again = case._replace(program=tidelog.parse(case.text))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidelog.logic.windows.MOST_WRITTEN_OUT", clauses)
            is_explained(again, [(goal, holds) for goal, holds in goals if holds])
            with Engine(again.program, again.facts) as engine:
                whys = [explained(engine, goal, 3) for goal, _ in goals]
        for one in whys:
            assert list(one.proofs) == sorted(one.proofs, key=lambda proof: proof.size)
        told.append([one.proofs[0].size if one.holds else why_json(one) for one in whys])
    assert told[0] == told[1]


def test_a_very_long_count_is_proved_without_writing_it_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Clause] = []

    def noted(*args: Any, **rest: Any) -> Clause:
        made.append(Clause(*args, **rest))
        return made[-1]

    monkeypatch.setattr("tidelog.logic.windows.Clause", noted)
    program = tidelog.parse(
        "input Up(s: text) @ t. Busy(S) @ T :- at least 100 Up(S) @ [T-1439, T], not Off(S) @ T."
        " Off(S) @ T :- at least 200 Up(S) @ [T-1439, T]."
    )
    facts = {"Up": [("a", t) for t in range(300)] + [("b", 7)]}
    proof = program.why("Busy(a) @ 150", facts).proofs[0]
    assert sorted(fact.time or 0 for fact in proof.facts) == sorted(set(range(51, 151)))
    assert "present  Off(a) @ 250" in str(program.why("Busy(a) @ 250", facts))
    assert "holds at 1, 100 are needed" in str(program.why("Busy(b) @ 150", facts))
    assert len(made) < 100


@given(programs_and_facts(huge=False, max_rules=4), st.data())
@examples(3, deep=120)
def test_the_first_proof_is_smallest_and_sizes_never_fall(case: Case, data: st.DataObject) -> None:
    temporal = set(temporal_predicates(case.program))
    facts = checker.given(case.facts, temporal)
    wide = case._replace(low=case.low - 60, high=case.high + 60)
    true = checker.given({n: list(rows) for n, rows in model(wide).items()}, temporal)
    assume(len(true) < 400)
    goals = [goal for goal, holds in some_goals(case, data) if holds]
    window = data.draw(st.sampled_from((1, 240)))
    with pytest.MonkeyPatch.context() as patch, Engine(case.program, case.facts) as engine:
        patch.setattr("tidelog.explain.why.FIRST_WINDOW", window)
        for goal in goals:
            explanation = explained(engine, goal, 6)
            told: Any = why_json(explanation)
            sizes = [checker.check(case.program, facts, as_tuple(goal), p) for p in told["proofs"]]
            assert sizes == sorted(sizes)
            assert len({str(p) for p in told["proofs"]}) == len(sizes), "all are different"
            if explanation.smallest:
                assert sizes[0] == checker.smallest(case.program, facts, true, as_tuple(goal))
            one = explained(engine, goal).proofs[0]
            assert one.size == sizes[0]


@given(programs_and_facts(huge=False, comparisons=False, max_rules=5), st.data())
@examples(3, deep=120)
def test_what_a_miss_lacks_would_do(case: Case, data: st.DataObject) -> None:
    """With the missing input facts, where all their values are known, the goal holds."""
    goals = [goal for goal, holds in some_goals(case, data) if not holds]
    assume(goals)
    with Engine(case.program, case.facts) as engine:
        misses = [(goal, miss) for goal in goals for miss in explained(engine, goal).misses]
    for goal, miss in misses:
        lacking = list(leaves(miss))
        if any(leaf is None for leaf in lacking):
            continue
        facts = {name: list(rows) for name, rows in case.facts.items()}
        for leaf in lacking:
            row = leaf.args if leaf.time is None else (*leaf.args, leaf.time)
            facts.setdefault(leaf.predicate, []).append(row)
        with Engine(case.program, facts) as engine:
            assert explained(engine, goal).holds, (goal, miss, case.text)


def leaves(miss: Any) -> Any:
    for missing in miss.missing:
        if missing.because is not None:
            yield from leaves(missing.because)
        elif (
            not missing.input or None in missing.args or (missing.temporal and missing.time is None)
        ):
            yield None
        else:
            yield Ground(missing.predicate, missing.args, missing.time)


# By hand


def test_recursion_has_no_infinite_proofs() -> None:
    program = tidelog.parse("P(X) @ T :- E(X) @ T. P(X) @ T :- Q(X) @ T. Q(X) @ T :- P(X) @ T.")
    explanation = program.why("P(a) @ 0", {"E": [("a", 0)]}, all=50)
    assert [proof.size for proof in explanation.proofs] == [2]
    assert not explanation.more


def test_a_long_chain_is_shown_by_its_ends() -> None:
    program = tidelog.parse("P(X) @ T :- E(X) @ T. P(X) @ T+1 :- P(X) @ T.", "rules.tdl")
    explanation = program.why("P(a) @ 3000", {"E": [("a", 0)]})
    assert explanation.proofs[0].size == 3002
    assert str(explanation).split("\n")[:6] == [
        "P(a) @ 3000 holds; the smallest proof has 3002 facts",
        "P(a) @ 3000           rules.tdl:1",
        "└─ ... 2998 more steps like this, back to",
        "   └─ P(a) @ 1        rules.tdl:1",
        "      └─ P(a) @ 0     rules.tdl:1",
        "         └─ E(a) @ 0  input",
    ]


def test_far_proofs_are_not_preferred() -> None:
    """One nearby and long, one far away and short."""
    rules = "P @ T :- A @ T. A @ T :- B @ T. B @ T :- C @ T. C @ T :- E @ T. P @ T :- F @ T-1000."
    program = tidelog.parse(rules)
    explanation = program.why("P @ 1000", {"E": [(1000,)], "F": [(0,)]}, all=5)
    assert [proof.size for proof in explanation.proofs] == [2, 5]


def test_a_small_proof_further_away_than_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.explain.why.FIRST_WINDOW", 1)
    near = "P @ T :- A @ T. A @ T :- B @ T. B @ T :- C @ T. C @ T :- E @ T."
    program = tidelog.parse(f"{near} P @ T :- F @ T-3. F @ T :- G @ T-3.")
    facts = {"E": [(10,)], "G": [(4,)]}
    assert [proof.size for proof in program.why("P @ 10", facts).proofs] == [3]
    assert [proof.size for proof in program.why("P @ 10", facts, all=3).proofs] == [3, 5]


def test_facts_of_the_rules_file_and_of_inputs_with_rules() -> None:
    program = tidelog.parse("input E(a: text) @ t. E(x) @ 5. P(X) @ T :- E(X) @ T.", "r.tdl")
    assert "fact, r.tdl:1" in str(program.why("P(x) @ 5"))
    assert "E(y) @ 5  input" in str(program.why("P(y) @ 5", {"E": [("y", 5)]}))


def test_goals_as_text() -> None:
    program = tidelog.parse('P(X, V) @ T :- E(X, V) @ T, V > 0.5. R("a @ b").')
    assert program.why('R("a @ b").').holds
    assert program.why("P(a, 1) @ -3.", {"E": [("a", 1.0, -3)]}).holds
    day = program.why("P(a, 1) @ 1970-01-02T00:00Z", {"E": [("a", 1.0, "1970-01-02")]}, tick="1d")
    assert "├─ E(a, 1.0) @ 1970-01-02T00:00:00Z  input" in str(day)
    for text, said in (
        ("P(a, 1)", "P has a time in the rules"),
        ("P(a) @ 3", "P has 2 arguments in the rules"),
        ("P(a, b) @ 3", "argument 2 of P is float, not text"),
        ("P(X, 1) @ 3", "variables"),
        ("P(a, 1) @ T", "variables"),
        ("R(c) @ 3", "R has no time in the rules"),
        ("Q(c)", "no predicate Q in the rules"),
        ("P(a, 1) @ 3. R(c)", "not a fact"),
        ("P(a, 1) @ 3 :- R(c)", "body"),
        ("", "not a fact"),
    ):
        with pytest.raises(ValueError, match=said):
            program.why(text)


def test_many_matches_end() -> None:
    """A cross product of two inputs: one match is as good as another."""
    rows = [(f"n{i}", 0) for i in range(400)]
    program = tidelog.parse("P @ T :- E(_) @ T, F(_) @ T. Q @ T :- P @ T, P @ T+1.")
    explanation = program.why("P @ 0", {"E": rows, "F": rows})
    assert explanation.proofs[0].size == 3
    assert not explanation.smallest
    assert len(program.why("P @ 0", {"E": rows, "F": rows}, all=7).proofs) == 7


def test_what_a_stream_keeps_is_enough() -> None:
    """Derived slices need no proof; the rest is proved from them."""
    program = tidelog.parse("P(X) @ T :- E(X) @ T. P(X) @ T+1 :- P(X) @ T.", "rules.tdl")
    explanation = program.why("P(a) @ 9", {"E": [("b", 9)]}, kept={"P": [("a", 8)]})
    assert str(explanation).split("\n")[1:3] == ["P(a) @ 9     rules.tdl:1", "└─ P(a) @ 8  kept"]
    assert "input" in str(program.why("P(b) @ 9", {"E": [("b", 9)]}, kept={"P": [("a", 8)]}))
    assert not program.why("P(b) @ 8", {"E": [("b", 9)]}, kept={"P": [("a", 8)]}).holds
    with pytest.raises(ValueError, match="not derived by a rule"):
        program.why("P(a) @ 9", {}, kept={"E": []})
    with pytest.raises(ValueError, match="in memory"):
        program.why("P(a) @ 9", "examples", kept={"P": []})


def test_a_match_among_thousands_of_candidates_is_found() -> None:
    rows = [(f"n{i:04}", 0) for i in range(3000)]
    program = tidelog.parse("P @ T :- E(X) @ T, F(X) @ T.")
    explanation = program.why("P @ 0", {"E": rows, "F": [("n2999", 0), *(("x", 0),) * 2]})
    assert explanation.holds
    assert explanation.smallest


def test_where_matches_are_too_many_there_is_still_a_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All ways to go from one end of a line to the other in jumps: too many to try them all."""
    monkeypatch.setattr(proofs, "TRIES", ((1000, 500), (2, 3000), (10**9, 10**12)))
    program = tidelog.parse("P(X, Y) :- E(X, Y). P(X, Y) :- P(X, Z), P(Z, Y).")
    line = {"E": [(i, i + 1) for i in range(30)]}
    explanation = program.why("P(0, 30)", line)
    assert explanation.proofs[0].size == 3 * 30 - 1
    assert not explanation.smallest
    facts = checker.given(line, set())
    told: Any = why_json(explanation)
    checker.check(program, facts, ("P", (0, 30), None), told["proofs"][0])


def test_variables_that_are_not_known_keep_their_names() -> None:
    program = tidelog.parse("P @ T :- E(X, X, _) @ T, F(X, Y) @ T, X != Y.", "rules.tdl")
    text = str(program.why("P @ 0", {"E": [("a", "b", "c", 0)], "F": []}))
    assert "missing  E(X, X, _) @ 0" in text
    assert "missing  F(X, Y) @ 0" in text
    assert "open     X != Y" in text


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("mode", ["online", "offline"])
def test_why_looks_at_what_a_stream_keeps(
    mode: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof rests on what is kept; what was forgotten is not known any more."""
    if many:
        monkeypatch.setattr("tidelog.streaming.offline.MOST_FACTS", 0)
    rules = "P(X) @ T+1 :- E(X) @ T. P(X) @ T+1 :- P(X) @ T. Q(X) @ T+1 :- P(X) @ T, F(X) @ T."
    program = tidelog.parse(rules)
    stream = tidelog.Stream(program, ["Q"], mode=mode)
    stream.push(0, {"E": [("a",)]})
    for tick in range(1, 6):
        stream.push(tick)
    (proof,) = program.why("P(a) @ 5", stream).proofs
    assert proof.size == 1
    assert not program.why("P(a) @ 2", stream).holds
    assert not program.why("Q(a) @ 6", stream).holds


def test_a_window_of_any_length_tells_at_how_many_ticks_it_holds() -> None:
    program = tidelog.parse(
        "input Up(s: text, by: text) @ t. Busy(S) @ T :- at least 5 Up(S, _) @ [T-9999, T]."
    )
    facts = {"Up": [("a", "x", -9000), ("a", "x", 0), ("a", "y", 0), ("a", "x", 900)]}
    assert "holds at 2, 5 are needed" in str(program.why("Busy(a) @ 1000", facts))
    assert "holds at 3, 5 are needed" in str(program.why("Busy(a) @ 999", facts))


def test_what_is_in_the_way_of_a_window_is_the_fact_itself() -> None:
    program = tidelog.parse(
        "input Up(s: text, by: text) @ t."
        " Lost(S) @ T :- Up(S, _) @ T-4, not some Up(S, _) @ [T-3, T]."
        " Calm(S) @ T :- Up(S, _) @ T, not at least 2 Up(S, _) @ [T-5, T-1]."
    )
    facts = {"Up": [("a", "x", 0), ("a", "y", 1), ("a", "z", 3), ("b", "x", 4)]}
    lost = str(program.why("Lost(a) @ 4", facts))
    assert "present  Up(a, z) @ 3" in lost
    assert "some Up(a, _)" not in lost.partition("in the way")[0]
    calm = str(program.why("Calm(a) @ 3", {"Up": [("a", "x", t) for t in range(4)]}))
    assert "present  at least 2 Up(a, _) @ [-2, 2]" in calm


COUNTED = """
    input E(x: text, n: int) @ t.
    Odd(X, N) @ T :- E(X, N) @ T, N != 0.
    Many(X, K) @ T :- E(X, 1) @ T, K = count(Odd(X, _) @ [T-2, T]).
    Often(X) @ T :- E(X, 1) @ T, at least 9 E(X, 2) @ [T-20, T].
"""


def test_of_many_counted_facts_the_first_are_shown() -> None:
    """Ten facts at each of three ticks, each with a rule of its own below it."""
    program = tidelog.parse(COUNTED, "rules.tdl")
    facts = {"E": [("a", n, t) for t in range(3) for n in range(1, 11)]}
    brief = program.why("Many(a, 30) @ 2", facts)
    full = program.why("Many(a, 30) @ 2", facts, full=True)
    lines = str(brief).splitlines()
    assert sum("─ Odd(" in line for line in lines) == 3
    assert sum("─ ... 27 more facts" in line for line in lines) == 1
    assert "only the first of many facts are shown: --full shows all" in lines
    assert "more facts" not in str(full)
    assert "--full" not in str(full)
    assert all(f"Odd(a, {n}) @ {t}" in str(full) for t in range(3) for n in range(1, 11))
    assert brief.proofs == full.proofs


def test_json_has_the_first_counted_facts_and_how_many_more() -> None:
    program = tidelog.parse(COUNTED, "rules.tdl")
    rows = [("a", n, t) for t in range(3) for n in range(1, 11)]
    brief, full = (
        why_json(program.why("Many(a, 30) @ 2", {"E": rows}, full=whole)) for whole in (False, True)
    )
    first: Any = brief["proofs"]
    (gathered,) = [step for step in first[0]["steps"] if "aggregate" in step["fact"]]
    assert (len(gathered["premises"]), gathered["omitted"]) == (3, 27)
    shown = {
        first[0]["steps"][i]["fact"]["predicate"] for step in [gathered] for i in step["premises"]
    }
    assert shown == {"Odd"}
    used = {i for step in first[0]["steps"] for i in step["premises"]}
    assert used == set(range(1, len(first[0]["steps"])))
    whole: Any = full["proofs"]
    assert first[0]["size"] == whole[0]["size"]
    assert not any("omitted" in step for step in whole[0]["steps"])
    assert sum(step["fact"].get("predicate") == "Odd" for step in whole[0]["steps"]) == 30


def test_a_run_of_equal_facts_is_one_line() -> None:
    """Twelve facts in six runs are few enough; eight in eight runs are not."""
    program = tidelog.parse("Often @ T :- at least 8 E(a) @ [T-20, T].", "rules.tdl")
    runs = program.why("Often @ 20", {"E": [("a", t) for t in range(4, 18) if t not in (8, 13)]})
    assert sum("─ E(a) @ [" in line for line in str(runs).splitlines()) >= 2
    assert "more" not in str(runs)
    apart = str(program.why("Often @ 20", {"E": [("a", t) for t in range(3, 19, 2)]}))
    assert [line.split("─ ")[1].split(" @")[0] for line in apart.splitlines() if "─ " in line] == [
        "at least 8 E(a)",
        *["E(a)"] * 3,
        "... 5 more facts",
    ]
