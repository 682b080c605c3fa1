"""Aggregates that count ticks where facts are meant: nothing tells facts of a tick apart.

Facts are a set. If all arguments of `count(Err(S) @ [T-4, T])` have a value outside the aggregate,
it counts ticks. That may be meant, and `at least 3 Err(S) @ ..` says so. It is a warning only where
something else shows that facts are meant: a number that ticks never come to, a count of facts
beside it, or an id that a rule of `Err` does not hand on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tidelog.language.diagnostics import Code, Diagnostic, Note
from tidelog.language.printer import print_aggregate, print_literal, print_time
from tidelog.language.program import (
    Aggregated,
    Atom,
    Column,
    Comparison,
    Constant,
    Input,
    Interval,
    Measure,
    Operator,
    Program,
    Rule,
    Term,
    Type,
    Variable,
)

# Columns that tell rows of a tick apart, by their names: `id`, `request_id`, `eventId`, `uuid`.
_ID = re.compile(r"(.*_)?(id|uuid|guid|seq|seqno|offset)|.*[a-z](Id|ID|Uuid|Guid)", re.ASCII)
_TURNED = {
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}


def check_counts(program: Program, rules: Sequence[Rule]) -> Iterator[Diagnostic]:
    """The aggregates of some rules that likely count something else than is meant."""
    heads: dict[str, list[Rule]] = {}
    for rule in rules:
        heads.setdefault(rule.head.predicate, []).append(rule)
    for rule in rules:
        for literal in rule.aggregated:
            finding = _finding(literal, rule, heads, program.declarations)
            if finding is not None:
                yield finding


def _finding(
    literal: Aggregated,
    rule: Rule,
    heads: Mapping[str, Sequence[Rule]],
    declarations: Mapping[str, Input],
) -> Diagnostic | None:
    measure, atom = literal.aggregate.measure, literal.atom
    if atom.time is None or not counts_ticks(literal, rule):
        return None
    lost = _lost_id(atom.predicate, heads, declarations, set())
    shown, most = print_aggregate(literal.aggregate), _ticks(atom)
    keep = "" if lost is None else f"keep `{lost[1]}` in the head of `{lost[0].head.predicate}`"
    note = () if lost is None else (Note(f"here `{lost[1]}` is left out", lost[0].head.origin),)
    if measure in (Measure.SUM, Measure.AVG) and lost is not None:
        message = f"`{shown}` takes equal values of a tick once: facts are a set"
        return Diagnostic(Code.COUNTS_TICKS, message, literal.aggregate.origin, note, keep)
    if measure is not Measure.COUNT:
        return None
    message = f"`{shown}` counts ticks, at most {most}: nothing tells facts of a tick apart"
    beside = _beside(literal, rule, declarations)
    verdict = _verdict(literal, rule, most)
    if verdict is not None:
        message += f", so that it is {verdict}"
    elif beside is not None:
        note = (*note, Note("this counts facts, several of a tick", beside.aggregate.origin))
    elif lost is None:
        return None
    hint = keep or f"give `{atom.predicate}` a column that tells them apart, such as an id"
    if isinstance(atom.time, Interval):
        fact, ticks = print_literal(Atom(atom.predicate, atom.args)), print_time(atom.time)
        hint += f"; if ticks are meant, `at least {max(1, most // 2)} {fact} @ {ticks}` says so"
    return Diagnostic(Code.COUNTS_TICKS, message, literal.aggregate.origin, note, hint)


def counts_ticks(literal: Aggregated, rule: Rule) -> bool:
    """Whether all arguments of an aggregate's facts have values outside it, or are what it sums."""
    of = literal.aggregate.of
    outside = rule.outside
    return all(
        isinstance(term, Constant) or term.name in outside or term == of
        for term in literal.atom.args
    )


def _ticks(atom: Atom) -> int:
    return atom.time.ticks if isinstance(atom.time, Interval) else 1


def _beside(
    literal: Aggregated, rule: Rule, declarations: Mapping[str, Input]
) -> Aggregated | None:
    """A count of the same rule, over the same ticks, of facts that an id tells apart."""
    for other in rule.aggregated:
        atom = other.atom
        if other.aggregate.measure is Measure.COUNT and atom.time == literal.atom.time:
            outside = rule.outside
            for column, term in _columns(atom, declarations):
                own = isinstance(term, Variable) and term.name not in outside
                if own and _is_id(column):
                    return other
    return None


def _columns(atom: Atom, declarations: Mapping[str, Input]) -> Iterator[tuple[Column, Term]]:
    """The declared columns of an atom, each with what stands there."""
    declared = declarations.get(atom.predicate)
    if declared is not None:
        yield from zip(declared.columns, atom.args, strict=False)


def _is_id(column: Column) -> bool:
    return column.type is not Type.FLOAT and _ID.fullmatch(column.name) is not None


def _verdict(literal: Aggregated, rule: Rule, most: int) -> str | None:
    """What is known of a comparison of a count of at most so many; None if it can be both."""
    for operator, number in _bounds(literal, rule):
        holds = {_holds(n, operator, number) for n in (0, most, min(max(number, 0), most))}
        if holds == {False}:
            return f"never `{operator} {number}`"
        if holds == {True} and operator not in (Operator.NE, Operator.GE, Operator.GT):
            return f"always `{operator} {number}`"
    return None


def _bounds(literal: Aggregated, rule: Rule) -> Iterator[tuple[Operator, int]]:
    """The whole numbers that a count is compared with, the count standing on the left."""
    value, operator = literal.value, literal.operator
    if isinstance(value, Constant) and value.type is Type.INT:
        yield operator if literal.leads else _TURNED.get(operator, operator), int(value.value)
    if not isinstance(value, Variable) or operator is not Operator.EQ:
        return
    for comparison in rule.comparisons:
        yield from _against(comparison, value)


def _against(comparison: Comparison, name: Variable) -> Iterator[tuple[Operator, int]]:
    match comparison:
        case Comparison(left, operator, Constant(number, Type.INT)) if left == name:
            yield operator, int(number)
        case Comparison(Constant(number, Type.INT), operator, right) if right == name:
            yield _TURNED.get(operator, operator), int(number)


def _holds(n: int, operator: Operator, number: int) -> bool:
    return {
        Operator.EQ: n == number,
        Operator.NE: n != number,
        Operator.LT: n < number,
        Operator.LE: n <= number,
        Operator.GT: n > number,
        Operator.GE: n >= number,
    }[operator]


def _lost_id(
    name: str,
    heads: Mapping[str, Sequence[Rule]],
    declarations: Mapping[str, Input],
    seen: set[str],
) -> tuple[Rule, str] | None:
    """A rule that does not hand on an id of the facts that it is about, and the id's column."""
    seen.add(name)
    for rule in heads.get(name, ()):
        kept = {variable.name for variable in rule.head.variables}
        for atom in rule.positive:
            if atom.time is None or atom.time != rule.head.time:
                continue
            for column, term in _columns(atom, declarations):
                left_out = isinstance(term, Variable) and term.name not in kept
                if left_out and _is_id(column):
                    return rule, column.name
            if atom.predicate not in seen:
                lost = _lost_id(atom.predicate, heads, declarations, seen)
                if lost is not None:
                    return lost
    return None
