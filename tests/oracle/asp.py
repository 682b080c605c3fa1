"""The same answers from clingo, an engine that is not ours.

The language only compares objects, so each value becomes its rank among all values: numbers in
numeric order, text in code point order. Clingo then never sees text, floats or large integers, and
only times must fit its 32-bit integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import assert_never

import clingo

from tidelog.language.program import (
    Aggregated,
    Atom,
    Calculation,
    Comparison,
    Constant,
    Expression,
    Instant,
    Interval,
    Literal,
    Negated,
    Program,
    Rule,
    Term,
    TimeOffset,
    TimePoint,
    Value,
    Variable,
    ends,
    terms_of,
    ticks_of,
)

from .horizon import Answers, Facts, horizon, temporal_predicates, ticking

# A tick and an offset may be added to each other.
_LARGEST = 2**30 - 1


def fits(program: Program, facts: Facts, low: int, high: int, margin: int | None = None) -> bool:
    """Whether all times and offsets stay within clingo's integers."""
    compared = [c for rule in program.rules for c in rule.comparisons]
    if any(isinstance(s, Calculation) for c in compared for s in (c.left, c.right)):
        return False  # clingo's integers are small, and it has no floats
    if any(rule.aggregated for rule in program.rules):
        return False
    times = [*horizon(program, facts, low, high, margin)]
    atoms = (atom for rule in program.rules for atom in (rule.head, *rule.atoms))
    ticks = (end for atom in atoms for end in ends(atom.time))
    times += [end.offset for end in ticks if isinstance(end, TimeOffset)]
    return all(-_LARGEST <= tick <= _LARGEST for tick in times)


def evaluate(
    program: Program,
    facts: Facts,
    queries: Iterable[str],
    low: int,
    high: int,
    margin: int | None = None,
) -> Answers:
    """As `naive.evaluate`, with the same horizon: the only stable model, and there must be one.

    >>> from tidelog.language.checks import check
    >>> program = check('P(X) @ T+1 :- E(X) @ T, X >= "b".').accepted()
    >>> evaluate(program, {"E": {("a", 1), ("b", 2), ("it's", 3)}}, ["P"], 0, 3)
    {'P': {('b', 3)}}
    """
    translation = _Translation(program, facts, *horizon(program, facts, low, high, margin))
    control = clingo.Control(["--warn=none", "--models=2"])
    control.add("base", [], translation.text())
    control.ground([("base", [])])
    answers: Answers = {name: set() for name in queries}
    names = {translation.names[name]: name for name in answers if name in translation.names}
    with control.solve(yield_=True) as models:
        (model,) = [m.symbols(atoms=True) for m in models]
    for symbol in model:
        name = names.get(symbol.name)
        if name is None:
            continue
        numbers = [argument.number for argument in symbol.arguments]
        if name not in translation.temporal:
            answers[name].add(translation.values(numbers))
        elif low <= numbers[-1] <= high:
            answers[name].add((*translation.values(numbers[:-1]), numbers[-1]))
    return answers


