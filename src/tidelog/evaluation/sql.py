"""SQL over packed time: one text that DuckDB and Spark both run. Nothing here opens a connection.

A temporal relation has columns `a1..an, c, b`: c is the first tick of a chunk of 60, and bit i of b
says that the fact holds at c + i. Conjunction is `&`, union is `bit_or`, `@ T+k` is a shift with
carry into the next chunk. Because `&` distributes over `|`, several rows for a chunk do no harm in
a join; they are merged once per predicate. What must be absent is merged first and then taken away
with `& ~`, where several rows would do harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import indent
from typing import TypeAlias, assert_never

from tidelog.data.aggregate_words import (
    WordSums,
    counted_words_sql,
    in_words,
    valued_words_sql,
)
from tidelog.data.aggregates import (
    WHOLE,
    Gathered,
    Limbs,
    expect_number,
    exponents_sql,
    part_sizes_sql,
)
from tidelog.data.packed import (
    CHUNK,
    COUNT,
    bit,
    bit_sql,
    chunk,
    columns,
    density_sql,
    fill_sql,
    first_facts_sql,
    holds_at_sql,
    in_chunks_sql,
    meet_sql,
    meets_in_one_grouping,
    merge_sql,
    pack_sql,
    place_sql,
    restrict_sql,
    shift_sql,
    stretches_sql,
    unpack_sql,
)
from tidelog.data.types import SQL_TYPES
from tidelog.data.windows import window_sql
from tidelog.evaluation.arithmetic_sql import calculation_sql, checks_sql
from tidelog.evaluation.one_pass import ScanGroup
from tidelog.evaluation.plan import (
    Derive,
    Fill,
    Fixpoint,
    Gather,
    Join,
    Operand,
    Plan,
    Scan,
    Stop,
    constants,
    only_meets,
    shifts_of_one_table,
)
from tidelog.evaluation.ranges import Range
from tidelog.language.program import (
    INT_MIN,
    Calculation,
    Comparison,
    Constant,
    Expression,
    Operator,
    Term,
    Type,
    Variable,
)
from tidelog.logic.clause import AT_HEAD, FixedTick, Free, Head, Offset, Over, Parts, Rigid
from tidelog.logic.core import Predicate

# By the variable that a time hangs on (None: the head's time): the chunk and the bits of a match.
_Times: TypeAlias = Mapping[str | None, tuple[str, str]]

# An input, of which some columns are kept.
Projection: TypeAlias = tuple[str, tuple[int, ...]]

# Text constants that cannot stand in a SQL text of either engine: `tidelog_text(i, v)`.
TEXTS = "tidelog_text"


class Writer:
    """Writes the SQL of one plan. `texts` must be offered to the engine as table TEXTS."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        awkward = [
            c.value
            for c in constants(plan.steps)
            if isinstance(c.value, str) and not _plain(c.value)
        ]
        self.texts: dict[str, int] = {value: i for i, value in enumerate(awkward)}
        self.unpacked: set[str] = set()  # tables whose rows hold one bit each, with its tick t
        self.unmerged: set[str] = set()  # other tables that may have several rows for a chunk
        self.copied: dict[str, str] = {}  # views that rename a table, and which
        self.extents: dict[str, tuple[int | float, int | float]] = {}  # of tables' last arguments
        self.packed: dict[Projection, str] = {}  # selects of what was packed on the way already
        # Where work is split: every partition can derive what rests on no temporal facts; this
        # makes of a select of such facts one that keeps those of a single partition.
        self.own: Callable[[Predicate, str], str] | None = None
        # Tables to look at in place of others where absence is asked for.
        self.absent: dict[str, str] = {}

    # Literals

    def constant(self, constant: Constant) -> str:
        value = constant.value
        match value:
            case bool():
                return "TRUE" if value else "FALSE"
            case int():
                text = f"({INT_MIN + 1} - 1)" if value == INT_MIN else str(value)
                return f"CAST({text} AS BIGINT)"
            case float():
                text = repr(value)
                return text if "e" in text else f"{text}e0"
            case str():
                if value in self.texts:
                    return f"(SELECT v FROM {TEXTS} WHERE i = {self.texts[value]})"
                return f"'{value}'"

    def compare(self, comparison: Comparison, bound: Mapping[str, str]) -> str:
        operator = "<>" if comparison.operator is Operator.NE else comparison.operator.value
        left = self.expression(comparison.left, bound)
        right = self.expression(comparison.right, bound)
        checks = dict.fromkeys(self._checks(comparison, bound))
        return " AND ".join([*checks, f"{left} {operator} {right}"])

    def _checks(self, comparison: Comparison, bound: Mapping[str, str]) -> Iterator[str]:
        """The conditions for what a comparison calculates to have a value."""
        for side in (comparison.left, comparison.right):
            yield from checks_sql(side, lambda term: self.term(term, bound))

    def expression(self, expression: Expression, bound: Mapping[str, str]) -> str:
        if isinstance(expression, Calculation):
            return calculation_sql(expression, lambda term: self.term(term, bound))
        return self.term(expression, bound)

    def term(self, term: Term, bound: Mapping[str, str]) -> str:
        return bound[term.name] if isinstance(term, Variable) else self.constant(term)

    # Scans

    def scan(self, scan: Scan) -> str:
        """Select and project an input, then pack it; if `unpacked`, a row per fact is left."""
        if not scan.predicate.temporal:
            kept = _kept(scan) or [_ONE]
            return f"SELECT DISTINCT {', '.join(kept)}\nFROM {self._taken([scan])}"
        range_ = self.plan.ranges[scan.predicate.name]
        if range_.empty:
            return self.empty(narrowed(scan.predicate, scan.columns))
        return pack_sql(
            _kept(scan),
            columns(len(scan.columns)),
            self._taken([scan]),
            below_zero=range_.low < 0,
            merged=scan.name not in self.unpacked,
        )

    def selects_all(self, scan: Scan) -> bool:
        """Whether a scan takes every fact of its input that the rules look at."""
        return scan.predicate.temporal and [] in self._conditions(scan)

    def scan_group(self, group: ScanGroup) -> str:
        """Scans packed together; if they are `unpacked`, a row per fact is left."""
        first = group.scans[0]
        range_ = self.plan.ranges[first.predicate.name]
        return pack_sql(
            _kept(first),
            columns(len(first.columns)),
            self._taken(group.scans),
            below_zero=range_.low < 0,
            merged=first.name not in self.unpacked,
            each={group.bits(scan): _any(self._conditions(scan)) for scan in group.scans},
        )

    def scan_of_group(self, scan: Scan, group: ScanGroup) -> str:
        """One scan of those that were packed together."""
        bits = group.bits(scan)
        tick = ("t",) if scan.name in self.unpacked else ()
        names = _list(columns(len(scan.columns)), "c", f"{bits} AS b", *tick)
        return f"SELECT {names} FROM {group.table} WHERE {bits} <> 0"

    def density(self, scans: Sequence[Scan], chunks: Iterable[int]) -> str:
        """How many facts scans of the same columns select in some chunks, and in how many rows."""
        names = columns(len(scans[0].columns))
        return density_sql(_kept(scans[0]), names, self._taken(scans, in_chunks_sql(chunks)))

    def first_facts(self, scans: Sequence[Scan], most: int) -> str:
        """Of some facts that scans of the same columns select: how many there are, in how many
        packed rows, of how many objects, and over how many ticks (DuckDB only)."""
        names = columns(len(scans[0].columns))
        return first_facts_sql(_kept(scans[0]), names, self._taken(scans), most)

    def _taken(self, scans: Sequence[Scan], *more: str) -> str:
        """The input of some scans, with the conditions for a row to be taken by one of them."""
        predicate = scans[0].predicate
        ways = [way for scan in scans for way in self._conditions(scan)]
        where = ways[0] if len(ways) == 1 else [f"({_any(ways)})"] if all(ways) else []
        range_ = self.plan.ranges.get(predicate.name)
        if more:
            where = [*where, *more]
        elif range_ is not None:
            where = [*where, *_within(range_, self.plan.data.get(predicate.name, range_))]
        return f"{self.plan.inputs[predicate.name]}{_where(where)}"

    def _conditions(self, scan: Scan) -> list[list[str]]:
        """The conditions of each selection of a scan."""
        ways: list[list[str]] = []
        for selection in scan.selections:
            bound: dict[str, str] = {}
            where: list[str] = []
            for i, term in enumerate(selection.premise.args, 1):
                if isinstance(term, Constant):
                    where.append(f"a{i} = {self.constant(term)}")
                elif term.name in bound:
                    where.append(f"a{i} = {bound[term.name]}")
                else:
                    bound[term.name] = f"a{i}"
            ways.append(where + [self.compare(c, bound) for c in selection.tests])
        return ways

    # Rules

    def derive(self, step: Derive) -> str:
        if step.over is not None:
            return self._window(step, step.over)
        return self.union(step.predicate, step.joins, None)

    def _window(self, step: Derive, over: Over) -> str:
        """Where what the join gives holds at enough of the last ticks."""
        clip = self._new(step.predicate)
        if clip is None or clip.empty:
            return self.empty(step.predicate)
        names = columns(len(step.predicate.types))
        if self._renames(step):
            source = step.joins[0].operands[0].table
        else:
            source = f"(\n{indent(self.union(step.predicate, step.joins, None), '  ')}\n)"
        return window_sql(names, source, over.ticks, over.least, _ends(clip))

    # Aggregates

    def exponents(self, step: Gather) -> str:
        """How large the floats are that an aggregate adds up, for `Limbs.of`."""
        rows = self._gathered_rows(step)
        if step.parts is Parts.READ:
            return part_sizes_sql(len(step.groups), rows, CHUNK)
        one = not step.facts.temporal or step.join.operands[0].table in self.unpacked
        column = f"a{(step.of or 0) + 1}"
        return exponents_sql(column, rows, 1 if one and rows[0] != "(" else CHUNK)

    def gather(self, step: Gather, limbs: Limbs, words: str | None = None) -> str:
        """What facts come to; of floats that are added up, written in limbs.

        Where there is a table of their `words`, it is read in place of the facts.
        """
        gathered, clip = _gathered(step, limbs), self._new(step.predicate)
        if not self._is_gathered(step):
            return self.empty(step.predicate)
        if gathered.adds:
            expect_number(gathered.type, step.measure, step.predicate.base)
        if clip is None:
            made = gathered.rigid(self._gathered_rows(step))
            args = zip([*gathered.groups, "v"], columns(len(step.groups) + 1), strict=True)
            return f"SELECT {', '.join(f'{a} AS {n}' for a, n in args)} FROM ({made}) AS m"
        if words is not None:
            return WordSums(gathered, words, _ends(clip)).packed()
        return gathered.temporal(self._facts_of(step, once=not gathered.compares), _ends(clip))

    def gathers_all(self, step: Gather) -> bool:
        """Whether an aggregate is of facts of all ticks that the rules look at."""
        clip, read = self._new(step.predicate), step.join.operands[0].premise.predicate
        needed = self.plan.ranges[read] & self.plan.data.get(read, self.plan.ranges[read])
        if clip is None or clip.empty or needed.empty:
            return False
        low, high = _gathered(step, WHOLE).seen(_ends(clip))
        return low <= needed.low and needed.high <= high

    def _is_gathered(self, step: Gather) -> bool:
        """Whether there are ticks at which an aggregate is asked for and may have facts."""
        clip = self._new(step.predicate)
        read = self.plan.ranges.get(step.join.operands[0].premise.predicate)
        return clip is None or not (clip.empty or read is None or read.empty)

    def gathered_words(self, step: Gather, limbs: Limbs) -> str | None:
        """The words of the facts of an aggregate; None if it is not made of words."""
        gathered, clip = _gathered(step, limbs), self._new(step.predicate)
        summed = not gathered.adds or gathered.type in (Type.INT, Type.FLOAT)
        if clip is None or not (summed and in_words(gathered) and self._names_only(step.join)):
            return None
        if not self._is_gathered(step):
            return None
        if gathered.adds:
            facts = self._facts_of(step, once=False)
            name = step.join.operands[0].premise.predicate
            # What is kept of a derived predicate lies before the ticks that it is derived at.
            derived = not self.plan.deps.core.predicates[name].input
            below_zero = derived or self.plan.ranges[name].low < 0
            return valued_words_sql(gathered, facts, _ends(clip), below_zero=below_zero)
        return counted_words_sql(gathered, step.join.operands[0].table, _ends(clip))

    def _gathered_rows(self, step: Gather) -> str:
        """The facts that an aggregate is made of: packed, or with a row each."""
        table, names = step.join.operands[0].table, columns(len(step.facts.types))
        if self._names_only(step.join):
            return table
        if not step.facts.temporal:
            return f"(SELECT DISTINCT * FROM ({self.join(step.join)}) AS j)"
        return f"({merge_sql(names, self.join(step.join), None)})"

    def _facts_of(self, step: Gather, *, once: bool) -> str:
        """The facts that an aggregate is made of, with their ticks t; each `once`, or as it is."""
        table, names = step.join.operands[0].table, columns(len(step.facts.types))
        if not self._names_only(step.join):
            return f"({unpack_sql(names, f'{self._gathered_rows(step)} AS u')})"
        if table in self.unpacked:
            return f"(SELECT DISTINCT {_list(names, 't')} FROM {table})" if once else table
        rows = unpack_sql(names, f"{table} AS u")
        several = once and table in self.unmerged
        return f"(SELECT DISTINCT * FROM ({rows}) AS d)" if several else f"({rows})"

    def is_copy(self, step: Derive) -> bool:
        """Whether a predicate merely renames one table, so that nothing need be stored."""
        return step.over is None and self._renames(step)

    def _renames(self, step: Derive) -> bool:
        """Whether all its joins do is to rename one table."""
        if len(step.joins) != 1:
            return False
        (join,) = step.joins
        tables = {operand.table for operand in join.operands}
        # Rows that are yet to be merged are not.
        return tables.isdisjoint(self.unpacked | self.unmerged) and self._names_only(join)

    def _names_only(self, join: Join) -> bool:
        """Whether a join has one table, and does nothing but name its columns."""
        (operand, *more) = join.operands or (None,)
        head = join.clause.head
        return (
            operand is not None
            and not more
            and not join.tests
            and not join.absent
            and operand.args == head.args
            and all(isinstance(t, Variable) for t in head.args)
            and len(set(head.args)) == len(head.args)
            and operand.premise.when == head.when
            and head.point is None
        )

    def union(
        self,
        predicate: Predicate,
        joins: Iterable[Join],
        clip: Range | None,
    ) -> str:
        """All clauses of a predicate, merged; within a range where one is given."""
        joins = list(joins)
        if clip is None and len(joins) == 1 and only_meets(joins[0]) and self._meets(joins[0]):
            return self.join(joins[0])  # it has one row for a chunk already
        facts = [j for j in joins if j.clause.is_fact]
        known = [self.join(j) for j in joins if not j.clause.is_fact and not _timed(j)]
        known += [self.facts(predicate, facts)] if facts else []
        if self.own is not None and predicate.temporal:
            known = [self.own(predicate, part) for part in known]
        parts = [self.join(j) for j in joins if _timed(j)] + known
        return self.merge(predicate, parts or [self.empty(predicate)], clip)

    def join(self, join: Join, replaced: Mapping[int, str] | None = None) -> str:
        """One clause as a join; `replaced` puts other tables in place of some operands."""
        if not replaced and self._meets(join):
            join = self._met(join)
        by_time = _by_time(join)
        bound: dict[str, str] = {}
        where: list[str] = []
        tables: list[str] = []
        read = [(replaced or {}).get(i, o.table) for i, o in enumerate(join.operands)]
        times: dict[str | None, tuple[str, str]] = {}
        meeting: list[str] = []
        as_they_are: set[int] = set()
        for group, members in by_time.items():
            if self.unpacked.issuperset(read[i] for i in members):
                # A row for each fact: ticks are compared, and nothing is moved.
                as_they_are.update(members)
                times[group] = self._tick(join, members, by_time)
                meeting += _same_tick(join, members, by_time)
            else:
                times[group] = (f"x{members[0]}.c", " & ".join(f"x{i}.b" for i in members))
                meeting += _overlap(members)
        for i, operand in enumerate(join.operands):
            shift = 0 if i in as_they_are else _shift(join, operand, by_time)
            tables.append(f"{self.shifted(read[i], len(operand.args), shift)} AS x{i}")
            where += self._matched(operand, f"x{i}", bound)
        where += self._in_extents(join, read)
        where += meeting
        where += [self._test(test, bound) for test in join.tests]
        from_ = f"\nFROM {', '.join(tables)}" if tables else ""
        if join.absent:
            return self._without(join, by_time, times, bound, f"{from_}{_where(where)}")
        return f"{self._head(join.clause.head, bound, times)}{from_}{_where(where)}"

    def _meets(self, join: Join) -> bool:
        """Whether all operands are one packed table at several ticks, so that no join is needed."""
        shifts = shifts_of_one_table(join)
        return meets_in_one_grouping(shifts) and join.operands[0].table not in self.unpacked

    def _met(self, join: Join) -> Join:
        """Such a join with one operand."""
        first = join.operands[0]
        met = meet_sql(columns(len(first.args)), first.table, shifts_of_one_table(join))
        here = replace(first.premise, when=AT_HEAD)
        return replace(join, operands=(replace(first, table=met, premise=here),))

    def _test(self, test: Comparison, bound: dict[str, str]) -> str:
        """The condition of a test; one that gives a variable its value adds it to those bound."""
        left = test.left
        if not isinstance(left, Variable) or left.name in bound:
            return self.compare(test, bound)
        bound[left.name] = self.expression(test.right, bound)
        checks = dict.fromkeys(self._checks(replace(test, left=test.right), bound))
        return " AND ".join(checks) or "TRUE"

    def _tick(
        self, join: Join, members: Sequence[int], by_time: Mapping[str | None, list[int]]
    ) -> tuple[str, str]:
        """The chunk and the bit of the tick at which operands with a row for each fact meet."""
        operand = join.operands[members[0]]
        shift = _shift(join, operand, by_time)
        low = self.plan.ranges[operand.premise.predicate].low + shift
        tick = f"(x{members[0]}.t + {shift})" if shift else f"x{members[0]}.t"
        place = place_sql(tick, below_zero=low < 0)
        return f"{tick} - {place}", bit_sql(place)

    def _head(self, head: Head, bound: Mapping[str, str], times: _Times) -> str:
        """The columns of what a clause derives."""
        values = [
            f"{self.term(t, bound)} AS {name}"
            for t, name in zip(head.args, columns(len(head.args)), strict=True)
        ]
        match head.when:
            case Rigid():
                values = values or [_ONE]
            case FixedTick(tick):
                values += [f"{_big(chunk(tick))} AS c", f"{_big(bit(tick))} AS b"]
            case Offset():
                first, bits = times[None]
                values += [f"{first} AS c", f"{bits} AS b"]
            case _:
                assert_never(head.when)
        return f"SELECT {', '.join(values)}"

    # Absence

    def _without(
        self,
        join: Join,
        by_time: Mapping[str | None, list[int]],
        times: _Times,
        bound: Mapping[str, str],
        matched: str,
    ) -> str:
        """What is matched, less the ticks at which something that must be absent is there."""
        asked = (t for operand in join.absent for t in operand.args)
        terms = (t for t in (*join.clause.head.args, *asked) if isinstance(t, Variable))
        names = {t.name: f"v{i}" for i, t in enumerate(dict.fromkeys(terms)) if t.name in bound}
        values = [f"{bound[name]} AS {column}" for name, column in names.items()]
        for g, (first, bits) in enumerate(times.values()):
            values += [f"{first} AS c{g}", f"{bits} AS b{g}"]
        known = {name: f"q.{column}" for name, column in names.items()}
        left = {group: (f"q.c{g}", f"q.b{g}") for g, group in enumerate(times)}
        joined: list[str] = []
        where: list[str] = []
        for n, (group, operands) in enumerate(_together(join, known).items()):
            if group.time == "":
                where.append(self._never(operands[0], known))
                continue
            there = self._there(join, by_time, operands, group.names)
            first, bits = left[group.variable]
            same = [f"n{n}.k{i} = {known[name]}" for i, name in enumerate(group.names)]
            on = " AND ".join([*same, f"n{n}.c = {first}"])
            joined.append(f"\nLEFT JOIN (\n{indent(there, '  ')}\n) AS n{n} ON {on}")
            left[group.variable] = (first, f"{bits} & ~coalesce(n{n}.b, CAST(0 AS BIGINT))")
        where += [f"({bits}) <> 0" for first, bits in left.values() if "~" in bits]
        inner = f"SELECT {', '.join(values or [_ONE])}{matched}"
        from_ = f"\nFROM (\n{indent(inner, '  ')}\n) AS q{''.join(joined)}"
        return f"{self._head(join.clause.head, known, left)}{from_}{_where(where)}"

    def _there(
        self,
        join: Join,
        by_time: Mapping[str | None, list[int]],
        operands: Sequence[Operand],
        names: Sequence[str],
    ) -> str:
        """Where some operands hold, moved to meet what they are taken away from: a row a chunk."""
        keys = [f"k{i}" for i in range(len(names))]
        parts: list[str] = []
        merged = len(operands) == 1
        for operand in operands:
            table = self.absent.get(operand.table, operand.table)
            shift = _shift(join, operand, by_time)
            source = f"{self.shifted(table, len(operand.args), shift)} AS y"
            own: dict[str, str] = {}
            where = self._matched(operand, "y", own)
            values = [f"{own[name]} AS {key}" for name, key in zip(names, keys, strict=True)]
            values += ["y.c AS c", "y.b AS b"]
            parts.append(f"SELECT {', '.join(values)} FROM {source}{_where(where)}")
            # A projection or a move makes several rows for a chunk where there was one.
            several = shift or set(own) != set(names)
            merged = merged and not several and table not in self.unpacked | self.unmerged
        return parts[0] if merged else merge_sql(keys, "\nUNION ALL\n".join(parts), None)

    def _never(self, operand: Operand, known: Mapping[str, str]) -> str:
        """The condition that no row of an operand without a moving time is there."""
        own: dict[str, str] = {}
        where = self._matched(operand, "y", own)
        shared = [name for name in own if name in known]
        values = [f"{own[name]} AS k{i}" for i, name in enumerate(shared)]
        table = self.absent.get(operand.table, operand.table)
        rows = f"SELECT {', '.join(values or [_ONE])} FROM {table} AS y{_where(where)}"
        same = " AND ".join(f"n.k{i} = {known[name]}" for i, name in enumerate(shared))
        return f"NOT EXISTS (SELECT 1 FROM ({rows}) AS n WHERE {same or 'TRUE'})"

    def _matched(self, operand: Operand, alias: str, bound: dict[str, str]) -> list[str]:
        """Conditions on the rows of an operand; columns for new variables are added to `bound`."""
        where: list[str] = []
        for name, term in zip(columns(len(operand.args)), operand.args, strict=True):
            column = f"{alias}.{name}"
            if isinstance(term, Constant):
                where.append(f"{column} = {self.constant(term)}")
            elif term.name in bound:
                where.append(f"{column} = {bound[term.name]}")
            else:
                bound[term.name] = column
        tick = operand.premise.point
        return where if tick is None else [*where, holds_at_sql(tick, alias)]

    def _in_extents(self, join: Join, read: Sequence[str]) -> Iterator[str]:
        """Conditions by which facts are left out that no value of a table can be equal to.

        They follow from the join. Said on their own they are tested while a file is read.
        """
        values = {
            operand.args[-1]: self.extents[table]
            for operand, table in zip(join.operands, read, strict=True)
            if table in self.extents
        }
        for i, operand in enumerate(join.operands):
            if read[i] not in self.unpacked or read[i] in self.extents:
                continue
            for name, term in zip(columns(len(operand.args)), operand.args, strict=True):
                if isinstance(term, Variable) and term in values:
                    low, high = (self.constant(Constant.of(end)) for end in values[term])
                    yield f"x{i}.{name} BETWEEN {low} AND {high}"

    def facts(self, predicate: Predicate, facts: Sequence[Join]) -> str:
        names = self.names(predicate)
        rows: list[str] = []
        selects: list[str] = []
        for fact in facts:
            head = fact.clause.head
            values = [self.constant(t) for t in head.args if isinstance(t, Constant)]
            if head.point is not None:
                values += [_big(chunk(head.point)), _big(bit(head.point))]
            values = values or ["1"]
            if any(isinstance(t, Constant) and t.value in self.texts for t in head.args):
                # Spark looks nothing up inside VALUES.
                named = [f"{v} AS {n}" for v, n in zip(values, names, strict=True)]
                selects.append(f"SELECT {', '.join(named)}")
            else:
                rows.append(f"({', '.join(values)})")
        if rows:
            listed = f"(VALUES {', '.join(rows)}) AS f({', '.join(names)})"
            selects.append(f"SELECT {', '.join(names)} FROM {listed}")
        return "\nUNION ALL\n".join(selects)

    def names(self, predicate: Predicate) -> list[str]:
        names = columns(len(predicate.types))
        return [*names, "c", "b"] if predicate.temporal else names or ["z"]

    def empty(self, predicate: Predicate) -> str:
        values = [
            f"CAST(NULL AS {SQL_TYPES[type_ or Type.TEXT]}) AS {name}"
            for name, type_ in zip(columns(len(predicate.types)), predicate.types, strict=True)
        ]
        if predicate.temporal:
            values += ["CAST(NULL AS BIGINT) AS c", "CAST(NULL AS BIGINT) AS b"]
        return f"SELECT {', '.join(values or [_ONE])} WHERE FALSE"

    def merge(self, predicate: Predicate, parts: Sequence[str], clip: Range | None) -> str:
        """The union of some selects, one row per fact or per chunk of a fact."""
        all_ = "\nUNION ALL\n".join(parts)
        if not predicate.temporal:
            return f"SELECT DISTINCT * FROM (\n{indent(all_, '  ')}\n) AS u"
        if clip is not None and clip.empty:
            return self.empty(predicate)
        within = None if clip is None else _ends(clip)
        return merge_sql(columns(len(predicate.types)), all_, within)

    def shifted(self, table: str, arity: int, by: int) -> str:
        """The table moved by some ticks."""
        return shift_sql(columns(arity), table, by, single=table in self.unpacked)

    # Recursion

    def start(self, step: Fixpoint, index: int) -> str:
        predicate = step.predicates[index]
        joins = [j for j in step.start if j.clause.head.predicate == predicate.name]
        return self.union(predicate, joins, self._new(predicate))

    def clip(self, predicate: Predicate) -> Range | None:
        return self.plan.ranges[predicate.name] if predicate.temporal else None

    def _new(self, predicate: Predicate, before: int = 0) -> Range | None:
        """Where a predicate is derived: after what is given of it, less some ticks `before`."""
        clip, given = self.clip(predicate), self.plan.given.get(predicate.name)
        if clip is None or given is None:
            return clip
        return clip & Range(given + 1 - before, math.inf)

    def candidates(self, step: Fixpoint, index: int, fills: Iterable[str]) -> str | None:
        """What the rules derive from what is new; `fills` are tables already carried on."""
        predicate = step.predicates[index]
        new = {table: f"{table}_new" for table in step.tables}
        parts = [
            self.join(join, {i: new[operand.table]})
            for join in step.repeat
            if join.clause.head.predicate == predicate.name
            for i, operand in enumerate(join.operands)
            if operand.table in new
        ]
        names = ", ".join(self.names(predicate))
        parts += [f"SELECT {names} FROM {table}" for table in fills]
        return self.merge(predicate, parts, self._new(predicate)) if parts else None

    def news(self, predicate: Predicate, table: str, candidates: str) -> str:
        """The candidates that the table does not hold yet."""
        names = columns(len(predicate.types))
        same = [f"o.{n} = n.{n}" for n in names]
        if not predicate.temporal:
            here = " AND ".join(same) or "TRUE"
            return (
                f"SELECT * FROM {candidates} AS n"
                f" WHERE NOT EXISTS (SELECT 1 FROM {table} AS o WHERE {here})"
            )
        kept = _list([f"n.{n} AS {n}" for n in names], "n.c AS c")
        fresh = "n.b & ~coalesce(o.b, CAST(0 AS BIGINT))"
        return (
            f"SELECT {kept}, {fresh} AS b FROM {candidates} AS n"
            f" LEFT JOIN {table} AS o ON {' AND '.join([*same, 'o.c = n.c'])}"
            f" WHERE ({fresh}) <> 0"
        )

    def merged(self, predicate: Predicate, *tables: str) -> str:
        names = ", ".join(self.names(predicate))
        return self.merge(predicate, [f"SELECT {names} FROM {t}" for t in tables], None)

    def fill_start(self, fill: Fill, table: str) -> str:
        """What a fill carries on: the new facts that its filter lets pass.

        Of those that are given only the last ones lead to ticks at which something is derived.
        """
        predicate = self.plan.deps.core.predicates[fill.predicate]
        if fill.filter is not None:
            passing = self.join(fill.filter, {0: table})
        elif fill.predicate in self.plan.given:
            passing = f"SELECT {', '.join(self.names(predicate))} FROM {table}"
        else:
            return f"SELECT * FROM {table}"
        return self.merge(predicate, [passing], self._new(predicate, fill.step))

    def fill_ever(self, fill: Fill, table: str) -> str:
        """Every tick from the first one on, or up to the last one: one row per chunk."""
        predicate = self.plan.deps.core.predicates[fill.predicate]
        range_ = self.plan.ranges[fill.predicate]
        if range_.empty:
            return self.empty(predicate)
        names = columns(len(predicate.types))
        filled = fill_sql(names, table, *_ends(range_), forwards=fill.step > 0)
        return self.merge(predicate, [filled], range_)

    def fill_guard(self, fill: Fill) -> str:
        """Where one step of a fill may arrive."""
        assert fill.guard is not None
        predicate = self.plan.deps.core.predicates[fill.predicate]
        narrow = narrowed(predicate, fill.columns)
        return self.merge(narrow, [self.join(fill.guard)], self.clip(predicate))

    def fill_guard_twice(self, fill: Fill, guard: str, step: int) -> str:
        """Where twice as many steps may arrive, `step` being the ticks they take now."""
        names = columns(len(fill.columns))
        moved = self.shifted(guard, len(names), step)
        same = "".join(f" AND y.{n} = x.{n}" for n in names)
        joined = (
            f"SELECT {_list([f'x.{n} AS {n}' for n in names], 'x.c AS c')}, x.b & y.b AS b"
            f" FROM {guard} AS x, {moved} AS y WHERE y.c = x.c{same} AND (x.b & y.b) <> 0"
        )
        predicate = self.plan.deps.core.predicates[fill.predicate]
        return self.merge(narrowed(predicate, fill.columns), [joined], None)

    def fill_step(self, fill: Fill, table: str, guard: str | None, step: int) -> str:
        """The table, and what it becomes `step` ticks further on."""
        predicate = self.plan.deps.core.predicates[fill.predicate]
        names = columns(len(predicate.types))
        more = self._fill_moved(fill, table, guard, step)
        own = f"SELECT {_list(names, 'c', 'b')} FROM {table}"
        return self.merge(predicate, [own, more], self.clip(predicate))

    def _fill_moved(self, fill: Fill, table: str, guard: str | None, step: int) -> str:
        names = columns(len(self.plan.deps.core.predicates[fill.predicate].types))
        moved = self.shifted(table, len(names), step)
        if guard is None:
            return f"SELECT {_list(names, 'c', 'b')} FROM {moved} AS x"
        kept = _list([f"x.{n} AS {n}" for n in names], "x.c AS c")
        same = "".join(
            f" AND g.{g} = x.{names[i]}"
            for g, i in zip(columns(len(fill.columns)), fill.columns, strict=True)
        )
        return (
            f"SELECT {kept}, x.b & g.b AS b FROM {moved} AS x, {guard} AS g"
            f" WHERE g.c = x.c{same} AND (x.b & g.b) <> 0"
        )

    def fill_stop(self, fill: Fill, stop: Stop) -> str:
        """Where one step of a fill must not arrive."""
        predicate = self.plan.deps.core.predicates[fill.predicate]
        table = stop.join.operands[0].table
        there = self.join(stop.join, {0: self.absent.get(table, table)})
        return self.merge(narrowed(predicate, stop.columns), [there], self.clip(predicate))

    def fill_stop_twice(self, fill: Fill, stop: Stop, table: str, step: int) -> str:
        """Where twice as many steps must not arrive, `step` being the ticks they take now."""
        names = columns(len(stop.columns))
        moved = f"SELECT * FROM {self.shifted(table, len(names), step)} AS y"
        predicate = self.plan.deps.core.predicates[fill.predicate]
        narrow = narrowed(predicate, stop.columns)
        return self.merge(narrow, [f"SELECT * FROM {table}", moved], self.clip(predicate))

    def fill_arrived(
        self, fill: Fill, table: str, guard: str | None, stops: Sequence[str], step: int
    ) -> str:
        """What of a table arrives `step` ticks further on, nothing stopping it on its way."""
        predicate = self.plan.deps.core.predicates[fill.predicate]
        names = columns(len(predicate.types))
        merged = self.merge(
            predicate, [self._fill_moved(fill, table, guard, step)], self.clip(predicate)
        )
        bits = "x.b"
        joined: list[str] = []
        for n, (stop, there) in enumerate(zip(fill.stops, stops, strict=True)):
            same = [
                f"n{n}.{own} = x.{names[i]}"
                for own, i in zip(columns(len(stop.columns)), stop.columns, strict=True)
            ]
            on = " AND ".join([*same, f"n{n}.c = x.c"])
            joined.append(f"\nLEFT JOIN {there} AS n{n} ON {on}")
            bits = f"{bits} & ~coalesce(n{n}.b, CAST(0 AS BIGINT))"
        kept = _list([f"x.{n} AS {n}" for n in names], "x.c AS c", f"{bits} AS b")
        return f"SELECT {kept} FROM (\n{merged}\n) AS x{''.join(joined)}\nWHERE ({bits}) <> 0"

    # Answers

    def answers(self, query: str) -> str:
        """The packed answers of a query within the range asked for."""
        predicate = self.plan.deps.core.predicates[query]
        names = ", ".join(self.names(predicate))
        select = f"SELECT {names} FROM {self.plan.tables[query]}"
        if not predicate.temporal:
            return select
        clip = self.plan.asked
        if clip.empty:
            return self.empty(predicate)
        table = self.plan.tables[query]
        return restrict_sql(columns(len(predicate.types)), table, *_ends(clip))

    def rows(self, query: str) -> str:
        """The answers a row each, by time and arguments."""
        predicate = self.plan.deps.core.predicates[query]
        names = columns(len(predicate.types))
        if not predicate.temporal:
            order = f" ORDER BY {', '.join(names)}" if names else ""
            return f"SELECT {', '.join(names or ['z'])} FROM ({self.answers(query)}) AS q{order}"
        rows = unpack_sql(names, f"({self.answers(query)}) AS q")
        return f"{rows} ORDER BY {_list(['t'], *names)}"

    def stretches(self, query: str) -> str:
        """From when to when answers hold, straight from the words, by the first tick."""
        predicate = self.plan.deps.core.predicates[query]
        if not predicate.temporal:
            return self.rows(query)
        names = columns(len(predicate.types))
        stretches = stretches_sql(names, f"({self.answers(query)}) AS q")
        return f"{stretches} ORDER BY {_list(['first'], *names)}"

    def count(self, query: str) -> str:
        """How many answers there are."""
        temporal = self.plan.deps.core.predicates[query].temporal
        what = COUNT if temporal else "count(*)"
        return f"SELECT {what} AS n FROM ({self.answers(query)}) AS q"


