"""What was expected against what there is: differences, each line with its explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidelog.data.ticks import Ticks
from tidelog.language.program import Origin
from tidelog.testing.model import Failure, Wanted
from tidelog.testing.patterns import Fact, moment

# Lines of a difference that are shown, and those of a case that are explained.
MOST_SHOWN = 20
MOST_EXPLAINED = 10


@dataclass
class Compared:
    """Gathers the failures of a case; explanations cost time, so that there are only so many."""

    explain: Callable[[Fact], list[str]]
    ticks: Ticks | None = None
    left: int = MOST_EXPLAINED

    def answers(
        self, what: str, facts: Iterable[Fact], wanted: Wanted, *, named: bool = False
    ) -> list[Failure]:
        """Failures of a list of facts that should be exactly these, have some, or not have some."""
        there = {fact.key: fact for fact in facts} if not named else _named(facts)
        failures: list[Failure] = []
        if wanted.exactly is not None:
            exactly = {f.key: f for f in wanted.exactly} if not named else _named(wanted.exactly)
            missing = [f for key, f in exactly.items() if key not in there]
            extra = [f for key, f in there.items() if key not in exactly]
            if missing or extra:
                failures.append(self._difference(what, missing, extra, wanted.origin, named))
        for pattern in wanted.has:
            if not any(pattern.fits(fact) for fact in there.values()):
                lines = [f"- {pattern.text}"]
                if pattern.ground:
                    missing = [
                        f for f in pattern.facts() if not any(f == t for t in there.values())
                    ]
                    lines = self._lines("-", missing, named)
                elif there:
                    shown = ", ".join(f.text(self.ticks, named=named) for f in _first(there, 5))
                    lines.append(f"  there is {shown}")
                failures.append(
                    Failure(f"{what}: {pattern.text} is missing", wanted.origin, tuple(lines))
                )
        for pattern in wanted.has_not:
            unwanted = [fact for fact in there.values() if pattern.fits(fact)]
            if unwanted:
                lines = self._lines("+", unwanted, named)
                message = f"{what}: {pattern.text} should not be there"
                failures.append(Failure(message, wanted.origin, tuple(lines)))
        return failures

    def _difference(
        self, what: str, missing: list[Fact], extra: list[Fact], origin: Origin, named: bool
    ) -> Failure:
        parts = [f"{len(missing)} missing"] if missing else []
        parts += [f"{len(extra)} not expected"] if extra else []
        lines = self._lines("-", missing, named) + self._lines("+", extra, named)
        return Failure(f"{what}: {', '.join(parts)}", origin, tuple(lines))

    def _lines(self, sign: str, facts: Iterable[Fact], named: bool) -> list[str]:
        ordered = sorted(facts, key=lambda fact: fact.order)
        lines: list[str] = []
        for fact in ordered[:MOST_SHOWN]:
            lines.append(f"{sign} {fact.text(self.ticks, named=named)}")
            if self.left > 0:
                self.left -= 1
                lines += [f"    {line}".rstrip() for line in self.explain(fact)]
        if len(ordered) > MOST_SHOWN:
            lines.append(f"{sign} ... and {len(ordered) - MOST_SHOWN} more")
        return lines

    def final(
        self, fact: Fact, tin: int, origin: Origin, actual: int | None, waiting: str | None
    ) -> Failure:
        """An answer that is final at another tin than it should be."""
        name = fact.text(self.ticks)
        expected = moment(tin, self.ticks)
        if actual is None:
            return Failure(f"{name} is not final at tin {expected}, nor later", origin)
        when = "earlier" if actual < tin else "later"
        lines = () if waiting is None else (f"at tin {expected}: {waiting}",)
        return Failure(
            f"{name} is final at tin {moment(actual, self.ticks)}, {when} than {expected}",
            origin,
            lines,
        )


def _named(facts: Iterable[Fact]) -> dict[tuple[object, ...], Fact]:
    """Facts of several predicates, by all that tells them apart."""
    return {(fact.predicate, *fact.key): fact for fact in facts}


def _first(facts: dict[tuple[object, ...], Fact], most: int) -> list[Fact]:
    return sorted(facts.values(), key=lambda fact: fact.order)[:most]


def without_rules(lines: list[str]) -> list[str]:
    """An explanation without its title and the rules at its end, whose places stand in the tree."""
    body = lines
    if "" in lines:
        last = len(lines) - 1 - lines[::-1].index("")
        body = lines[:last]
    return body[1:] if len(body) > 1 else body
