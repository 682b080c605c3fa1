"""Windows over time: `some`, `always`, `at least K`, and heads that hold for a stretch.

A window is a predicate of its own: `W(X) @ T` holds where, of so many ticks that end with T, an
atom holds at K or more. Literals that ask the same of the same atom share one, wherever their
interval lies: `some Jam(R) @ [T-5, T-1]` is the window of five ticks at T-1. Its arguments are the
named variables of the atom; `_` may differ from tick to tick.

A window is a definition (`WindowOf`), and most plans do it in one step. What works with rules alone
has it written out (`write_out`), in clauses that double: of 2, 4, 8 .. ticks, each from two windows
half as long. For a window of n ticks there are about log2 n of them, and K times as many steps of a
count for `at least K`. Each says which window it is part of.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from tidelog.language.printer import print_term
from tidelog.language.program import Term, Value, Variable
from tidelog.logic.clause import (
    AT_HEAD,
    ONE_TICK,
    AggregateOf,
    Asked,
    AskedMeasure,
    Clause,
    Head,
    LastTicks,
    Offset,
    Over,
    Premise,
    WindowOf,
    measured_of,
    over_of,
)
from tidelog.logic.core import Core, Predicate, Role, ShownCore, rules_of

# Clauses that a window is written out in, unless nothing but clauses will do.
MOST_WRITTEN_OUT = 500


def quantified(over: Over) -> str:
    """
    >>> quantified(Over(5, 1)), quantified(Over(5, 5)), quantified(Over(5, 3))
    ('some', 'always', 'at least 3')
    """
    if over.least in (1, over.ticks):
        return "some" if over.least == 1 else "always"
    return f"at least {over.least}"


def pattern(
    core: Core, name: str, args: Sequence[Value | None]
) -> tuple[WindowOf, tuple[Value | None, ...]]:
    """What a predicate is a window of, and the arguments of that: None for any value."""
    window = core.window_of[name]
    values = dict(zip(window.args, args, strict=True))
    terms = window.of.args
    return window, tuple(values.get(t) if isinstance(t, Variable) else t.value for t in terms)


_MADE = (Role.WINDOW, Role.BEGUN, Role.GATHERED, Role.TOTAL)


def folded(core: Core) -> Core:
    """The core as people think of it: premises over intervals in place of windows' predicates,
    and aggregates in place of theirs.

    A head that lasts is looked at from any of its ticks: its premises lie so many ticks further
    back, too.
    """
    if all(p.role not in _MADE for p in core.predicates.values()):
        return core
    clauses: list[Clause] = []
    told: set[int] = set()  # rules that two clauses say, one of them for an aggregate of nothing
    for clause in rules_of(core):
        if clause.written is not None and clause.written.aggregated:
            if id(clause.written) in told:
                continue
            told.add(id(clause.written))
        if not clause.made:
            premises = tuple(_folded(core, premise) for premise in clause.premises)
            clauses.append(_as_lasting(core, replace(clause, premises=premises)))
    own = {n: p for n, p in core.predicates.items() if p.role not in _MADE}
    return ShownCore.of(core.program, own, clauses)


def _folded(core: Core, premise: Premise) -> Premise:
    aggregate = core.aggregate_of.get(premise.predicate)
    if aggregate is not None:
        asked = as_asked(aggregate)
        when = premise.when if asked.temporal else asked.when
        return replace(asked, when=when, sign=premise.sign, origin=premise.origin)
    window = core.window_of.get(premise.predicate)
    if window is None:
        return premise
    terms: dict[Term, Term] = dict(zip(window.args, premise.args, strict=True))
    args = tuple(terms.get(term, term) for term in window.of.args)
    name = window.of.predicate
    return Asked(name, args, premise.when, premise.sign, premise.origin, window.over)


def as_asked(aggregate: AggregateOf) -> Asked:
    """An aggregate as the premise of a rule that asks for it, at its own time."""
    of, value = aggregate.of, aggregate.args[-1]
    over = Over(aggregate.ticks, 1) if of.temporal else None
    measured = AskedMeasure(aggregate.measure, aggregate.variable, value)
    return Asked(of.predicate, of.args, of.when, of.sign, of.origin, over, measured)


def _as_lasting(core: Core, clause: Clause) -> Clause:
    """A clause for the beginning of something that lasts, as one for the thing itself."""
    began = core.predicates[clause.head.predicate]
    if began.role is not Role.BEGUN:
        return clause
    windows = core.window_of.values()
    lasts = max(w.over.ticks for w in windows if w.of.predicate == began.name)
    premises: list[Premise] = []
    for p in clause.premises:
        over = over_of(p) or ONE_TICK
        over = replace(over, ticks=lasts - 1 + over.ticks)
        longer = Asked(p.predicate, p.args, p.when, p.sign, p.origin, over, measured_of(p))
        premises.append(p if p.offset is None else longer)
    head = replace(clause.head, predicate=began.base)
    return replace(clause, head=head, premises=tuple(premises))


def takes_many_clauses(over: Over) -> bool:
    """Whether a window is too long to be written out where it need not be.

    >>> takes_many_clauses(Over(1440, 1)), takes_many_clauses(Over(1440, 1440))
    (False, False)
    >>> takes_many_clauses(Over(60, 3)), takes_many_clauses(Over(1440, 100))
    (False, True)
    """
    number, seen, todo = 0, {over}, [over]
    while todo and number <= MOST_WRITTEN_OUT:
        ways = _parts(todo.pop())
        number += len(ways)
        shorter = {Over(ticks, least) for parts in ways for ticks, least, _ in parts} - seen
        seen |= shorter
        todo += shorter
    return number > MOST_WRITTEN_OUT


def _parts(over: Over) -> list[tuple[tuple[int, int, int], ...]]:
    """The ways to make a window of shorter ones: of each its ticks, its count, and how far back.

    That of one tick is made of none, but of the atom itself.
    """
    ticks, least = over.ticks, over.least
    if ticks == 1:
        return [()]
    half = 1 << (ticks - 1).bit_length() - 1
    if least == 1:
        return [((half, 1, 0),), ((half, 1, ticks - half),)]
    # Parts that do not overlap: no tick is counted twice, in a proof neither.
    rest = ticks - half
    return [
        tuple(part for part in ((half, now, 0), (rest, least - now, half)) if part[1])
        for now in range(max(0, least - rest), min(least, half) + 1)
    ]


def define_window(atom: Premise, over: Over) -> WindowOf:
    """The definition of a window of an atom, whose time and sign are left to who asks for it."""
    of = Premise(atom.predicate, atom.args, AT_HEAD, origin=atom.origin)
    return WindowOf(of, LastTicks(over.ticks), over.least)


class Windows:
    """The windows of a program: predicates and what they are windows of, each made once."""

    def __init__(self, predicates: dict[str, Predicate], windows: Mapping[str, WindowOf]) -> None:
        self.predicates = predicates
        self.windows = dict(windows)
        self.new: list[str] = []  # windows that were not there before

    @classmethod
    def of(cls, core: Core) -> Windows:
        """Those of a core, to which others can be added."""
        return cls(dict(core.predicates), core.windows)

    def without(self, clause: Clause) -> Clause:
        """The clause with a window's predicate for each of its premises over an interval."""
        if all(over_of(premise) is None for premise in clause.premises):
            return clause
        premises = tuple(map(self._asked, clause.premises))
        return replace(clause, premises=premises)

    def _asked(self, premise: Premise) -> Premise:
        over = over_of(premise)
        if over is None:
            return premise
        window = define_window(premise, over)
        made = self.predicate(window)
        return Premise(made.name, window.args, premise.when, premise.sign, premise.origin)

    def lasting(self, head: Predicate, over: Over) -> tuple[Predicate, list[Clause]]:
        """The predicate whose facts make the head hold at so many ticks, beginning with theirs;
        and the clause for that, if it is new."""
        began = head.made(Role.BEGUN, str(over.ticks))
        if began.name in self.predicates:
            return began, []
        self.predicates[began.name] = began
        args = tuple(Variable(f"X{i}") for i in range(1, len(head.types) + 1))
        window = self.predicate(define_window(Premise(began.name, args, AT_HEAD), over))
        asked = Premise(window.name, args, AT_HEAD)
        return began, [Clause(Head(head.name, args, AT_HEAD), (asked,), made=True)]

    def predicate(self, window: WindowOf) -> Predicate:
        """The predicate of a window; many ask for the same."""
        atom = window.of
        below = self.predicates[atom.predicate]
        plain = [isinstance(t, Variable) and not t.anonymous for t in atom.args]
        if not all(plain) or len(window.args) < len(atom.args):
            label = f" ({_pattern(atom, window.args)})"
        elif window.over == ONE_TICK:
            return below
        else:
            label = ""
        types = {t: below.types[i] for i, t in enumerate(atom.args)}
        label = f"{window.over.least} of {window.over.ticks}{label}"
        made = below.made(Role.WINDOW, label, tuple(types[v] for v in window.args))
        if made.name not in self.predicates:
            self.predicates[made.name] = made
            self.new.append(made.name)
            self.windows[made.name] = define_window(atom, window.over)
        return made

    def of_a_tick(self, window: WindowOf) -> Predicate:
        """The predicate that says, with the arguments of a window, whether it is met at a tick."""
        return self.predicate(define_window(window.of, ONE_TICK))

    def ways(self, window: WindowOf) -> list[tuple[Premise, ...]]:
        """The bodies of a window's clauses, over shorter windows."""

        def part(ticks: int, least: int, before: int) -> Premise:
            made = self.predicate(define_window(window.of, Over(ticks, least)))
            return Premise(made.name, window.args, Offset(-before))

        parts = _parts(window.over)
        return [tuple(part(*each) for each in some) or (window.of,) for some in parts]


