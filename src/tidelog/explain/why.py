"""Why a fact holds, or why it does not: one question, answered from the goal down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from tidelog.analysis.containment import Ground
from tidelog.data.readers.memory import RowsLike
from tidelog.data.readers.places import FactsLike
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError, listed
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.engine import as_tick
from tidelog.evaluation.goal_directed.goal import Goal, on_timeline
from tidelog.evaluation.goal_directed.model import FactModel
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.timeline import Limit, TooHard
from tidelog.explain.misses import DEEPEST, Miss, Misses
from tidelog.explain.proofs import Proof, Proofs
from tidelog.language.checks import Similar
from tidelog.language.diagnostics import Source
from tidelog.language.parser import parse_source
from tidelog.language.program import (
    TIME_COLUMN,
    TIME_MAX,
    Atom,
    Column,
    Constant,
    Input,
    Interval,
    Output,
    Outputs,
    Program,
    Rule,
    TimePoint,
    Value,
)
from tidelog.language.types import infer
from tidelog.logic.core import Core, rules_of
from tidelog.logic.normalise import core

# Ticks on either side of a goal that are looked at first; then eight times as many, and so on.
FIRST_WINDOW = 240
# Ticks beyond which no further proofs are looked for where rules reach infinitely far.
WIDEST = 100_000
# Rules that came near which are shown of a fact that does not hold.
MOST_MISSES = 3


@dataclass(frozen=True)
class Why:
    """A fact that holds, with proofs by size; or one that does not, with its nearest misses.

    `smallest` says that no proof is smaller than the first one, and `more` that there are further
    proofs than those asked for. `instead` are facts in place of an input fact that is missing.
    Where ticks have a length, times are told as timestamps. Text and JSON show the first of many
    counted facts, or all if it is `full`; `proofs` have them all.
    """

    fact: Ground
    ticks: Ticks | None = None
    proofs: tuple[Proof, ...] = ()
    smallest: bool = True
    more: bool = False
    misses: tuple[Miss, ...] = ()
    instead: tuple[Ground, ...] = ()
    input: bool = False
    full: bool = False

    @property
    def holds(self) -> bool:
        return bool(self.proofs)

    def __str__(self) -> str:
        from tidelog.explain.text import why_lines

        return "\n".join(why_lines(self))

    def __repr__(self) -> str:
        """Whether it holds, in a line."""
        from tidelog.explain.text import fact_text

        told = f"{len(self.proofs)} proof" + ("" if len(self.proofs) == 1 else "s")
        verdict = f"holds, {told}" if self.holds else f"does not hold, {len(self.misses)} near"
        return f"<why: {fact_text(self.fact, self.ticks)} {verdict}>"


def why(engine: Engine, fact: Ground, most: int = 1, budget: float = 60.0) -> Why:
    """Explain one fact over the facts of an engine; at most so many proofs.

    `budget` bounds the seconds that a program may take which only the timeline can evaluate.
    """
    search = _Search(Goal(engine, fact), budget)
    proofs = search.proofs()
    if proofs is None:
        return _why_not(search.goal, most, budget)
    first = proofs.smallest()
    assert first is not None, "a fact that holds has a proof"
    if most == 1:
        return Why(fact, engine.ticks, (first,), proofs.complete)
    while True:
        some = list(islice(proofs, most + 1))
        more = len(some) > most
        enough = more and some[most].size <= search.covered
        if enough or search.whole or not proofs.exhausted or search.width > WIDEST:
            return Why(fact, engine.ticks, tuple(some[:most]), proofs.complete, more)
        search.width *= 8
        proofs = Proofs(search.evaluated(), fact)


@dataclass
class _Search:
    """Facts around a goal, more and more of them.

    Where nearby facts prove it, nothing further away can do so in fewer steps than it takes rules
    to get there.
    """

    goal: Goal
    budget: float

    def __post_init__(self) -> None:
        self.needed = _needed(self.goal)
        # What is cut off may hold all the same: where absence counts, nothing is cut off.
        self.cuts = not self.goal.deps.negated
        self.reach = _reach(self.goal.deps.core)
        self.hull = _hull(self.goal)
        self.width = max(FIRST_WINDOW, self.reach)

    @property
    def within(self) -> Range:
        return Range(self.hull.low - self.width, self.hull.high + self.width)

    @property
    def whole(self) -> bool:
        """Whether everything that matters lies within the window."""
        needed = self.needed
        if not self.cuts:
            return needed is not None
        return needed is not None and (needed.empty or needed & self.within == needed)

    @property
    def covered(self) -> float:
        """All proofs up to this size lie within the window: to leave it takes as many steps."""
        return math.inf if self.whole or not self.reach else self.width // self.reach

    def evaluated(self) -> FactModel:
        if self.cuts:
            return self.goal.evaluate(self.goal.plan(self.within))
        if self.needed is not None:
            return self.goal.evaluate(self.goal.plan())
        limit = Limit.of(self.goal.deps, self.budget, self.goal.engine.progress)
        return on_timeline(self.goal.engine, self.goal.deps, self.within, limit)

    def proofs(self) -> Proofs | None:
        """Proofs of the goal, a smallest one among them; None if it does not hold."""
        if self.needed is None and not _holds_on_timeline(self.goal, self.budget):
            return None
        while True:
            model = self.evaluated()
            if model.holds(self.goal.fact):
                proofs = Proofs(model, self.goal.fact)
                size = proofs.least[self.goal.fact]
                if size <= self.covered:
                    return proofs
                self.width = size * self.reach
            elif self.whole:
                return None
            elif self.width > TIME_MAX:
                raise DataError(f"no proof of {self.goal.fact.predicate} within 62 bits of time")
            else:
                self.width *= 8


def _needed(goal: Goal) -> Range | None:
    """The ticks on which anything is evaluated for a goal; None if they have no end."""
    try:
        ranges = goal.plan().ranges.values()
    except Unbounded:
        return None
    hull = Range(math.inf, -math.inf)
    for range_ in ranges:
        hull = hull | range_
    return hull if hull.finite else None


def _holds_on_timeline(goal: Goal, budget: float) -> bool:
    time = goal.fact.time
    at = goal.engine.span if time is None else Range(time, time)
    limit = Limit.of(goal.deps, budget, goal.engine.progress)
    return on_timeline(goal.engine, goal.deps, at, limit).holds(goal.fact)


def _reach(core: Core) -> int:
    """The furthest a step moves in time."""
    offsets = [ticks for clause in rules_of(core) for ticks in clause.offsets]
    offsets += [operation.ticks - 1 for operation in core.operations.values()]
    return max(map(abs, offsets), default=0)


def _hull(goal: Goal) -> Range:
    """Ticks that a proof may be at without a step through time: the goal's, unless rules jump."""
    clauses = rules_of(goal.deps.core)
    points = {tick for clause in clauses if not clause.is_fact for tick in clause.fixed_ticks}
    time = goal.fact.time
    if time is not None and not points and all(clause.connected for clause in clauses):
        return Range(time, time)
    hull = goal.engine.span
    for point in [*points, *([] if time is None else [time])]:
        hull = hull | Range(point, point)
    return Range(0, 0) if hull.empty else hull


