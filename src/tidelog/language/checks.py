"""Everything that can be said about a program without running it: `check` lists it all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from tidelog.language.counts import check_counts
from tidelog.language.diagnostics import (
    Code,
    Diagnostic,
    Note,
    ProgramError,
    Severity,
    Source,
)
from tidelog.language.habits import NULL, NULLS, function_remedy
from tidelog.language.last_values import check_last_values
from tidelog.language.made import check_made
from tidelog.language.parser import parse_source
from tidelog.language.printer import print_literal, print_term
from tidelog.language.profile import Profile, canonical
from tidelog.language.program import (
    REACH_MAX,
    TIME_COLUMN,
    Aggregated,
    Atom,
    Clock,
    Comparison,
    Expression,
    Input,
    Origin,
    Output,
    Program,
    Rule,
    TickLength,
    TimeOffset,
    Variable,
    atom_of,
    ends,
    terms_of,
    time_variable_of,
    variable_names,
)
from tidelog.language.reach import check_reach
from tidelog.language.strata import check_strata
from tidelog.language.types import Types, infer

# Terms of an expression; engines and analyses write them out.
MOST_TERMS = 200


@dataclass(frozen=True)
class Report:
    """A source, the program as far as it could be read, and everything found."""

    source: Source
    program: Program
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity is Severity.WARNING)

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity is Severity.NOTE)

    def accepted(self) -> Program:
        """The program, or one exception that carries every diagnostic."""
        if self.errors:
            raise ProgramError(self.diagnostics, self.source)
        return self.program


def check(text: str | bytes, file: str = "<text>") -> Report:
    """Read and check rules.

    >>> [d.code.id for d in check("P(X) @ T :- E(Y) @ T.").diagnostics]
    ['E101', 'W304']
    """
    source, unreadable = decode(text, file)
    if unreadable is not None:
        return Report(source, Program(), (unreadable,))
    parsed = parse_source(source)
    diagnostics = list(parsed.diagnostics)
    diagnostics += check_program(parsed.program, complete=parsed.complete)
    diagnostics.sort(key=lambda d: (d.origin.line, d.origin.column, d.code.id))
    return Report(source, parsed.program, tuple(diagnostics))


def decode(text: str | bytes, file: str) -> tuple[Source, Diagnostic | None]:
    """UTF-8 with or without byte order mark, any line ends."""
    if isinstance(text, bytes):
        raw = text
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            source = Source(file, raw.decode("utf-8", "replace"))
            # Bytes before the first bad one are good, so they decode to the characters before it.
            at = len(raw[: error.start].decode("utf-8"))
            return source, Diagnostic(
                Code.ENCODING,
                f"byte 0x{raw[error.start]:02x} is not UTF-8 text",
                source.origin(at, at + 1),
                hint="save the file as UTF-8",
            )
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return Source(file, text), None


def check_program(program: Program, *, complete: bool = True) -> Iterator[Diagnostic]:
    """All findings; those that need the whole program only when it is `complete`."""
    for rule in program.rules:
        yield from check_rule(rule)
    yield from check_together(program, complete=complete)


def check_together(
    program: Program, *, complete: bool = True, profiles: Sequence[Profile] | None = None
) -> Iterator[Diagnostic]:
    """What the statements say together, beyond each rule by itself.

    `profiles`, one a rule, may be those that an editor remembers. What a check looks for is
    sought in the profiles' sets first, and only rules that have it are looked at.
    """
    if profiles is None:
        profiles = [Profile.of(rule) for rule in program.rules]
    used = frozenset[str]().union(*(p.used for p in profiles))
    yield from _declared_twice(program)
    shapes = tuple(_shapes(program, profiles))
    yield from shapes
    for profile in profiles:
        if profile.lower_case:
            yield from _lower_case(profile, program)
    types = infer(program, [p.constraints for p in profiles])
    yield from types.diagnostics
    yield from _duplicates(profiles)
    if any(p.absent or p.gathered for p in profiles):
        yield from check_strata([use for p in profiles for use in p.uses])
    if any(p.gathered or p.rule.definitions for p in profiles):
        yield from check_made([p.rule for p in profiles])
    if sum(p.reach for p in profiles) > REACH_MAX:
        yield from check_reach(program)
    if complete:
        yield from _outputs(program, used)
        yield from _undeclared(program, profiles, used, types)
        yield from _underivable(program, profiles)
        yield from _unused(program, used)
        if any(p.gathered for p in profiles):
            yield from check_counts(program, [p.rule for p in profiles])
        carries = any(p.absent and p.rule.head.predicate in p.needs for p in profiles)
        if carries and not shapes:
            yield from check_last_values(program, [p.rule for p in profiles], types)


# Declarations


def _declared_twice(program: Program) -> Iterator[Diagnostic]:
    inputs = [s for s in program.statements if isinstance(s, Input)]
    yield from _more_than_once(inputs, "input", "is declared twice", "the first declaration")
    for declaration in inputs:
        names = [column.name for column in declaration.columns]
        if declaration.time is not None:
            names.append(declaration.time)
        yield from _repeated(names, declaration.predicate, declaration.origin)
    for item in program.output_items:
        yield from _repeated(item.columns or (), item.predicate, item.origin)
    yield from _clocks(program)
    yield from _tick_lengths(program)
    yield from _more_than_once(program.output_items, "output", "is listed twice", "the first time")


def _more_than_once(
    items: Sequence[Input | Output], kind: str, what: str, before: str
) -> Iterator[Diagnostic]:
    first: dict[str, Input | Output] = {}
    for item in items:
        known = first.setdefault(item.predicate, item)
        if known is not item:
            yield Diagnostic(
                Code.DECLARED_TWICE,
                f"{kind} `{item.predicate}` {what}",
                item.origin,
                (Note(before, known.origin),),
                "keep one of them",
            )


def _clocks(program: Program) -> Iterator[Diagnostic]:
    """A clock is nothing else: it holds at every tick whatever rules and data say."""
    if not program.clocks:
        return
    taken: dict[str, tuple[str, Origin]] = {}
    for name, declaration in program.declarations.items():
        taken[name] = ("an input", declaration.origin)
    for rule in program.rules:
        taken.setdefault(rule.head.predicate, ("the head of a rule", rule.head.origin))
    for clock in program.statements:
        if isinstance(clock, Clock):
            if clock.predicate in taken:
                what, origin = taken[clock.predicate]
                yield Diagnostic(
                    Code.DECLARED_TWICE,
                    f"clock `{clock.predicate}` is also {what}",
                    clock.origin,
                    (Note(f"here it is {what}", origin),),
                    "give the clock a name of its own",
                )
            taken[clock.predicate] = ("a clock", clock.origin)


def _tick_lengths(program: Program) -> Iterator[Diagnostic]:
    said = [s for s in program.statements if isinstance(s, TickLength)]
    for again in said[1:]:
        yield Diagnostic(
            Code.DECLARED_TWICE,
            "the length of a tick is said twice",
            again.origin,
            (Note("the first time", said[0].origin),),
            "keep one of them",
        )


def _repeated(names: Iterable[str], predicate: str, origin: Origin) -> Iterator[Diagnostic]:
    for name, n in Counter(names).items():
        if n > 1:
            yield Diagnostic(
                Code.DECLARED_TWICE,
                f"`{predicate}` has {n} columns called `{name}`",
                origin,
                hint="give every column, the time column included, a name of its own",
            )


def _outputs(program: Program, used: frozenset[str]) -> Iterator[Diagnostic]:
    known = {*program.heads, *program.declarations, *program.clocks, *used}
    similar = Similar(known)
    for item in program.output_items:
        if item.predicate not in known:
            near = similar.to(item.predicate)
            yield Diagnostic(
                Code.NO_SUCH_OUTPUT,
                f"output `{item.predicate}` does not exist",
                item.origin,
                hint=f"did you mean `{near}`?"
                if near
                else "write a rule for it, or remove it from the outputs",
            )


# Shapes: one arity and one sort a predicate


def _shapes(program: Program, profiles: Sequence[Profile]) -> Iterator[Diagnostic]:
    first: dict[str, tuple[int, bool, Origin]] = {
        name: (len(d.columns), d.time is not None, d.origin)
        for name, d in program.declarations.items()
    }
    for name, clock in program.clocks.items():
        first[name] = (0, True, clock.origin)
    declared = {(name, arity, temporal) for name, (arity, temporal, _) in first.items()}
    shapes = Counter(name for name, _, _ in declared.union(*(p.shapes for p in profiles)))
    asked = {name for name, n in shapes.items() if n > 1}
    asked.update(item.predicate for item in program.output_items if item.columns is not None)
    for rule in (p.rule for p in profiles if not asked.isdisjoint(p.predicates)):
        for atom in (rule.head, *rule.atoms):
            arity, temporal = len(atom.args), atom.time is not None
            known = first.setdefault(atom.predicate, (arity, temporal, atom.origin))
            if known[0] != arity:
                yield Diagnostic(
                    Code.ARITY,
                    f"`{atom.predicate}` has {_arguments(arity)} here and {known[0]} elsewhere",
                    atom.origin,
                    (Note(f"here it has {_arguments(known[0])}", known[2]),),
                )
            if known[1] != temporal:
                yield Diagnostic(
                    Code.SORT,
                    f"`{atom.predicate}` is {_sort(temporal)} here and {_sort(known[1])} elsewhere",
                    atom.origin,
                    (Note(f"here it is {_sort(known[1])}", known[2]),),
                    "a predicate has a time (`@ T`) everywhere or nowhere",
                )
    for item in program.output_items:
        if item.columns is not None and item.predicate in first:
            arity, temporal, origin = first[item.predicate]
            if len(item.columns) != arity:
                yield Diagnostic(
                    Code.ARITY,
                    f"output `{item.predicate}` names {len(item.columns)} columns"
                    f" and has {_arguments(arity)}",
                    item.origin,
                    (Note(f"here it has {_arguments(arity)}", origin),),
                )
            if temporal and TIME_COLUMN in item.columns:
                yield from _repeated((TIME_COLUMN, TIME_COLUMN), item.predicate, item.origin)


def _arguments(n: int) -> str:
    return f"{n} argument" if n == 1 else f"{n} arguments"


def _sort(temporal: bool) -> str:
    return "temporal" if temporal else "rigid"


# Variables


@dataclass
class _Uses:
    """The variables of a rule: which are times, which have a value, how often each occurs."""

    times: dict[str, TimeOffset]
    objects: dict[str, Variable]
    bound: set[str]
    order: list[Variable]

    @staticmethod
    def of(rule: Rule) -> _Uses:
        uses = _Uses({}, {}, set(), [])
        for literal in (rule.head, *rule.body):
            here = list(literal.variables)
            for variable in here:
                uses.objects.setdefault(variable.name, variable)
            atom = atom_of(literal)
            for end in ends(atom.time if atom is not None else None):
                if isinstance(end, TimeOffset):
                    uses.times.setdefault(end.variable.name, end)
                    here.append(end.variable)
            if isinstance(literal, Atom) and literal is not rule.head:
                uses.bound.update(variable.name for variable in here)
            uses.order += here
        uses.bound.update(n for c in rule.measured for n in variable_names(c.value))
        uses.bound.update(v.name for c in rule.definitions for v in c.variables)
        return uses


def check_rule(rule: Rule) -> Iterator[Diagnostic]:
    """What can be said of a rule by itself: how it uses its variables."""
    uses = _Uses.of(rule)
    yield from _times_as_objects(uses)
    unsafe: set[str] = set()
    findings = (
        *_unsafe_negations(rule, uses),
        *_unsafe_head(rule, uses),
        *_unsafe_comparisons(rule, uses),
        *_unsafe_aggregates(rule, uses),
    )
    for diagnostic, variable in findings:
        if variable.name not in unsafe:
            unsafe.add(variable.name)
            yield diagnostic
    if (rule.negative or rule.aggregated) and not rule.positive and not unsafe:
        yield Diagnostic(
            Code.UNSAFE_NEGATION,
            "a rule with `not` needs an atom without it"
            if rule.negative
            else "a rule with aggregates needs an atom beside them",
            rule.negative[0].origin if rule.negative else rule.aggregated[0].origin,
            hint="say what must be there: absence alone is true of everything",
        )
    yield from _long_expressions(rule)
    yield from _aggregates(rule)
    count = Counter(variable.name for variable in uses.order)
    for variable in uses.order:
        name = variable.name
        if count[name] == 1 and name not in unsafe and not name.startswith("_"):
            yield Diagnostic(
                Code.SINGLE_OCCURRENCE,
                f"`{name}` occurs only once in this rule",
                variable.origin,
                hint=f"write `_` if any value will do, or `_{name}` to keep the name",
            )


def _times_as_objects(uses: _Uses) -> Iterator[Diagnostic]:
    for name, time in uses.times.items():
        if name in uses.objects:
            yield Diagnostic(
                Code.TIME_AS_OBJECT,
                f"`{name}` is a time and an object in one rule",
                uses.objects[name].origin,
                (Note("here it is a time", time.origin),),
                "times are compared and joined through `@` only; use another name",
            )


def _unsafe_head(rule: Rule, uses: _Uses) -> Iterator[tuple[Diagnostic, Variable]]:
    head = [*rule.head.variables]
    time = time_variable_of(rule.head.time)
    if time is not None:
        head.append(time)
    for variable in head:
        if variable.name not in uses.bound:
            what = ": a fact has no variables" if not rule.body else ""
            yield (
                Diagnostic(
                    Code.UNSAFE_HEAD,
                    f"`{print_term(variable)}` in the head has no value{what}",
                    variable.origin,
                    hint=_bind(variable) if rule.body else _fact_hint(variable, rule.head),
                ),
                variable,
            )


def _unsafe_comparisons(rule: Rule, uses: _Uses) -> Iterator[tuple[Diagnostic, Variable]]:
    for comparison in rule.comparisons:
        for variable in comparison.variables:
            if variable.name not in uses.bound:
                yield _compared_without_value(variable), variable


def _compared_without_value(variable: Variable) -> Diagnostic:
    return Diagnostic(
        Code.UNSAFE_COMPARISON,
        f"`{print_term(variable)}` is compared but has no value",
        variable.origin,
        hint=_bind(variable),
    )


def _unsafe_aggregates(rule: Rule, uses: _Uses) -> Iterator[tuple[Diagnostic, Variable]]:
    """What is compared with an aggregate, what groups its facts and its time need values."""
    given = {v.name for atom in rule.positive for v in atom.variables}
    outside = rule.outside
    for literal in rule.aggregated:
        for term in terms_of(literal.value):
            if isinstance(term, Variable) and term.name not in uses.bound:
                yield _compared_without_value(term), term
        groups = [v for v in literal.atom.variables if v.name in outside]
        unbound = [v for v in groups if v.name not in given]
        time = time_variable_of(literal.atom.time)
        if time is not None and time.name not in uses.bound:
            unbound.append(time)
        for variable in unbound:
            yield (
                Diagnostic(
                    Code.UNSAFE_COMPARISON,
                    f"`{print_term(variable)}` has no value that an aggregate could be made for",
                    variable.origin,
                    hint=_bind(variable),
                ),
                variable,
            )


def _aggregates(rule: Rule) -> Iterator[Diagnostic]:
    """Aggregates of a variable that is none of their own."""
    outside = rule.outside
    for literal in rule.aggregated:
        of, atom = literal.aggregate.of, literal.atom
        if of is None:
            continue
        if of not in tuple(atom.variables):
            yield Diagnostic(
                Code.AGGREGATE,
                f"`{of.name}` is no argument of `{print_literal(atom)}`",
                of.origin,
                hint="give the argument that is meant the name before the colon",
            )
        elif of.name in outside:
            yield Diagnostic(
                Code.AGGREGATE,
                f"`{of.name}` is one value outside of the aggregate, and many within",
                of.origin,
                hint="give the aggregate a variable of its own",
            )


def _long_expressions(rule: Rule) -> Iterator[Diagnostic]:
    """Expressions with too many terms, once what is defined before is written out in them."""
    sizes: dict[str, int] = {}
    for definition in rule.definitions:
        for name in variable_names(definition.left):
            sizes[name] = _size(definition.right, sizes)
    compared: list[Comparison | Aggregated] = [*rule.comparisons, *rule.aggregated]
    for comparison in compared:
        size = max(_size(side, sizes) for side in _sides(comparison))
        if size > MOST_TERMS:
            yield Diagnostic(
                Code.LONG_EXPRESSION,
                f"written out, this has {size} terms; {MOST_TERMS} are allowed",
                comparison.origin,
                hint="have a rule for a part of it, and use what that derives",
            )
            return


def _sides(compared: Comparison | Aggregated) -> tuple[Expression, ...]:
    if isinstance(compared, Aggregated):
        return (compared.value,)
    return (compared.left, compared.right)


def _size(expression: Expression, sizes: Mapping[str, int]) -> int:
    """How many terms an expression has, with those of defined variables."""
    names = (t.name if isinstance(t, Variable) else "" for t in terms_of(expression))
    return sum(sizes.get(name, 1) for name in names)


def _unsafe_negations(rule: Rule, uses: _Uses) -> Iterator[tuple[Diagnostic, Variable]]:
    """Variables that only stand under `not`: there is no end of values that are absent."""
    for atom in rule.negative:
        for variable in atom.variables:
            if variable.name not in uses.bound and not variable.anonymous:
                yield (
                    Diagnostic(
                        Code.UNSAFE_NEGATION,
                        f"`{variable.name}` stands under `not` only, so that it has no value",
                        variable.origin,
                        hint=f'write `_` for "no such value", or use `{variable.name}` in an atom'
                        " without `not`",
                    ),
                    variable,
                )
        time = time_variable_of(atom.time)
        if time is not None and time.name not in uses.bound:
            name = print_term(time)
            yield (
                Diagnostic(
                    Code.UNSAFE_NEGATION,
                    f"the time `{name}` stands under `not` only, so that it has no value",
                    time.origin if atom.time is None else atom.time.origin,
                    hint="say from when on, as in `Beat(X) @ T-10, not Beat(X) @ T`, or declare"
                    f" `clock Tick.` and add `Tick @ {name}`",
                ),
                time,
            )


def _lower_case(profile: Profile, program: Program) -> Iterator[Diagnostic]:
    """Names in lower case that stand in the head and in the body, as variables usually do.

    They are constants, and may well be meant so: only what looks like a variable's name is
    mentioned, and quotes make it plain text for certain.
    """
    for seen in profile.lower_case:
        name = str(seen.constant.value)
        if seen.likely or any(_column(program, atom, i) == name for atom, i, _ in seen.uses):
            yield Diagnostic(
                Code.LOWER_CASE,
                f'`{name}` is the text "{name}", not a variable',
                seen.constant.origin,
                (Note("here it stands in the body", seen.uses[0][2].origin),),
                f"variables start upper case: write `{name[0].upper()}{name[1:]}`;"
                f' if the text is meant, write `"{name}"`',
            )


def _column(program: Program, atom: Atom, position: int) -> str | None:
    declaration = program.declarations.get(atom.predicate)
    if declaration is None or position >= len(declaration.columns):
        return None
    return declaration.columns[position].name


def _bind(variable: Variable) -> str:
    if variable.name.casefold() in NULLS:
        return NULL
    if variable.anonymous:
        return "every `_` is a variable of its own: give it a name and use it in a body atom"
    return f"use `{variable.name}` in an atom of the body"


def _fact_hint(variable: Variable, head: Atom) -> str:
    if time_variable_of(head.time) is variable:
        return "a fact holds at a time point such as `@ 0`"
    return "constants start with a lower-case letter or are quoted"


# The program as a whole


def _duplicates(profiles: Sequence[Profile]) -> Iterator[Diagnostic]:
    meanings = Counter(p.meaning for p in profiles)
    if len(meanings) == len(profiles):
        return
    first: dict[object, Rule] = {}
    for rule in (p.rule for p in profiles if meanings[p.meaning] > 1):
        known = first.setdefault(canonical(rule), rule)
        if known is not rule:
            kind = "rule" if rule.body else "fact"
            yield Diagnostic(
                Code.DUPLICATE_RULE,
                f"this {kind} says the same as an earlier one",
                rule.origin,
                (Note(f"the earlier {kind}", known.origin),),
                "remove one of them",
            )


def _undeclared(
    program: Program, profiles: Sequence[Profile], used: frozenset[str], types: Types
) -> Iterator[Diagnostic]:
    defined = {*program.declarations, *program.heads, *program.clocks}
    unknown = set(used - defined)
    if not unknown:
        return
    similar = Similar(defined)
    negated = frozenset[str]().union(*(p.absent for p in profiles))
    for rule in (p.rule for p in profiles if not unknown.isdisjoint(p.used)):
        # Where a predicate is negated, that is the place to show.
        for atom in (*rule.negative, *rule.positive, *(x.atom for x in rule.aggregated)):
            name = atom.predicate
            if name not in unknown or (name in negated and atom not in rule.negative):
                continue
            unknown.remove(name)
            near = similar.to(name)
            declare = f"if it is an input, declare it: {_declaration(atom, types)}"
            hint = (None if atom.time else function_remedy(name)) or declare
            if name in negated:
                yield Diagnostic(
                    Code.NEGATED_UNKNOWN,
                    f"`not {name}` would always be true: `{name}` has no rule and is not declared"
                    " as an input",
                    atom.origin,
                    hint=f"did you mean `{near}`?" if near else hint,
                )
            # A file that declares nothing may well leave all its inputs undeclared.
            elif near or program.declarations:
                yield Diagnostic(
                    Code.UNDECLARED,
                    f"`{name}` has no rule and is not declared as an input",
                    atom.origin,
                    hint=f"did you mean `{near}`?" if near else hint,
                )


def _declaration(atom: Atom, types: Types) -> str:
    """How the predicate of an atom would be declared as an input."""
    columns = ", ".join(
        f"arg{i}: {type_}" if type_ else f"arg{i}"
        for i, type_ in enumerate(types.columns[atom.predicate], 1)
    )
    time = " @ time" if atom.time else ""
    return f"`input {atom.predicate}{f'({columns})' if columns else ''}{time}.`"


def _underivable(program: Program, profiles: Sequence[Profile]) -> Iterator[Diagnostic]:
    there = derivable_predicates(program, profiles)
    never = set(program.heads) - there
    if not never:
        return
    done: set[str] = set()
    for profile in profiles:
        head = profile.rule.head
        name = head.predicate
        if name in never and name not in done:
            done.add(name)
            missing = next(a for a in profile.positive if a.predicate not in there)
            yield Diagnostic(
                Code.UNDERIVABLE,
                f"nothing can derive `{name}`",
                head.origin,
                (Note(f"this needs `{missing.predicate}`, which never holds", missing.origin),),
                "rules that only need one another never fire: add a rule or a fact to start from",
            )
    for rule in (p.rule for p in profiles if not never.isdisjoint(p.absent)):
        for atom in rule.negative:
            if atom.predicate in never:
                yield Diagnostic(
                    Code.NEVER_THERE,
                    f"`not {atom.predicate}` is always true: nothing can derive `{atom.predicate}`",
                    atom.origin,
                    hint=f"remove it, or give `{atom.predicate}` a rule or a fact to start from",
                )


def derivable_predicates(program: Program, profiles: Sequence[Profile] | None = None) -> set[str]:
    """Inputs, clocks, and heads of rules all of whose positive predicates are derivable."""
    if profiles is None:
        profiles = [Profile.of(rule) for rule in program.rules]
    used = frozenset[str]().union(*(p.used for p in profiles))
    given = {*program.declarations, *program.clocks, *used.difference(program.heads)}
    return derivable([(p.rule.head.predicate, p.needs) for p in profiles], given)


def derivable(uses: Sequence[tuple[str, Set[str]]], given: Iterable[str]) -> set[str]:
    """What is given, and heads all of whose needs are derivable.

    >>> sorted(derivable([("P", {"E"}), ("Q", {"P", "R"}), ("R", {"R"})], ["E"]))
    ['E', 'P']
    """
    waiting: dict[str, list[int]] = {}
    missing: list[int] = []
    ready = list(given)
    for i, (head, needs) in enumerate(uses):
        missing.append(len(needs))
        for name in needs:
            waiting.setdefault(name, []).append(i)
        if not needs:
            ready.append(head)
    reached: set[str] = set()
    while ready:
        name = ready.pop()
        if name in reached:
            continue
        reached.add(name)
        for i in waiting.get(name, ()):
            missing[i] -= 1
            if missing[i] == 0:
                ready.append(uses[i][0])
    return reached


def _unused(program: Program, used: frozenset[str]) -> Iterator[Diagnostic]:
    asked = used.union(program.outputs)
    for name, declaration in program.declarations.items():
        if name not in asked:
            yield Diagnostic(
                Code.UNUSED_INPUT,
                f"input `{name}` is not used by any rule",
                declaration.origin,
                hint="use it in a rule or remove the declaration",
            )


class Similar:
    """Names one or two slips of the pen away, found without comparing every pair.

    Two names are near when dropping at most one letter from each makes them equal, whatever
    their case. Names that differ in digits alone are meant to differ.

    >>> Similar({"Flag", "Cool"}).to("Falg")
    'Flag'
    >>> Similar({"Step1"}).to("Step2")
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(names)
        self.index: dict[str, list[str]] | None = None

    def to(self, name: str) -> str | None:
        if self.index is None:
            self.index = {}
            for known in self.names:
                for variant in _variants(known):
                    self.index.setdefault(variant, []).append(known)
        candidates = {k for v in _variants(name) for k in self.index.get(v, ())[:50]}
        near = (k for k in candidates if k != name and not _renumbered(k, name))
        return min(near, key=lambda k: (_distance(k, name), k), default=None)


def _renumbered(one: str, two: str) -> bool:
    return re.sub(r"\d", "", one) == re.sub(r"\d", "", two)


def _distance(one: str, two: str) -> int:
    """Letters of the longer name between what both begin and what both end with."""
    if one.casefold() == two.casefold():
        return 0
    short = min(len(one), len(two))
    same = 0
    while same < short and one[same] == two[same]:
        same += 1
    end = 0
    while end < short - same and one[-1 - end] == two[-1 - end]:
        end += 1
    return max(len(one), len(two)) - same - end


@lru_cache(maxsize=20_000)
def _variants(name: str) -> frozenset[str]:
    folded = name.casefold()
    if len(folded) < 3:
        return frozenset({folded})  # one letter is not evidence enough
    if len(folded) > 40:
        return frozenset({folded})  # nor is one slip in so long a name worth the memory
    return frozenset((folded, *(folded[:i] + folded[i + 1 :] for i in range(len(folded)))))
