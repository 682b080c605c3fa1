"""`tidelog query`: answers over finite facts."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.common import (
    RULES,
    FactPaths,
    accepted,
    budget_option,
    chosen_queries,
    data_errors,
    facts_option,
    jars_option,
    origin_option,
    strict_option,
    tick_option,
    ticks_of,
)
from tidelog.data.secrets import without_secrets
from tidelog.language.diagnostics import visible
from tidelog.views import terminal

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.evaluation.engine import Evaluated


@click.command("query")
@click.argument("rules", type=RULES)
@facts_option
@click.option("--query", "queries", multiple=True, metavar="P", help="This predicate; repeatable.")
@click.option("--from", "from_", metavar="TIME", help="First time, or -inf; default the data's.")
@click.option("--to", metavar="TIME", help="Last time, or inf; default the data's.")
@budget_option(60.0, "For programs that need the timeline.")
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="In this process, or on Spark.",
)
@click.option(
    "--master", default="local[*]", show_default=True, metavar="URL", help="Where Spark runs."
)
@jars_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["csv", "json", "table", "parquet"]),
    help="How answers are written; the ending of --out says so, too.",
)
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option("--out", metavar="FILE|DIR", help="Write there; a folder when there are several.")
@tick_option
@origin_option
@click.option(
    "--intervals", is_flag=True, help="From when to when, instead of a row for every tick."
)
@click.option("--ticks", "as_ticks", is_flag=True, help="With --tick, give times as whole ticks.")
@strict_option
def query_command(
    rules: str,
    facts: FactPaths,
    queries: tuple[str, ...],
    from_: str | None,
    to: str | None,
    budget: float,
    engine: str,
    master: str,
    jars: tuple[str, ...],
    format_: str | None,
    as_json: bool,
    out: str | None,
    tick: str | None,
    origin: str | None,
    intervals: bool,
    as_ticks: bool,
    strict: bool,
) -> None:
    """Answer the outputs of RULES over finite facts."""
    from tidelog.evaluation.engine import as_tick, evaluate
    from tidelog.views import answers

    if out == "":  # which would be the current folder
        raise click.UsageError("--out names no file or folder")
    if out is not None and "://" in out:
        raise click.UsageError(
            f"--out {without_secrets(out)}: answers of a query go to this machine; write them to a"
            " file here and copy it, or have `tidelog run --sink` write to a store"
        )
    report = accepted(rules, strict=strict)
    ticks = ticks_of(report.program, tick, origin, as_ticks)
    try:
        low, high = as_tick(from_, ticks), as_tick(to, ticks)
    except ValueError as error:
        raise click.UsageError(f"--from and --to: {error}") from error
    asked = chosen_queries(report.program, queries)
    chosen = _format(format_, as_json, out, len(asked))
    with data_errors(), terminal.Progress() as progress:
        common: dict[str, Any] = {"timestamps": not as_ticks, "budget": budget}
        common["intervals"] = intervals
        if engine == "spark":
            from tidelog.cli.on_spark import query_on_spark

            evaluated = query_on_spark(
                report.program, asked, facts, master, jars, progress, low, high, ticks, **common
            )
        else:
            common |= {"from_": low, "to": high, "ticks": ticks, "progress": progress}
            evaluated = evaluate(report.program, asked, facts, **common)
        tables = {query: evaluated.answers[query] for query in asked}
    _print_notes(evaluated)
    if out is not None:
        _write(out, tables, chosen)
        return
    for query, table in tables.items():
        for line in answers.lines(query, table, chosen):
            click.echo(line)


def _print_notes(evaluated: Evaluated) -> None:
    """What a user should know of the answers, on standard error."""
    console = terminal.stderr()
    if evaluated.timeline is not None:
        console.print(visible(f"note: evaluated on the timeline; {evaluated.timeline}"))


def _format(format_: str | None, as_json: bool, out: str | None, queries: int) -> str:
    """The format asked for, or what the place it goes to suggests."""
    if as_json:
        if format_ not in (None, "json"):
            raise click.UsageError("--json and --format contradict each other")
        return "json"
    if format_ is None and out is not None:
        from tidelog.views.answers import ENDINGS

        return ENDINGS.get(Path(out).suffix.lower(), "csv")
    if format_ == "parquet" and out is None:
        raise click.UsageError("Parquet is not for a terminal: write it to a file with --out")
    if format_ is None:
        format_ = "table" if sys.stdout.isatty() else "csv"
    if format_ == "csv" and queries > 1 and out is None:
        raise click.UsageError(
            f"{queries} queries do not fit one CSV: choose one with --query, write a folder with"
            " --out DIR, or use --format json"
        )
    return format_


def _write(out: str, tables: dict[str, pa.Table], format_: str) -> None:
    """One query to a file, several to a folder, a file each; whole files or none."""
    from tidelog.views import answers

    folder = len(tables) != 1 or out.endswith("/") or Path(out).is_dir()
    written: list[tuple[Path, Path]] = []
    try:
        for query, table in tables.items():
            name = f"{query}{answers.FORMATS[format_]}"
            place = (Path(out, name) if folder else Path(out)).resolve()
            if place.exists() and not place.is_file():  # a pipe, /dev/null: there to be written to
                answers.write(query, table, format_, place)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name[:50]}.")
            os.close(handle)
            written.append((Path(temporary), place))
            answers.write(query, table, format_, Path(temporary))
        for temporary_file, place in written:
            os.chmod(temporary_file, 0o666 & ~_umask())
            os.replace(temporary_file, place)
    except OSError as error:
        raise click.UsageError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        for temporary_file, _ in written:
            temporary_file.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
