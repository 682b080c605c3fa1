"""What becomes of pending answers: each appears, and is confirmed or dead in the end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from tidelog.analysis.definitive import Pending, shown
from tidelog.data.ticks import Ticks, time_text
from tidelog.language.program import Value
from tidelog.streaming.stream import Step, Stream

What: TypeAlias = Literal["pending", "confirmed", "dead"]
_Key: TypeAlias = tuple[str, tuple[Value | None, ...], int]


@dataclass(frozen=True)
class Change:
    """An answer that may come from now on, that came, or that cannot come any more."""

    what: What
    answer: Pending

    def __str__(self) -> str:
        return self.text(None)

    def text(self, ticks: Ticks | None) -> str:
        """In words, with timestamps where ticks have a length."""
        answer, time = self.answer, partial(time_text, ticks=ticks)
        if self.what != "pending":
            return f"{self.what}: {shown(answer.predicate, answer.args, answer.time, time)}"
        facts = (shown(fact.predicate, fact.args, fact.time, time) for fact in answer.holds)
        holds = ", ".join(facts)
        given = f"; has {holds}" if holds else ""
        until = "" if answer.until is None else f"; decided at {time(answer.until)}"
        return f"pending: {answer.text(time)}{given}{until}"

    def as_json(self) -> dict[str, Any]:
        return {"what": self.what, **self.answer.as_json()}


class Watch:
    """Follows the pending answers of an online stream.

    >>> import tidelog
    >>> program = tidelog.parse("Hot(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+1.")
    >>> stream = Stream(program, ["Hot"], mode="online")
    >>> watch = Watch(stream)
    >>> for tick, level in enumerate(["high", "high", "low"]):
    ...     step = stream.push(tick, {"Temp": [("a", level)]})
    ...     for change in watch.after(step):
    ...         print(tick, change)
    0 pending: Hot(a) @ 0 waits for Temp(a, high) @ 1; has Temp(a, high) @ 0; decided at 1
    1 confirmed: Hot(a) @ 0
    1 pending: Hot(a) @ 1 waits for Temp(a, high) @ 2; has Temp(a, high) @ 1; decided at 2
    2 dead: Hot(a) @ 1
    """

    def __init__(self, stream: Stream, most: int = 100) -> None:
        if stream.options.intervals:
            raise ValueError("what was pending comes a tick at a time: watch without intervals")
        self.stream, self.most = stream, most
        self.open: dict[_Key, Pending] = {}

    def after(self, step: Step) -> list[Change]:
        """What has changed with a step: first what is decided, then what is new."""
        now = {
            (p.predicate, p.args, p.time): p
            for p in ([] if self.stream.closed else self.stream.pending(self.most))
        }
        came = {
            (query, tuple(row.values()))
            for query, table in step.answers.items()
            if any(key[0] == query for key in self.open)
            for row in table.to_pylist()
        }
        changes: list[Change] = []
        for key, answer in list(self.open.items()):
            query, args, time = key
            if key in now:
                continue
            if any(q == query and _fits(args, time, row) for q, row in came):
                changes.append(Change("confirmed", answer))
            elif step.tout is None or time > step.tout:
                continue  # certain, and told once everything up to its time is
            else:
                changes.append(Change("dead", answer))
            del self.open[key]
        changes += [
            Change("pending", answer) for key, answer in now.items() if key not in self.open
        ]
        self.open |= now
        return changes


def _fits(args: tuple[Value | None, ...], time: int, row: tuple[Any, ...]) -> bool:
    """Whether an answer is the one that was pending; None stands for any object."""
    *values, at = row
    return at == time and all(a is None or a == v for a, v in zip(args, values, strict=True))