class _Translation:
    def __init__(self, program: Program, facts: Facts, first: int, last: int) -> None:
        self.program, self.facts, self.first, self.last = program, facts, first, last
        self.temporal = temporal_predicates(program)
        self.helpers: list[str] = []
        known = dict.fromkeys([*program.inputs, *program.clocks, *program.heads, *facts])
        self.names = {name: f"p{i}" for i, name in enumerate(known)}
        self.decode = sorted({*_constants(program), *self._data()})
        self.encode = {value: i for i, value in enumerate(self.decode)}

    def _data(self) -> Iterable[tuple[bool, Value]]:
        for name, rows in self.facts.items():
            for row in rows:
                yield from map(_tagged, row[:-1] if name in self.temporal else row)

    def values(self, numbers: list[int]) -> tuple[Value, ...]:
        return tuple(self.decode[number][1] for number in numbers)

    def code(self, value: Value) -> int:
        return self.encode[_tagged(value)]

    def text(self) -> str:
        # The bounds are a fact, because clingo enumerates a variable between two numbers.
        bounds = f"within({self.first},{self.last})."
        clocks = list(self._clock_lines())
        rules = list(map(self._rule, self.program.rules))
        return "\n".join([bounds, *clocks, *self._fact_lines(), *rules, *self.helpers])

    def _clock_lines(self) -> Iterable[str]:
        ticks = ticking(self.program, self.facts, self.last)
        for name in self.program.clocks if ticks else ():
            yield f"{self.names[name]}({ticks[0]}..{ticks[-1]})."

    def _fact_lines(self) -> Iterable[str]:
        for name, rows in self.facts.items():
            for row in rows:
                objects, time = (row[:-1], row[-1:]) if name in self.temporal else (row, ())
                args = [str(self.code(value)) for value in objects] + [str(tick) for tick in time]
                yield f"{_call(self.names[name], args)}."

    def _rule(self, rule: Rule) -> str:
        variables: dict[str, str] = {}
        fresh = count()

        def variable(name: str) -> str:
            if name not in variables:
                variables[name] = f"V{next(fresh)}"
            return variables[name]

        def term(t: Term) -> str:
            return str(self.code(t.value)) if isinstance(t, Constant) else variable(t.name)

        def side(s: Expression) -> str:
            assert not isinstance(s, Calculation)
            return term(s)

        def tick(at: Instant) -> str:
            if isinstance(at, TimePoint):
                return str(at.tick)
            return f"{variable(at.variable.name)}{at.offset:+d}"

        def argument(t: Term) -> str:
            # Clingo reads `not p(_)` as we do: no fact at all.
            return "_" if isinstance(t, Variable) and t.anonymous else term(t)

        def counted(atom: Atom, interval: Interval) -> str:
            """At least so many ticks of the interval have a fact."""
            fact = _call(self.names[atom.predicate], [*map(argument, atom.args), "S"])
            within = f"{tick(interval.low)} <= S, S <= {tick(interval.high)}"
            return f"{interval.fewest} <= #count {{ S : {fact}, {within} }}"

        def holds(atom: Atom) -> str:
            match atom.time:
                case None:
                    args = []
                case TimePoint() | TimeOffset():
                    args = [tick(atom.time)]
                case Interval():
                    return f"{self._near(atom, argument, variable)}, {counted(atom, atom.time)}"
                case _:
                    assert_never(atom.time)
            return _call(self.names[atom.predicate], [*map(term, atom.args), *args])

        def literal(part: Literal) -> str:
            match part:
                case Comparison():
                    return f"{side(part.left)} {part.operator} {side(part.right)}"
                case Atom():
                    return holds(part)
                case Negated(Atom(time=Interval() as interval) as atom):
                    return f"not {counted(atom, interval)}"
                case Negated(atom):
                    args = [*map(argument, atom.args), *map(tick, ends(atom.time))]
                    return f"not {_call(self.names[atom.predicate], args)}"
                case Aggregated():
                    raise AssertionError("programs with aggregates do not fit")
                case _:
                    assert_never(part)

        body = [literal(part) for part in rule.body]
        head, at = rule.head, [tick(end) for end in ends(rule.head.time)]
        if isinstance(head.time, Interval):
            body.append(f"H0 = {at[0]}..{at[1]}")
            at = ["H0"]
        body += [f"within(L,H), L <= {t}, {t} <= H" for t in at]
        said = _call(self.names[head.predicate], [*map(term, head.args), *at])
        return f"{said} :- {', '.join(body)}." if body else f"{said}."

    def _near(
        self,
        atom: Atom,
        argument: Callable[[Term], str],
        variable: Callable[[str], str],
    ) -> str:
        """An atom that gives values to what an interval is about: some tick of it has a fact."""
        interval = atom.time
        assert isinstance(interval, Interval)
        args = [argument(t) for t in atom.args]
        fact = _call(self.names[atom.predicate], [*args, "S"])
        named = [a for t, a in zip(atom.args, args, strict=True) if isinstance(t, Variable)]
        named = [a for a in dict.fromkeys(named) if a != "_"]
        low, high = interval.low, interval.high
        if isinstance(low, TimeOffset) and isinstance(high, TimeOffset):
            base = variable(low.variable.name)
            where = f"{base} = S-({high.offset})..S-({low.offset})"
            named.append(base)
        else:
            where = f"{ticks_of(low)} <= S, S <= {ticks_of(high)}"
        near = _call(f"near{len(self.helpers)}", named)
        self.helpers.append(f"{near} :- {fact}, {where}.")
        return near


def _call(name: str, args: list[str]) -> str:
    return f"{name}({','.join(args)})" if args else name


def _tagged(value: Value) -> tuple[bool, Value]:
    """Text apart from numbers, so that all values have an order; bools count as 0 and 1."""
    return isinstance(value, str), value


def _constants(program: Program) -> Iterable[tuple[bool, Value]]:
    for rule in program.rules:
        terms = [t for atom in (rule.head, *rule.atoms) for t in atom.args]
        terms += [t for c in rule.comparisons for s in (c.left, c.right) for t in terms_of(s)]
        yield from (_tagged(t.value) for t in terms if isinstance(t, Constant))
