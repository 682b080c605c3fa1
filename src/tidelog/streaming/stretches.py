"""Answers of a stream from when to when: a stretch is told once it has ended.

Answers come a tick at a time, and final up to some time. What is known of a stretch that has not
ended is kept: in process as rows, on Spark as a table that every batch replaces. A stretch has
ended when the tick after its last one is final; with eager emission its beginning is told before,
once the tick before its first one is final.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tidelog.data.packed import merge_sql, stretches_sql
from tidelog.language.program import Row, Value
from tidelog.streaming.joins import at

# Arguments, first and last tick; None for the last one of a stretch that begins.
Told: TypeAlias = tuple[Value | None, ...]


class OpenStretches:
    """The stretches of a query that have not ended, in this process.

    >>> import math
    >>> open_ = OpenStretches(eager=False)
    >>> open_.after([("a", 1), ("a", 2), ("b", 2)], final=2)
    []
    >>> open_.after([("a", 3)], final=3)
    [('b', 2, 2)]
    >>> open_.after([], final=math.inf)
    [('a', 1, 3)]
    """

    def __init__(self, *, eager: bool) -> None:
        self.eager = eager
        # By arguments: first and last tick of each, in order, and whether its beginning was told.
        self.open: dict[Row, list[tuple[int, int, bool]]] = {}

    def after(self, answers: Iterable[Row], final: float) -> list[Told]:
        """What there is to tell once everything up to a time is final."""
        for args, ticks in _by_arguments(answers).items():
            new = [(tick, tick, False) for tick in ticks]
            self.open[args] = _joined(sorted(new + self.open.get(args, [])))
        told: list[Told] = []
        for args, stretches in list(self.open.items()):
            kept: list[tuple[int, int, bool]] = []
            for first, last, begun in stretches:
                begins = self.eager and not begun and first <= final + 1
                if begins:
                    told.append((*args, first, None))
                if last < final:
                    told.append((*args, first, last))
                else:
                    kept.append((first, last, begun or begins))
            if kept:
                self.open[args] = kept
            else:
                del self.open[args]
        return sorted(told, key=_order)

    def state(self) -> list[list[Any]]:
        """As plain data."""
        return [
            [list(args), *stretch]
            for args, stretches in sorted(self.open.items())
            for stretch in stretches
        ]

    def resume(self, state: Iterable[Sequence[Any]]) -> None:
        """Go on from such data."""
        self.open.clear()
        for args, first, last, begun in state:
            self.open.setdefault(tuple(args), []).append((first, last, begun))


def _by_arguments(answers: Iterable[Row]) -> dict[Row, list[int]]:
    ticks: dict[Row, list[int]] = {}
    for row in answers:
        ticks.setdefault(row[:-1], []).append(at(row))
    return ticks


def _joined(stretches: Iterable[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
    """Stretches in order, with those that follow each other at once as one.

    >>> _joined([(1, 2, True), (3, 3, False), (5, 6, False)])
    [(1, 3, True), (5, 6, False)]
    """
    joined: list[tuple[int, int, bool]] = []
    for first, last, begun in stretches:
        if joined and first <= joined[-1][1] + 1:
            before = joined.pop()
            first, last, begun = before[0], max(before[1], last), before[2] or begun
        joined.append((first, last, begun))
    return joined


def _order(told: Told) -> tuple[Any, ...]:
    """By the first tick, then by arguments; a beginning comes before its end."""
    *args, first, last = told
    return first, args, last is not None, last


# On Spark, as SQL that DuckDB and Spark both run


def stretched_sql(
    names: Sequence[str], words: str, kept: str, final: Mapping[int, int], *, eager: bool
) -> str:
    """Stretches of all queries after a batch: those that were kept, and the packed answers of it.

    `names` are the columns of arguments, and `tab` says which query it is; `final` has the time up
    to which each is final. Of a stretch there is `first`, `last`, whether its beginning was told
    before (`begun`), whether it is told now (`begins`), and whether the stretch has `ended`.
    """
    keys = ["tab", *names]
    columns = by = ", ".join(keys)
    merged = merge_sql(keys, f"SELECT {columns}, c, b FROM {words}", None)
    new = stretches_sql(keys, f"({merged}) AS w")
    rows = (
        f"SELECT *, FALSE AS begun FROM ({new}) AS n"
        f" UNION ALL SELECT {columns}, first, last, begun FROM {kept}"
    )
    window = f"OVER (PARTITION BY {by} ORDER BY first)"
    follows = f"CASE WHEN first <= lag(last) {window} + 1 THEN 0 ELSE 1 END AS apart"
    grouped = (
        f"SELECT *, sum(apart) OVER (PARTITION BY {by} ORDER BY first ROWS UNBOUNDED PRECEDING)"
        f" AS nth FROM (SELECT *, {follows} FROM ({rows}) AS r) AS a"
    )
    joined = (
        f"SELECT {columns}, min(first) AS first, max(last) AS last, bool_or(begun) AS begun"
        f" FROM ({grouped}) AS g GROUP BY {by}, nth"
    )
    cases = " ".join(f"WHEN {tab} THEN {time}" for tab, time in final.items())
    until = f"SELECT *, CAST(CASE tab {cases} END AS BIGINT) AS final FROM ({joined}) AS j"
    begins = "NOT begun AND first <= final + 1" if eager else "FALSE"
    return (
        f"SELECT {columns}, first, last, begun, {begins} AS begins, last < final AS ended"
        f" FROM ({until}) AS u"
    )


def told_sql(names: Sequence[str], stretched: str) -> str:
    """What there is to tell of such stretches; a beginning has NULL for its last tick."""
    columns = ", ".join(["tab", *names])
    return (
        f"SELECT {columns}, first, CAST(NULL AS BIGINT) AS last FROM {stretched} WHERE begins"
        f" UNION ALL SELECT {columns}, first, last FROM {stretched} WHERE ended"
    )


def kept_sql(names: Sequence[str], stretched: str) -> str:
    """What is kept of such stretches for the next batch."""
    columns = ", ".join(["tab", *names])
    return (
        f"SELECT {columns}, first, last, begun OR begins AS begun FROM {stretched} WHERE NOT ended"
    )


__all__ = ["OpenStretches", "Told", "kept_sql", "stretched_sql", "told_sql"]
