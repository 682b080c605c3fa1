"""Test files as data: suites of cases over one rules file, and limits that its queries keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from tidelog import Program
from tidelog.data.ticks import Ticks
from tidelog.language.diagnostics import Source
from tidelog.language.program import NOWHERE, Origin
from tidelog.testing.documents import Items, Text
from tidelog.testing.patterns import Fact, FactPattern

EngineName: TypeAlias = Literal["duckdb", "spark"]
RunMode: TypeAlias = Literal["query", "offline", "online"]


@dataclass(frozen=True)
class CaseFacts:
    """The facts of a case, and when those arrive that do not at their own tick."""

    facts: tuple[Fact, ...] = ()
    files: tuple[Path, ...] = ()
    arrives: dict[Fact, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """What a list of facts should be: exactly these, or some that are there, or are not."""

    origin: Origin
    exactly: tuple[Fact, ...] | None = None
    has: tuple[FactPattern, ...] = ()
    has_not: tuple[FactPattern, ...] = ()
    node: Items | Text | None = None  # where `exactly` is written, so that it can be rewritten


@dataclass(frozen=True)
class Final:
    """An answer, and the tin at which a stream may first give it as final."""

    fact: Fact
    tin: int
    origin: Origin
    node: Text


@dataclass(frozen=True)
class PendingAt:
    """Answers that may still come once everything up to a tin has arrived."""

    tin: int
    wanted: Wanted


@dataclass(frozen=True)
class Case:
    name: str
    origin: Origin
    given: CaseFacts
    expect: dict[str, Wanted]
    final: tuple[Final, ...] = ()
    pending: tuple[PendingAt, ...] = ()
    dead: Wanted | None = None
    lateness: int = 0
    max_jump: int | None = None
    from_: int | None = None
    to: int | None = None

    @property
    def queries(self) -> tuple[str, ...]:
        """The predicates that something is expected of."""
        names = [*self.expect, *(f.fact.predicate for f in self.final)]
        for at in self.pending:
            names += [fact.predicate for fact in at.wanted.exactly or ()]
            names += [p.predicate for p in (*at.wanted.has, *at.wanted.has_not)]
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class QueryLimit:
    """What a query may cost at most; None where nothing is said."""

    query: str
    origin: Origin
    delay: int | None = None
    window: int | None = None
    cls: int | None = None
    state: int | dict[str, int] | None = None

    @property
    def name(self) -> str:
        return f"limits of {self.query}"


@dataclass(frozen=True)
class Suite:
    """A test file that can be run."""

    path: str
    source: Source
    rules: str
    program: Program
    cases: tuple[Case, ...]
    limits: tuple[QueryLimit, ...] = ()
    ticks: Ticks | None = None


@dataclass(frozen=True)
class Failure:
    """One thing that is not as expected: a sentence, and lines that explain it."""

    message: str
    origin: Origin = NOWHERE
    lines: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {"message": self.message, "line": self.origin.line, "lines": list(self.lines)}


Outcome: TypeAlias = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Result:
    """What became of a case, or of the limits of a query."""

    name: str
    origin: Origin
    failures: tuple[Failure, ...] = ()
    skipped: str | None = None
    seconds: float = 0.0

    @property
    def outcome(self) -> Outcome:
        return "failed" if self.failures else "skipped" if self.skipped else "passed"

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "line": self.origin.line,
            "outcome": self.outcome,
            "seconds": round(self.seconds, 3),
            **({"skipped": self.skipped} if self.skipped else {}),
            "failures": [failure.as_json() for failure in self.failures],
        }
