"""Queries that may wait for ever: every fact is kept, every tick is decided on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.analysis.definitive import Pending
from tidelog.analysis.passes import passes
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.engine import evaluate
from tidelog.evaluation.open_answers import OpenAnswers
from tidelog.evaluation.timeline import TooHard
from tidelog.language.program import Program, Row
from tidelog.logic.core import Predicate
from tidelog.streaming.algorithm import AnswerRows, FactsByTime, RowsByTime
from tidelog.streaming.clock import last_safe
from tidelog.streaming.joins import at
from tidelog.streaming.snapshot import State, as_rows, plain


class BlockingAlgorithm:
    """Online, for blocking queries: definitive time points are decided on the timeline."""

    def __init__(
        self,
        program: Program,
        queries: Iterable[str],
        rigid: Mapping[str, set[Row]],
        *,
        eager: bool = False,
        budget: float = 60.0,
    ) -> None:
        self.program = program
        self.queries = tuple(queries)
        self.eager, self.budget = eager, budget
        self.deps = passes(program, self.queries).dependencies
        self.predicates = passes(program, self.queries).core.predicates
        self.known: dict[str, set[Row]] = {name: set() for name in program.inputs}
        for name, rows in rigid.items():
            if self.predicates[name].base in self.known:
                self.known[self.predicates[name].base] = set(rows)
        self.due: dict[str, int | None] = dict.fromkeys(self.queries)
        self.given: dict[str, set[Row]] = {q: set() for q in self.queries}
        self.tin: int | None = None

    def begin(self, earliest: int) -> None:
        pass

    def advance(self, tin: int, facts: FactsByTime, low: int) -> AnswerRows:
        self.tin = tin
        self.take(facts)
        answers: AnswerRows = {}
        for query in self.queries:
            if not self.predicates[query].temporal:
                early = self.eager and self.deps.safe_at(query, None) <= tin
                answers[query] = self._answers(query, tin, tin) if early else set()
                answers[query] -= self.given[query]
                self.given[query] |= answers[query]
                continue
            due = self._first_due(query, low)
            rows: set[Row] = set()
            if due <= tin:
                first = self._first_open(query, tin, due)
                # What is derived and not final is given early if nothing can withdraw it.
                safe = last_safe(self.deps, query, tin) if self.eager else first - 1
                rows = self._answers(query, due, int(max(first - 1, min(safe, tin))))
                rows -= self.given[query]
                if self.eager:
                    self.given[query] |= rows
                    self.given[query] = {r for r in self.given[query] if at(r) >= first}
                self.due[query] = first
            answers[query] = rows
        return answers

    def take(self, facts: FactsByTime) -> None:
        """Facts to keep."""
        for name, times in facts.items():
            known = self.known.get(self.predicates[name].base)
            if known is not None:  # where a clock starts follows from the rest
                known.update((*row, time) for time, rows in times.items() for row in rows)

    def close(self, last: int, low: int) -> AnswerRows:
        answers: AnswerRows = {}
        for query in self.queries:
            if not self.predicates[query].temporal:
                answers[query] = self._answers(query, last, last) - self.given[query]
                continue
            answers[query] = self._answers(query, self._first_due(query, low), last)
            answers[query] -= self.given[query]
            self.due[query] = last + 1
        return answers

    def _first_due(self, query: str, low: int) -> int:
        """The first time that is not answered yet, of those that are wanted."""
        due = self.due[query]
        return low if due is None else max(low, due)

    def finals(self) -> dict[str, int]:
        return {query: due - 1 for query, due in self.due.items() if due is not None}

    @property
    def history(self) -> int:
        """How many temporal facts are kept."""
        return sum(len(self.known[p.base]) for p in self._temporal())

    def facts(self) -> dict[str, RowsByTime]:
        facts: dict[str, RowsByTime] = {}
        for predicate in self._temporal():
            times: dict[int, set[Row]] = {}
            for row in self.known[predicate.base]:
                times.setdefault(at(row), set()).add(row[:-1])
            facts[predicate.name] = dict(times)
        return facts

    def derived(self) -> dict[str, RowsByTime]:
        return {}

    def pending(self, most: int) -> list[Pending]:
        """Answers that may still come at times up to tin."""
        waiting: list[Pending] = []
        with Engine(self.program, self._tables()) as engine:
            for query, due in self.due.items():
                if due is not None and self.tin is not None:
                    waiting += self._pending(engine, query, self.tin, due, most - len(waiting))
        return waiting[:most]

    def _pending(self, engine: Engine, query: str, tin: int, due: int, most: int) -> list[Pending]:
        waiting: list[Pending] = []
        answers = OpenAnswers(engine, query)
        try:
            for time in answers.open_points(tin, due, tin, self.budget, most):
                if len(waiting) >= most:
                    break
                waiting += answers.definitive(tin, time, self.budget).pending
        except TooHard:
            return waiting  # which of the others may still come is not known
        return waiting

    def state(self) -> State:
        """Everything needed to go on, as plain data."""
        return {
            "tin": self.tin,
            "due": self.due,
            "given": {q: plain(rows) for q, rows in self.given.items()},
            "facts": {p.base: plain(self.known[p.base]) for p in self._temporal()},
        }

    def resume(self, state: State) -> None:
        self.tin, self.due = state["tin"], state["due"]
        self.given = {q: as_rows(rows) for q, rows in state["given"].items()}
        for name, rows in state["facts"].items():
            self.known[name] = as_rows(rows)

    def _temporal(self) -> list[Predicate]:
        inputs = (p for p in self.predicates.values() if p.input and p.temporal)
        return [p for p in inputs if p.base in self.known]

    def _first_open(self, query: str, tin: int, due: int) -> int:
        with Engine(self.program, self._tables()) as engine:
            try:
                points = OpenAnswers(engine, query).open_points(tin, due, tin, self.budget, most=1)
            except TooHard:
                return due  # not proved final yet: answers wait
        return min(points, default=tin + 1)

    def _answers(self, query: str, first: int, last: int) -> set[Row]:
        if first > last:
            return set()
        evaluated = evaluate(
            self.program, [query], self._tables(), from_=first, to=last, budget=self.budget
        )
        table = evaluated.answers[query]
        if not self.predicates[query].temporal and not self.predicates[query].types:
            return {()} if table.num_rows else set()
        return set(zip(*(c.to_pylist() for c in table.columns), strict=True))

    def _tables(self) -> dict[str, list[Row]]:
        return {name: sorted(rows, key=str) for name, rows in self.known.items()}


__all__ = ["BlockingAlgorithm"]