@dataclass(frozen=True)
class _Absence:
    """Operands that are taken away together: by the time they follow and their known arguments.

    `time` is empty for those at a fixed tick or without a time, which stay apart by `number`.
    """

    time: str
    variable: str | None
    names: tuple[str, ...]
    number: int = 0


def _together(join: Join, known: Mapping[str, str]) -> dict[_Absence, list[Operand]]:
    groups: dict[_Absence, list[Operand]] = {}
    for number, operand in enumerate(join.absent):
        own = (term.name for term in operand.args if isinstance(term, Variable))
        names = tuple(sorted(name for name in set(own) if name in known))
        when = operand.premise.when
        match when:
            case Offset():
                group = _Absence("head", None, names)
            case Free(variable, _):
                group = _Absence("free", variable, names)
            case FixedTick() | Rigid():
                group = _Absence("", None, names, number)
            case _:
                assert_never(when)
        groups.setdefault(group, []).append(operand)
    return groups


def _gathered(step: Gather, limbs: Limbs) -> Gathered:
    names = columns(len(step.facts.types))
    return Gathered(
        step.measure,
        [names[i] for i in step.groups],
        None if step.of is None else names[step.of],
        step.adds,
        step.ticks,
        limbs,
        step.parts,
    )


def narrowed(predicate: Predicate, positions: Sequence[int]) -> Predicate:
    """The predicate with only some of its arguments."""
    return replace(predicate, types=tuple(predicate.types[i] for i in positions))


