"""A folder on this machine, as checkpoints and sinks use it, without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tidelog.causes import Cause
from tidelog.data.locks import owner_of, take_lock
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError, Refused
from tidelog.pipeline.local_store import LocalStore
from tidelog.streaming.sinks.sink import StoredFile


def local_path(text: str) -> str | None:
    """A path on this machine, given as that or as a `file:` address; None for other addresses.

    >>> local_path("file:/a/b"), local_path("file:///a/b"), local_path("a/b"), local_path("s3a://b")
    ('/a/b', '/a/b', 'a/b', None)
    """
    path = re.sub(r"\Afile:(//)?(?=/)", "", text)
    return None if "://" in path else path


class LocalFolder(LocalStore):
    """A folder on this machine, whose files can be compared one by one."""

    def modified(self, *parts: str) -> str:
        """When a file was written last, as a timestamp."""
        written = datetime.fromtimestamp(os.stat(self.here(*parts)).st_mtime, UTC)
        return written.isoformat(timespec="seconds").replace("+00:00", "Z")

    def damaged(self, files: Iterable[StoredFile], *parts: str) -> Iterator[str]:
        """Which of some files are missing or have other bytes, each as a sentence."""
        for name, size, digest in files:
            path = self.here(*parts, name)
            if not os.path.isfile(path):
                yield f"{self.shown(*parts, name)} is missing"
            elif os.path.getsize(path) != size or (digest and self.digest(*parts, name) != digest):
                yield f"{self.shown(*parts, name)} is damaged"

    def drop(self, *parts: str) -> None:
        """Delete a file or a folder, and wait until its name is gone from the disk."""
        if self.exists(*parts):
            self.delete(*parts)
            self.machine.sync_folder(os.path.dirname(self.here(*parts)))


def checkpoint_folder(path: str | os.PathLike[str]) -> LocalFolder:
    """The folder of a checkpoint; DataError if it is none, or lies on another machine."""
    text = os.fspath(path)
    here = local_path(text)
    if here is None:
        raise DataError(
            f"{without_secrets(text)}: checkpoints are read on this machine, without Spark: copy"
            " this one here first, while its stream stands still"
        )
    if not os.path.isdir(here):
        what = "is a file" if os.path.exists(here) else "is not there"
        raise DataError(f"{text} {what}: name the folder of a checkpoint")
    return LocalFolder(here)


@contextmanager
def locked(folder: LocalFolder) -> Iterator[None]:
    """Hold a checkpoint alone; Refused while a stream, or the Spark of one, is at work there."""
    path = folder.here("lock")
    lock = take_lock(path)
    if lock is None:
        raise Refused(
            f"{folder.name} is in use by process {owner_of(path) or 'unknown'}:"
            " stop that one first",
            code=Cause.IN_USE,
        )
    try:
        with _locked_by_java(folder):
            yield
    finally:
        lock.release()


@contextmanager
def _locked_by_java(folder: LocalFolder) -> Iterator[None]:
    """Hold the file that Spark's process locks, which may outlive the process that started it."""
    path = folder.here(".spark.lock")
    try:
        import fcntl
    except ImportError:  # Windows deletes nothing that is open
        yield
        return
    if not os.path.exists(path):
        yield
        return
    with open(path, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(
                f"{folder.name} is still in use by the Spark of a start that has ended: wait for"
                " that process, or end it",
                code=Cause.SPARK_RUNS,
            ) from None
        yield
