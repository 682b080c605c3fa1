"""Windows over time: `some`, `always`, `at least K`, and heads that hold for a stretch.

A window is a predicate of its own: `W(X) @ T` holds where, of so many ticks that end with T, an
atom holds at K or more. Literals that ask the same of the same atom share one, wherever their
interval lies: `some Jam(R) @ [T-5, T-1]` is the window of five ticks at T-1. Its arguments are the
named variables of the atom; `_` may differ from tick to tick.

Here a window is written out in clauses that double: of 2, 4, 8 .. ticks, each from two windows half
as long. They are as good as any other clause to every analysis and engine. For a window of n ticks
there are about log2 n of them, and K times as many steps of a count for `at least K`. Each clause
says what window its head is, so that a plan can do all of it in one step (`window_of`).

A count that would take very many clauses is only named where that is enough: in two clauses, for
the first and the last tick that it looks at. They say what it depends on, not when it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidelog.language.printer import print_term
from tidelog.language.program import Term, Value, Variable
from tidelog.logic.clause import AT_HEAD, ONE_TICK, Clause, Head, Offset, Over, Premise, Sign
from tidelog.logic.core import Core, Predicate, Role

# Clauses that a window is written out in, if its name would be enough.
MOST_WRITTEN_OUT = 500


def window_of(core: Core, name: str) -> Premise | None:
    """What the predicate of a window asks for, over its ticks; None for any other predicate.

    Also for one whose clauses a pass has changed: then it is no more than what they say.
    """
    asked = _said(core, name)
    if asked is not None and asked.over is not None and _is_brief(core, name, asked, asked.over):
        return asked
    return asked if asked is not None and _intact(core, name, asked, set()) else None


def named_windows(core: Core) -> dict[str, Premise]:
    """The windows that are only named: what each asks for, by its predicate.

    The first clause of each is that of the last tick.
    """
    windows: dict[str, Premise] = {}
    for name, predicate in core.predicates.items():
        asked = _said(core, name) if predicate.role is Role.WINDOW else None
        if asked is not None and asked.over and _is_brief(core, name, asked, asked.over):
            windows[name] = asked
    return windows


def _said(core: Core, name: str) -> Premise | None:
    """What the clauses of a predicate say it is a window of."""
    windows = {clause.window for clause in core.clauses_for.get(name, ())}
    return windows.pop() if len(windows) == 1 else None


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
) -> tuple[Premise, tuple[Value | None, ...]]:
    """What a window's predicate asks for, and the arguments of that: None for any value."""
    asked = _said(core, name)
    assert asked is not None, "a window says what it is"
    values = dict(zip(names_of(asked), args, strict=True))
    terms = asked.args
    return asked, tuple(values.get(t) if isinstance(t, Variable) else t.value for t in terms)


def _is_brief(core: Core, name: str, asked: Premise, over: Over) -> bool:
    """Whether the clauses of a window only say what its ends are."""
    bodies = {clause.premises for clause in core.clauses_for[name]}
    return over.ticks > 2 and bodies == set(_ends(asked, over))  # of two ticks ends are all


def _ends(atom: Premise, over: Over) -> list[tuple[Premise, ...]]:
    """The first and the last tick of a window, in a clause each."""
    return [(replace(atom, when=Offset(back), over=None),) for back in (0, 1 - over.ticks)]


def _intact(core: Core, name: str, asked: Premise, seen: set[str]) -> bool:
    """Whether the clauses of a window, and of those it is made from, are as they were written."""
    if asked.over is None or asked.predicate not in core.predicates:
        return False
    seen.add(name)
    ways = Windows(dict(core.predicates)).ways(replace(asked, over=None), asked.over)
    if {clause.premises for clause in core.clauses_for[name]} != set(ways):
        return False
    for part in {p.predicate for way in ways for p in way} - seen - {asked.predicate}:
        below = _said(core, part)
        if below is None or _asks(below) != _asks(asked):
            return False
        if not _intact(core, part, below, seen):
            return False
    return True


_MADE = (Role.WINDOW, Role.BEGUN, Role.GATHERED)


def folded(core: Core) -> Core:
    """The core as people think of it: premises over intervals in place of windows' predicates,
    and premises that gather in place of aggregates'.

    A head that lasts is looked at from any of its ticks: its premises lie so many ticks further
    back, too.
    """
    if all(p.role not in _MADE for p in core.predicates.values()):
        return core
    clauses: list[Clause] = []
    told: set[int] = set()  # rules that two clauses say, one of them for an aggregate of nothing
    for clause in core.clauses:
        if clause.written is not None and clause.written.aggregated:
            if id(clause.written) in told:
                continue
            told.add(id(clause.written))
        if not clause.made:
            premises = tuple(_folded(core, premise) for premise in clause.premises)
            clauses.append(_as_lasting(core, replace(clause, premises=premises)))
    own = {n: p for n, p in core.predicates.items() if p.role not in _MADE}
    return Core(core.program, tuple(clauses), own)


def _folded(core: Core, premise: Premise) -> Premise:
    made = core.clauses_for.get(premise.predicate, ())
    gathered = made[0].gathered if made else None
    if gathered is not None:
        sign = premise.sign if premise.sign is Sign.NEGATIVE else Sign.GATHERED
        return replace(gathered, when=premise.when, sign=sign, origin=premise.origin)
    asked = _said(core, premise.predicate)
    if asked is None:
        return premise
    terms: dict[Term, Term] = dict(zip(names_of(asked), premise.args, strict=True))
    args = tuple(terms.get(term, term) for term in asked.args)
    return replace(premise, predicate=asked.predicate, args=args, over=asked.over)


