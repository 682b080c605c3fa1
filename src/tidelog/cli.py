"""The command line: `tidelog check | fmt | explain | query`.

Exit codes: 0 for any answer, warnings included; 1 when the rules or the data are wrong (and when
`fmt --check` found work); 2 when the command was used wrongly.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tidelog import __version__
from tidelog.language.checks import Report, Similar, check, decode
from tidelog.language.diagnostics import ProgramError, visible
from tidelog.language.formatter import format_source
from tidelog.language.printer import print_rule
from tidelog.language.program import Program
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.evaluation.ticks import Ticks

_RULES = click.Path(dir_okay=False, allow_dash=True)
_json_option = click.option("--json", "as_json", is_flag=True, help="Report as JSON.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tidelog")
def cli() -> None:
    """Stream reasoning in temporal Datalog.

    RULES is a .tdl file, or - for standard input.
    """


@cli.command("check")
@click.argument("rules", type=_RULES)
@_json_option
def check_command(rules: str, as_json: bool) -> None:
    """Say everything that is wrong with RULES."""
    report = _read(rules)
    if as_json:
        _print_json(
            {
                "file": report.source.file,
                "errors": len(report.errors),
                "warnings": len(report.warnings),
                "diagnostics": [d.as_json() for d in report.diagnostics],
            }
        )
    else:
        console = terminal.stdout()
        terminal.print_diagnostics(console, report, report.diagnostics)
        console.print(terminal.report_summary(report))
    sys.exit(1 if report.errors else 0)


@cli.command("fmt")
@click.argument("rules", type=_RULES)
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 if it would.")
@_json_option
def fmt_command(rules: str, only_check: bool, as_json: bool) -> None:
    """Lay RULES out in the one standard way, in place; - writes to standard output."""
    raw = _bytes(rules)
    source, unreadable = decode(raw, _name(rules))
    try:
        if unreadable is not None:
            raise ProgramError([unreadable], source)
        text = format_source(source)
    except ProgramError as error:
        _refuse(Report(error.source, Program(), error.diagnostics))
    changed = text.encode() != raw
    if rules == "-" and not only_check and not as_json:
        sys.stdout.buffer.write(text.encode())
    else:
        if changed and not only_check and rules != "-":
            _replace(Path(rules), text.encode())
        if as_json:
            _print_json({"file": source.file, "changed": changed})
        elif changed:
            verb = "would be reformatted" if only_check else "reformatted"
            terminal.print_lines([f"{source.file}: {verb}"])
    sys.exit(1 if only_check and changed else 0)


@cli.command("explain")
@click.argument("rules", type=_RULES)
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
@_json_option
def explain_command(rules: str, queries: tuple[str, ...], show: str, as_json: bool) -> None:
    """Say what kind of query each output of RULES is, and why."""
    from tidelog.analysis.core import core
    from tidelog.analysis.dependencies import dependencies

    sections = _choices("--show", show, terminal.SECTIONS)
    report = _accepted(rules)
    asked = _queries(report.program, queries)
    whole = core(report.program, asked)
    found = [dependencies(whole, [q]) for q in asked]
    if as_json:
        _print_json(
            {"file": report.source.file, "queries": [terminal.explain_json(d) for d in found]}
        )
        return
    blocks = [terminal.explain_lines(d, sections) for d in found]
    terminal.print_lines(
        line for i, block in enumerate(blocks) for line in ([""] if i else []) + block
    )


@cli.command("query")
@click.argument("rules", type=_RULES)
@click.option("--facts", metavar="PATH", help="A folder of facts, or one file of them.")
@click.option("--query", "queries", multiple=True, metavar="P", help="This predicate; repeatable.")
@click.option("--from", "from_", metavar="TIME", help="First time; the data's first by default.")
@click.option("--to", metavar="TIME", help="Last time; the data's last by default.")
@click.option("--engine", type=click.Choice(["duckdb"]), default="duckdb", show_default=True)
@click.option("--format", "format_", type=click.Choice(["csv", "json", "table"]))
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option("--out", metavar="FILE|DIR", help="Write there; a folder when there are several.")
@click.option("--tick", metavar="LENGTH", help="Times are timestamps, in ticks this long: 10m.")
@click.option("--origin", metavar="TIME", help="Where tick 0 starts; 1970-01-01T00:00Z by default.")
@click.option("--ticks", "as_ticks", is_flag=True, help="With --tick, give times as whole ticks.")
def query_command(
    rules: str,
    facts: str | None,
    queries: tuple[str, ...],
    from_: str | None,
    to: str | None,
    engine: str,
    format_: str | None,
    as_json: bool,
    out: str | None,
    tick: str | None,
    origin: str | None,
    as_ticks: bool,
) -> None:
    """Answer the outputs of RULES over finite facts."""
    from tidelog.evaluation.engines import as_tick, evaluate
    from tidelog.views import answers

    ticks = _ticks(tick, origin, as_ticks)
    try:
        low, high = as_tick(from_, ticks), as_tick(to, ticks)
    except ValueError as error:
        raise click.UsageError(f"--from and --to: {error}") from error
    report = _accepted(rules)
    asked = _queries(report.program, queries)
    chosen = _format(format_, as_json, out, len(asked))
    with _data_errors(), terminal.Progress() as progress:
        found = evaluate(
            report.program,
            asked,
            facts,
            from_=low,
            to=high,
            engine=engine,
            ticks=ticks,
            timestamps=not as_ticks,
            progress=progress,
        )
    for name, rows in found.nulls.items():
        left_out = f"{terminal.plural(rows, 'row')} of {name} left out"
        terminal.stderr().print(f"warning: {left_out}: NULL in a declared column")
    blocks = {q: answers.lines(q, found.answers[q], chosen) for q in asked}
    if out is not None:
        _write(Path(out), blocks, answers.FORMATS[chosen])
        return
    for lines in blocks.values():
        for line in lines:
            click.echo(line)


def _ticks(tick: str | None, origin: str | None, as_ticks: bool) -> Ticks | None:
    from tidelog.evaluation.ticks import Ticks

    if tick is None:
        if origin is not None or as_ticks:
            raise click.UsageError("--origin and --ticks go with --tick")
        return None
    try:
        return Ticks.of(tick, origin)
    except ValueError as error:
        raise click.UsageError(f"--tick and --origin: {error}") from error


def _format(format_: str | None, as_json: bool, out: str | None, queries: int) -> str:
    """The format asked for, or what the place it goes to suggests."""
    if as_json:
        if format_ not in (None, "json"):
            raise click.UsageError("--json and --format contradict each other")
        return "json"
    if format_ is None and out is not None:
        return "json" if out.endswith((".json", ".jsonl")) else "csv"
    if format_ is None:
        format_ = "table" if sys.stdout.isatty() else "csv"
    if format_ == "csv" and queries > 1 and out is None:
        raise click.UsageError(
            f"{queries} queries do not fit one CSV: choose one with --query, write a folder with"
            " --out DIR, or use --format json"
        )
    return format_


def _write(out: Path, blocks: dict[str, Iterator[str]], ending: str) -> None:
    """One query to a file, several to a folder, a file each; whole files or none."""
    one = len(blocks) == 1 and not out.is_dir() and not str(out).endswith("/")
    places = {q: out if one else out / f"{q}{ending}" for q in blocks}
    written: list[tuple[str, Path]] = []
    try:
        for query, place in places.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name[:50]}.")
            written.append((temporary, place))
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.writelines(f"{line}\n" for line in blocks[query])
        for temporary, place in written:
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, place)
    except OSError as error:
        raise click.UsageError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        for temporary, _ in written:
            Path(temporary).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _data_errors() -> Iterator[None]:
    """What is wrong with rules or data, as lines on standard error and exit code 1."""
    from tidelog.evaluation.facts import DataError
    from tidelog.evaluation.plan import Unbounded

    console = terminal.stderr()
    try:
        yield
    except DataError as error:
        for problem in error.problems:
            console.print(f"error: {visible(problem)}")
        sys.exit(1)
    except Unbounded as error:
        console.print(f"error: {visible(str(error))}")
        console.print(f"  {visible(print_rule(error.rule))}")
        sys.exit(1)
    except ProgramError as error:
        _refuse(Report(error.source, Program(), error.diagnostics))


# Reading and reporting, shared by the commands


def _name(rules: str) -> str:
    return "<stdin>" if rules == "-" else rules


def _bytes(rules: str) -> bytes:
    if rules == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(rules).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {rules}: {error.strerror or error}") from error


def _read(rules: str) -> Report:
    return check(_bytes(rules), _name(rules))


def _accepted(rules: str) -> Report:
    """A report without errors; its warnings go to standard error."""
    report = _read(rules)
    if report.errors:
        _refuse(report)
    terminal.print_diagnostics(terminal.stderr(), report, report.warnings)
    return report


def _refuse(report: Report) -> NoReturn:
    console = terminal.stderr()
    terminal.print_diagnostics(console, report, report.diagnostics)
    console.print(terminal.report_summary(report))
    sys.exit(1)


def _queries(program: Program, names: Iterable[str]) -> tuple[str, ...]:
    """The queries asked for, or all outputs; any predicate of the program may be asked for."""
    known = tuple(dict.fromkeys([*program.outputs, *program.heads, *program.inputs]))
    for name in names:
        if name not in known:
            near = Similar(known).to(name)
            there = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
            remedy = f"did you mean {near}?" if near else f"there are: {there or 'none'}"
            raise click.UsageError(f"no predicate {name} in the rules; {remedy}")
    return tuple(dict.fromkeys(names)) or program.outputs


def _choices(option: str, text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(part.strip() for part in text.split(",") if part.strip())
    for part in chosen:
        if part not in allowed:
            raise click.UsageError(f"{option} knows {', '.join(allowed)}; not {part}")
    return chosen


def _print_json(value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeError:  # file names may be any bytes, terminals may speak any encoding
        text = json.dumps(value, indent=2)
    click.echo(text)


def _replace(path: Path, content: bytes) -> None:
    """Write beside the file, then rename over it: never half a file."""
    path = path.resolve()
    try:
        mode = path.stat().st_mode
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, mode)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from error


def main() -> None:
    # What a terminal cannot show is shown escaped, never a reason to fail.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    cli()


if __name__ == "__main__":
    main()
