"""Files and folders that outlive a loss of power, by the calls of a process to its machine.

The bytes of a file are on the disk once it was synced; its name is there once the folder that holds
it was.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Protocol

from tidelog.data.locks import take_lock


@dataclass(frozen=True)
class Entry:
    """A name in a folder."""

    name: str
    folder: bool
    size: int
    changed: int = 0  # when, in nanoseconds, where that is known


class Lock(Protocol):
    """A lock that this process holds."""

    def release(self) -> None: ...


def is_part(name: str) -> bool:
    """Whether a file is one that was to be renamed once it was whole.

    >>> is_part(".0.json.5f1c22aa.tmp"), is_part(".owner")
    (True, False)
    """
    return name.startswith(".") and name.endswith(".tmp")


class Machine:
    """The calls of a process to its machine: files, locks, time and random names.

    A simulation overrides the calls of the first part. The others are made of them.
    """

    def open(self, path: str, mode: str) -> IO[bytes]:
        return open(path, mode)

    def sync(self, file: IO[bytes]) -> None:
        """Wait until the bytes of an open file are on the disk."""
        os.fsync(file.fileno())

    def length(self, file: IO[bytes]) -> int | None:
        """The size of an open file; None for what is no file, such as a pipe."""
        status = os.fstat(file.fileno())
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def sync_folder(self, path: str) -> None:
        """Wait until the names in a folder are on the disk."""
        if os.name == "nt":  # which opens no folders, and keeps names itself
            return
        number = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.path.getsize(path)

    def entries(self, folder: str) -> list[Entry]:
        entries: list[Entry] = []
        with os.scandir(folder) as there:
            for entry in there:
                with suppress(FileNotFoundError):  # it has gone in the meantime
                    status = entry.stat()
                    entries.append(
                        Entry(entry.name, entry.is_dir(), status.st_size, status.st_mtime_ns)
                    )
        return entries

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def protect(self, path: str) -> None:
        """Let nobody but this user into a folder."""
        os.chmod(path, 0o700)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that it holds; neither need be there."""
        with suppress(FileNotFoundError):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def cut(self, path: str, size: int) -> None:
        os.truncate(path, size)

    def lock(self, path: str) -> Lock | None:
        """Lock a file for this process; None when another one has it."""
        return take_lock(path)

    def now(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def new_name(self) -> str:
        """A name that nothing else has."""
        return uuid.uuid4().hex

    # Made of these

    def __init__(self) -> None:
        self._named: set[str] = set()  # folders whose names are on the disk

    def read(self, path: str) -> bytes:
        with self.open(path, "rb") as file:
            return file.read()

    def digest(self, path: str) -> str:
        """The SHA-256 of a file."""
        with self.open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]

    def sync_file(self, path: str) -> None:
        """Wait until the bytes of a file are on the disk."""
        # Windows syncs only what is open for writing.
        with self.open(path, "r+b" if os.name == "nt" else "rb") as file:
            self.sync(file)

    def sync_tree(self, path: str) -> None:
        """Wait until all files and names below a folder are on the disk."""
        for entry in self.entries(path):
            (self.sync_tree if entry.folder else self.sync_file)(os.path.join(path, entry.name))
        self.sync_folder(path)

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it, each with its name on the disk.

        One that is there may have been made by a process that was killed before its name was.
        """
        if self.is_folder(path):
            if path in self._named:
                return
        elif self.exists(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        above = os.path.dirname(path)
        if above != path:
            self.make_folders(above)
            if not self.is_folder(path):
                self.make_folder(path)
            with suppress(PermissionError):  # nobody who may not look there has made it
                self.sync_folder(above)
        self._named.add(path)

    def make_private_folder(self, path: str) -> None:
        """Make a folder that only this user may enter; one that is there stays as it is."""
        is_new = not self.exists(path)
        self.make_folders(path)
        if is_new:
            self.protect(path)

    def write_file(self, data: bytes, path: str) -> None:
        """Write a file and sync it; its name is synced by whoever renames it."""
        self.make_folders(os.path.dirname(path))
        with self.open(path, "wb") as file:
            file.write(data)
            file.flush()
            self.sync(file)

    def replace_entry(self, source: str, target: str) -> None:
        """Rename a file or folder, with both names on the disk."""
        self.rename(source, target)
        for folder in sorted({os.path.dirname(source), os.path.dirname(target)}):
            self.sync_folder(folder)

    def replace_file(self, data: bytes, path: str) -> None:
        """Replace a file at once: whoever reads it sees the old bytes or the new ones."""
        part = self._beside(path)
        try:
            self.write_file(data, part)
            self.rename(part, path)
        except BaseException:
            with suppress(OSError):
                self.remove(part)
            raise
        self.sync_folder(os.path.dirname(path))

    def _beside(self, path: str) -> str:
        """Where to write a file first; another process writes it elsewhere."""
        folder, name = os.path.split(path)
        return os.path.join(folder, f".{name}.{self.new_name()[:8]}.tmp")

    def create_file(self, data: bytes, path: str, check: Callable[[], None] = lambda: None) -> bool:
        """Write a file with its name on the disk; False, with nothing changed, if one is there.

        The check is done last, when nothing is left to wait for.
        """
        part = self._beside(path)
        try:
            self.write_file(data, part)
            check()
            self._name_once(part, path)
        except FileExistsError:
            return False
        finally:
            with suppress(OSError):
                self.remove(part)
        self.sync_folder(os.path.dirname(path))
        return True

    def _name_once(self, part: str, path: str) -> None:
        """Give a file its name; FileExistsError if another file has it."""
        try:
            self.link(part, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links: nothing better than to look first
            if self.exists(path):
                raise FileExistsError(path) from None
            self.rename(part, path)


HERE = Machine()
