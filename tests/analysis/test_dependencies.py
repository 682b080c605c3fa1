"""Dependencies against brute force: bounded walks for sums, plain recursion for the rest.

The oracles work on the generated edges themselves; they share nothing with the analysis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples
from support.places import ROOT

import tidelog
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.language.checks import check
from tidelog.logic.normalise import clause_of, core

Bound = int | float


@dataclass(frozen=True)
class Sketch:
    """Propositional rules `head @ T :- body @ T+offset, ..`, and facts `head @ tick`."""

    rules: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    facts: tuple[tuple[str, int], ...] = ()

    def text(self) -> str:
        """Heads are shifted about: only distances may matter."""
        lines = ["input E @ time.", "input F @ time."]
        for i, (head, body) in enumerate(self.rules):
            shift = i % 3 - 1
            atoms = ", ".join(f"{name} @ T{offset + shift:+d}" for name, offset in body)
            lines.append(f"{head} @ T{shift:+d} :- {atoms}.")
        lines += [f"{name} @ {tick}." for name, tick in self.facts]
        return "\n".join(lines)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The declared ones, and what is used but nowhere defined."""
        defined = {*(head for head, _ in self.rules), *(name for name, _ in self.facts)}
        return INPUTS + tuple(n for n in DERIVED if n not in defined)

    def analysed(self, query: str) -> Dependencies:
        return dependencies(core(check(self.text()).accepted()), [query])


DERIVED = ("A", "B", "C", "D")
INPUTS = ("E", "F")

bodies = st.lists(
    st.tuples(st.sampled_from(DERIVED + INPUTS), st.integers(-2, 2)), min_size=1, max_size=3
).map(tuple)
sketches = st.builds(
    Sketch,
    st.lists(st.tuples(st.sampled_from(DERIVED), bodies), min_size=1, max_size=7).map(tuple),
    st.lists(st.tuples(st.sampled_from(DERIVED), st.integers(-3, 3)), max_size=2).map(tuple),
)
without_facts = sketches.map(lambda sketch: Sketch(sketch.rules))

Rules = list[tuple[str, tuple[tuple[str, int], ...]]]
Edge = tuple[str, str, int]


def relevant(sketch: Sketch, query: str) -> tuple[Rules, list[tuple[str, int]]]:
    """Rules and facts that can matter: everything used can be derived, and the query needs it."""
    derivable = {*sketch.inputs, *(name for name, _ in sketch.facts)}
    for _ in DERIVED:
        derivable |= {h for h, body in sketch.rules if all(b in derivable for b, _ in body)}
    rules = [r for r in sketch.rules if all(b in derivable for b, _ in r[1])]
    needed = {query}
    for _ in DERIVED:
        needed |= {b for h, body in rules for b, _ in body if h in needed}
    return [r for r in rules if r[0] in needed], [f for f in sketch.facts if f[0] in needed]


def edges_of(rules: Rules) -> list[Edge]:
    return [(head, body, offset) for head, uses in rules for body, offset in uses]


def walks(
    edges: Iterable[Edge], ends: Iterable[str], best: Callable[..., Bound]
) -> dict[str, Bound]:
    """Best sums of walks from each predicate to an end, by trying all walks of bounded length.

    Sums that still get better after very many steps do so for ever.
    """
    worst = -math.inf if best is max else math.inf
    edges = list(edges)
    ends = set(ends)
    sums: dict[str, Bound] = {n: 0 if n in ends else worst for n in DERIVED + INPUTS}

    def step(sums: dict[str, Bound]) -> dict[str, Bound]:
        new = dict(sums)
        for head, body, offset in edges:
            new[head] = best(new[head], sums[body] + offset)
        return new

    # Six predicates and offsets of at most 2: a cycle pays for any way to it within 150 steps.
    for _ in range(150):
        sums = step(sums)
    later = sums
    for _ in range(20):
        later = step(later)
    return {n: sums[n] if later[n] == sums[n] else -worst for n in sums}


def reaches(edges: list[Edge], start: str, goal: str) -> bool:
    """Whether one or more uses lead from start to goal."""
    seen: set[str] = set()
    todo = [b for h, b, _ in edges if h == start]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [b for h, b, _ in edges if h == name]
    return goal in seen


def oracle_phi(sketch: Sketch, query: str) -> dict[str, Bound]:
    rules, facts = relevant(sketch, query)
    edges = edges_of(rules)
    to_inputs = walks(edges, sketch.inputs, max)
    to_anything = walks(edges, (*sketch.inputs, *(name for name, _ in facts)), max)
    return {n: math.inf if to_anything[n] == math.inf else to_inputs[n] for n in to_inputs}


