"""Every pass from core to core keeps the law of its kind, by an evaluation that knows no passes.

An equivalence and a layout give every query the answers that it had. An abstraction has every
answer among what is possible, and what is certain of it among the answers, whatever comes.
"""

from __future__ import annotations

import inspect
import math
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle.aggregates import programs_with_aggregates
from oracle.cores import answers
from oracle.generate import Case
from oracle.naive import NotTotalError, TooLargeError, evaluate
from oracle.negation import programs_with_not
from oracle.windows import programs_with_windows
from support.deep import examples

import tidelog.analysis
from tidelog.analysis.containment import Budget
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.passes import EQUIVALENCES, LAYOUTS, passes
from tidelog.analysis.possible import FUTURE, possible
from tidelog.analysis.redundancy import reduced
from tidelog.logic import gathering
from tidelog.logic.clause import LastTicks
from tidelog.logic.core import Core
from tidelog.logic.windows import over_ticks, write_out


def relevant(deps: Dependencies) -> Core:
    return deps.core.below(deps.queries)


def written_out(deps: Dependencies) -> Core:
    return write_out(deps.core)


def ticked(deps: Dependencies) -> Core:
    return over_ticks(deps.core)


def without_redundancy(deps: Dependencies) -> Core:
    return reduced(deps.core, deps.queries, Budget(math.inf, 200))[0]


OF_CORES: list[Callable[[Dependencies], Core]] = [
    relevant,
    ticked,
    without_redundancy,
    *((lambda deps, made=made: made(deps).core) for made in (*EQUIVALENCES, *LAYOUTS)),
    written_out,
]


def wanted(case: Case) -> dict[str, set[tuple[object, ...]]]:
    try:
        return evaluate(case.program, case.facts, case.queries, case.low, case.high)
    except (NotTotalError, TooLargeError):
        assume(False)
        raise


def keeps_its_law(case: Case) -> None:
    """Each pass alone, and all of them one after the other."""
    expected = wanted(case)
    first = deps = passes(case.program, case.queries).dependencies
    assert answers(deps.core, case) == expected
    for made in OF_CORES:
        for core in (made(first), made(deps)):
            if core is not deps.core and not _has_parts(core):
                assert answers(core, case) == expected, f"{made}\n{case.text}"
                deps = dependencies(core, deps.queries)


def _has_parts(core: Core) -> bool:
    """Whether sums are exact, and in parts that are no values of the language."""
    return any(aggregate.parts for aggregate in core.aggregates.values())


@given(programs_with_windows(max_rules=3))
@examples(8, deep=1000)
def test_windows(case: Case) -> None:
    keeps_its_law(case)


@given(programs_with_not(max_rules=3))
@examples(5, deep=1000)
def test_absence(case: Case) -> None:
    keeps_its_law(case)


@given(programs_with_aggregates(max_rules=3))
@examples(8, deep=1000)
def test_aggregates(case: Case) -> None:
    keeps_its_law(case)


@given(programs_with_aggregates(max_rules=3))
@examples(8, deep=1000)
def test_totals(case: Case) -> None:
    """As if every rule had too many aggregates for clauses with each of them over nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "MOST_FOR_ZEROS", 1)
        keeps_its_law(case)


@given(programs_with_windows(recursive=False, connected=True, max_rules=3), st.integers(-3, 12))
@examples(8, deep=1000)
def test_what_is_possible_has_every_answer(case: Case, tin: int) -> None:
    expected = wanted(case)
    deps = passes(case.program, case.queries).dependencies
    assume(not case.program.clocks)
    made = possible(deps)
    core = made.core(tin, until=max(case.high, tin) + 200)
    names = {q: [made.name(q, p) for p in made.patterns[q]] for q in case.queries}
    timed = {name for name, d in case.program.declarations.items() if d.time is not None}
    arrived = {
        name: [row for row in rows if name not in timed or row[-1] <= tin]
        for name, rows in case.facts.items()
    }
    asked = (*case.queries, *(name for some in names.values() for name in some))
    found = answers(core, case._replace(facts=arrived, queries=asked))
    for query in case.queries:
        assert found[query] <= expected[query], f"{query} is certain\n{case.text}"
        temporal = core.predicates[query].temporal
        for row in expected[query] - found[query]:
            ways = (
                (*(v for v, label in zip(row, pattern, strict=False) if label is None), *row[-1:])
                if temporal
                else tuple(v for v, label in zip(row, pattern, strict=True) if label is None)
                for pattern in made.patterns[query]
            )
            there = zip(names[query], ways, strict=True)
            assert any(way in found[name] for name, way in there), f"{row}\n{case.text}"
    assert FUTURE in core.predicates


def test_every_pass_is_in_a_list() -> None:
    """What makes dependencies of dependencies, or a core of a core, is tried here."""
    tried = {made.__name__ for made in (*EQUIVALENCES, *LAYOUTS)}
    found = set()
    for module in pkgutil.iter_modules(tidelog.analysis.__path__, "tidelog.analysis."):
        for name, made in inspect.getmembers(import_module(module.name), inspect.isfunction):
            if made.__module__ == module.name and not name.startswith("_"):
                types = {k: str(v) for k, v in made.__annotations__.items()}
                given_ = [v for k, v in types.items() if k != "return"]
                if types.get("return") == "Dependencies" and given_ == ["Dependencies"]:
                    found.add(name)
    assert found == tried


@pytest.mark.parametrize("more", [1, -1])
def test_a_window_that_is_off_by_one_is_seen(more: int) -> None:
    case = Case("", tidelog.parse(_RULES), {"E": [("a", 0)]}, ("P",), 0, 20)
    core = passes(case.program, case.queries).core
    assert answers(core, case) == wanted(case)
    longer = {
        name: replace(w, extent=LastTicks(w.over.ticks + more)) for name, w in core.windows.items()
    }
    assert answers(write_out(core.rewritten(operations=longer)), case) != wanted(case)


_RULES = "input E(x: text) @ t. P(X) @ T :- some E(X) @ [T-6, T]."


def test_a_followed_window_hides_no_input() -> None:
    """What only windows look at counts where signs of inputs are compared."""
    rules = """
    input E(x: text) @ t.
    P(X) @ T :- always E(X) @ [T-4, T], not E(X) @ T+1.
    """
    deps = passes(tidelog.parse(rules), ["P"]).dependencies
    (window,) = deps.core.windows
    assert not possible(deps).exact
    assert not possible(deps, followed=[window]).exact
