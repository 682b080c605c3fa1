"""The logical plan of some queries: what is packed, derived and iterated, in which order.

A plan is data. Inputs are selected and projected before they are packed (`Scan`); each clause
becomes a join of scans and derived predicates (`Join`); a recursive component is iterated
(`Fixpoint`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from tidelog.analysis.dependencies import Dependencies, refuse_blocking_cycles
from tidelog.data.ticks import ALWAYS, EMPTY, Range
from tidelog.evaluation.ranges import ranges
from tidelog.language.program import (
    Calculation,
    Comparison,
    Constant,
    Expression,
    Measure,
    Term,
    Type,
    Variable,
    terms_of,
)
from tidelog.logic.clause import (
    AT_HEAD,
    RIGID,
    AggregateOf,
    Clause,
    Free,
    Head,
    Offset,
    Over,
    Parts,
    Premise,
    Sign,
    WindowOf,
)
from tidelog.logic.core import External, Operation, Predicate, RuleSet, clause_of_a_tick, rules_for


class Unbounded(Exception):
    """Evaluating a clause would never end: what it derives reaches infinitely far both ways."""

    def __init__(self, clause: Clause, predicate: str, range_: Range) -> None:
        self.clause = clause
        self.predicate = predicate
        self.range = range_
        super().__init__(
            f"{clause.origin}: `{predicate}` may hold at infinitely many times that matter for the"
            f" answer ({range_}), so that evaluating it over the data cannot be exact"
        )


@dataclass(frozen=True)
class Selection:
    """A way for a row of an input to be taken: it matches a premise and passes some tests."""

    premise: Premise
    tests: tuple[Comparison, ...]


@dataclass(frozen=True)
class Scan:
    """An input, selected and projected: its variables in order, packed when it is temporal."""

    name: str
    predicate: Predicate
    premise: Premise
    tests: tuple[Comparison, ...]
    columns: tuple[int, ...]  # positions kept
    others: tuple[Selection, ...] = ()  # rows that one of these takes are taken too

    @property
    def selections(self) -> tuple[Selection, ...]:
        return (Selection(self.premise, self.tests), *self.others)


@dataclass(frozen=True)
class Operand:
    """One premise of a join: a table, what stands in its columns, and when."""

    table: str
    args: tuple[Term, ...]
    premise: Premise


@dataclass(frozen=True)
class Join:
    """One clause: its operands, those that must be absent, and the tests that no scan makes."""

    clause: Clause
    operands: tuple[Operand, ...]
    tests: tuple[Comparison, ...]
    absent: tuple[Operand, ...] = ()
    also: tuple[Clause, ...] = ()  # clauses that do the same with rows of the scan's other ways

    @property
    def reads(self) -> tuple[Operand, ...]:
        return (*self.operands, *self.absent)


@dataclass(frozen=True)
class Stop:
    """Where a fill ends: at the ticks of a join, for those of P's arguments that it mentions."""

    join: Join
    columns: tuple[int, ...]  # positions of P


@dataclass(frozen=True)
class Fill:
    """`P(X..) @ T+k :- P(X..) @ T, guards`: carried on in steps of k while the guards hold.

    `filter` is the part of the body that no time can change, applied to P itself; `guard` the part
    at the head's time, a relation over those of P's arguments that it mentions; `stops` are what
    must be absent at the head's time.
    """

    clause: Clause
    predicate: str
    step: int
    filter: Join | None
    guard: Join | None
    columns: tuple[int, ...]  # positions of P that the guard mentions
    stops: tuple[Stop, ...] = ()

    @property
    def ever(self) -> bool:
        """Whether a fact, once it holds, holds at every tick from then on (or until then)."""
        return self.guard is None and not self.stops and abs(self.step) == 1

    @property
    def joins(self) -> tuple[Join, ...]:
        own = tuple(part for part in (self.filter, self.guard) if part is not None)
        return (*own, *(stop.join for stop in self.stops))


