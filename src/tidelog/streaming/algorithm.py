"""What turns facts into answers as time goes on; there are three ways to do it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Protocol, TypeAlias

from tidelog.analysis.definitive import Pending
from tidelog.language.program import Row
from tidelog.streaming.snapshot import State

AnswerRows: TypeAlias = dict[str, Set[Row]]  # by query, with the time last where there is one
FactsByTime: TypeAlias = Mapping[str, Mapping[int, Set[Row]]]  # by input and time
RowsByTime: TypeAlias = dict[int, Set[Row]]


class Algorithm(Protocol):
    """Offline, online, or online with all facts kept for blocking queries."""

    def begin(self, earliest: int) -> None:
        """No fact lies before a tick."""

    def advance(self, tin: int, facts: FactsByTime, low: int) -> AnswerRows:
        """Everything up to tin has arrived; answers from `low` on are wanted."""

    def close(self, last: int, low: int) -> AnswerRows:
        """No more input: everything up to the last tick is final."""

    def finals(self) -> dict[str, int]:
        """The time up to which each query is answered; those of which none is yet are left out."""

    @property
    def history(self) -> int:
        """How many facts are kept."""

    def facts(self) -> dict[str, RowsByTime]:
        """The input facts that are kept."""

    def derived(self) -> dict[str, RowsByTime]:
        """The derived facts that are kept."""

    def pending(self, most: int) -> list[Pending]:
        """Answers that may still come at times up to tin, with what each waits for."""

    def state(self) -> State:
        """Everything needed to go on, as plain data."""

    def resume(self, state: State) -> None:
        """Go on from such data."""


__all__ = ["Algorithm", "AnswerRows", "FactsByTime", "RowsByTime"]
