"""Ctrl-C while DuckDB or Spark works.

By itself, Python would notice it only after a query of DuckDB's. A process that was started with
SIGINT ignored, as one in the background of a script is, ignores it to its end.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


@contextmanager
def as_keyboard_interrupt() -> Iterator[None]:
    """What DuckDB raises when Ctrl-C has ended a query becomes KeyboardInterrupt."""
    try:
        yield
    except Exception as error:
        if not _is_interrupt(error):
            raise
        raise KeyboardInterrupt from None


def _is_interrupt(error: Exception) -> bool:
    """Whether it is one of the two errors that an interrupted query ends with."""
    if type(error) is RuntimeError:
        return str(error) == "Query interrupted"
    return type(error).__name__ == "InterruptException"


def handle_signals() -> None:
    """Let Python handle signals now, which it does where a function begins.

    After an interrupted query the next function may be an `__exit__`, which would do nothing.
    """


def is_ignored(number: int) -> bool:
    """Whether a signal was ignored when the process began, and still is."""
    return signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def sigint_stays_ignored() -> Iterator[None]:
    """A library that listens to Ctrl-C does not, where it has been ignored from the beginning."""
    ignored = threading.current_thread() is threading.main_thread() and is_ignored(signal.SIGINT)
    try:
        yield
    finally:
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def interruptible(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Ctrl-C ends what the connection is doing, and becomes KeyboardInterrupt at once.

    Python's own handler waits for the main thread, which waits for DuckDB; but the number of the
    signal is written to a pipe straight away, and a thread that reads there can end the query.
    Between two pieces of its work DuckDB looks for signals too; then it takes the
    KeyboardInterrupt, and raises a RuntimeError of its own.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        with as_keyboard_interrupt():
            yield
        return
    read, write = os.pipe()
    os.set_blocking(write, False)

    def watch() -> None:
        while number := os.read(read, 1):
            if number[0] == signal.SIGINT:
                connection.interrupt()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        with as_keyboard_interrupt():
            yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(write)
        watcher.join()
        os.close(read)
