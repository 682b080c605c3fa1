"""Everything the rules alone say about a query: `analyze` in one place."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.analysis.containment import Budget, Verdict, Witness, contained
from tidelog.analysis.delay import Measure, delay
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.passes import passes
from tidelog.analysis.redundancy import Redundant, reduced
from tidelog.analysis.window import window
from tidelog.errors import NoAnswer
from tidelog.language.printer import print_literal, print_rule
from tidelog.language.program import Program


@dataclass(frozen=True)
class Analysis:
    """Class, delay, window and redundancy of one query; why delay and window are missing, if so."""

    deps: Dependencies
    delay: Measure | None
    window: Measure | None
    window_delay: int
    refused: str | None
    redundant: tuple[Redundant, ...]

    @property
    def query(self) -> str:
        return self.deps.queries[0]

    def __repr__(self) -> str:
        """The class, and the bounds that are known, in a line."""
        measures = [("delay", self.delay), ("window", self.window)]
        known = [f"{name} {m.upper}" for name, m in measures if m is not None and m.exact]
        cls = f"class {self.deps.cls.value}, {self.deps.cls.title}"
        return f"<analysis of {self.query}: {'; '.join([cls, *known])}>"

    def derived_state(self) -> dict[str, int]:
        """Older slices of derived predicates that a stream keeps, where any are."""
        deps = self.deps.folded
        return {
            name: int(deps.keep[name])
            for name in deps.predicates
            if not deps.core.predicates[name].input and 0 < deps.keep.get(name, 0) < float("inf")
        }

    def as_json(self) -> dict[str, object]:
        return {
            "query": self.query,
            "class": self.deps.cls.value,
            "title": self.deps.cls.title,
            "reason": self.deps.reason.message,
            "rank": self.deps.folded.rank,
            "radius": self.deps.folded.radius,
            "delay": measure_json(self.delay),
            "window": None
            if self.window is None
            else {"delay": self.window_delay, **(measure_json(self.window) or {})},
            "refused": self.refused,
            "derived_state": self.derived_state(),
            "redundant": [redundant_json(r) for r in self.redundant],
        }


def analyze(program: Program, query: str, budget: Budget) -> Analysis:
    """Analyse one query within a budget."""
    deps = passes(program, [query]).dependencies
    simple, redundant = simplified(deps, budget.share(0.3))
    try:
        least_delay = delay(simple, budget.share(0.5))
        waited = least_delay.upper or 0
        least_window = window(simple, waited, budget)
    except NoAnswer as error:
        return Analysis(deps, None, None, 0, str(error), tuple(redundant))
    return Analysis(deps, least_delay, least_window, waited, None, tuple(redundant))


def simplified(deps: Dependencies, budget: Budget) -> tuple[Dependencies, list[Redundant]]:
    """The same query without redundant rules and atoms, which would only hide what is least."""
    needed, redundant = reduced(deps.written_out.core, deps.queries, budget)
    return dependencies(needed, deps.queries), redundant


def inside(one: Dependencies, other: Dependencies, query: str, budget: Budget) -> Verdict:
    """Whether the answers of a query in one program are always among those in another.

    Under `not` two rules of the other may cover together what neither covers, unless they are one.
    """
    if other.negated:
        other, _ = simplified(other, budget.share(0.3))
    return contained(one, other, query, budget)


def measure_json(measure: Measure | None) -> dict[str, object] | None:
    if measure is None:
        return None
    return {
        "lower": measure.lower,
        "upper": measure.upper,
        "exact": measure.exact,
        "witness": witness_json(measure.witness),
        "reason": measure.reason,
    }


def witness_json(witness: Witness | None) -> dict[str, object] | None:
    if witness is None:
        return None
    return {
        "answer": witness.answer.as_json(),
        "facts": [fact.as_json() for fact in witness.facts],
        "withdrawn": witness.withdrawn,
    }


def redundant_json(redundant: Redundant) -> dict[str, object]:
    return {
        "rule": print_rule(redundant.rule),
        "file": redundant.rule.origin.file,
        "line": redundant.rule.origin.line,
        "atom": None if redundant.atom is None else print_literal(redundant.atom),
    }
