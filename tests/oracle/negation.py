"""Programs with `not` and clocks at random: what `oracle.generate` gives, and absence in it.

Negated atoms are temporal and rigid, of inputs and of derived predicates, at offsets back and
ahead and at fixed ticks, with `_`; last values, timeouts, silence after an alarm, rules that differ
in `not` only, and cycles through `not`. What `check` refuses for such a cycle is not tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import reject
from hypothesis import strategies as st

from tidelog.language.checks import check
from tidelog.language.diagnostics import Code
from tidelog.language.program import (
    Atom,
    Clock,
    Literal,
    Negated,
    Program,
    Rule,
    Statement,
    Term,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Variable,
)

from .generate import Case, GeneratedPredicate, Generator, Shape, at_offset

_NEAR = (0, 0, 0, -1, 1, -1, -2, 2, -3, 3, -5, 5)


def programs_with_not(
    *,
    recursive: bool = True,
    connected: bool = False,
    explicit_times: bool = True,
    comparisons: bool = True,
    huge: bool = False,
    rigid: bool = True,
    rules_for_inputs: bool = True,
    hostile: bool = False,
    clock: bool = True,
    both_ways: bool = False,
    max_rules: int = 6,
    wide: bool = False,
) -> st.SearchStrategy[Case]:
    """As `programs_and_facts`, with `not` in every program.

    `both_ways` allows recursion into the future beside recursion into the past. Bounded time is
    then at times too short for the oracles: see `oracle.horizon`.
    """
    shape = Shape(
        recursive,
        connected,
        explicit_times,
        comparisons,
        huge,
        rigid,
        rules_for_inputs,
        hostile,
        max_rules,
        wide,
    )
    return _cases(shape, clock=clock, both_ways=both_ways)


@st.composite
def _cases(draw: st.DrawFn, shape: Shape, *, clock: bool, both_ways: bool) -> Case:
    return WithNot(draw, shape, clock=clock, both_ways=both_ways).case()


class WithNot(Generator):
    def __init__(self, draw: st.DrawFn, shape: Shape, *, clock: bool, both_ways: bool) -> None:
        super().__init__(draw, shape)
        if not both_ways:
            self.way = self.way or 1
        # A clock fills all time, which must therefore be short.
        named = "Tick" if clock and not self.huge and self.chance(1, 3) else None
        self.clock = named
        self.negative: list[str] = []
        # Cycles through `not` look back, so that time has to run forwards.
        self.forwards = self.way == 1

    def declarations(self) -> list[Statement]:
        clocks: list[Statement] = [Clock(self.clock)] if self.clock else []
        return [*super().declarations(), *clocks]

    def checked(self, text: str) -> Program:
        report = check(text)
        if {d.code for d in report.errors} & {Code.NOT_STRATIFIED, Code.NUMBER}:
            reject()
        program = report.accepted()
        if not any(rule.negative for rule in program.rules):
            reject()
        return program

    # Absence in any rule

    def finished(self, rule: Rule, bound: dict[Type, list[str]]) -> Rule:
        body = list(rule.body)
        # A rule at random may be refused for a cycle: most want the absence of what lies below.
        while len(body) < len(rule.body) + 2 and self.chance(1, 2):
            absent = self.absence(rule, bound)
            if absent is not None:
                body.insert(self.number(0, len(body)), absent)
        return replace(rule, body=tuple(body))

    def absence(self, rule: Rule, bound: dict[Type, list[str]]) -> Negated | None:
        head = next(p for p in self.predicates if p.name == rule.head.predicate)
        again = self.shape.recursive and self.forwards and head.temporal and self.chance(1, 8)
        options = [p for p in self.predicates if p.temporal] if again else self.below(head)
        p = self.one_of([o for o in options if o.input or self.chance(4, 5)] or options)
        time = self.absent_time(rule, back=again) if p.temporal else None
        if p.temporal and time is None:
            return None
        return Negated(Atom(p.name, tuple(self.absent_term(t, bound) for t in p.types), time))

    def absent_term(self, type_: Type, bound: dict[Type, list[str]]) -> Term:
        match self.number(0, 7):
            case 7:
                return self.constant(type_)
            case 5 | 6:
                return Variable("_#0")
            case _:
                return Variable(self.one_of(bound.get(type_, ["_#0"])))

    def absent_time(self, rule: Rule, *, back: bool) -> Time | None:
        times = [a.time for a in rule.positive if isinstance(a.time, TimeOffset)]
        fixed = self.shape.explicit_times and not back
        if fixed and (not times or self.chance(1, 10)):
            return TimePoint(self.tick())
        if not times:
            return None
        anchor = self.one_of(times)
        if not back:
            return replace(anchor, offset=anchor.offset + self.near())
        if not isinstance(rule.head.time, TimeOffset):
            return None
        return replace(rule.head.time, offset=rule.head.time.offset - abs(self.step()))

    def near(self) -> int:
        far = self.huge * self.number(-1, 1) if self.huge and self.chance(1, 3) else 0
        return self.one_of(_NEAR) + far

    # Rules that are about absence

    def kinds(self) -> list[Callable[[], list[Rule]]]:
        kinds = [*super().kinds(), self.timeout, self.timeout, self.either]
        if self.shape.recursive:
            kinds += [self.last_value, self.last_value]
            if self.forwards:
                kinds += [self.silence, self.silence, self.in_turns]
        if self.clock:
            kinds += [self.ticking, self.ticking]
        return kinds

    def rules(self) -> list[Rule]:
        made = super().rules()
        if not any(rule.negative for rule in made):
            made += self.one_of((self.timeout, self.either))()
        self.negative = list(dict.fromkeys(r.head.predicate for r in made if r.negative))
        return made

    def asked(self, names: list[str]) -> list[str]:
        """What hangs on absence is asked for, and at times the clock."""
        queries = super().asked(names)
        if self.negative and not set(self.negative) & set(queries):
            queries.append(self.one_of(self.negative))
        return [*queries, self.clock] if self.clock and self.chance(1, 8) else queries

    def source(self, head: GeneratedPredicate) -> GeneratedPredicate:
        return self.one_of([p for p in self.below(head) if p.temporal])

    def timed_head(self) -> GeneratedPredicate | None:
        options = [p for p in self.derived if p.temporal]
        return self.one_of(options) if options else None

    def fitted(self, head: GeneratedPredicate, source: Atom, p: GeneratedPredicate) -> Atom:
        """A head with the arguments of a source of the same types, constants elsewhere."""
        left = list(zip(p.types, source.args, strict=True))
        args: list[Term] = []
        for type_ in head.types:
            same = next((pair for pair in left if pair[0] is type_), None)
            if same is not None:
                left.remove(same)
            args.append(self.constant(type_) if same is None else same[1])
        return Atom(head.name, tuple(args), at_offset(0))

    def plain(self, p: GeneratedPredicate, time: Time | None) -> Atom:
        return Atom(p.name, tuple(Variable(f"X{i}") for i in range(1, len(p.types) + 1)), time)

    def blurred(self, atom: Atom) -> Atom:
        """The atom with `_` for its last argument, at times: no value at all may be there."""
        if not atom.args or self.chance(1, 3):
            return atom
        return replace(atom, args=(*atom.args[:-1], Variable("_#0")))

    def timeout(self) -> list[Rule]:
        """`Lost(X) @ T :- Beat(X) @ T-2, not Beat(X) @ T-1, not Beat(X) @ T.`"""
        head = self.timed_head()
        if head is None:
            return self.any_rule()
        p = self.source(head)
        ticks = self.number(1, 4)
        beat = self.plain(p, at_offset(-ticks))
        missing = self.blurred(beat)
        body: list[Literal] = [beat]
        body += [Negated(replace(missing, time=at_offset(-t))) for t in range(ticks)]
        return [Rule(self.fitted(head, beat, p), tuple(body))]

    def either(self) -> list[Rule]:
        """Two rules that differ in `not` only, or a rule of which one half is left out."""
        head = self.timed_head()
        if head is None:
            return self.any_rule()
        rule = self.rule(head, self.bodies(head))
        atom = self.plain(self.predicates[0], at_offset(self.near()))
        atom = replace(atom, args=tuple(self.constant(t) for t in self.predicates[0].types))
        if not any(
            isinstance(a.time, TimeOffset) and a.time.variable.name == "T" for a in rule.positive
        ):
            return [rule]
        there = replace(rule, body=(*rule.body, atom))
        absent = replace(rule, body=(*rule.body, Negated(atom)))
        return [there, absent] if self.chance(1, 2) else [absent]

    def last_value(self) -> list[Rule]:
        """`Level(X, V) @ T+1 :- Level(X, V) @ T, not Temp(X, _) @ T+1.`"""
        head = self.timed_head()
        if head is None:
            return self.any_rule()
        p = self.source(head)
        step = self.step()
        first = self.plain(p, at_offset(0))
        level = self.fitted(head, first, p)
        newer = self.blurred(replace(first, time=at_offset(step)))
        # Arguments of the source that the level does not have may be any.
        kept = {t for t in level.args if isinstance(t, Variable)}
        args = tuple(t if t in kept else Variable("_#0") for t in newer.args)
        held = (level, Negated(replace(newer, args=args)))
        return [Rule(level, (first,)), Rule(replace(level, time=at_offset(step)), held)]

    def silence(self) -> list[Rule]:
        """`Alarm(X) @ T :- Hot(X) @ T, not Alarm(X) @ T-1.`"""
        head = self.timed_head()
        if head is None:
            return self.any_rule()
        p = self.source(head)
        hot = self.plain(p, at_offset(0))
        alarm = self.fitted(head, hot, p)
        unit = abs(self.step()) if self.huge else 1
        steps = range(1, 1 + self.number(1, 3))
        quiet = [Negated(self.blurred(replace(alarm, time=at_offset(-unit * s)))) for s in steps]
        return [Rule(alarm, (hot, *quiet))]

    def in_turns(self) -> list[Rule]:
        """`A @ T :- E @ T, not B @ T-1. B @ T :- F @ T, not A @ T.`"""
        temporal = [p for p in self.derived if p.temporal]
        if len(temporal) < 2:
            return self.silence()
        i = self.number(1, len(temporal) - 1)
        made = []
        for head, other, back in (
            (temporal[i - 1], temporal[i], abs(self.step())),
            (temporal[i], temporal[i - 1], 0),
        ):
            p = self.source(temporal[i - 1])
            given = self.plain(p, at_offset(0))
            absent = self.fitted(other, given, p)
            made.append(
                Rule(
                    self.fitted(head, given, p),
                    (given, Negated(replace(absent, time=at_offset(-back)))),
                )
            )
        return made

    def ticking(self) -> list[Rule]:
        """`Idle @ T :- Tick @ T, not Beat(_) @ T.`, at times not idle twice in a row."""
        head = self.timed_head()
        if head is None or self.clock is None:
            return self.any_rule()
        tick = Atom(self.clock, (), at_offset(0))
        idle = Atom(head.name, tuple(self.constant(t) for t in head.types), at_offset(0))
        p = self.source(head)
        nothing = Atom(p.name, tuple(Variable("_#0") for _ in p.types), at_offset(self.near()))
        body: list[Literal] = [tick, Negated(nothing)]
        if self.shape.recursive and self.forwards and self.chance(1, 2):
            body.append(Negated(replace(idle, time=at_offset(-self.number(1, 3)))))
        return [Rule(idle, tuple(body))]