@examples(63, deep=2500)
@given(sketches, st.sampled_from(DERIVED))
def test_phi_and_offsets(sketch: Sketch, query: str) -> None:
    if not any(head == query for head, _ in sketch.rules):
        return
    rules, _ = relevant(sketch, query)
    edges = edges_of(rules)
    deps = sketch.analysed(query)
    names = set(deps.core.predicates)
    assert names == {query, *(b for _, b, _ in edges)}

    phi = oracle_phi(sketch, query)
    assert dict(deps.phi) == {n: phi[n] for n in names}

    high, low = walks(edges, sketch.inputs, max), walks(edges, sketch.inputs, min)
    spans = {n: (deps.input_offsets[n].low, deps.input_offsets[n].high) for n in names}
    assert spans == {n: (low[n], high[n]) for n in names}

    back = [(body, head, offset) for head, body, offset in edges]
    high, low = walks(back, [query], max), walks(back, [query], min)
    spans = {n: (deps.offsets[n].low, deps.offsets[n].high) for n in names}
    assert spans == {n: (low[n], high[n]) for n in names}


@examples(63, deep=2500)
@given(sketches, st.sampled_from(DERIVED))
def test_components_class_rank_and_radius(sketch: Sketch, query: str) -> None:
    if not any(head == query for head, _ in sketch.rules):
        return
    rules, facts = relevant(sketch, query)
    edges = edges_of(rules)
    deps = sketch.analysed(query)
    names = set(deps.core.predicates)

    together = {
        frozenset({n} | {m for m in names if reaches(edges, n, m) and reaches(edges, m, n)})
        for n in names
    }
    assert {frozenset(c) for c in deps.components} == together
    place = {n: i for i, c in enumerate(deps.components) for n in c}
    assert all(place[body] <= place[head] for head, body, _ in edges)
    recursive = {n for n in names if reaches(edges, n, n)}
    assert deps.recursive == recursive

    def rank(name: str) -> int:
        return max((rank(b) + 1 for h, b, _ in edges if h == name), default=0)

    assert deps.rank == (None if recursive else rank(query))
    spans = [abs(offset) for _, _, offset in edges]
    assert deps.radius == (len(rules) + len(facts)) * max(spans, default=0)

    # A positive cycle exists if and only if some walk from a predicate back to itself gains.
    gains = any(walks(edges, [n], max)[n] == math.inf for n in recursive)
    blocking = Class.BLOCKING if gains else None
    assert deps.cls is (blocking or (Class.RECURSIVE if recursive else Class.NONRECURSIVE))
    cycle = deps.positive_cycle
    assert bool(cycle) is gains
    if cycle:
        assert sum(e.offset or 0 for e in cycle) > 0
        assert all((e.head, e.body, e.offset) in edges for e in cycle)
        following = [*cycle[1:], cycle[0]]
        assert all(e.body == f.head for e, f in zip(cycle, following, strict=True))


@examples(63, deep=2500)
@given(sketches, st.sampled_from(DERIVED))
def test_keep(sketch: Sketch, query: str) -> None:
    """keep(Q) is the greatest phi(P) - phi(Q) - o over the uses of Q, and nothing less than 0."""
    if not any(head == query for head, _ in sketch.rules):
        return
    rules, _ = relevant(sketch, query)
    phi = oracle_phi(sketch, query)
    deps = sketch.analysed(query)
    for name in deps.core.predicates:
        expected: Bound | None = None
        if math.isfinite(phi[name]):
            uses = [phi[h] - phi[b] - o for h, b, o in edges_of(rules) if b == name]
            expected = max([0, *uses])
        assert deps.keep.get(name) == expected


# What phi and keep are for


def model(rules: Rules, facts: Iterable[tuple[str, int]], size: int) -> set[tuple[str, int]]:
    """All that holds within [-size, size]: every rule at every time until nothing is new."""
    holds = set(facts)
    while True:
        new = {
            (head, t)
            for head, body in rules
            for t in range(-size, size + 1)
            if (head, t) not in holds and all((b, t + o) in holds for b, o in body)
        }
        if not new:
            return holds
        holds |= new


data = st.sets(st.tuples(st.sampled_from(INPUTS + DERIVED), st.integers(-4, 4)), max_size=12)
SIZE = 14


