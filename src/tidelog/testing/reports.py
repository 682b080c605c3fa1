"""Reports of a run: lines for a terminal, JSON, and JUnit's XML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from tidelog.testing.coverage import Coverage, RulesCoverage
from tidelog.testing.documents import WrongFile
from tidelog.testing.model import Outcome, Result
from tidelog.views.terminal import plural


@dataclass(frozen=True)
class FileReport:
    """What became of one test file: results, or what is wrong with it."""

    path: str
    results: tuple[Result, ...] = ()
    wrong: WrongFile | None = None

    @property
    def failed(self) -> bool:
        return self.wrong is not None or any(r.outcome == "failed" for r in self.results)

    def as_json(self) -> dict[str, object]:
        return {
            "file": self.path,
            "problems": [p.as_json() for p in self.wrong.problems] if self.wrong else [],
            "tests": [result.as_json() for result in self.results],
        }


@dataclass(frozen=True)
class RunReport:
    """A whole run. `passed` says that every file could be used and every test was as expected."""

    files: tuple[FileReport, ...]
    coverage: Coverage | None = None
    min_coverage: int | None = None

    @property
    def passed(self) -> bool:
        return not any(file.failed for file in self.files) and not self.uncovered

    @property
    def uncovered(self) -> bool:
        """Whether less is covered than was asked for."""
        wanted, measured = self.min_coverage, self.coverage
        return wanted is not None and measured is not None and measured.percent < wanted

    def counts(self) -> dict[Outcome, int]:
        return _counts(result for file in self.files for result in file.results)

    def as_json(self) -> dict[str, object]:
        counts = self.counts()
        return {
            "passed": counts["passed"],
            "failed": counts["failed"],
            "skipped": counts["skipped"],
            "wrong_files": sum(file.wrong is not None for file in self.files),
            "files": [file.as_json() for file in self.files],
            "coverage": None if self.coverage is None else self.coverage.as_json(),
            "min_coverage": self.min_coverage,
        }

    def __str__(self) -> str:
        return "\n".join(report_lines(self))


def _counts(results: Iterator[Result]) -> dict[Outcome, int]:
    outcomes: Counter[Outcome] = Counter(result.outcome for result in results)
    return {
        "passed": outcomes["passed"],
        "failed": outcomes["failed"],
        "skipped": outcomes["skipped"],
    }


# Text


def report_lines(report: RunReport, *, verbose: bool = False) -> list[str]:
    """Failures with what explains them, a line for each file, and the sum."""
    lines: list[str] = []
    for file in report.files:
        lines += file_lines(file, verbose=verbose)
    if report.coverage is not None:
        lines += coverage_lines(report.coverage)
    if report.uncovered and report.coverage is not None:
        lines.append(f"coverage is {report.coverage.percent}%, less than {report.min_coverage}%")
    return [*lines, sum_line(report)]


def sum_line(report: RunReport) -> str:
    """`12 passed, 1 failed in 3 files`"""
    wrong = sum(file.wrong is not None for file in report.files)
    parts = [text] if (text := counted(report.counts())) else []
    parts += [f"{plural(wrong, 'file')} wrong"] if wrong else []
    return f"{', '.join(parts) or 'no tests'} in {plural(len(report.files), 'file')}"


def counted(counts: dict[Outcome, int]) -> str:
    """`5 passed, 1 failed`"""
    return ", ".join(f"{n} {outcome}" for outcome, n in counts.items() if n)


def file_lines(file: FileReport, *, verbose: bool = False) -> list[str]:
    if file.wrong is not None:
        lines = [line for p in file.wrong.problems for line in (*p.lines(file.wrong.source), "")]
        return [*lines, f"{file.path}: {plural(len(file.wrong.problems), 'problem')}"]
    lines = []
    for result in file.results:
        lines += result_lines(result, verbose=verbose)
    return [*lines, f"{file.path}: {counted(_counts(iter(file.results))) or 'no tests'}"]


def result_lines(result: Result, *, verbose: bool = False) -> list[str]:
    where = f"{result.origin.file}:{result.origin.line}: {result.name}"
    match result.outcome:
        case "passed":
            return [f"ok   {where}"] if verbose else []
        case "skipped":
            return [f"SKIP {where}", f"  {result.skipped}"]
        case "failed":
            lines = [f"FAIL {where}"]
            for failure in result.failures:
                lines += [f"  {part}" for part in failure.message.split("\n")]
                lines += [f"    {line}".rstrip() for line in failure.lines]
            return [*lines, ""]


def coverage_lines(coverage: Coverage) -> list[str]:
    lines = [f"coverage: {coverage.percent}%"]
    for file in coverage.files:
        lines.append(f"  {file.file}: {_measured(file)}")
        lines += (f"    line {u.origin.line}: {u.text}  {u.reason}" for u in file.uncovered)
    return lines


def _measured(file: RulesCoverage) -> str:
    rules = f"{file.rules_covered} of {plural(file.rules, 'rule')}"
    if not file.ways:
        return rules
    return f"{rules}, {file.ways_covered} of {file.ways} ways of comparisons"


# JUnit


def junit(report: RunReport) -> bytes:
    """The report as Jenkins, GitLab and others read it."""
    top = ElementTree.Element("testsuites", name="tidelog")
    for file in report.files:
        results = file.results
        suite = ElementTree.SubElement(
            top,
            "testsuite",
            name=_legal(file.path),
            tests=str(len(results) + (file.wrong is not None)),
            failures=str(sum(r.outcome == "failed" for r in results)),
            errors=str(int(file.wrong is not None)),
            skipped=str(sum(r.outcome == "skipped" for r in results)),
            time=f"{sum(r.seconds for r in results):.3f}",
            file=_legal(file.path),
        )
        if file.wrong is not None:
            case = _testcase(suite, file.path, "the test file can be read", 0.0)
            wrong = file.wrong
            first = f"{wrong.problems[0].origin}: {wrong.problems[0].message}"
            _detail(case, "error", first, str(wrong))
        for result in results:
            case = _testcase(suite, file.path, result.name, result.seconds)
            for failure in result.failures:
                text = "\n".join((f"{result.origin}: {failure.message}", *failure.lines))
                _detail(case, "failure", failure.message, text)
            if result.skipped and not result.failures:
                _detail(case, "skipped", result.skipped, "")
    ElementTree.indent(top)
    xml: bytes = ElementTree.tostring(top, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _testcase(
    suite: ElementTree.Element, path: str, name: str, seconds: float
) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite, "testcase", name=_legal(name), classname=_legal(path), time=f"{seconds:.3f}"
    )


def _detail(case: ElementTree.Element, kind: str, message: str, text: str) -> None:
    element = ElementTree.SubElement(case, kind, message=_legal(message), type=kind)
    element.text = _legal(text) or None


def _legal(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)
