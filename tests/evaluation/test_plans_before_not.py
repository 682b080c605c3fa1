"""Rules without `not` plan and run as they did before the language had it.

The texts in tests/earlier/plans were written by the version before, for every rules file of the
examples that there was then: the plan of each output and its SQL. Since then, rules that look at
one table at several ticks have become one grouping; here they are joins, as they were.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.places import ROOT

import tidelog
from tidelog.analysis.passes import passes
from tidelog.views.plans import plan_lines, sql_lines

PLANS = ROOT / "tests" / "earlier" / "plans"


@pytest.mark.parametrize("plan", sorted(PLANS.glob("*.txt")), ids=lambda path: path.stem)
def test_plans_are_the_same(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("tidelog.views.plans.folded", lambda plan: plan)
    monkeypatch.setattr("tidelog.evaluation.sql.meets_in_one_grouping", lambda _: False)
    rules = _rules_of(plan)
    program = tidelog.load(rules)
    lines: list[str] = []
    for query in program.outputs:
        deps = passes(program, [query]).dependencies
        lines += [f"{query}:", *plan_lines(deps), *sql_lines(deps)]
    assert "\n".join(lines) + "\n" == plan.read_text()


def _rules_of(plan: Path) -> Path:
    """`turbines_rules.tdl.txt` is about examples/turbines/rules.tdl."""
    names = {f"{p.parent.name}_{p.name}": p for p in Path("examples").glob("*/*.tdl")}
    return names[plan.stem]
