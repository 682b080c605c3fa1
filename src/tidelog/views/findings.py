"""Diagnostics as machines of others read them: GitHub's annotations, and SARIF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from urllib.parse import quote

from tidelog.language.checks import Report
from tidelog.language.diagnostics import Code, Diagnostic, Severity
from tidelog.language.program import Origin


def github_lines(report: Report) -> Iterator[str]:
    """Workflow commands: GitHub shows each beside the line that it is about."""
    for diagnostic in report.diagnostics:
        origin = diagnostic.origin
        place = {
            "file": origin.file,
            "line": origin.line,
            "endLine": origin.end_line,
            "title": f"{diagnostic.code.id} {diagnostic.code.title}",
        }
        if origin.line == origin.end_line:  # columns of several lines are not taken
            place |= {"col": origin.column, "endColumn": origin.end_column}
        properties = ",".join(f"{name}={_property(str(value))}" for name, value in place.items())
        hint = f"\nhint: {diagnostic.hint}" if diagnostic.hint else ""
        note = diagnostic.severity is Severity.NOTE
        command = "notice" if note else diagnostic.severity.value
        yield f"::{command} {properties}::{_escaped(diagnostic.message + hint)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def sarif(reports: Iterable[Report], version: str) -> dict[str, object]:
    """The findings in the Static Analysis Results Interchange Format, version 2.1.0."""
    codes = list(Code)
    return {
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "tidelog",
                        "version": version,
                        "rules": [_rule(code) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(diagnostic, codes.index(diagnostic.code))
                    for report in reports
                    for diagnostic in report.diagnostics
                ],
            }
        ],
    }


def _rule(code: Code) -> dict[str, object]:
    return {
        "id": code.id,
        "name": "".join(part.capitalize() for part in code.name.split("_")),
        "shortDescription": {"text": code.title},
        "defaultConfiguration": {"level": code.severity.value},
    }


def _result(diagnostic: Diagnostic, index: int) -> dict[str, object]:
    hint = f"\n{diagnostic.hint}" if diagnostic.hint else ""
    notes = [note for note in diagnostic.notes if note.origin is not None]
    result: dict[str, object] = {
        "ruleId": diagnostic.code.id,
        "ruleIndex": index,
        "level": diagnostic.severity.value,
        "message": {"text": diagnostic.message + hint},
        "locations": [_location(diagnostic.origin)],
    }
    if notes:
        result["relatedLocations"] = [
            {**_location(note.origin), "id": i, "message": {"text": note.message}}
            for i, note in enumerate(notes)
            if note.origin is not None
        ]
    return result


def _location(origin: Origin) -> dict[str, object]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": uri(origin.file)},
            "region": {
                "startLine": origin.line,
                "startColumn": origin.column,
                "endLine": origin.end_line,
                "endColumn": origin.end_column,
            },
        }
    }


def uri(file: str) -> str:
    """The name of a file as a reference: relative as it was given, or absolute.

    >>> uri("rules/a b.tdl"), uri("<stdin>")
    ('rules/a%20b.tdl', '%3Cstdin%3E')
    """
    path = PurePath(file).as_posix()
    text = quote(path, safe="/", errors="surrogateescape")
    return f"file://{text}" if path.startswith("/") else text