@examples(38, deep=1500)
@given(sketches, data)
def test_what_phi_calls_final_is_final(sketch: Sketch, inputs: set[tuple[str, int]]) -> None:
    """P at s needs no input later than s + phi(P)."""
    inputs = {(n, t) for n, t in inputs if n in sketch.inputs}
    rules, facts = relevant(sketch, sketch.rules[0][0])
    phi = oracle_phi(sketch, sketch.rules[0][0])
    deps = sketch.analysed(sketch.rules[0][0])
    everything = model(rules, [*facts, *inputs], SIZE)
    for tin in range(-5, 5):
        seen = model(rules, [*facts, *((n, t) for n, t in inputs if t <= tin)], SIZE)
        for name in deps.core.predicates:
            final = [s for s in range(-SIZE, SIZE + 1) if s + phi[name] <= tin]
            assert all(((name, s) in seen) == ((name, s) in everything) for s in final)


@examples(38, deep=1500)
@given(without_facts, data)
def test_the_slices_that_keep_names_are_enough(
    sketch: Sketch, inputs: set[tuple[str, int]]
) -> None:
    """The schedule of the design: at each tin, P at tin - phi(P), from slices that are kept."""
    inputs = {(n, t) for n, t in inputs if n in sketch.inputs}
    query = sketch.rules[0][0]
    rules, _ = relevant(sketch, query)
    deps = sketch.analysed(query)
    if deps.cls is Class.BLOCKING or not rules:
        return
    phi, keep = deps.phi, deps.keep
    names = [n for c in deps.components for n in c]
    kept: dict[str, dict[int, bool]] = {n: {} for n in names}
    answers: dict[tuple[str, int], bool] = {}
    for tin in range(-2 * SIZE, 2 * SIZE):
        at = {n: tin - int(phi[n]) for n in names}
        for name in names:
            slices = kept[name]
            slices[at[name]] = (name, at[name]) in inputs
            for old in [t for t in slices if t < at[name] - keep[name]]:
                del slices[old]
        for component in deps.components:
            changed = True
            while changed:
                changed = False
                for head, body in rules:
                    if head not in component or kept[head][at[head]]:
                        continue
                    # What lies before the schedule's start is empty, like the data there.
                    needed = [(b, at[head] + o) for b, o in body]
                    assert all(t <= at[b] for b, t in needed)
                    assert all(t in kept[b] for b, t in needed if tin >= SIZE)
                    if all(kept[b].get(t, False) for b, t in needed):
                        kept[head][at[head]] = changed = True
        answers |= {(n, at[n]): kept[n][at[n]] for n in names}
    holds = model(rules, inputs, 3 * SIZE)
    for name in names:
        for t in range(-6, 7):
            assert answers[name, t] == ((name, t) in holds)


# What must hold of the examples


TURBINES = ROOT / "examples" / "turbines" / "rules.tdl"


def of(text: str, query: str) -> Dependencies:
    return dependencies(core(check(text).accepted()), [query])


def turbine(query: str) -> Dependencies:
    return dependencies(core(tidelog.load(TURBINES)), [query])


@pytest.mark.parametrize(("query", "phi"), [("Shdn", 0), ("AtRisk", 0), ("Malfunc", 2)])
def test_turbines_phi(query: str, phi: int) -> None:
    assert turbine(query).phi[query] == phi


def test_turbines_classes() -> None:
    assert turbine("Malfunc").cls is Class.NONRECURSIVE
    assert turbine("Malfunc").rank == 4
    at_risk = turbine("AtRisk")
    assert at_risk.cls is Class.RECURSIVE
    assert at_risk.keep["AtRisk"] == 1
    assert at_risk.rank is None
    assert at_risk.reason.message == (
        "AtRisk @ T needs AtRisk @ T-1: a cycle that never looks ahead"
    )
    assert at_risk.reason.rules[0].origin.line == 14


def test_late_is_blocking_and_the_cycle_is_named() -> None:
    late = of("Late @ T :- Alarm @ T.\nLate @ T :- Late @ T+1.", "Late")
    assert late.cls is Class.BLOCKING
    assert late.reason.message == "Late @ T needs Late @ T+1: a cycle 1 tick into the future"
    assert [rule.origin.line for rule in late.reason.rules] == [2]
    assert late.phi["Late"] == math.inf


@pytest.mark.parametrize("folder", ["la_haute_borne", "nab"])
def test_shared_rules_have_no_errors(shared_data: Path, folder: str) -> None:
    program = tidelog.load(shared_data / folder / "rules.tdl")
    whole = core(program)
    assert len(program.outputs) == 9
    for query in program.outputs:
        assert dependencies(whole, [query]).cls is not Class.BLOCKING


# The edges of the definitions