def _why_not(goal: Goal, most: int, budget: float) -> Why:
    hull = _hull(goal)
    width = DEEPEST * _reach(goal.deps.core)
    around = Range(hull.low - width, hull.high + width)
    goal = replace(goal, joined=False, around=around)
    try:
        model = goal.evaluate(goal.plan())
    except Unbounded:
        limit = Limit.of(goal.deps, budget, goal.engine.progress)
        try:
            model = on_timeline(goal.engine, goal.deps, around, limit)
        except TooHard:  # that it does not hold is known
            return Why(goal.fact, goal.engine.ticks)
    misses = Misses(model)
    name = goal.fact.predicate
    input_ = name in goal.engine.typed.inputs
    instead = misses.instead(goal.fact) if input_ else ()
    nearest = misses.of(goal.fact)[: max(most, MOST_MISSES)]
    ticks = goal.engine.ticks
    return Why(goal.fact, ticks, misses=tuple(nearest), instead=instead, input=input_)


# What a stream keeps


def keeping(
    program: Program, facts: FactsLike, kept: Mapping[str, RowsLike]
) -> tuple[Program, Mapping[str, RowsLike]]:
    """The program with some derived predicates as inputs too, and all facts together.

    Their facts then hold by themselves, as any input fact does.
    """
    if not (facts is None or isinstance(facts, Mapping)):
        raise ValueError("kept facts go with facts in memory, not with a file or folder")
    types = infer(program).columns
    predicates = core(program).predicates
    declared: list[Input] = []
    for name in kept:
        if name not in program.heads:
            raise ValueError(f"`{name}` is not derived by a rule: give its facts with the others")
        if name in program.declarations:
            raise ValueError(f"`{name}` is an input: give its facts with the others")
        names = [f"arg{i}" for i in range(1, len(types[name]) + 1)]
        columns = tuple(map(Column, names, types[name]))
        time = TIME_COLUMN if predicates[name].temporal else None
        declared.append(Input(name, columns, time))
    # Outputs stay what they are, also where none are declared.
    outputs = () if program.output_items else (Outputs(tuple(map(Output, program.outputs))),)
    return Program((*declared, *program.statements, *outputs)), {**(facts or {}), **kept}


