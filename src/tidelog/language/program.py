"""Programs as data: frozen, comparable, and each part knows where it was written.

Origins do not take part in equality: two programs are equal when they say the same thing in the
same order, wherever they were read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Self, TypeAlias, TypeVar, assert_never

# Times, offsets and integers are 64-bit everywhere they are stored.
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
# Times and offsets stay two bits short of that, so that a sum of two never overflows.
TIME_MAX = 2**62 - 1
# Offsets add up along rules; no fact that they derive, nor a step on the way, is further out.
REACH_MAX = 2**60 - 1
FAR_MAX = TIME_MAX + 2 * REACH_MAX


@dataclass(frozen=True, slots=True)
class Origin:
    """A stretch of source text; lines and columns count from 1, the end column is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = Origin("<generated>", 1, 1, 1, 1)


class Type(StrEnum):
    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"


Value: TypeAlias = str | int | float | bool
Row: TypeAlias = tuple[Value, ...]


def type_of(value: Value) -> Type:
    """The type of a constant's value.

    >>> type_of(True), type_of(1), type_of(1.0), type_of("1")
    (<Type.BOOL: 'bool'>, <Type.INT: 'int'>, <Type.FLOAT: 'float'>, <Type.TEXT: 'text'>)
    """
    match value:
        case bool():
            return Type.BOOL
        case int():
            return Type.INT
        case float():
            return Type.FLOAT
        case str():
            return Type.TEXT


@dataclass(frozen=True, slots=True)
class Variable:
    """An object or time variable. Anonymous ones (`_`) are numbered within their rule: `_#1`."""

    name: str
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    @property
    def anonymous(self) -> bool:
        return self.name.startswith("_#")


@dataclass(frozen=True, slots=True)
class Constant:
    """An object. The type is part of it: `1`, `1.0` and `true` are three constants."""

    value: Value
    type: Type
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    @staticmethod
    def of(value: Value) -> Constant:
        return Constant(value, type_of(value))


Term: TypeAlias = Variable | Constant


@dataclass(frozen=True, slots=True)
class TimePoint:
    """An explicit time: `@ 5`."""

    tick: int
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TimeOffset:
    """A time variable plus an offset: `@ T`, `@ T+2`, `@ T-1`.

    One that was written as a length of time has that text beside its ticks: `-10m` and -10.
    """

    variable: Variable
    offset: int = 0
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)
    written: tuple[str, int] | None = field(default=None, compare=False, repr=False)


Instant: TypeAlias = TimePoint | TimeOffset


class Quantifier(StrEnum):
    """At how many ticks of an interval an atom must hold."""

    SOME = "some"
    ALWAYS = "always"
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True)
class Interval:
    """Every tick from `low` to `high`: `[T-4, T]`, both ends on one variable or both fixed.

    In a body a quantifier says at how many of them the atom holds, `least` being the number after
    `at least`. A head has none: it holds at each of them.
    """

    low: Instant
    high: Instant
    quantifier: Quantifier | None = None
    least: int = 0
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    @property
    def ticks(self) -> int:
        """How many ticks it has.

        >>> Interval(TimePoint(3), TimePoint(5)).ticks
        3
        """
        return ticks_of(self.high) - ticks_of(self.low) + 1

    @property
    def fewest(self) -> int:
        """At how many ticks of it the atom must hold."""
        match self.quantifier:
            case Quantifier.SOME:
                return 1
            case Quantifier.ALWAYS | None:
                return self.ticks
            case Quantifier.AT_LEAST:
                return self.least
            case _:
                assert_never(self.quantifier)


def ticks_of(instant: Instant) -> int:
    """The tick, or the ticks after the variable."""
    return instant.tick if isinstance(instant, TimePoint) else instant.offset


Time: TypeAlias = Instant | Interval


def ends(time: Time | None) -> tuple[Instant, ...]:
    """The ticks that a time names: one, the two ends of an interval, or none."""
    match time:
        case Interval(low, high):
            return (low, high)
        case TimePoint() | TimeOffset():
            return (time,)
        case None:
            return ()
        case _:
            assert_never(time)


def time_variable_of(time: Time | None) -> Variable | None:
    """The variable that a time hangs on."""
    offsets = (end for end in ends(time) if isinstance(end, TimeOffset))
    return next((end.variable for end in offsets), None)