@pytest.mark.parametrize(
    ("rule", "connected"),
    [
        ("P(X) @ T :- E(X) @ T+3, R(X).", True),
        ("P(X) @ T :- E(X) @ T, F(X) @ 5.", True),
        ("P(X) @ 5 :- E(X) @ 7.", True),
        ("P(X) :- E(X) @ 5.", True),
        ("P(X) :- R(X).", True),
        ("P(a) @ 5.", True),
        ("P(X) :- E(X) @ T.", False),
        ("P(X) @ 5 :- E(X) @ T.", False),
        ("P(X) @ T :- E(X) @ T, F(X) @ S.", False),
        ("P(X) @ T :- E(X) @ T, F(X) @ _.", False),
    ],
)
def test_connected_rules(rule: str, connected: bool) -> None:
    program = check(rule).accepted()
    assert clause_of(program.rules[0]).connected is connected
    deps = dependencies(core(program), ["P"])
    assert (deps.cls is not Class.BLOCKING) is connected
    assert (deps.radius is not None) is connected


def test_what_draws_on_any_time_is_never_final_nor_what_needs_it() -> None:
    deps = of("R(X) :- E(X) @ _. P(X) @ T :- F(X) @ T, R(X). Q(X) @ T :- P(X) @ T+1.", "Q")
    assert {n: deps.phi[n] for n in "RPQ"} == dict.fromkeys("RPQ", math.inf)
    assert deps.keep["E"] == math.inf
    assert deps.reason.message == "R without a time draws on facts at any time"


def test_time_points_hold_answers_back() -> None:
    """R @ k below P delays P at s to max(s + phi(P), k + phi(R))."""
    deps = of("R(X) @ T :- E(X) @ T+2. P(X) @ T :- F(X) @ T+1, R(X) @ 10.", "P")
    assert deps.phi["P"] == 1
    assert deps.pinned == (("R", 10),)
    assert [deps.settled("P", s) for s in (0, 11, 12, 20)] == [12, 12, 13, 21]
    assert deps.cls is Class.NONRECURSIVE


def test_time_points_of_facts_hold_nothing_back() -> None:
    deps = of("R(a) @ 10. P(X) @ T :- F(X) @ T, R(X) @ 10.", "P")
    assert deps.settled("P", 0) == 0


def test_a_cycle_through_time_points_does_not_look_ahead() -> None:
    deps = of("P @ T :- Q @ 5, E @ T. Q @ T :- P @ T+1. Q @ T :- E @ T.", "P")
    assert deps.cls is Class.RECURSIVE
    assert deps.reason.message.endswith("a cycle through fixed times")


def test_rules_that_never_fire_decide_nothing() -> None:
    """A positive cycle behind an underivable predicate is no reason to block."""
    deps = of("P @ T :- E @ T. P @ T :- P @ T+1, Never @ T. Never @ T :- Never @ T.", "P")
    assert deps.cls is Class.NONRECURSIVE
    assert set(deps.core.predicates) == {"P", "E"}


def test_only_what_the_query_needs_decides() -> None:
    text = "P @ T :- E @ T. Late @ T :- P @ T. Late @ T :- Late @ T+1."
    assert of(text, "P").cls is Class.NONRECURSIVE
    assert of(text, "Late").cls is Class.BLOCKING


def test_an_input_that_is_also_a_head_is_split() -> None:
    deps = of("input E @ time. E @ T+1 :- G @ T. P @ T :- E @ T-1.", "P")
    assert [p.name for p in deps.core.inputs] == ["E[in]", "G"]
    assert [p.base for p in deps.core.inputs] == ["E", "G"]
    assert deps.phi == {"P": -1, "E": 0, "E[in]": 0, "G": 0}
    assert deps.keep["G"] == 1
    assert (deps.rank, deps.radius) == (2, 2)


def test_an_input_that_is_the_query() -> None:
    deps = of("input E @ time. output E.", "E")
    assert (deps.cls, deps.phi["E"], deps.rank, deps.radius) == (Class.NONRECURSIVE, 0, 0, 0)


def test_times_of_any_size_are_added_exactly() -> None:
    big = 2**58 - 1  # a sum has 60 bits
    deps = of(f"P @ T-{big} :- Q @ T+{big}. Q @ T-{big} :- E @ T+{big}.", "P")
    assert deps.phi["P"] == 4 * big
    assert deps.offsets["E"].low == 4 * big


def test_a_long_chain_is_no_deep_recursion() -> None:
    n = 3000
    text = "".join(f"P{i + 1} @ T :- P{i} @ T+1.\n" for i in range(n))
    deps = of(text + f"P1 @ T :- P{n} @ T-{n}.", f"P{n}")
    assert deps.cls is Class.RECURSIVE
    assert deps.phi[f"P{n}"] == n
