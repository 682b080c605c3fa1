"""What a `tidelog run` is asked for, and what it says of itself while it runs."""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, TypeVar

from tidelog.cli.common import FactPaths
from tidelog.data.ticks import time_text
from tidelog.errors import DataError
from tidelog.evaluation.interrupts import is_ignored
from tidelog.language.program import Program

if TYPE_CHECKING:
    from tidelog.data.ticks import Ticks
    from tidelog.streaming.clock import Clock
    from tidelog.streaming.options import StreamOptions

T = TypeVar("T")


@dataclass(frozen=True)
class StreamTask:
    """A stream to run, in process or on Spark."""

    program: Program
    queries: tuple[str, ...]
    facts: str | tuple[str, ...]  # files and folders, or - for standard input
    rigid: FactPaths
    sink: str
    checkpoint: str | None
    options: StreamOptions
    keep_open: bool
    pending: bool  # whether to say in the end what may still come
    skip: tuple[str, ...] = ()  # files and messages to go on without
    from_here: bool = False  # whether all lines of standard input are new


@dataclass
class RunLog:
    """What a run has done so far, for the status line, the metrics and the summary."""

    metrics: IO[str] | None
    show: Callable[[str], None]
    ticks: Ticks | None = None
    began: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)
    batches: int = 0
    totals: dict[str, int] = field(default_factory=dict)
    now: dict[str, Any] = field(default_factory=dict)
    blamed: tuple[str, ...] = ()  # inputs that hold time back while others have gone on
    held: bool = False  # facts were read that wait for the next run

    def batch(self, now: dict[str, Any], **counts: int) -> None:
        moment = time.monotonic()
        seconds, self.last = moment - self.last, moment
        self.batches += 1
        self.now = now
        for name, n in counts.items():
            self.totals[name] = self.totals.get(name, 0) + n
        rate = counts["facts"] / max(seconds, 1e-9)
        if self.metrics is not None:
            ends = {} if self.ticks is None else {"tin_time": "tin", "tout_time": "tout"}
            stamps = {k: now[t] if now[t] is None else self.time(now[t]) for k, t in ends.items()}
            line = {
                **now,
                **stamps,
                **counts,
                "seconds": round(seconds, 4),
                "facts_per_second": round(rate),
            }
            self.metrics.write(json.dumps(line) + "\n")
            self.metrics.flush()
        told = ("stream", "batch", "by_query", "tin", "tout", "waits_for", "idle")
        state = [f"{k.replace('_', ' ')} {v}" for k, v in now.items() if k not in told]
        times = [
            f"complete up to {self.time(now['tin'])}",
            f"answered up to {self.time(now['tout'])}",
        ]
        if self.blamed:
            times.append(f"waiting for {' and '.join(self.blamed)}")
        done = f"batch {now['batch']}: {self.totals['facts']} facts, {rate:,.0f}/s"
        self.show("; ".join([done, ", ".join([*times, *state])]))

    def awaited(self, waits_for: tuple[str, ...], clock: Clock) -> dict[str, list[str]]:
        """Who holds time back, and who is silent and does not."""
        ticks = {**clock.told, **clock.seen}
        ticks |= {name: max(tick, ticks[name]) for name, tick in clock.told.items()}
        last = max((ticks[name] for name in waits_for if name in ticks), default=-math.inf)
        others = [tick for name, tick in ticks.items() if name not in waits_for]
        furthest = max(others, default=-math.inf)
        is_open = clock.tin is None or clock.tin < furthest  # at its end an input is all there
        self.blamed = waits_for if is_open and furthest > last else ()
        return {"waits_for": list(waits_for), "idle": list(clock.idle)}

    def time(self, tick: int | None) -> str:
        """A tick as users see it."""
        return "nothing yet" if tick is None else time_text(tick, self.ticks)

    def summary(self) -> dict[str, Any]:
        seconds = time.monotonic() - self.began
        return {
            "batches": self.batches,
            **{name: self.totals.get(name, 0) for name in ("facts", "late", "dead", "answers")},
            "tin": self.now.get("tin"),
            "tout": self.now.get("tout"),
            "seconds": round(seconds, 3),
        }


class Stopped(Exception):
    """A stop that was asked for while a stream waits for facts."""


class StopRequest:
    """A request by SIGTERM to stop once the work at hand is committed; with Ctrl-C on Spark.

    The second such signal ends the process at once. A signal that the process was started to
    ignore stays so.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        self.made = False
        self._waiting = False
        self._numbers = numbers or (signal.SIGTERM, signal.SIGINT)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in self._numbers if not is_ignored(number)]
            self._before = {number: signal.signal(number, self._hear) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, *_: object) -> None:
        self.made = True
        for number in self._before:
            signal.signal(number, signal.SIG_DFL)
        if self._waiting:
            raise Stopped

    def check(self) -> None:
        """Stopped if there was a request."""
        if self.made:
            raise Stopped

    def waits(self, lines: Iterable[T]) -> Iterator[T]:
        """What comes next of some lines; Stopped at a request, also while nothing comes."""
        coming = iter(lines)
        while True:
            self._waiting = True
            try:
                self.check()
                line = next(coming)
            except StopIteration:
                return
            finally:
                self._waiting = False
            yield line


@contextmanager
def starting() -> Iterator[None]:
    """While a stream is made: refusals say a way out."""
    from tidelog.streaming.offline import Endless
    from tidelog.streaming.schedule import Blocking

    try:
        yield
    except Endless as error:
        raise DataError(str(error)) from None
    except Blocking as error:
        raise DataError(f"{error}; --mode online streams it, and keeps every fact") from None
