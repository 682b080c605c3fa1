"""Types of predicate positions: declared on inputs, otherwise inferred.

Positions that share a variable, or are compared, share a type. An integer constant is content with
`float`; nothing else converts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TypeAlias, assert_never

from tidelog.language.diagnostics import Code, Diagnostic, Note
from tidelog.language.habits import NULL, NULLS
from tidelog.language.printer import (
    print_aggregate,
    print_expression,
    print_literal,
    print_term,
    print_value,
)
from tidelog.language.program import (
    Aggregated,
    Atom,
    Calculation,
    Comparison,
    Constant,
    Expression,
    Function,
    Input,
    Literal,
    Measure,
    Negated,
    Operator,
    Origin,
    Program,
    Rule,
    Term,
    Type,
    Variable,
)

_ORDER = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)


# An argument of a predicate.
Position: TypeAlias = tuple[str, int]


@dataclass(frozen=True)
class Types:
    """The types of the arguments of predicates, and the clashes."""

    diagnostics: tuple[Diagnostic, ...]
    _arities: Mapping[str, int]
    _type: Callable[[Position], Type | None]

    @cached_property
    def columns(self) -> dict[str, tuple[Type | None, ...]]:
        """Per predicate, the type of each argument; None where nothing in the program says."""
        arities = self._arities.items()
        return {name: tuple(self._type((name, i)) for i in range(n)) for name, n in arities}

    def fit(self, predicate: str, args: tuple[Term, ...]) -> tuple[Term, ...]:
        """The arguments with integer constants widened where the column is a float."""
        return tuple(
            widen(t, type_) for t, type_ in zip(args, self.columns[predicate], strict=True)
        )


def widen(term: Term, type_: Type | None) -> Term:
    """
    >>> widen(Constant.of(80), Type.FLOAT)
    Constant(value=80.0, type=<Type.FLOAT: 'float'>)
    """
    if type_ is Type.FLOAT and isinstance(term, Constant) and term.type is Type.INT:
        return replace(term, value=float(term.value), type=Type.FLOAT)
    return term


# What is said of a type, as bits. Rules say it piece by piece, and most say nothing new: whether
# the pieces agree is seen without looking at the rules themselves.

_TEXT, _BOOL, _FLOAT, _INT, _INTEGER, _INEXACT, _COMPARED, _ORDERED, _NUMBER = (
    1 << i for i in range(9)
)
_BITS = {Type.TEXT: _TEXT, Type.BOOL: _BOOL, Type.FLOAT: _FLOAT, Type.INT: _INT}


@cache
def _agrees(said: int) -> bool:
    """Whether one type is all that is said."""
    types = said & (_TEXT | _BOOL | _FLOAT | _INT)
    return not (
        types & (types - 1)
        or (said & (_INTEGER | _NUMBER) and types & (_TEXT | _BOOL))
        or (said & _INEXACT and types & _FLOAT)
        or (said & _ORDERED and types & _BOOL)
    )


@cache
def _type(said: int) -> Type | None:
    """The type that is said, if it is one."""
    stated = next((type_ for type_, bit in _BITS.items() if said & bit), None)
    return stated or (Type.INT if said & _INTEGER else None)


def _said_by(constant: Constant) -> int:
    if constant.type is not Type.INT:
        return _BITS[constant.type]
    return _INTEGER if _exact(constant) else _INTEGER | _INEXACT


def _exact(integer: Constant) -> bool:
    """Whether an integer that becomes a float is still the same number."""
    return int(float(integer.value)) == integer.value


# Positions of one type, and what is said of it.
_Said: TypeAlias = tuple[tuple[Position, ...], int]


@dataclass(frozen=True)
class Constraints:
    """What a rule says of types, as data that is kept while other rules change."""

    arities: tuple[tuple[str, int], ...]  # of its atoms, the body first
    groups: tuple[_Said, ...]
    wrong: bool  # it contradicts itself, whatever the other rules say


def constraints(rule: Rule, arities: Mapping[str, int] | None = None) -> Constraints:
    """What a rule says; of atoms with another number of arguments than in `arities`, nothing."""
    seen: list[tuple[str, int]] = []
    groups: list[_Said] = []
    variables: dict[str, _Group] = {}
    outside = rule.outside
    wrong = False
    for literal in (*rule.body, rule.head):
        if isinstance(literal, Comparison):
            wrong |= not _compared(literal, variables)
            continue
        atom = literal if isinstance(literal, Atom) else literal.atom
        name, n = atom.predicate, len(atom.args)
        seen.append((name, n))
        if arities is not None and arities[name] != n:
            continue
        for i, term in enumerate(atom.args):
            if isinstance(term, Constant):
                groups.append((((name, i),), _said_by(term)))
            else:
                key = _own(term.name, literal, outside)
                variables.setdefault(key, _Group()).positions.append((name, i))
        if isinstance(literal, Aggregated):
            wrong |= not _measured(literal, variables, outside)
    for group in dict.fromkeys(variables.values()):
        if not group.positions:
            wrong |= not _agrees(group.said)
        elif group.said or len(group.positions) > 1:
            groups.append((tuple(group.positions), group.said))
    return Constraints(tuple(seen), tuple(groups), wrong)


def _own(name: str, literal: Literal, outside: set[str]) -> str:
    """A name for a variable of a literal: those of aggregates alone are theirs."""
    inside = isinstance(literal, Aggregated) and name not in outside
    return f"{name} {id(literal)}" if inside else name


@dataclass(slots=True, eq=False)
class _Group:
    """Variables of a rule that have one type: where they stand, and what is said of it."""

    positions: list[Position] = field(default_factory=list)
    said: int = 0


def _compared(comparison: Comparison, variables: dict[str, _Group]) -> bool:
    """Make the sides one group; False where they are constants that do not go together."""
    group = _Group(said=_COMPARED | (_ORDERED if comparison.operator in _ORDER else 0))
    parts = [_joined(side, group, variables) for side in (comparison.left, comparison.right)]
    return all(parts) and _agrees(group.said)


def _measured(literal: Aggregated, variables: dict[str, _Group], outside: set[str]) -> bool:
    """Make what an aggregate comes to, and what it is compared with, one group."""
    group = _Group(said=_COMPARED | (_ORDERED if literal.operator in _ORDER else 0))
    parts = [_joined(literal.value, group, variables)]
    of = literal.aggregate.of
    if of is not None:
        each = Variable(_own(of.name, literal, outside))
    match literal.aggregate.measure:
        case Measure.COUNT:
            group.said |= _INT
        case Measure.SUM | Measure.MIN | Measure.MAX if of is not None:
            number = literal.aggregate.measure is Measure.SUM
            group.said |= _NUMBER if number else _ORDERED
            parts.append(_joined(each, group, variables))
        case Measure.AVG if of is not None:
            group.said |= _FLOAT
            parts.append(_joined(each, numbers := _Group(said=_NUMBER), variables))
            parts.append(_agrees(numbers.said))
        case _:
            pass  # of nothing: a finding of the parser
    return all(parts) and _agrees(group.said)


def _joined(operand: Expression, group: _Group, variables: dict[str, _Group]) -> bool:
    """Let an operand be of a group; what is divided has a type of its own, and makes a float."""
    match operand:
        case Constant():
            group.said |= _said_by(operand)
        case Variable(name):
            other = variables.setdefault(name, group)
            if other is not group:
                group.positions += other.positions
                group.said |= other.said
                for each, one in variables.items():
                    if one is other:
                        variables[each] = group
        case Calculation(Function.DIVIDED, args):
            group.said |= _FLOAT
            divided = _Group(said=_NUMBER)
            parts = [_joined(arg, divided, variables) for arg in args]
            return all(parts) and _agrees(divided.said)
        case Calculation(_, args):
            group.said |= _NUMBER
            parts = [_joined(arg, group, variables) for arg in args]
            return all(parts)
        case _:
            assert_never(operand)
    return True


class _Classes:
    """Positions that have one type, by what all rules say, and what is said of each class."""

    def __init__(self) -> None:
        self.parent: dict[Position, Position] = {}
        self.said: dict[Position, int] = {}

    def root(self, position: Position) -> Position:
        parent = self.parent
        above = parent.setdefault(position, position)
        while above is not position:
            parent[position] = position = parent[above]
            above = parent[position]
        return position

    def add(self, groups: Iterable[_Said]) -> None:
        parent, known = self.parent, self.said
        for positions, said in groups:
            first = None
            for node in positions:
                # As in `root`: it is here that a long program spends its time.
                above = parent.setdefault(node, node)
                while above is not node:
                    parent[node] = node = parent[above]
                    above = parent[node]
                if first is None:
                    first = node
                elif node is not first:
                    parent[node] = first
            if said and first is not None:
                known[first] = known.get(first, 0) | said

    def close(self) -> None:
        """Say of each class, at its root, what is said of all its positions."""
        said, self.said = self.said, {}
        for position, bits in said.items():
            root = self.root(position)
            self.said[root] = self.said.get(root, 0) | bits


def infer(program: Program, said: Sequence[Constraints] | None = None) -> Types:
    """Types of every predicate's arguments, and the clashes.

    `said` may have the constraints of each rule. Predicates must have one arity each; atoms that
    differ from a predicate's first use in their number of arguments are passed over, since they are
    reported elsewhere.
    """
    if said is None:
        said = [constraints(rule) for rule in program.rules]
    arities = {name: len(d.columns) for name, d in program.declarations.items()}
    for name in program.clocks:
        arities.setdefault(name, 0)
    several: set[str] = set()
    for each in said:
        for name, n in each.arities:
            if arities.setdefault(name, n) != n:
                several.add(name)
    if several:
        said = [
            constraints(rule, arities) if any(name in several for name, _ in each.arities) else each
            for rule, each in zip(program.rules, said, strict=True)
        ]
    classes = _Classes()
    for name, declaration in program.declarations.items():
        types = ((i, column.type) for i, column in enumerate(declaration.columns))
        classes.add([(((name, i),), _BITS[type_]) for i, type_ in types if type_])
    classes.add(group for each in said for group in each.groups)
    classes.close()
    return _told(program, said, arities, classes)


def _told(
    program: Program, said: Sequence[Constraints], arities: dict[str, int], classes: _Classes
) -> Types:
    """The types, and what is to be said of classes that have none.

    What the findings are depends on the order of rules; it is found out by going through those
    that speak of such a class.
    """
    clashing = {root for root, bits in classes.said.items() if not _agrees(bits)}
    inference = _Inference(program.declarations, arities)
    if clashing or any(each.wrong for each in said):
        inference.run(
            (rule, each)
            for rule, each in zip(program.rules, said, strict=True)
            if each.wrong or any(classes.root(group[0]) in clashing for group, _ in each.groups)
        )

    def column(position: Position) -> Type | None:
        root = classes.root(position)
        if root in clashing:
            return inference.position(position).root().resolved
        return _type(classes.said.get(root, 0))

    return Types(tuple(inference.diagnostics), arities, column)


_Place: TypeAlias = Expression | Comparison | Aggregated


# What to do where a count meets a float.
_WHOLE_PARTS = (
    "a count is int: use whole numbers (`100 * K >= 95 * N`), or divide, which makes a float"
    " (`K / N >= 0.95`)"
)


@dataclass(slots=True)
class _Class:
    """Positions and variables that must have one type, and why."""

    parent: _Class | None = None
    type: Type | None = None
    why: str | Constant = ""  # a sentence, or the constant that says so
    where: Origin | None = None
    integers: list[Constant] = field(default_factory=list)
    made: bool = False  # its type is that of an aggregate, which no declaration can change
    size: int = 1

    def root(self) -> _Class:
        node = self
        while node.parent is not None:
            if node.parent.parent is not None:
                node.parent = node.parent.parent
            node = node.parent
        return node

    @property
    def resolved(self) -> Type | None:
        return self.type or (Type.INT if self.integers else None)

    def reason(self) -> Note:
        if self.type is not None:
            if isinstance(self.why, Constant):
                return Note(f"`{print_term(self.why)}` is {self.type}", self.where)
            return Note(self.why, self.where)
        constant = self.integers[0]
        return Note(f"`{print_term(constant)}` is int", constant.origin)


class _Inference:
    """Goes through rules one by one and says where one clashes with those before it."""

    def __init__(self, declarations: Mapping[str, Input], arities: Mapping[str, int]) -> None:
        self.declarations = declarations
        self.arities = arities
        self.positions: dict[Position, _Class] = {}
        self.diagnostics: list[Diagnostic] = []
        self.ordered: list[tuple[Comparison | Aggregated, _Class]] = []
        self.numbers: list[tuple[Calculation | Aggregated, _Class]] = []

    def run(self, rules: Iterable[tuple[Rule, Constraints]]) -> None:
        for name, declaration in self.declarations.items():
            for i, c in enumerate(declaration.columns):
                why = f"column `{c.name}` of `{name}` is {c.type}"
                self.positions[name, i] = _Class(type=c.type, why=why, where=c.origin)
        for rule, said in rules:
            if not self.nothing_new(said):
                self.rule(rule)
        for node in self.positions.values():
            self.exact(node.root())
        for comparison, node in self.ordered:
            self.order(comparison, node.root())
        for expression, node in self.numbers:
            self.number(expression, node.root())

    def position(self, position: Position) -> _Class:
        node = self.positions.get(position)
        if node is None:
            node = self.positions[position] = _Class()
        return node

    def nothing_new(self, said: Constraints) -> bool:
        """Whether a rule only repeats types that are stated, as most do; it need not be looked at.

        Positions that are not known yet join those that are.
        """
        if said.wrong:
            return False
        joined: dict[Position, _Class] = {}
        for positions, bits in said.groups:
            known = [self.positions.get(p) or joined.get(p) for p in positions]
            roots = {id(root): root for root in (node.root() for node in known if node)}
            if len(roots) != 1:
                return False
            (root,) = roots.values()
            if root.type is None or not _agrees(bits | _BITS[root.type]):
                return False
            joined.update((p, root) for p, node in zip(positions, known, strict=True) if not node)
        self.positions.update(joined)
        return True

    def rule(self, rule: Rule) -> None:
        variables: dict[str, _Class] = {}
        outside = rule.outside
        # The body first: what it binds is what the head then gets.
        for literal in (*rule.body, rule.head):
            match literal:
                case Atom():
                    self.atom(literal, variables)
                case Negated(atom):
                    self.atom(atom, variables)
                case Comparison():
                    self.comparison(literal, variables)
                case Aggregated():
                    self.aggregated(literal, variables, outside)
                case _:
                    assert_never(literal)
        for node in variables.values():
            self.exact(node.root())

    def atom(self, atom: Atom, variables: dict[str, _Class]) -> None:
        if len(atom.args) != self.arities[atom.predicate]:
            return
        for i, term in enumerate(atom.args):
            node = self.position((atom.predicate, i))
            if isinstance(term, Constant):
                self.constant(term, node, atom)
            elif term.name in variables:
                self.unite(variables[term.name], node, term, atom)
            else:  # the first use of a variable agrees with anything
                variables[term.name] = node

    def comparison(self, comparison: Comparison, variables: dict[str, _Class]) -> None:
        left = self.side(comparison.left, variables)
        right = self.side(comparison.right, variables)
        agreed = self.unite(left, right, comparison)
        if agreed and comparison.operator in _ORDER:
            # Judged at the end: a later rule may be what makes it bool.
            self.ordered.append((comparison, left))

    def aggregated(
        self, literal: Aggregated, variables: dict[str, _Class], outside: set[str]
    ) -> None:
        own = {name: node for name, node in variables.items() if name in outside}
        self.atom(literal.atom, own)
        variables.update((name, node) for name, node in own.items() if name in outside)
        value = self.side(literal.value, variables)
        aggregate, shown = literal.aggregate, print_aggregate(literal.aggregate)
        each = _Class() if aggregate.of is None else own.get(aggregate.of.name, _Class())
        match aggregate.measure:
            case Measure.COUNT:
                why = f"`{shown}` is int"
                made = _Class(type=Type.INT, why=why, where=aggregate.origin, made=True)
            case Measure.AVG:
                made = _Class(type=Type.FLOAT, why=f"`{shown}` is float", where=aggregate.origin)
            case Measure.SUM | Measure.MIN | Measure.MAX:
                made = each
            case _:
                assert_never(aggregate.measure)
        agreed = self.unite(made, value, literal)
        if aggregate.measure in (Measure.SUM, Measure.AVG):
            self.numbers.append((literal, each))
        elif aggregate.measure is not Measure.COUNT or (agreed and literal.operator in _ORDER):
            self.ordered.append((literal, each if aggregate.of is not None else made))

    def order(self, comparison: Comparison | Aggregated, node: _Class) -> None:
        if node.resolved is Type.BOOL:
            self.diagnostics.append(
                Diagnostic(
                    Code.TYPE,
                    f"bool has no order in `{print_literal(comparison)}`",
                    comparison.origin,
                    (node.reason(),),
                    "compare bool with `=` or `!=`",
                )
            )

    def number(self, expression: Calculation | Aggregated, node: _Class) -> None:
        if node.resolved in (Type.TEXT, Type.BOOL):
            if isinstance(expression, Aggregated):
                shown = print_aggregate(expression.aggregate)
            else:
                shown = print_expression(expression)
            self.diagnostics.append(
                Diagnostic(
                    Code.TYPE,
                    f"`{shown}` is made of numbers, not of {node.resolved}",
                    expression.origin,
                    (node.reason(),),
                )
            )

    def side(self, operand: Expression, variables: dict[str, _Class]) -> _Class:
        match operand:
            case Variable(name):
                return variables.setdefault(name, _Class())
            case Constant():
                node = _Class()
                self.constant(operand, node)
                return node
            case Calculation(function, args):
                parts = [self.side(arg, variables) for arg in args]
                agreed = [self.unite(parts[0], part, operand) for part in parts[1:]]
                if all(agreed):
                    self.numbers.append((operand, parts[0]))
                if function is not Function.DIVIDED:
                    return parts[0]
                why = f"`{print_expression(operand)}` is float"
                return _Class(type=Type.FLOAT, why=why, where=operand.origin)
            case _:
                assert_never(operand)

    def constant(self, constant: Constant, node: _Class, atom: Atom | None = None) -> None:
        other = _Class(where=constant.origin)
        if constant.type is Type.INT:
            other.integers.append(constant)
        else:
            other.type = constant.type
            other.why = constant
        self.unite(node, other, constant, atom)

    def unite(self, one: _Class, two: _Class, place: _Place, atom: Atom | None = None) -> bool:
        """Make two classes one; False, and a diagnostic, where their types clash."""
        a, b = one.root(), two.root()
        if a is b:
            return True
        if not _agree(a, b):
            self.clash(a, b, place, atom)
            return False
        if a.size < b.size:
            a, b = b, a  # the smaller moves, or long files would take quadratic time
        b.parent = a
        a.size += b.size
        a.integers += b.integers
        # A type that a declaration or constant gives goes before what integers merely suggest.
        if a.type is None:
            a.type, a.why, a.where, a.made = b.type, b.why, b.where, b.made
        return True

    def clash(self, a: _Class, b: _Class, place: _Place, atom: Atom | None) -> None:
        types = {a.resolved, b.resolved}
        if isinstance(place, Comparison | Aggregated):
            what = print_literal(place)
        else:
            what = print_expression(place)
        hint = None
        if types == {Type.INT, Type.FLOAT}:
            terms = _parts(place)
            if (a if a.resolved is Type.INT else b).made:
                hint = _WHOLE_PARTS
            elif any(isinstance(term, Constant) for term in terms):
                hint = "write a whole number, or declare the column `float`"
            else:
                hint = "integers and floats are not joined or compared: declare both columns alike"
        elif any(isinstance(t, Constant) and str(t.value).lower() in NULLS for t in _parts(place)):
            hint = NULL
        elif Type.TEXT in types and isinstance(place, Constant) and place.type is not Type.TEXT:
            hint = f'text is written in quotes: `"{print_value(place.value)}"`'
        elif Type.BOOL in types and isinstance(place, Constant):
            hint = "the values of bool are `true` and `false`, without quotes"
        message = f"`{what}` would be both {a.resolved} and {b.resolved}"
        if atom is not None:
            position = next(i for i, term in enumerate(atom.args, 1) if term is place)
            message += f" (argument {position} of `{print_literal(atom)}`)"
        # A constant is its own evidence; pointing at it twice would say nothing new.
        notes = tuple(n for n in (a.reason(), b.reason()) if n.origin != place.origin)
        self.diagnostics.append(Diagnostic(Code.TYPE, message, place.origin, notes, hint))

    def exact(self, node: _Class) -> None:
        """Integers that become floats must still be the same numbers."""
        if node.type is Type.FLOAT:
            for constant in node.integers:
                if not _exact(constant):
                    self.diagnostics.append(
                        Diagnostic(
                            Code.TYPE,
                            f"`{print_term(constant)}` has no exact float value",
                            constant.origin,
                            (node.reason(),),
                            "write a decimal, or declare the column `int`",
                        )
                    )
            node.integers.clear()


def _parts(place: _Place) -> tuple[Expression, ...]:
    match place:
        case Comparison():
            return (place.left, place.right)
        case Aggregated():
            return (place.value,)
        case Calculation(_, args):
            return args
        case Variable() | Constant():
            return (place,)
        case _:
            assert_never(place)


def _agree(a: _Class, b: _Class) -> bool:
    if a.resolved is None or b.resolved is None or a.resolved is b.resolved:
        return True
    # A class whose only evidence is integer constants may still become float.
    pair = {a.resolved: a, b.resolved: b}
    return pair.keys() == {Type.INT, Type.FLOAT} and pair[Type.INT].type is None
