"""Windows over packed rows, as SQL that DuckDB and Spark both run.

The source has one row for each fact and chunk (`data/packed`). A window looks back from each tick
over so many ticks, that tick included. None of this unfolds a word into its ticks, except for
counts over more ticks than a word has.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.data.packed import (
    CHUNK,
    FULL,
    bit_sql,
    chunk,
    place_sql,
    restrict_sql,
    unpack_sql,
)


def window_sql(
    names: Sequence[str], source: str, ticks: int, least: int, within: tuple[int, int]
) -> str:
    """Where at `least` so many of the last `ticks` ticks hold, from one tick to another.

    `source` is a table or a select in parentheses, with columns `names`, c and b.
    """
    if least == 1:
        rows = _some(names, source, ticks, within)
    elif least == ticks:
        rows = _always(names, source, ticks)
    elif ticks <= CHUNK:
        rows = _count(names, source, ticks, least)
    else:
        rows = _count_events(names, source, ticks, least, within)
    return restrict_sql(names, f"(\n{rows}\n) AS w", *within)


class _Select:
    """A select that grows column by column: each can use those before it."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.made = 0

    def let(self, *values: str) -> list[str]:
        """New columns for some expressions, which do not see each other."""
        names = [f"v{self.made + i}" for i in range(len(values))]
        self.made += len(values)
        given = ", ".join(f"{v} AS {n}" for v, n in zip(values, names, strict=True))
        self.sql = f"SELECT *, {given} FROM ({self.sql}) AS q{self.made}"
        return names

    def below_highest(self, word: str) -> str:
        """All bits up to the highest one of a word."""
        for step in (1, 2, 4, 8, 16, 32):
            (word,) = self.let(f"{word} | ({word} >> {step})")
        return word


def _later(word: str, ticks: int) -> str:
    """A word moved to later ticks; what would leave it is cut first."""
    return f"(({word} & {FULL >> ticks}) << {ticks})" if ticks < CHUNK else "CAST(0 AS BIGINT)"


def _steps(ticks: int) -> list[int]:
    """Shifts that make a window of so many ticks from one of a single tick, each from the last.

    >>> _steps(5), _steps(8)
    ([1, 2, 1], [1, 2, 4])
    """
    steps: list[int] = []
    size = 1
    while size < ticks:
        step = min(size, ticks - size)
        steps.append(step)
        size += step
    return steps


def _up_to(place: str) -> str:
    """The bits of a word up to a place, which may lie before or after the word."""
    bits = f"({bit_sql(f'{place} + 1')}) - 1"
    return (
        f"CASE WHEN {place} < 0 THEN CAST(0 AS BIGINT)"
        f" WHEN {place} >= {CHUNK - 1} THEN CAST({FULL} AS BIGINT) ELSE {bits} END"
    )


def _over(names: Sequence[str], order: str = "c") -> str:
    by = f"PARTITION BY {', '.join(names)} " if names else ""
    return f"OVER ({by}ORDER BY {order})"


