"""Delay, window, definitive time points and forgetting, in words."""

from __future__ import annotations

from functools import partial

from tidelog.analysis.analyze import Analysis
from tidelog.analysis.containment import Ground, Verdict, Witness
from tidelog.analysis.definitive import Awaited, Definitive, TwoUpdates, shown
from tidelog.analysis.delay import Measure
from tidelog.analysis.forgetting import Forgettable
from tidelog.analysis.unfolding import Cut
from tidelog.data.ticks import Ticks, time_text
from tidelog.language.printer import print_literal, print_rule
from tidelog.views.terminal import plural

# A longer witness is summed up; `--json` has it whole.
MOST_FACTS = 12


def analysis_lines(analysis: Analysis) -> list[str]:
    deps = analysis.deps.folded
    lines = [f"{analysis.query}: class {deps.cls.value}, {deps.cls.title}"]
    rank = "" if deps.rank is None else f"rank {deps.rank}"
    radius = "" if deps.radius is None else f"radius {deps.radius}"
    if rank or radius:
        lines.append(f"  {', '.join(filter(None, (rank, radius)))}")
    if analysis.refused is not None:
        lines.append(f"  {analysis.refused}")
    for name, measure in (("delay", analysis.delay), ("window", analysis.window)):
        if measure is not None:
            about = measure_lines(name, measure, analysis.window_delay)
            lines += ["  " + line for line in about]
    state = analysis.derived_state()
    if state:
        kept = ", ".join(f"{name} {slices}" for name, slices in state.items())
        lines.append(f"  derived state: older slices kept of {kept}")
    for redundant in analysis.redundant:
        rule = redundant.rule
        if redundant.atom is None:
            lines.append(f"  redundant: {print_rule(rule)} ({rule.origin})")
        else:
            lines.append(
                f"  redundant: {print_literal(redundant.atom)} in {print_rule(rule)}"
                f" ({rule.origin})"
            )
    return lines


def measure_lines(name: str, measure: Measure, d: int) -> list[str]:
    """The bounds of a delay or window, and the stream that shows that less would be wrong."""
    at = f" (at delay {d})" if name == "window" else ""
    match measure.lower, measure.upper, measure.exact:
        case None, None, True:
            text = f"{name}: infinite{at}; {measure.reason}"
        case lower, None, _:
            text = f"{name}: at least {lower}{at}, no upper bound known; {measure.reason}"
        case lower, upper, True:
            text = f"{name}: {plural(upper, 'tick')}{at}; {measure.reason}"
            assert lower == upper
        case lower, upper, _:
            why = "the budget ended before more was known"
            if measure.beyond_proof:
                why = "less may do, which is neither proved nor refuted"
            text = f"{name}: {lower} to {upper}{at}; {why}"
    lines = [text]
    if measure.witness is not None and measure.lower:
        less = measure.lower - 1
        cut = Cut(high=less) if name == "delay" else Cut(low=d - less)
        lines.append(f"  {not_enough(less)}:")
        lines += ["    " + line for line in witness_lines(measure.witness, cut)]
    return lines


def witness_lines(witness: Witness, cut: Cut) -> list[str]:
    """The facts of a witness: those the cut leaves, and those it takes away."""
    kept = set(witness.kept(cut))
    mark = "not with this" if witness.withdrawn else "without this"
    lines = [
        _fact(fact) + ("" if fact in kept else f"  <- {mark}")
        for fact in witness.facts[:MOST_FACTS]
    ]
    if len(witness.facts) > MOST_FACTS:
        lines.append(f"... and {plural(len(witness.facts) - MOST_FACTS, 'fact')} more (--json)")
    when = "only without what is marked" if witness.withdrawn else "only with all of them"
    lines.append(f"gives {_fact(witness.answer)} {when}")
    return lines


