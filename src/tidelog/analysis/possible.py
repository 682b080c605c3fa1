"""The possible program: what may still come to hold, as an ordinary program.

The paper decides DTP with a critical update: every fact over all objects, at every later time. That
would be (c+1)^arity facts. Instead each predicate is specialised by *pattern*: an argument is known
(its value is in a column) or arbitrary (any value will do; equal labels, equal values). An input up
to tin is all known; after tin it is all arbitrary and always true, which one predicate without
arguments says for all of them. Rigid inputs are never arbitrary, and a bool is one of two values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from tidelog.analysis.dependencies import Dependencies, is_connected
from tidelog.language.program import (
    Atom,
    Comparison,
    Constant,
    Literal,
    Operator,
    Rule,
    Term,
    TimeOffset,
    TimePoint,
    Type,
    Variable,
)
from tidelog.logic.normalise import Core, Predicate
from tidelog.logic.order import Order, Symbol

# A known argument, or the label of an arbitrary one.
Pattern: TypeAlias = tuple[int | None, ...]

# Rules with more atoms than this are taken in steps.
MOST_ATOMS = 3
FUTURE = "[future]"  # holds at every tick after tin
DUE = "[due]"  # holds at the output times still to be answered
_T = Variable("T")


@dataclass(frozen=True)
class Open:
    """A body atom that future input would have to supply; arbitrary arguments are variables."""

    atom: Atom


@dataclass(frozen=True)
class PossibleRule:
    """A specialised rule, with what each of its body atoms stands for."""

    rule: Rule
    origin: Rule
    head: Atom  # with all arguments, known and arbitrary
    body: tuple[Atom | Open, ...]  # likewise, in the order of the origin's atoms


@dataclass
class Possible:
    """The possible program of a query (or of several: `query` is then the first)."""

    deps: Dependencies
    query: str
    rules: list[PossibleRule]
    patterns: dict[str, list[Pattern]]
    exact: bool

    def name(self, predicate: str, pattern: Pattern) -> str:
        return pattern_name(predicate, pattern)

    def ground(self, pattern: Pattern) -> bool:
        return all(label is None for label in pattern)

    def core(self, tin: int, until: int | None = None) -> Core:
        """Certain and possible rules together, over the history up to tin.

        Later input is possible for ever, or `until` a tick beyond which it does not matter.
        """
        own = self.deps.core
        predicates = dict(own.predicates)
        for name, patterns in self.patterns.items():
            if not own.predicates[name].input:
                for pattern in patterns:
                    spec = _narrowed(own.predicates[name], pattern)
                    predicates[spec.name] = spec
        predicates[FUTURE] = Predicate(FUTURE, True, (), False, FUTURE)
        last = tin + 1 if until is None else until
        later = [Rule(Atom(FUTURE, (), TimePoint(t))) for t in range(tin + 1, last + 1)]
        if until is None:
            following = Atom(FUTURE, (), TimeOffset(_T, 1))
            later.append(Rule(following, (Atom(FUTURE, (), TimeOffset(_T)),)))
        rules = (*own.rules, *later, *(p.rule for p in self.rules))
        return Core(own.program, rules, predicates)


def pattern_name(predicate: str, pattern: Pattern) -> str:
    """
    >>> pattern_name("P", (None, 0, 0))
    'P?_00'
    """
    labels = (
        "_" if label is None else f"{label}" if label < 10 else f"<{label}>" for label in pattern
    )
    return f"{predicate}?{''.join(labels)}"


def any_pattern(predicate: Predicate) -> Pattern:
    """Every argument arbitrary; a bool is one of its two values."""
    return tuple(None if t is Type.BOOL else i for i, t in enumerate(predicate.types))


def _narrowed(predicate: Predicate, pattern: Pattern) -> Predicate:
    types = tuple(t for t, label in zip(predicate.types, pattern, strict=True) if label is None)
    return Predicate(pattern_name(predicate.name, pattern), predicate.temporal, types, False, "")


def possible(deps: Dependencies, *, anything: bool = False) -> Possible:
    """Specialise the rules below the queries, as far as patterns can arise.

    With `anything`, predicates that carry facts on (`Dependencies.carrying`) may also hold of
    anything at all: what they will be far ahead need then not be derived.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.analysis.dependencies import dependencies
    >>> from tidelog.language.checks import check
    >>> program = check("P(X) @ T :- E(X) @ T, F(X) @ T+1.").program
    >>> possible(dependencies(core(program), ["P"])).patterns["P"]
    [(None,), (0,)]
    """
    deps = _shortened(deps)
    found = Possible(deps, deps.queries[0], [], {}, True)
    core = deps.core
    for name, predicate in core.predicates.items():
        found.patterns[name] = [(None,) * len(predicate.types)] if predicate.input else []
        if anything and name in deps.carrying:
            found.patterns[name].append(any_pattern(predicate))
    done: set[object] = set()
    grew = True
    while grew:
        grew = False
        for number, rule in enumerate(core.rules):
            for choice in product(*(_choices(found, atom) for atom in rule.atoms)):
                if (number, choice) in done:
                    continue
                done.add((number, choice))
                for pattern, made, exact in _specialise(core, rule, choice):
                    found.rules.append(made)
                    found.exact = found.exact and exact
                    if pattern not in found.patterns[rule.head.predicate]:
                        found.patterns[rule.head.predicate].append(pattern)
                    grew = True
    return found


def _shortened(deps: Dependencies) -> Dependencies:
    """Long rules in steps, each with two atoms and a predicate for what is known so far.

    A rule is specialised for every combination of its atoms' patterns; over two atoms at a time
    there are few. Variables are forgotten when nothing later needs them.
    """
    rules: list[Rule] = []
    predicates = dict(deps.core.predicates)
    for number, rule in enumerate(deps.core.rules):
        if len(rule.atoms) <= MOST_ATOMS or not is_connected(rule) or rule.head.time is None:
            rules.append(rule)
            continue
        types = _types(deps.core, rule)
        # What carries the time comes first, so that every step has it.
        first, *rest = sorted(rule.atoms, key=lambda a: not isinstance(a.time, TimeOffset))
        comparisons = list(rule.comparisons)
        while rest:
            known = {v.name for v in first.variables}
            # What shares variables with what is known joins; the rest would multiply.
            second = max(rest, key=lambda a: len(known & {v.name for v in a.variables}))
            rest.remove(second)
            bound = known | {v.name for v in second.variables}
            due = [c for c in comparisons if {v.name for v in c.variables} <= bound]
            comparisons = [c for c in comparisons if c not in due]
            later = {v.name for a in (rule.head, *rest) for v in a.variables}
            later |= {v.name for c in comparisons for v in c.variables}
            if rest:
                kept = tuple(sorted(bound & later))
                name = f"{rule.head.predicate}[{number}.{len(rest)}]"
                step = tuple(types[v] for v in kept)
                predicates[name] = Predicate(name, True, step, False, "")
                head = Atom(name, tuple(map(Variable, kept)), rule.head.time)
            else:
                head = rule.head
            rules.append(Rule(head, (first, second, *due), rule.origin))
            first = head
    return Dependencies(deps.queries, Core(deps.core.program, tuple(rules), predicates))


_Choice: TypeAlias = "Pattern | str"


def _choices(found: Possible, atom: Atom) -> list[_Choice]:
    predicate = found.deps.core.predicates[atom.predicate]
    patterns: list[_Choice] = list(found.patterns[atom.predicate])
    return [*patterns, FUTURE] if predicate.input and predicate.temporal else patterns


def _specialise(
    core: Core, rule: Rule, choice: tuple[_Choice, ...]
) -> Iterator[tuple[Pattern, PossibleRule, bool]]:
    """The rule with its body atoms at given patterns; several where bools are expanded."""
    bools = [
        (atom, i)
        for atom, pattern in zip(rule.atoms, choice, strict=True)
        if pattern == FUTURE
        for i, type_ in enumerate(core.predicates[atom.predicate].types)
        if type_ is Type.BOOL
    ]
    for values in product((True, False), repeat=len(bools)):
        joined = _Joined()
        ok = all(
            joined.unify(atom.args[i], Constant(value, Type.BOOL))
            for (atom, i), value in zip(bools, values, strict=True)
        )
        for atom, pattern in zip(rule.atoms, choice, strict=True):
            labels: dict[int, Term] = {}
            for i, term in enumerate(atom.args):
                if isinstance(pattern, str):
                    continue
                label = pattern[i]
                if label is None:
                    joined.know(term)
                else:
                    ok = ok and joined.unify(term, labels.setdefault(label, term))
        for comparison in rule.comparisons:
            if comparison.operator is Operator.EQ:
                ok = ok and joined.unify(comparison.left, comparison.right)
        if ok:
            made = _assembled(core, rule, choice, joined)
            if made is not None:
                yield made


class _Joined:
    """Which terms of a rule are one value, and whether it is known."""

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
        found = self.find(term)
        if isinstance(found, Variable):
            self.known.add(found.name)

    def is_known(self, term: Term) -> bool:
        found = self.find(term)
        return isinstance(found, Constant) or found.name in self.known


def _assembled(
    core: Core, rule: Rule, choice: tuple[_Choice, ...], joined: _Joined
) -> tuple[Pattern, PossibleRule, bool] | None:
    body: list[Literal] = []
    meaning: list[Atom | Open] = []
    for atom, pattern in zip(rule.atoms, choice, strict=True):
        args = tuple(joined.find(t) for t in atom.args)
        whole = Atom(atom.predicate, args, atom.time, atom.origin)
        if pattern == FUTURE:
            body.append(Atom(FUTURE, (), atom.time))
            meaning.append(Open(whole))
            continue
        assert not isinstance(pattern, str)
        if core.predicates[atom.predicate].input:
            body.append(whole)
        else:
            kept = tuple(a for a, label in zip(args, pattern, strict=True) if label is None)
            body.append(Atom(pattern_name(atom.predicate, pattern), kept, atom.time))
        meaning.append(whole)
    kept_comparisons: list[Comparison] = []
    dropped: list[Comparison] = []
    for c in rule.comparisons:
        if c.operator is Operator.EQ:
            continue
        moved = Comparison(joined.find(c.left), c.operator, joined.find(c.right), c.origin)
        both = joined.is_known(c.left) and joined.is_known(c.right)
        (kept_comparisons if both else dropped).append(moved)
    exact = _satisfiable(core, rule, joined, dropped)
    if exact is None:
        return None
    labels: dict[str, int] = {}
    pattern_: list[int | None] = []
    args_: list[Term] = []
    for term in rule.head.args:
        found = joined.find(term)
        if isinstance(found, Constant) or found.name in joined.known:
            pattern_.append(None)
            args_.append(found)
        else:
            pattern_.append(labels.setdefault(found.name, len(labels)))
    pattern = tuple(pattern_)
    head = Atom(pattern_name(rule.head.predicate, pattern), tuple(args_), rule.head.time)
    made = Rule(head, (*body, *kept_comparisons), rule.origin)
    whole_head = Atom(
        rule.head.predicate, tuple(joined.find(t) for t in rule.head.args), rule.head.time
    )
    return pattern, PossibleRule(made, rule, whole_head, tuple(meaning)), exact


def _satisfiable(core: Core, rule: Rule, joined: _Joined, dropped: list[Comparison]) -> bool | None:
    """Whether comparisons on arbitrary values can be met: None no, True surely, False perhaps."""
    if not dropped:
        return True
    symbols: dict[str, Symbol] = {}
    types = _types(core, rule)

    def value(term: Term) -> Symbol | Constant:
        if isinstance(term, Constant):
            return term
        return symbols.setdefault(term.name, Symbol(len(symbols), types.get(term.name)))

    if Order().assume(*((value(c.left), c.operator, value(c.right)) for c in dropped)) is None:
        return None
    exported = {t.name for t in map(joined.find, rule.head.args) if isinstance(t, Variable)}
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


def _types(core: Core, rule: Rule) -> dict[str, Type | None]:
    found: dict[str, Type | None] = {}
    for atom in rule.atoms:
        for term, type_ in zip(atom.args, core.predicates[atom.predicate].types, strict=True):
            if isinstance(term, Variable):
                found[term.name] = type_
    return found
