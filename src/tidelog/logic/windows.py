"""Windows over time: `some`, `always`, `at least K`, and heads that hold for a stretch.

A window is a predicate of its own: `W(X) @ T` holds where, of so many ticks that end with T, an
atom holds at K or more. Literals that ask the same of the same atom share one, wherever their
interval lies: `some Jam(R) @ [T-5, T-1]` is the window of five ticks at T-1. Its arguments are the
named variables of the atom; `_` may differ from tick to tick.

Here a window is written out in clauses that double: of 2, 4, 8 .. ticks, each from two windows half
as long. They are as good as any other clause to every analysis and engine. For a window of n ticks
there are about log2 n of them, and K times as many steps of a count for `at least K`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidelog.language.program import Term, Variable
from tidelog.logic.clause import AT_HEAD, Clause, Head, Offset, Over, Premise, Sign
from tidelog.logic.core import Predicate, Role


@dataclass(frozen=True)
class _Window:
    """At least so many of the ticks that end now; `premise` is what holds at a tick of it."""

    predicate: Predicate
    premise: Premise


class Windows:
    """The windows of a program: predicates and clauses to add to it, each made once."""

    def __init__(self, predicates: dict[str, Predicate]) -> None:
        self.predicates = predicates
        self.clauses: list[Clause] = []

    def without(self, clause: Clause) -> Clause:
        """The clause with a window's predicate for each of its premises over an interval."""
        if all(premise.over is None for premise in clause.premises):
            return clause
        premises = tuple(map(self._asked, clause.premises))
        return replace(clause, premises=premises)

    def _asked(self, premise: Premise) -> Premise:
        if premise.over is None:
            return premise
        names = dict.fromkeys(v for v in premise.variables if not v.anonymous)
        window = self._window(premise, tuple(names), premise.over)
        return replace(premise, predicate=window.name, args=tuple(names), over=None)

    def lasting(self, head: Predicate, over: Over) -> Predicate:
        """The predicate whose facts make the head hold at so many ticks, beginning with theirs."""
        began = head.made(Role.BEGUN, str(over.ticks))
        if began.name not in self.predicates:
            self.predicates[began.name] = began
            args = tuple(Variable(f"X{i}") for i in range(1, len(head.types) + 1))
            window = self._window(Premise(began.name, args, AT_HEAD), args, over)
            asked = Premise(window.name, args, AT_HEAD)
            self.clauses.append(Clause(Head(head.name, args, AT_HEAD), (asked,), made=True))
        return began

    def _window(self, atom: Premise, names: tuple[Variable, ...], over: Over) -> Predicate:
        """The predicate of a window, with its clauses."""
        below = self.predicates[atom.predicate]
        plain = [isinstance(t, Variable) and not t.anonymous for t in atom.args]
        if over == Over(1, 1) and all(plain) and len(names) == len(atom.args):
            return below
        numbers = {variable: i for i, variable in enumerate(names)}
        pattern = ",".join(
            str(numbers[term]) if term in numbers else _constant(term) for term in atom.args
        )
        types = {t: below.types[i] for i, t in enumerate(atom.args)}
        label = f"{over.least} of {over.ticks} ({pattern})"
        window = below.made(Role.WINDOW, label, tuple(types[v] for v in names))
        if window.name not in self.predicates:
            self.predicates[window.name] = window
            here = replace(atom, when=AT_HEAD, sign=Sign.POSITIVE, over=None)
            for premises in self._ways(here, names, over):
                head = Head(window.name, names, AT_HEAD)
                self.clauses.append(Clause(head, premises, made=True))
        return window

    def _ways(
        self, atom: Premise, names: tuple[Variable, ...], over: Over
    ) -> list[tuple[Premise, ...]]:
        """The bodies of a window's clauses, over shorter windows."""
        ticks, least = over.ticks, over.least
        if ticks == 1:
            return [(atom,)]

        def part(ticks: int, least: int, before: int) -> tuple[Premise, ...]:
            if not least:
                return ()
            window = self._window(atom, names, Over(ticks, least))
            return (Premise(window.name, names, Offset(-before)),)

        half = 1 << (ticks - 1).bit_length() - 1
        if least == 1:
            return [part(half, 1, 0), part(half, 1, ticks - half)]
        if least == ticks:
            return [part(half, half, 0) + part(half, half, ticks - half)]
        rest = ticks - half
        return [
            part(half, now, 0) + part(rest, least - now, half)
            for now in range(max(0, least - rest), min(least, half) + 1)
        ]


def _constant(term: Term) -> str:
    return "_" if isinstance(term, Variable) else f"{term.type} {term.value}"
