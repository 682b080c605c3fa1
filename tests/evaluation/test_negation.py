"""Programs with `not`: the engines, the naive evaluator and clingo give the same answers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.generate import Case
from oracle.horizon import temporal_predicates
from oracle.keyed import keyed
from oracle.negation import programs_with_not
from pyspark.sql import SparkSession
from support.batch import agree, answered, by_time, rows, wanted
from support.counterexamples import NAMES, counterexample
from support.deep import examples

from tidelog.errors import NoAnswer
from tidelog.evaluation.density import Density
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.engine import evaluate
from tidelog.language.checks import check
from tidelog.language.printer import print_program
from tidelog.language.program import Atom, Negated, Program, Rule

# Any program


@given(programs_with_not())
@examples(5, deep=1000)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_with_not(connected=True, max_rules=8))
@examples(4, deep=600)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_with_not(recursive=False, clock=False, huge=True))
@examples(4, deep=400)
def test_programs_without_recursion(case: Case) -> None:
    """These are never refused."""
    assert answered(case) is not None
    agree(case)


@given(programs_with_not(hostile=True, huge=True))
@examples(4, deep=400)
def test_hostile_names_and_values(case: Case) -> None:
    agree(case)


@given(programs_with_not(wide=True))
@examples(3, deep=1000)
def test_what_an_attack_has_found_mistakes_with(case: Case) -> None:
    agree(case)


@given(programs_with_not(), st.randoms(use_true_random=False))
@examples(3, deep=300)
def test_programs_with_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random))


@given(programs_with_not())
@examples(3, deep=300)
def test_programs_whose_inputs_are_not_packed(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Density, "is_sparse", lambda *_: True)
        agree(case)


# What must make no difference


@given(programs_with_not(connected=True), st.integers(0, 5))
@examples(3, deep=250)
def test_a_narrower_question(case: Case, less: int) -> None:
    """The clock starts with the data, and what is absent is absent whoever asks."""
    whole, narrow = answered(case), answered(case, case.low + less)
    if whole is None or narrow is None:
        assert whole is narrow
        return
    for name in case.queries:
        timed = name in temporal_predicates(case.program)
        kept = [r for r in whole[name] if not timed or int(r[-1]) >= case.low + less]
        assert narrow[name] == kept


@given(programs_with_not(explicit_times=False, rigid=False))
@examples(3, deep=250)
def test_a_double_negation_through_a_helper(case: Case) -> None:
    """`P @ T` in a body may be written `not Lacks @ T`, where Lacks is the absence of P."""
    for rule in case.program.rules:
        for atom in rule.positive:
            others = tuple(part for part in rule.body if part is not atom)
            args = tuple(dict.fromkeys(v for v in atom.variables if not v.anonymous))
            lacks = Atom("Lacks", args, atom.time)
            changed = replace(rule, body=(*others, Negated(lacks)))
            helper = Rule(lacks, (*others, Negated(atom)))
            kept = [s for s in case.program.statements if s is not rule]
            report = check(print_program(Program((*kept, changed, helper))))
            if not report.errors:
                assert answered(case._replace(program=report.accepted())) == answered(case)
                return
    event("no atom whose variables have other values")


@pytest.mark.parametrize("name", NAMES)
def test_counterexamples(name: str) -> None:
    case = counterexample(name)
    with Engine(case.program, {n: sorted(r, key=repr) for n, r in case.facts.items()}) as engine:
        tables = engine.query(case.program.outputs, *case.ticks)
    assert {name: set(rows(table)) for name, table in tables.items()} == case.expected


# Spark


@pytest.mark.xdist_group("spark")
@pytest.mark.deep
def test_generated_programs_on_spark(spark: SparkSession) -> None:
    """The same SQL with other hands; partitions where data is merely elsewhere.

    `make test` has some in `pipeline/test_spark_negation.py`.
    """

    @given(programs_with_not(connected=True), st.randoms(use_true_random=False))
    @examples(4)
    def look(case: Case, random: Random) -> None:
        case = keyed(case, random)
        spark.conf.set("spark.sql.shuffle.partitions", str(random.randint(1, 8)))
        try:
            asked = evaluate(
                case.program,
                case.queries,
                case.facts,
                from_=case.low,
                to=case.high,
                engine="spark",
            )
        except NoAnswer:
            assert answered(case) is None
            return
        if asked.timeline is not None:
            return
        got = {name: rows(asked.answers[name]) for name in case.queries}
        want = wanted(case, got)
        for name in case.queries:
            assert got[name] == by_time(case.program, name, want[name]), (name, case.text)

    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        look()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