_ONE = "1 AS z"


def _kept(scan: Scan) -> list[str]:
    """The columns that a scan keeps."""
    names = columns(len(scan.columns))
    return [f"a{i + 1} AS {name}" for i, name in zip(scan.columns, names, strict=True)]


def _any(ways: Sequence[Sequence[str]]) -> str:
    """The condition that all conditions of one way hold."""
    if not all(ways):
        return "TRUE"
    if len(ways) == 1:
        return " AND ".join(ways[0])
    return " OR ".join(f"({' AND '.join(way)})" for way in ways)


def _plain(text: str) -> bool:
    """Whether a text means the same between single quotes in both engines.

    Spark puts the values of variables, such as those of the environment, in the place of `${..}`.
    """
    return len(text) <= 200 and text.isprintable() and not set(text) & set("'\\$")


def _timed(join: Join) -> bool:
    """Whether a clause looks at facts with a time, beyond their absence."""
    return any(premise.temporal for premise in join.clause.positive)


def _by_time(join: Join) -> dict[str | None, list[int]]:
    """Operands by the variable that their time hangs on; None is the head's time.

    Those without such a variable are in no group.
    """
    groups: dict[str | None, list[int]] = {}
    for i, operand in enumerate(join.operands):
        when = operand.premise.when
        match when:
            case Offset():
                groups.setdefault(None, []).append(i)
            case Free(variable, _):
                groups.setdefault(variable, []).append(i)
            case FixedTick() | Rigid():
                pass
            case _:
                assert_never(when)
    return groups


