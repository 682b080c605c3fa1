"""A query of one program over one history, ready for questions about its future."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.analysis.passes import passes
from tidelog.analysis.possible import Possible
from tidelog.errors import NoAnswer
from tidelog.evaluation.duckdb import Engine


@dataclass(frozen=True)
class QueryOverData:
    engine: Engine
    query: str

    def __post_init__(self) -> None:
        if not self.deps.core.predicates[self.query].temporal:
            raise NoAnswer(f"{self.query} has no time: the question concerns temporal queries")

    @cached_property
    def deps(self) -> Dependencies:
        return passes(self.engine.typed, [self.query]).written_out

    @cached_property
    def possible(self) -> Possible:
        """What may still come to hold."""
        return passes(self.engine.typed, [self.query]).possible

    @property
    def blocking(self) -> bool:
        """Whether the question needs the timeline: answers may depend on any later time."""
        return self.deps.cls is Class.BLOCKING
