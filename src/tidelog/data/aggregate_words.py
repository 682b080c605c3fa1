"""What many facts add up to, a word of ticks at a time, as SQL (DuckDB only).

This is for groups that have one fact a tick at most. The facts of a group in a chunk are then a
row: a word b, whose bits say at which ticks there are facts, and the list x of their values. How
many there are up to a tick is the number of bits up to it; what they add up to is looked up, by
that number, in the list p of the sums of the first values. So only chunks are sorted and joined,
and facts are not. All sums are exact, like those of `Gathered.temporal`, and so are the answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidelog.data.aggregates import Gathered
from tidelog.data.packed import (
    CHUNK,
    FULL,
    bit_sql,
    chunk,
    chunks_sql,
    place_sql,
    restrict_sql,
)

# Values that are added up one by one; sums of so many are then added up in turn.
_BLOCK = 8
# The letter of the first place of a chunk; those of the others follow in the order of letters.
_LETTER = ord("0")


def in_words(gathered: Gathered) -> bool:
    """Whether words can tell what facts come to, if a group has one fact a tick at most."""
    if gathered.ticks == 1 or gathered.compares or gathered.parts is not None:
        return False
    return gathered.limbs.count == 1 and not gathered.limbs.infinite


def counted_words_sql(gathered: Gathered, packed: str, within: tuple[int, int]) -> str:
    """The words of groups, of packed rows; k is how many facts there are."""
    keys = ", ".join([*gathered.groups, "c"])
    rows = restrict_sql(gathered.groups, packed, *gathered.seen(within))
    return (
        f"SELECT {keys}, bit_or(b) AS b, CAST(sum(bit_count(b)) AS BIGINT) AS k"
        f" FROM ({rows}) AS r GROUP BY {keys}"
    )


def valued_words_sql(
    gathered: Gathered, facts: str, within: tuple[int, int], *, below_zero: bool = True
) -> str:
    """The words of groups and their values in order, of facts with ticks t."""
    low, high = gathered.seen(within)
    columns = ", ".join([*gathered.groups, f"{gathered.value} AS x", "t"])
    rows = (
        f"SELECT {columns}, {place_sql(below_zero=below_zero)} AS i FROM {facts} AS f"
        f" WHERE t BETWEEN {low} AND {high}"
    )
    keys = ", ".join([*gathered.groups, "t - i"])
    # A text of letters, one for each place, is made and looked at faster than a list of numbers.
    words = (
        f"SELECT {keys} AS c, bit_or({bit_sql('i')}) AS b, count(*) AS k, list(x) AS x,"
        f" string_agg(chr(CAST({_LETTER} + i AS INT)), '') AS y FROM ({rows}) AS r GROUP BY {keys}"
    )
    # Most facts come in the order of time; only other lists are sorted.
    in_order = "".join(f"\\x{_LETTER + i:x}?" for i in range(CHUNK))
    by_place = "list_select(x, list_grade_up(string_split(y, '')))"
    sorted_ = f"CASE WHEN regexp_full_match(y, '{in_order}') THEN x ELSE {by_place} END"
    kept = ", ".join([*gathered.groups, "c", "b", "k"])
    return f"SELECT {kept}, {sorted_} AS x FROM ({words}) AS w"


def one_a_tick_sql(words: str) -> str:
    """Whether no group has several facts at a tick."""
    return f"SELECT coalesce(bool_and(k = bit_count(b)), TRUE) FROM {words}"


@dataclass(frozen=True)
class WordSums:
    """What facts come to, from a table of their words."""

    gathered: Gathered
    words: str
    within: tuple[int, int]

    def packed(self) -> str:
        """Packed rows, like those of `Gathered.temporal`."""
        low, high = self.within
        groups = self.gathered.groups
        made = self.gathered.with_value(self._stretches(), ["c", "b"])
        names = [f"a{i}" for i in range(1, len(groups) + 2)]
        named = [f"{g} AS {n}" for g, n in zip([*groups, "v"], names, strict=True)]
        rows = f"(SELECT {', '.join(named)}, c, b FROM ({made}) AS m)"
        source = f"SELECT * FROM {self.words}" if not self._adds else self._with_sums()
        return (
            f"WITH words AS MATERIALIZED ({source}),\ntotals AS MATERIALIZED ({self._totals()})\n"
            f"{restrict_sql(names, rows, low, high)}"
        )

    @property
    def _adds(self) -> bool:
        return self.gathered.adds

    @property
    def _moved(self) -> tuple[int, int]:
        """How far facts leave after they came: whole chunks, in ticks, and a rest of ticks."""
        rest = self.gathered.ticks % CHUNK
        return self.gathered.ticks - rest, rest

    @property
    def _stay(self) -> int:
        """The bits of a word that leave in the earlier one of two chunks."""
        return FULL >> self._moved[1]

    def _with_sums(self) -> str:
        """The words, with the sums of the first values: of none of them, of one, and so on."""
        kept = ", ".join([*self.gathered.groups, "c", "b"])
        places = range(1, CHUNK + 1)
        first = {i: (i - 1) // _BLOCK * _BLOCK + 1 for i in places}
        value = ", ".join(f"{self.gathered.whole(f'x[{i}]')} AS e{i}" for i in places)
        within = ", ".join(f"{_plus('e', range(first[i], i + 1))} AS q{i}" for i in places)
        blocks = sorted({f for f in first.values() if f > 1})
        before = ", ".join(f"{_plus('q', range(_BLOCK, b, _BLOCK))} AS r{b}" for b in blocks)
        sums = [f"q{i}" if first[i] == 1 else f"r{first[i]} + q{i}" for i in places]
        values = f"SELECT {kept}, {value} FROM {self.words} AS w"
        in_blocks = f"SELECT {kept}, {within} FROM ({values}) AS v"
        return (
            f"SELECT {kept}, [CAST(0 AS HUGEINT), {', '.join(sums)}] AS p"
            f" FROM (SELECT *, {before} FROM ({in_blocks}) AS b) AS s"
        )

    def _parts(self, bits: str, table: str = "") -> dict[str, str]:
        """How many facts of a word there are at some of its bits, its first ones, and their sum."""
        dot = f"{table}." if table else ""
        some = f"bit_count({dot}b & {bits})"
        return {"n": some, "s": f"{dot}p[1 + {some}]"} if self._adds else {"n": some}

    def _totals(self) -> str:
        """By chunk: what has come and not left, at its end (n, s) and less before it (dn, ds).

        There is a row for each chunk in which something comes or leaves; the next one is nx.
        """
        groups = list(self.gathered.groups)
        whole, rest = self._moved
        all_, stay = self._parts(str(FULL)), self._parts(str(self._stay))
        changes = [("c", all_), (f"c + {whole}", {n: f"-{v}" for n, v in stay.items()})]
        if rest:
            carried = {n: f"{stay[n]} - {all_[n]}" for n in all_}
            changes.append((f"c + {whole + CHUNK}", carried))
        rows = " UNION ALL ".join(
            f"SELECT {', '.join([*groups, f'{c} AS c', *_as(parts)])} FROM words"
            for c, parts in changes
        )
        keys = ", ".join([*groups, "c"])
        added = ", ".join(f"sum({n}) AS d{n}" for n in all_)
        by = f"PARTITION BY {', '.join(groups)} " if groups else ""
        over = f"OVER ({by}ORDER BY c ROWS UNBOUNDED PRECEDING)"
        running = ", ".join(f"sum(d{n}) {over} AS {n}" for n in all_)
        return (
            f"SELECT *, {running}, lead(c) OVER ({by}ORDER BY c) AS nx"
            f" FROM (SELECT {keys}, {added} FROM ({rows}) AS u GROUP BY {keys}) AS d"
        )

    def _chunks(self) -> str:
        """Every chunk that is looked at, with what is there before its first tick.

        Between those with a change there may be others in which all stays as it is.
        """
        low, high = self.within
        groups = list(self.gathered.groups)
        names = ["n", "s"] if self._adds else ["n"]
        kinds = {"n": "BIGINT", "s": "HUGEINT"}
        before = [f"CAST({n} - d{n} AS {kinds[n]}) AS {n}0" for n in names]
        same = [f"CAST({n} AS {kinds[n]}) AS {n}0" for n in names]
        between = f"range(greatest(c + {CHUNK}, {chunk(low)}), least(nx, {high + 1}), {CHUNK})"
        return (
            f"SELECT {', '.join([*groups, 'c', *before])} FROM totals"
            f" WHERE {chunks_sql(low, high)} UNION ALL "
            f"SELECT {', '.join([*groups, f'unnest({between}) AS c', *same])} FROM totals"
            f" WHERE n > 0 AND nx > c + {CHUNK}"
        )

    def _stretches(self) -> str:
        """Words of ticks at which the same facts are in the window: n of them, with the sum s0.

        A stretch begins where facts come or leave, and at the first tick of a chunk.
        """
        whole, rest = self._moved
        tables = {"e": 0, "l": whole} | ({"z": whole + CHUNK} if rest else {})
        joins = "".join(self._join(table, moved) for table, moved in tables.items())
        bits = {t: f"coalesce({t}.b, CAST(0 AS BIGINT))" for t in tables}
        left = f"({bits['l']} & {self._stay}) << {rest}"
        if rest:
            left = f"(({left}) | ({bits['z']} >> {CHUNK - rest}))"
        # Where one fact comes and another one leaves, their number stays the same.
        changes = f"xor({bits['e']}, {left})" if not self._adds else f"{bits['e']} | {left}"
        kept = [f"{b} AS b{t}" for t, b in bits.items()]
        if self._adds:
            kept += [f"coalesce({t}.p, [CAST(0 AS HUGEINT)]) AS p{t}" for t in tables]
        rows = f"SELECT r.*, {', '.join(kept)}, {changes} AS m FROM ({self._chunks()}) AS r{joins}"
        places = ", ".join(f"({', '.join(map(str, row))})" for row in self._places())
        masks = ", ".join(["bit", *(f"m{t}" for t in tables)])
        after = "m & ~me"
        word = f"CASE WHEN ({after}) = 0 THEN {FULL + 1} ELSE ({after}) & -({after}) END - bit"
        columns = ", ".join([*self.gathered.groups, "c", f"{word} AS b", *self._sums(rest)])
        made = (
            f"SELECT {columns} FROM ({rows}) AS q, (VALUES {places}) AS v({masks})"
            f" WHERE ((m | 1) & bit) <> 0"
        )
        return f"SELECT * FROM ({made}) AS s WHERE n > 0"

    def _join(self, table: str, moved: int) -> str:
        same = [f"{table}.{g} = r.{g}" for g in self.gathered.groups]
        return (
            f" LEFT JOIN words AS {table} ON {' AND '.join([*same, f'{table}.c = r.c - {moved}'])}"
        )

    def _places(self) -> Iterator[list[int]]:
        """Of each tick of a chunk its bit, and the bits up to it of the words that it looks at.

        These are what comes (e), what leaves of the earlier word (l) and of the one before (z).
        """
        rest = self._moved[1]
        for i in range(CHUNK):
            masks = [(2 << i) - 1, ((2 << i) - 1) >> rest]
            if rest:
                masks.append(FULL if i >= rest else (2 << (CHUNK + i - rest)) - 1)
            yield [1 << i, *masks]

    def _sums(self, rest: int) -> list[str]:
        """What is in the window at a tick: how many facts, and what they add up to."""

        def up_to(table: str, mask: str) -> dict[str, str]:
            some = f"bit_count(b{table} & {mask})"
            return {"n": some, "s": f"p{table}[1 + {some}]"}

        parts = [("+", up_to("e", "me")), ("-", up_to("l", "ml"))]
        if rest:
            parts += [("-", up_to("z", "mz")), ("+", up_to("z", str(self._stay)))]
        names = {"n": "n", "s": "s0"} if self._adds else {"n": "n"}
        return [
            f"{n}0 {' '.join(f'{sign} {part[n]}' for sign, part in parts)} AS {name}"
            for n, name in names.items()
        ]


def _plus(name: str, numbers: range) -> str:
    return " + ".join(f"{name}{i}" for i in numbers)


def _as(values: Mapping[str, str]) -> list[str]:
    return [f"{value} AS {name}" for name, value in values.items()]