def _as_lasting(core: Core, clause: Clause) -> Clause:
    """A clause for the beginning of something that lasts, as one for the thing itself."""
    began = core.predicates[clause.head.predicate]
    if began.role is not Role.BEGUN:
        return clause
    windows = (c.window for c in core.clauses if c.window is not None)
    lasts = max(w.over.ticks for w in windows if w.predicate == began.name and w.over is not None)
    premises: list[Premise] = []
    for premise in clause.premises:
        ticks = lasts - 1 + (1 if premise.over is None else premise.over.ticks)
        over = replace(premise.over or ONE_TICK, ticks=ticks)
        premises.append(replace(premise, over=over) if premise.offset is not None else premise)
    head = replace(clause.head, predicate=began.base)
    return replace(clause, head=head, premises=tuple(premises))


def takes_many_clauses(over: Over) -> bool:
    """Whether a window is too long to be written out where only its name is needed.

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


class Windows:
    """The windows of a program: predicates and clauses to add to it, each made once."""

    def __init__(self, predicates: dict[str, Predicate], *, in_brief: bool = False) -> None:
        self.predicates = predicates
        self.in_brief = in_brief
        self.clauses: list[Clause] = []
        self._made: dict[tuple[str, tuple[Term, ...], Over], Predicate] = {}

    def without(self, clause: Clause) -> Clause:
        """The clause with a window's predicate for each of its premises over an interval."""
        if all(premise.over is None for premise in clause.premises):
            return clause
        premises = tuple(map(self._asked, clause.premises))
        return replace(clause, premises=premises)

    def _asked(self, premise: Premise) -> Premise:
        if premise.over is None:
            return premise
        names = names_of(premise)
        window = self._window(premise, names, premise.over)
        return replace(premise, predicate=window.name, args=names, over=None)

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
        """The predicate of a window, with its clauses; many ask for the same."""
        key = (atom.predicate, atom.args, over)
        if key not in self._made:
            self._made[key] = self._new_window(atom, names, over)
        return self._made[key]

    def _new_window(self, atom: Premise, names: tuple[Variable, ...], over: Over) -> Predicate:
        below = self.predicates[atom.predicate]
        plain = [isinstance(t, Variable) and not t.anonymous for t in atom.args]
        if over == ONE_TICK and all(plain) and len(names) == len(atom.args):
            return below
        pattern = _asks(atom)[1]
        types = {t: below.types[i] for i, t in enumerate(atom.args)}
        label = f"{over.least} of {over.ticks}"
        if not all(plain) or len(names) < len(atom.args):
            label += f" ({pattern})"
        window = below.made(Role.WINDOW, label, tuple(types[v] for v in names))
        if window.name not in self.predicates:
            self.predicates[window.name] = window
            here = replace(atom, when=AT_HEAD, sign=Sign.POSITIVE, over=None)
            brief = self.in_brief and takes_many_clauses(over)
            for premises in _ends(here, over) if brief else self.ways(here, over):
                head = Head(window.name, names, AT_HEAD)
                asked = replace(here, over=over)
                self.clauses.append(Clause(head, premises, made=True, window=asked))
        return window

    def of_a_tick(self, asked: Premise) -> Predicate:
        """The predicate that says, with the arguments of a window, whether it is met at a tick."""
        atom = replace(asked, over=None)
        return self._window(atom, names_of(atom), ONE_TICK)

    def in_name(self, name: str, asked: Premise) -> list[Clause]:
        """The clauses of a window that is only named; one of two ticks is written out in as few.

        Where several facts of a tick may be of one object, it is over what says that one is there.
        """
        over, names = asked.over, names_of(asked)
        assert over is not None, "a window has so many ticks"
        short = over.ticks == 2
        if short or any(v.anonymous for v in asked.variables):
            asked = Premise(self.of_a_tick(asked).name, names, AT_HEAD, over=over)
        head = Head(name, names, AT_HEAD)
        bodies = self.ways(replace(asked, over=None), over) if short else _ends(asked, over)
        return [Clause(head, body, made=True, window=asked) for body in bodies]

    def ways(self, atom: Premise, over: Over) -> list[tuple[Premise, ...]]:
        """The bodies of a window's clauses, over shorter windows."""
        names = names_of(atom)

        def part(ticks: int, least: int, before: int) -> Premise:
            window = self._window(atom, names, Over(ticks, least))
            return Premise(window.name, names, Offset(-before))

        return [tuple(part(*each) for each in parts) or (atom,) for parts in _parts(over)]


def _asks(atom: Premise) -> tuple[str, str]:
    """What the windows of an atom are of, whatever its variables are called."""
    names = names_of(atom)
    return atom.predicate, ",".join(_place(term, atom, names) for term in atom.args)


def _place(term: Term, atom: Premise, names: tuple[Variable, ...]) -> str:
    """What an argument is in the name of a window; `_` that must be equal have a number."""
    if term in names:
        return f"#{names.index(term)}"
    same = isinstance(term, Variable) and atom.args.count(term) > 1
    return f"_{atom.args.index(term)}" if same else print_term(term)


def names_of(atom: Premise) -> tuple[Variable, ...]:
    """The variables that have one value for the whole stretch."""
    return tuple(dict.fromkeys(v for v in atom.variables if not v.anonymous))
