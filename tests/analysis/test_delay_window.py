"""Delay and Window of generated programs: equal to brute force, and every witness replays."""

from __future__ import annotations

from hypothesis import assume, given
from support import brute
from support.brute import Fact
from support.deep import examples
from support.programs import Case, Shape, programs

import tidelog
from tidelog.analysis.containment import Budget, Verdict, Witness
from tidelog.analysis.delay import Measure, delay_holds
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.analysis.unfolding import Cut
from tidelog.analysis.window import window_holds
from tidelog.logic.normalise import core

COMPARED = Shape(types=("int", "float", "text", "bool"), comparisons=True)
RECURSIVE = Shape(recursive=True)


def deps(case: Case) -> Dependencies:
    return dependencies(core(case.program, [case.query]), [case.query])


def offsets(case: Case, fresh: int = 1, reach: int | None = None) -> tuple[int, int]:
    """Least and greatest offset that an answer needs; far off where it needs none."""
    try:
        low, high = brute.offsets(case.program, case.query, fresh, reach)
    except brute.TooLargeError:
        assume(False)
    return (99, -99) if low is None or high is None else (low, high)


def replay(case: Case, witness: Witness | None, cut: Cut) -> None:
    """With all facts the answer is there; with those the cut leaves it is not."""
    assert witness is not None
    given = {Fact(f.predicate, f.args, f.time) for f in witness.facts}
    assert {f.predicate for f in given} <= set(case.program.inputs)
    answer = witness.answer
    assert answer.predicate == case.query
    assert answer.time is not None
    left = {f for f in given if f.time is None or cut.keeps(f.time - answer.time)}
    assert answer.args in brute.answers_at(case.program, case.query, given, answer.time)
    assert answer.args not in brute.answers_at(case.program, case.query, left, answer.time)


def bounds_hold(case: Case, measure: Measure, needed: int, cut: Cut) -> None:
    """What brute force needs is allowed, and one less than the lower bound is shown too little."""
    assert measure.upper is None or needed <= measure.upper
    assert measure.exact == (measure.upper == measure.lower or measure.lower is None)
    if measure.lower:
        replay(case, measure.witness, cut)


# Exact, needed at least by brute force, and shown minimal by a replay: then it is the least one.


def compared(case: Case, low: int, high: int, *, exact: bool, budget: float = 10.0) -> None:
    delay = tidelog.delay(case.program, case.query, budget=budget)
    bounds_hold(case, delay, max(0, high), Cut(high=(delay.lower or 0) - 1))
    if exact:
        assert delay.exact
    for d in {0, 1, delay.upper or 0}:
        kept = tidelog.window(case.program, case.query, d, budget=budget)
        bounds_hold(case, kept, max(0, d - low), Cut(low=d - (kept.lower or 0) + 1))
        if exact:
            assert kept.exact


@examples(15, deep=1500)
@given(programs())
def test_nonrecursive_programs(case: Case) -> None:
    compared(case, *offsets(case, 2), exact=True)


@examples(10, deep=1000)
@given(programs(COMPARED))
def test_programs_with_comparisons(case: Case) -> None:
    """Witnesses show that the bounds are least, brute force that they are enough."""
    compared(case, *offsets(case), exact=True)


@examples(5, deep=500)
@given(programs(RECURSIVE))
def test_recursive_programs(case: Case) -> None:
    whole = deps(case)
    assume(whole.cls is not Class.BLOCKING)
    low, high = offsets(case, reach=6 if whole.recursive else None)
    compared(case, low, high, exact=not whole.recursive, budget=0.1 if whole.recursive else 10.0)
    kept = tidelog.window(case.program, case.query, 0, budget=0.1)
    if kept.exact and kept.lower is None:
        no_window_is_enough(case)


def no_window_is_enough(case: Case) -> None:
    """By Definition 6: a history whose old facts make a difference, however old they are.

    All facts there can be at the first ticks, and none since, still give an answer long after. The
    same history without them, which is what a window leaves, gives none. One could instead ask how
    far back the least supports of an answer reach, but brute force finds supports only as far as
    it looks, and how far that is depends on the rules: a fact derived 6 ticks back may rest on an
    input 2 ticks later than that, at 4 ticks back.
    """
    program = case.program
    last = 4 * brute.radius(program)  # room for any derivation that does not go round a cycle
    domain = brute.domain(program)
    rigid = {
        Fact(name, row, None)
        for name in brute.inputs(program, temporal=False)
        for row in brute.every_row(program, name, domain)
    }
    old = brute.everything_later(program, domain, 0, last)
    for window in (5, 10, 20):
        later = range(last + window + 1, last + window + 3)  # cycles here move by 1 or 2 ticks

        def answered(facts: set[Fact], at: range = later) -> bool:
            return any(brute.answers_at(program, case.query, facts, t, last) for t in at)

        assert answered(rigid | old)
        assert not answered(rigid)


@examples(8, deep=750)
@given(programs())
def test_decision_forms(case: Case) -> None:
    """Delay and Window as the paper asks them, for any d and s."""
    low, high = offsets(case)
    whole = deps(case)

    def agrees(verdict: Verdict, expected: bool, cut: Cut) -> None:
        assert verdict.holds is not None
        assert expected or not verdict.holds
        if not verdict.holds:
            replay(case, verdict.witness, cut)

    for d in range(4):
        agrees(delay_holds(whole, d, Budget()), high <= d, Cut(high=d))
        for s in range(4):
            agrees(window_holds(whole, d, s, Budget()), low >= d - s, Cut(low=d - s))
