"""Tests for rules: `tidelog test` in Python, as `tidelog.testing.run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tidelog.testing.coverage import Coverage, covered
from tidelog.testing.documents import Problem, WrongFile
from tidelog.testing.model import Case, EngineName, Failure, Result, RunMode, Suite
from tidelog.testing.reading import ENDINGS, load, parse
from tidelog.testing.reports import FileReport, RunReport, junit
from tidelog.testing.running import Runner

__all__ = [
    "Case",
    "Coverage",
    "Failure",
    "FileReport",
    "Problem",
    "Result",
    "RunReport",
    "Runner",
    "Suite",
    "WrongFile",
    "find",
    "junit",
    "load",
    "parse",
    "run",
]

# Folders in which nobody keeps tests.
_PASSED_OVER = frozenset({"node_modules", "build", "dist", "__pycache__"})


def find(paths: Iterable[str | os.PathLike[str]] = (".",)) -> list[str]:
    """The test files among files and below folders, each once; FileNotFoundError names a lack."""
    files: list[str] = []
    for path in map(str, paths):
        if os.path.isdir(path):
            files += sorted(_below(path))
        elif os.path.exists(path):
            files.append(path)
        else:
            raise FileNotFoundError(2, "No such file or directory", path)
    return list(dict.fromkeys(files))


def _below(folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in _PASSED_OVER]
        yield from (
            os.path.normpath(os.path.join(place, name)) for name in files if name.endswith(ENDINGS)
        )


def run(
    paths: Iterable[str | os.PathLike[str]] = (".",),
    *,
    match: str = "",
    engine: EngineName = "duckdb",
    mode: RunMode | None = None,
    master: str = "local[2]",
    coverage: bool = False,
    min_coverage: int | None = None,
    budget: float = 60.0,
    progress: Callable[[str], None] = lambda _: None,
    start: Callable[[str, Callable[[str], None]], object] | None = None,
    told: Callable[[FileReport], None] = lambda _: None,
) -> RunReport:
    """Run the test files among `paths`, and below those that are folders.

    `match` chooses the tests whose name has it somewhere, in either case. As a `query` the facts
    are all there; with `offline` and `online` they arrive tick by tick. `coverage` measures it,
    and `min_coverage`, in percent, asks for it. `start` starts
    Spark from a master and a place for progress. `told` hears of each file once it is done.
    """
    runner = Runner(engine, mode, master, budget, progress, start)
    suites: list[Suite] = []
    files: list[FileReport] = []
    try:
        for path in find(paths):
            report = _file(path, match.casefold(), runner, suites, progress)
            told(report)
            files.append(report)
        measured = None
        if coverage or min_coverage is not None:
            progress("measuring coverage")
            measured = covered(suites, runner.seen, budget)
    finally:
        runner.close()
    return RunReport(tuple(files), measured, min_coverage)


def _file(
    path: str, match: str, runner: Runner, suites: list[Suite], progress: Callable[[str], None]
) -> FileReport:
    try:
        suite = load(Path(path))
    except WrongFile as error:
        return FileReport(path, wrong=error)
    suites.append(suite)
    results: list[Result] = []
    cases = [case for case in suite.cases if match in case.name.casefold()]
    for number, case in enumerate(cases, 1):
        progress(f"{path}: {number} of {len(cases)}, {case.name}")
        results.append(runner.case(suite, case))
    results += (runner.limit(suite, x) for x in suite.limits if match in x.name.casefold())
    return FileReport(path, tuple(results))
