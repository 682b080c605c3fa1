"""Windows over the facts that are asked for: what is compared with constants is selected first.

`some Temp(X, V) @ [T-59, T], V >= 80` asks for a fact with any such value. As it stands, a window
is made for each value, and a rule meets as many of them as there are. Here it is one over a step
that selects: `Temp(X, V) @ T, V >= 80`, whatever V is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.language.printer import print_literal, print_term
from tidelog.language.program import Comparison, Variable, substituted
from tidelog.logic.clause import AT_HEAD, Clause, Head, Premise, Sign, WindowOf
from tidelog.logic.core import Operation, Predicate, Role, rules_of
from tidelog.logic.windows import Windows

Tests: TypeAlias = tuple[Comparison, ...]


def selected(deps: Dependencies) -> Dependencies:
    """The dependencies with windows over steps that select.

    A window that hangs on itself in a cycle of rules is left as it is.

    >>> from tidelog.logic.core import rules_for
    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> rules = "input E(x: text, v: int) @ t. P(X) @ T :- some E(X, V) @ [T-9, T], V >= 5."
    >>> made = selected(dependencies(core(check(rules).program), ["P"])).core
    >>> [p.predicate for p in rules_for(made, "P")[0].premises]
    ['E[X1, X2; X2 >= 5][at 1 of 10 ticks]']
    """
    selecting = _Selecting(deps)
    clauses = [selecting.clause(clause) for clause in rules_of(deps.core)]
    if not selecting.steps:
        return deps
    windows = selecting.windows
    rules = (*clauses, *selecting.steps)
    operations: dict[str, Operation] = {**deps.core.aggregates, **windows.windows}
    return dependencies(deps.core.rewritten(rules, windows.predicates, operations), deps.queries)


class _Selecting:
    """The steps that select, and the windows over them, each made once."""

    def __init__(self, deps: Dependencies) -> None:
        self.deps = deps
        self.windows = Windows.of(deps.core)
        self.steps: list[Clause] = []

    def clause(self, clause: Clause) -> Clause:
        """A clause that asks for windows over what it selects."""
        for number, premise in enumerate(clause.premises):
            window = self._window(premise)
            tests = () if window is None else _selecting(clause, premise)
            if window is not None and tests:
                asked = self._asked(premise, window, tests)
                premises = (*clause.premises[:number], asked, *clause.premises[number + 1 :])
                rest = tuple(test for test in clause.tests if test not in tests)
                clause = replace(clause, premises=premises, tests=rest)
        return clause

    def _window(self, premise: Premise) -> WindowOf | None:
        """What a premise asks for, if that is a fact at any of some ticks."""
        name = premise.predicate
        if premise.sign is not Sign.POSITIVE or name in self.deps.recursive:
            return None
        window = self.deps.core.windows.get(name)
        return window if window is not None and window.over.least == 1 else None

    def _asked(self, premise: Premise, window: WindowOf, tests: Tests) -> Premise:
        """The premise, of the window over the facts that some tests select."""
        gone = {variable for test in tests for variable in test.variables}
        given = dict(zip(window.args, premise.args, strict=True))
        kept = tuple(own for own, term in given.items() if term not in gone)
        own = {term.name: own for own, term in given.items() if isinstance(term, Variable)}
        step = self._step(window.of, kept, _renamed(tests, own))
        of = replace(window.of, predicate=step.name, args=kept)
        over = self.windows.predicate(replace(window, of=of))
        return replace(premise, predicate=over.name, args=tuple(given[v] for v in kept))

    def _step(self, atom: Premise, kept: tuple[Variable, ...], tests: Tests) -> Predicate:
        """The predicate of the facts that some tests select; many ask for the same."""
        below = self.windows.predicates[atom.predicate]
        variables = enumerate(dict.fromkeys(atom.variables), 1)
        names = {v.name: Variable(f"{'_' if v.anonymous else 'X'}{i}") for i, v in variables}
        args = tuple(names[t.name] if isinstance(t, Variable) else t for t in atom.args)
        tests = tuple(sorted(_renamed(tests, names), key=print_literal))
        label = f"{', '.join(map(print_term, args))}; {', '.join(map(print_literal, tests))}"
        types = dict(zip(atom.args, below.types, strict=True))
        step = below.made(Role.STEP, label, tuple(types[v] for v in kept))
        if step.name not in self.windows.predicates:
            self.windows.predicates[step.name] = step
            head = Head(step.name, tuple(names[v.name] for v in kept), AT_HEAD)
            premise = Premise(below.name, args, AT_HEAD, origin=atom.origin)
            self.steps.append(Clause(head, (premise,), tests, atom.origin, made=True))
        return step


def _selecting(clause: Clause, premise: Premise) -> Tests:
    """The tests of values of a premise that nothing else in its clause looks at."""
    chosen: list[Comparison] = []
    others = replace(clause, tests=()).terms
    for variable in dict.fromkeys(premise.variables):
        tests = [test for test in clause.tests if variable in test.variables]
        alone = all({*test.variables} == {variable} for test in tests)
        if alone and others.count(variable) == 1:
            chosen += tests
    return tuple(chosen)


def _renamed(tests: Tests, names: Mapping[str, Variable]) -> Tests:
    return tuple(
        replace(t, left=substituted(t.left, names), right=substituted(t.right, names))
        for t in tests
    )


__all__ = ["selected"]
