"""Rows of an input that are not told apart: equal rows that a rule counts, and values of one tick
of which a rule carries each on (`language/last_values.py`).

Facts are a set, and a tick has no order. Both are lost in silence unless somebody looks: a query
looks at the first rows of such inputs, in SQL for DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.data.schema import Schema
from tidelog.data.ticks import Range
from tidelog.errors import listed, warn
from tidelog.language.last_values import last_values
from tidelog.language.program import Measure, Program, Rule

# Rows of an input that are looked at.
MOST = 250_000
# How far an estimate may be from the truth.
_DOUBT = 0.05
_FACTS = (Measure.COUNT, Measure.SUM, Measure.AVG)


@dataclass(frozen=True)
class Repeats:
    """Rows of one tick that agree in some columns; with `values`, and differ in these.

    `carried` is the predicate that carries the values on, if that is what makes them matter.
    """

    input: str
    keys: tuple[int, ...]
    values: tuple[int, ...] = ()
    carried: str | None = None

    def sql(self, source: str, rows: int, range_: Range) -> str:
        """How many rows are looked at, and how many of them agree with another."""
        where, limit = "", ""
        if rows > MOST and range_.finite and not range_.empty:
            width = max(1, int(range_.high - range_.low + 1) * MOST // rows)
            where = f" WHERE t < {int(range_.low) + width}"
            limit = f" LIMIT {MOST}"
        keys = ", ".join([*(f"a{i + 1}" for i in self.keys), "t"])
        differ = " OR ".join(f"min(a{i + 1}) <> max(a{i + 1})" for i in self.values) or "n > 1"
        groups = f"SELECT count(*) AS n, {differ} AS again FROM {self._some(source, where, limit)}"
        return (
            "SELECT coalesce(sum(n), 0), coalesce(sum(n) FILTER (again), 0)"
            f" FROM ({groups} GROUP BY {keys}) AS x"
        )

    def _some(self, source: str, where: str, limit: str) -> str:
        columns = [f"a{i + 1}" for i in sorted({*self.keys, *self.values})]
        return f"(SELECT {', '.join([*columns, 't'])} FROM {source}{where}{limit}) AS y"

    def warn(self, schema: Schema, again: int, rows: int, of: int) -> None:
        """Say that so many of the rows looked at, of so many in all, are not told apart."""
        if not again:
            return
        names = [column.name for column in schema.columns]
        all_ = f"{rows:,}" if rows >= of else f"the first {rows:,}"
        if self.carried is None:
            where = "all declared columns" if schema.declared else "all columns"
            warn(
                f"{again:,} of {all_} rows of `{self.input}` are equal to another in {where}; equal"
                " rows are one fact, and a rule counts them: declare a column that tells them"
                " apart, such as an id"
            )
            return
        same = listed([*(names[i] for i in self.keys), str(schema.time)])
        warn(
            f"{again:,} of {all_} rows of `{self.input}` share {same} with a row of another"
            f" {listed(names[i] for i in self.values)}; `{self.carried}` carries each of them on:"
            " take shorter ticks, or let a rule choose one"
        )

    def warn_about(self, schema: Schema, rows: int, facts: int) -> None:
        """Say the same where different rows were only estimated; few more or less say nothing."""
        if facts < rows * (1 - _DOUBT):
            where = "all declared columns" if schema.declared else "all columns"
            warn(
                f"about {100 - 100 * facts // rows}% of {rows:,} rows of `{self.input}` repeat"
                f" another in {where}; equal rows are one fact, and a rule counts them: declare a"
                " column that tells them apart, such as an id"
            )


def repeats_of(program: Program, queries: Iterable[str]) -> tuple[Repeats, ...]:
    """What to look for in the inputs that some queries need.

    >>> from tidelog.language.checks import check
    >>> text = "input E(x: text, v: int) @ t. N(K) @ T :- E(_, _) @ T, K = count(E(_, _) @ T)."
    >>> repeats_of(check(text).accepted(), ["N"])
    (Repeats(input='E', keys=(0, 1), values=(), carried=None),)
    """
    heads: dict[str, list[Rule]] = {}
    for rule in program.rules:
        heads.setdefault(rule.head.predicate, []).append(rule)
    needed = [rule for name in _below(queries, heads) for rule in heads.get(name, ())]
    aggregated = [literal for rule in needed for literal in rule.aggregated]
    counted = [x.atom.predicate for x in aggregated if x.aggregate.measure in _FACTS]
    inputs = {
        atom.predicate: len(atom.args)
        for rule in needed
        for atom in rule.atoms
        if atom.time is not None and atom.predicate not in (*heads, *program.clocks)
    }
    found = [
        Repeats(name, tuple(range(inputs[name])))
        for name in _below(counted, heads)
        if name in inputs
    ]
    found += [
        Repeats(last.input, last.keys, last.values, last.rule.head.predicate)
        for last in last_values(needed, heads)
        if last.direct and last.input in inputs
    ]
    return tuple(dict.fromkeys(found))


def _below(names: Iterable[str], heads: Mapping[str, list[Rule]]) -> dict[str, None]:
    """The predicates that some need, themselves first; what is after `not` is not counted."""
    seen = dict.fromkeys(names)
    waiting = list(seen)
    while waiting:
        for rule in heads.get(waiting.pop(), ()):
            atoms = (*rule.positive, *(literal.atom for literal in rule.aggregated))
            for name in (atom.predicate for atom in atoms):
                if name not in seen:
                    seen[name] = None
                    waiting.append(name)
    return seen
