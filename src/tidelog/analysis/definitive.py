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
from tidelog.language.program import Measure, Value

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
class AwaitedAggregate(Awaited):
    """What facts will come to, once all ticks of a window have arrived; `time` is the last one.

    >>> awaited = AwaitedAggregate("Pulse", ("a", None), 7, Measure.AVG, 1, 3)
    >>> print(awaited)
    avg(V : Pulse(a, V) @ [5, 7])
    """

    measure: Measure
    of: int | None  # the argument that is measured
    ticks: int

    def __str__(self) -> str:
        return self.text()

    def text(self, time: Callable[[int], str] = str) -> str:
        args = ["_" if a is None else print_value(a) for a in self.args]
        value = ""
        if self.of is not None:
            args[self.of], value = "V", "V : "
        atom = f"{self.predicate}({', '.join(args)})" if args else self.predicate
        at = time(self.time)
        if self.ticks > 1:
            at = f"[{time(self.time - self.ticks + 1)}, {at}]"
        return f"{self.measure}({value}{atom} @ {at})"

    def as_json(self) -> dict[str, object]:
        first = self.time - self.ticks + 1
        known = {"measure": str(self.measure), "of": self.of, "from": first, "to": self.time}
        return {"predicate": self.predicate, "args": list(self.args), **known}


@dataclass(frozen=True)
class Counted:
    """A window that an answer waits for: how many of its ticks have the fact, and need it."""

    predicate: str
    args: tuple[Value | None, ...]
    first: int  # tick of the window
    last: int
    least: int
    there: int  # ticks so far that have it
    awaited: tuple[Awaited, ...]  # facts that would do, of those that may come

    def text(self, time: Callable[[int], str] = str) -> str:
        """In words: `2 of 3 Trip(a) so far, a third by 70 would do`."""
        fact = shown(self.predicate, self.args, None)
        by, missing = time(self.last), self.least - self.there
        if self.least == 1:
            return f"one {fact} by {by} would do"
        if self.least == self.last - self.first + 1:
            return f"{fact} must go on until {by}"
        more = _ordinal(self.least) if missing == 1 else f"{missing} more"
        return f"{self.there} of {self.least} {fact} so far, {more} by {by} would do"

    def as_json(self) -> dict[str, object]:
        return {
            "predicate": self.predicate,
            "args": list(self.args),
            "from": self.first,
            "to": self.last,
            "least": self.least,
            "there": self.there,
        }


def _ordinal(number: int) -> str:
    """
    >>> _ordinal(3), _ordinal(12), _ordinal(21), _ordinal(111)
    ('a third', 'a 12th', 'a 21st', 'a 111th')
    """
    words = {2: "a second", 3: "a third", 4: "a fourth", 5: "a fifth"}
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return words.get(number, f"a {number}{ending}")


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
    windows: tuple[Counted, ...] = ()  # of what it waits for, what would do at other ticks, too

    def __str__(self) -> str:
        return self.text()

    def text(self, time: Callable[[int], str] = str) -> str:
        """In words; `time` says how times are written."""
        answer = shown(self.predicate, self.args, self.time, time)
        windows = self._windows()
        counted = {awaited for window in windows for awaited in window.awaited}
        alone = [awaited for awaited in self.waits_for if awaited not in counted]
        waits = " and ".join(awaited.text(time) for awaited in alone)
        unless = self._unless(time)
        if self.waits_for:
            told = f"{answer} waits for {waits}" if waits else f"{answer} may still come"
            if windows:
                told += ": " + "; ".join(window.text(time) for window in windows)
            return told + (f", unless {unless}" if unless else "")
        if unless:
            return f"{answer} holds unless {unless}"
        return f"{answer} holds and may still go" if self.holds_now else f"{answer} may still come"

    def _windows(self) -> list[Counted]:
        """The windows it waits for; where less than a derivation asked for is enough, not all."""
        return [w for w in self.windows if set(w.awaited) <= set(self.waits_for)]

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
            **({"windows": windows} if (windows := [w.as_json() for w in self._windows()]) else {}),
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
