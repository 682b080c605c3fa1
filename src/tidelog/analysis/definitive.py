"""Definitive time points (Definition 2): may the answers at tout still change?

tout is definitive iff every possible answer there is already a certain one. An answer that is only
possible is *pending*, and waits for the open atoms of a possible derivation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.analysis.containment import Ground
from tidelog.language.printer import print_value
from tidelog.language.program import Value


@dataclass(frozen=True)
class Awaited:
    """A fact an answer waits for; None stands for any value."""

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
    """An answer that may still come: None stands for an object not seen yet."""

    predicate: str
    args: tuple[Value | None, ...]
    time: int
    holds: tuple[Ground, ...]  # facts of the history it builds on
    waits_for: tuple[Awaited, ...]
    until: int | None = None  # the input time by which it is decided, where that is known

    def __str__(self) -> str:
        return self.text()

    def text(self, time: Callable[[int], str] = str) -> str:
        """In words; `time` says how times are written."""
        answer = shown(self.predicate, self.args, self.time, time)
        waits = " and ".join(awaited.text(time) for awaited in self.waits_for)
        return f"{answer} waits for {waits}" if waits else f"{answer} may still come"

    def as_json(self) -> dict[str, object]:
        return {
            "predicate": self.predicate,
            "args": list(self.args),
            "time": self.time,
            "holds": [fact.as_json() for fact in self.holds],
            "waits_for": [awaited.as_json() for awaited in self.waits_for],
            **({} if self.until is None else {"until": self.until}),
        }


@dataclass(frozen=True)
class Definitive:
    """Whether a time point is definitive; if not, how many answers are pending, and some of them.

    `exact` is False where comparisons on values not yet known were assumed to come out true: "no"
    may then be too careful; "yes" never is.
    """

    holds: bool
    exact: bool
    count: int
    pending: tuple[Pending, ...] = field(repr=False)


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
