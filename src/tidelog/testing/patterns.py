"""Facts and answers as test files write them: `Malfunc(north) @ 1`, `(north) @ 4..11`, `@ 3`.

A time is a tick, a timestamp where ticks have a length, a range of either, or `_`. An argument `_`
stands for any value. Everything is checked against the rules, so that a slip is found before
anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tidelog.data.ticks import Ticks
from tidelog.language.checks import Similar
from tidelog.language.diagnostics import Source
from tidelog.language.parser import parse_source
from tidelog.language.printer import print_type, print_value
from tidelog.language.program import (
    TIME_MAX,
    Atom,
    Constant,
    Program,
    Rule,
    Type,
    Value,
    Variable,
    type_of,
)
from tidelog.language.tokens import Kind, tokenize
from tidelog.language.types import Types, infer

_EXAMPLES = {
    Type.TEXT: 'text is written `high`, or `"High"` in quotes',
    Type.INT: "an integer is written `5`",
    Type.FLOAT: "a number is written `2.5`, or `2`",
    Type.BOOL: "a bool is `true` or `false`",
}
# Facts that a range of times stands for.
MOST_TICKS = 1_000_000


@dataclass(frozen=True)
class Fact:
    """A fact; rigid ones have no time. In a pending answer None is an object not seen yet."""

    predicate: str
    args: tuple[Value | None, ...]
    time: int | None

    @property
    def row(self) -> tuple[Value | None, ...]:
        return self.args if self.time is None else (*self.args, self.time)

    @property
    def key(self) -> tuple[object, ...]:
        """What it is compared by: 1 and 1.0 are one number, true and "1" are something else."""
        return (*map(_comparable, self.args), self.time)

    @property
    def order(self) -> tuple[object, ...]:
        """By time, then by arguments of any type."""
        return (self.time or 0, tuple(map(_comparable, self.args)))

    def text(self, ticks: Ticks | None = None, *, named: bool = True) -> str:
        """
        >>> Fact("P", ("a", 1), 5).text(), Fact("P", (), 5).text(named=False)
        ('P(a, 1) @ 5', '@ 5')
        """
        shown = ("_" if a is None else print_value(a) for a in self.args)
        args = f"({', '.join(shown)})" if self.args else ""
        name = self.predicate if named or (self.time is None and not args) else ""
        time = "" if self.time is None else f" @ {moment(self.time, ticks)}"
        return f"{name}{args}{time}".strip()


@dataclass(frozen=True)
class FactPattern:
    """Facts alike: None stands for any value, and times go from `low` to `high`, or are any."""

    predicate: str
    args: tuple[Value | None, ...]
    low: int | None
    high: int | None
    temporal: bool
    text: str

    def fits(self, fact: Fact) -> bool:
        if len(fact.args) != len(self.args) or fact.predicate != self.predicate:
            return False
        if self.low is not None and not (self.low <= (fact.time or 0) <= (self.high or 0)):
            return False
        return all(
            wanted is None or _comparable(wanted) == _comparable(value)
            for wanted, value in zip(self.args, fact.args, strict=True)
        )

    @property
    def ground(self) -> bool:
        return None not in self.args and (not self.temporal or self.low is not None)

    def facts(self) -> Iterator[Fact]:
        """The facts that a ground pattern stands for."""
        if self.low is None or self.high is None:
            yield Fact(self.predicate, self.args, None)
            return
        for time in range(self.low, self.high + 1):
            yield Fact(self.predicate, self.args, time)


def _comparable(value: Value | None) -> tuple[str, Value]:
    if value is None:
        return ("any", "")
    return ("number" if type_of(value) in (Type.INT, Type.FLOAT) else type_of(value), value)


def moment(tick: int, ticks: Ticks | None) -> str:
    """A tick as people read it: its number, or when it starts where ticks have a length."""
    if ticks is None:
        return str(tick)
    try:
        return ticks.moment(tick).isoformat().replace("+00:00", "Z")
    except OverflowError:  # before the year 1, or after 9999
        return str(tick)


def tick_of(text: str, ticks: Ticks | None) -> int:
    """A tick as it is written; ValueError otherwise.

    >>> tick_of("7", None), tick_of("1970-01-01T00:25Z", Ticks.of("10m"))
    (7, 2)
    """
    written = text.strip()
    digits = written.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        tick = int(written) if len(digits) <= 19 else TIME_MAX + 1
    elif ticks is None:
        raise ValueError(
            f"`{written}` is not a whole number of ticks; timestamps need `tick: 10m` in the file"
        )
    else:
        tick = ticks.tick(written)
    if abs(tick) > TIME_MAX:
        raise ValueError(f"the time {written} does not fit 62 bits; write a smaller one")
    return tick


@dataclass(frozen=True)
class Vocabulary:
    """What the predicates of a program are like."""

    program: Program
    ticks: Ticks | None = None

    @cached_property
    def types(self) -> Types:
        return infer(self.program)

    @cached_property
    def temporal(self) -> dict[str, bool]:
        timed = {name: d.time is not None for name, d in self.program.declarations.items()}
        for rule in self.program.rules:
            for atom in (rule.head, *rule.atoms):
                timed.setdefault(atom.predicate, atom.time is not None)
        return timed

    def check(self, predicate: str, among: tuple[str, ...] | None = None) -> None:
        """ValueError for a predicate that there is not, with the one that was meant."""
        known = tuple(self.temporal) if among is None else among
        if predicate in known:
            return
        if among is not None and predicate in self.program.heads:
            raise ValueError(
                f"`{predicate}` is derived by rules; declare it as an input to give it facts"
            )
        near = Similar(known).to(predicate)
        there = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        remedy = f"did you mean `{near}`?" if near else f"there are {there or 'none'}"
        raise ValueError(f"no {'predicate' if among is None else 'input'} `{predicate}`; {remedy}")

    def pattern(self, text: str, predicate: str | None = None) -> FactPattern:
        """A fact, an answer of a predicate or a pattern; ValueError says what is wrong with it.

        >>> from tidelog.language.checks import check
        >>> words = Vocabulary(check("P(X) @ T :- E(X, 1.5) @ T.").accepted())
        >>> words.pattern("(a) @ 4..6", "P").low, words.pattern("E(_, 2) @ _").args
        (4, (None, 2.0))
        """
        head, time = _parted(text)
        if predicate is not None and (head == "" or head.startswith("(")):
            head = predicate + head
        atom = _atom(head, text)
        if predicate is not None and atom.predicate != predicate:
            raise ValueError(f"`{text}` is not about `{predicate}`; leave the name out: `(a) @ 5`")
        self.check(atom.predicate)
        if (time is not None) != self.temporal[atom.predicate]:
            example = f"`{head} @ 0`" if time is None else f"`{head}`"
            has = "a" if time is None else "no"
            raise ValueError(f"`{atom.predicate}` has {has} time in the rules; write {example}")
        low, high = self._times(time) if time is not None else (None, None)
        args = self.arguments(atom)
        return FactPattern(atom.predicate, args, low, high, time is not None, text.strip())

    def arguments(self, atom: Atom) -> tuple[Value | None, ...]:
        """The values of an atom, as its columns want them; None for `_`."""
        wanted = self.types.columns[atom.predicate]
        if len(atom.args) != len(wanted):
            number = "1 argument" if len(wanted) == 1 else f"{len(wanted)} arguments"
            columns = ", ".join(map(print_type, wanted)) or "none"
            raise ValueError(f"`{atom.predicate}` has {number} in the rules; they are {columns}")
        return tuple(
            self.fitting(term, atom.predicate, i)
            for i, term in enumerate(self.types.fit(atom.predicate, atom.args))
        )

    def fitting(self, term: Constant | Variable, predicate: str, i: int) -> Value | None:
        """The value of a term at an argument of a predicate; ValueError if it cannot be there."""
        if isinstance(term, Variable):
            if term.anonymous:
                return None
            raise ValueError(
                f'`{term.name}` is a variable; as a constant it is written `"{term.name}"`'
            )
        type_ = self.types.columns[predicate][i]
        if type_ is not None and term.type is not type_:
            shown = print_value(term.value)
            raise ValueError(
                f"argument {i + 1} of `{predicate}` is {type_}, and `{shown}` is {term.type};"
                f" {_EXAMPLES[type_]}"
            )
        return term.value

    def _times(self, text: str) -> tuple[int | None, int | None]:
        if text == "_":
            return None, None
        first, dots, last = text.partition("..")
        low = tick_of(first, self.ticks)
        high = tick_of(last, self.ticks) if dots else low
        if high < low:
            raise ValueError(f"the times {text} go backwards; write the earlier one first")
        if high - low >= MOST_TICKS:
            raise ValueError(f"the times {text} are more than {MOST_TICKS:,}; choose fewer")
        return low, high


def _parted(text: str) -> tuple[str, str | None]:
    """What stands before and after the `@`."""
    for token in tokenize(Source("", text), []):
        if token.kind is Kind.SYMBOL and token.text == "@":
            return text[: token.start].strip(), text[token.end :].strip()
    return text.strip().removesuffix(".").strip(), None


def _atom(head: str, text: str) -> Atom:
    parsed = parse_source(Source("", f"{head}."))
    match parsed.program.statements:
        case (Rule(head=atom, body=()),) if not parsed.diagnostics:
            return atom
    raise ValueError(f"`{text}` is not a fact; one is written `P(a, 1) @ 5`")
