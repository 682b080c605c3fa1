"""Rules as Python functions over slices: what SQL is to a large table, for a few facts a tick.

A slice is the rows of a predicate at one time. A rule becomes two functions of its body's slices:
`fire` gives the rows of its head, `mark` the body rows that some given head rows rest on. Their
texts consist of generated names alone; constants are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from tidelog.language.program import Atom, Comparison, Constant, Operator, Rule, Term, Value

Row: TypeAlias = tuple[Value, ...]


def at(row: Row) -> int:
    """The time of a row that ends with it."""
    time = row[-1]
    assert type(time) is int
    return time


# Python nests no more loops than this.
MOST_ATOMS = 18

_OPERATORS = {
    Operator.EQ: "==",
    Operator.NE: "!=",
    Operator.LT: "<",
    Operator.LE: "<=",
    Operator.GT: ">",
    Operator.GE: ">=",
}


class Slice:
    """Rows, and indexes on some of their columns, made when they are asked for."""

    __slots__ = ("_indexes", "rows")

    def __init__(self, rows: set[Row]) -> None:
        self.rows = rows
        self._indexes: dict[tuple[int, ...], dict[object, list[Row]]] = {}

    def index(self, columns: tuple[int, ...]) -> dict[object, list[Row]]:
        found = self._indexes.get(columns)
        if found is None:
            found = self._indexes[columns] = {}
            _enter(found, columns, self.rows)
        return found

    def add(self, rows: set[Row]) -> None:
        """More rows, none of them there yet."""
        self.rows |= rows
        for columns, index in self._indexes.items():
            _enter(index, columns, rows)


def _enter(index: dict[object, list[Row]], columns: tuple[int, ...], rows: set[Row]) -> None:
    if len(columns) == 1:
        (c,) = columns
        for row in rows:
            index.setdefault(row[c], []).append(row)
    else:
        for row in rows:
            index.setdefault(tuple(row[c] for c in columns), []).append(row)


EMPTY = Slice(set())
ONE = Slice({()})


class Joined:
    """A rule as functions; each is made when it is first called."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.atoms = rule.atoms
        self._fires: dict[int, Callable[..., None]] = {}
        self._mark: Callable[..., None] | None = None

    def fire(self, bodies: Sequence[Slice], out: set[Row], first: int | None = None) -> None:
        """Add the rows of the head; the join starts with an atom, by default the smallest."""
        if not bodies:
            out.add(tuple(t.value for t in self.rule.head.args if isinstance(t, Constant)))
            return
        if first is None:
            first = 0
            if len(bodies) > 1:
                first = min(range(len(bodies)), key=lambda i: len(bodies[i].rows))
        made = self._fires.get(first)
        if made is None:
            made = self._fires[first] = _Text(self.rule).fire(first)
        made(out, *bodies)

    def mark(self, heads: set[Row], bodies: Sequence[Slice]) -> list[set[Row]]:
        """Per body atom, the rows that the given rows of the head rest on."""
        if not bodies:
            return []
        if self._mark is None:
            self._mark = _Text(self.rule).mark()
        found: list[set[Row]] = [set() for _ in bodies]
        self._mark(heads, found, *bodies)
        return found


def chosen(rules: Iterable[Rule], predicate: str) -> Callable[[Iterable[Row]], set[Row]]:
    """A filter for the rows of an input that an atom of some rule can match on its own."""
    text = _Text(None)
    ways: list[str] = []
    for rule in rules:
        for atom in rule.atoms:
            if atom.predicate == predicate:
                text.names = {}
                tests = text.tests(atom, "r", rule.comparisons)
                ways.append(" and ".join(tests) or "True")
    condition = " or ".join(f"({way})" for way in dict.fromkeys(ways)) or "False"
    if any(way == "True" for way in ways):
        return set
    return text.made(["def made(rows):", f"    return {{r for r in rows if {condition}}}"])


