"""Errors that several layers raise or catch; each says in plain words what is wrong."""

from __future__ import annotations


class DataError(Exception):
    """The data is wrong; every problem found is one line that says where and what."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class Refused(DataError):
    """A stream that cannot go on from what it finds; nothing was touched."""


class NoAnswer(Exception):
    """A question about a query that has no meaning, or no answer here; the text says why."""


def first_line(error: object) -> str:
    """What a library's error says, without the details that follow on further lines."""
    return str(error).split("\n", 1)[0]
