"""Running cases: facts in, answers out, and what is not as the test file says."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import tidelog
from tidelog.errors import NoAnswer
from tidelog.evaluation.ranges import times_in_rules
from tidelog.testing import inside
from tidelog.testing.comparing import Compared, without_rules
from tidelog.testing.inside import Data, OnSpark
from tidelog.testing.model import Case, EngineName, Failure, QueryLimit, Result, RunMode, Suite
from tidelog.testing.patterns import Fact
from tidelog.testing.streams import Streamed, streamed
from tidelog.views.terminal import plural
from tidelog.views.verdicts import measure_lines


@dataclass
class Runner:
    """Runs the cases of suites in one way; close it when done, since Spark may be running."""

    engine: EngineName = "duckdb"
    mode: RunMode | None = None  # a query on DuckDB, an offline stream on Spark
    master: str = "local[2]"
    budget: float = 60.0
    progress: Callable[[str], None] = lambda _: None
    start: inside.Start | None = None  # how Spark is started, if not plainly
    seen: list[tuple[Suite, Case, Ran]] = field(default_factory=list)  # for coverage
    _spark: OnSpark | None = None

    @property
    def chosen(self) -> RunMode:
        return self.mode or ("query" if self.engine == "duckdb" else "offline")

    def case(self, suite: Suite, case: Case) -> Result:
        """Run one case."""
        started = time.perf_counter()
        try:
            ran = self._run(suite, case)
        except inside.Blocking as error:
            return _result(case, started, skipped=f"{error}; --mode online streams it")
        except inside.Refusals as error:
            return _result(case, started, (Failure(str(error), case.origin),))
        if isinstance(ran, str):
            return _result(case, started, skipped=ran)
        self.seen.append((suite, case, ran))
        return _result(case, started, tuple(self._failures(suite, case, ran)))

    def limit(self, suite: Suite, limit: QueryLimit) -> Result:
        """Check the limits of one query."""
        started = time.perf_counter()
        failures = tuple(_limit_failures(suite, limit, self.budget))
        return Result(limit.name, limit.origin, failures, seconds=time.perf_counter() - started)

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()

    # One case

    def _run(self, suite: Suite, case: Case) -> Ran | str:
        """Everything there is to compare; a sentence where the case cannot be run in this way."""
        queries = tuple(dict.fromkeys([*case.expect, *case.queries])) or suite.program.outputs
        streams = self.chosen != "query" or self.engine == "spark"
        told = bool(case.final or case.pending or case.dead or case.given.arrives)
        if not streams and not told and not case.given.facts and len(case.given.files) == 1:
            # One path and nothing else: the engine reads it, however large it is.
            data = Data(str(case.given.files[0]), suite.ticks)
            answers = inside.answers(suite.program, queries, data, case.from_, case.to, self.budget)
            return Ran(suite.program, answers, data, None, case.from_, case.to)
        facts = _facts(suite, case)
        low, high = _span(suite, case, facts)
        program = inside.typed(suite.program, facts)
        run = partial(streamed, program, case, facts, low, high, budget=self.budget)
        stream = run(mode=self.chosen) if (streams and self.engine == "duckdb") else None
        if stream is None and told:
            stream = run(mode="query")
        late = set() if stream is None else {(f.predicate, *f.key) for f in stream.late}
        kept = [fact for fact in facts if (fact.predicate, *fact.key) not in late]
        data = Data.of(kept)
        if self.engine == "spark":
            if high > max([f.time for f in kept if f.time is not None], default=high):
                return "a stream on Spark ends with its last fact, and `to` lies after it"
            answers = self._on_spark(program, queries, kept, low, high)
        elif streams and stream is not None:
            answers = {query: [] for query in queries}
            for fact in stream.answers:
                answers[fact.predicate].append(fact)
        else:
            answers = inside.answers(program, queries, data, low, high, self.budget)
        return Ran(program, answers, data, stream, low, high)

    def _on_spark(
        self,
        program: tidelog.Program,
        queries: tuple[str, ...],
        facts: list[Fact],
        low: int,
        high: int,
    ) -> dict[str, list[Fact]]:
        if self._spark is None:
            self._spark = OnSpark(self.master, self.progress, self.start)
        with inside.quiet():
            if self.chosen == "query":
                return self._spark.query(program, queries, facts, low, high)
            return self._spark.stream(program, queries, facts, self.chosen, low)

    def _failures(self, suite: Suite, case: Case, ran: Ran) -> list[Failure]:
        def explain(fact: Fact) -> list[str]:
            lines = inside.explained(ran.program, fact, ran.data, suite.ticks, self.budget)
            return without_rules(lines)

        compared = Compared(explain, suite.ticks)
        failures: list[Failure] = []
        for query, wanted in case.expect.items():
            failures += compared.answers(query, ran.answers.get(query, ()), wanted)
        if ran.stream is not None:
            failures += self._timing(case, ran, ran.stream, compared)
        return failures

    def _timing(self, case: Case, ran: Ran, stream: Streamed, compared: Compared) -> list[Failure]:
        failures: list[Failure] = []
        tins = {(f.predicate, *f.key): tin for f, tin in stream.answers.items()}
        for final in case.final:
            key = (final.fact.predicate, *final.fact.key)
            if key not in tins:
                lines = tuple(compared.explain(final.fact))
                message = (
                    f"{final.fact.text(compared.ticks)} does not hold, so that it is not final"
                )
                failures.append(Failure(message, final.origin, lines))
                continue
            tin = tins[key]
            # A fixed delay does for any data: it may be more than these facts need.
            fine = self.chosen == "offline" and (tin is None or tin >= final.tin)
            if tin != final.tin and not fine:
                waiting = stream.pending.get(final.tin, {}).get(final.fact)
                failures.append(compared.final(final.fact, final.tin, final.origin, tin, waiting))
        for at in case.pending:
            if at.tin in stream.pending:
                said = stream.pending[at.tin]
                pending = Compared(partial(_waits, said), compared.ticks)
                what = f"pending at {at.tin}"
                failures += pending.answers(what, said, at.wanted, named=True)
        if case.dead is not None:
            dead = Compared(lambda _: [], compared.ticks)
            failures += dead.answers("dead letters", stream.late, case.dead, named=True)
        return failures


@dataclass(frozen=True)
class Ran:
    """A case that was run: its answers, and the facts they rest on."""

    program: tidelog.Program
    answers: dict[str, list[Fact]]
    data: Data
    stream: Streamed | None
    low: int | None  # None: where the data of a file begins, or ends
    high: int | None


def _waits(said: dict[Fact, str], fact: Fact) -> list[str]:
    return [said[fact]] if fact in said else []


def _result(
    case: Case, started: float, failures: tuple[Failure, ...] = (), skipped: str | None = None
) -> Result:
    return Result(case.name, case.origin, failures, skipped, time.perf_counter() - started)


def _facts(suite: Suite, case: Case) -> list[Fact]:
    facts = list(case.given.facts)
    for path in case.given.files:
        facts += inside.file_facts(suite.program, path, suite.ticks)
    return list(dict.fromkeys(facts))


def _span(suite: Suite, case: Case, facts: list[Fact]) -> tuple[int, int]:
    """The ticks that answers are expected at: those of the facts, unless the case says others."""
    times = [fact.time for fact in facts if fact.time is not None]
    written = times_in_rules(suite.program)
    times += [int(written.low), int(written.high)] if not written.empty else []
    low = case.from_ if case.from_ is not None else min(times, default=case.to or 0)
    high = case.to if case.to is not None else max(times, default=low)
    return low, high


# Limits


def _limit_failures(suite: Suite, limit: QueryLimit, budget: float) -> list[Failure]:
    """What a query costs more than it may, with the facts that show it."""
    try:
        analysis = tidelog.analyze(suite.program, limit.query, budget=min(budget, 10.0))
    except (NoAnswer, ValueError) as error:
        return [Failure(f"{limit.query}: {error}", limit.origin)]
    failures: list[Failure] = []

    def fail(message: str, lines: list[str]) -> None:
        failures.append(Failure(f"{limit.query}: {message}", limit.origin, tuple(lines)))

    cls = analysis.deps.cls
    if limit.cls is not None and cls.value > limit.cls:
        places = dict.fromkeys(str(rule.origin) for rule in analysis.deps.reason.rules)
        lines = [f"because {analysis.deps.reason.message} ({', '.join(places)})"]
        fail(f"class {cls.value}, {cls.title}; the limit is {limit.cls}", lines)
    for name, most, measure in (
        ("delay", limit.delay, analysis.delay),
        ("window", limit.window, analysis.window),
    ):
        if most is None:
            continue
        if measure is None:
            fail(f"there is no {name}: {analysis.refused}", [])
        elif measure.upper is None or measure.upper > most:
            first, *lines = measure_lines(name, measure, analysis.window_delay)
            fail(f"{first}; the limit is {most}", lines)
    failures += _state_failures(limit, analysis.deps.cls.value == 3, _kept(analysis))
    return failures


def _kept(analysis: tidelog.analysis.analyze.Analysis) -> dict[str, int]:
    """Older slices that a stream keeps, by predicate."""
    keep = analysis.deps.keep
    return {name: int(n) for name, n in keep.items() if 0 < n < float("inf")}


def _state_failures(limit: QueryLimit, grows: bool, kept: dict[str, int]) -> list[Failure]:
    if limit.state is None:
        return []
    if grows:
        return [Failure(f"{limit.query}: the state may grow with the stream", limit.origin)]
    shown = ", ".join(f"{name} {n}" for name, n in kept.items()) or "none"
    if isinstance(limit.state, int):
        total = sum(kept.values())
        if total <= limit.state:
            return []
        message = f"{plural(total, 'older slice')} kept ({shown}); the limit is {limit.state}"
        return [Failure(f"{limit.query}: {message}", limit.origin)]
    return [
        Failure(
            f"{limit.query}: {plural(kept[name], 'older slice')} of {name} kept;"
            f" the limit is {most}",
            limit.origin,
        )
        for name, most in limit.state.items()
        if kept.get(name, 0) > most
    ]
