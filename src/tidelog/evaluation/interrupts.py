"""Ctrl-C while DuckDB works; by itself, Python would notice it only after the query."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb


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
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None
    finally:
        signal.set_wakeup_fd(before)
        os.close(write)
        watcher.join()
        os.close(read)
