"""Programs with windows at random: what `oracle.negation` gives, over intervals.

Any atom of a body may be asked for at `some` ticks of an interval, `always` or `at least K` of
them, with `not` or without, in the past, the future or around, at fixed ticks and at free times;
heads hold at intervals; recursion goes through windows, and looks back through `not`. Some programs
have windows longer than the 60 ticks of a packed word, and facts without a gap for as long.
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
    Instant,
    Interval,
    Literal,
    Negated,
    Program,
    Quantifier,
    Rule,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Value,
)

from .generate import Case, GeneratedPredicate, Shape, at_offset
from .negation import WithNot
from .unfold import has_intervals

_SHORT = (5, 5, 5, 5, 9, 14)
_LONG = (61, 64, 121, 200)
# Around powers of two, where windows double, and around packed words.
_LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 32, 33, 59, 60, 61, 64, 119, 120, 121, 128, 180, 200)


def programs_with_windows(
    *,
    recursive: bool = True,
    connected: bool = False,
    explicit_times: bool = True,
    comparisons: bool = True,
    rigid: bool = True,
    rules_for_inputs: bool = True,
    hostile: bool = False,
    clock: bool = True,
    long: bool = False,
    any_number: bool = False,
    negated: bool = True,
    max_rules: int = 5,
) -> st.SearchStrategy[Case]:
    """As `programs_with_not`, with an interval in every program, `not` in most.

    `long` intervals have up to 200 ticks, others at most 14; with `any_number` any K of them are
    asked for, which is otherwise near one end in long ones.
    """
    shape = Shape(
        recursive,
        connected,
        explicit_times,
        comparisons,
        False,
        rigid,
        rules_for_inputs,
        hostile,
        min(max_rules, 3) if long else max_rules,
    )
    return _cases(shape, clock, long, any_number, negated)


@st.composite
def _cases(
    draw: st.DrawFn, shape: Shape, clock: bool, long: bool, any_number: bool, negated: bool
) -> Case:
    return _WithWindows(draw, shape, clock, long, any_number, negated).case()


class _WithWindows(WithNot):
    def __init__(
        self,
        draw: st.DrawFn,
        shape: Shape,
        clock: bool,
        long: bool,
        any_number: bool,
        negated: bool,
    ) -> None:
        super().__init__(draw, shape, clock=clock and negated, both_ways=False)
        self.longest = self.one_of(_LONG if long else _SHORT)
        self.any_number = any_number
        self.negated = negated

    def checked(self, text: str) -> Program:
        report = check(text)
        if any(d.code is Code.NOT_STRATIFIED for d in report.errors):
            reject()
        program = report.accepted()
        if not has_intervals(program):
            reject()
        return program

    def tick(self) -> int:
        """Near the centre, at times as far as the longest window reaches."""
        far = self.longest * self.number(-1, 1) if self.chance(1, 6) else 0
        return super().tick() + far

    # Intervals

    def length(self) -> int:
        lengths = [n for n in _LENGTHS if n <= self.longest]
        return self.one_of(lengths) if self.chance(2, 3) else self.number(1, self.longest)

    def spread(self, at: Instant, before: int, ticks: int) -> Interval:
        """An interval around an instant, of which it has so many ticks before."""
        if isinstance(at, TimePoint):
            return Interval(TimePoint(at.tick - before), TimePoint(at.tick - before + ticks - 1))
        low = at.offset - before
        return Interval(replace(at, offset=low), replace(at, offset=low + ticks - 1))

    def over(self, at: Instant, way: int) -> Interval:
        """Asked for over an interval that ends there, begins there, or has it somewhere."""
        ticks = self.length()
        before = ticks - 1 if way > 0 else 0 if way < 0 else self.number(0, ticks - 1)
        return self.asked_for(self.spread(at, before, ticks))

    def asked_for(self, interval: Interval) -> Interval:
        quantifier = self.one_of(tuple(Quantifier))
        if quantifier is not Quantifier.AT_LEAST:
            return replace(interval, quantifier=quantifier)
        ticks = interval.ticks
        least = self.number(1, ticks)
        if ticks > 14 and not self.any_number:
            least = self.one_of([k for k in (1, 2, 3, ticks - 1, ticks) if 1 <= k <= ticks])
        return replace(interval, quantifier=quantifier, least=least)

    def finished(self, rule: Rule, bound: dict[Type, list[str]]) -> Rule:
        rule = super().finished(rule, bound) if self.negated else rule
        body = tuple(self.widened(rule, part) for part in rule.body)
        head = rule.head
        if isinstance(head.time, TimeOffset | TimePoint) and self.chance(1, 6):
            ticks = min(self.length(), 70)
            head = replace(
                head, time=self.spread(head.time, 0 if self.way > 0 else ticks - 1, ticks)
            )
        return replace(rule, head=head, body=body)

    def widened(self, rule: Rule, part: Literal) -> Literal:
        """The literal, over an interval at times; where it may recurse, away from the head."""
        atom = part.atom if isinstance(part, Negated) else part
        if not isinstance(atom, Atom) or not self.chance(1, 2):
            return part
        if not isinstance(atom.time, TimeOffset | TimePoint):
            return part
        names = [p.name for p in self.predicates]
        head = names.index(rule.head.predicate)
        again = atom.predicate not in names[:head]
        way = self.way if again else self.one_of((1, 1, 0, -1))
        atom = replace(atom, time=self.over(atom.time, way))
        return Negated(atom) if isinstance(part, Negated) else atom

    # Rules that are about windows

    def kinds(self) -> list[Callable[[], list[Rule]]]:
        kinds = super().kinds() if self.negated else [self.any_rule]
        kinds += [self.alone, self.lasting, self.there_and_there]
        if self.negated:
            kinds += [self.lost, self.lost]
        if self.shape.recursive:
            kinds.append(self.goes_on)
            if self.negated and self.forwards:
                kinds += [self.quiet, self.quiet]
        return kinds

    def rules(self) -> list[Rule]:
        made = super().rules() if self.negated else super(WithNot, self).rules()
        if not any(isinstance(a.time, Interval) for r in made for a in (r.head, *r.atoms)):
            made += self.one_of((self.alone, self.lasting))()
        asked = [r for r in made if any(isinstance(a.time, Interval) for a in (r.head, *r.atoms))]
        self.negative += [r.head.predicate for r in asked]
        return made

    def given(self, time: Time) -> tuple[GeneratedPredicate, GeneratedPredicate, Atom] | None:
        """A head, something below it, and an atom of that."""
        head = self.timed_head()
        if head is None:
            return None
        p = self.source(head)
        return head, p, self.plain(p, time)

    def alone(self) -> list[Rule]:
        """`Overheat(X) @ T :- always Hot(X) @ [T-4, T].`"""
        given = self.given(at_offset(0))
        if given is None:
            return self.any_rule()
        head, p, atom = given
        asked = replace(atom, time=self.over(at_offset(0), self.one_of((1, 0, -1))))
        return [Rule(self.fitted(head, atom, p), (asked,))]

    def there_and_there(self) -> list[Rule]:
        """Two windows of one predicate, for the same object or for any."""
        given = self.given(at_offset(0))
        if given is None:
            return self.any_rule()
        head, p, atom = given
        one = replace(atom, time=self.over(at_offset(self.near()), 1))
        two = self.blurred(replace(atom, time=self.over(at_offset(self.near()), -1)))
        return [Rule(self.fitted(head, atom, p), (one, two))]

    def lasting(self) -> list[Rule]:
        """`Quarantine(X) @ [T, T+59] :- Flapping(X) @ T.`"""
        given = self.given(at_offset(0))
        if given is None:
            return self.any_rule()
        head, p, atom = given
        ticks = self.length()
        made = self.fitted(head, atom, p)
        return [Rule(replace(made, time=self.spread(at_offset(self.near()), 0, ticks)), (atom,))]

    def lost(self) -> list[Rule]:
        """`Lost(X) @ T :- Beat(X) @ T-10, not some Beat(X) @ [T-9, T].`, or not enough of it."""
        given = self.given(at_offset(0))
        if given is None:
            return self.any_rule()
        head, p, beat = given
        ticks = self.length()
        before = replace(beat, time=at_offset(-ticks))
        interval = self.spread(at_offset(0), ticks - 1, ticks)
        if self.chance(1, 2):
            interval = replace(interval, quantifier=Quantifier.SOME)
        else:
            interval = self.asked_for(interval)
        absent = Negated(self.blurred(replace(beat, time=interval)))
        return [Rule(self.fitted(head, beat, p), (before, absent))]

    def goes_on(self) -> list[Rule]:
        """`P(X) @ T+1 :- at least 2 P(X) @ [T-4, T].`"""
        head = self.timed_head()
        if head is None:
            return self.any_rule()
        atom = self.plain(head, self.over(at_offset(0), self.way))
        return [Rule(replace(atom, time=at_offset(self.step())), (atom,))]

    def quiet(self) -> list[Rule]:
        """`Alarm(X) @ T :- Overheat(X) @ T, not some Alarm(X) @ [T-30, T-1].`"""
        given = self.given(at_offset(0))
        if given is None:
            return self.any_rule()
        head, p, hot = given
        alarm = self.fitted(head, hot, p)
        silent = self.blurred(replace(alarm, time=self.over(at_offset(-abs(self.step())), 1)))
        return [Rule(alarm, (hot, Negated(silent)))]

    # Facts without a gap, or with a few

    def facts(self) -> dict[str, list[tuple[Value, ...]]]:
        rows = super().facts()
        for p in self.predicates:
            if p.input and p.temporal and self.chance(1, 2):
                args = tuple(self.one_of(self.values[t]) for t in p.types)
                first, ticks = self.tick() - self.longest // 2, self.number(1, self.longest + 3)
                gaps = {first + self.number(0, ticks) for _ in range(self.number(0, 2))}
                stretch = (t for t in range(first, first + ticks) if t not in gaps)
                rows.setdefault(p.name, []).extend((*args, t) for t in stretch)
        return rows
