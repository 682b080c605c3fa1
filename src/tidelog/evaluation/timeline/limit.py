"""How long an evaluation on the timeline may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.analysis.dependencies import Dependencies


class TooHard(Exception):
    """The budget ended; the rules that run both ways through time are named."""


@dataclass
class Limit:
    """Seconds that may still be spent, and what makes it hard."""

    seconds: float
    hard: str
    progress: Callable[[str], None] = lambda _: None
    _end: float = field(init=False)
    _steps: int = 0

    @staticmethod
    def of(deps: Dependencies, budget: float, progress: Callable[[str], None]) -> Limit:
        """A limit that names the rules that decide the class of some queries."""
        places = ", ".join(dict.fromkeys(str(rule.origin) for rule in deps.reason.rules))
        return Limit(budget, deps.reason.message + (f" ({places})" if places else ""), progress)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds

    def check(self, what: str, weight: int = 1) -> None:
        """Ask often: the clock is looked at once in a few thousand steps, by their weight."""
        self._steps += weight
        if self._steps >= 4096:
            self._steps = 0
            if time.monotonic() > self._end:
                raise TooHard(
                    f"no answer within {self.seconds:g} seconds on the timeline: {self.hard};"
                    " allow more with --budget, or ask for less"
                )
            self.progress(what)
