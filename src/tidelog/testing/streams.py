"""A case as a stream in process: what is answered when, what is pending, what came too late."""

from __future__ import annotations

from dataclasses import dataclass, field

import tidelog
from tidelog.testing.inside import facts_of, quiet
from tidelog.testing.model import Case, RunMode
from tidelog.testing.patterns import Fact

# Ticks that are pushed one by one; in a longer history those without facts are left out.
MOST_TICKS = 100_000
# Pending answers that are looked at.
MOST_PENDING = 10_000


@dataclass
class Streamed:
    """What a stream said: the tin of each answer (None: at the end), pending answers by tin."""

    answers: dict[Fact, int | None] = field(default_factory=dict)
    pending: dict[int, dict[Fact, str]] = field(default_factory=dict)
    late: list[Fact] = field(default_factory=list)


def streamed(
    program: tidelog.Program,
    case: Case,
    facts: list[Fact],
    low: int,
    high: int,
    mode: RunMode,
    budget: float,
) -> Streamed:
    """Deliver the facts of a case tick by tick, each when it arrives."""
    rigid: dict[str, list[tuple[object, ...]]] = {}
    arriving: dict[int, list[Fact]] = {}
    for fact in facts:
        if fact.time is None:
            rigid.setdefault(fact.predicate, []).append(fact.args)
        else:
            arriving.setdefault(case.given.arrives.get(fact, fact.time), []).append(fact)
    asked = {at.tin + case.lateness: at.tin for at in case.pending}  # by the tick that gives it
    # After the last fact time goes on, as far as anything is expected of it.
    end = max([high, *arriving, *asked, *(f.tin + case.lateness for f in case.final)])
    first = min([low, *arriving, *asked])
    queries = case.queries or program.outputs
    result = Streamed()
    with quiet():
        stream = tidelog.Stream(
            program,
            queries,
            mode="online" if mode == "query" else mode,
            lateness=case.lateness,
            rigid=rigid,
            from_=low,
            max_jump=case.max_jump,
            budget=budget,
        )
        ticks = sorted({*arriving, *asked, first, end})
        for tick in range(first, end + 1) if end - first <= MOST_TICKS else ticks:
            rows: dict[str, list[tuple[object, ...]]] = {}
            for fact in arriving.get(tick, ()):
                rows.setdefault(fact.predicate, []).append(fact.row)
            step = stream.push(tick, rows)
            _note(program, step, result, high, step.tin)
            for name, late in step.late.items():
                result.late += (Fact(name, row[:-1], int(row[-1])) for row in late)
            if tick in asked and mode != "offline":
                result.pending[asked[tick]] = {
                    Fact(p.predicate, p.args, p.time): str(p) for p in stream.pending(MOST_PENDING)
                }
        _note(program, stream.close(), result, high, None)
    return result


def _note(
    program: tidelog.Program, step: tidelog.Step, result: Streamed, high: int, tin: int | None
) -> None:
    for query, table in step.answers.items():
        if table.num_rows:
            for fact in facts_of(program, query, table):
                if fact.time is None or fact.time <= high:
                    result.answers.setdefault(fact, tin)
