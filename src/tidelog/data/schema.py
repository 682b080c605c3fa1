"""How the facts of inputs are laid out, and the types that data settles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidelog.data.packed import columns
from tidelog.errors import DataError, need, warn_missing
from tidelog.language.checks import Similar, check_program
from tidelog.language.diagnostics import Severity
from tidelog.language.program import NOWHERE, TIME_COLUMN, Column, Constant, Input, Program, Type
from tidelog.language.types import infer


@dataclass(frozen=True)
class Schema:
    """How one input's facts are laid out: columns by name when declared, by position when not."""

    predicate: str
    columns: tuple[Column, ...]
    time: str | None
    declared: bool
    unread: frozenset[int] = frozenset()  # positions of columns that no rule looks at

    @cached_property
    def names(self) -> tuple[str, ...]:
        names = tuple(column.name for column in self.columns)
        return names if self.time is None else (*names, self.time)

    def sql_names(self) -> list[str]:
        """The columns of every table of facts: no name of a user's reaches the SQL.

        A fact without arguments and time still needs a column to be a row of: `z`.
        """
        names = columns(len(self.columns))
        return [*names, "t"] if self.time is not None else names or ["z"]


def schemas(program: Program, asked: Iterable[str] = ()) -> dict[str, Schema]:
    """The layout of every input, from its declaration or else from its use in the rules.

    Inputs among the predicates asked for are read whole, whatever the rules look at.
    """
    layouts: dict[str, Schema] = {}
    unread = _unread(program, asked)
    known = infer(program).columns
    temporal = {a.predicate: a.time is not None for r in program.rules for a in r.atoms}
    for name in program.inputs:
        declaration = program.declarations.get(name)
        types = known[name]
        if declaration is not None:
            declared = tuple(
                replace(c, type=t) for c, t in zip(declaration.columns, types, strict=True)
            )
            # One that data has resolved is of an input that nobody has declared.
            layout = Schema(name, declared, declaration.time, declaration.origin != NOWHERE)
        else:
            inferred = tuple(Column(f"arg{i}", t) for i, t in enumerate(types, 1))
            time = TIME_COLUMN if temporal[name] else None
            layout = Schema(name, inferred, time, False)
        layouts[name] = replace(layout, unread=unread.get(name, frozenset()))
    return layouts


def _unread(program: Program, asked: Iterable[str]) -> dict[str, frozenset[int]]:
    """By input, the arguments at which every rule has a variable that occurs nowhere else in it."""
    arity: dict[str, int] = {}
    read: dict[str, set[int]] = {}
    for rule in program.rules:
        literals = (rule.head, *rule.body)
        times = Counter(variable.name for literal in literals for variable in literal.variables)
        for atom in rule.atoms:
            arity[atom.predicate] = len(atom.args)
            positions = read.setdefault(atom.predicate, set())
            for i, term in enumerate(atom.args):
                if isinstance(term, Constant) or times[term.name] > 1:
                    positions.add(i)
    # Of what is asked for itself every column counts, and of what is negated: a row without a value
    # is no fact, and its absence may be what a rule looks for. So it is with aggregates, in which
    # facts count that differ in any column.
    whole = {*program.outputs, *asked}
    whole |= {atom.predicate for rule in program.rules for atom in rule.negative}
    whole |= {literal.atom.predicate for rule in program.rules for literal in rule.aggregated}
    return {
        name: frozenset(range(arity[name])) - read[name]
        for name in program.inputs
        if name in read and name not in whole
    }


def schema_of(name: str, program: Program, known: Mapping[str, Schema], where: str) -> Schema:
    """The layout of an input that facts name; DataError with a hint when there is none."""
    if name in known:
        return known[name]
    if name in program.heads:
        raise DataError(
            f"{where}: `{name}` is derived by rules; declare it as an input to give it facts"
        )
    near = Similar(known).to(name)
    hint = f"did you mean `{near}`?" if near else f"the inputs are {', '.join(known) or 'none'}"
    raise DataError(f"{where}: no input is called `{name}`; {hint}")