@dataclass(frozen=True)
class Derive:
    """A predicate that does not depend on itself.

    With `over`, its join gives what must hold at so many of the ticks up to the head's.
    """

    predicate: Predicate
    table: str
    joins: tuple[Join, ...]
    over: Over | None = None


@dataclass(frozen=True)
class Gather:
    """The predicate of an aggregate: what facts come to, over so many ticks that end with each.

    The join gives the facts, with all variables of the premise that make a difference; `facts` says
    what these are.
    """

    predicate: Predicate
    table: str
    join: Join
    facts: Predicate
    measure: Measure
    groups: tuple[int, ...]  # positions of the facts' arguments by which they are taken apart
    of: int | None  # the position that is measured
    ticks: int
    parts: Parts | None = None

    @property
    def adds(self) -> Type | None:
        """The type of the numbers that are added up; None if nothing is, or if it is not known.

        Parts of integers do for an average, which is a float, as those of floats do.
        """
        if self.measure not in (Measure.SUM, Measure.AVG):
            return None
        if self.parts is Parts.READ:
            return self.predicate.types[-1]
        return None if self.of is None else self.facts.types[self.of]

    @property
    def adds_floats(self) -> bool:
        """Whether it adds floats up, and it makes a difference how large they are."""
        return self.adds is Type.FLOAT and self.parts is not Parts.MADE


@dataclass(frozen=True)
class Fixpoint:
    """Predicates that depend on each other: start, then repeat on what is new.

    With `through_not` some of them hang on the absence of others, strictly earlier. In the same way
    they hang on what is made `before` each round of the facts of the last one: aggregates, and
    windows that must not hold.
    """

    predicates: tuple[Predicate, ...]
    tables: tuple[str, ...]
    start: tuple[Join, ...]
    repeat: tuple[Join, ...]
    fills: tuple[Fill, ...]
    through_not: bool = False
    before: tuple[Gather | Derive, ...] = ()

    @property
    def joins(self) -> tuple[Join, ...]:
        filled = (join for fill in self.fills for join in fill.joins)
        made = (join for step in self.before for join in joins_of(step))
        return (*self.start, *self.repeat, *filled, *made)

    @property
    def asked_before(self) -> tuple[str, ...]:
        """Its tables of which the last round is looked at: for absence, or for what is made of
        them.
        """
        stops = (stop.join for fill in self.fills for stop in fill.stops)
        made = (join for step in self.before for join in joins_of(step))
        looked_at = {operand.table for join in (*stops, *made) for operand in join.operands}
        looked_at |= {operand.table for join in self.joins for operand in join.absent}
        return tuple(table for table in self.tables if table in looked_at)


PlanStep: TypeAlias = Scan | Derive | Fixpoint | Gather


@dataclass(frozen=True)
class Plan:
    deps: Dependencies
    steps: tuple[PlanStep, ...]
    tables: dict[str, str]  # derived predicate to table
    inputs: dict[str, str]  # input predicate to the table its facts are in
    ranges: dict[str, Range]  # where each temporal predicate is evaluated
    data: dict[str, Range]  # where each temporal input has facts
    asked: Range
    # Of predicates that hang on themselves and on absence, the tick up to which what holds is
    # given: of what they rest on there, not all is kept, and nothing is derived any more.
    given: dict[str, int] = field(default_factory=dict)


def plan(
    deps: Dependencies,
    data: Mapping[str, Range],
    asked: Range,
    until: int | None = None,
    within: Range = ALWAYS,
    *,
    exchanged: bool = False,
) -> Plan:
    """The plan of the queries of `deps` over data at given times, for answers at `asked`.

    Facts after the tick `until` are left out, whatever the data holds. Facts outside `within` need
    not be looked at nor derived: what is found then holds, and what is not found may hold too.
    Where facts are exchanged they rather are selected twice than sent with
    columns that make no difference.
    Raises Unbounded when a recursive predicate would have to be evaluated for ever.
    """
    history = ALWAYS if until is None else Range(-math.inf, until)
    needed = ranges(deps, {name: range_ & history for name, range_ in data.items()}, asked)
    needed = {name: range_ & within for name, range_ in needed.items()}
    for name in deps.predicates:
        if name in deps.recursive and name in needed and not needed[name].finite:
            base = deps.core.predicates[name].base
            raise Unbounded(_carrier(deps, name), base, needed[name])
    return _Planner(deps, needed, dict(data), asked, exchanged=exchanged).plan()