def verdict_lines(verdict: Verdict, cut: Cut) -> list[str]:
    if verdict.holds is None:
        why = "the budget ended before it was decided"
        return [f"unknown: {'neither proved nor refuted' if verdict.beyond_proof else why}"]
    if verdict.holds:
        return ["yes"]
    lines = ["no"]
    if verdict.witness is not None:
        if cut.everything:
            lines += ["  " + _fact(f) for f in verdict.witness.facts[:MOST_FACTS]]
            lines.append(f"  gives {_fact(verdict.witness.answer)} in the first program only")
        else:
            lines += ["  " + line for line in witness_lines(verdict.witness, cut)]
    return lines


def definitive_lines(verdict: Definitive, tout: int, ticks: Ticks | None = None) -> list[str]:
    time = partial(time_text, ticks=ticks)
    if verdict.holds:
        return [f"yes: the answers at {time(tout)} are final"]
    perhaps = "" if verdict.exact else f" ({verdict.reason})"
    withdrawn = any(pending.unless or pending.holds_now for pending in verdict.pending)
    what = "may still come or go" if withdrawn else "may still come"
    lines = [f"no: {plural(verdict.count, 'answer')} at {time(tout)} {what}{perhaps}"]
    lines += [f"  {pending.text(time)}" for pending in verdict.pending]
    if verdict.count > len(verdict.pending):
        lines.append(f"  ... and {verdict.count - len(verdict.pending)} more")
    return lines + ([] if verdict.updates is None else two_updates_lines(verdict.updates))


def two_updates_lines(two: TwoUpdates) -> list[str]:
    """Two ways to go on that differ."""
    answer = two.answer
    return [
        f"  {answer} is an answer if {_arriving(two.with_it)}",
        f"  {answer} is no answer if {_arriving(two.without_it)}",
    ]


def _arriving(facts: tuple[Awaited, ...]) -> str:
    some = list(map(str, facts[:MOST_FACTS]))
    if len(facts) > MOST_FACTS:
        some.append(f"{plural(len(facts) - MOST_FACTS, 'fact')} more (--json)")
    verb = "arrives" if len(facts) == 1 else "arrive"
    return f"{' and '.join(some)} {verb} and no more" if facts else "nothing more arrives"


def open_lines(query: str, tin: int, points: list[int], ticks: Ticks | None = None) -> list[str]:
    now = time_text(tin, ticks)
    if not points:
        return [f"every answer of {query} up to {now} is final"]
    ranges = _ranges(points, ticks)
    return [f"{plural(len(points), 'time point')} of {query} still open at {now}: {ranges}"]


def _ranges(points: list[int], ticks: Ticks | None) -> str:
    parts: list[list[int]] = []
    for point in points:
        if parts and parts[-1][-1] == point - 1:
            parts[-1][-1:] = [point] if len(parts[-1]) > 1 else [parts[-1][0], point]
        else:
            parts.append([point])
    ends = [[time_text(point, ticks) for point in (part[0], part[-1])] for part in parts]
    return ", ".join(a if a == b else f"{a} to {b}" for a, b in ends)


def forgettable_lines(verdict: Forgettable, tmem: int, ticks: Ticks | None = None) -> list[str]:
    until = time_text(tmem, ticks)
    if verdict.holds:
        return [f"yes: the facts up to {until} can go; {verdict.reason}"]
    perhaps = "" if verdict.exact else " (not proved; kept to be safe)"
    lines = [f"no: the facts up to {until} are needed; {verdict.reason}{perhaps}"]
    if verdict.update is not None:
        lines += [f"  then {_fact(fact, ticks)}" for fact in verdict.update.facts]
        change = "would be lost" if verdict.update.lost else "would be there, which is wrong"
        when = "and" if verdict.update.facts else "if nothing more arrives,"
        lines.append(f"  {when} {_fact(verdict.update.answer, ticks)} {change}")
    return lines


def _fact(fact: Ground | Awaited, ticks: Ticks | None = None) -> str:
    return shown(fact.predicate, fact.args, fact.time, partial(time_text, ticks=ticks))


def not_enough(ticks: int) -> str:
    """What a witness shows of a smaller number.

    >>> not_enough(1), not_enough(0)
    ('1 tick is not enough', '0 ticks are not enough')
    """
    return f"{plural(ticks, 'tick')} {'is' if ticks == 1 else 'are'} not enough"
