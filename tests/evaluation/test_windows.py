"""Programs with windows: the engines, the naive evaluator, clingo and the unfolding agree."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle.generate import Case
from oracle.keyed import keyed
from oracle.unfold import TooManyRulesError, unfolded
from oracle.windows import programs_with_windows
from pyspark.sql import SparkSession
from support.batch import agree, answered, by_time, rows, wanted
from support.deep import examples

from tidelog.errors import NoAnswer
from tidelog.evaluation.density import Density
from tidelog.evaluation.engine import evaluate
from tidelog.language.checks import check
from tidelog.language.printer import print_program
from tidelog.language.program import (
    Atom,
    Instant,
    Interval,
    Literal,
    Negated,
    Program,
    Quantifier,
    Rule,
    TimePoint,
    Value,
    atom_of,
)

# Any program


@given(programs_with_windows())
@examples(4, deep=400)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_with_windows(connected=True, max_rules=7))
@examples(5, deep=250)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_with_windows(long=True))
@examples(3, deep=200)
def test_windows_longer_than_a_word(case: Case) -> None:
    agree(case)


@given(programs_with_windows(long=True, any_number=True, max_rules=2))
@examples(4, deep=150)
def test_any_number_of_ticks_of_a_long_window(case: Case) -> None:
    agree(case)


@given(programs_with_windows(recursive=False, clock=False, any_number=True))
@examples(4, deep=150)
def test_programs_without_recursion(case: Case) -> None:
    """These are never refused."""
    assert answered(case) is not None
    agree(case)


@given(programs_with_windows(hostile=True), st.randoms(use_true_random=False))
@examples(4, deep=150)
def test_hostile_names_and_values_and_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random) if random.random() < 0.5 else case)


@given(programs_with_windows(long=True) | programs_with_windows())
@examples(3, deep=100)
def test_programs_whose_inputs_are_not_packed(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Density, "is_sparse", lambda *_: True)
        agree(case)


def test_constants_that_look_alike() -> None:
    """Each has a window of its own, though they are written alike."""
    program = check(
        """input E(a: text, b: text) @ t.
        P @ T :- some E("x,text y", z) @ [T-1, T].
        Q @ T :- some E(x, "y,text z") @ [T-1, T].
        """
    ).accepted()
    facts: dict[str, list[tuple[Value, ...]]] = {"E": [("x,text y", "z", 0)]}
    case = Case("", program, facts, ("P", "Q"), 0, 5)
    assert answered(case) == {"P": [(0,), (1,)], "Q": []}


# Unlike programs with the same meaning


@given(programs_with_windows(any_number=True))
@examples(3, deep=150)
def test_the_unfolding(case: Case) -> None:
    try:
        plain = unfolded(case.program, 100)
    except TooManyRulesError:
        assume(False)
    assert answered(case._replace(program=plain)) == answered(case)


@given(programs_with_windows(long=True) | programs_with_windows(), st.randoms())
@examples(3, deep=200)
def test_intervals_in_two_parts(case: Case, random: Random) -> None:
    statements = []
    for statement in case.program.statements:
        statements += halved(statement, random) if isinstance(statement, Rule) else [statement]
    program = check(print_program(Program(tuple(statements)))).accepted()
    assert answered(case._replace(program=program)) == answered(case)


def halved(rule: Rule, random: Random) -> list[Rule]:
    """Rules that say the same, each interval of which is said in two parts."""
    bodies: list[tuple[Literal, ...]] = [()]
    for literal in rule.body:
        bodies = [(*body, *way) for body in bodies for way in ways(literal, random)]
    heads = [replace(rule.head, time=time) for time in parts(rule.head.time, random)]
    return [Rule(head, body) for head in heads for body in bodies]


def ways(literal: Literal, random: Random) -> list[tuple[Literal, ...]]:
    """`some` is in one part or the other, `always` in both, and `not` turns that around."""
    atom = atom_of(literal)
    if atom is None or not isinstance(atom.time, Interval):
        return [(literal,)]
    time = atom.time
    if 1 < time.fewest < time.ticks:
        return [(literal,)]
    quantifier = Quantifier.SOME if time.fewest == 1 else Quantifier.ALWAYS
    both: list[Literal] = []
    for part in parts(replace(time, quantifier=quantifier, least=0), random):
        asked = Atom(atom.predicate, atom.args, part)
        both.append(Negated(asked) if isinstance(literal, Negated) else asked)
    either = (quantifier is Quantifier.SOME) != isinstance(literal, Negated)
    return [(part,) for part in both] if either else [tuple(both)]


def parts(time: Instant | Interval | None, random: Random) -> list[Instant | Interval | None]:
    if not isinstance(time, Interval) or time.ticks == 1:
        return [time]
    first = random.randint(1, time.ticks - 1)
    return [
        replace(time, high=later(time.low, first - 1)),
        replace(time, low=later(time.low, first)),
    ]


def later(at: Instant, ticks: int) -> Instant:
    if isinstance(at, TimePoint):
        return replace(at, tick=at.tick + ticks)
    return replace(at, offset=at.offset + ticks)


@given(programs_with_windows(long=True) | programs_with_windows())
@examples(3, deep=100)
def test_windows_of_a_predicate_of_their_own(case: Case) -> None:
    """A literal over an interval, asked for through a helper, or twice absent."""
    for rule in case.program.rules:
        for literal in rule.body:
            atom = atom_of(literal)
            if atom is None or not isinstance(atom.time, Interval) or not bound(rule, literal):
                continue
            others = tuple(part for part in rule.body if part is not literal)
            args = tuple(dict.fromkeys(v for v in atom.variables if not v.anonymous))
            other = Atom("Helper", args, rule.head.time and atom.time.low)
            absent = isinstance(literal, Negated)
            helper = Rule(other, (*others, atom if absent else Negated(atom)))
            changed = replace(rule, body=(*others, Negated(other)))
            kept = [s for s in case.program.statements if s is not rule]
            report = check(print_program(Program((*kept, changed, helper))))
            if not report.errors:
                assert answered(case._replace(program=report.accepted())) == answered(case)
                return


def bound(rule: Rule, literal: Literal) -> bool:
    """Whether the rule has other atoms that give values to what a literal is about."""
    return any(part is not literal for part in rule.positive) and rule.head.time is not None


# Spark


@pytest.mark.xdist_group("spark")
@pytest.mark.grows
def test_generated_programs_on_spark(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")

    @given(programs_with_windows(connected=True), st.randoms(use_true_random=False))
    @examples(1, deep=20)
    def look(case: Case, random: Random) -> None:
        case = keyed(case, random)
        spark.conf.set("spark.sql.shuffle.partitions", str(random.randint(1, 8)))
        asked = {"from_": case.low, "to": case.high}
        try:
            said = evaluate(case.program, case.queries, case.facts, engine="spark", **asked)
        except NoAnswer:
            assert answered(case) is None
            return
        if said.timeline is not None:
            return
        got = {name: rows(said.answers[name]) for name in case.queries}
        want = wanted(case, got)
        for name in case.queries:
            assert got[name] == by_time(case.program, name, want[name]), (name, case.text)

    try:
        look()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
