"""Clauses as Python functions over slices: what SQL is to a large table, for a few facts a tick.

A slice is the rows of a predicate at one time. A clause becomes two functions of its premises'
slices: `fire` gives the rows of its head, `mark` the rows of premises that some given head rows
rest on. Their texts consist of generated names alone; constants are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from operator import itemgetter
from typing import Any, assert_never

from tidelog.language.program import Constant, Operator, Row, Variable
from tidelog.logic.clause import Clause, Head, Sign
from tidelog.logic.match import Due, JoinOrder, JoinStep, Made, calculator
from tidelog.streaming.columns import RowTable, Texts, Unlike, as_table, chosen_rows, fired, marked


def at(row: Row) -> int:
    """The time of a row that ends with it."""
    time = row[-1]
    assert type(time) is int
    return time


# Python nests no more loops than this.
MOST_PREMISES = 18

_OPERATORS = {
    Operator.EQ: "==",
    Operator.NE: "!=",
    Operator.LT: "<",
    Operator.LE: "<=",
    Operator.GT: ">",
    Operator.GE: ">=",
}


class IndexedSlice:
    """The rows of a predicate at one time, with indexes made when they are asked for.

    Unlike `logic.match.IndexedRows` it takes over a set without copying it, hands out a whole index
    for compiled functions to look into, and an index on one column has bare values as keys. All
    three save work in every tick of a stream.
    """

    __slots__ = ("_indexes", "_table", "rows")

    def __init__(self, rows: Set[Row]) -> None:
        self.rows = rows
        self._indexes: dict[tuple[int, ...], dict[object, list[Row]]] = {}
        self._table: RowTable | None = None

    def index(self, columns: tuple[int, ...]) -> dict[object, list[Row]]:
        """Rows by the value of a column, or by a tuple of the values of several."""
        index = self._indexes.get(columns)
        if index is None:
            index = self._indexes[columns] = {}
            _enter(index, columns, self.rows)
        return index

    def add(self, rows: Set[Row]) -> None:
        """More rows, none of them there yet."""
        self.rows |= rows
        self._table = None
        for columns, index in self._indexes.items():
            _enter(index, columns, rows)

    def remove(self, rows: Set[Row]) -> None:
        """Take rows away."""
        self.rows -= rows
        self._table = None
        self._indexes.clear()

    def table(self, texts: Texts) -> RowTable:
        """The rows in columns."""
        made = self._table
        if made is None or made.texts is not texts or made.size != len(self.rows):
            made = self._table = as_table(self.rows, texts)
        return made


def _enter(index: dict[object, list[Row]], columns: tuple[int, ...], rows: Set[Row]) -> None:
    key = itemgetter(*columns)
    for row in rows:
        index.setdefault(key(row), []).append(row)


EMPTY = IndexedSlice(set())
ONE = IndexedSlice({()})


class CompiledClause:
    """A clause as functions; each is made when it is first called."""

    def __init__(self, clause: Clause) -> None:
        self.clause = clause
        # What a join can start with: absence gives no values.
        self._starts = [i for i, p in enumerate(clause.premises) if p.sign is Sign.POSITIVE]
        self._fires: dict[int, Callable[..., None]] = {}
        self._mark: Callable[..., None] | None = None
        self._orders: dict[int | None, JoinOrder] = {}  # by the first premise; None: from the head

    def derive(
        self, slices: Sequence[IndexedSlice], known: Set[Row], first: int | None = None
    ) -> Set[Row]:
        """The rows of the head together with those known, a set that may be changed."""
        texts = _texts(slice_.rows for slice_ in slices)
        if texts is not None:
            first = self._first(slices) if first is None else first
            if first not in self._orders:
                self._orders[first] = JoinOrder(self.clause, first=first)
            try:
                tables = [slice_.table(texts) for slice_ in slices]
                return fired(self._orders[first], tables, texts) | known
            except Unlike:
                pass
        out = known if type(known) is set else set()
        self.fire(slices, out, first)
        return out if out is known else known | out

    def _first(self, slices: Sequence[IndexedSlice]) -> int:
        """The smallest premise to start a join with."""
        sizes = [len(slices[i].rows) for i in self._starts]
        return self._starts[sizes.index(min(sizes))]

    def fire(self, slices: Sequence[IndexedSlice], out: set[Row], first: int | None = None) -> None:
        """Add the rows of the head; the join starts with a premise, by default the smallest."""
        if not slices:
            out.add(tuple(t.value for t in self.clause.head.args if isinstance(t, Constant)))
            return
        if first is None:
            first = self._starts[0] if len(self._starts) == 1 else self._first(slices)
        function = self._fires.get(first)
        if function is None:
            function = self._fires[first] = _fire(self.clause, first)
        function(out, *slices)

    def mark(self, heads: Set[Row], slices: Sequence[IndexedSlice]) -> Sequence[Set[Row]]:
        """Per premise, the rows that the given rows of the head rest on.

        What a negated premise asks for is no matter of whether a head is derived here: the rows
        that could be in its way are marked, so that they stay.
        """
        if not slices:
            return []
        texts = _texts((heads, *(slice_.rows for slice_ in slices)))
        if texts is not None:
            if None not in self._orders:
                self._orders[None] = JoinOrder.from_head(self.clause)
            try:
                tables = [slice_.table(texts) for slice_ in slices]
                return marked(self._orders[None], as_table(heads, texts), tables, texts)
            except Unlike:
                pass
        if self._mark is None:
            self._mark = _mark(self.clause)
        marks: list[set[Row]] = [set() for _ in slices]
        self._mark(heads, marks, *slices)
        return marks


def _texts(sets: Iterable[Set[Row]]) -> Texts | None:
    """How texts are numbered in rows that are in columns; None if none are."""
    youngest: Texts | None = None
    for rows in sets:
        if type(rows) is RowTable and (youngest is None or rows.texts.age > youngest.age):
            youngest = rows.texts
    return youngest


def chosen(clauses: Iterable[Clause], predicate: str) -> Callable[[Iterable[Row]], Set[Row]]:
    """A filter for the rows of an input that a premise of some clause can match on its own."""
    conditions: dict[str, JoinOrder] = {}
    constants: dict[str, Any] = {}
    for clause in clauses:
        for premise in clause.premises:
            if premise.predicate != predicate:
                continue
            # A row whose absence is asked for makes a difference as one that is asked for does.
            own = {variable.name for variable in premise.variables}
            tests = tuple(t for t in clause.tests if {v.name for v in t.variables} <= own)
            order = JoinOrder(Clause(Head(""), (replace(premise, sign=Sign.POSITIVE),), tests))
            asked = _row_tests(order, constants)
            if not asked:
                return lambda rows: rows if isinstance(rows, RowTable) else set(rows)
            conditions[" and ".join(asked)] = order
    condition = " or ".join(f"({each})" for each in conditions) or "False"
    lines = ["def made(rows):", f"    return {{r for r in rows if {condition}}}"]
    of_tuples: Callable[[Iterable[Row]], set[Row]] = _compiled(lines, constants)

    def of_any(rows: Iterable[Row]) -> Set[Row]:
        if isinstance(rows, RowTable):
            try:
                return chosen_rows(rows, conditions.values())
            except Unlike:
                pass
        return of_tuples(rows)

    return of_any


def _row_tests(order: JoinOrder, constants: dict[str, Any]) -> list[str]:
    """What the only premise of an order asks of a row `r`; constants are added."""
    (step,) = order.steps
    premise = step.premise
    names = {order.place(premise.args[n]): f"r[{n}]" for n in step.new}
    for constant in order.constants:
        names[order.place(constant)] = name = f"k{len(constants)}"
        constants[name] = constant.value
    made: list[str] = []
    for each in (*order.made, *step.made):
        function, name = f"k{len(constants)}", f"m{len(constants)}"
        constants[function] = calculator(each)
        args = ", ".join(names[place] for place in each.places)
        made.append(f"({name} := {function}({args})) is not None")
        names[order.place(each.calculation)] = name
    return [
        *(f"r[{n}] == {names[place]}" for n, place in zip(step.known, step.key, strict=True)),
        *(f"r[{one}] == r[{other}]" for one, other in step.same),
        *made,
        *(_test(due, names.__getitem__) for due in (*order.due, *step.due)),
    ]


def _fire(clause: Clause, first: int) -> Callable[..., None]:
    writer = _Writer(JoinOrder(clause, first=first))
    writer.start("def made(out, {slices}):", "    add = out.add")
    writer.loops()
    writer.absences()
    head = "".join(f"{_name(writer.order.place(term))}, " for term in clause.head.args)
    writer.put(f"add(({head}))")
    return writer.function()


def _mark(clause: Clause) -> Callable[..., None]:
    writer = _Writer(JoinOrder.from_head(clause))
    writer.start("def made(heads, marked, {slices}):")
    writer.put("for h in heads:", nest=True)
    writer.bind_head()
    rows = writer.loops()
    for number, row in rows.items():
        writer.put(f"marked[{number}].add({row})")
    for step in writer.order.steps:
        if step.number not in rows:
            writer.put(f"marked[{step.number}].update({writer.there(step)})")
    return writer.function()


class _Writer:
    """Writes a function of nested loops along an order of premises.

    Place i of a binding is called `v{i}`, the slice of premise i `b{i}`, and a row of it `r{i}`.
    """

    def __init__(self, order: JoinOrder) -> None:
        self.order = order
        self.constants: dict[str, Any] = {_name(order.place(c)): c.value for c in order.constants}
        self.lines: list[str] = []
        self.depth = 1

    def start(self, first: str, *more: str) -> None:
        slices = ", ".join(f"b{i}" for i in range(len(self.order.steps)))
        self.lines = [first.format(slices=slices), *more]

    def put(self, line: str, *, nest: bool = False) -> None:
        self.lines.append("    " * self.depth + line)
        self.depth += nest

    def when(self, tests: Iterable[str]) -> None:
        """What follows happens only if all tests hold."""
        condition = " and ".join(tests)
        if condition:
            self.put(f"if {condition}:", nest=True)

    def bind_head(self) -> None:
        """Names for the variables of a head row `h`; whatever is known twice is compared."""
        bound: set[str] = set()
        tests: list[str] = []
        for n, term in enumerate(self.order.clause.head.args):
            name = _name(self.order.place(term))
            match term:
                case Variable() if term.name not in bound:
                    bound.add(term.name)
                    self.put(f"{name} = h[{n}]")
                case Variable() | Constant():
                    tests.append(f"h[{n}] == {name}")
                case _:
                    assert_never(term)
        self.when(tests)

    def loops(self) -> dict[int, str]:
        """Nested loops over the positive premises; what the row of each is called inside."""
        self._calculate(self.order.made)
        self.when(_test(due, _name) for due in self.order.due)
        positive = (s for s in self.order.steps if s.premise.sign is Sign.POSITIVE)
        return {step.number: self._loop(step) for step in positive}

    def absences(self) -> None:
        """What follows happens only if nothing is there that must be absent."""
        negated = (s for s in self.order.steps if s.premise.sign is Sign.NEGATIVE)
        self.when(self._is_absent(step) for step in negated)

    def _loop(self, step: JoinStep) -> str:
        number = step.number
        row = f"r{number}"
        if len(step.key) == len(step.premise.args):
            row = self._whole(step)
            self.put(f"if {row} in b{number}.rows:", nest=True)
        else:
            self.put(f"for {row} in {self._candidates(step)}:", nest=True)
        self.when(f"{row}[{one}] == {row}[{other}]" for one, other in step.same)
        for n in step.new:
            self.put(f"{_name(self.order.place(step.premise.args[n]))} = {row}[{n}]")
        self._calculate(step.made)
        self.when(_test(due, _name) for due in step.due)
        return row

    def _calculate(self, made: Iterable[Made]) -> None:
        """Names for what is calculated; what follows happens only if all of it has a value.

        It is one condition: Python allows no more than 100 of them within one another.
        """
        values: list[str] = []
        for each in made:
            name = _name(self.order.place(each.calculation))
            self.constants[f"f{name}"] = calculator(each)
            args = ", ".join(_name(place) for place in each.places)
            values.append(f"({name} := f{name}({args})) is not None")
        self.when(values)

    def _is_absent(self, step: JoinStep) -> str:
        """Whether no row is what a negated premise asks for; what is not known is any value."""
        if len(step.key) == len(step.premise.args):
            return f"{self._whole(step)} not in b{step.number}.rows"
        return f"not {self._candidates(step)}"

    def there(self, step: JoinStep) -> str:
        """The rows that a negated premise asks for."""
        if len(step.key) == len(step.premise.args):
            row = self._whole(step)
            return f"({row},) if {row} in b{step.number}.rows else ()"
        return self._candidates(step)

    def _whole(self, step: JoinStep) -> str:
        """The row of a premise all of whose values are known."""
        return f"({''.join(f'{_name(place)}, ' for place in step.key)})"

    def _candidates(self, step: JoinStep) -> str:
        """The rows of a premise that have the values that are known."""
        number, keys = step.number, [_name(place) for place in step.key]
        if not keys:
            return f"b{number}.rows"
        columns = "".join(f"{n}, " for n in step.known)
        self.lines.insert(1, f"    i{number} = b{number}.index(({columns})).get")
        key = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        return f"i{number}({key}, ())"

    def function(self) -> Callable[..., Any]:
        return _compiled(self.lines, self.constants)


def _name(place: int) -> str:
    return f"v{place}"


def _test(due: Due, name: Callable[[int], str]) -> str:
    return f"{name(due.left)} {_OPERATORS[due.operator]} {name(due.right)}"


def _compiled(lines: list[str], constants: dict[str, Any]) -> Callable[..., Any]:
    space: dict[str, Any] = dict(constants)
    exec(compile("\n".join(lines), "<clause>", "exec"), space)
    function: Callable[..., Any] = space["made"]
    return function
