"""Tidelog: a stream reasoner for temporal Datalog.

>>> import tidelog
>>> program = tidelog.parse("Hot(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+1.")
>>> program.outputs
('Hot',)
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, cast, overload

from tidelog.language import program as _program
from tidelog.language.checks import Report, check
from tidelog.language.diagnostics import Code, Diagnostic, ProgramError, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from tidelog.analysis.analyze import Analysis
    from tidelog.analysis.containment import Verdict
    from tidelog.analysis.definitive import Definitive
    from tidelog.analysis.delay import Measure
    from tidelog.analysis.dependencies import Dependencies
    from tidelog.analysis.forgetting import Forgettable
    from tidelog.checkpoints.checkpoint import Checkpoint
    from tidelog.data.readers.memory import RowsLike
    from tidelog.data.readers.places import FactsLike
    from tidelog.evaluation.duckdb import Engine
    from tidelog.evaluation.engine import Moment
    from tidelog.explain.why import Why
    from tidelog.streaming.stream import Step, Stream

__version__ = "0.1.0"


def load_ipython_extension(ipython: object) -> None:
    """`%load_ext tidelog`: the magics `%%tidelog` and `%tidelog`."""
    # By name: what the magics use imports this package, and imports point one way.
    import_module("tidelog.magics").load(ipython)


def __getattr__(name: str) -> object:
    # Streams need DuckDB, which `import tidelog` does not load.
    if name in ("Step", "Stream"):
        from tidelog.streaming import stream
        from tidelog.views.notebook import attach

        attach(stream.Step, stream.Stream)
        return getattr(stream, name)
    if name == "Checkpoint":
        return import_module("tidelog.checkpoints.checkpoint").Checkpoint
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "Checkpoint",
    "Code",
    "Diagnostic",
    "Program",
    "ProgramError",
    "Report",
    "Severity",
    "Step",
    "Stream",
    "analyze",
    "check",
    "contained",
    "definitive",
    "delay",
    "forgettable",
    "live",
    "load",
    "open_points",
    "parse",
    "window",
]


@dataclass(frozen=True)
class Program(_program.Program):
    """A checked program, and what can be asked of it."""

    def __repr__(self) -> str:
        """What is in it, in a line; `print` shows the rules."""
        inputs, outputs = ", ".join(self.inputs) or "none", ", ".join(self.outputs) or "none"
        rules = f"{len(self.rules)} rule" + ("" if len(self.rules) == 1 else "s")
        return f"<program: {rules}; inputs {inputs}; outputs {outputs}>"

    @overload
    def query(
        self,
        query: str,
        facts: FactsLike = None,
        *,
        from_: Moment | EllipsisType | None = ...,
        to: Moment | EllipsisType | None = ...,
        engine: str = "duckdb",
        intervals: bool = False,
        tick: str | timedelta | None = None,
        origin: str | datetime | None = None,
        budget: float = 60.0,
    ) -> pa.Table: ...

    @overload
    def query(
        self,
        query: Sequence[str] | None,
        facts: FactsLike = None,
        *,
        from_: Moment | EllipsisType | None = ...,
        to: Moment | EllipsisType | None = ...,
        engine: str = "duckdb",
        intervals: bool = False,
        tick: str | timedelta | None = None,
        origin: str | datetime | None = None,
        budget: float = 60.0,
    ) -> dict[str, pa.Table]: ...

    def query(
        self,
        query: str | Sequence[str] | None,
        facts: FactsLike = None,
        *,
        from_: Moment | EllipsisType | None = ...,
        to: Moment | EllipsisType | None = ...,
        engine: str = "duckdb",
        intervals: bool = False,
        tick: str | timedelta | None = None,
        origin: str | datetime | None = None,
        budget: float = 60.0,
    ) -> pa.Table | dict[str, pa.Table]:
        """The answers of a predicate over finite facts, as an Arrow table by time and arguments.

        Several predicates, or None for all outputs, give a table each, by name.

        Facts are a path (a folder, or a .csv, .parquet, .jsonl or .tdl file, or a pattern), several
        of these, or a mapping from inputs to paths or rows: tuples, dicts, an Arrow table or a data
        frame. Answers cover the ticks `from_` to
        `to`, by default the first to the last tick of the data; None means without end, and then a
        column `period` says how each answer repeats. With `tick="10m"` times are timestamps, and
        tick 0 starts at `origin` (by default 1970-01-01T00:00Z). `budget` bounds the seconds that
        programs may take which only the timeline can evaluate. The `engine` is "duckdb", in this
        process, or "spark", in the session that is active or a new one on this machine. With
        `intervals` answers have `from` and `to`, a row for each stretch at which they hold.

        >>> import tidelog
        >>> program = tidelog.parse("Hot(X) @ T+1 :- Temp(X, high) @ T, Temp(X, high) @ T+1.")
        >>> facts = {"Temp": [("a", "high", 0), ("a", "high", 1), ("b", "high", 1)]}
        >>> program.query("Hot", facts).to_pylist()
        [{'x': 'a', 'time': 1}]
        """
        from tidelog.data.schema import expect_queries
        from tidelog.data.ticks import Ticks
        from tidelog.evaluation.engine import evaluate
        from tidelog.views.notebook import show_answers

        ticks = Ticks.given(self, tick, origin)
        low = None if isinstance(from_, EllipsisType) else -math.inf if from_ is None else from_
        high = None if isinstance(to, EllipsisType) else math.inf if to is None else to
        names = expect_queries(self, query)
        evaluated = evaluate(
            self,
            names,
            facts,
            from_=low,
            to=high,
            engine=engine,
            ticks=ticks,
            budget=budget,
            intervals=intervals,
        )
        show_answers()
        answers = evaluated.answers
        return answers[query] if isinstance(query, str) else answers

    def why(
        self,
        fact: str,
        facts: FactsLike | Stream = None,
        *,
        all: int = 1,
        full: bool = False,
        kept: Mapping[str, RowsLike] | None = None,
        tick: str | timedelta | None = None,
        origin: str | datetime | None = None,
        budget: float = 60.0,
    ) -> Why:
        """Why a fact holds over some facts, or why it does not.

        A fact that holds has proofs, up to `all` of them, the smallest first; one that does not has
        its nearest misses. Printed, both are trees; `full` prints all facts that are counted, not
        only the first. `kept` are derived facts that are known to hold although what they rest on
        is gone; they need no proof. They go with facts in memory.
        In place of facts a stream may stand: what it still keeps is looked at.

        >>> import tidelog
        >>> rules = "input Temp(x: text, v: float) @ t. Hot(X) @ T :- Temp(X, V) @ T, V >= 80."
        >>> program = tidelog.parse(rules, "rules.tdl")
        >>> why = program.why("Hot(a) @ 3", {"Temp": [("a", 79.5, 3)]})
        >>> why.holds
        False
        >>> print(why)
        Hot(a) @ 3 does not hold; what comes nearest
        Hot(a) @ 3  rules.tdl:1
        ├─ holds    Temp(a, 79.5) @ 3
        └─ fails    V = 79.5, needs >= 80
        <BLANKLINE>
        rules.tdl:1  Hot(X) @ T :- Temp(X, V) @ T, V >= 80.
        """
        from tidelog.data.ticks import Ticks
        from tidelog.evaluation.duckdb import Engine
        from tidelog.explain.why import Why, keeping, read_fact, why
        from tidelog.views.notebook import attach

        attach(Why)
        if all < 1:
            raise ValueError("ask for one proof or more")
        ticks = Ticks.given(self, tick, origin)
        streamed = hasattr(facts, "push")  # a stream, which is not imported for the question
        given = cast("FactsLike", facts)
        if streamed:
            given, slices = cast("Stream", facts).kept()
            kept = {**slices, **(kept or {})}
        program: _program.Program = self
        if kept is not None:
            program, given = keeping(self, given, kept)
        asked = () if streamed else (read_fact(program, fact, ticks).predicate,)
        with Engine(program, given, ticks, queries=asked) as engine:
            found = why(engine, read_fact(engine.typed, fact, ticks), all, budget)
        return replace(found, full=full)

    def explain(self, query: str | None = None, show: str = "class") -> Explanation:
        """What kind of query each output is, and why; `show` as in `tidelog explain --show`."""
        from tidelog.analysis.passes import passes
        from tidelog.data.schema import expect_queries
        from tidelog.views.terminal import explain_lines

        sections = [part.strip() for part in show.split(",")]
        blocks = [
            "\n".join(explain_lines(passes(self, [name]).dependencies, sections))
            for name in expect_queries(self, query)
        ]
        return Explanation("\n\n".join(blocks))

    def analyze(self, query: str | None = None, *, budget: float = 10.0) -> Analysis:
        """Class, rank, radius, delay, window, redundancy of a query, with witnesses."""
        return analyze(self, self._one(query), budget=budget)

    def delay(self, query: str | None = None, *, budget: float = 10.0) -> Measure:
        """How long to wait until answers are final, whatever the data.

        >>> parse("P(X) @ T :- E(X) @ T, F(X) @ T+2.").delay().upper
        2
        """
        return delay(self, self._one(query), budget=budget)

    def window(
        self, query: str | None = None, delay: int | None = None, *, budget: float = 10.0
    ) -> Measure:
        """How much history to keep when answers wait for `delay` (by default the least one)."""
        return window(self, self._one(query), delay, budget=budget)

    def report(
        self,
        out: str | PathLike[str],
        facts: FactsLike = None,
        queries: str | Sequence[str] | None = None,
        *,
        from_: Moment | None = None,
        to: Moment | None = None,
        tick: str | timedelta | None = None,
        origin: str | datetime | None = None,
        budget: float = 10.0,
    ) -> Path:
        """Write one HTML page with the rules and, given facts, what holds when and why."""
        from tidelog.data.schema import expect_queries
        from tidelog.data.ticks import Ticks
        from tidelog.evaluation.engine import as_tick
        from tidelog.views.report import Looked, report_page

        ticks = Ticks.given(self, tick, origin)
        low, high = as_tick(from_, ticks), as_tick(to, ticks)
        if isinstance(low, float) or isinstance(high, float):
            raise ValueError("a page has an end: from_ and to are finite")
        asked = expect_queries(self, queries)
        looked = Looked(Path(out).stem, str(self), self, asked, facts, low, high, ticks, budget)
        path = Path(out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(report_page(looked)[0], "utf-8", errors="replace")
        return path

    def _one(self, query: str | None) -> str:
        """The query asked about, or the only output."""
        if query is None and len(self.outputs) != 1:
            raise ValueError(f"say which query: {', '.join(self.outputs) or 'there is none'}")
        return self.outputs[0] if query is None else query

    def _repr_html_(self) -> str:
        from tidelog.views.notebook import program_html

        return program_html(self)


class Explanation(str):
    """Text that shows itself as it is, also where its value is shown."""

    def __repr__(self) -> str:
        return str(self)


def parse(text: str, file: str = "<text>") -> Program:
    """The program of a text; ProgramError carries every diagnostic when the rules are wrong."""
    return Program(check(text, file).accepted().statements)


def load(path: str | PathLike[str]) -> Program:
    """The program of a rules file; ProgramError carries every diagnostic when it is wrong."""
    return Program(check(Path(path).read_bytes(), str(path)).accepted().statements)


# The four problems. Bounds and witnesses come within a budget of seconds.


def analyze(program: _program.Program, query: str, *, budget: float = 10.0) -> Analysis:
    """Class, rank, radius, delay, window, redundancy of a query, with witnesses."""
    from tidelog.analysis.analyze import Analysis, analyze
    from tidelog.analysis.containment import Budget
    from tidelog.views.notebook import attach

    attach(Analysis)
    return analyze(program, query, Budget(budget))


def delay(program: _program.Program, query: str, *, budget: float = 10.0) -> Measure:
    """How long to wait until answers are final, whatever the data.

    >>> waits = delay(parse("P(X) @ T :- E(X) @ T, F(X) @ T+2."), "P")
    >>> waits.lower, waits.upper, waits.exact
    (2, 2, True)
    """
    from tidelog.analysis.analyze import simplified
    from tidelog.analysis.containment import Budget
    from tidelog.analysis.delay import delay

    allowed = Budget(budget)
    deps, _ = simplified(_dependencies(program, query), allowed.share(0.3))
    _attach()
    return delay(deps, allowed)


def window(
    program: _program.Program, query: str, delay: int | None = None, *, budget: float = 10.0
) -> Measure:
    """How much history to keep when answers wait for `delay` (by default the least one)."""
    from tidelog.analysis import delay as delays
    from tidelog.analysis.analyze import simplified
    from tidelog.analysis.containment import Budget
    from tidelog.analysis.window import window

    allowed = Budget(budget)
    deps, _ = simplified(_dependencies(program, query), allowed.share(0.3))
    if delay is None:
        delay = delays.delay(deps, allowed.share(0.5)).upper or 0
    _attach()
    return window(deps, delay, allowed)


def contained(
    one: _program.Program, other: _program.Program, query: str, *, budget: float = 10.0
) -> Verdict:
    """Whether the answers of a query in one program are always among those in another."""
    from tidelog.analysis.analyze import inside
    from tidelog.analysis.containment import Budget

    _attach()
    return inside(_dependencies(one, query), _dependencies(other, query), query, Budget(budget))


def definitive(
    program: _program.Program,
    query: str,
    facts: FactsLike,
    tin: int,
    tout: int,
    *,
    budget: float = 60.0,
) -> Definitive:
    """Whether the answers at tout can no longer change, everything up to tin having arrived.

    `budget` bounds the seconds that blocking queries may take, on the timeline.

    >>> program = parse("P(X) @ T :- E(X) @ T, F(X) @ T+1.")
    >>> verdict = definitive(program, "P", {"E": [("a", 0)], "F": []}, 0, 0)
    >>> verdict.holds, [str(p) for p in verdict.pending]
    (False, ['P(a) @ 0 waits for F(a) @ 1'])
    """
    from tidelog.evaluation.open_answers import OpenAnswers

    if tout > tin:
        raise ValueError(f"tout {tout} lies after tin {tin}: only the past can be definitive")
    with _loaded(program, query, facts) as engine:
        _attach()
        return OpenAnswers(engine, query).definitive(tin, tout, budget)


def open_points(
    program: _program.Program,
    query: str,
    facts: FactsLike,
    tin: int,
    from_: int,
    to: int | None = None,
    *,
    budget: float = 60.0,
) -> list[int]:
    """The time points from a tick up to tin (or `to`) that are not definitive yet."""
    from tidelog.evaluation.open_answers import OpenAnswers

    last = tin if to is None else min(to, tin)
    with _loaded(program, query, facts) as engine:
        return OpenAnswers(engine, query).open_points(tin, from_, last, budget)


def forgettable(
    program: _program.Program,
    query: str,
    facts: FactsLike,
    tin: int,
    tout: int,
    tmem: int,
    *,
    budget: float = 10.0,
) -> Forgettable:
    """Whether no answer at tout or later needs the facts up to tmem, whatever comes after tin."""
    from tidelog.analysis.containment import Budget
    from tidelog.evaluation.live_facts import LiveFacts

    # Algorithm 1 asks with tout = tin + 1, which Definition 3 leaves out.
    if not tmem <= tout <= tin + 1:
        raise ValueError(f"needs tmem <= tout <= tin + 1, not {tmem}, {tout}, {tin}")
    with _loaded(program, query, facts) as engine:
        _attach()
        return LiveFacts(engine, query).forgettable(tin, tout, tmem, Budget(budget))


def live(
    program: _program.Program, query: str, facts: FactsLike, tin: int, tout: int
) -> dict[str, pa.Table]:
    """The facts up to tin that an answer at tout or later may still use, by temporal input."""
    from tidelog.evaluation.live_facts import LiveFacts

    with _loaded(program, query, facts) as engine:
        needed = LiveFacts(engine, query)
        return {name: needed.table(name, s) for name, s in needed.live(tin, tout).items()}


def _dependencies(program: _program.Program, query: str) -> Dependencies:
    from tidelog.analysis.passes import passes
    from tidelog.data.schema import expect_program, expect_queries

    expect_program(program)
    (query,) = expect_queries(program, query)
    return passes(program, [query]).dependencies


@contextmanager
def _loaded(program: _program.Program, query: str, facts: FactsLike) -> Iterator[Engine]:
    from tidelog.data.schema import expect_program, expect_queries
    from tidelog.evaluation.duckdb import Engine

    expect_program(program)
    (query,) = expect_queries(program, query)
    with Engine(program, facts, queries=(query,)) as engine:
        yield engine


def _attach() -> None:
    """Give verdicts their HTML."""
    from tidelog.analysis.containment import Verdict
    from tidelog.analysis.definitive import Definitive
    from tidelog.analysis.delay import Measure
    from tidelog.analysis.forgetting import Forgettable
    from tidelog.views.notebook import attach

    attach(Definitive, Forgettable, Measure, Verdict)
