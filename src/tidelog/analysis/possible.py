"""The possible program: what may still come to hold, as an ordinary program.

The paper decides DTP with a critical update: every fact over all objects, at every later time. That
would be (c+1)^arity facts. Instead each predicate is specialised by *pattern*: an argument is known
(its value is in a column) or arbitrary (any value will do; equal labels, equal values). An input up
to tin is all known; after tin it is all arbitrary and always true, which one predicate without
arguments says for all of them. Rigid inputs are never arbitrary, and a bool is one of two values.

With `not` two models read each other. A fact is possible while what must be absent is not certain;
it is certain once what must be absent is not possible, under any pattern. Both are one program: a
cycle of theirs is a walk along a cycle of the rules, and looks strictly back where that one does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from tidelog.analysis.dependencies import Dependencies, refuse_aggregates
from tidelog.language.program import (
    Calculation,
    Comparison,
    Constant,
    Expression,
    Operator,
    Row,
    Term,
    Type,
    Value,
    Variable,
    terms_of,
)
from tidelog.logic.clause import AT_HEAD, Clause, FixedTick, Head, Offset, Premise, Sign
from tidelog.logic.core import Core, Predicate, Role, clause_of_a_tick, key, rules_of
from tidelog.logic.order import Order, Symbol
from tidelog.logic.windows import write_out

# A known argument, or the label of an arbitrary one.
Pattern: TypeAlias = tuple[int | None, ...]

# Clauses with more premises than this are taken in steps.
MOST_ATOMS = 3
FUTURE = key(Role.FUTURE)  # holds at every tick after tin
DUE = key(Role.DUE)  # holds at the output times still to be answered


@dataclass(frozen=True)
class Open:
    """A premise that future input would have to supply; arbitrary arguments are variables."""

    premise: Premise


@dataclass(frozen=True)
class PossibleClause:
    """A specialised clause, with what each of its premises stands for.

    Its negated premises ask whether something is certain. Those on a value that may be any are
    left out: `unchecked`.
    """

    clause: Clause
    origin: Clause
    head: Head  # with all arguments, known and arbitrary
    body: tuple[Premise | Open, ...]  # likewise, in the order of the clause's premises
    unchecked: tuple[Premise, ...] = ()


@dataclass
class Possible:
    """The possible program of a query (or of several: `query` is then the first).

    `certain` clauses derive what holds whatever comes, under the predicates' own names; without
    `not` they are the clauses of the rules. `clauses` derive what may come to hold.
    """

    deps: Dependencies
    query: str
    certain: list[Clause]
    clauses: list[PossibleClause]
    patterns: dict[str, list[Pattern]]
    exact: bool

    def name(self, predicate: str, pattern: Pattern) -> str:
        return pattern_name(predicate, pattern)

    def ground(self, pattern: Pattern) -> bool:
        return all(label is None for label in pattern)

    def core(self, tin: int, until: int | None = None) -> Core:
        """Certain and possible clauses together, over the history up to tin.

        Later input is possible for ever, or `until` a tick beyond which it does not matter.
        """
        own = self.deps.core
        predicates = dict(own.predicates)
        for name, patterns in self.patterns.items():
            if not own.predicates[name].input:
                for pattern in patterns:
                    narrow = _narrowed(own.predicates[name], pattern)
                    predicates[narrow.name] = narrow
        predicates[FUTURE] = Predicate(FUTURE, True, (), Role.FUTURE, FUTURE)
        last = tin + 1 if until is None else until
        later = [Clause(Head(FUTURE, when=FixedTick(t))) for t in range(tin + 1, last + 1)]
        if until is None:
            later.append(Clause(Head(FUTURE, when=AT_HEAD), (Premise(FUTURE, when=Offset(-1)),)))
        clauses = (*self.certain, *later, *(p.clause for p in self.clauses))
        assert not own.windows, "windows that are followed have no clauses for what is possible"
        return Core.of(own.program, predicates, clauses)


def pattern_name(predicate: str, pattern: Pattern) -> str:
    """The key of a predicate whose arguments are known or arbitrary by a pattern.

    >>> pattern_name("P", (None, 0, 0))
    'P?_00'
    """
    return key(Role.POSSIBLE, predicate, _label(pattern))


def all_args(pattern: Pattern, row: Row) -> tuple[Value | None, ...]:
    """All arguments of a possible fact, of which a row has those that are known.

    >>> all_args((None, 0, None), ("a", 5))
    ('a', None, 5)
    """
    values = iter(row)
    return tuple(next(values) if label is None else None for label in pattern)


def _label(pattern: Pattern) -> str:
    return "".join(
        "_" if label is None else f"{label}" if label < 10 else f"<{label}>" for label in pattern
    )


def any_pattern(predicate: Predicate) -> Pattern:
    """Every argument arbitrary; a bool is one of its two values."""
    return tuple(None if t is Type.BOOL else i for i, t in enumerate(predicate.types))


def _narrowed(predicate: Predicate, pattern: Pattern) -> Predicate:
    types = tuple(t for t, label in zip(predicate.types, pattern, strict=True) if label is None)
    return predicate.made(Role.POSSIBLE, _label(pattern), types)


def possible(
    deps: Dependencies, *, anything: bool = False, followed: Collection[str] = ()
) -> Possible:
    """Specialise the clauses below the queries, as far as patterns can arise.

    Windows are written out, but for those that are `followed` by whoever asks: of these there are
    the patterns, and no clauses. With `anything`, predicates that carry facts on
    (`Dependencies.carrying`) may also hold of anything at all: what they will be far ahead need
    then not be derived.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.analysis.dependencies import dependencies
    >>> from tidelog.language.checks import check
    >>> program = check("P(X) @ T :- E(X) @ T, F(X) @ T+1.").program
    >>> possible(dependencies(core(program), ["P"])).patterns["P"]
    [(None,), (0,)]
    """
    refuse_aggregates(
        deps,
        "what may still come of an aggregate is not told before its window has arrived; `delay`"
        " says when that is",
    )
    written = write_out(deps.core, lambda name: name not in followed)
    deps = _shortened(Dependencies(deps.queries, written))
    made = Possible(deps, deps.queries[0], [], [], {}, one_sign(deps))
    core = deps.core
    # What may hold at the last tick of a window, it may hold of.
    at_last_tick = [clause_of_a_tick(n, w) for n, w in core.windows.items()]
    for name, predicate in core.predicates.items():
        made.patterns[name] = [(None,) * len(predicate.types)] if predicate.input else []
        if anything and name in deps.carrying:
            made.patterns[name].append(any_pattern(predicate))
    done: set[object] = set()
    grew = True
    while grew:
        grew = False
        for number, clause in enumerate((*rules_of(core), *at_last_tick)):
            for choice in product(*(_choices(made, premise) for premise in clause.positive)):
                if (number, choice) in done:
                    continue
                done.add((number, choice))
                for pattern, special, exact in _specialise(deps, clause, choice):
                    if clause.head.predicate not in core.windows:
                        made.clauses.append(special)
                    made.exact = made.exact and exact
                    if pattern not in made.patterns[clause.head.predicate]:
                        made.patterns[clause.head.predicate].append(pattern)
                    grew = True
    for clause in rules_of(core):
        certain, exact = _certain(made, clause)
        made.certain.append(certain)
        made.exact = made.exact and exact
    return made


def one_sign(deps: Dependencies) -> bool:
    """Whether later facts of an input can only add answers, or only take them away, for each.

    Then one update brings all that is possible at once, and another leaves only what is certain.
    """
    signs: set[tuple[str, bool]] = set()
    todo = [(query, True) for query in deps.queries]
    while todo:
        name, positive = todo.pop()
        if (name, positive) not in signs:
            signs.add((name, positive))
            for clause in deps.core.uses_for[name]:
                todo += [
                    (p.predicate, positive is (p.sign is Sign.POSITIVE)) for p in clause.premises
                ]
    return not any(
        {(p.name, True), (p.name, False)} <= signs for p in deps.core.inputs if p.temporal
    )


def _certain(made: Possible, clause: Clause) -> tuple[Clause, bool]:
    """The clause for what holds whatever comes, and whether it is exact.

    What must be absent must not be possible under any pattern: it may be equal only where terms of
    the clause have one value, and is taken to be equal there.
    """
    if not clause.negative:
        return clause, True
    exact = True
    absent: list[Premise] = []
    for premise in clause.negative:
        predicate = made.deps.core.predicates[premise.predicate]
        if predicate.input:
            absent.append(premise)
            if predicate.temporal:
                absent.append(Premise(FUTURE, (), premise.when, Sign.NEGATIVE, premise.origin))
            continue
        for pattern in made.patterns[premise.predicate]:
            match = could_match(premise, pattern, clause.bound)
            if match is not None:
                exact = exact and match
                absent.append(narrow(premise, pattern))
    premises = (*clause.positive, *dict.fromkeys(absent))
    return replace(clause, premises=premises, written=None), exact


def could_match(premise: Premise, pattern: Pattern, bound: Collection[str]) -> bool | None:
    """Whether a negated premise can be what a pattern says: None no, True surely, False perhaps.

    Equal labels stand for equal values. A variable that nothing binds is any value.
    """
    surely = True
    first: dict[int, Term] = {}
    for term, label in zip(premise.args, pattern, strict=True):
        if label is None or (isinstance(term, Variable) and term.name not in bound):
            continue
        other = first.setdefault(label, term)
        if isinstance(term, Constant) and isinstance(other, Constant) and term != other:
            return None
        surely = surely and term == other
    return surely


def narrow(premise: Premise, pattern: Pattern) -> Premise:
    """The premise on what is possible under a pattern: only the known arguments are there."""
    labelled = zip(premise.args, pattern, strict=True)
    kept = tuple(arg for arg, label in labelled if label is None)
    return replace(premise, predicate=pattern_name(premise.predicate, pattern), args=kept)


def _shortened(deps: Dependencies) -> Dependencies:
    """Long clauses in steps, each with two premises and a predicate for what is known so far.

    A clause is specialised for every combination of its premises' patterns; over two at a time
    there are few. Variables are forgotten when nothing later needs them. Negated premises do not
    multiply: they come last, when most values are known.
    """
    clauses: list[Clause] = []
    predicates = dict(deps.core.predicates)
    for number, clause in enumerate(rules_of(deps.core)):
        long = len(clause.positive) > MOST_ATOMS
        if long and clause.connected and clause.head.temporal:
            clauses += _in_steps(deps.core, clause, number, predicates)
        else:
            clauses.append(clause)
    core = deps.core.rewritten(clauses, predicates)
    return Dependencies(deps.queries, core)


def _in_steps(
    core: Core, clause: Clause, number: int, predicates: dict[str, Predicate]
) -> Iterator[Clause]:
    """One long clause in steps; the predicates between them are added to those there are."""
    types = _types(core, clause)
    # What carries the time comes first, so that every step has it.
    first, *rest = sorted(clause.positive, key=lambda p: p.offset is None)
    tests = list(clause.tests)
    while rest:
        known = {v.name for v in first.variables}
        # What shares variables with what is known joins; the rest would multiply.
        second = max(rest, key=lambda p: len(known & {v.name for v in p.variables}))
        rest.remove(second)
        bound = known | {v.name for v in second.variables}
        # What is calculated gets its value, and is tested, in the last step.
        due = [t for t in tests if not rest or {v.name for v in t.variables} <= bound]
        tests = [test for test in tests if test not in due]
        head, absent = clause.head, clause.negative
        if rest:
            later = {v.name for v in head.variables}
            later |= {v.name for premise in (*rest, *absent) for v in premise.variables}
            later |= {v.name for test in tests for v in test.variables}
            kept = tuple(sorted(bound & later))
            step = core.predicates[head.predicate].made(
                Role.STEP, f"{number}.{len(rest)}", tuple(types[v] for v in kept)
            )
            predicates[step.name] = step
            head, absent = Head(step.name, tuple(map(Variable, kept)), head.when), ()
        premises = (first, second, *absent)
        written = None if clause.negative else clause.written
        yield replace(clause, head=head, premises=premises, tests=tuple(due), written=written)
        first = Premise(head.predicate, head.args, head.when)


_Choice: TypeAlias = "Pattern | Role"


def _choices(made: Possible, premise: Premise) -> list[_Choice]:
    """Ways in which a premise can be met: under a pattern, or by input still to come."""
    predicate = made.deps.core.predicates[premise.predicate]
    patterns: list[_Choice] = list(made.patterns[premise.predicate])
    return [*patterns, Role.FUTURE] if predicate.input and predicate.temporal else patterns


def _specialise(
    deps: Dependencies, clause: Clause, choice: tuple[_Choice, ...]
) -> Iterator[tuple[Pattern, PossibleClause, bool]]:
    """The clause with its premises at given patterns; several where bools are expanded."""
    bools = [
        (premise, i)
        for premise, pattern in zip(clause.positive, choice, strict=True)
        if isinstance(pattern, Role)
        for i, type_ in enumerate(deps.core.predicates[premise.predicate].types)
        if type_ is Type.BOOL
    ]
    for values in product((True, False), repeat=len(bools)):
        joined = _Joined()
        ok = all(
            joined.unify(premise.args[i], Constant(value, Type.BOOL))
            for (premise, i), value in zip(bools, values, strict=True)
        )
        for premise, pattern in zip(clause.positive, choice, strict=True):
            if not isinstance(pattern, Role):
                ok = joined.meet(premise, pattern) and ok
        for test in clause.tests:
            if (equal := _equated(test)) is not None:
                ok = ok and joined.unify(*equal)
        joined.define(clause)
        if ok:
            made = _assembled(deps, clause, choice, joined)
            if made is not None:
                yield made


class _Joined:
    """Which terms of a clause are one value, and whether it is known."""

    def __init__(self) -> None:
        self.parent: dict[str, Term] = {}
        self.known: set[str] = set()

    def find(self, term: Term) -> Term:
        while isinstance(term, Variable) and term.name in self.parent:
            term = self.parent[term.name]
        return term

    def unify(self, one: Term, other: Term) -> bool:
        a, b = self.find(one), self.find(other)
        if a == b:
            return True
        if isinstance(a, Variable):
            a, b = b, a
        if not isinstance(b, Variable):
            return False  # two different constants
        self.parent[b.name] = a
        if b.name in self.known:
            self.know(a)
        return True

    def know(self, term: Term) -> None:
        same = self.find(term)
        if isinstance(same, Variable):
            self.known.add(same.name)

    def is_known(self, expression: Expression) -> bool:
        same = (self.find(term) for term in terms_of(expression))
        return all(isinstance(term, Constant) or term.name in self.known for term in same)

    def moved(self, expression: Expression) -> Expression:
        """The expression with each term replaced by the one that stands for it."""
        if isinstance(expression, Calculation):
            return replace(expression, args=tuple(map(self.moved, expression.args)))
        return self.find(expression)

    def define(self, clause: Clause) -> None:
        """What a clause calculates of known values is known."""
        for test in clause.definitions:
            if isinstance(test.left, Variable) and self.is_known(test.right):
                self.know(test.left)

    def meet(self, premise: Premise, pattern: Pattern) -> bool:
        """Whether a premise can hold under a pattern: known arguments, and which are equal."""
        labels: dict[int, Term] = {}
        ok = True
        for term, label in zip(premise.args, pattern, strict=True):
            if label is None:
                self.know(term)
            else:
                ok = ok and self.unify(term, labels.setdefault(label, term))
        return ok


def _assembled(
    deps: Dependencies, clause: Clause, choice: tuple[_Choice, ...], joined: _Joined
) -> tuple[Pattern, PossibleClause, bool] | None:
    premises: list[Premise] = []
    meaning: list[Premise | Open] = []
    unchecked: list[Premise] = []
    chosen = iter(choice)
    for premise in clause.premises:
        whole = replace(premise, args=tuple(map(joined.find, premise.args)))
        if premise.sign is Sign.NEGATIVE:
            if _anything(clause, whole, joined):
                unchecked.append(whole)
            else:
                premises.append(whole)
                meaning.append(whole)
            continue
        pattern = next(chosen)
        if isinstance(pattern, Role):
            premises.append(Premise(FUTURE, when=premise.when))
            meaning.append(Open(whole))
        else:
            is_input = deps.core.predicates[premise.predicate].input
            premises.append(whole if is_input else narrow(whole, pattern))
            meaning.append(whole)
    tests, dropped = _divided(clause, joined)
    exact = _satisfiable(deps.core, clause, joined, dropped)
    if exact is None:
        return None
    exact = exact and all(
        _harmless(deps, clause, premise, joined, dropped, meaning) for premise in unchecked
    )
    own, head, whole_head = _specialised_head(clause, joined)
    written = None if unchecked else clause.written
    special = replace(
        clause, head=head, premises=tuple(premises), tests=tuple(tests), written=written
    )
    made = PossibleClause(special, clause, whole_head, tuple(meaning), tuple(unchecked))
    return own, made, exact


def _specialised_head(clause: Clause, joined: _Joined) -> tuple[Pattern, Head, Head]:
    """The pattern of a head, the head with its known arguments, and with all of them."""
    labels: dict[str, int] = {}
    pattern: list[int | None] = []
    whole = tuple(map(joined.find, clause.head.args))
    known: list[Term] = []
    for term in whole:
        if isinstance(term, Constant) or term.name in joined.known:
            pattern.append(None)
            known.append(term)
        else:
            pattern.append(labels.setdefault(term.name, len(labels)))
    own, when = tuple(pattern), clause.head.when
    name = clause.head.predicate
    return own, Head(pattern_name(name, own), tuple(known), when), Head(name, whole, when)


def _anything(clause: Clause, absent: Premise, joined: _Joined) -> set[str]:
    """The variables of a negated premise that may be any value; what nothing binds is none."""
    bound = {joined.find(Variable(name)) for name in clause.bound}
    return {v.name for v in absent.variables if v in bound and v.name not in joined.known}


def _harmless(
    deps: Dependencies,
    clause: Clause,
    absent: Premise,
    joined: _Joined,
    dropped: list[Comparison],
    meaning: list[Premise | Open],
) -> bool:
    """Whether leaving a negated premise out says no more than is possible.

    What is certain is certain of known values: one never seen escapes it, where nothing else asks
    for that value. And no input is certain after tin.
    """
    if deps.core.predicates[absent.predicate].input and absent.offset is not None:
        later = [m.premise.offset for m in meaning if isinstance(m, Open)]
        if any(offset is not None and offset <= absent.offset for offset in later):
            return True
    compared = {v.name for test in dropped for v in test.variables}
    top = clause.head.predicate in deps.queries and not any(
        edge.body == clause.head.predicate for edge in deps.edges
    )
    exported = {t.name for t in map(joined.find, clause.head.args) if isinstance(t, Variable)}
    asked = compared if top else compared | exported
    return not _anything(clause, absent, joined) <= asked


def _divided(clause: Clause, joined: _Joined) -> tuple[list[Comparison], list[Comparison]]:
    """The tests on known values, and those on arbitrary ones; equations have been used up."""
    tests: list[Comparison] = []
    dropped: list[Comparison] = []
    for test in clause.tests:
        if _equated(test) is None:
            left, right = joined.moved(test.left), joined.moved(test.right)
            known = joined.is_known(left) and joined.is_known(right)
            (tests if known else dropped).append(replace(test, left=left, right=right))
    return tests, dropped


def _satisfiable(
    core: Core, clause: Clause, joined: _Joined, dropped: list[Comparison]
) -> bool | None:
    """Whether comparisons on arbitrary values can be met: None no, True surely, False perhaps."""
    if not dropped:
        return True
    if any(isinstance(side, Calculation) for c in dropped for side in (c.left, c.right)):
        return False  # what is calculated of a value to come may be any number, or none
    symbols: dict[str, Symbol] = {}
    types = _types(core, clause)

    def value(term: Expression) -> Symbol | Constant:
        assert not isinstance(term, Calculation)
        if isinstance(term, Constant):
            return term
        return symbols.setdefault(term.name, Symbol(len(symbols), types.get(term.name)))

    if Order().assume(*((value(c.left), c.operator, value(c.right)) for c in dropped)) is None:
        return None
    exported = {t.name for t in map(joined.find, clause.head.args) if isinstance(t, Variable)}
    count: dict[str, int] = {}
    for c in dropped:
        arbitrary = [t for t in (c.left, c.right) if not joined.is_known(t)]
        for term in arbitrary:
            assert isinstance(term, Variable)
            count[term.name] = count.get(term.name, 0) + 1
            order = c.operator is not Operator.NE
            awkward = order and types.get(term.name) is Type.TEXT
            if term.name in exported or count[term.name] > 1 or awkward:
                return False
    return True


def _equated(test: Comparison) -> tuple[Term, Term] | None:
    """The terms that a test says are one; None if it says something else."""
    left, right = test.left, test.right
    if isinstance(left, Calculation) or isinstance(right, Calculation):
        return None
    return (left, right) if test.operator is Operator.EQ else None


def _types(core: Core, clause: Clause) -> dict[str, Type | None]:
    """The types of a clause's variables."""
    return {
        term.name: type_
        for premise in clause.premises
        for term, type_ in zip(premise.args, core.predicates[premise.predicate].types, strict=True)
        if isinstance(term, Variable)
    }