def _reached(ticks: int, within: tuple[int, int]) -> tuple[str, str]:
    """The chunks after its own that a row can reach into, as far as anyone asks: each as an
    expression over a number k, and where these come from.
    """
    asked = (chunk(within[1]) - chunk(within[0])) // CHUNK + 1
    most = max(1, min((ticks + CHUNK - 2) // CHUNK, asked))
    first = f"greatest(c + {CHUNK}, {chunk(within[0])})"
    return f"({first} + {CHUNK} * k)", f"range(0, {most}) AS n(k)"


def _some(names: Sequence[str], source: str, ticks: int, within: tuple[int, int]) -> str:
    """Each tick is carried on for the ticks after it.

    Within a word bits are smeared. What a row leads to after its chunk ends with its last tick:
    the next row takes it up, and chunks without a row get one.
    """
    low = chunk(within[0]) - ticks - CHUNK
    where = f"c >= {low} AND c <= {chunk(within[1])}"
    select = _Select(f"SELECT {_list(names, 'c', 'b')} FROM {source} AS s WHERE {where}")
    highest = select.below_highest("b")
    if ticks < CHUNK:
        word = "b"
        for step in _steps(ticks):
            (word,) = select.let(f"{word} | {_later(word, step)}")
    else:
        (word,) = select.let(f"{FULL} - ((b & -b) - 1)")
    (end,) = select.let(f"c + bit_count({highest}) + {ticks - 2}")
    over = _over(names)
    (before, following) = select.let(f"lag({end}) {over}", f"lead(c) {over}")
    own = f"{word} | CASE WHEN {before} >= c THEN {_up_to(f'({before} - c)')} ELSE 0 END"
    further = f"{end} >= c + {CHUNK} AND ({following} IS NULL OR {following} > c + {CHUNK})"
    reached, numbers = _reached(ticks, within)
    gap = f"({following} IS NULL OR {reached} < {following}) AND {reached} <= {end}"
    empty = (
        f"SELECT {_list(names, f'{reached} AS c')}, {_up_to(f'({end} - {reached})')} AS b"
        f" FROM (SELECT * FROM ({select.sql}) AS f WHERE {further}) AS g, {numbers} WHERE {gap}"
    )
    return f"SELECT {_list(names, 'c')}, {own} AS b FROM ({select.sql}) AS o\nUNION ALL\n{empty}"


def _always(names: Sequence[str], source: str, ticks: int) -> str:
    """Runs within a word are cut short by the ticks they need; one that comes from the chunk
    before, however long, counts with its length there.
    """
    over = _over(names)
    select = _Select(f"SELECT {_list(names, 'c', 'b')}, lag(c) {over} AS l FROM {source} AS s")
    inside = "CAST(0 AS BIGINT)"
    if ticks <= CHUNK:
        inside = "b"
        for step in _steps(ticks):
            (inside,) = select.let(f"{inside} & {_later(inside, step)}")
    (absent,) = select.let(f"~b & {FULL}")
    absent = select.below_highest(absent)
    joined = f"l = c - {CHUNK}"
    (begun,) = select.let(
        f"CASE WHEN b = {FULL} AND {joined} THEN NULL ELSE c + bit_count({absent}) END"
    )
    (run,) = select.let(f"max({begun}) {over}")
    (before,) = select.let(f"lag({run}) {over}")
    # The run that goes on at the start of the word needs so many ticks in it.
    (first,) = select.let(f"CASE WHEN {joined} THEN {ticks - 1} - (c - {before}) ELSE {CHUNK} END")
    going_on = f"(b & ~(b + 1)) & ~({_up_to(f'({first} - 1)')})"
    return f"SELECT {_list(names, 'c')}, {inside} | ({going_on}) AS b FROM ({select.sql}) AS o"


def _count(names: Sequence[str], source: str, ticks: int, least: int) -> str:
    """Counts of up to 60 ticks, all bits of a word at once: bit k of every count is a word.

    Each row looks at its own chunk and the one before; a chunk after a row has one too.
    """
    over = _over(names)
    rows = f"SELECT {_list(names, 'c', 'b')}, lag(c) {over} AS l, lag(b) {over} AS p"
    rows += f", lead(c) {over} AS f FROM {source} AS s"
    before = f"CASE WHEN l = c - {CHUNK} THEN p ELSE CAST(0 AS BIGINT) END"
    select = _Select(
        f"SELECT {_list(names, 'c', 'b')}, {before} AS p FROM ({rows}) AS r UNION ALL"
        f" SELECT {_list(names, f'c + {CHUNK} AS c')}, CAST(0 AS BIGINT) AS b, b AS p"
        f" FROM ({rows}) AS s WHERE f IS NULL OR f > c + {CHUNK}"
    )
    # By the number of ticks counted: the bits of the count, lowest first, as (chunk before, own).
    counts: dict[int, list[tuple[str, str]]] = {1: [("p", "b")]}
    size = 1
    while 2 * size <= ticks:
        counts[2 * size] = _sum(select, counts[size], counts[size], size)
        size *= 2
    total, counted = counts[size], size
    while counted < ticks:
        size //= 2
        if counted + size <= ticks:
            total = _sum(select, total, counts[size], counted)
            counted += size
    more, same = "CAST(0 AS BIGINT)", f"CAST({FULL} AS BIGINT)"
    for k in reversed(range(len(total))):
        word = total[k][1]
        if least >> k & 1:
            (same,) = select.let(f"{same} & {word}")
        else:
            more, same = select.let(f"{more} | ({same} & {word})", f"{same} & ~{word}")
    return f"SELECT {_list(names, 'c')}, {more} | {same} AS b FROM ({select.sql}) AS o"


def _sum(
    select: _Select, counts: list[tuple[str, str]], more: list[tuple[str, str]], before: int
) -> list[tuple[str, str]]:
    """Counts, and those of so many ticks before, added bit by bit."""
    zero = ("CAST(0 AS BIGINT)", "CAST(0 AS BIGINT)")
    carry = zero
    sums: list[tuple[str, str]] = []
    for k in range(max(len(counts), len(more))):
        one = counts[k] if k < len(counts) else zero
        two = more[k] if k < len(more) else zero
        moved = select.let(
            _later(two[0], before), f"{_later(two[1], before)} | ({two[0]} >> {CHUNK - before})"
        )
        both = select.let(*(f"{a} & {b}" for a, b in zip(one, moved, strict=True)))
        either = select.let(
            *(f"({a} | {b}) - {c}" for a, b, c in zip(one, moved, both, strict=True))
        )
        further = [f"{a} & {b}" for a, b in zip(either, carry, strict=True)]
        following = [f"{a} | ({b})" for a, b in zip(both, further, strict=True)]
        total = [f"({a} | {b}) - ({c})" for a, b, c in zip(either, carry, further, strict=True)]
        s0, s1, c0, c1 = select.let(*total, *following)
        sums.append((s0, s1))
        carry = (c0, c1)
    return [*sums, carry]


def _count_events(
    names: Sequence[str], source: str, ticks: int, least: int, within: tuple[int, int]
) -> str:
    """Counts over more ticks than a word has.

    With the tick of each fact and of the one `least - 1` facts before it, the count is reached from
    the one until `ticks` after the other. Before what is asked for the last `least` facts do, so
    that no more words are unfolded: a stream asks for few ticks after many.
    """
    first, bits = chunk(within[0]), "bit_count(b)"
    before = f"CASE WHEN c < {first} THEN {bits} ELSE 0 END"
    later = f"sum({before}) {_over(names, 'c DESC')} - {before} AS later"
    needed = f"SELECT *, {later} FROM {source} AS u WHERE c <= {chunk(within[1])}"
    facts = unpack_sql(names, f"(SELECT * FROM ({needed}) AS v WHERE later < {least}) AS u")
    over = _over(names, "t")
    seen = (
        f"SELECT {_list(names, 't')}, lag(t, {least - 1}) {over} AS f, lead(t) {over} AS n"
        f" FROM ({facts}) AS e"
    )
    last = f"f + {ticks - 1}"
    reached = (
        f"SELECT {_list(names, 't')}, {place_sql()} AS i,"
        f" CASE WHEN n <= {last} THEN n - 1 ELSE {last} END AS e FROM ({seen}) AS s"
        f" WHERE {last} >= t"
    )
    select = _Select(f"SELECT {_list(names, 't - i AS c')}, i, e FROM ({reached}) AS r")
    own = f"({_up_to('(e - c)')}) & ~({_up_to('(i - 1)')})"
    after, numbers = _reached(ticks, within)
    rows = (
        f"SELECT {_list(names, 'c')}, {own} AS b FROM ({select.sql}) AS o UNION ALL"
        f" SELECT {_list(names, f'{after} AS c')}, {_up_to(f'(e - {after})')} AS b"
        f" FROM (SELECT * FROM ({select.sql}) AS x WHERE e >= c + {CHUNK}) AS g,"
        f" {numbers} WHERE {after} <= e"
    )
    keys = _list(names, "c")
    return f"SELECT {keys}, bit_or(b) AS b FROM ({rows}) AS m GROUP BY {keys}"


def _list(names: Sequence[str], *more: str) -> str:
    return ", ".join([*names, *more])
