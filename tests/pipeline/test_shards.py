"""Online streams split by key, without any Spark: together the shards are one stream."""

from __future__ import annotations

import warnings
from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle import naive
from oracle.aggregates import programs_with_aggregates
from oracle.generate import Case, programs_and_facts
from oracle.keyed import keyed
from support.deep import examples

from tidelog import Stream
from tidelog.analysis.dependencies import dependencies
from tidelog.analysis.stages import staged
from tidelog.data.packed import pack
from tidelog.data.schema import resolve, schemas
from tidelog.evaluation.rows import NEW, as_rows, home, partition
from tidelog.language.checks import check
from tidelog.language.program import Type, Value
from tidelog.logic.normalise import core
from tidelog.pipeline.shards import Shards
from tidelog.streaming.clock import ShardReport, Turn
from tidelog.streaming.intake import Intake


class Driver:
    """Turns of all shards, and where they stand together."""

    def __init__(self, case: Case, partitions: int, eager: bool) -> None:
        program = resolve(case.program, {})
        deps = dependencies(core(program, case.queries), case.queries)
        work = {name for stage in staged(deps).stages for name in stage.predicates}
        self.queries = tuple(q for q in case.queries if q in work)
        deps = dependencies(core(program, self.queries).below(self.queries), self.queries)
        self.shards = Shards(program, deps, eager)
        self.partitions = partitions if self.shards.positions is not None else 1
        self.schemas = schemas(program)
        self.rigid = {
            p.name: set(Intake(self.schemas[p.base]).rows(case.facts.get(p.base, [])))
            for p in deps.core.inputs
            if not p.temporal
        }
        self.due: dict[str, int] = {}
        self.answered: tuple[str, ...] = ()
        self.state = self.shards.schema.empty_table()
        self.tin: int | None = None
        self.sql = duckdb.connect()

    def packed(self, facts: dict[str, list[tuple]]) -> pa.Table:
        tables = [self.shards.schema.empty_table()]
        for name, relation in self.shards.inputs.items():
            source = self.shards.deps.core.predicates[name].base
            times: dict[int, set] = {}
            for *row, time in facts.get(source, []):
                times.setdefault(time, set()).add(tuple(row))
            rows = pack(times)
            if rows:
                names = [*(f"a{i}" for i in range(1, len(relation.types) + 1)), "c", "b"]
                schema = self.shards.schema
                types = [*(schema.field(s).type for s in relation.slots), pa.int64(), pa.int64()]
                columns = zip(*rows, strict=True)
                arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
                tables.append(as_rows(relation, pa.table(arrays, names=names), NEW, schema))
        return pa.concat_tables(tables)

    def turn(self, first: int, to: int, low: int, new: pa.Table, closed: bool) -> dict[str, set]:
        turn = Turn(first, self.tin, to, low, self.due, self.answered, closed)
        rows = pa.concat_tables([self.state, new])
        home = "0"
        if self.shards.positions is not None:
            home = self.shards.home(self.partitions, spark=False)
        self.sql.register("everything", rows)
        out = [self.shards.schema.empty_table()]
        for number in range(self.partitions):
            mine = self.sql.sql(f"SELECT * FROM everything WHERE {home} = {number}")
            table = mine.to_arrow_table().cast(self.shards.schema)
            batches = list(self.shards.run(turn, self.rigid, table, number, self.partitions))
            out.append(pa.Table.from_batches(batches, self.shards.schema))
        everything = pa.concat_tables(out).to_pylist()
        reports: list[ShardReport] = [
            self.shards.report(r["tab"], r["c"], r["b"])
            for r in everything
            if r["tab"] in self.shards.reports
        ]
        before = dict(self.due)
        for query in self.queries:
            mine_ = [r for r in reports if r.query == query]
            assert len(mine_) == self.partitions
            if self.shards.given[query].temporal:
                self.due[query] = min(r.due for r in mine_)
            elif all(r.answered for r in mine_):
                self.answered = (*self.answered, query)
        answers: dict[str, set] = {q: set() for q in self.queries}
        kept = []
        known = {r.number: q for q, r in self.shards.given.items()}
        told = {r.number: q for q, r in self.shards.answers.items()}
        for row in everything:
            tab = row["tab"]
            query = known.get(tab, told.get(tab))
            if tab in self.shards.reports:
                continue
            if query is None:
                kept.append(row)
                continue
            relation = self.shards.given[query]
            args = tuple(row[s] for s in relation.slots)
            if not relation.temporal:
                if tab in told:
                    answers[query].add(args)
                else:
                    kept.append(row)
                continue
            for i in range(60):
                if row["b"] >> i & 1:
                    time = row["c"] + i
                    if tab in told:
                        assert (*args, time) not in answers[query], "an answer came twice"
                        answers[query].add((*args, time))
                    elif time >= self.due[query]:
                        kept.append({**row, "b": 1 << i})
                    elif not self.shards.eager and time >= before.get(query, time):
                        answers[query].add((*args, time))
        self.state = pa.Table.from_pylist(kept, self.shards.schema)
        self.tin = to
        return answers


