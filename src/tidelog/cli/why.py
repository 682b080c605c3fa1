"""`tidelog why`: a proof of a fact, or what comes nearest to one."""

from __future__ import annotations

from dataclasses import replace

import click

from tidelog.cli import common
from tidelog.views import terminal


@click.command("why")
@click.argument("rules", type=common.RULES)
@click.argument("fact", metavar="FACT")
@common.facts_option
@click.option(
    "--all",
    "most",
    type=click.IntRange(1, 1000),
    default=1,
    metavar="N",
    help="Up to N proofs, by size.",
)
@click.option("--full", is_flag=True, help="All facts that are counted, not only the first.")
@common.tick_option
@common.origin_option
@common.budget_option(60.0, "For programs that need the timeline.")
@common.json_option
def why_command(
    rules: str,
    fact: str,
    facts: common.FactPaths,
    most: int,
    full: bool,
    tick: str | None,
    origin: str | None,
    budget: float,
    as_json: bool,
) -> None:
    """Say why FACT holds, or why it does not: "Malfunc(a) @ 0".

    A proof goes down to input facts, with the rule of each step. For a fact that does not hold, the
    rules that come nearest to it are shown, with what is missing and by how much values are off.
    """
    from tidelog.evaluation.duckdb import Engine
    from tidelog.explain.text import why_json, why_lines
    from tidelog.explain.why import read_fact, why

    program = common.accepted(rules).program
    ticks = common.ticks_of(program, tick, origin, False)
    try:
        asked = read_fact(program, fact, ticks).predicate  # before the facts are read
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    with (
        common.data_errors(),
        terminal.Progress() as progress,
        Engine(program, facts, ticks, True, progress, queries=(asked,)) as engine,
    ):
        try:
            goal = read_fact(engine.typed, fact, ticks)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        explanation = replace(why(engine, goal, most, budget), full=full)
    if as_json:
        common.print_json(why_json(explanation))
    else:
        terminal.print_proof(why_lines(explanation))
