"""Programs with `not`: the engines, the naive evaluator and clingo give the same answers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle import asp, naive
from oracle.generate import Case
from oracle.horizon import Answers, default_margin, runs_both_ways, temporal_predicates
from oracle.keyed import keyed
from oracle.negation import programs_with_not
from pyspark.sql import SparkSession
from support.counterexamples import NAMES, counterexample
from support.deep import examples

from tidelog.analysis.dependencies import Class, dependencies
from tidelog.errors import NoAnswer
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.engine import evaluate
from tidelog.evaluation.plan import Unbounded
from tidelog.language.checks import check
from tidelog.language.printer import print_program
from tidelog.language.program import Atom, Negated, Program, Rule, Value
from tidelog.logic.normalise import core

Rows = list[tuple[Value, ...]]


def rows(table: pa.Table) -> Rows:
    if table.column_names == ["holds"]:
        return [() for _ in range(table.num_rows)]
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def by_time(program: Program, name: str, answers: set[tuple[Value, ...]]) -> Rows:
    """In Python's order: time first, then the arguments."""
    if name not in temporal_predicates(program):
        return sorted(answers)
    return sorted(answers, key=lambda row: (row[-1], row[:-1]))


def answered(case: Case, low: int | None = None) -> dict[str, Rows] | None:
    """What DuckDB says, in its order; None where the question is rightly refused."""
    first = case.low if low is None else low
    with Engine(case.program, case.facts) as engine:
        try:
            tables = engine.query(case.queries, first, case.high)
        except Unbounded:
            assert runs_both_ways(case.program, case.queries), case.text
            event("unbounded")
            return None
        except NoAnswer:
            deps = dependencies(core(case.program, case.queries), case.queries)
            assert deps.cls is Class.BLOCKING, case.text
            assert deps.cycles_through_not, case.text
            event("a cycle through not, and recursion into the future")
            return None
    return {name: rows(table) for name, table in tables.items()}


def wanted(case: Case, got: dict[str, Rows] | None = None) -> Answers:
    """What the oracles say, over more time where their usual horizon may be too short."""
    _, program, facts, queries, low, high = case
    answers = naive.evaluate(program, facts, queries, low, high)
    if asp.fits(program, facts, low, high):
        assert asp.evaluate(program, facts, queries, low, high) == answers
    if got is not None and any(set(got[name]) != answers[name] for name in queries):
        wider = 2 * default_margin(program) + 300
        answers = naive.evaluate(program, facts, queries, low, high, wider)
    return answers


def agree(case: Case) -> None:
    got = answered(case)
    if got is None:
        return
    want = wanted(case, got)
    for name in case.queries:
        assert got[name] == by_time(case.program, name, want[name]), (name, case.text)


# Any program


@given(programs_with_not())
@examples(100)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_with_not(connected=True, max_rules=8))
@examples(60)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_with_not(recursive=False, clock=False, huge=True))
@examples(40)
def test_programs_without_recursion(case: Case) -> None:
    """These are never refused."""
    assert answered(case) is not None
    agree(case)


@given(programs_with_not(hostile=True, huge=True))
@examples(40)
def test_hostile_names_and_values(case: Case) -> None:
    agree(case)


@pytest.mark.deep
@given(programs_with_not(wide=True))
@examples(100)
def test_what_an_attack_has_found_mistakes_with(case: Case) -> None:
    agree(case)


@given(programs_with_not(), st.randoms(use_true_random=False))
@examples(30)
def test_programs_with_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random))


@given(programs_with_not())
@examples(30)
def test_programs_whose_inputs_are_not_packed(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "_sparse", lambda *_: True)
        agree(case)


# What must make no difference


@given(programs_with_not(connected=True), st.integers(0, 5))
@examples(25)
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
@examples(25)
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
def test_generated_programs_on_spark(spark: SparkSession) -> None:
    """The same SQL with other hands; partitions where data is merely elsewhere."""

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
