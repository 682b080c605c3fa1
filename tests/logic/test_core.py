"""Clauses and predicates as passes make them; the way back from a clause to a rule."""

from __future__ import annotations

from hypothesis import given
from support.deep import examples
from support.programs import Case, Shape, programs
from support.twoway import Case as TwoWay
from support.twoway import Shape as Ways
from support.twoway import cases

import tidelog
from tidelog.analysis.containment import Budget
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.analysis.partition import partition_key
from tidelog.analysis.possible import possible
from tidelog.analysis.redundancy import reduced
from tidelog.analysis.stages import staged
from tidelog.language.checks import check
from tidelog.language.printer import print_rule
from tidelog.language.program import Variable
from tidelog.logic.clause import AT_HEAD, Clause, Head, Offset, Premise, Sign
from tidelog.logic.core import Core, Predicate, Role, rules_for, rules_of
from tidelog.logic.normalise import clause_of, core


def test_a_rule_is_shown_as_it_was_written_and_is_typed_underneath() -> None:
    text = "input E(v: float) @ t. P @ T+1 :- V >= 2, E(V) @ T, E(3) @ T+1."
    (clause,) = rules_of(core(check(text).accepted()))
    assert print_rule(clause.shown) == "P @ T+1 :- V >= 2, E(V) @ T, E(3) @ T+1."
    assert print_rule(clause.as_rule) == "P @ T+1 :- V >= 2.0, E(V) @ T, E(3.0) @ T+1."
    shorter = clause.without(clause.premises[0])
    assert print_rule(shorter.shown) == "P @ T+1 :- V >= 2, E(3) @ T+1."
    assert [p.offset for p in shorter.premises] == [0]
    assert not shorter.safe
    assert clause.safe


def test_the_head_is_given_a_time_of_its_own_name() -> None:
    made = Clause(
        Head("P", (Variable("T"),), AT_HEAD), (Premise("E", (Variable("T"),), Offset(2)),)
    )
    assert print_rule(made.as_rule) == "P(T) @ T2 :- E(T) @ T2+2."


def test_an_input_that_also_has_rules_is_apart_from_what_they_derive() -> None:
    text = "input E(a: text) @ t. E(X) @ T+1 :- E(X) @ T. P(X) @ T :- E(X) @ T, F(X)."
    whole = core(check(text).accepted())
    roles = {p.name: (p.role, p.base, p.input) for p in whole.predicates.values()}
    given_by = whole.input_of["E"]
    assert roles[given_by.name] == (Role.GIVEN, "E", True)
    assert roles["E"] == (Role.DERIVED, "E", False)
    assert roles["F"] == (Role.INPUT, "F", True)
    (copy,) = [clause for clause in rules_of(whole) if clause.copies_input]
    assert [p.predicate for p in copy.premises] == [given_by.name]
    assert copy.written is None


def test_what_is_sent_between_stages_serves_the_predicate_of_the_rule() -> None:
    text = "S(X) @ T :- E(X) @ T. R(Y) @ T+1 :- S(X) @ T, N(X, Y). R(X) @ T+1 :- R(X) @ T."
    split = staged(dependencies(core(check(text).accepted(), ["R"]), ["R"]))
    (sent,) = [p for p in split.deps.core.predicates.values() if p.role is Role.SENT]
    assert sent.base == "R"
    (clause,) = rules_for(split.deps.core, sent.name)
    assert print_rule(clause.shown) == "R(Y) @ T+1 :- S(X) @ T, N(X, Y)."


def _same_again(whole: Core) -> None:
    for clause in rules_of(whole):
        assert clause_of(clause.as_rule) == clause


@examples(60, deep=1500)
@given(programs(Shape(comparisons=True, recursive=True, points=True)))
def test_a_clause_as_a_rule_says_the_same(case: Case) -> None:
    deps = dependencies(core(case.program, [case.query]), [case.query])
    _same_again(deps.core)
    _same_again(possible(deps).core(3))
    _same_again(staged(deps).deps.core)
    if deps.cls is not Class.BLOCKING:
        _same_again(reduced(deps.core, [case.query], Budget(5.0, 200))[0])


@examples(60, deep=1500)
@given(cases(Ways()))
def test_a_clause_with_times_of_its_own_as_a_rule_says_the_same(case: TwoWay) -> None:
    whole = core(case.program, case.program.outputs)
    _same_again(whole)
    _same_again(possible(dependencies(whole, case.program.outputs)).core(3, 5))


# Absence: what there is no word for in the language yet


def _with_absence(text: str, of: str, query: str = "Q") -> Core:
    """A program whose first rule also asks that a predicate does not hold."""
    whole = core(tidelog.parse(text), [query])
    first = rules_of(whole)[0]
    absent = Premise(of, first.head.args, Offset(1), Sign.NEGATIVE)
    asking = Clause(first.head, (*first.premises, absent), first.tests, first.origin)
    return whole.rewritten((asking, *rules_of(whole)[1:]))


RULES = "Q(X) @ T :- E(X) @ T. N(X) @ T :- F(X) @ T. M(X) @ T :- M(X) @ T."


def test_dependencies_follow_premises_of_both_signs() -> None:
    deps = dependencies(_with_absence(RULES, "N"), ["Q"])
    signs = {(e.head, e.body): e.premise.sign for e in deps.edges}
    assert signs == {
        ("Q", "E"): Sign.POSITIVE,
        ("Q", "N"): Sign.NEGATIVE,
        ("N", "F"): Sign.POSITIVE,
    }
    assert deps.phi["Q"] == 1
    assert deps.key.positions == {"E": 0, "F": 0, "N": 0, "Q": 0}


def test_that_nothing_derives_it_is_always_true_of_what_is_asked_to_be_absent() -> None:
    whole = _with_absence(RULES, "M")
    (clause,) = rules_of(whole.below(["Q"]))
    assert [(p.predicate, p.sign) for p in clause.premises] == [("E", Sign.POSITIVE)]


def test_keys_bring_what_must_be_absent_along() -> None:
    whole = _with_absence("Q(X) @ T :- E(X) @ T. N(Y) @ T :- F(Y) @ T.", "N")
    other = Premise("N", (Variable("Z"),), Offset(0), Sign.NEGATIVE)
    clause = Clause(rules_of(whole)[0].head, (rules_of(whole)[0].premises[0], other))
    key = partition_key(whole.rewritten((clause, *rules_of(whole)[1:])))
    assert key.positions is None
    assert "shares no argument between Q, E, N" in key.reason


def test_nothing_is_called_redundant_where_absence_counts() -> None:
    whole = _with_absence(RULES + " Q(X) @ T :- E(X) @ T, F(X) @ T.", "N")
    needed, left_out = reduced(whole, ["Q"], Budget())
    assert left_out == []
    assert len(rules_of(needed)) == 3


def test_predicates_of_one_base_have_names_of_their_own() -> None:
    predicate = Predicate("P", True, (None,), Role.DERIVED, "P")
    made = [predicate.made(role, "1") for role in Role if role not in (Role.INPUT, Role.DERIVED)]
    assert len({p.name for p in made}) == len(made)
    assert {p.base for p in made} == {"P"}