def stream_plan(deps: Dependencies) -> Plan:
    """The steps of the queries without any range: a stream sets them as time goes on."""
    return _Planner(deps, {}, {}, EMPTY).plan()


def _carrier(deps: Dependencies, name: str) -> Clause:
    """The clause that carries a recursive predicate through time."""
    component = next(set(c) for c in deps.components if name in c)
    uses = [e for e in deps.edges if e.head in component and e.body in component]
    moving = [e.clause for e in uses if e.offset] + [e.clause for e in uses]
    return moving[0]


class _Planner:
    def __init__(
        self,
        deps: Dependencies,
        ranges_: dict[str, Range],
        data: dict[str, Range],
        asked: Range,
        *,
        exchanged: bool = False,
    ) -> None:
        refuse_blocking_cycles(deps)
        self.exchanged = exchanged
        self.deps = deps
        self.core = deps.core
        self.ranges = ranges_
        self.data = data
        self.asked = asked
        self.steps: list[PlanStep] = []
        self.scans: dict[object, Scan] = {}
        self.tables: dict[str, str] = {}
        self.inputs: dict[str, str] = {}
        for name, predicate in self.core.predicates.items():
            if predicate.input:
                self.inputs[name] = table_name("in", len(self.inputs) + 1, predicate.base)
            else:
                self.tables[name] = table_name("p", len(self.tables) + 1, name)

    def plan(self) -> Plan:
        for component in self.deps.components:
            if self.core.predicates[component[0]].input:
                continue
            if component[0] in self.deps.recursive:
                self.fixpoint(component)
            else:
                self.derive(*component)
        return Plan(
            self.deps,
            tuple(self.steps),
            self.tables,
            self.inputs,
            self.ranges,
            self.data,
            self.asked,
        )

    def derive(self, name: str) -> None:
        definition = self.core.definitions[name]
        match definition:
            case RuleSet(clauses):
                joins = tuple(self.join(clause) for clause in clauses)
                self.steps.append(Derive(self.core.predicates[name], self.tables[name], joins))
            case WindowOf() | AggregateOf():
                self.steps.append(self.operation(name, definition))
            case External():
                raise AssertionError(f"{name} is not derived")
            case _:
                assert_never(definition)

    def operation(self, name: str, definition: Operation) -> Gather | Derive:
        """A window or an aggregate in one step."""
        match definition:
            case WindowOf():
                join = self.join(clause_of_a_tick(name, definition))
                own, table = self.core.predicates[name], self.tables[name]
                return Derive(own, table, (join,), definition.over)
            case AggregateOf():
                return self.gather(name, definition)
            case _:
                assert_never(definition)

    def gather(self, name: str, aggregate: AggregateOf) -> Gather:
        """An aggregate in one step."""
        of, measure = aggregate.of, aggregate.measure
        below = self.core.predicates[of.predicate]
        types = dict(zip(of.args, below.types, strict=True))
        variables = tuple(dict.fromkeys(of.variables))
        if self.exchanged and measure in (Measure.MIN, Measure.MAX):  # equal values are one
            asked = (*aggregate.groups, aggregate.variable)
            variables = tuple(v for v in variables if v in asked)
        facts = replace(below, types=tuple(types[v] for v in variables))
        when = AT_HEAD if of.temporal else RIGID
        source = Clause(Head(name, variables, when), (of,), origin=of.origin)
        return Gather(
            self.core.predicates[name],
            self.tables[name],
            self.join(source),
            facts,
            measure,
            tuple(variables.index(v) for v in aggregate.groups),
            None if aggregate.variable is None else variables.index(aggregate.variable),
            aggregate.ticks,
            aggregate.parts,
        )

    def fixpoint(self, component: tuple[str, ...]) -> None:
        before = self.before(component)
        made = {step.predicate.name for step in before}
        names = [name for name in component if name in self.tables and name not in made]
        inside = set(names)
        start: list[Join] = []
        repeat: list[Join] = []
        fills: list[Fill] = []
        for name in names:
            for clause in rules_for(self.core, name):
                if not any(premise.predicate in inside for premise in clause.positive):
                    start.append(self.join(clause))
                elif (fill := self.fill(clause, inside)) is not None:
                    fills.append(fill)
                else:
                    repeat.append(self.join(clause))
        self.steps.append(
            Fixpoint(
                tuple(self.core.predicates[name] for name in names),
                tuple(self.tables[name] for name in names),
                tuple(start),
                tuple(repeat),
                tuple(fills),
                component in self.deps.cycles_through_not,
                before,
            )
        )

    def before(self, component: tuple[str, ...]) -> tuple[Gather | Derive, ...]:
        """What a component hangs on of its own earlier facts: aggregates, and absent windows."""
        operations = self.core.operations
        return tuple(self.operation(n, operations[n]) for n in component if n in operations)

    def fill(self, clause: Clause, inside: set[str]) -> Fill | None:
        """The clause as a fill, if it carries one predicate on with its arguments unchanged."""
        head = clause.head
        own = [premise for premise in clause.positive if premise.predicate in inside]
        if len(own) != 1 or own[0].predicate != head.predicate or own[0].args != head.args:
            return None
        if clause.definitions:
            return None
        offset = own[0].offset
        variables = [v.name for v in head.variables]
        if not offset or len(set(variables)) < len(head.args):
            return None
        others = tuple(premise for premise in clause.positive if premise is not own[0])
        parted = _parted(clause, others)
        if parted is None:
            return None
        absent_in_guard, absent_in_filter, stopping = parted
        guard = None
        columns: tuple[int, ...] = ()
        if any(isinstance(premise.when, Offset) for premise in others):
            bound = {v.name for premise in others for v in premise.variables}
            filters = _outside(clause.tests, bound)
            if any(names & bound - set(variables) for names in map(_names, filters)):
                return None  # a test ties the guard to arguments the guard does not mention
            columns = tuple(i for i, name in enumerate(variables) if name in bound)
            arrival = Head(head.predicate, tuple(head.args[i] for i in columns), head.when)
            tests = tuple(test for test in clause.tests if test not in filters)
            guard = self.join(Clause(arrival, (*others, *absent_in_guard), tests, clause.origin))
            others = ()
        else:
            filters = list(clause.tests)
        filter_ = None
        others += absent_in_filter
        if others or filters:
            here = Premise(head.predicate, head.args, AT_HEAD)
            passing = Clause(head, (here, *others), tuple(filters), clause.origin)
            filter_ = self.join(passing)
        stops = tuple(self.stop(clause, premise) for premise in stopping)
        return Fill(clause, head.predicate, -offset, filter_, guard, columns, stops)

    def stop(self, clause: Clause, premise: Premise) -> Stop:
        """Where the presence of a negated premise ends a fill."""
        head = clause.head
        named = {v.name for v in premise.variables}
        columns = tuple(i for i, v in enumerate(head.variables) if v.name in named)
        arrival = Head(head.predicate, tuple(head.args[i] for i in columns), head.when)
        present = replace(premise, sign=Sign.POSITIVE)
        return Stop(self.join(Clause(arrival, (present,), (), clause.origin)), columns)

    def join(self, clause: Clause) -> Join:
        """Operands for the premises; tests within one input premise move into its scan."""
        counts: dict[str, int] = {}
        for part in (*clause.parts, *clause.tests):
            for name in {v.name for v in part.variables}:
                counts[name] = counts.get(name, 0) + 1
        # Those that give a variable its value come before those that compare it.
        first = clause.definitions
        left = [*first, *(test for test in clause.tests if test not in first)]
        operands: list[Operand] = []
        absent: list[Operand] = []
        for premise in clause.negative:
            if self.core.predicates[premise.predicate].input:
                # What it asks for and does not bind is bound elsewhere; `_` is not looked at.
                named = {v.name for v in premise.variables if counts[v.name] > 1}
                absent.append(self.scan(premise, (), named))
            else:
                absent.append(Operand(self.tables[premise.predicate], premise.args, premise))
        for premise in clause.positive:
            if not self.core.predicates[premise.predicate].input:
                operands.append(Operand(self.tables[premise.predicate], premise.args, premise))
                continue
            names = {v.name for v in premise.variables}
            local = tuple(test for test in left if _names(test) <= names)
            for test in local:
                left.remove(test)
            # A variable is kept if anything but this premise and its own tests mentions it.
            own = {name: 1 + sum(name in _names(test) for test in local) for name in names}
            operands.append(self.scan(premise, local, {n for n in names if counts[n] > own[n]}))
        return Join(clause, tuple(operands), tuple(left), tuple(absent))

    def scan(self, premise: Premise, local: tuple[Comparison, ...], wanted: set[str]) -> Operand:
        predicate = self.core.predicates[premise.predicate]
        columns: list[int] = []
        seen: set[str] = set()
        for i, term in enumerate(premise.args):
            if isinstance(term, Variable) and term.name in wanted and term.name not in seen:
                seen.add(term.name)
                columns.append(i)
        key = (premise.predicate, *_shape(premise, local), tuple(columns))
        scan = self.scans.get(key)
        if scan is None:
            name = table_name("s", len(self.scans) + 1, predicate.base)
            scan = self.scans[key] = Scan(name, predicate, premise, local, tuple(columns))
            self.steps.append(scan)
        return Operand(scan.name, tuple(premise.args[i] for i in columns), premise)


