"""How long inputs have been silent, by the clock on the wall.

Only this process knows that, and no replay could find it out again: what follows from it, that an
input is idle, is therefore written down before it is acted upon.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping


class Silence:
    """Which inputs have brought nothing for longer than their limit, in seconds.

    Silence counts from the start of the process: while it was not there, nobody listened.

    >>> moments = iter([0.0, 4.0, 6.0, 6.0])
    >>> silence = Silence({"E": 5, "F": 5}, lambda: next(moments))
    >>> silence.hear(["E"])
    >>> silence.silent(), silence.next(["F"])
    ({'F'}, 3.0)
    """

    def __init__(
        self, limits: Mapping[str, float], now: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits, self._now = limits, now
        self._heard = dict.fromkeys(limits, now())

    def hear(self, names: Iterable[str]) -> None:
        """Something has come of these inputs."""
        now = self._now()
        self._heard |= {name: now for name in names if name in self.limits}

    def silent(self) -> set[str]:
        now = self._now()
        return {name for name, limit in self.limits.items() if now - self._heard[name] >= limit}

    def next(self, known: Iterable[str] = ()) -> float | None:
        """Seconds until one more input may be silent, besides those that are known to be."""
        ends = [self._heard[name] + self.limits[name] for name in self.limits.keys() - set(known)]
        return max(min(ends) - self._now(), 0.0) if ends else None


def patiently(lines: Iterable[bytes], wait: Callable[[], float | None]) -> Iterator[bytes | None]:
    """Lines as they come; None whenever that takes longer than one is willing to `wait`.

    >>> list(patiently([b"a", b"b"], lambda: None))
    [b'a', b'b']
    """
    arriving: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            for line in lines:
                arriving.put(line)
            arriving.put(None)
        except BaseException as error:  # raised again where the lines are used
            arriving.put(error)

    threading.Thread(target=read, name="tidelog-lines", daemon=True).start()
    while True:
        try:
            line = arriving.get(timeout=wait())
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        if isinstance(line, BaseException):
            raise line
        yield line
