"""Tidelog: a stream reasoner for temporal Datalog.

>>> import tidelog
>>> program = tidelog.parse("Hot(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+1.")
>>> program.outputs
('Hot',)
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from tidelog.language.checks import Report, check
from tidelog.language.diagnostics import Code, Diagnostic, ProgramError, Severity
from tidelog.language.program import Program

__version__ = "0.1.0"

__all__ = [
    "Code",
    "Diagnostic",
    "Program",
    "ProgramError",
    "Report",
    "Severity",
    "check",
    "load",
    "parse",
]


def parse(text: str, file: str = "<text>") -> Program:
    """The program of a text; ProgramError carries every diagnostic when the rules are wrong."""
    return check(text, file).accepted()


def load(path: str | PathLike[str]) -> Program:
    """The program of a rules file; ProgramError carries every diagnostic when it is wrong."""
    return check(Path(path).read_bytes(), str(path)).accepted()