def _names(test: Comparison) -> set[str]:
    return {v.name for v in test.variables}


def _parted(
    clause: Clause, others: tuple[Premise, ...]
) -> tuple[tuple[Premise, ...], tuple[Premise, ...], tuple[Premise, ...]] | None:
    """The negated premises of a fill: those of its guard, those of its filter, and those that stop
    it; None where one ties the guard to arguments the guard does not mention.
    """
    head = {v.name for v in clause.head.variables}
    guarded = any(isinstance(premise.when, Offset) for premise in others)
    bound = {v.name for premise in others for v in premise.variables}
    in_guard: list[Premise] = []
    in_filter: list[Premise] = []
    stopping: list[Premise] = []
    for premise in clause.negative:
        names = {v.name for v in premise.variables if not v.anonymous}
        moving = isinstance(premise.when, Offset)
        if guarded and names <= bound:
            in_guard.append(premise)
        elif moving and names <= head:
            stopping.append(premise)
        elif not moving and (not guarded or _fits_filter(premise, names, head)):
            in_filter.append(premise)
        else:
            return None
    return tuple(in_guard), tuple(in_filter), tuple(stopping)


def _fits_filter(premise: Premise, names: set[str], head: set[str]) -> bool:
    """Whether a premise says the same at all times, and only of what is carried on."""
    return not isinstance(premise.when, Free) and names <= head


