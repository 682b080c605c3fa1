"""What many facts come to, as SQL over packed rows (DuckDB only).

Facts are added up to change points: each adds its value where it comes into the window and takes it
away where it leaves. All of that is done in integers, so that it is exact, and no order, batch or
partition makes a difference. A float is a whole number of some power of two. Numbers of very
different size would need very long integers; they are spread over limbs, `SPAN` powers of two each.
The sum of floats is their exact sum, rounded once. What stays the same over a stretch is one value
there, packed again.

An exact sum that is not rounded yet is a row for each limb, its parts (PART_COLUMNS). Their limbs
are the same whatever the other facts are, so that parts of any facts may be added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from tidelog.data.packed import CHUNK, FULL, bit_sql, chunk, place_sql, restrict_sql
from tidelog.errors import DataError
from tidelog.language.program import Measure, Type
from tidelog.logic.clause import PART_COLUMNS, Parts

# Powers of two that the numbers of one limb may differ by.
SPAN = 40
# A float of exponent E, as far as a logarithm tells, is a whole number of 2^(E - 54).
_SLACK = 54
# Of parts: the exponent at which a limb begins, so that most numbers near 1 have the same; the
# power that stands for infinite numbers; and the bits of the lower one of the integers of a sum.
_BEGIN = -20
BEYOND = 2000
LOW = 63
# Bits that a float has, and how far from 1 the power of two lies that two of them count easily.
_DIGITS = 53
_NEAR = 900
_INFINITE = "CAST('Infinity' AS DOUBLE)"


@dataclass(frozen=True)
class Limbs:
    """How floats are written as integers: in limbs, from the exponent of the smallest on.

    No sum has more than so many `bits`; `infinite` is whether some of the floats are.
    """

    lowest: int = 0
    count: int = 1
    bits: int = 127
    infinite: bool = False

    @staticmethod
    def of(lowest: int | None, highest: int | None, facts: int, infinite: int) -> Limbs:
        """Limbs for so many floats between two exponents; None where all are zero.

        >>> Limbs.of(-3, 5, 1000, 0), Limbs.of(0, 90, 1, 0).count
        (Limbs(lowest=-3, count=1, bits=74, infinite=False), 3)
        """
        if lowest is None or highest is None:
            return Limbs(infinite=bool(infinite))
        bits = highest - lowest + _SLACK + 2 + facts.bit_length()
        return Limbs(lowest, (highest - lowest) // SPAN + 1, bits, bool(infinite))

    @staticmethod
    def of_parts(
        lowest: int | None, highest: int | None, high: int, parts: int, infinite: int
    ) -> Limbs:
        """Limbs for so many parts between two powers, the greatest integer above 2^63 known.

        >>> Limbs.of_parts(-74, -34, 0, 1000, 0)
        Limbs(lowest=-20, count=2, bits=74, infinite=False)
        """
        if lowest is None or highest is None:
            return Limbs(infinite=bool(infinite))
        bits = LOW + high.bit_length() + 1 + parts.bit_length()
        return Limbs(lowest + _SLACK, (highest - lowest) // SPAN + 1, bits, bool(infinite))

    def power(self, limb: int) -> int:
        """The power of two that a limb counts."""
        return self.lowest - _SLACK + SPAN * limb


# Integers are counted in ones.
WHOLE = Limbs(_SLACK, 1)


def expect_number(type_: Type | None, measure: Measure, base: str) -> None:
    """DataError if the numbers that an aggregate adds up have no known type."""
    if type_ not in (Type.INT, Type.FLOAT):
        raise DataError(
            f"nothing says whether the values of `{base}` that `{measure}` adds up are int"
            f" or float: declare it, as in `input {base}(v: float) @ time.`"
        )


def part_power(number: int | float) -> int:
    """The power of two that the part of a number counts, as `Gathered` writes it in SQL.

    >>> part_power(7), part_power(1.5), part_power(0.0), part_power(1e300), part_power(math.inf)
    (0, -74, -74, 926, 2000)
    """
    if isinstance(number, int):
        return 0
    if math.isinf(number):
        return BEYOND
    limb = math.floor((math.log2(abs(number)) - _BEGIN) / SPAN) if number else 0
    return _BEGIN - _SLACK + SPAN * limb


def exponent_sql(value: str) -> str:
    return f"CAST(floor(log2(abs({value}))) AS INT)"


def exponents_sql(value: str, rows: str, facts_a_row: int = 1) -> str:
    """Of a column of floats: the least and the greatest exponent, how many facts there are at
    most, and how many infinite values.
    """
    size = f"abs({value})"
    finite = f"CASE WHEN {size} < {_INFINITE} THEN nullif({size}, 0) END"
    least, greatest = exponent_sql(f"min({finite})"), exponent_sql(f"max({finite})")
    return (
        f"SELECT {least}, {greatest}, count(*) * {facts_a_row},"
        f" count(*) FILTER ({size} = {_INFINITE}) FROM {rows} AS e"
    )


def part_sizes_sql(groups: int, rows: str, parts_a_row: int) -> str:
    """Of parts after so many columns of groups: what `Limbs.of_parts` asks for."""
    power, _, high, _ = _part_columns(groups)
    finite = f"FILTER ({power} <> {BEYOND})"
    return (
        f"SELECT min({power}) {finite}, max({power}) {finite},"
        f" coalesce(max(abs(CAST({high} AS HUGEINT))), 0), count(*) * {parts_a_row},"
        f" count(*) FILTER ({power} = {BEYOND}) FROM {rows} AS e"
    )


def _part_columns(groups: int) -> list[str]:
    return [f"a{groups + i}" for i in range(1, len(PART_COLUMNS) + 1)]


@dataclass(frozen=True)
class Gathered:
    """What is made of facts: a measure of a column, of each group, over the last `ticks` ticks."""

    measure: Measure
    groups: Sequence[str]  # the columns that facts are taken apart by
    value: str | None  # the column that is measured
    type: Type | None  # its type
    ticks: int
    limbs: Limbs = WHOLE
    parts: Parts | None = None

    @property
    def adds(self) -> bool:
        """Whether it adds up numbers."""
        return self.measure in (Measure.SUM, Measure.AVG)

    @property
    def compares(self) -> bool:
        """Whether it is the same of facts that are told twice."""
        return self.measure in (Measure.MIN, Measure.MAX)

    def seen(self, within: tuple[int, int]) -> tuple[int, int]:
        """First and last tick of the facts that count between two ticks."""
        low, high = within
        return low - self.ticks + 1, high

    def rigid(self, facts: str) -> str:
        """Of facts without a time."""
        by = f" GROUP BY {', '.join(self.groups)}" if self.groups else ""
        parts = ", ".join([*self.groups, *(f"{v} AS {n}" for n, v in self._parts().items())])
        rows = f"SELECT {parts} FROM {facts} AS f{by}"
        return self.with_value(f"SELECT * FROM ({rows}) AS g WHERE n > 0", [])

    def temporal(self, facts: str, within: tuple[int, int]) -> str:
        """Packed rows of what facts with ticks t come to, between two ticks.

        Facts before the first tick that is looked at are not asked for.
        """
        low, high = within
        keys = ", ".join([*self.groups, "t"])
        parts = ", ".join([keys, *(f"{v} AS {n}" for n, v in self._parts().items())])
        first, last = self.seen(within)
        seen = f"t BETWEEN {first} AND {last}"
        if self.parts is Parts.MADE:
            return self._packed(self._with_parts(f"{facts} AS f WHERE {seen}"), ())
        at_ticks = f"SELECT {parts} FROM {facts} AS f WHERE {seen} GROUP BY {keys}"
        if self.ticks == 1:
            return self._packed(self.with_value(at_ticks, ["t"]), ())
        names = list(self._parts())
        # At the tick at which facts leave there may be none that come.
        gone = [f"NULL AS {n}" for n in names]
        left = f"SELECT {', '.join([*self.groups, f't + {self.ticks} AS t', *gone])} FROM at_ticks"
        merged = [f"any_value({n}) AS {n}" for n in names]
        points = (
            f"SELECT {', '.join([keys, *merged])} FROM (SELECT * FROM at_ticks UNION ALL {left})"
            f" AS u GROUP BY {keys}"
        )
        over = self._over(f"RANGE {self.ticks - 1} PRECEDING")
        running = [f"{self.measure if n == 'm' else 'sum'}({n}) {over} AS {n}" for n in names]
        following = f"lead(t) {self._over('')} - 1 AS e"
        stretches = f"SELECT {', '.join([keys, *running, following])} FROM ({points}) AS p"
        there = (
            f"SELECT * REPLACE (greatest(t, {low}) AS t, least(e, {high}) AS e)"
            f" FROM ({stretches}) AS s WHERE n > 0 AND e >= {low} AND t <= {high}"
        )
        made = self.with_value(there, ["t", "e"])
        return f"WITH at_ticks AS ({at_ticks})\n{self._packed(made, within)}"

    def _over(self, frame: str) -> str:
        by = f"PARTITION BY {', '.join(self.groups)} " if self.groups else ""
        return f"OVER ({by}ORDER BY t {frame})"

    def _parts(self) -> dict[str, str]:
        """What is added up or compared, by name: n is how many there are."""
        parts = {"n": "count(*)"}
        if self.parts is Parts.READ:
            return self._added_parts()
        if self.compares:
            parts["m"] = f"{self.measure}({self.value})"
        elif self.adds and self.type is not Type.FLOAT:
            parts["s0"] = f"sum({self.value})"
        elif self.adds:
            if self.limbs.infinite:
                parts["i"] = f"count(*) FILTER (abs({self.value}) = {_INFINITE})"
            parts |= {f"s{i}": f"sum({self._limb(i)})" for i in range(self.limbs.count)}
        return parts

    def _added_parts(self) -> dict[str, str]:
        power, facts, high, low = _part_columns(len(self.groups))
        whole = f"CAST({high} AS HUGEINT) * {1 << LOW} + {low}"
        parts = {"n": f"sum({facts})"}
        if self.limbs.infinite:
            parts["i"] = f"count(*) FILTER ({power} = {BEYOND})"
        for i in range(self.limbs.count):
            here = f"{power} = {self.limbs.power(i)}"
            parts[f"s{i}"] = f"sum(CASE WHEN {here} THEN {whole} ELSE 0 END)"
        return parts

    def _with_parts(self, facts: str) -> str:
        """The parts of what facts add up to, by group, tick t and limb."""
        keys = ", ".join([*self.groups, "t"])
        value, power, whole = str(self.value), "0", f"CAST({self.value} AS HUGEINT)"
        if self.type is Type.FLOAT:
            limb = f"CAST(floor((log2(abs({value})) - {_BEGIN}) / {SPAN}) AS INT)"
            power = (
                f"CASE WHEN abs({value}) = {_INFINITE} THEN {BEYOND} ELSE {_BEGIN - _SLACK}"
                f" + {SPAN} * CASE WHEN {value} = 0 THEN 0 ELSE {limb} END END"
            )
            moved = f"{value} * pow(2e0, -p // 2) * pow(2e0, -p - (-p // 2))"
            whole = f"CASE WHEN p = {BEYOND} THEN 0 ELSE CAST({moved} AS HUGEINT) END"
        rows = f"SELECT *, CAST({power} AS BIGINT) AS p FROM {facts}"
        added = (
            f"SELECT {keys}, p, count(*) AS n, sum({whole}) AS s FROM ({rows}) AS r"
            f" GROUP BY {keys}, p"
        )
        high, low = f"CAST(s >> {LOW} AS BIGINT)", f"CAST(s & {(1 << LOW) - 1} AS BIGINT)"
        names = zip(("p", "n", high, low), PART_COLUMNS, strict=True)
        columns = ", ".join([keys, *(f"{value} AS {name}" for value, name in names)])
        return f"SELECT {columns} FROM ({added}) AS s"

    def _limb(self, limb: int) -> str:
        """The whole number that a float is in one of the limbs; 0 in all others."""
        here = f"{self.value} <> 0 AND abs({self.value}) < {_INFINITE}"
        if self.limbs.count > 1:
            place = f"({exponent_sql(str(self.value))} - {self.limbs.lowest}) // {SPAN}"
            here += f" AND {place} = {limb}"
        return f"CASE WHEN {here} THEN {self.whole(str(self.value), limb)} ELSE 0 END"

    def whole(self, value: str, limb: int = 0) -> str:
        """The whole number that a value is, in a limb that has room for it."""
        if self.type is not Type.FLOAT:
            return f"CAST({value} AS HUGEINT)"
        power = -self.limbs.power(limb)
        half = power // 2
        return f"CAST({value} * {_power(half)} * {_power(power - half)} AS HUGEINT)"

    def with_value(self, rows: str, more: Sequence[str]) -> str:
        """The rows with the value as column v, without those that have none."""
        match self.measure:
            case Measure.COUNT:
                value = "CAST(n AS BIGINT)"
            case Measure.MIN | Measure.MAX:
                value = "m"
            case Measure.SUM | Measure.AVG:
                return self._added(rows, more)
            case _:
                assert_never(self.measure)
        return f"SELECT {', '.join([*self.groups, *more, f'{value} AS v'])} FROM ({rows}) AS r"

    def _added(self, rows: str, more: Sequence[str]) -> str:
        named = [*self.groups, *more]
        if self.type is not Type.FLOAT and self.measure is Measure.SUM:
            made = f"SELECT {', '.join([*named, 'TRY_CAST(s0 AS BIGINT) AS v'])} FROM ({rows}) AS r"
            return f"SELECT * FROM ({made}) AS v WHERE v IS NOT NULL"
        finite = " WHERE i = 0" if self.type is Type.FLOAT and self.limbs.infinite else ""
        limbs = [f"s{i}" for i in range(self.limbs.count)]
        kept = [*named, "n", *limbs]
        made = _rounded(f"SELECT {', '.join(kept)} FROM ({rows}) AS r{finite}", self.limbs)
        value = "v / n + 0e0" if self.measure is Measure.AVG else "v + 0e0"
        return (
            f"SELECT {', '.join([*named, f'{value} AS v'])} FROM ({made}) AS v"
            f" WHERE abs(v) < {_INFINITE}"
        )

    def _packed(self, rows: str, within: tuple[int, int] | tuple[()]) -> str:
        """Rows with a value v, or parts, from tick t to tick e (without one: at t), packed."""
        made = PART_COLUMNS if self.parts is Parts.MADE else ("v",)
        names = [f"{g} AS a{i}" for i, g in enumerate([*self.groups, *made], 1)]
        if not within:
            one = f"SELECT *, {place_sql()} AS i FROM ({rows}) AS q"
            packed = ", ".join([*names, "t - i AS c", f"{bit_sql('i')} AS b"])
            return f"SELECT {packed} FROM ({one}) AS w"
        begun = f"SELECT *, t - ({place_sql()}) AS c FROM ({rows}) AS q"
        most = min((self.ticks + CHUNK - 2), (chunk(within[1]) - chunk(within[0]))) // CHUNK + 2
        at = f"c + {CHUNK} * k"
        word = f"({_up_to(f'(e - ({at}))')}) & ~({_up_to(f'(t - ({at}) - 1)')})"
        return (
            f"SELECT {', '.join([*names, f'{at} AS c', f'{word} AS b'])}"
            f" FROM ({begun}) AS w, range({most}) AS n(k) WHERE {at} <= e"
        )


def _up_to(place: str) -> str:
    """The bits of a word up to a place, which may lie before or after the word."""
    bits = f"({bit_sql(f'{place} + 1')}) - 1"
    return (
        f"CASE WHEN {place} < 0 THEN CAST(0 AS BIGINT)"
        f" WHEN {place} >= {CHUNK - 1} THEN CAST({FULL} AS BIGINT) ELSE {bits} END"
    )


def _power(exponent: int) -> str:
    """A power of two that a float has."""
    return repr(math.ldexp(1.0, exponent)) if exponent else "1e0"


def _let(sql: str, **values: str) -> str:
    """A select with new columns."""
    given = ", ".join(f"{value} AS {name}" for name, value in values.items())
    return f"SELECT *, {given} FROM ({sql}) AS z"


def _rounded(rows: str, limbs: Limbs) -> str:
    """The rows with the number that their limbs are, rounded once to a float, as v.

    A number is told by its sign, an integer `a` of 120 bits at most, the power `x` of two that it
    counts, and whether there is a rest below that.
    """
    power = limbs.power(0)
    if limbs.count == 1 and limbs.bits <= 2 * _DIGITS and -_NEAR < power < _NEAR:
        # Two floats that are exact have a sum that is rounded once.
        high, low = f"s0 >> {_DIGITS}", f"s0 & CAST({(1 << _DIGITS) - 1} AS HUGEINT)"
        one, other = (_power(power + _DIGITS), _power(power))
        return _let(rows, v=f"CAST({high} AS DOUBLE) * {one} + CAST({low} AS DOUBLE) * {other}")
    if limbs.count == 1:
        sql = _let(
            rows, a="abs(s0)", sign="sign(s0)", x=f"CAST({limbs.power(0)} AS INT)", rest="FALSE"
        )
    else:
        sql = _digits(rows, limbs)
    # 60 to 62 bits, the last of which stands for all that is cut off: this is rounded once.
    bits = "CASE WHEN a = 0 THEN 0 ELSE CAST(floor(log2(CAST(a AS DOUBLE))) AS INT) - 60 END"
    sql = _let(sql, cut=f"greatest(0, {bits})")
    sql = _let(sql, unit="CAST(1 AS HUGEINT) << cut")
    odd = "CASE WHEN rest OR (a & (unit - 1)) <> 0 THEN 1 ELSE 0 END"
    sql = _let(sql, q=f"CAST(a >> cut AS BIGINT) | CAST({odd} AS BIGINT)", h="(x + cut) // 2")
    return _let(sql, v="sign * CAST(q AS DOUBLE) * pow(2e0, h) * pow(2e0, x + cut - h)")


def _digits(rows: str, limbs: Limbs) -> str:
    """Limbs as digits of one number: what a limb has too much of belongs to the next one.

    The last of all has the sign, and there is room for it. Of the first digit that is not 0, and
    the two below it, an integer is made.
    """
    added = ", ".join([*(f"s{i}" for i in range(limbs.count)), "0", "0", "0", "0"])
    sql = _let(rows, w=f"CAST([0, 0, {added}] AS HUGEINT[])")
    sql = _let(sql, d=_carried("w"))
    sql = _let(sql, sign="CASE WHEN d[-1] < 0 THEN -1 ELSE 1 END")
    turned = _carried("list_transform(w, lambda y: -y)")
    sql = f"SELECT * REPLACE (CASE WHEN sign < 0 THEN {turned} ELSE d END AS d) FROM ({sql}) AS z"
    first = "list_max(list_transform(d, lambda y, j: CASE WHEN y <> 0 THEN j ELSE 3 END))"
    sql = _let(sql, k=f"CAST({first} AS INT)")
    return _let(
        sql,
        a=f"(d[k] << {2 * SPAN}) + (d[k - 1] << {SPAN}) + d[k - 2]",
        x=f"{limbs.power(0)} + {SPAN} * (k - 5)",
        rest="list_max(list_transform(d, lambda y, j: j < k - 2 AND y <> 0))",
    )


def _carried(limbs: str) -> str:
    """Limbs, all but the last one between 0 and the next one's unit."""
    own = f"y[-1] & CAST({(1 << SPAN) - 1} AS HUGEINT)"
    step = f"list_concat(y[:-2], [{own}, z[1] + (y[-1] >> {SPAN})])"
    return f"list_reduce(list_transform({limbs}, lambda y: [y]), lambda y, z: {step})"


__all__ = [
    "BEYOND",
    "LOW",
    "WHOLE",
    "Gathered",
    "Limbs",
    "expect_number",
    "exponents_sql",
    "part_power",
    "restrict_sql",
]
