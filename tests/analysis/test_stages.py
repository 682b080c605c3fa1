"""Stages: each has what it needs from those before, and joins that no key splits share one."""

from __future__ import annotations

from hypothesis import given
from oracle.generate import Case, programs_and_facts
from oracle.negation import programs_with_not
from oracle.wide import wide
from support.deep import examples

from tidelog.analysis.dependencies import dependencies
from tidelog.analysis.stages import Staged, StageKind, staged
from tidelog.language.checks import check
from tidelog.logic.core import rules_of
from tidelog.logic.normalise import core


def stages_of(case: Case) -> Staged:
    return staged(dependencies(core(case.program, case.queries), case.queries))


def expect_all_is_there_in_time(split: Staged) -> None:
    """What a predicate is derived from comes from an earlier stage, or from its own.

    Rows without a time do not go from stage to stage.
    """
    number = {name: i for i, stage in enumerate(split.stages) for name in stage.predicates}
    assert len(number) == sum(len(stage.predicates) for stage in split.stages)
    for clause in rules_of(split.deps.core):
        head = number.get(clause.head.predicate)
        for premise in clause.premises:
            if head is not None and premise.predicate in number:
                assert number[premise.predicate] <= head
                if not split.deps.core.predicates[premise.predicate].temporal:
                    assert number[premise.predicate] == head


@examples(15, deep=600)
@given(programs_and_facts())
def test_a_stage_has_what_it_needs(case: Case) -> None:
    expect_all_is_there_in_time(stages_of(case))
    expect_all_is_there_in_time(stages_of(wide(case)))


@examples(15, deep=600)
@given(programs_with_not())
def test_a_stage_has_what_it_needs_with_not(case: Case) -> None:
    expect_all_is_there_in_time(stages_of(wide(case)))


def test_joins_that_no_key_splits_share_a_stage() -> None:
    text = "input E(x: text) @ t. P(X) @ T :- E(X) @ T-1, not E(_) @ T. Q(X) @ T :- P(X) @ T."
    case = Case(text, check(text).accepted(), {}, ("P", "Q"), 0, 3)
    kinds = [stage.kind for stage in stages_of(wide(case)).stages]
    assert kinds.count(StageKind.CATALYST) == 1


def test_a_join_over_what_another_one_derives_comes_after_it() -> None:
    """P is joined before its key is found again, and what is joined then needs all of P."""
    text = (
        "input E(x: text) @ t. P(X) @ T :- E(X) @ T-1, E(_) @ T."
        " P(X) @ T+1 :- P(X) @ T. Q(X) @ T :- P(X) @ T-1, P(_) @ T."
    )
    case = Case(text, check(text).accepted(), {}, ("P", "Q"), 0, 3)
    kinds = [stage.kind for stage in stages_of(case).stages]
    assert kinds.count(StageKind.CATALYST) == 2


def test_what_rests_on_facts_of_all_keys_is_where_it_is_looked_at() -> None:
    """A join that no key splits comes first, the recursion of P after it, and R after both."""
    text = (
        "input E(x: text) @ t. N(X) :- E(X) @ 5. P(X) @ T :- E(X) @ T-1, E(_) @ T."
        " P(X) @ T+1 :- P(X) @ T. R(X) @ T :- P(X) @ T, not N(X)."
    )
    case = Case(text, check(text).accepted(), {}, ("R",), 0, 3)
    split = stages_of(case)
    expect_all_is_there_in_time(split)
    assert set(split.stages[-1].predicates) == {"N", "R"}