def _outside(tests: Iterable[Comparison], bound: set[str]) -> list[Comparison]:
    """The tests that mention more than some variables."""
    return [test for test in tests if not _names(test) <= bound]


def _shape(premise: Premise, local: tuple[Comparison, ...]) -> tuple[object, frozenset[object]]:
    """Constants, repeated variables and tests of a premise, whatever its variables' names."""
    first: dict[str, int] = {}
    for i, term in enumerate(premise.args):
        if isinstance(term, Variable):
            first.setdefault(term.name, i)

    def place(operand: Expression) -> object:
        if isinstance(operand, Calculation):
            return (operand.function, *map(place, operand.args))
        return first[operand.name] if isinstance(operand, Variable) else operand

    compared = frozenset((place(c.left), c.operator, place(c.right)) for c in local)
    return tuple(map(place, premise.args)), compared


def table_name(prefix: str, number: int, predicate: str) -> str:
    """A generated identifier: unique by its number, readable by what it keeps of the name.

    >>> table_name("p", 2, 'Über"Flag')
    'p2_berflag'
    """
    readable = "".join(c for c in predicate.lower() if c.isascii() and (c.isalnum() or c == "_"))
    return f"{prefix}{number}_{readable[:30]}" if readable else f"{prefix}{number}"


def joins_of(step: PlanStep) -> tuple[Join, ...]:
    """All joins of a step."""
    match step:
        case Scan():
            return ()
        case Derive() | Fixpoint():
            return step.joins
        case Gather():
            return (step.join,)
        case _:
            assert_never(step)


