"""What the commands share: reading rules, reporting what is wrong, times, JSON."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import click

from tidelog.data.types import json_value
from tidelog.language.checks import Report, check
from tidelog.language.diagnostics import ProgramError, visible
from tidelog.language.printer import print_rule
from tidelog.language.program import Program
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.data.ticks import Ticks

_Command = TypeVar("_Command", bound=Callable[..., Any])

RULES = click.Path(dir_okay=False, allow_dash=True)
json_option = click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
strict_option = click.option("--strict", is_flag=True, help="Warnings about the rules are errors.")
jars_option = click.option(
    "--jars",
    multiple=True,
    metavar="PATH",
    help="The connector's jars, where Maven shall not fetch them; repeatable.",
)
FactPaths: TypeAlias = str | tuple[str, ...] | None


def _paths(_: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> FactPaths:
    """The paths given with an option that may be repeated; one is a text, none is None."""
    if "" in value:  # which would be the current folder
        raise click.UsageError(f"{parameter.opts[0]} names no file or folder")
    return value if len(value) > 1 else value[0] if value else None


def paths_option(
    name: str, help_: str, *, required: bool = False
) -> Callable[[_Command], _Command]:
    return click.option(
        name, multiple=True, required=required, metavar="PATH", callback=_paths, help=help_
    )


facts_option = paths_option(
    "--facts", "A folder or file of facts, NAME=FILE, or a pattern; repeatable."
)
tick_option = click.option(
    "--tick", metavar="LENGTH", help="Times are timestamps, in ticks this long: 10m."
)
origin_option = click.option(
    "--origin", metavar="TIME", help="Where tick 0 starts; 1970-01-01T00:00Z by default."
)


def _number(_: click.Context, __: click.Parameter, value: float) -> float:
    if math.isnan(value):
        raise click.BadParameter("not a number")
    return value


def budget_option(seconds: float, help_: str) -> Callable[[_Command], _Command]:
    return click.option(
        "--budget",
        type=click.FloatRange(min=0.0),
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        callback=_number,
        help=help_,
    )


def name_of(rules: str) -> str:
    return "<stdin>" if rules == "-" else rules


def read_bytes(rules: str) -> bytes:
    if rules == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(rules).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {rules}: {error.strerror or error}") from error


def read(rules: str) -> Report:
    return check(read_bytes(rules), name_of(rules))


def accepted(rules: str, *, strict: bool = False) -> Report:
    """A report without errors (if strict, without warnings); warnings go to standard error."""
    report = read(rules)
    if report.errors or (strict and report.warnings):
        refuse(report)
    terminal.print_diagnostics(terminal.stderr(), report, report.warnings)
    return report


def refuse(report: Report) -> NoReturn:
    console = terminal.stderr()
    terminal.print_diagnostics(console, report, report.diagnostics)
    console.print(terminal.report_summary(report))
    sys.exit(1)


def chosen_queries(program: Program, names: Iterable[str]) -> tuple[str, ...]:
    """The queries asked for, or all outputs; any predicate of the program may be asked for."""
    from tidelog.data.schema import expect_queries

    try:
        return expect_queries(program, tuple(names) or None)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def choices(option: str, text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(part.strip() for part in text.split(",") if part.strip())
    for part in chosen:
        if part not in allowed:
            raise click.UsageError(f"{option} knows {', '.join(allowed)}; not {part}")
    return chosen


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print a value as JSON, in one line if it has no indent."""
    value = json_value(value)
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeError:  # file names may be any bytes, terminals may speak any encoding
        text = json.dumps(value, indent=indent)
    click.echo(text)


def replace_file(path: Path, content: bytes) -> None:
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


@contextmanager
def data_errors() -> Iterator[None]:
    """What is wrong with rules or data, as lines on standard error; exit code 1, or 75."""
    from tidelog.data.secrets import without_secrets
    from tidelog.errors import DataError, NoAnswer
    from tidelog.evaluation.duckdb_failures import as_data_errors
    from tidelog.evaluation.plan import Unbounded
    from tidelog.evaluation.timeline import TooHard
    from tidelog.streaming.schedule import Blocking

    console = terminal.stderr()
    try:
        with _warnings_shown(), as_data_errors():
            yield
    except DataError as error:
        first, *others = error.problems
        code = "" if error.code is None else f" [{error.code.value}]"
        for problem in (f"{first}{code}", *others):
            console.print(f"error: {visible(without_secrets(problem))}")
        sys.exit(error.exit)
    except Unbounded as error:
        console.print(f"error: {visible(str(error))}")
        console.print(f"  {visible(print_rule(error.clause.as_rule))}")
        sys.exit(1)
    except (TooHard, Blocking, NoAnswer) as error:
        console.print(f"error: {visible(str(error))}")
        sys.exit(1)
    except ProgramError as error:
        refuse(Report(error.source, Program(), error.diagnostics))


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Warnings of ours as lines on standard error, each once, when they come.

    That an input has no facts is told once of each, by whoever notices it first.
    """
    from tidelog.data.secrets import without_secrets
    from tidelog.errors import NoFacts, TidelogWarning

    told: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *more: Any, **named: Any) -> None:
        if not issubclass(category, TidelogWarning):
            usual(message, category, *more, **named)
            return
        text = visible(without_secrets(str(message)))
        about = f"`{message.input}`" if isinstance(message, NoFacts) else text
        if about not in told:
            told.add(about)
            terminal.stderr().print(f"warning: {text}", markup=False, highlight=False)

    with warnings.catch_warnings():
        warnings.simplefilter("always", TidelogWarning)
        usual, warnings.showwarning = warnings.showwarning, show
        yield


def ticks_of(
    program: Program, tick: str | None, origin: str | None, as_ticks: bool
) -> Ticks | None:
    """The ticks that the options or the rules say."""
    from tidelog.data.ticks import Ticks

    if tick is None and program.tick is None:
        if origin is not None or as_ticks:
            raise click.UsageError(
                "--origin and --ticks go with --tick, or `tick 1m.` in the rules"
            )
        return None
    try:
        return Ticks.given(program, tick, origin)
    except ValueError as error:
        raise click.UsageError(f"--tick and --origin: {error}") from error
