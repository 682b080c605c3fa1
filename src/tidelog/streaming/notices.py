"""Warnings about rows that a stream does not use: the first of a kind at once, then one a minute.

Rows are told apart by their input and by why they are not used. A warning says how many there are,
shows the first of them, and names the option that helps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from tidelog.data.letters import DeadLetter, excerpt, kind_of, letter_text, path_text
from tidelog.data.secrets import without_secrets
from tidelog.data.ticks import Ticks, duration_text
from tidelog.errors import warn
from tidelog.streaming.options import StreamOptions

# Seconds between two warnings about rows of one input and kind.
INTERVAL = 60.0
# Rows that come so many ticks too late were not slow: another row had a time far ahead.
FAR = 1_000_000

Kind: TypeAlias = Literal["late", "ahead", "unreadable"]
# By input, the queries with answers that late facts could have changed.
Changed: TypeAlias = Mapping[str, tuple[str, ...]]
NOTHING: Changed = {}
WHAT: dict[Kind, str] = {
    "late": "came too late",
    "ahead": "could not be used, since their times lie too far ahead",
    "unreadable": "could not be used",
}


@dataclass(frozen=True)
class UnusedRows:
    """Rows of one input that are not used for one kind of reason."""

    predicate: str | None  # None where it is not known
    kind: Kind
    count: int
    # The least lateness, or the least max_jump, in ticks, with which all of them would be used.
    needed: int | None = None
    cause: str = ""  # why time had gone on without late rows, where that is not the lateness
    changed: tuple[str, ...] = ()  # queries with answers that are out, and could be other ones
    first: Mapping[str, Any] | None = None  # the first of them, as a dead letter

    def joined(self, more: UnusedRows) -> UnusedRows:
        """These rows and later ones; the first stays the first."""
        needed = [n for n in (self.needed, more.needed) if n is not None]
        return replace(
            self,
            count=self.count + more.count,
            needed=max(needed, default=None),
            cause=self.cause or more.cause,
            changed=tuple(dict.fromkeys((*self.changed, *more.changed))),
            first=self.first or more.first,
        )


def with_first(rows: UnusedRows, letters: Iterable[Mapping[str, Any]]) -> UnusedRows:
    """Rows with the first of some dead letters that is one of them."""
    which = (rows.predicate, rows.kind)
    return replace(
        rows, first=next((x for x in letters if (x["predicate"], kind_of(x)) == which), None)
    )


def unused_rows(
    letters: Iterable[DeadLetter],
    inputs: Container[str],
    changed: Changed = NOTHING,
) -> list[UnusedRows]:
    """The rows of some dead letters by input and kind; `changed` are queries by input.

    A row may name an input that there is not, and be of any length.
    """
    known: dict[tuple[str | None, Kind], UnusedRows] = {}
    for letter in letters:
        first = letter.as_json()
        kind = kind_of(first)
        name = letter.predicate if letter.predicate in inputs else None
        queries = changed.get(str(name), ()) if kind == "late" else ()
        rows = UnusedRows(name, kind, 1, letter.needed, letter.cause, queries, excerpt(first))
        before = known.get((name, kind))
        known[name, kind] = rows if before is None else before.joined(rows)
    return list(known.values())


def length_text(count: int, ticks: Ticks | None) -> str:
    """So many ticks, as options take them.

    >>> length_text(7, None), length_text(7, Ticks.of("10m"))
    ('7', '70m')
    """
    try:
        length = None if ticks is None else timedelta(microseconds=count * ticks.length)
    except OverflowError:
        length = None
    return str(count) if length is None else str(duration_text(length))


@dataclass
class _Held:
    """What is known of one kind of rows of an input."""

    total: int = 0
    untold: UnusedRows | None = None
    last: float | None = None  # when there was a warning


@dataclass
class Notices:
    """The warnings of one run of a stream; any thread may call it."""

    options: StreamOptions
    place: Callable[[], str | None]  # where all dead letters are
    now: Callable[[], float] = time.monotonic
    warn: Callable[[str], None] = warn
    _kinds: dict[tuple[str | None, Kind], _Held] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def inputs(self) -> set[str | None]:
        """The inputs that rows were of."""
        return {name for name, _ in self._kinds}

    def add(self, rows: Sequence[UnusedRows]) -> None:
        """Count rows that are put aside for good, and warn of those that are due."""
        with self._lock:
            for some in rows:
                held = self._kinds.setdefault((some.predicate, some.kind), _Held())
                held.total += some.count
                held.untold = some if held.untold is None else held.untold.joined(some)
        self.tell_due()

    def wait(self) -> float | None:
        """Seconds until the next warning; None if there is nothing to say."""
        with self._lock:
            held = [x for x in self._kinds.values() if x.untold is not None]
            ends = [x.last + INTERVAL for x in held if x.last is not None]
        return max(min(ends) - self.now(), 0.0) if ends else None

    def tell_due(self) -> None:
        """Warn of rows of a kind that is new, or was told of a minute ago."""
        now = self.now()
        self._tell(lambda held: held.last is None or now - held.last >= INTERVAL)

    def finish(self) -> None:
        """Warn of all rows that were not told of: the stream has ended."""
        self._tell(lambda _: True)

    def _tell(self, is_due: Callable[[_Held], bool]) -> None:
        texts: list[str] = []
        with self._lock:
            for held in self._kinds.values():
                if held.untold is not None and is_due(held):
                    texts.append(self._text(held.untold, held.total))
                    held.untold, held.last = None, self.now()
        for text in texts:
            self.warn(without_secrets(text))

    def _text(self, rows: UnusedRows, total: int) -> str:
        """A warning about some rows that are new, and about how many there are by now."""
        more = "" if rows.count == total else "more "
        several = f"{rows.count:,} {more}row{'' if rows.count == 1 else 's'}"
        named = "" if rows.predicate is None else f"input `{rows.predicate}`: "
        what = WHAT[rows.kind]
        if rows.count == 1:
            what = what.replace("their times lie", "its time lies")
        parts = [f"{named}{several} {what}{f', {total:,} by now' if more else ''}"]
        if rows.kind == "late" and rows.needed is not None:
            parts[0] += f", at most by {self._ticks(rows.needed - self.options.lateness)}"
        parts += [self._remedy(rows)] if rows.needed is not None else []
        if rows.changed:
            parts.append(f"answers of {', '.join(rows.changed)} could have been other ones")
        if rows.first is not None:
            parts.append(f"the first: {letter_text(dict(rows.first))}")
        place = self.place()
        parts += [] if place is None else [f"all are in {path_text(place)}"]
        return "; ".join(parts)

    def _ticks(self, count: int) -> str:
        length = length_text(count, self.options.ticks)
        return f"{length} tick{'' if count == 1 else 's'}" if length.isdecimal() else length

    def _remedy(self, rows: UnusedRows) -> str:
        length = length_text(rows.needed or 0, self.options.ticks)
        if rows.kind == "ahead":
            return f"where times are right, --max-jump {length} takes them"
        if rows.cause:
            return rows.cause
        if (rows.needed or 0) >= FAR and self.options.max_jump is None:
            return "a time far ahead has moved the stream on: --max-jump N puts such rows aside"
        would = f"--lateness {length} would do"
        if rows.predicate in self.options.sparse:
            would += f", and so would no --sparse {rows.predicate}"
        return would
