"""`tidelog report`: one page to look at."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli import common
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.data.ticks import Ticks
    from tidelog.explain.record import Record


@click.command("report")
@click.argument("rules", type=common.RULES)
@common.facts_option
@click.option("--query", "queries", multiple=True, metavar="P", help="Only this; repeatable.")
@click.option("--from", "from_", metavar="TIME", help="First time shown; default the data's.")
@click.option("--to", metavar="TIME", help="Last time shown; default the data's.")
@click.option("--out", metavar="FILE", required=True, help="Where the page goes.")
@common.tick_option
@common.origin_option
@common.budget_option(10.0, "For delay, window, and programs that need the timeline.")
@common.json_option
def report_command(
    rules: str,
    facts: common.FactPaths,
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
    from tidelog.views.report import Looked, report_page

    if out == "":
        raise click.UsageError("--out names no file or folder")
    if facts is None and (from_ is not None or to is not None):
        raise click.UsageError("--from and --to go with --facts")
    report = common.accepted(rules)
    ticks = common.ticks_of(report.program, tick, origin, False)
    low, high = _finite(from_, to, ticks)
    asked = common.chosen_queries(report.program, queries)
    name = common.name_of(rules)
    command = "" if facts is None else _why_command(name, facts, tick, origin)
    with common.data_errors(), terminal.Progress() as progress:
        source, program = report.source.text, report.program
        times = (low, high, ticks, budget)
        looked = Looked(name, source, program, asked, facts, *times, command, progress)
        text, recorded = report_page(looked)
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(text, "utf-8", errors="replace")
    except OSError as error:
        raise click.UsageError(f"cannot write {out}: {error.strerror or error}") from error
    _say(out, text, len(asked), recorded, as_json)


def _finite(
    from_: str | None, to: str | None, ticks: Ticks | None
) -> tuple[int | None, int | None]:
    """The first and the last tick shown; None for those of the data."""
    from tidelog.evaluation.engine import as_tick

    try:
        low, high = as_tick(from_, ticks), as_tick(to, ticks)
    except ValueError as error:
        raise click.UsageError(f"--from and --to: {error}") from error
    if isinstance(low, float) or isinstance(high, float):
        raise click.UsageError("--from and --to: a page has an end; give finite times")
    return low, high


def _why_command(
    rules: str, facts: str | tuple[str, ...], tick: str | None, origin: str | None
) -> str:
    """How to ask about one of the facts shown."""
    times = [*(["--tick", tick] if tick else []), *(["--origin", origin] if origin else [])]
    paths = [facts] if isinstance(facts, str) else facts
    given = [word for path in paths for word in ("--facts", path)]
    return shlex.join(["tidelog", "why", rules, *given, *times])


def _say(out: str, text: str, outputs: int, recorded: Record | None, as_json: bool) -> None:
    """What the page has."""
    counts = {
        "outputs": outputs,
        "lanes": 0 if recorded is None else len(recorded.lanes),
        "proofs": 0 if recorded is None else sum(f.rule is not None for f in recorded.facts),
    }
    if as_json:
        notes = [] if recorded is None else list(recorded.notes)
        common.print_json({"file": out, **counts, "bytes": len(text.encode()), "notes": notes})
        return
    parts = [terminal.plural(n, what[:-1]) for what, n in counts.items() if n]
    terminal.print_lines([f"{out}: {', '.join(parts)}"])