class _Text:
    """Writes the functions of one rule."""

    def __init__(self, rule: Rule | None) -> None:
        self.rule = rule
        self.constants: dict[str, Value] = {}
        self.names: dict[str, str] = {}
        self.lines: list[str] = []
        self.depth = 1

    def fire(self, first: int) -> Callable[..., None]:
        assert self.rule is not None
        slices = ", ".join(f"b{i}" for i in range(len(self.rule.atoms)))
        self.lines = [f"def made(out, {slices}):", "    add = out.add"]
        self._body([first])
        head = "".join(f"{self._term(t)}, " for t in self.rule.head.args)
        self._put(f"add(({head}))")
        return self.made(self.lines)

    def mark(self) -> Callable[..., None]:
        assert self.rule is not None
        slices = ", ".join(f"b{i}" for i in range(len(self.rule.atoms)))
        self.lines = [f"def made(heads, found, {slices}):"]
        self._put("for h in heads:")
        self.depth += 1
        self._bind(self.rule.head, "h", set())
        rows = self._body([])
        for i, row in rows.items():
            self._put(f"found[{i}].add({row})")
        return self.made(self.lines)

    def _body(self, order: list[int]) -> dict[int, str]:
        """Nested loops over the atoms; how each one's row is called inside."""
        assert self.rule is not None
        atoms = self.rule.atoms
        left = [i for i in range(len(atoms)) if i not in order]
        waiting = list(self.rule.comparisons)
        rows: dict[int, str] = {}
        todo = list(order)
        while todo or left:
            if not todo:
                # What shares most with what is bound comes next; the rest would multiply.
                best = max(left, key=lambda i: (self._bound(atoms[i]), -i))
                left.remove(best)
                todo.append(best)
            i = todo.pop(0)
            rows[i] = self._loop(atoms[i], i)
            due = [c for c in waiting if all(v.name in self.names for v in c.variables)]
            waiting = [c for c in waiting if c not in due]
            if due:
                self._put(f"if {' and '.join(map(self._compare, due))}:")
                self.depth += 1
        return rows

    def _bound(self, atom: Atom) -> float:
        if not atom.args:
            return 2.0
        known = [isinstance(t, Constant) or t.name in self.names for t in atom.args]
        return sum(known) / len(known) if any(known) else -1.0

    def _loop(self, atom: Atom, i: int) -> str:
        known = [
            n for n, t in enumerate(atom.args) if isinstance(t, Constant) or t.name in self.names
        ]
        keys = [self._term(atom.args[n]) for n in known]
        if len(known) == len(atom.args):
            row = f"({''.join(f'{k}, ' for k in keys)})"
            self._put(f"if {row} in b{i}.rows:")
            self.depth += 1
            return row
        if known:
            columns = "".join(f"{n}, " for n in known)
            self.lines.insert(1, f"    i{i} = b{i}.index(({columns})).get")
            key = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
            self._put(f"for r{i} in i{i}({key}, ()):")
        else:
            self._put(f"for r{i} in b{i}.rows:")
        self.depth += 1
        self._bind(atom, f"r{i}", set(known))
        return f"r{i}"

    def _bind(self, atom: Atom, row: str, known: set[int]) -> None:
        """Names for a row's new variables; those that come twice are compared."""
        tests: list[str] = []
        for n, term in enumerate(atom.args):
            if n in known:
                continue
            if isinstance(term, Constant) or term.name in self.names:
                tests.append(f"{row}[{n}] == {self._term(term)}")
            else:
                self.names[term.name] = f"v{len(self.names)}"
                self._put(f"{self.names[term.name]} = {row}[{n}]")
        if tests:
            self._put(f"if {' and '.join(tests)}:")
            self.depth += 1

    def tests(self, atom: Atom, row: str, comparisons: Iterable[Comparison]) -> list[str]:
        """What an atom, and comparisons of its variables alone, ask of a row."""
        found: list[str] = []
        for n, term in enumerate(atom.args):
            if isinstance(term, Constant) or term.name in self.names:
                found.append(f"{row}[{n}] == {self._term(term)}")
            else:
                self.names[term.name] = f"{row}[{n}]"
        found += [
            self._compare(c) for c in comparisons if all(v.name in self.names for v in c.variables)
        ]
        return found

    def _compare(self, c: Comparison) -> str:
        return f"{self._term(c.left)} {_OPERATORS[c.operator]} {self._term(c.right)}"

    def _term(self, term: Term) -> str:
        if isinstance(term, Constant):
            name = f"k{len(self.constants)}"
            self.constants[name] = term.value
            return name
        return self.names[term.name]

    def _put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def made(self, lines: list[str]) -> Callable[..., Any]:
        space: dict[str, Any] = dict(self.constants)
        exec(compile("\n".join(lines), "<rule>", "exec"), space)
        function: Callable[..., Any] = space["made"]
        return function