def tables_of(step: PlanStep) -> tuple[str, ...]:
    """The tables that a step makes."""
    match step:
        case Scan():
            return (step.name,)
        case Derive() | Gather():
            return (step.table,)
        case Fixpoint():
            return (*step.tables, *(made.table for made in step.before))
        case _:
            assert_never(step)


def tables_read(step: PlanStep) -> Iterable[str]:
    """The tables that a step looks at."""
    return dict.fromkeys(operand.table for join in joins_of(step) for operand in join.reads)


def uses(plan: Plan, table: str, rounds: int = 2) -> int:
    """How often a table is read; where rounds repeat, in each of so many."""
    count = 0
    for step in plan.steps:
        times = rounds if isinstance(step, Fixpoint) else 1
        tables = [operand.table for join in joins_of(step) for operand in join.reads]
        count += times * tables.count(table)
    return count


def read_as_it_is(plan: Plan, table: str) -> bool:
    """Whether a table is read once, at the time of what is derived from it."""
    reads = (operand for step in plan.steps for join in joins_of(step) for operand in join.reads)
    times = [operand.premise.when for operand in reads if operand.table == table]
    return times == [Offset(0)] and uses(plan, table) == 1


def shifts_of_one_table(join: Join) -> list[int]:
    """How its operands are moved to the head's time, if all are one table with the same arguments;
    none of them otherwise.
    """
    if len({(operand.table, operand.args) for operand in join.operands}) != 1:
        return []
    times = [operand.premise.when for operand in join.operands]
    shifts = [-when.ticks for when in times if isinstance(when, Offset)]
    return shifts if len(shifts) == len(times) else []


def only_meets(join: Join) -> bool:
    """Whether a join says only that one table, with all its arguments, holds at some ticks."""
    args = join.clause.head.args
    return (
        bool(shifts_of_one_table(join))
        and not (join.tests or join.absent)
        and all(isinstance(term, Variable) for term in args)
        and len(set(args)) == len(args) == len(join.operands[0].args)
        and set(args) == set(join.operands[0].args)
    )


def constants(steps: Iterable[PlanStep]) -> list[Constant]:
    """Every constant of the plan, once, in order of appearance."""
    terms: list[Term] = []
    for step in steps:
        for selection in step.selections if isinstance(step, Scan) else ():
            terms += (*selection.premise.args, *_sides(selection.tests))
        for join in joins_of(step):
            terms += join.clause.head.args
            terms += (term for operand in join.reads for term in operand.args)
            terms += _sides(join.tests)
    return list(dict.fromkeys(term for term in terms if isinstance(term, Constant)))


def _sides(tests: Iterable[Comparison]) -> list[Term]:
    sides = (side for test in tests for side in (test.left, test.right))
    return [term for side in sides for term in terms_of(side)]