# Goals as text


def read_fact(program: Program, text: str, ticks: Ticks | None = None) -> Ground:
    """A fact as a person writes it: `Malfunc(a) @ 0`, with a timestamp where ticks have a length.

    >>> from tidelog.language.checks import check
    >>> read_fact(check("P(X) @ T :- E(X) @ T.").accepted(), "P(a) @ 7")
    Ground(predicate='P', args=('a',), time=7)
    """
    written = text.strip().removesuffix(".")
    parsed = parse_source(Source("<fact>", f"{written}."))
    time: int | None = None
    if parsed.diagnostics and ticks is not None and "@" in written:
        # The language has no timestamps: what follows the @ is one.
        written, _, moment = written.rpartition("@")
        tick = as_tick(moment.strip(), ticks)
        time = tick if isinstance(tick, int) else None
        parsed = parse_source(Source("<fact>", f"{written.strip()} @ {time}."))
    statements = parsed.program.statements
    if parsed.diagnostics or len(statements) != 1 or not isinstance(statements[0], Rule):
        hints = [d.hint for d in parsed.diagnostics if d.hint and "quotes" in d.hint]
        remedy = "".join(f"; {hint}" for hint in hints[:1])
        raise ValueError(f"`{text}` is not a fact such as `P(a, 1) @ 5`{remedy}")
    return _checked(program, statements[0], text)


def _checked(program: Program, rule: Rule, text: str) -> Ground:
    head = rule.head
    args = [t for t in head.args if isinstance(t, Constant)]
    time = head.time.tick if isinstance(head.time, TimePoint) else None
    if rule.body or len(args) < len(head.args) or (head.time is not None and time is None):
        raise ValueError(f"`{text}` is not a fact: it has {_variables(rule)}{_quoted(head)}")
    known = program.predicates
    if head.predicate not in known:
        near = Similar(known).to(head.predicate)
        remedy = f"did you mean {near}?" if near else f"there are {', '.join(known[:10])}"
        raise ValueError(f"no predicate {head.predicate} in the rules; {remedy}")
    types = infer(program)
    wanted = types.columns[head.predicate]
    if len(args) != len(wanted):
        raise ValueError(f"{head.predicate} has {len(wanted)} arguments in the rules")
    temporal = core(program).predicates[head.predicate].temporal
    if (time is not None) != temporal:
        has = "no" if time is not None else "a"
        remedy = f"; write `{head.predicate}(..) @ TIME`" if time is None else ""
        raise ValueError(f"{head.predicate} has {has} time in the rules{remedy}")
    values: list[Value] = []
    for i, (term, type_) in enumerate(
        zip(types.fit(head.predicate, head.args), wanted, strict=True)
    ):
        assert isinstance(term, Constant)
        if type_ is not None and term.type is not type_:
            raise ValueError(
                f"argument {i + 1} of {head.predicate} is {type_.value}, not {term.type.value}"
            )
        values.append(term.value)
    return Ground(head.predicate, tuple(values), time)


def _quoted(head: Atom) -> str:
    """What to write for texts that begin with a capital letter, as variables do."""
    names = [term.name for term in head.variables if not term.anonymous]
    if not names:
        return ""
    quotes = listed([f'"{name}"' for name in names])
    return f"; text with a capital letter stands in quotes: {quotes}"


def _variables(rule: Rule) -> str:
    if rule.body:
        return "a body"
    several = isinstance(rule.head.time, Interval) and not any(rule.head.variables)
    return f"{'an interval' if several else 'variables'}; ask for one fact"