def _shift(join: Join, operand: Operand, by_time: Mapping[str | None, list[int]]) -> int:
    """How far an operand is moved to meet those of its group: at the head, or at the first one."""
    when = operand.premise.when
    match when:
        case Offset(ticks):
            return -ticks
        case Free(variable, ticks):
            first = join.operands[by_time[variable][0]].premise.when
            assert isinstance(first, Free)
            return first.ticks - ticks
        case FixedTick() | Rigid():
            return 0
        case _:
            assert_never(when)


def _same_tick(
    join: Join, members: Sequence[int], by_time: Mapping[str | None, list[int]]
) -> list[str]:
    """Conditions that operands with a row for each fact hold at a tick together."""
    shifts = [_shift(join, join.operands[i], by_time) for i in members]
    pairs = zip(members[1:], shifts[1:], strict=True)
    return [f"x{i}.t = x{members[0]}.t + {shifts[0] - shift}" for i, shift in pairs]


def _overlap(members: Sequence[int]) -> list[str]:
    """Conditions that operands hold at a tick together."""
    first, *others = members
    where: list[str] = []
    meet = f"x{first}.b"
    for i in others:
        where.append(f"x{i}.c = x{first}.c")
        meet = f"{meet} & x{i}.b"
        where.append(f"({meet}) <> 0")
    return where


def _big(value: int) -> str:
    return f"CAST({value} AS BIGINT)"


def _ends(range_: Range) -> tuple[int, int]:
    """The ends of a finite range."""
    return int(range_.low), int(range_.high)


def _list(names: Iterable[str], *more: str) -> str:
    return ", ".join([*names, *more])


def _within(range_: Range, data: Range) -> list[str]:
    """Conditions that keep times in a range, as far as the data leaves it."""
    low = [f"t >= {range_.low}"] if data.low < range_.low else []
    return low + ([f"t <= {range_.high}"] if data.high > range_.high else [])


def _where(conditions: Sequence[str]) -> str:
    return f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
