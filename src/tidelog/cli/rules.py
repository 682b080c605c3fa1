"""`tidelog check`, `fmt` and `explain`: what the rules themselves say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog import __version__
from tidelog.cli.common import (
    RULES,
    FactPaths,
    accepted,
    choices,
    chosen_queries,
    data_errors,
    json_option,
    name_of,
    origin_option,
    paths_option,
    print_json,
    read,
    read_bytes,
    refuse,
    replace_file,
    strict_option,
    tick_option,
    ticks_of,
)
from tidelog.language.checks import Report, decode
from tidelog.language.diagnostics import ProgramError
from tidelog.language.formatter import format_source
from tidelog.language.program import Program
from tidelog.views import terminal
from tidelog.views.findings import github_lines, sarif

if TYPE_CHECKING:
    from tidelog.streaming.options import StreamMode


@click.command("check")
@click.argument("rules", type=RULES, nargs=-1, required=True)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "github", "sarif"]),
    help="For people (the default), programs, GitHub's annotations, or code scanning.",
)
@strict_option
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
def check_command(rules: tuple[str, ...], format_: str | None, strict: bool, as_json: bool) -> None:
    """Say everything that is wrong with RULES, one file or several."""
    if as_json and format_ not in (None, "json"):
        raise click.UsageError("--json and --format contradict each other")
    reports = [read(each) for each in rules]
    match "json" if as_json else format_ or "text":
        case "json":
            as_data = [_check_json(report) for report in reports]
            print_json(as_data[0] if len(as_data) == 1 else as_data)
        case "github":
            terminal.print_lines(line for report in reports for line in github_lines(report))
        case "sarif":
            print_json(sarif(reports, __version__))
        case _:
            console = terminal.stdout()
            for report in reports:
                terminal.print_diagnostics(console, report, report.diagnostics)
                console.print(terminal.report_summary(report))
    wrong = any(report.errors or (strict and report.warnings) for report in reports)
    sys.exit(1 if wrong else 0)


def _check_json(report: Report) -> dict[str, object]:
    return {
        "file": report.source.file,
        "errors": len(report.errors),
        "warnings": len(report.warnings),
        "notes": len(report.notes),
        "diagnostics": [d.as_json() for d in report.diagnostics],
    }


@click.command("fmt")
@click.argument("rules", type=RULES, nargs=-1, required=True)
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 if it would.")
@json_option
def fmt_command(rules: tuple[str, ...], only_check: bool, as_json: bool) -> None:
    """Lay RULES out in the one standard way, in place; - writes to standard output."""
    formatted = [_formatted(each, only_check, as_json) for each in rules]
    if as_json:
        print_json(formatted[0] if len(formatted) == 1 else formatted)
    sys.exit(1 if only_check and any(each["changed"] for each in formatted) else 0)


def _formatted(rules: str, only_check: bool, as_json: bool) -> dict[str, object]:
    """Format one file; its name, and whether that changed it."""
    raw = read_bytes(rules)
    source, unreadable = decode(raw, name_of(rules))
    try:
        if unreadable is not None:
            raise ProgramError([unreadable], source)
        text = format_source(source)
    except ProgramError as error:
        refuse(Report(error.source, Program(), error.diagnostics))
    changed = text.encode() != raw
    if rules == "-" and not only_check and not as_json:
        sys.stdout.buffer.write(text.encode())
    else:
        if changed and not only_check and rules != "-":
            replace_file(Path(rules), text.encode())
        if changed and not as_json:
            verb = "would be reformatted" if only_check else "reformatted"
            terminal.print_lines([f"{source.file}: {verb}"])
    return {"file": source.file, "changed": changed}


@click.command("explain")
@click.argument("rules", type=RULES)
@click.option(
    "--query", "queries", multiple=True, metavar="P", help="Only this output; repeatable."
)
@click.option(
    "--show",
    default="class",
    metavar="LIST",
    show_default=True,
    help=f"What to show, separated by commas: {', '.join(terminal.SECTIONS)}.",
)
@click.option(
    "--mode",
    type=click.Choice(["offline", "online"]),
    help="Of the pipeline that is shown; offline by default.",
)
@paths_option("--facts", "With --show sql: what runs over these facts; repeatable.")
@tick_option
@origin_option
@json_option
def explain_command(
    rules: str,
    queries: tuple[str, ...],
    show: str,
    mode: StreamMode | None,
    facts: FactPaths,
    tick: str | None,
    origin: str | None,
    as_json: bool,
) -> None:
    """Say what kind of query each output of RULES is, and why."""
    from tidelog.analysis.passes import passes

    sections = choices("--show", show, terminal.SECTIONS)
    if mode is not None and "pipeline" not in sections:
        raise click.UsageError("--mode is about --show pipeline")
    if facts is not None and "sql" not in sections:
        raise click.UsageError("--facts is about --show sql")
    if facts is None and (tick or origin):
        raise click.UsageError("--tick and --origin are about the times of --facts")
    mode = mode or "offline"
    report = accepted(rules)
    asked = chosen_queries(report.program, queries)
    each_query = [passes(report.program, asked).dependencies_of(query) for query in asked]
    ticks = None if facts is None else ticks_of(report.program, tick, origin, as_ticks=False)
    if as_json:
        queries_json = [terminal.explain_json(d) for d in each_query]
        if "sql" in sections:
            from tidelog.views.statements import sql_json

            with data_errors():
                sql = [{"sql": sql_json(d, facts, ticks)} for d in each_query]
            queries_json = [{**a, **b} for a, b in zip(queries_json, sql, strict=True)]
        if "pipeline" in sections:
            from tidelog.views.pipeline import pipeline_json

            queries_json = [
                {**each, "pipeline": pipeline_json(d, mode)}
                for each, d in zip(queries_json, each_query, strict=True)
            ]
        print_json({"file": report.source.file, "queries": queries_json})
        return
    with data_errors():
        blocks = [terminal.explain_lines(d, sections, mode, facts, ticks) for d in each_query]
    lines = (line for i, block in enumerate(blocks) for line in ([""] if i else []) + block)
    terminal.print_lines(lines, terminal.EXPLAIN_STYLES)
