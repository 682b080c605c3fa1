"""Definitive time points (Definition 2): may the answers at tout still change?

tout is definitive iff every possible answer there is already a certain one. An answer that is only
possible is *pending*: it waits for the open atoms of a possible derivation, or it holds by the
facts at hand unless something arrives that must be absent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.analysis.containment import Ground
from tidelog.language.printer import print_value
from tidelog.language.program import Value

# Ways in which an answer would not hold that are spelt out.
MOST_WAYS = 5


@dataclass(frozen=True)
class Awaited:
    """A fact that may come; None stands for any value."""

    predicate: str
    args: tuple[Value | None, ...]
    time: int

    def __str__(self) -> str:
        return self.text()

    def text(self, time: Callable[[int], str] = str) -> str:
        return shown(self.predicate, self.args, self.time, time)

    def as_json(self) -> dict[str, object]:
        return {"predicate": self.predicate, "args": list(self.args), "time": self.time}


@dataclass(frozen=True)
class Pending:
    """An answer that may still come, or go: None stands for an object not seen yet.

    Each way in which it would not hold after all, though what it waits for arrives, is one of
    `unless`: facts that would have to arrive together. Some of them; there may be more.
    """

    predicate: str
    args: tuple[Value | None, ...]
    time: int
    holds: tuple[Ground, ...]  # facts of the history it builds on
    waits_for: tuple[Awaited, ...]
    until: int | None = None  # the input time by which it is decided, where that is known
    unless: tuple[tuple[Awaited, ...], ...] = ()
    holds_now: bool = False  # whether it holds if nothing else arrives

    def __str__(self) -> str:
        return self.text()

    def text(self, time: Callable[[int], str] = str) -> str:
        """In words; `time` says how times are written."""
        answer = shown(self.predicate, self.args, self.time, time)
        waits = " and ".join(awaited.text(time) for awaited in self.waits_for)
        unless = self._unless(time)
        if waits:
            return f"{answer} waits for {waits}" + (f", unless {unless}" if unless else "")
        if unless:
            return f"{answer} holds unless {unless}"
        return f"{answer} holds and may still go" if self.holds_now else f"{answer} may still come"

    def _unless(self, time: Callable[[int], str]) -> str:
        ways = [" and ".join(awaited.text(time) for awaited in way) for way in self.unless]
        more = len(ways) - MOST_WAYS
        if more > 0:
            ways = [*ways[:MOST_WAYS], f"one of {more} more"]
        verb = "arrive" if len(self.unless[-1:] and self.unless[-1]) > 1 else "arrives"
        return f"{' or '.join(ways)} {verb}" if ways else ""

    def as_json(self) -> dict[str, object]:
        return {
            "predicate": self.predicate,
            "args": list(self.args),
            "time": self.time,
            "holds": [fact.as_json() for fact in self.holds],
            "waits_for": [awaited.as_json() for awaited in self.waits_for],
            **({} if self.until is None else {"until": self.until}),
            **({"unless": unless} if (unless := self._unless_json()) else {}),
            **({"holds_now": True} if self.holds_now else {}),
        }

    def _unless_json(self) -> list[list[dict[str, object]]]:
        return [[awaited.as_json() for awaited in way] for way in self.unless]


@dataclass(frozen=True)
class TwoUpdates:
    """Two ways to go on: an answer is there after one of them and not after the other.

    None stands for one and the same object, never seen before.
    """

    answer: Awaited
    with_it: tuple[Awaited, ...]
    without_it: tuple[Awaited, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "answer": self.answer.as_json(),
            "with": [fact.as_json() for fact in self.with_it],
            "without": [fact.as_json() for fact in self.without_it],
        }


@dataclass(frozen=True)
class Definitive:
    """Whether a time point is definitive; if not, how many answers are pending, and some of them.

    `exact` is False where comparisons on values not yet known were assumed to come out true, or
    where an input can both add answers and take them away and no two `updates` were seen to differ:
    "no" may then be too careful, for the `reason` given; "yes" never is.
    """

    holds: bool
    exact: bool
    count: int
    pending: tuple[Pending, ...] = field(repr=False)
    reason: str = ""
    updates: TwoUpdates | None = field(default=None, repr=False)


def shown(
    predicate: str,
    args: tuple[Value | None, ...],
    time: int | None,
    written: Callable[[int], str] = str,
) -> str:
    """A fact as the language writes it; None stands for any value."""
    values = ", ".join("_" if a is None else print_value(a) for a in args)
    atom = f"{predicate}({values})" if args else predicate
    return atom if time is None else f"{atom} @ {written(time)}"