def write_out(core: Core, where: Callable[[str], bool] = lambda name: True) -> Core:
    """The core with windows in clauses over shorter ones, which say the same; all, or some.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> rules = core(check("input E(x: int) @ t. P(X) @ T :- some E(X) @ [T-3, T].").program)
    >>> len(rules_of(rules)), len(rules.windows)
    (1, 1)
    >>> len(rules_of(write_out(rules))), len(write_out(rules).windows)
    (5, 0)
    """
    chosen = [name for name in core.windows if where(name)]
    if not chosen:
        return core
    made = Windows.of(core)
    made.new += chosen
    clauses: list[Clause] = []
    for name in made.new:  # which grows by the windows that these are made of
        window = made.windows[name]
        head = Head(name, window.args, AT_HEAD)
        clauses += (Clause(head, w, made=True, part_of=window) for w in made.ways(window))
    kept = {name: of for name, of in core.operations.items() if name not in chosen}
    return core.rewritten((*rules_of(core), *clauses), made.predicates, kept)


def over_ticks(core: Core, names: Container[str] | None = None) -> Core:
    """The core with a step for each tick of some windows, by default of those `of_any`.

    The step says of an object that the atom holds, whatever else it says; the window is over it.
    """
    made = Windows.of(core)
    for name, window in core.windows.items():
        asked = window.of_any if names is None else name in names
        if asked and window.over != ONE_TICK:
            tick = made.of_a_tick(window)
            if tick.name != window.of.predicate:
                of = Premise(tick.name, window.args, AT_HEAD)
                made.windows[name] = replace(window, of=of)
    if not made.new:
        return core
    over = core.rewritten(None, made.predicates, {**core.aggregates, **made.windows})
    return write_out(over, lambda name: over.windows[name].over == ONE_TICK)


def _pattern(atom: Premise, names: Sequence[Variable]) -> str:
    """What the windows of an atom are of, whatever its variables are called."""
    return ",".join(_place(term, atom, names) for term in atom.args)


def _place(term: Term, atom: Premise, names: Sequence[Variable]) -> str:
    """What an argument is in the name of a window; `_` that must be equal have a number."""
    if term in names:
        return f"#{[*names].index(term)}" if isinstance(term, Variable) else print_term(term)
    same = isinstance(term, Variable) and atom.args.count(term) > 1
    return f"_{atom.args.index(term)}" if same else print_term(term)
