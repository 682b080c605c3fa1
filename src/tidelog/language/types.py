"""Types of predicate positions: declared on inputs, otherwise inferred.

Positions that share a variable, or are compared, share a type. An integer constant is content with
`float`; nothing else converts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from tidelog.language.diagnostics import Code, Diagnostic, Note
from tidelog.language.printer import print_literal, print_term, print_value
from tidelog.language.program import (
    Atom,
    Comparison,
    Constant,
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


@dataclass(frozen=True)
class Types:
    """Per predicate, the type of each argument; None where nothing in the program says."""

    columns: dict[str, tuple[Type | None, ...]]
    diagnostics: tuple[Diagnostic, ...]

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


_Place: TypeAlias = Variable | Constant | Comparison


@dataclass(slots=True)
class _Class:
    """Positions and variables that must have one type, and why."""

    parent: _Class | None = None
    type: Type | None = None
    why: str | Constant = ""  # a sentence, or the constant that says so
    where: Origin | None = None
    integers: list[Constant] = field(default_factory=list)
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


def infer(program: Program) -> Types:
    """Types of every predicate's arguments, and the clashes.

    Predicates must have one arity each; atoms that differ from a predicate's first use in their
    number of arguments are passed over, since they are reported elsewhere.
    """
    inference = _Inference(program)
    inference.run()
    columns = {
        predicate: tuple(c.root().resolved for c in classes)
        for predicate, classes in inference.positions.items()
    }
    return Types(columns, tuple(inference.diagnostics))


class _Inference:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.positions: dict[str, list[_Class]] = {}
        self.diagnostics: list[Diagnostic] = []
        self.ordered: list[tuple[Comparison, _Class]] = []

    def run(self) -> None:
        for declaration in self.program.declarations.values():
            self.positions[declaration.predicate] = [
                _Class(
                    type=c.type,
                    why=f"column `{c.name}` of `{declaration.predicate}` is {c.type}",
                    where=c.origin,
                )
                for c in declaration.columns
            ]
        for name in self.program.clocks:
            self.positions.setdefault(name, [])
        for rule in self.program.rules:
            self.rule(rule)
        for classes in self.positions.values():
            for node in classes:
                self.exact(node.root())
        for comparison, node in self.ordered:
            self.order(comparison, node.root())

    def rule(self, rule: Rule) -> None:
        variables: dict[str, _Class] = {}
        # The body first: what it binds is what the head then gets.
        for literal in (*rule.body, rule.head):
            match literal:
                case Atom():
                    self.atom(literal, variables)
                case Negated(atom):
                    self.atom(atom, variables)
                case Comparison():
                    self.comparison(literal, variables)
                case _:
                    assert_never(literal)
        for node in variables.values():
            self.exact(node.root())

    def atom(self, atom: Atom, variables: dict[str, _Class]) -> None:
        classes = self.positions.get(atom.predicate)
        if classes is None:
            classes = self.positions[atom.predicate] = [_Class() for _ in atom.args]
        if len(classes) != len(atom.args):
            return
        for term, node in zip(atom.args, classes, strict=True):
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

    def order(self, comparison: Comparison, node: _Class) -> None:
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

    def side(self, term: Term, variables: dict[str, _Class]) -> _Class:
        if isinstance(term, Variable):
            return variables.setdefault(term.name, _Class())
        node = _Class()
        self.constant(term, node)
        return node

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
            a.type, a.why, a.where = b.type, b.why, b.where
        return True

    def clash(self, a: _Class, b: _Class, place: _Place, atom: Atom | None) -> None:
        types = {a.resolved, b.resolved}
        what = print_literal(place) if isinstance(place, Comparison) else print_term(place)
        hint = None
        if types == {Type.INT, Type.FLOAT}:
            terms = (place.left, place.right) if isinstance(place, Comparison) else (place,)
            hint = (
                "write a whole number, or declare the column `float`"
                if any(isinstance(term, Constant) for term in terms)
                else "integers and floats are not joined or compared: declare both columns alike"
            )
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
                if int(float(constant.value)) != constant.value:
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


def _agree(a: _Class, b: _Class) -> bool:
    if a.resolved is None or b.resolved is None or a.resolved is b.resolved:
        return True
    # A class whose only evidence is integer constants may still become float.
    pair = {a.resolved: a, b.resolved: b}
    return pair.keys() == {Type.INT, Type.FLOAT} and pair[Type.INT].type is None
