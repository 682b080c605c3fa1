"""What a `tidelog run` is asked for, and what it says of itself while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from tidelog.errors import DataError
from tidelog.language.diagnostics import visible
from tidelog.language.program import Program
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.streaming.options import StreamOptions


@dataclass(frozen=True)
class StreamTask:
    """A stream to run, in process or on Spark."""

    program: Program
    queries: tuple[str, ...]
    facts: str  # a file or folder, or - for standard input
    rigid: str | None
    sink: str
    checkpoint: str | None
    options: StreamOptions
    keep_open: bool
    pending: bool  # whether to say in the end what may still come


@dataclass
class RunLog:
    """What a run has done so far, for the status line, the metrics and the summary."""

    metrics: IO[str] | None
    show: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)
    batches: int = 0
    totals: dict[str, int] = field(default_factory=dict)
    now: dict[str, Any] = field(default_factory=dict)

    def batch(self, now: dict[str, Any], **counts: int) -> None:
        moment = time.monotonic()
        seconds, self.last = moment - self.last, moment
        self.batches += 1
        self.now = now
        for name, n in counts.items():
            self.totals[name] = self.totals.get(name, 0) + n
        rate = counts["facts"] / max(seconds, 1e-9)
        if self.metrics is not None:
            line = {**now, **counts, "seconds": round(seconds, 4), "facts_per_second": round(rate)}
            self.metrics.write(json.dumps(line) + "\n")
            self.metrics.flush()
        state = ", ".join(f"{k} {v}" for k, v in now.items() if k not in ("batch", "by_query"))
        self.show(f"batch {now['batch']}: {self.totals['facts']} facts, {rate:,.0f}/s; {state}")

    def summary(self) -> dict[str, Any]:
        seconds = time.monotonic() - self.began
        return {
            "batches": self.batches,
            **{name: self.totals.get(name, 0) for name in ("facts", "late", "dead", "answers")},
            "tin": self.now.get("tin"),
            "tout": self.now.get("tout"),
            "seconds": round(seconds, 3),
        }


@contextmanager
def starting() -> Iterator[None]:
    """While a stream is made: what it warns of goes to standard error, refusals say a way out."""
    import warnings

    from tidelog.streaming.offline import Endless
    from tidelog.streaming.schedule import Blocking
    from tidelog.streaming.stream import StreamWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StreamWarning)
        try:
            yield
        except Endless as error:
            raise DataError(str(error)) from None
        except Blocking as error:
            raise DataError(f"{error}; --mode online streams it, and keeps every fact") from None
    for warning in caught:
        if issubclass(warning.category, StreamWarning):
            said = visible(str(warning.message))
            terminal.stderr().print(f"warning: {said}", highlight=False)