def expect_facts(
    name: str, program: Program, queries: Iterable[str], empty: Sequence[str] = ()
) -> None:
    """Say that there are no facts for an input that queries need: a warning.

    `empty` are files that were given for it, without rows. DataError where it can only be a slip
    of the pen: nothing declares the input, and something that there is has nearly the same name.
    """
    needing = program.needing(name, queries)
    declared = (n for n, one in program.declarations.items() if one.origin != NOWHERE)
    others = {*declared, *program.heads, *program.clocks}
    near = None if name in others or empty else Similar(others).to(name)
    if near is not None:
        raise DataError(
            f"no facts for input `{name}`, which {need(needing)}; did you mean `{near}`?"
        )
    warn_missing(name, needing, empty)


def expect_queries(program: Program, queries: object) -> tuple[str, ...]:
    """The queries asked for, by name: one, several, or None for the outputs; else ValueError.

    >>> from tidelog.language.checks import check
    >>> program = check("Hot(X) @ T :- Temp(X) @ T.").accepted()
    >>> expect_queries(program, "Hot"), expect_queries(program, None)
    (('Hot',), ('Hot',))
    >>> expect_queries(program, ["Hto"])
    Traceback (most recent call last):
    ValueError: no predicate Hto in the rules; did you mean Hot?
    """
    if queries is None:
        return program.outputs
    if isinstance(queries, str):
        queries = (queries,)
    if not isinstance(queries, Iterable) or isinstance(queries, (bytes, Mapping)):
        raise ValueError(f"a query is the name of a predicate, not {type(queries).__name__}")
    names = tuple(dict.fromkeys(queries))
    known = list(dict.fromkeys([*program.outputs, *program.predicates]))
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"a query is the name of a predicate, not {type(name).__name__}")
        if name not in known:
            near = Similar(known).to(name)
            there = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
            hint = f"did you mean {near}?" if near else f"there are: {there or 'none'}"
            raise ValueError(f"no predicate {name} in the rules; {hint}")
    return names


def expect_program(program: object) -> None:
    """ValueError unless it is a program, with what to write instead."""
    if not isinstance(program, Program):
        what = "text" if isinstance(program, str) else type(program).__name__
        raise ValueError(
            f"a program is expected, not {what}: tidelog.load(file) or tidelog.parse(text) gives"
            " one"
        )


def positions(names: Sequence[str], schema: Schema, where: str) -> list[int]:
    """Where the schema's columns are among those there: by name when declared, else in order."""
    if schema.declared:
        for name in schema.names:
            if names.count(name) != 1:
                problem = "no column" if name not in names else "more than one column"
                raise DataError(
                    f"{where}: {problem} `{name}`, which `{schema.predicate}` declares;"
                    f" there are {', '.join(names) or 'none'}{_column_hint(name, names)}"
                )
        return [names.index(name) for name in schema.names]
    if len(names) != len(schema.names):
        raise DataError(
            f"{where}: {len(names)} columns for the {len(schema.names)} of `{schema.predicate}`"
            f" ({', '.join(schema.names)}); declare the input to pick columns by name"
        )
    return list(range(len(names)))


def _column_hint(name: str, names: Sequence[str]) -> str:
    """What may help where a column is not there.

    >>> _column_hint("host", ["Host", "cpu"]), _column_hint("host", ["host;cpu"])
    ('; did you mean `Host`?', '; values are separated by commas')
    """
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        return "; values are separated by commas"
    near = Similar(names).to(name)
    return f"; did you mean `{near}`?" if near else ""


def resolve(program: Program, types: Mapping[str, tuple[Type, ...]]) -> Program:
    """The program with every input declared, those left open with the types of their data."""
    statements = []
    for name, schema in schemas(program).items():
        known = types.get(name, tuple(Type.TEXT for _ in schema.columns))
        typed = tuple(
            Column(c.name, c.type or t, c.origin)
            for c, t in zip(schema.columns, known, strict=True)
        )
        origin = program.declarations[name].origin if schema.declared else NOWHERE
        statements.append(Input(name, typed, schema.time, origin))
    rest = tuple(s for s in program.statements if not isinstance(s, Input))
    return Program((*statements, *rest))


def resolve_and_check(program: Program, types: Mapping[str, tuple[Type, ...]]) -> Program:
    """The program with the types of its data; DataError where the rules do not allow them."""
    typed = resolve(program, types)
    clashes = [d for d in check_program(typed) if d.severity is Severity.ERROR]
    if clashes:
        raise DataError(*(f"the data's types do not fit the rules: {d.message}" for d in clashes))
    return typed
