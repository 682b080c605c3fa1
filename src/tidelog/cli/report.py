"""`tidelog report`: one page to look at."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tidelog.cli.common import (
    RULES,
    accepted,
    budget_option,
    chosen_queries,
    data_errors,
    facts_option,
    json_option,
    name_of,
    origin_option,
    print_json,
    tick_option,
    ticks_of,
)
from tidelog.views import terminal


@click.command("report")
@click.argument("rules", type=RULES)
@facts_option
@click.option("--query", "queries", multiple=True, metavar="P", help="Only this; repeatable.")
@click.option("--from", "from_", metavar="TIME", help="First time shown; default the data's.")
@click.option("--to", metavar="TIME", help="Last time shown; default the data's.")
@click.option("--out", metavar="FILE", required=True, help="Where the page goes.")
@tick_option
@origin_option
@budget_option(10.0, "For delay, window, and programs that need the timeline.")
@json_option
def report_command(
    rules: str,
    facts: str | None,
    queries: tuple[str, ...],
    from_: str | None,
    to: str | None,
    out: str,
    tick: str | None,
    origin: str | None,
    budget: float,
    as_json: bool,
) -> None:
    """Draw RULES, and with --facts what holds when and why, as one self-contained HTML page."""
    from tidelog.analysis.analyze import analyze
    from tidelog.analysis.containment import Budget
    from tidelog.analysis.passes import passes
    from tidelog.evaluation.duckdb import Engine
    from tidelog.evaluation.engine import as_tick
    from tidelog.explain.record import record, waiting
    from tidelog.views.report import page

    for option, path in (("--facts", facts), ("--out", out)):
        if path == "":
            raise click.UsageError(f"{option} names no file or folder")
    if facts is None and (from_ is not None or to is not None):
        raise click.UsageError("--from and --to go with --facts")
    ticks = ticks_of(tick, origin, False)
    try:
        low, high = as_tick(from_, ticks), as_tick(to, ticks)
    except ValueError as error:
        raise click.UsageError(f"--from and --to: {error}") from error
    if isinstance(low, float) or isinstance(high, float):
        raise click.UsageError("--from and --to: a page has an end; give finite times")
    report = accepted(rules)
    asked = chosen_queries(report.program, queries)
    with data_errors(), terminal.Progress() as progress:
        found, pending = None, None
        if facts is not None:
            with Engine(report.program, facts, ticks, True, progress) as engine:
                found = record(engine, asked, low, high, budget)
                pending = waiting(engine, asked, found.range, budget)
        analyses = []
        for query in asked:
            progress(f"analysing {query}")
            analyses.append(analyze(report.program, query, Budget(budget / max(len(asked), 1))))
    deps = passes(report.program, asked).dependencies
    name = name_of(rules)
    command = (
        ""
        if facts is None
        else shlex.join(
            [
                "tidelog",
                "why",
                name,
                "--facts",
                facts,
                *(["--tick", tick] if tick else []),
                *(["--origin", origin] if origin else []),
            ]
        )
    )
    text = page(name, report.source.text, deps, analyses, found, pending, ticks, command)
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(text, "utf-8", errors="replace")
    except OSError as error:
        raise click.UsageError(f"cannot write {out}: {error.strerror or error}") from error
    counts = {
        "outputs": len(asked),
        "lanes": 0 if found is None else len(found.lanes),
        "proofs": 0 if found is None else sum(f.rule is not None for f in found.facts),
    }
    if as_json:
        notes = [] if found is None else list(found.notes)
        print_json({"file": out, **counts, "bytes": len(text.encode()), "notes": notes})
        return
    parts = [terminal.plural(n, what[:-1]) for what, n in counts.items() if n]
    terminal.print_lines([f"{out}: {', '.join(parts)}"])