def fixed_ticks(time: Time | None) -> range:
    """The ticks that a time without a variable stands for.

    >>> fixed_ticks(Interval(TimePoint(3), TimePoint(5)))
    range(3, 6)
    """
    if time is None or time_variable_of(time) is not None:
        return range(0)
    return range(ticks_of(ends(time)[0]), ticks_of(ends(time)[-1]) + 1)


@dataclass(frozen=True, slots=True)
class Atom:
    """`P(t1, .., tn) @ time`, or a rigid atom, whose time is None."""

    predicate: str
    args: tuple[Term, ...] = ()
    time: Time | None = None
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    @property
    def variables(self) -> Iterator[Variable]:
        """The object variables, in order, repeated as written."""
        return (term for term in self.args if isinstance(term, Variable))


class Operator(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class Function(StrEnum):
    """What can be made of numbers."""

    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDED = "/"
    ABS = "abs"
    LEAST = "least"
    GREATEST = "greatest"


@dataclass(frozen=True, slots=True)
class Calculation:
    """A number made of others: `V - W`, `abs(V)`, `least(V, W, 10)`.

    `type` is that of the numbers it is made of, where types are known.
    """

    function: Function
    args: tuple[Expression, ...]
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)
    type: Type | None = field(default=None, compare=False, repr=False)


# What stands on the sides of a comparison.
Expression: TypeAlias = Variable | Constant | Calculation


def terms_of(operand: Expression) -> Iterator[Term]:
    """The variables and constants of an expression, in order, repeated as written."""
    match operand:
        case Variable() | Constant():
            yield operand
        case Calculation(_, args):
            for arg in args:
                yield from terms_of(arg)
        case _:
            assert_never(operand)


def variable_names(operand: Expression) -> set[str]:
    """The names of the variables of an expression."""
    return {term.name for term in terms_of(operand) if isinstance(term, Variable)}


def made_type(calculation: Calculation) -> Type | None:
    """The type of what is made: what is divided is a float."""
    return Type.FLOAT if calculation.function is Function.DIVIDED else calculation.type


