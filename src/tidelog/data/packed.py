"""Packed time: a fact at up to 60 ticks is one row `a1..an, c, b`.

c is the first tick of a chunk of 60, and bit i of b says that the fact holds at c + i. What is done
with packed rows is here twice: in Python for few of them, and as SQL that DuckDB and Spark both
run. With 60 bits of 64 no shift reaches the sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import indent
from typing import Any, NamedTuple, TypeVar

from tidelog.language.program import Type, Value

CHUNK = 60
FULL = (1 << CHUNK) - 1

T = TypeVar("T")


def columns(arity: int) -> list[str]:
    """The names of arguments in every table of ours."""
    return [f"a{i}" for i in range(1, arity + 1)]


def slots_of(types: Iterable[Type]) -> tuple[str, ...]:
    """The columns of rows that hold facts of several predicates: a slot for each argument.

    >>> slots_of([Type.TEXT, Type.INT, Type.TEXT])
    ('text1', 'int1', 'text2')
    """
    counts: dict[Type, int] = {}
    slots: list[str] = []
    for type_ in types:
        counts[type_] = counts.get(type_, 0) + 1
        slots.append(f"{type_.value}{counts[type_]}")
    return tuple(slots)


# In Python


def chunk(tick: int) -> int:
    """The first tick of the chunk a tick is in.

    >>> chunk(61), chunk(-1)
    (60, -60)
    """
    return tick - tick % CHUNK


def bit(tick: int) -> int:
    """The bit of a tick within its chunk.

    >>> bit(0), bit(62), bit(-60)
    (1, 4, 1)
    """
    return 1 << tick % CHUNK


def ticks_of(first: int, bits: int) -> Iterator[int]:
    """The ticks that a chunk and its bits stand for, in order.

    >>> list(ticks_of(60, 0b1001))
    [60, 63]
    """
    while bits:
        lowest = bits & -bits
        yield first + lowest.bit_length() - 1
        bits ^= lowest


def pack(times: Mapping[int, Iterable[tuple[T, ...]]]) -> list[tuple[T | int, ...]]:
    """Rows by tick as packed rows.

    >>> pack({0: [("a",)], 2: [("a",), ("b",)], 60: [("a",)]})
    [('a', 0, 5), ('b', 0, 4), ('a', 60, 1)]
    """
    packed: dict[tuple[tuple[T, ...], int], int] = {}
    for tick, rows in times.items():
        first, one = chunk(tick), bit(tick)
        for row in rows:
            packed[row, first] = packed.get((row, first), 0) | one
    return [(*row, first, bits) for (row, first), bits in packed.items()]


def unpack(rows: Iterable[tuple[Any, ...]]) -> dict[int, set[tuple[Value, ...]]]:
    """Packed rows by tick.

    >>> unpack([("a", 0, 5), ("a", 60, 1)])
    {0: {('a',)}, 2: {('a',)}, 60: {('a',)}}
    """
    times: dict[int, set[tuple[Value, ...]]] = {}
    for *row, first, bits in rows:
        for tick in ticks_of(first, bits):
            times.setdefault(tick, set()).add(tuple(row))
    return times


# As SQL over the columns c and b, and over a column t of ticks

# How many facts packed rows hold.
COUNT = "CAST(coalesce(sum(bit_count(b)), 0) AS BIGINT)"


def place_sql(tick: str = "t", *, below_zero: bool = True) -> str:
    """How far into its chunk a tick lies; both engines truncate towards zero.

    >>> place_sql(), place_sql(below_zero=False)
    ('((t % 60) + 60) % 60', 't % 60')
    """
    return f"(({tick} % {CHUNK}) + {CHUNK}) % {CHUNK}" if below_zero else f"{tick} % {CHUNK}"


def bit_sql(place: str) -> str:
    """The bit at a place in a chunk."""
    return f"CAST(1 AS BIGINT) << CAST({place} AS INT)"


def pack_sql(
    values: Sequence[str],
    names: Sequence[str],
    source: str,
    *,
    below_zero: bool = True,
    merged: bool = True,
    each: Mapping[str, str] | None = None,
) -> str:
    """Facts as packed rows: `values`, named `names`, from a source with ticks t.

    Unless `merged`, a row for each fact is left, with one bit and its tick t. In place of b there
    may be several columns, `each` with the bits of those facts that meet a condition on the source.
    """
    chosen = each or {}
    inner = _list(
        [*values, "t", f"{place_sql(below_zero=below_zero)} AS i"],
        *(f"{condition} AS {name}_is" for name, condition in chosen.items()),
    )
    one = bit_sql("i")
    bits = {name: f"CASE WHEN {name}_is THEN {one} ELSE 0 END" for name in chosen} or {"b": one}
    if merged:
        bits = {name: f"bit_or({value})" for name, value in bits.items()}
    told = () if merged else ("t",)
    made = [*names, "t - i AS c", *(f"{value} AS {name}" for name, value in bits.items()), *told]
    rows = f"SELECT {_list(made)}\nFROM (SELECT {inner} FROM {source}) AS x"
    return f"{rows}\nGROUP BY {_list(names, 't - i')}" if merged else rows


def density_sql(values: Sequence[str], names: Sequence[str], source: str) -> str:
    """How many facts a source has, and how many packed rows they would make (DuckDB only)."""
    inner = f"SELECT {_list(values, f't // {CHUNK} AS c')} FROM {source}"
    grouped = f"SELECT count(*) AS n FROM ({inner}) AS x GROUP BY {_list(names, 'c')}"
    return f"SELECT CAST(coalesce(sum(n), 0) AS BIGINT), count(*) FROM ({grouped}) AS g"


def first_facts_sql(values: Sequence[str], names: Sequence[str], source: str, most: int) -> str:
    """Of some facts of a source: their number, packed rows, objects, and ticks (DuckDB only)."""
    inner = f"SELECT {_list(values, 't')} FROM {source} LIMIT {most}"
    packed = f"SELECT {_list(names, 'count(*) AS n', 'min(t) AS low', 'max(t) AS high')}"
    grouped = f"{packed} FROM ({inner}) AS x GROUP BY {_list(names, f't // {CHUNK}')}"
    objects = f"count(DISTINCT ({', '.join(names)}))" if names else "1"
    return (
        f"SELECT CAST(coalesce(sum(n), 0) AS BIGINT), count(*), {objects},"
        f" coalesce(max(high) - min(low), 0) FROM ({grouped}) AS g"
    )


def in_chunks_sql(chunks: Iterable[int]) -> str:
    """The condition that a tick is in one of some chunks, given by their first ticks.

    >>> in_chunks_sql([0, 120])
    '(t BETWEEN 0 AND 59 OR t BETWEEN 120 AND 179)'
    """
    return f"({' OR '.join(f't BETWEEN {c} AND {c + CHUNK - 1}' for c in chunks)})"


def unpack_sql(names: Sequence[str], source: str) -> str:
    """Packed rows of a source as a row for each tick, with the tick as t."""
    places = ", ".join(f"({i})" for i in range(CHUNK))
    return (
        f"SELECT {_list(names, 'c + i AS t')} FROM {source}, (VALUES {places}) AS n(i)"
        f" WHERE {HAS_PLACE}"
    )


# Whether the bit at the place i is set.
HAS_PLACE = "((b >> CAST(i AS INT)) & 1) = 1"


def stretches_sql(names: Sequence[str], source: str) -> str:
    """The longest stretches of ticks at which packed rows hold, each as `first` and `last`.

    Of a chunk there must be one row at most. In a word the bits are looked for that have no
    neighbour before them, and those that have none after them; a row is made for each of the
    former, and not for every tick.
    """
    window = f"(PARTITION BY {_list(names)} ORDER BY c)" if names else "(ORDER BY c)"
    top = CHUNK - 1
    before = f"CASE WHEN lag(c) OVER w = c - {CHUNK} THEN lag(b) OVER w >> {top} ELSE 0 END"
    after = f"CASE WHEN lead(c) OVER w = c + {CHUNK} THEN (lead(b) OVER w & 1) << {top} ELSE 0 END"
    edges = (
        f"SELECT {_list(names, 'c')}, b & ~((b << 1) | {before}) AS s,"
        f" b & ~((b >> 1) | {after}) AS e FROM {source} WINDOW w AS {window}"
    )
    # Between a stretch's first word and its last one there are words without any edge.
    end = f"CASE WHEN e <> 0 THEN c + {_lowest('e')} END"
    words = (
        f"SELECT {_list(names, 'c', 's', 'e')}, lead({end}) OVER {window} AS f"
        f" FROM ({edges}) AS x WHERE s <> 0 OR e <> 0"
    )
    places = ", ".join(f"({i})" for i in range(CHUNK))
    rest = "(e >> CAST(i AS INT))"
    last = f"CASE WHEN {rest} <> 0 THEN c + i + {_lowest(rest)} ELSE f END"
    ends = ("CAST(c + i AS BIGINT) AS first", f"CAST({last} AS BIGINT) AS last")
    return (
        f"SELECT {_list(names, *ends)} FROM (SELECT * FROM ({words}) AS y WHERE s <> 0) AS z,"
        f" (VALUES {places}) AS n(i) WHERE ((s >> CAST(i AS INT)) & 1) = 1"
    )


def _lowest(bits: str) -> str:
    """The place of the lowest bit that is set."""
    return f"bit_count(({bits} & -{bits}) - 1)"


# The first tick at which a packed row holds.
FIRST_TICK = f"c + {_lowest('b')}"


def holds_at_sql(tick: int, table: str = "") -> str:
    """The condition that a packed row holds at a tick.

    >>> holds_at_sql(62), holds_at_sql(-1, "x")
    ('c = 60 AND (b & 4) <> 0', 'x.c = -60 AND (x.b & 576460752303423488) <> 0')
    """
    dot = f"{table}." if table else ""
    return f"{dot}c = {chunk(tick)} AND ({dot}b & {bit(tick)}) <> 0"


def chunks_sql(low: int, high: int) -> str:
    """The condition that a row's chunk has ticks from one tick to another.

    >>> chunks_sql(-1, 130)
    'c >= -60 AND c <= 120'
    """
    return f"c >= {chunk(low)} AND c <= {chunk(high)}"


def mask_sql(low: int, high: int) -> str:
    """The bits of a chunk that lie between two ticks, both included.

    >>> mask_sql(1, 2), mask_sql(0, 119)
    ('6', '1152921504606846975')
    >>> mask_sql(59, 300)
    'CASE c WHEN 0 THEN 576460752303423488 WHEN 300 THEN 1 ELSE 1152921504606846975 END'
    """
    first = FULL & ~(bit(low) - 1)
    last = 2 * bit(high) - 1
    if chunk(low) == chunk(high):
        return str(first & last)
    ends = {chunk(low): first, chunk(high): last}
    cases = "".join(f" WHEN {c} THEN {bits}" for c, bits in ends.items() if bits != FULL)
    return f"CASE c{cases} ELSE {FULL} END" if cases else str(FULL)


def spread_sql(parts: int) -> str:
    """A number from 0 on for the chunk of a row: chunks take turns among so many parts."""
    around = CHUNK * parts
    return f"CAST((c % {around} + {around}) / {CHUNK} % {parts} AS INT)"


def restrict_sql(names: Sequence[str], table: str, low: int, high: int) -> str:
    """What packed rows hold between two ticks."""
    return (
        f"SELECT {_list(names, 'c', 'b')} FROM (SELECT {_list(names, 'c')},"
        f" b & {mask_sql(low, high)} AS b FROM {table}"
        f" WHERE {chunks_sql(low, high)}) AS m WHERE b <> 0"
    )


def merge_sql(names: Sequence[str], rows: str, within: tuple[int, int] | None) -> str:
    """Packed rows of a select, of which several may be for one chunk, as one row for each.

    With two ticks, only what holds between them.
    """
    if within is None:
        return (
            f"SELECT {_list(names, 'c')}, bit_or(b) AS b FROM (\n{indent(rows, '  ')}\n) AS u\n"
            f"GROUP BY {_list(names, 'c')}"
        )
    return (
        f"SELECT {_list(names, 'c', 'b')} FROM (\n"
        f"  SELECT {_list(names, 'c')}, bit_or(b) & {mask_sql(*within)} AS b FROM (\n"
        f"{indent(rows, '    ')}\n  ) AS u\n"
        f"  WHERE {chunks_sql(*within)}\n"
        f"  GROUP BY {_list(names, 'c')}\n) AS m WHERE b <> 0"
    )


def shift_sql(names: Sequence[str], table: str, by: int, *, single: bool = False) -> str:
    """A table moved by some ticks: whole chunks by adding to c, the rest by moving bits.

    Where each row is known to hold a `single` bit, that bit stays in its chunk or leaves it.

    >>> shift_sql(["a1"], "p", 120)
    '(SELECT a1, c + 120 AS c, b FROM p)'
    """
    if by == 0:
        return table
    parts = _moved(by)
    here = _plus(parts[0].chunk)
    if len(parts) == 1:
        return f"(SELECT {_list(names, _as_c(here), 'b')} FROM {table})"
    next_, stay = _plus(parts[1].chunk), parts[0].bits
    low, high = (part.sql.format("b") for part in parts)
    if single:
        stays = f"CASE WHEN (b & {stay}) <> 0 THEN"
        moved = [f"{stays} {here} ELSE {next_} END AS c", f"{stays} {low} ELSE {high} END AS b"]
        return f"(SELECT {_list(names, *moved)} FROM {table})"
    return (
        f"(SELECT {_list(names, _as_c(here), f'{low} AS b')} FROM {table}"
        f" WHERE (b & {stay}) <> 0"
        f" UNION ALL "
        f"SELECT {_list(names, _as_c(next_), f'{high} AS b')} FROM {table}"
        f" WHERE ({high}) <> 0)"
    )


def meets_in_one_grouping(shifts: Iterable[int]) -> bool:
    """Whether `meet_sql` does less than joins would: the chunks are few, and near each other.

    >>> meets_in_one_grouping([-1, 1]), meets_in_one_grouping([0, 10_000])
    (True, False)
    """
    shifts = set(shifts)
    chunks = {part.chunk for by in shifts for part in _moved(by)}
    return len(shifts) > 1 and max(chunks) - min(chunks) <= len(shifts) * CHUNK


def meet_sql(names: Sequence[str], table: str, shifts: Iterable[int]) -> str:
    """Where a table holds after each of several moves, in one grouping.

    For every chunk all words are gathered of which bits come to lie in it; then they are moved.

    >>> print(meet_sql(["a1"], "p", [0, 120]))
    (SELECT a1, c, b FROM (SELECT a1, c, w0 & w1 AS b FROM (
      SELECT a1, c, bit_or(w0) AS w0, bit_or(w1) AS w1 FROM (
        SELECT a1, c, b AS w0, CAST(0 AS BIGINT) AS w1 FROM p UNION ALL
        SELECT a1, c + 120 AS c, CAST(0 AS BIGINT) AS w0, b AS w1 FROM p
      ) AS u GROUP BY a1, c) AS w) AS m WHERE b <> 0)
    """
    moved = [_moved(by) for by in dict.fromkeys(shifts)]
    chunks = sorted({part.chunk for parts in moved for part in parts})
    words = {chunk: f"w{i}" for i, chunk in enumerate(chunks)}
    rows: list[str] = []
    for chunk in chunks:
        needed = 0
        for part in (part for parts in moved for part in parts if part.chunk == chunk):
            needed |= part.bits
        own = [f"{'b' if c == chunk else 'CAST(0 AS BIGINT)'} AS {w}" for c, w in words.items()]
        where = "" if needed == FULL else f" WHERE (b & {needed}) <> 0"
        rows.append(f"SELECT {_list(names, _as_c(_plus(chunk)), *own)} FROM {table}{where}")
    pieces = [[part.sql.format(words[part.chunk]) for part in parts] for parts in moved]
    met = " & ".join(
        piece[0] if len(piece) == 1 else f"(({piece[0]}) | ({piece[1]}))" for piece in pieces
    )
    gathered = [f"bit_or({word}) AS {word}" for word in words.values()]
    all_rows = " UNION ALL\n".join(rows)
    return (
        f"(SELECT {_list(names, 'c', 'b')} FROM (SELECT {_list(names, 'c')}, {met} AS b FROM (\n"
        f"  SELECT {_list(names, 'c', *gathered)} FROM (\n"
        f"{indent(all_rows, '    ')}\n"
        f"  ) AS u GROUP BY {_list(names, 'c')}) AS w) AS m WHERE b <> 0)"
    )


class _Moved(NamedTuple):
    """What of a word comes to lie in a chunk: how far off that is, which bits, and SQL for them."""

    chunk: int
    bits: int
    sql: str


def _moved(by: int) -> list[_Moved]:
    """A word after a move: in one chunk, or in two."""
    whole, bits = by - by % CHUNK, by % CHUNK
    if bits == 0:
        return [_Moved(whole, FULL, "{}")]
    stay = FULL >> bits  # what does not leave the chunk, cut first: shifting must not overflow
    return [
        _Moved(whole, stay, f"({{}} & {stay}) << {bits}"),
        _Moved(whole + CHUNK, FULL ^ stay, f"{{}} >> {CHUNK - bits}"),
    ]


def fill_sql(names: Sequence[str], table: str, low: int, high: int, *, forwards: bool) -> str:
    """Every tick from a fact's first one on (backwards: up to its last), in chunks of a range."""
    after = "CAST(x.f - g.c AS INT)"  # how far into the chunk at g.c the tick x.f lies
    below = f"(CAST(1 AS BIGINT) << {after}) - 1"
    if forwards:
        edge, near, inside, bits = "min", f"g.c > x.f - {CHUNK}", "g.c > x.f", f"{FULL} - ({below})"
        source, place = f"{table} AS l", "bit_count((b & -b) - 1)"
    else:
        edge, near, inside, bits = (
            "max",
            "g.c <= x.f",
            f"g.c <= x.f - {CHUNK}",
            f"({below}) * 2 + 1",
        )
        source, place = _below_highest(table, names), "bit_count(b) - 1"
    group = f" GROUP BY {', '.join(names)}" if names else ""
    first = f"SELECT {_list(names, f'{edge}(c + {place}) AS f')} FROM {source}{group}"
    chunks = f"range({chunk(low)}, {chunk(high) + CHUNK}, {CHUNK})"
    return (
        f"SELECT {_list([f'x.{n} AS {n}' for n in names], 'g.c AS c')},"
        f" CASE WHEN {inside} THEN CAST({FULL} AS BIGINT) ELSE {bits} END AS b\n"
        f"FROM ({first}) AS x, {chunks} AS g(c) WHERE {near}"
    )


def _below_highest(table: str, names: Sequence[str]) -> str:
    """The table with all bits set below the highest one of a row."""
    source = f"{table} AS h0"
    for i, step in enumerate((1, 2, 4, 8, 16, 32), 1):
        source = f"(SELECT {_list(names, 'c', f'b | (b >> {step}) AS b')} FROM {source}) AS h{i}"
    return source


def _plus(ticks: int) -> str:
    return "c" if ticks == 0 else f"c + {ticks}" if ticks > 0 else f"c - {-ticks}"


def _as_c(moved: str) -> str:
    return moved if moved == "c" else f"{moved} AS c"


def _list(names: Iterable[str], *more: str) -> str:
    return ", ".join([*names, *more])