@examples(3, deep=150)
@given(
    programs_and_facts(connected=True, huge=False),
    st.integers(2, 4),
    st.sampled_from((True, True, True, False)),  # few programs have a key by themselves
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_shards_are_one_online_stream(
    case: Case, partitions: int, split: bool, eager: bool, random: Random
) -> None:
    driver = Driver(case, partitions, eager)
    if split and not driver.shards.whole:  # one shard has it all, whatever the key
        case = keyed(case, random)
        driver = Driver(case, partitions, eager)
    if not driver.queries:
        return
    event("whole" if driver.shards.whole else "keyed" if driver.partitions > 1 else "one")
    check_at_some_ticks(driver, case, random)


@examples(3, deep=150)
@given(programs_with_aggregates(connected=True), st.booleans(), st.randoms(use_true_random=False))
def test_one_shard_has_all_of_an_aggregate(case: Case, eager: bool, random: Random) -> None:
    driver = Driver(case, 4, eager)
    if not driver.queries or driver.shards.deps.aggregate is None:
        return
    event("whole" if driver.shards.whole else "in two parts")
    assert driver.partitions == 1
    check_at_some_ticks(driver, case, random)


@pytest.mark.parametrize("eager", [True, False])
def test_one_shard_has_all_of_a_count_that_looks_ahead(eager: bool) -> None:
    text = """input E(x: text) @ t. input F(x: text, v: int) @ t.
        P(X) @ T :- E(X) @ T, count(F(X, _) @ [T, T+4]) >= 3."""
    random = Random(1)
    facts: dict[str, list[tuple[Value, ...]]] = {
        "E": [(x, t) for t in range(0, 20, 2) for x in "ab"],
        "F": [(random.choice("ab"), random.randrange(9), t) for t in range(20)],
    }
    case = Case(text, check(text).accepted(), facts, ("P",), 0, 20)
    driver = Driver(case, 4, eager)
    assert driver.shards.settled is not None
    check_against_one_stream(driver, case, list(range(20)), 0)


def check_at_some_ticks(driver: Driver, case: Case, random: Random) -> None:
    inputs = {p.base for p in driver.shards.deps.core.inputs if p.temporal}
    times = sorted({r[-1] for n in inputs for r in case.facts.get(n, [])})
    if times:
        ticks = sorted([*random.sample(times, min(len(times), 6)), times[-1]])
        check_against_one_stream(driver, case, ticks, times[0])


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(
    "rules",
    [
        "P(X) @ T :- E(X) @ T. P(X) @ T :- P(X) @ T+1.",  # it may wait for ever
        "P(X) @ T-3 :- E(X) @ T.",
    ],
)
def test_nothing_is_answered_before_the_first_tick(rules: str, eager: bool) -> None:
    """With a lateness of 2 the first fact, at -3, says that everything up to -5 has arrived."""
    text = f"input E(x: text) @ t. {rules}"
    case = Case(text, check(text).accepted(), {"E": [("a", -3), ("a", 1)]}, ("P",), -3, 1)
    driver = Driver(case, 1, eager)
    rows = driver.turn(-4, -5, -3, driver.packed({"E": [("a", -3)]}), False)["P"]
    rows |= driver.turn(-4, -1, -3, driver.packed({"E": [("a", 1)]}), False)["P"]
    rows |= driver.turn(-4, 1, -3, driver.shards.schema.empty_table(), True)["P"]
    wanted = naive.evaluate(case.program, case.facts, ["P"], -3, 1)["P"]
    assert rows == wanted


def check_against_one_stream(driver: Driver, case: Case, ticks: list[int], first: int) -> list[int]:
    """The same answers at the same ticks as one stream has; how far it is final at each."""
    layout = schemas(case.program)
    facts = {n: [tuple(r) for r in rows] for n, rows in case.facts.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stream = Stream(
            case.program,
            driver.queries,
            mode="online",
            emit="eager" if driver.shards.eager else "definitive",
            rigid={n: rows for n, rows in facts.items() if layout[n].time is None},
        )
    inputs = {p.base for p in driver.shards.deps.core.inputs if p.temporal}
    temporal = [q for q in driver.queries if driver.shards.given[q].temporal]
    after, final = first - 1, []
    for tick in dict.fromkeys(ticks):
        new = {n: [r for r in facts.get(n, []) if after < r[-1] <= tick] for n in inputs}
        step = stream.push(tick, new)
        got = driver.turn(first, tick, first, driver.packed(new), False)
        for query in driver.queries:
            assert got[query] == answer_rows(driver, query, step.answers[query]), (tick, query)
        assert step.tout == min([*(driver.due[q] - 1 for q in temporal), tick])
        final.append(step.tout)
        after = tick
    last = stream.close()
    got = driver.turn(first, ticks[-1], first, driver.shards.schema.empty_table(), True)
    for query in driver.queries:
        assert got[query] == answer_rows(driver, query, last.answers[query])
    return final


def answer_rows(driver: Driver, query: str, table: pa.Table) -> set[tuple]:
    relation = driver.shards.given[query]
    rows = {tuple(r.values()) for r in table.to_pylist()}
    return {()} if rows == {(True,)} and not relation.types and not relation.temporal else rows


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize(
    ("rules", "final"),
    [
        # Key a is at home in one shard: the others must not wait for it. At 4 it may still come.
        ("Q(a) @ T :- E(a) @ T. Q(a) @ T :- F(a) @ T+2.", [1, 2, 3, 3]),
        ("Q(a) @ T :- F(a) @ T+2, not E(a) @ T.", [1, 2, 3, 3]),
        ("Q(X) @ T :- R(X), E(X) @ T. Q(X) @ T :- R(X), F(X) @ T+2.", [1, 2, 3, 3]),
        ("Q(X) @ T :- P(X) @ T. P(a) @ T :- E(a) @ T. P(a) @ T :- F(a) @ T+2.", [1, 2, 3, 3]),
        # It may come for any key: no shard knows better.
        ("Q(X) @ T :- E(X) @ T. Q(X) @ T :- F(X) @ T+2.", [0, 0, 1, 3]),
    ],
    ids=["there", "gone", "rigid", "derived", "any key"],
)
def test_a_shard_does_not_wait_for_keys_of_others(
    rules: str, final: list[int], eager: bool
) -> None:
    text = f"input E(k: text) @ t. input F(k: text) @ t. input R(k: text). output Q. {rules}"
    facts = {"E": [("a", t) for t in (1, 2, 3, 5)], "F": [("b", 2), ("a", 6)], "R": [("a",)]}
    case = Case(text, check(text).accepted(), facts, ("Q",), 1, 6)
    driver = Driver(case, 3, eager)
    assert driver.partitions == 3
    assert check_against_one_stream(driver, case, [1, 2, 3, 5, 6], 1)[:4] == final


@given(
    st.one_of(
        st.text().filter(lambda s: "\0" not in s),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
    ),
    st.integers(1, 50),
)
def test_both_engines_and_python_agree_where_a_key_is_at_home(
    key: str | int | float | bool, partitions: int
) -> None:
    kinds = {str: Type.TEXT, bool: Type.BOOL, int: Type.INT, float: Type.FLOAT}
    where = partition("k", kinds[type(key)], partitions, spark=False)
    with duckdb.connect() as connection:
        connection.register("given", pa.table({"k": pa.array([key])}))
        rows = connection.execute(f"SELECT {where} FROM given").fetchall()
    assert rows == [(home(key, partitions),)]
