"""What the checks of a whole program need to know of a rule, worked out once a rule.

An editor checks at every keystroke, and all rules but one are those of the keystroke before: what
can be said of a rule without the others is kept with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from tidelog.language.program import (
    Aggregate,
    Aggregated,
    Atom,
    Calculation,
    Comparison,
    Constant,
    Expression,
    Interval,
    Literal,
    Negated,
    Rule,
    Time,
    TimeOffset,
    Variable,
    ends,
)
from tidelog.language.reach import reach_of
from tidelog.language.strata import Use, uses
from tidelog.language.types import Constraints, constraints

# A predicate, the number of its arguments, and whether it has a time.
Shape: TypeAlias = tuple[str, int, bool]


@dataclass(frozen=True)
class LowerCase:
    """A name in lower case that stands in the head of a rule and in these places of its body."""

    constant: Constant
    uses: tuple[tuple[Atom, int, Constant], ...]
    likely: bool  # meant as a variable, whatever the columns are called


@dataclass(frozen=True)
class Profile:
    rule: Rule
    positive: tuple[Atom, ...]
    needs: frozenset[str]  # their predicates
    absent: frozenset[str]  # predicates after `not`
    gathered: frozenset[str]  # predicates within aggregates
    used: frozenset[str]  # all three
    predicates: frozenset[str]  # those, and the head's
    uses: tuple[Use, ...]  # each of them, with its offset
    shapes: frozenset[Shape]
    constraints: Constraints
    meaning: int  # the same for rules that say the same; others are compared by `canonical`
    lower_case: tuple[LowerCase, ...]
    reach: int  # ticks that its offsets add up to

    @staticmethod
    def of(rule: Rule) -> Profile:
        atoms, positive = rule.atoms, rule.positive
        needs = frozenset(atom.predicate for atom in positive)
        absent = frozenset(atom.predicate for atom in rule.negative)
        gathered = frozenset(literal.atom.predicate for literal in rule.aggregated)
        used = needs | absent | gathered
        return Profile(
            rule,
            positive,
            needs,
            absent,
            gathered,
            used,
            used | {rule.head.predicate},
            tuple(uses(rule)),
            frozenset((a.predicate, len(a.args), a.time is not None) for a in (rule.head, *atoms)),
            constraints(rule),
            hash(canonical(rule)),
            tuple(_lower_case(rule, atoms)),
            reach_of(rule),
        )


def canonical(rule: Rule) -> object:
    """Equal for rules that differ in names of variables and, mostly, in the order of the body."""
    names: dict[str, int] = {}

    def term(t: Expression) -> object:
        if isinstance(t, Calculation):
            return (t.function, *map(term, t.args))
        return names.setdefault(t.name, len(names)) if isinstance(t, Variable) else t

    def time(t: Time | None, shift: dict[str, int]) -> object:
        if isinstance(t, TimeOffset):
            # Only distances between times matter: `P @ T+1 :- E @ T` is `P @ T :- E @ T-1`.
            shift.setdefault(t.variable.name, t.offset)
            name = names.setdefault(t.variable.name, len(names))
            return (name, t.offset - shift[t.variable.name])
        if isinstance(t, Interval):
            return (time(t.low, shift), time(t.high, shift), t.quantifier and t.fewest)
        return t

    shift: dict[str, int] = {}
    parts: list[object] = []
    for literal in (rule.head, *sorted(rule.body, key=_shape)):
        if isinstance(literal, Comparison):
            parts.append((term(literal.left), literal.operator, term(literal.right)))
            continue
        atom = literal if isinstance(literal, Atom) else literal.atom
        said = (atom.predicate, tuple(map(term, atom.args)), time(atom.time, shift))
        match literal:
            case Atom():
                parts.append(said)
            case Negated():
                parts.append(("not", said))
            case Aggregated(Aggregate(measure, of), operator, value):
                compared = (literal.leads, operator, term(value))
                parts.append((measure, of and term(of), said, compared))
            case _:
                assert_never(literal)
    return (parts[0], frozenset(parts[1:]))


def _shape(literal: Literal) -> tuple[str, str, int, tuple[str, ...]]:
    """What literals are sorted by, whatever their variables are called."""
    if isinstance(literal, Comparison):
        return ("~", literal.operator, 0, ())
    atom = literal if isinstance(literal, Atom) else literal.atom
    offset = next((e.offset for e in ends(atom.time) if isinstance(e, TimeOffset)), 0)
    constants = tuple(repr(t) if isinstance(t, Constant) else "" for t in atom.args)
    return (type(literal).__name__, atom.predicate, offset, constants)


def _lower_case(rule: Rule, atoms: tuple[Atom, ...]) -> list[LowerCase]:
    heads = [t for t in rule.head.args if isinstance(t, Constant) and _bare_name(t)]
    if not heads:
        return []
    bodies = [(atom, i, t) for atom in atoms for i, t in enumerate(atom.args)]
    all_constant = not any(rule.head.variables)
    names: list[LowerCase] = []
    for constant in dict.fromkeys(heads):
        uses = tuple(
            (atom, i, t) for atom, i, t in bodies if isinstance(t, Constant) and t == constant
        )
        if uses:
            likely = len(str(constant.value)) == 1 or all_constant
            names.append(LowerCase(constant, uses, likely))
    return names


def _bare_name(constant: Constant) -> bool:
    """Whether a text was written without quotes: then it is as long in the file as it is."""
    origin, value = constant.origin, constant.value
    same_length = isinstance(value, str) and origin.end_column - origin.column == len(value)
    return same_length and origin.line == origin.end_line
