"""Everything that holds over finite facts, for someone to look at: when what holds, and why.

Facts are gathered into lanes: one for each predicate and what it says something about, with the
stretches of time on which it does. Each derived fact has the last step of a smallest proof.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from tidelog.analysis.containment import Ground
from tidelog.analysis.definitive import Awaited
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.analysis.passes import passes
from tidelog.data.packed import columns, unpack_sql
from tidelog.errors import DataError
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.goal_directed.goal import whole_model
from tidelog.evaluation.goal_directed.model import Absence, Derivation, FactModel, named
from tidelog.evaluation.open_answers import OpenAnswers
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.evaluation.timeline import Limit
from tidelog.explain.proofs import Derivations, below, sides, way_of
from tidelog.explain.text import FIRST_COUNTED, MOST_COUNTED
from tidelog.language.made import made_columns
from tidelog.language.program import Comparison, Rule, Type, Value
from tidelog.logic.core import Core, Predicate, Role

# Lanes of a predicate, stretches of time in all, and facts with their proofs that are recorded.
MOST_LANES = 5_000
MOST_STRETCHES = 500_000
MOST_PROVED = 5_000
FEW_FACTS = 1_000
# Points of the lines that numbers are drawn as: of one lane, and in all.
MOST_POINTS = 400
MOST_POINTS_IN_ALL = 50_000
# Ticks that are looked at, and facts of one predicate that are gathered into lanes.
MOST_SPAN = 10_000_000
MOST_FACTS = 20_000_000
# Ticks of a history for which pending answers are recorded at every one of them.
MOST_TICKS = 48

# The arguments of a predicate that say which lane its fact is in.
LaneKeys: TypeAlias = list[int]


@dataclass(frozen=True)
class Lane:
    """A predicate about some objects, and the stretches of ticks on which it holds."""

    predicate: str
    objects: tuple[Value, ...]
    stretches: tuple[tuple[int, int], ...]  # first tick, number of ticks
    numbers: tuple[tuple[int, float], ...] = ()  # ticks with a number that is told there


@dataclass(frozen=True)
class Recorded:
    """A fact, and the step that proves it; premises are positions among the recorded facts."""

    fact: Ground
    rule: Rule | None
    premises: tuple[int, ...]
    comparisons: tuple[tuple[Comparison, Value, Value], ...]
    absent: tuple[Absence, ...] = ()
    omitted: int = 0  # premises of a count or a window that are not recorded


@dataclass(frozen=True)
class Waiting:
    """An answer that is pending once everything up to tin has arrived.

    With what it waits for, and in which ways it would not hold after all.
    """

    tin: int
    answer: Awaited
    waits_for: tuple[Awaited, ...]
    unless: tuple[tuple[Awaited, ...], ...] = ()


@dataclass(frozen=True)
class Record:
    deps: Dependencies
    range: Range
    lanes: tuple[Lane, ...]
    facts: tuple[Recorded, ...]
    keys: Mapping[str, LaneKeys]  # by predicate
    notes: tuple[str, ...] = ()


def record(
    engine: Engine,
    queries: Iterable[str],
    from_: int | None = None,
    to: int | None = None,
    budget: float = 60.0,
) -> Record:
    """What holds from a tick to a tick (by default those of the data) below some queries."""
    queries = tuple(queries)
    deps = passes(engine.typed, queries).written_out
    span = engine.span
    asked = Range(span.low if from_ is None else from_, span.high if to is None else to)
    asked = EMPTY if asked.empty else asked
    if not asked.empty and asked.high - asked.low > MOST_SPAN:
        raise DataError(
            f"{asked} are more than {MOST_SPAN} ticks to look at; choose with --from and --to"
        )
    shown = [p.name for p in deps.core.predicates.values() if not p.input]
    # Every derived predicate is asked for, so that its lane is whole.
    wide = dependencies(deps.core, shown or queries)
    limit = Limit.of(wide, budget, engine.progress)
    model = whole_model(engine, wide, asked, limit)
    notes: list[str] = []
    engine.progress("recording lanes")
    keys = _lane_keys(wide.core)
    order = _nearest_first(model.core, deps)
    lanes = _all_lanes(engine, model, order, asked, keys, notes)
    engine.progress("recording proofs")
    facts = tuple(_recorded(model, order, asked, keys, notes))
    return Record(deps, asked, lanes, facts, keys, tuple(dict.fromkeys(notes)))


def _nearest_first(core: Core, deps: Dependencies) -> list[Predicate]:
    """Predicates by their steps from the outputs, inputs last; outputs as they are declared."""
    uses: dict[str, list[str]] = {}
    for edge in deps.folded.edges:
        uses.setdefault(edge.head, []).append(edge.body)
    steps = dict.fromkeys(deps.queries, 0)
    todo = list(steps)
    for name in todo:  # grows
        new = [body for body in dict.fromkeys(uses.get(name, ())) if body not in steps]
        steps.update(dict.fromkeys(new, steps[name] + 1))
        todo += new
    order = {name: i for i, name in enumerate(todo)}
    own = [p for p in core.predicates.values() if p.role in (Role.INPUT, Role.DERIVED)]
    return sorted(
        own, key=lambda p: (p.name not in deps.queries, p.input, order.get(p.name, len(order)))
    )


# Lanes


def _all_lanes(
    engine: Engine,
    model: FactModel,
    order: Sequence[Predicate],
    asked: Range,
    keys: Mapping[str, LaneKeys],
    notes: list[str],
) -> tuple[Lane, ...]:
    """Lanes by predicate: outputs first, then what they are derived from, and inputs last."""
    if asked.empty:
        return ()
    temporal = [predicate for predicate in order if predicate.temporal]
    lanes_of: dict[str, list[Lane]] = {p.name: [] for p in temporal}
    left, points = MOST_STRETCHES, MOST_POINTS_IN_ALL
    for predicate in temporal:
        if model.size(predicate.name) > MOST_FACTS:
            notes.append(f"{predicate.base} has too many facts for lanes")
            continue
        own = keys[predicate.name]
        rows = _stretches(engine, model, predicate, asked, own)
        numbers = _numbers(engine, model, predicate, asked, own) if points > 0 else {}
        points -= sum(map(len, numbers.values()))
        groups = groupby(rows, key=lambda row: row[:-2])
        for count, (objects, stretches) in enumerate(groups, 1):
            runs = tuple((a, n) for *_, a, n in stretches)
            lane = Lane(predicate.base, objects, runs, tuple(numbers.get(objects, ())))
            left -= len(lane.stretches)
            if count > MOST_LANES or left < 0:
                notes.append(f"{predicate.base} has more lanes than are shown")
                break
            lanes_of[predicate.name].append(lane)
    return tuple(lane for lanes in lanes_of.values() for lane in lanes)


def _stretches(
    engine: Engine, model: FactModel, predicate: Predicate, asked: Range, keys: LaneKeys
) -> Iterable[tuple[Any, ...]]:
    """Objects, first tick and number of ticks, in order."""
    chosen = [f"a{i + 1}" for i in keys]
    rows = _rows_sql(model, predicate, asked)
    if rows is None:
        held = model.held(predicate.name)
        return () if held is None else _runs(held.rows, keys, asked)
    source = f"SELECT DISTINCT {', '.join([*chosen, 't'])} FROM ({rows})"
    by = f"PARTITION BY {', '.join(chosen)} " if chosen else ""
    islands = f"SELECT *, t - row_number() OVER ({by}ORDER BY t) AS g FROM ({source})"
    group = ", ".join([*chosen, "g"])
    return engine.all(
        f"SELECT {', '.join([*chosen, 'min(t) AS first', 'count(*) AS n'])} FROM ({islands})"
        f" GROUP BY {group} ORDER BY {', '.join([*chosen, 'first'])}"
    )


def _rows_sql(model: FactModel, predicate: Predicate, asked: Range) -> str | None:
    """SQL for the facts of a predicate at some ticks; None where they are in no table."""
    table = model.tables.get(predicate.name)
    if table is None:
        return None
    names = columns(len(predicate.types))
    rows = f"SELECT * FROM {table}" if predicate.input else unpack_sql(names, table)
    return f"SELECT * FROM ({rows}) AS x WHERE t BETWEEN {asked.low} AND {asked.high}"


def _numbers(
    engine: Engine, model: FactModel, predicate: Predicate, asked: Range, keys: LaneKeys
) -> dict[tuple[Any, ...], list[tuple[int, float]]]:
    """By lane, ticks and the number there: the first one that does not say what the lane is of.

    Of many ticks next to each other, the least and the greatest number is enough.
    """
    numeric = [
        i for i, t in enumerate(predicate.types) if t in (Type.INT, Type.FLOAT) and i not in keys
    ]
    rows = _rows_sql(model, predicate, asked)
    if not numeric or rows is None:
        return {}
    chosen = [f"a{i + 1}" for i in keys]
    value = f"CAST(a{numeric[0] + 1} AS DOUBLE)"
    wide = -(-int(asked.high - asked.low + 1) // (MOST_POINTS // 2))
    group = ", ".join([*chosen, f"(t - ({asked.low})) // {wide}"])
    by_lane: dict[tuple[Any, ...], list[tuple[int, float]]] = {}
    for *objects, t, low, high in engine.all(
        f"SELECT {', '.join([*chosen, 'min(t) AS first', f'min({value})', f'max({value})'])}"
        f" FROM ({rows}) WHERE isfinite({value}) GROUP BY {group} ORDER BY first"
    ):
        points = by_lane.setdefault(tuple(objects), [])
        points += [(t, float(f"{v:.5g}")) for v in ([low] if low == high else [low, high])]
    return by_lane


def _runs(
    rows: Iterable[tuple[Any, ...]], keys: LaneKeys, asked: Range
) -> Iterator[tuple[Any, ...]]:
    ticks = sorted(
        {(*(row[i] for i in keys), row[-1]) for row in rows if asked.low <= row[-1] <= asked.high}
    )
    for objects, group in groupby(ticks, key=lambda row: row[:-1]):
        first = last = None
        for *_, t in group:
            if last is not None and t == last + 1:
                last = t
                continue
            if first is not None and last is not None:
                yield (*objects, first, last - first + 1)
            first = last = t
        if first is not None and last is not None:
            yield (*objects, first, last - first + 1)


def _lane_keys(core: Core) -> dict[str, LaneKeys]:
    """What each predicate says something about: names of things, else whole numbers.

    A number that a rule makes is what is said.
    """
    made = made_columns(core.program.rules)
    keys: dict[str, LaneKeys] = {}
    for name, predicate in core.predicates.items():
        types = [t or Type.TEXT for t in predicate.types]
        own = [i for i in range(len(types)) if (name, i) not in made]
        names = [i for i in own if types[i] in (Type.TEXT, Type.BOOL)]
        keys[name] = names or [i for i in own if types[i] is Type.INT]
    return keys


def objects_of(keys: LaneKeys, fact: Ground) -> tuple[Value, ...]:
    """Which lane of its predicate a fact is in."""
    return tuple(fact.args[i] for i in keys)


# Proofs


def _recorded(
    model: FactModel,
    order: Sequence[Predicate],
    asked: Range,
    keys: Mapping[str, LaneKeys],
    notes: list[str],
) -> list[Recorded]:
    goals: list[Ground] = []
    derived = [predicate for predicate in order if not predicate.input]
    # Few facts come before many, so that each predicate has some proofs.
    for predicate in sorted(derived, key=lambda p: model.size(p.name) > FEW_FACTS):
        held = model.held(predicate.name)
        facts = [
            Ground(predicate.name, row[:-1], int(row[-1]))
            for row in (held.rows if held is not None and predicate.temporal else ())
            if asked.low <= int(row[-1]) <= asked.high
        ]
        left = MOST_PROVED - len(goals)
        if held is None or len(facts) > left:
            notes.append(f"{predicate.base} has too many facts for a proof of each")
            facts = sorted(_begins(keys[predicate.name], facts), key=lambda fact: fact.time or 0)[
                :left
            ]
        goals += facts
    derivations = Derivations(model, goals)
    place: dict[Ground, int] = {}
    todo = goals[::-1]
    while todo:
        fact = todo.pop()
        if fact in place or fact not in derivations.least:
            continue
        place[fact] = len(place)
        todo += _first(model.core, fact, below(model.core, fact, derivations.best))
    return [_step(model, derivations.best, fact, place) for fact in place]


def _first(core: Core, fact: Ground, premises: tuple[Ground, ...]) -> tuple[Ground, ...]:
    """The premises that are shown: of a count of many facts, or a long window, the first."""
    many = core.predicates[fact.predicate].role in (Role.GATHERED, Role.WINDOW)
    return premises[:FIRST_COUNTED] if many and len(premises) > MOST_COUNTED else premises


def _begins(keys: LaneKeys, facts: list[Ground]) -> Iterator[Ground]:
    """The facts with which something begins: it was not so a tick before."""
    there = {(objects_of(keys, fact), fact.time) for fact in facts}
    for fact in facts:
        if (objects_of(keys, fact), (fact.time or 0) - 1) not in there:
            yield fact


def _step(
    model: FactModel,
    best: Mapping[Ground, Derivation],
    fact: Ground,
    place: Mapping[Ground, int],
) -> Recorded:
    way = way_of(model.core, fact, best)
    every = below(model.core, fact, best)
    first = _first(model.core, fact, every)
    premises = tuple(place[p] for p in first)
    if way is None:
        omitted = len(every) - len(first)
        return Recorded(named(model.core, fact), None, premises, (), omitted=omitted)
    rule = way.clause.shown
    return Recorded(named(model.core, fact), rule, premises, sides(rule, way), way.absent)


# Pending answers


def waiting(
    engine: Engine, queries: Iterable[str], asked: Range, budget: float = 60.0
) -> tuple[Waiting, ...] | None:
    """What is pending at each tick of a short history; None where that would take too long."""
    if asked.empty:
        return ()
    if asked.high - asked.low >= MOST_TICKS:
        return None
    end = time.monotonic() + budget
    all_waiting: list[Waiting] = []
    for query in queries:
        deps = passes(engine.typed, [query]).dependencies
        if not deps.core.predicates[query].temporal:
            continue
        if deps.cls is Class.BLOCKING:  # anything may still come, at any time
            return None
        answers = OpenAnswers(engine, query)
        for tin in range(int(asked.low), int(asked.high) + 1):
            engine.progress(f"pending answers of {query} at {tin}")
            for tout in answers.open_points(tin, int(asked.low), tin):
                if time.monotonic() > end:
                    return None
                for pending in answers.pending(tin, tout):
                    answer = Awaited(pending.predicate, pending.args, pending.time)
                    waits = Waiting(tin, answer, pending.waits_for, pending.unless)
                    all_waiting.append(waits)
    return tuple(all_waiting)
