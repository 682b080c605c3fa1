"""Generated programs with aggregates, also in cycles, and what aggregates of sets of facts come to.

Sums are those of exact fractions, rounded once; nothing else knows about windows, groups or the
order in which facts come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from hypothesis import reject
from hypothesis import strategies as st

from tidelog import Code
from tidelog.language.checks import check
from tidelog.language.program import (
    Aggregate,
    Aggregated,
    Atom,
    Comparison,
    Constant,
    Interval,
    Literal,
    Measure,
    Operator,
    Program,
    Rule,
    Term,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Value,
    Variable,
)

from .generate import Case, GeneratedPredicate, Shape, at_offset
from .numbers import WithNumbers


def measured(measure: Measure, values: Sequence[Value], whole: bool) -> Value | None:
    """What some values come to; None where that is nothing. `whole` says whether they are int."""
    if measure is Measure.COUNT:
        return len(values)
    if not values:
        return (0 if whole else 0.0) if measure is Measure.SUM else None
    if measure in (Measure.MIN, Measure.MAX):
        ordered = sorted(values)
        return ordered[0 if measure is Measure.MIN else -1]
    numbers = [value for value in values if isinstance(value, int | float)]
    if any(abs(number) == float("inf") for number in numbers):
        return None
    total = sum(map(Fraction, numbers))
    if measure is Measure.SUM and whole:
        return int(total) if -(2**63) <= total < 2**63 else None
    try:
        rounded = float(total)
    except OverflowError:
        return None
    return rounded / len(values) if measure is Measure.AVG else rounded


def gathered(
    literal: Aggregated,
    outside: Iterable[str],
    rows: Iterable[tuple[Value, ...]],
    binding: Mapping[str, Value],
    whole: bool,
) -> Value | None:
    """What an aggregate comes to over all rows of its predicate, given what is known outside."""
    atom, of = literal.atom, literal.aggregate.of
    known = {name: binding[name] for name in outside if name in binding}
    values: list[Value] = []
    for row in set(rows):
        if isinstance(atom.time, Interval | TimeOffset | TimePoint):
            low, high = _ticks(atom.time, binding)
            if not low <= int(row[-1]) <= high:
                continue
            row = row[:-1]
        own = dict(known)
        fits = True
        for term, value in zip(atom.args, row, strict=True):
            wanted = term.value if isinstance(term, Constant) else own.setdefault(term.name, value)
            fits = fits and wanted == value
        if fits:
            values.append(0 if of is None else own[of.name])
    return measured(literal.aggregate.measure, values, whole)


def _ticks(time: Time, binding: Mapping[str, Value]) -> tuple[int, int]:
    if isinstance(time, Interval):
        return _ticks(time.low, binding)[0], _ticks(time.high, binding)[1]
    tick = time.tick if isinstance(time, TimePoint) else int(binding[time.variable.name])
    tick += 0 if isinstance(time, TimePoint) else time.offset
    return tick, tick


def programs_with_aggregates(
    *,
    recursive: bool = True,
    connected: bool = False,
    explicit_times: bool = True,
    rigid: bool = True,
    negation: bool = True,
    max_rules: int = 4,
) -> st.SearchStrategy[Case]:
    """As `programs_with_numbers`, and every program has an aggregate."""
    shape = Shape(
        recursive, connected, explicit_times, huge=False, rigid=rigid, max_rules=max_rules
    )
    return _cases(shape, negation)


def programs_with_reached_values(
    *, recursive: bool = True, connected: bool = False
) -> st.SearchStrategy[Case]:
    """As `programs_with_aggregates`, most of them least and greatest values that are compared."""
    shape = Shape(recursive, connected, True, huge=False, rigid=True, max_rules=4)
    return _reached(shape, True)


def programs_with_cycles(
    *,
    connected: bool = False,
    explicit_times: bool = True,
    rigid: bool = True,
    negation: bool = True,
    max_rules: int = 4,
) -> st.SearchStrategy[Case]:
    """As `programs_with_aggregates`, and in every program one gathers facts that hang on it."""
    shape = Shape(True, connected, explicit_times, huge=False, rigid=rigid, max_rules=max_rules)
    return _cycles(shape, negation)


@st.composite
def _cases(draw: st.DrawFn, shape: Shape, negation: bool) -> Case:
    return _WithAggregates(draw, shape, negation).case()


@st.composite
def _reached(draw: st.DrawFn, shape: Shape, negation: bool) -> Case:
    return _WithReachedValues(draw, shape, negation).case()


@st.composite
def _cycles(draw: st.DrawFn, shape: Shape, negation: bool) -> Case:
    return _WithCycles(draw, shape, negation).case()


class _WithAggregates(WithNumbers):
    measures = tuple(Measure)

    def checked(self, text: str) -> Program:
        report = check(text)
        refused = {Code.NOT_STRATIFIED, Code.NUMBER, Code.MADE_AROUND_A_CYCLE}
        if {d.code for d in report.errors} & refused:
            reject()
        program = report.accepted()
        if not any(rule.aggregated for rule in program.rules):
            reject()
        return program

    def rules(self) -> list[Rule]:
        made = super().rules()
        gathering = [r.head.predicate for r in made if r.aggregated]
        self.negative = list(dict.fromkeys(gathering)) or self.negative
        return made

    def finished(self, rule: Rule, bound: dict[Type, list[str]]) -> Rule:
        rule = super().finished(rule, bound)
        while len(rule.aggregated) < 2 and self.chance(2, 3):
            literal = self.aggregated(rule, bound)
            if literal is None:
                break
            rule = self.shown(rule, literal, bound)
        return rule

    def aggregated(self, rule: Rule, bound: dict[Type, list[str]]) -> Aggregated | None:
        head = next(p for p in self.predicates if p.name == rule.head.predicate)
        options = [p for p in self.below(head) if p.temporal or self.chance(1, 3)]
        if not options:
            return None
        p = self.one_of(options)
        time = self.gathered_time(rule) if p.temporal else None
        if p.temporal and time is None:
            return None
        args = [self.gathered_term(type_, bound) for type_ in p.types]
        places = [i for i, type_ in enumerate(p.types) if type_ is not Type.BOOL]
        measure = self.one_of(self.measures) if places else Measure.COUNT
        of, type_ = None, Type.INT
        if measure is not Measure.COUNT:
            place = self.one_of(places)
            type_ = p.types[place]
            if type_ is Type.TEXT:
                measure = self.one_of((Measure.MIN, Measure.MAX))
            of = args[place] = Variable(f"G{len(rule.aggregated)}")
            type_ = Type.FLOAT if measure is Measure.AVG else type_
        aggregate = Aggregate(measure, of, Atom(p.name, tuple(args), time))
        return self.compared(aggregate, type_, bound, len(rule.aggregated))

    def compared(
        self, aggregate: Aggregate, type_: Type, bound: dict[Type, list[str]], number: int
    ) -> Aggregated:
        if self.chance(2, 3):
            return Aggregated(aggregate, Operator.EQ, Variable(f"M{number}"))
        value: Term = self.constant(type_)
        if aggregate.measure is Measure.COUNT:
            value = Constant.of(self.number(0, 4))
        elif type_ in bound and self.chance(1, 2):
            value = Variable(self.one_of(bound[type_]))
        # Few values are equal to what an aggregate comes to.
        operator = self.one_of([o for o in Operator if o is not Operator.EQ or self.chance(1, 3)])
        return Aggregated(aggregate, operator, value, leads=self.chance(1, 2))

    def shown(self, rule: Rule, literal: Aggregated, bound: dict[Type, list[str]]) -> Rule:
        """The rule with an aggregate; a value that it gives is shown by the head, if it can be."""
        body = list(rule.body)
        body.insert(self.number(0, len(body)), literal)
        head = rule.head
        value = literal.value
        if isinstance(value, Variable) and value.name.startswith("M"):
            types = next(p for p in self.predicates if p.name == head.predicate).types
            made = self.type_of(literal)
            places = [i for i, type_ in enumerate(types) if type_ is made]
            if places:
                args = list(head.args)
                args[self.one_of(places)] = value
                head = replace(head, args=tuple(args))
        return replace(rule, head=head, body=tuple(body))

    def type_of(self, literal: Aggregated) -> Type:
        measure, atom = literal.aggregate.measure, literal.atom
        if measure is Measure.COUNT:
            return Type.INT
        if measure is Measure.AVG:
            return Type.FLOAT
        p = next(p for p in self.predicates if p.name == atom.predicate)
        assert literal.aggregate.of is not None
        return p.types[atom.args.index(literal.aggregate.of)]

    def gathered_term(self, type_: Type, bound: dict[Type, list[str]]) -> Term:
        match self.number(0, 7):
            case 7:
                return self.constant(type_)
            case 4 | 5 | 6:
                return Variable("_#0")
            case _:
                return Variable(self.one_of(bound.get(type_, ["_#0"])))

    def gathered_time(self, rule: Rule) -> Time | None:
        at = self.absent_time(rule, back=False)
        if at is None or self.chance(1, 3):
            return at
        # Most are shorter than the stretch of the facts, so that some facts are not in them.
        ticks = self.one_of((1, 2, 2, 3, 3, 4, 4, 5, 6, 9, 60, 61, 130))
        before = ticks - 1 if self.chance(1, 2) else self.number(0, ticks - 1)
        if isinstance(at, TimePoint):
            return Interval(TimePoint(at.tick - before), TimePoint(at.tick - before + ticks - 1))
        assert isinstance(at, TimeOffset)
        low = replace(at, offset=at.offset - before)
        return Interval(low, replace(low, offset=low.offset + ticks - 1))

    def facts(self) -> dict[str, list[tuple[Value, ...]]]:
        """More facts than usual, so that there is something to gather."""
        rows = super().facts()
        for p in self.predicates:
            if p.input:
                for _ in range(self.one_of((12, 8, 4, 0))):
                    args = tuple(self.one_of(self.values[t]) for t in p.types)
                    row = (*args, self.center + self.number(-7, 7)) if p.temporal else args
                    rows.setdefault(p.name, []).append(row)
        return rows


class _WithReachedValues(_WithAggregates):
    """`max(V : P(X, V) @ [T, T+9]) >= 5`, also with the value named and in several tests."""

    measures = (Measure.MIN, Measure.MAX)

    def compared(
        self, aggregate: Aggregate, type_: Type, bound: dict[Type, list[str]], number: int
    ) -> Aggregated:
        if self.chance(1, 4):
            return super().compared(aggregate, type_, bound, number)
        if self.chance(1, 4):
            return Aggregated(aggregate, Operator.EQ, Variable(f"N{number}"))
        leads = self.chance(1, 2)
        operator = self.order((aggregate.measure is Measure.MAX) is leads)
        return Aggregated(aggregate, operator, self.constant(type_), leads=leads)

    def order(self, high: bool) -> Operator:
        """Most often one that a high value meets, or a low one."""
        high = high is not self.chance(1, 5)
        return self.one_of((Operator.GE, Operator.GT) if high else (Operator.LE, Operator.LT))

    def shown(self, rule: Rule, literal: Aggregated, bound: dict[Type, list[str]]) -> Rule:
        """The rule with an aggregate; a value with a name of its own is only compared."""
        rule = super().shown(rule, literal, bound)
        value = literal.value
        if not isinstance(value, Variable) or not value.name.startswith("N"):
            return rule
        tests = [
            Comparison(
                value,
                self.order(literal.aggregate.measure is Measure.MAX),
                self.constant(self.type_of(literal)),
            )
            for _ in range(1 + self.chance(1, 2))
        ]
        return replace(rule, body=(*rule.body, *tests))


class _WithCycles(_WithAggregates):
    """Throttles, budgets and records: what is gathered hangs on what was gathered before."""

    def __init__(self, draw: st.DrawFn, shape: Shape, negation: bool) -> None:
        super().__init__(draw, shape, negation)
        self.forwards, self.way = True, 1

    def checked(self, text: str) -> Program:
        program = super().checked(text)
        if not any(gathers_its_own(program, rule) for rule in program.rules):
            reject()
        return program

    def rules(self) -> list[Rule]:
        made = super().rules()
        throttled = [rule for _ in range(1 + self.chance(1, 3)) for rule in self.throttled()]
        self.negative = list(dict.fromkeys(rule.head.predicate for rule in throttled))
        return [*made, *throttled]

    def facts(self) -> dict[str, list[tuple[Value, ...]]]:
        """Stretches of facts, so that many hang on many before them."""
        rows = super().facts()
        for p in self.predicates:
            if p.input and p.temporal:
                for _ in range(self.one_of((1, 2, 0))):
                    at = self.center + self.number(-7, 0)
                    for tick in range(at, at + self.number(3, 12)):
                        args = tuple(self.one_of(self.values[t][:2]) for t in p.types)
                        rows.setdefault(p.name, []).append((*args, tick))
        return rows

    def throttled(self) -> list[Rule]:
        """`P(X) @ T :- E(X) @ T, count(P(X) @ [T-30, T-1]) < 3.`, at times by way of another."""
        head = self.timed_head()
        if head is None:
            reject()
        p = self.predicates[0] if self.chance(1, 2) else self.source(head)
        asked = self.plain(p, at_offset(self.one_of((0, 0, 0, -1, 2))))
        rule = Rule(self.fitted(head, asked, p), (asked,))
        if self.chance(1, 4):
            rule = replace(rule, head=replace(rule.head, time=_interval(0, self.number(1, 3))))
        bound: dict[Type, list[str]] = {}
        for type_, variable in zip(p.types, asked.variables, strict=True):
            bound.setdefault(type_, []).append(variable.name)
        others = [o for o in self.derived if o.temporal and o is not head]
        if not others or self.chance(2, 3):
            return [self.looking_back(rule, head, bound)]
        other = self.one_of(others)
        first = self.plain(head, at_offset(-self.number(0, 2)))
        return [
            self.looking_back(rule, other, bound),
            Rule(self.fitted(other, first, head), (first,)),
        ]

    def looking_back(self, rule: Rule, p: GeneratedPredicate, bound: dict[Type, list[str]]) -> Rule:
        """The rule with an aggregate of facts of a predicate before its head."""
        last = -self.one_of((1, 1, 1, 2, 4))
        ticks = self.one_of((1, 2, 3, 3, 4, 5, 6, 9, 61))
        time = _interval(last - ticks + 1, last) if ticks > 1 else at_offset(last)
        args = [self.gathered_term(type_, bound) for type_ in p.types]
        if p.name == rule.head.predicate and self.chance(1, 2):
            args = list(rule.head.args)
        places = [i for i, type_ in enumerate(p.types) if type_ is not Type.BOOL]
        measure = self.one_of(tuple(Measure)) if places else Measure.COUNT
        of, type_ = None, Type.INT
        if measure is not Measure.COUNT:
            place = self.one_of(places)
            type_ = p.types[place]
            if type_ is Type.TEXT:
                measure = self.one_of((Measure.MIN, Measure.MAX))
            of = args[place] = Variable("G9")
            type_ = Type.FLOAT if measure is Measure.AVG else type_
        aggregate = Aggregate(measure, of, Atom(p.name, tuple(args), time))
        literal = self.compared(aggregate, type_, bound, 9)
        body: list[Literal] = [*rule.body, literal]
        if isinstance(literal.value, Variable) and literal.value.name == "M9":
            if measure in (Measure.MIN, Measure.MAX) and self.chance(1, 2):
                return self.shown(rule, literal, bound)
            value = Constant.of(self.number(0, 4)) if type_ is Type.INT else self.constant(type_)
            operator = self.one_of([o for o in Operator if o is not Operator.EQ])
            body.append(Comparison(literal.value, operator, value))
        return replace(rule, body=tuple(body))


def gathers_its_own(program: Program, rule: Rule) -> bool:
    """Whether a rule gathers facts that hang on its head."""
    below = {literal.atom.predicate for literal in rule.aggregated}
    todo = list(below)
    while todo:
        name = todo.pop()
        for other in program.rules:
            if other.head.predicate == name:
                new = {atom.predicate for atom in other.atoms} - below
                below |= new
                todo += new
    return rule.head.predicate in below


def _interval(low: int, high: int) -> Interval:
    return Interval(at_offset(low), at_offset(high))
