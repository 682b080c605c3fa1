"""The pytest plugin: `*.test.yaml` files are collected and run beside the other tests.

Nothing but pytest is imported until there is such a file, since every run of pytest loads this.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing import Case, Result, Runner, Suite
    from tidelog.testing.model import QueryLimit

ENDINGS = (".test.yaml", ".test.yml")
_RUNNER = pytest.StashKey["Runner"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tidelog", "tests of Tidelog rules")
    group.addoption("--tidelog-engine", choices=("duckdb", "spark"), default="duckdb")
    group.addoption(
        "--tidelog-mode",
        choices=("query", "offline", "online"),
        help="all facts at once, or as a stream",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    asked = parent.session.isinitpath(file_path)
    if file_path.name.endswith(ENDINGS) and (asked or _is_ours(file_path)):
        collector: RulesTests = RulesTests.from_parent(parent, path=file_path)
        return collector
    return None


def _is_ours(path: Path) -> bool:
    """Whether a file is about Tidelog rules; others have test files of this name, too.

    Ours name a file of rules. One that is named on the command line is ours whatever it says.
    """
    try:
        return b".tdl" in path.read_bytes()
    except OSError:
        return False


def pytest_unconfigure(config: pytest.Config) -> None:
    if _RUNNER in config.stash:
        config.stash[_RUNNER].close()


def _runner(config: pytest.Config) -> Runner:
    from tidelog.testing import Runner

    if _RUNNER not in config.stash:
        engine, mode = config.getoption("tidelog_engine"), config.getoption("tidelog_mode")
        config.stash[_RUNNER] = Runner(engine, mode)
    return config.stash[_RUNNER]


class RulesTests(pytest.File):
    """A test file; each case, and the limits of each query, is an item."""

    def collect(self) -> Iterator[pytest.Item]:
        from tidelog.testing import WrongFile, load

        try:
            suite = load(self.path)
        except WrongFile as error:
            raise self.CollectError(str(error)) from None
        tests: tuple[Case | QueryLimit, ...] = (*suite.cases, *suite.limits)
        for test in tests:
            yield RulesTest.from_parent(self, name=test.name, suite=suite, test=test)


class Unexpected(Exception):
    """A result that is not as the file says."""

    def __init__(self, result: Result) -> None:
        from tidelog.testing.reports import result_lines

        super().__init__("\n".join(result_lines(result)).rstrip())


class RulesTest(pytest.Item):
    def __init__(self, *, suite: Suite, test: Case | QueryLimit, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self.suite, self.test = suite, test

    def runtest(self) -> None:
        from tidelog.testing import Case

        runner = _runner(self.config)
        if isinstance(self.test, Case):
            result = runner.case(self.suite, self.test)
        else:
            result = runner.limit(self.suite, self.test)
        del runner.seen[:]  # kept for coverage only
        if result.failures:
            raise Unexpected(result)
        if result.skipped:
            pytest.skip(result.skipped)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        if isinstance(excinfo.value, Unexpected):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.test.origin.line - 1, f"{self.path.name}: {self.name}"
