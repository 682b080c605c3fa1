"""What else rules ask for beside a window: where that is not there, the window makes no difference.

`NoContact(F) @ T :- Handover(F) @ T, not some Contact(F) @ [T, T+5].` looks at a window of F only
where there was a handover of F. That is seen in the rows of one other premise, the *guard* of a
clause, so that no cell is derived again for objects that it does not ask about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter

from tidelog.language.program import Row, Variable
from tidelog.streaming.cells import Component, Lookup, PlacedClause
from tidelog.streaming.columns import RowTable
from tidelog.streaming.joins import IndexedSlice


@dataclass(frozen=True)
class _Guard:
    """What a clause looks at beside a window."""

    lookup: Lookup
    offset: int  # of the window from the head
    columns: tuple[int, ...]  # those that have the value of an argument of the window
    args: tuple[int, ...]  # and which argument

    def lets_in(self, rows: Iterable[Row], slice_: IndexedSlice) -> bool:
        """Whether something that is there has to do with one of these rows of the window."""
        if not self.columns or isinstance(slice_.rows, RowTable):
            return True
        index, key = slice_.index(self.columns), itemgetter(*self.args)
        return any(key(row) in index for row in rows)


class Guards:
    """The guards of the clauses of a component that look at a window."""

    def __init__(
        self, above: Component, names: tuple[str, str], components: list[Component]
    ) -> None:
        # Also those that only liveness goes by: a window may keep a fact and change nothing else.
        clauses = list(above.telling)
        for stage in above.stages:
            clauses += [*stage.possible, *stage.certain, *stage.loose]
        guards = {
            _guard(clause, number, components)
            for clause in clauses
            for number, lookup in enumerate(clause.lookups)
            if lookup.name in names
        }
        self._guards = [guard for guard in guards if guard is not None]
        self._always = above.carrying or None in guards

    def let_in(
        self,
        rows: Iterable[Row],
        tick: int,
        read: Callable[[Lookup, int | None], IndexedSlice],
    ) -> bool:
        """Whether it makes a difference that these rows of the window have changed at a tick."""
        if self._always:
            return True
        for guard in self._guards:
            slice_ = read(guard.lookup, guard.lookup.time(tick - guard.offset))
            if slice_.rows and guard.lets_in(rows, slice_):
                return True
        return False


def _guard(clause: PlacedClause, window: int, components: list[Component]) -> _Guard | None:
    """The premise that shares most with a window, of those that must be there; None without any."""
    own, offset = clause.lookups[window], clause.lookups[window].offset
    assert offset is not None, "a window lies at an offset"
    premises = clause.compiled.clause.premises
    guards: list[_Guard] = []
    for lookup, premise in zip(clause.lookups, premises, strict=True):
        moves = lookup.component >= 0 and components[lookup.component].carrying
        if lookup.negated or lookup.inside or moves or lookup.component == own.component:
            continue
        args = premises[window].args
        shared = [
            (i, args.index(term))
            for i, term in enumerate(premise.args)
            if isinstance(term, Variable) and term in args
        ]
        columns, places = tuple(i for i, _ in shared), tuple(place for _, place in shared)
        guards.append(_Guard(lookup, offset, columns, places))
    return max(guards, key=lambda guard: len(guard.columns), default=None)