def substituted(operand: Expression, values: Mapping[str, Expression]) -> Expression:
    """An expression with others in place of some variables."""
    match operand:
        case Variable(name):
            return values.get(name, operand)
        case Constant():
            return operand
        case Calculation(_, args):
            return replace(operand, args=tuple(substituted(arg, values) for arg in args))
        case _:
            assert_never(operand)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left < right`; `X = ..` with an X that has no value yet gives it one."""

    left: Expression
    operator: Operator
    right: Expression
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    @property
    def variables(self) -> Iterator[Variable]:
        sides = (*terms_of(self.left), *terms_of(self.right))
        return (term for term in sides if isinstance(term, Variable))


@dataclass(frozen=True, slots=True)
class Negated:
    """`not P(t1, .., tn) @ time`: no such fact is there."""

    atom: Atom
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    @property
    def variables(self) -> Iterator[Variable]:
        return self.atom.variables


class Measure(StrEnum):
    """What can be made of many facts."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`avg(V : Pulse(P, V) @ [T-4, T])`: of all facts that an atom matches at its ticks.

    Facts are taken apart by the variables that stand outside, too; those that stand inside only,
    `of` among them, are the aggregate's own. A count is of no variable.
    """

    measure: Measure
    of: Variable | None
    atom: Atom
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregated:
    """`A = avg(..)` or `count(..) >= 5`: what an aggregate comes to, compared with a value.

    `leads` says on which side the aggregate stands; a value that is a variable with no value yet
    gets it by `=`.
    """

    aggregate: Aggregate
    operator: Operator  # as it stands between the left side and the right one
    value: Expression
    leads: bool = False
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    @property
    def atom(self) -> Atom:
        return self.aggregate.atom

    @property
    def variables(self) -> Iterator[Variable]:
        """All of them, those of the aggregate alone, too."""
        of = () if self.aggregate.of is None else (self.aggregate.of,)
        outside = (term for term in terms_of(self.value) if isinstance(term, Variable))
        return iter((*outside, *of, *self.atom.variables))


Literal: TypeAlias = Atom | Negated | Comparison | Aggregated


@dataclass(frozen=True, slots=True)
class Rule:
    """`head :- body.`; with an empty body, a fact."""

    head: Atom
    body: tuple[Literal, ...] = ()
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The atoms of the body, also those after `not` and those of aggregates."""
        return tuple(atom for atom in map(atom_of, self.body) if atom is not None)

    @property
    def positive(self) -> tuple[Atom, ...]:
        """The atoms that must hold: they give variables their values."""
        return tuple(literal for literal in self.body if isinstance(literal, Atom))

    @property
    def negative(self) -> tuple[Atom, ...]:
        """The atoms after `not`."""
        return tuple(literal.atom for literal in self.body if isinstance(literal, Negated))

    @property
    def aggregated(self) -> tuple[Aggregated, ...]:
        return tuple(literal for literal in self.body if isinstance(literal, Aggregated))

    @property
    def outside(self) -> set[str]:
        """The variables that do not stand within aggregates alone."""
        names = {variable.name for variable in self.head.variables}
        for literal in self.body:
            match literal:
                case Aggregated(_, _, value):
                    names |= variable_names(value)
                case Atom() | Negated() | Comparison():
                    names.update(variable.name for variable in literal.variables)
                case _:
                    assert_never(literal)
        return names

    @property
    def measured(self) -> tuple[Aggregated, ...]:
        """The aggregates that give a variable its value: `A = avg(..)`."""
        known = {variable.name for atom in self.positive for variable in atom.variables}
        defining: list[Aggregated] = []
        for literal in self.aggregated:
            value = literal.value
            if literal.operator is Operator.EQ and isinstance(value, Variable):
                inside = {v.name for v in literal.atom.variables}
                if value.name not in known | inside and not value.anonymous:
                    known.add(value.name)
                    defining.append(literal)
        return tuple(defining)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(literal for literal in self.body if isinstance(literal, Comparison))

    @property
    def definitions(self) -> tuple[Comparison, ...]:
        """The comparisons `X = ..` that give X its value, in an order in which they can."""
        waiting = [c for c in self.comparisons if _may_define(c)]
        if not waiting or not self.positive:
            return ()
        known = {variable.name for atom in self.positive for variable in atom.variables}
        known |= {name for literal in self.measured for name in variable_names(literal.value)}
        defining: list[Comparison] = []
        while True:
            ready = next((c for c in waiting if _defines(c, known)), None)
            if ready is None:
                return tuple(defining)
            waiting.remove(ready)
            defining.append(ready)
            known.update(variable.name for variable in ready.variables)


def _may_define(comparison: Comparison) -> bool:
    left = comparison.left
    return comparison.operator is Operator.EQ and isinstance(left, Variable) and not left.anonymous


def _defines(comparison: Comparison, known: set[str]) -> bool:
    """Whether it gives a value to its left side: what stands on the right has one."""
    left = comparison.left
    unknown = isinstance(left, Variable) and left.name not in known
    return unknown and variable_names(comparison.right) <= known


def atom_of(literal: Literal) -> Atom | None:
    """The atom that a literal is about, whatever it says of it; None for a comparison."""
    match literal:
        case Atom():
            return literal
        case Negated(atom) | Aggregated(Aggregate(_, _, atom)):
            return atom
        case Comparison():
            return None
        case _:
            assert_never(literal)


@dataclass(frozen=True, slots=True)
class Column:
    """A declared column; without a type, the type is inferred."""

    name: str
    type: Type | None = None
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Input:
    """`input P(a: text, b) @ time.`; a rigid input has no time column."""

    predicate: str
    columns: tuple[Column, ...] = ()
    time: str | None = None
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Output:
    """One predicate of an `output` statement, with its column names where they are given."""

    predicate: str
    columns: tuple[str, ...] | None = None
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Outputs:
    """`output P, Q(a, b).`"""

    items: tuple[Output, ...]
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Clock:
    """`clock Tick.`: Tick holds at every tick from the first one of the data on."""

    predicate: str
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TickLength:
    """`tick 1m.`: how long a tick is, so that rules may be written with lengths of time."""

    length: str
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)


Statement: TypeAlias = Input | Outputs | Clock | TickLength | Rule


@dataclass(frozen=True)
class Program:
    """The statements of a rules file, in the order in which they were written."""

    statements: tuple[Statement, ...] = ()

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(s for s in self.statements if isinstance(s, Rule))

    @cached_property
    def declarations(self) -> dict[str, Input]:
        """The declared inputs; the first one where a name is declared twice."""
        return _by_predicate(s for s in self.statements if isinstance(s, Input))

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """The predicates that have a rule or a fact, in order of appearance."""
        return tuple(self.heads_of)

    @cached_property
    def heads_of(self) -> dict[str, list[Atom]]:
        """The heads of its rules and facts, by predicate."""
        heads: dict[str, list[Atom]] = {}
        for rule in self.rules:
            heads.setdefault(rule.head.predicate, []).append(rule.head)
        return heads

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Declared inputs, then predicates used in bodies that nothing else defines."""
        names = dict.fromkeys(self.declarations)
        heads = {*self.heads, *self.clocks}
        for rule in self.rules:
            names.update((a.predicate, None) for a in rule.atoms if a.predicate not in heads)
        return tuple(names)

    @cached_property
    def clocks(self) -> dict[str, Clock]:
        """The declared clocks; the first one where a name is declared twice."""
        return _by_predicate(s for s in self.statements if isinstance(s, Clock))

    @cached_property
    def tick(self) -> str | None:
        """How long a tick is, if the rules say so."""
        return next((s.length for s in self.statements if isinstance(s, TickLength)), None)

    @property
    def in_whole_ticks(self) -> Self:
        """The program without the length of its ticks, for facts that are given in ticks."""
        kept = tuple(s for s in self.statements if not isinstance(s, TickLength))
        return replace(self, statements=kept)

    @cached_property
    def predicates(self) -> tuple[str, ...]:
        """What can be asked for: heads, inputs and clocks."""
        return tuple(dict.fromkeys([*self.heads, *self.inputs, *self.clocks]))

    def needing(self, name: str, queries: Iterable[str]) -> list[str]:
        """Those of some queries whose rules lead to a predicate, in their order; all, if none does:

        where there is a clock, an input may be needed for the tick at which that starts.
        """
        bodies: dict[str, set[str]] = {}
        for rule in self.rules:
            bodies.setdefault(rule.head.predicate, set()).update(a.predicate for a in rule.atoms)
        leading, before = {name}, 0
        while len(leading) > before:
            before = len(leading)
            leading |= {head for head, body in bodies.items() if not leading.isdisjoint(body)}
        asked = list(queries)
        return [query for query in asked if query in leading] or asked

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The declared outputs; without any, every head predicate."""
        return tuple(dict.fromkeys(o.predicate for o in self.output_items)) or self.heads

    @cached_property
    def output_items(self) -> tuple[Output, ...]:
        return tuple(o for s in self.statements if isinstance(s, Outputs) for o in s.items)

    def output_columns(self, predicate: str) -> tuple[str, ...]:
        """Column names of an answer, without the time column.

        Given by `output P(a, b)` or by `input P(a, b)`; else the first head variable at that
        position, lower case, made unique; else `argN`.
        """
        for item in self.output_items:
            if item.predicate == predicate and item.columns is not None:
                return item.columns
        if predicate in self.declarations:
            return _unique([column.name for column in self.declarations[predicate].columns])
        heads = self.heads_of.get(predicate, [])
        names: list[str] = []
        for i in range(len(heads[0].args) if heads else 0):
            variables = (
                term.name.lower()
                for term in (head.args[i] for head in heads)
                if isinstance(term, Variable)
            )
            names.append(next(variables, f"arg{i + 1}"))
        return _unique(names)

    def __str__(self) -> str:
        from tidelog.language.printer import print_program

        return print_program(self)


_Declaration = TypeVar("_Declaration", Input, Clock)


def _by_predicate(declarations: Iterator[_Declaration]) -> dict[str, _Declaration]:
    first: dict[str, _Declaration] = {}
    for declaration in declarations:
        first.setdefault(declaration.predicate, declaration)
    return first


def ticking_from(program: Program, first: int) -> Program:
    """The program with its clocks written out: a fact at the first tick, and a rule.

    >>> print(ticking_from(Program((Clock("Tick"),)), 7), end="")
    Tick @ 7.
    Tick @ T+1 :- Tick @ T.
    """
    statements: list[Statement] = []
    for statement in program.statements:
        if isinstance(statement, Clock):
            name, origin, time = statement.predicate, statement.origin, Variable("T")
            statements.append(Rule(Atom(name, (), TimePoint(first)), (), origin))
            later = Atom(name, (), TimeOffset(time, 1))
            statements.append(Rule(later, (Atom(name, (), TimeOffset(time)),), origin))
        else:
            statements.append(statement)
    return replace(program, statements=tuple(statements))


# The last column of every temporal answer.
TIME_COLUMN = "time"


def _unique(names: list[str]) -> tuple[str, ...]:
    """The names, numbered where one repeats or is that of the time column that follows them."""
    taken = {TIME_COLUMN, *names}
    unique: list[str] = []
    for base in names:
        name, n = base, 2
        while name in unique or name == TIME_COLUMN or (name != base and name in taken):
            name, n = f"{base}{n}", n + 1
        unique.append(name)
    return tuple(unique)
