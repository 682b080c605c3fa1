"""Locks on files of this machine: one process at a time, on any system that Python runs on."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import FileLock


def take_lock(path: str | os.PathLike[str]) -> FileLock | None:
    """Lock a file for this process until it is released; None when another process has it.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> mine = take_lock(f"{folder.name}/lock")
    >>> take_lock(f"{folder.name}/lock") is None, owner_of(f"{folder.name}/lock") == os.getpid()
    (True, True)
    >>> mine.release()
    """
    from filelock import FileLock, Timeout  # which Spark's executors need not have

    # Not bound to a thread: whoever stops a stream lets go of it.
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return None
    with suppress(OSError):  # on Windows nobody can write to a locked file
        Path(path).write_text(f"{os.getpid()}\n")
    return lock


def owner_of(path: str | os.PathLike[str]) -> int | None:
    """The process that has locked a file, where it could say so."""
    try:
        return int(Path(path).read_text().strip())
    except (OSError, ValueError):
        return None
