"""What outlives a loss of power, by the calls that wait for the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch


class Disk:
    """A disk that remembers which bytes and which names were waited for, below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[int, tuple[int, int]] = {}  # by inode: bytes and time of the last change
        self.names: dict[int, dict[str, int]] = {}  # by inode of a folder: name, inode
        self.syncs = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While calls of fsync in this process are noted."""
        sync = os.fsync

        def synced(number: int) -> None:
            sync(number)
            self.syncs += 1
            status, path = os.fstat(number), os.readlink(f"/proc/self/fd/{number}")
            if os.path.isdir(path):
                self.names[status.st_ino] = {e.name: e.inode() for e in os.scandir(path)}
            else:
                self.files[status.st_ino] = status.st_size, status.st_mtime_ns

        with patch.object(os, "fsync", synced):
            yield

    def expect(self, path: Path) -> None:
        """A file has its bytes and its name on the disk, and every folder above it its name."""
        status = path.stat()
        assert self.files.get(status.st_ino) == (status.st_size, status.st_mtime_ns), path
        while path != self.root:
            known = self.names.get(path.parent.stat().st_ino, {})
            assert known.get(path.name) == path.stat().st_ino, f"the name of {path}"
            path = path.parent
