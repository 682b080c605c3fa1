"""`tidelog test`: the tests beside the rules."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.common import budget_option, json_option, print_json, replace_file
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.testing import FileReport, Runner, RunReport, Suite

STYLES = (
    (re.compile(r"^FAIL\b"), "bold red"),
    (re.compile(r"^SKIP\b"), "bold yellow"),
    (re.compile(r"^ok\b"), "green"),
    (re.compile(r"^error:"), "bold red"),
    (re.compile(r"^hint:"), "bold green"),
    (re.compile(r"^    - .*"), "red"),
    (re.compile(r"^    \+ .*"), "green"),
)
_DIFF_STYLES = ((re.compile(r"^-.*"), "red"), (re.compile(r"^\+.*"), "green"))

_EPILOG = """Examples: `tidelog test` runs every *.test.yaml below the current folder, `tidelog test
rules -k ice` those in rules whose names have ice in them. `tidelog test --min-coverage 90 --junit
report.xml` is for CI, `tidelog test --mode online` runs the same cases as streams.

Exit codes: 0 if everything is as expected, 1 if not or if a test file is wrong, 2 for wrong use."""


@click.command("test", epilog=_EPILOG)
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILES]...")
@click.option("-k", "match", default="", metavar="TEXT", help="Only tests with TEXT in the name.")
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="In this process, or on Spark.",
)
@click.option(
    "--mode",
    type=click.Choice(["query", "offline", "online"]),
    help="All facts at once, or as a stream; query on duckdb, offline on spark by default.",
)
@click.option(
    "--master", default="local[2]", show_default=True, metavar="URL", help="Where Spark runs."
)
@click.option("--coverage", is_flag=True, help="Say which rules no test shows.")
@click.option(
    "--min-coverage",
    type=click.IntRange(0, 100),
    metavar="PERCENT",
    help="Fail if less is covered; adds --coverage.",
)
@click.option("--junit", "junit_file", metavar="FILE", help="Write a report for CI there.")
@click.option("--update", is_flag=True, help="Rewrite what is expected; shows it, and asks.")
@click.option("--yes", is_flag=True, help="With --update: write without asking.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of test files, for editors.")
@click.option("-v", "--verbose", is_flag=True, help="Name the tests that passed, too.")
@budget_option(60.0, "For each search and for programs that need the timeline.")
@json_option
def test_command(
    files: tuple[str, ...],
    match: str,
    engine: Any,
    mode: Any,
    master: str,
    coverage: bool,
    min_coverage: int | None,
    junit_file: str | None,
    update: bool,
    yes: bool,
    schema: bool,
    verbose: bool,
    budget: float,
    as_json: bool,
) -> None:
    """Run the tests in FILES, or below folders: YAML beside the rules, *.test.yaml.

    A test gives facts and says which answers they have, when each is final, what is pending; limits
    say how long a query may wait at most. What is not as expected is shown with its proof, or with
    what comes nearest to one.
    """
    from tidelog import testing

    if schema:
        text = resources.files("tidelog.testing").joinpath("schema.json").read_text("utf-8")
        click.echo(text, nl=False)
        return
    if yes and not update:
        raise click.UsageError("--yes goes with --update")
    if update and as_json:
        raise click.UsageError("--update asks, and --json is for machines")
    paths = files or (".",)
    try:
        if not testing.find(paths):
            raise click.UsageError(f"no *.test.yaml in {', '.join(paths)}")
        options: dict[str, Any] = {
            "engine": engine,
            "mode": mode,
            "master": master,
            "budget": budget,
            "start": _spark,
        }
        if update:
            _update(paths, match.casefold(), yes, options)
        with terminal.Progress() as progress:
            report = testing.run(
                paths,
                match=match,
                coverage=coverage,
                min_coverage=min_coverage,
                progress=progress,
                told=_nothing if as_json else _printer(verbose),
                **options,
            )
    except OSError as error:
        said = error.strerror or str(error)
        raise click.UsageError(f"cannot read {error.filename}: {said}") from error
    _told(report, junit_file, as_json)
    sys.exit(0 if report.passed else 1)


def _told(report: RunReport, junit_file: str | None, as_json: bool) -> None:
    """The report for machines, and the sum for people."""
    from tidelog.testing import junit

    if junit_file is not None:
        _write(junit_file, junit(report))
    if as_json:
        print_json(report.as_json())
    else:
        _sum(report)


def _spark(master: str, progress: Callable[[str], None]) -> object:
    from tidelog.cli.on_spark import started

    return started(master, progress)


def _nothing(_: FileReport) -> None:
    pass


def _printer(verbose: bool) -> Callable[[FileReport], None]:
    from tidelog.testing.reports import file_lines

    return lambda file: terminal.print_lines(file_lines(file, verbose=verbose), STYLES)


def _sum(report: RunReport) -> None:
    """What is said after all files: coverage, and the counts."""
    from tidelog.testing.reports import RunReport as Whole
    from tidelog.testing.reports import report_lines, sum_line

    rest = report_lines(Whole((), report.coverage, report.min_coverage))[:-1]
    terminal.print_lines([*rest, sum_line(report)], STYLES)


def _write(path: str, content: bytes) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from error


# --update


def _update(paths: tuple[str, ...], match: str, yes: bool, options: dict[str, Any]) -> None:
    """Rewrite what the files expect, one after the other, where somebody says so."""
    from tidelog import testing

    runner = testing.Runner(**options)
    try:
        for path in testing.find(paths):
            try:
                suite = testing.load(path)
            except testing.WrongFile:
                continue  # told by the run that follows
            text = _rewritten(suite, runner, match)
            if text == suite.source.text:
                continue
            shown = difflib.unified_diff(
                suite.source.text.splitlines(), text.splitlines(), path, path, lineterm=""
            )
            terminal.print_lines(shown, _DIFF_STYLES)
            if yes or _agreed(path):
                replace_file(Path(path), _as_before(Path(path).read_bytes(), text))
    finally:
        runner.close()


def _rewritten(suite: Suite, runner: Runner, match: str) -> str:
    from tidelog.testing.updating import updated

    del runner.seen[:]
    for case in suite.cases:
        if match in case.name.casefold():
            runner.case(suite, case)
    return updated(suite, [(case, ran) for _, case, ran in runner.seen])


def _as_before(raw: bytes, text: str) -> bytes:
    """The text with the byte order mark and the ends of lines that the file has."""
    mark = b"\xef\xbb\xbf"
    content = text.replace("\n", "\r\n") if b"\r\n" in raw else text
    return (mark if raw.startswith(mark) else b"") + content.encode()


def _agreed(path: str) -> bool:
    try:
        return click.confirm(f"Look at it. Write it to {path}?", default=False)
    except click.Abort:  # nobody is there to ask
        click.echo(f"\n{path}: nothing is written; --yes writes without asking")
        return False
