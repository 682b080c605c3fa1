"""Coverage: rules that stand in a proof of an expected answer, and comparisons that decided.

A rule is covered when it is part of some proof of an answer that a test expects, or of a fact whose
absence a rule asks for. A comparison has
two ways: it holds in such a proof; and it fails in a case where everything else in its rule's body
holds, so that it alone decides. A definition, `C = A / B`, has none: it cannot fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidelog.language.printer import print_literal, print_rule
from tidelog.language.program import (
    Comparison,
    Operator,
    Origin,
    Program,
    Rule,
    Statement,
)
from tidelog.testing import inside
from tidelog.testing.model import Case, Suite
from tidelog.testing.patterns import Fact
from tidelog.testing.running import Ran

_OPPOSITE = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}


@dataclass(frozen=True)
class Uncovered:
    """A rule, or one way of a comparison, that no test shows."""

    origin: Origin
    text: str
    reason: str

    def as_json(self) -> dict[str, object]:
        return {"line": self.origin.line, "text": self.text, "reason": self.reason}


@dataclass(frozen=True)
class RulesCoverage:
    """How much of one rules file its tests show."""

    file: str
    rules: int
    rules_covered: int
    ways: int  # two for each comparison
    ways_covered: int
    uncovered: tuple[Uncovered, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "file": self.file,
            "rules": self.rules,
            "rules_covered": self.rules_covered,
            "comparison_ways": self.ways,
            "comparison_ways_covered": self.ways_covered,
            "uncovered": [u.as_json() for u in self.uncovered],
        }


@dataclass(frozen=True)
class Coverage:
    files: tuple[RulesCoverage, ...]

    @property
    def percent(self) -> int:
        """Of rules and ways of comparisons together, rounded down: 100 is all."""
        every = sum(f.rules + f.ways for f in self.files)
        covered = sum(f.rules_covered + f.ways_covered for f in self.files)
        return 100 if not every else 100 * covered // every

    def as_json(self) -> dict[str, object]:
        return {"percent": self.percent, "files": [f.as_json() for f in self.files]}


def covered(
    suites: Iterable[Suite], ran: Iterable[tuple[Suite, Case, Ran]], budget: float = 60.0
) -> Coverage:
    """What the cases that were run cover of the rules files of all suites."""
    programs = {suite.rules: suite.program for suite in suites}
    proved: dict[str, set[Origin]] = {rules: set() for rules in programs}
    failed: dict[str, set[Origin]] = {rules: set() for rules in programs}
    for suite, case, each in ran:
        goals = _expected(case, each)
        proved[suite.rules] |= inside.used_rules(
            each.program, each.data, goals, each.low, each.high, budget
        )
        failed[suite.rules] |= _failing(each, failed[suite.rules], budget)
    return Coverage(
        tuple(
            _covered(file, program, proved[file], failed[file])
            for file, program in sorted(programs.items())
        )
    )


def _expected(case: Case, ran: Ran) -> list[Fact]:
    """The answers that a case expects, those that patterns fit included."""
    expected = [final.fact for final in case.final]
    for query, wanted in case.expect.items():
        expected += wanted.exactly or ()
        expected += (fact for fact in ran.answers[query] if any(p.fits(fact) for p in wanted.has))
    return list(dict.fromkeys(expected))


def _failing(ran: Ran, known: set[Origin], budget: float) -> set[Origin]:
    """The comparisons that alone keep their rule from giving something, in one case.

    Each is turned round in a rule of its own, under a name that no user can write.
    """
    probes: dict[str, Origin] = {}
    rules: list[Statement] = []
    for rule in ran.program.rules:
        for comparison in _tests(rule):
            if comparison.origin not in known:
                name = f"probe {len(probes)}"
                probes[name] = comparison.origin
                rules.append(_turned(rule, comparison, name))
    if not probes:
        return set()
    program = Program((*ran.program.statements, *rules))
    probed = inside.answers(program, probes, ran.data, ran.low, ran.high, budget)
    return {probes[name] for name, answers in probed.items() if answers}


def _tests(rule: Rule) -> list[Comparison]:
    """The comparisons that can fail: those that do not give a variable its value."""
    definitions = set(map(id, rule.definitions))
    return [comparison for comparison in rule.comparisons if id(comparison) not in definitions]


def _turned(rule: Rule, comparison: Comparison, name: str) -> Rule:
    """The rule with the opposite of a comparison, under another name.

    It stands last, so that the opposite of `D != 3` does not give D its value.
    """
    opposite = replace(comparison, operator=_OPPOSITE[comparison.operator])
    body = (*(literal for literal in rule.body if literal is not comparison), opposite)
    return replace(rule, head=replace(rule.head, predicate=name), body=body)


def _covered(
    file: str, program: Program, proved: set[Origin], failed: set[Origin]
) -> RulesCoverage:
    rules = [rule for rule in program.rules if rule.body]
    uncovered: list[Uncovered] = []
    covered = ways = ways_covered = 0
    for rule in rules:
        holds = rule.origin in proved
        covered += holds
        if not holds:
            reason = "in no proof of an expected answer"
            uncovered.append(Uncovered(rule.origin, print_rule(rule), reason))
        for comparison in _tests(rule):
            fails = comparison.origin in failed
            ways, ways_covered = ways + 2, ways_covered + holds + fails
            if not fails:
                reason = "never the only thing that fails"
                text = print_literal(comparison)
                uncovered.append(Uncovered(comparison.origin, text, reason))
    return RulesCoverage(file, len(rules), covered, ways, ways_covered, tuple(uncovered))
