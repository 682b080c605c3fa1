"""The four problems on the command line, what the rules alone say, and containment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from tidelog.cli import common
from tidelog.language.program import Program
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.analysis.containment import Budget, Verdict
    from tidelog.analysis.delay import Measure
    from tidelog.analysis.dependencies import Dependencies
    from tidelog.analysis.unfolding import Cut
    from tidelog.data.ticks import Ticks
    from tidelog.evaluation.duckdb import Engine

_query = click.option("--query", metavar="P", help="The predicate asked about; the only output.")
_budget = common.budget_option(10.0, "Answer with what is proved by then.")


@click.command("analyze")
@click.argument("rules", type=common.RULES)
@click.option("--query", "queries", multiple=True, metavar="P", help="Only this; repeatable.")
@_budget
@common.json_option
def analyze_command(rules: str, queries: tuple[str, ...], budget: float, as_json: bool) -> None:
    """Say how long to wait and what to keep for each output of RULES, with proof."""
    from tidelog.analysis.analyze import analyze
    from tidelog.analysis.containment import Budget
    from tidelog.views import verdicts

    report = common.accepted(rules)
    analyses = []
    with terminal.Progress() as progress:
        for query in common.chosen_queries(report.program, queries):
            progress(f"analysing {query}")
            analyses.append(analyze(report.program, query, Budget(budget)))
    if as_json:
        common.print_json({"file": report.source.file, "queries": [a.as_json() for a in analyses]})
        return
    blocks = [verdicts.analysis_lines(a) for a in analyses]
    terminal.print_answer(
        line for i, block in enumerate(blocks) for line in ([""] if i else []) + block
    )


@click.command("delay")
@click.argument("rules", type=common.RULES)
@_query
@click.option("--holds", type=click.IntRange(min=0), metavar="D", help="Is D a delay?")
@_budget
@common.json_option
def delay_command(
    rules: str, query: str | None, holds: int | None, budget: float, as_json: bool
) -> None:
    """Say how long answers wait until they are final, or whether D is long enough."""
    from tidelog.analysis import delay
    from tidelog.analysis.unfolding import Cut

    with _rules_alone(rules, query, budget) as (asked, deps, allowed):
        if holds is None:
            measure = delay.delay(deps, allowed)
        else:
            verdict = delay.delay_holds(deps, holds, allowed)
    if holds is None:
        _print_measure("delay", measure, 0, as_json, {"query": asked})
    else:
        _print_verdict(verdict, Cut(high=holds), as_json, {"query": asked, "delay": holds})


@click.command("window")
@click.argument("rules", type=common.RULES)
@_query
@click.option(
    "--delay",
    "waited",
    type=click.IntRange(min=0),
    metavar="D",
    help="How long answers wait; the least delay by default.",
)
@click.option("--holds", type=click.IntRange(min=0), metavar="S", help="Is S a window?")
@_budget
@common.json_option
def window_command(
    rules: str,
    query: str | None,
    waited: int | None,
    holds: int | None,
    budget: float,
    as_json: bool,
) -> None:
    """Say how much history answers with delay D need, or whether S is enough."""
    from tidelog.analysis import delay, window
    from tidelog.analysis.unfolding import Cut

    with _rules_alone(rules, query, budget) as (asked, deps, allowed):
        d = delay.delay(deps, allowed.share(0.5)).upper or 0 if waited is None else waited
        if holds is None:
            measure = window.window(deps, d, allowed)
        else:
            verdict = window.window_holds(deps, d, holds, allowed)
    if holds is None:
        _print_measure("window", measure, d, as_json, {"query": asked, "delay": d})
    else:
        about = {"query": asked, "delay": d, "window": holds}
        _print_verdict(verdict, Cut(low=d - holds), as_json, about)


@click.command("definitive")
@click.argument("rules", type=common.RULES)
@common.facts_option
@_query
@click.option("--tin", required=True, metavar="N", help="Everything up to here has arrived.")
@click.option("--tout", metavar="N", help="The time asked about; without it, all open ones.")
@common.tick_option
@common.origin_option
@common.budget_option(60.0, "For queries that need the timeline.")
@common.json_option
def definitive_command(
    rules: str,
    facts: common.FactPaths,
    query: str | None,
    tin: str,
    tout: str | None,
    tick: str | None,
    origin: str | None,
    budget: float,
    as_json: bool,
) -> None:
    """Say whether the answers at --tout can still change, and what they wait for."""
    from tidelog.evaluation.open_answers import OpenAnswers
    from tidelog.views import verdicts

    program = common.accepted(rules).program
    ticks = common.ticks_of(program, tick, origin, False)
    now = _time("--tin", tin, ticks)
    then = None if tout is None else _time("--tout", tout, ticks)
    if then is not None and then > now:
        raise click.UsageError("--tout lies after --tin: only the past can be definitive")
    with _loaded(program, facts, query, ticks) as (engine, asked):
        answers = OpenAnswers(engine, asked)
        if then is None:
            first = int(min(engine.span.low, now))
            points = answers.open_points(now, first, now, budget)
        else:
            definitive = answers.definitive(now, then, budget)
    if then is None:
        if as_json:
            common.print_json({"query": asked, "tin": now, "open": points})
        else:
            terminal.print_answer(verdicts.open_lines(asked, now, points, ticks))
    elif as_json:
        common.print_json(
            {
                "holds": definitive.holds,
                "exact": definitive.exact,
                "query": asked,
                "tin": now,
                "tout": then,
                "count": definitive.count,
                "pending": [p.as_json() for p in definitive.pending],
                **({} if definitive.updates is None else {"updates": definitive.updates.as_json()}),
            }
        )
    else:
        terminal.print_answer(verdicts.definitive_lines(definitive, then, ticks))


@click.command("forgettable")
@click.argument("rules", type=common.RULES)
@common.facts_option
@_query
@click.option("--tin", required=True, metavar="N", help="Everything up to here has arrived.")
@click.option("--tout", required=True, metavar="N", help="Everything before is answered.")
@click.option("--tmem", required=True, metavar="N", help="May everything up to here go?")
@common.tick_option
@common.origin_option
@_budget
@common.json_option
def forgettable_command(
    rules: str,
    facts: common.FactPaths,
    query: str | None,
    tin: str,
    tout: str,
    tmem: str,
    tick: str | None,
    origin: str | None,
    budget: float,
    as_json: bool,
) -> None:
    """Say whether the facts up to --tmem can be forgotten without changing a later answer."""
    from tidelog.analysis.containment import Budget
    from tidelog.evaluation.live_facts import LiveFacts
    from tidelog.views import verdicts

    program = common.accepted(rules).program
    ticks = common.ticks_of(program, tick, origin, False)
    now, then = _time("--tin", tin, ticks), _time("--tout", tout, ticks)
    memory = _time("--tmem", tmem, ticks)
    if not memory <= then <= now + 1:
        raise click.UsageError("the times must be in order: --tmem <= --tout <= --tin + 1")
    with _loaded(program, facts, query, ticks) as (engine, asked):
        verdict = LiveFacts(engine, asked).forgettable(now, then, memory, Budget(budget))
    if as_json:
        common.print_json(
            {
                "holds": verdict.holds,
                "exact": verdict.exact,
                "reason": verdict.reason,
                "query": asked,
                "tin": now,
                "tout": then,
                "tmem": memory,
                "update": None if verdict.update is None else verdict.update.as_json(),
            }
        )
    else:
        terminal.print_answer(verdicts.forgettable_lines(verdict, memory, ticks))


@click.command("contained")
@click.argument("one", type=common.RULES)
@click.argument("other", type=common.RULES)
@_query
@_budget
@common.json_option
def contained_command(
    one: str, other: str, query: str | None, budget: float, as_json: bool
) -> None:
    """Say whether ONE's answers are always among OTHER's."""
    from tidelog.analysis.analyze import inside
    from tidelog.analysis.containment import Budget
    from tidelog.analysis.dependencies import Class
    from tidelog.analysis.passes import passes
    from tidelog.analysis.unfolding import Cut

    programs = [common.accepted(path).program for path in (one, other)]
    asked = _one_query(programs[0], query)
    _one_query(programs[1], asked)
    deps = [passes(p, [asked]).dependencies for p in programs]
    for path, own in zip((one, other), deps, strict=True):
        if own.cls is not Class.NONRECURSIVE:
            raise click.ClickException(
                f"{path}: {asked} is {own.cls.title}; containment is decided for nonrecursive"
                " queries"
            )
    with _refusals(), terminal.Progress():
        verdict = inside(deps[0], deps[1], asked, Budget(budget))
    _print_verdict(verdict, Cut(), as_json, {"query": asked})


def _print_verdict(verdict: Verdict, cut: Cut, as_json: bool, about: dict[str, object]) -> None:
    from tidelog.analysis.analyze import witness_json
    from tidelog.views import verdicts

    if as_json:
        witness = witness_json(verdict.witness)
        common.print_json({"holds": verdict.holds, **about, "witness": witness})
    else:
        terminal.print_answer(verdicts.verdict_lines(verdict, cut))


def _print_measure(
    name: str, measure: Measure, d: int, as_json: bool, about: dict[str, object]
) -> None:
    from tidelog.analysis.analyze import measure_json
    from tidelog.views import verdicts

    if as_json:
        common.print_json({**about, **(measure_json(measure) or {})})
    else:
        terminal.print_answer(verdicts.measure_lines(name, measure, d))


@contextmanager
def _rules_alone(
    rules: str, query: str | None, budget: float
) -> Iterator[tuple[str, Dependencies, Budget]]:
    """The query asked about, what it needs without redundant rules, and what may be spent."""
    from tidelog.analysis.analyze import simplified
    from tidelog.analysis.containment import Budget
    from tidelog.analysis.passes import passes

    program = common.accepted(rules).program
    asked = _one_query(program, query)
    allowed = Budget(budget)
    with _refusals(), terminal.Progress():
        deps = passes(program, [asked]).dependencies
        yield asked, simplified(deps, allowed.share(0.3))[0], allowed


def _one_query(program: Program, query: str | None) -> str:
    if query is None and len(program.outputs) != 1:
        raise click.UsageError(f"choose one with --query: {', '.join(program.outputs) or 'none'}")
    return common.chosen_queries(program, () if query is None else (query,))[0]


def _time(option: str, text: str, ticks: Ticks | None) -> int:
    from tidelog.evaluation.engine import as_tick

    try:
        time = as_tick(text, ticks)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from error
    if not isinstance(time, int):
        raise click.UsageError(f"{option}: the time must be finite")
    return time


@contextmanager
def _loaded(
    program: Program, facts: common.FactPaths, query: str | None, ticks: Ticks | None
) -> Iterator[tuple[Engine, str]]:
    """The facts, loaded, and the query asked about."""
    from tidelog.evaluation.duckdb import Engine

    asked = _one_query(program, query)
    with (
        common.data_errors(),
        _refusals(),
        terminal.Progress() as progress,
        Engine(program, facts, ticks, True, progress, None, (asked,)) as engine,
    ):
        yield engine, asked


@contextmanager
def _refusals() -> Iterator[None]:
    from tidelog.errors import NoAnswer

    try:
        yield
    except NoAnswer as error:
        raise click.ClickException(str(error)) from error
