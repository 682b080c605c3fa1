"""A disk in memory that remembers which bytes and which names were waited for."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import TypeAlias


class File:
    """The bytes of a file, and those that are on the disk."""

    __slots__ = ("changed", "data", "durable", "stable")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable: bytes | None = None  # None before the first sync
        self.stable = 0  # so many of the first bytes are as they were at the last sync
        self.changed = 0

    def cut(self, size: int) -> None:
        del self.data[size:]
        self.stable = min(self.stable, size)

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.stable = len(self.durable)

    @property
    def is_synced(self) -> bool:
        return self.durable is not None and self.data == self.durable

    def crash(self, random: Random) -> None:
        """Keep what was waited for, and any part of the rest."""
        if not self.is_synced:
            old, new = self.durable or b"", bytes(self.data)
            first = self.stable
            match random.randrange(5):
                case 0:
                    kept = old
                case 1:
                    kept = new
                case 2:
                    kept = new[: random.randint(first, max(first, len(new)))]
                case 3:  # the length is there, and the bytes are not
                    some = random.randint(first, max(first, len(new)))
                    kept = new[:some] + bytes(len(new) - some)
                case _:
                    kept = new[:first]
            self.data = bytearray(kept)
        self.sync()


class Folder:
    """The names in a folder, and those that are on the disk."""

    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node: TypeAlias = File | Folder
# A change of one or two names, which happens whole or not at all.
Change: TypeAlias = list[tuple[Folder, str, Node | None]]


@lru_cache(maxsize=10_000)
def parts_of(path: str) -> tuple[str, ...]:
    return tuple(filter(None, path.split("/")))


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


class Disk:
    """Files and folders by path; changes of names wait until their folder is synced."""

    def __init__(self) -> None:
        self.root = Folder()
        self.changes: list[Change] = []
        self.time = 0

    # Looking

    def node(self, path: str, *, durable: bool = False) -> Node | None:
        at: Node | None = self.root
        for name in parts_of(path):
            if type(at) is not Folder:
                return None
            at = (at.durable if durable else at.names).get(name)
        return at

    def folder(self, path: str) -> Folder:
        at = self.node(path)
        if at is None:
            raise _missing(path)
        if not isinstance(at, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return at

    def file(self, path: str) -> File:
        at = self.node(path)
        if at is None:
            raise _missing(path)
        if not isinstance(at, File):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return at

    def above(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        return self.folder(folder), name

    def durable(self, path: str) -> bytes | None:
        """The bytes of a file that are there for certain; None if it may be missing."""
        at = self.node(path, durable=True)
        return at.durable if isinstance(at, File) else None

    def tree(self, path: str = "") -> dict[str, bytes]:
        """All files below a path."""
        at = self.node(path)
        return {} if at is None else dict(self._below(path, at))

    def _below(self, path: str, at: Node) -> Iterator[tuple[str, bytes]]:
        if isinstance(at, File):
            yield path, bytes(at.data)
            return
        for name, node in at.names.items():
            yield from self._below(f"{path}/{name}", node)

    # Changing

    def change(self, *slots: tuple[Folder, str, Node | None]) -> None:
        for folder, name, node in slots:
            if node is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = node
        self.changes.append(list(slots))

    def create(self, path: str) -> File:
        folder, name = self.above(path)
        file = File()
        self.change((folder, name, file))
        return file

    def touch(self, file: File) -> None:
        self.time += 1
        file.changed = self.time

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder."""
        folder, name = self.above(path)
        self._empty(folder.names.get(name))
        self.change((folder, name, None))

    def _empty(self, at: Node | None) -> None:
        if isinstance(at, Folder):
            for name, node in list(at.names.items()):
                self._empty(node)
                self.change((at, name, None))

    def rename(self, source: str, target: str) -> None:
        (old, name), (new, other) = self.above(source), self.above(target)
        node, there = old.names.get(name), new.names.get(other)
        if node is None:
            raise _missing(source)
        if isinstance(there, Folder) and (there.names or isinstance(node, File)):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        if isinstance(there, File) and isinstance(node, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), target)
        self.change((old, name, None), (new, other, node))

    def sync_folder(self, path: str) -> None:
        folder = self.folder(path)
        names: set[tuple[int, str]] = set()
        kept: list[Change] = []
        if not self.changes:
            return
        for change in reversed(self.changes):  # with what was changed before under these names
            slots = {(id(at), name) for at, name, _ in change}
            if any(at is folder for at, _, _ in change) or not names.isdisjoint(slots):
                names |= slots
                kept.append(change)
        for change in reversed(kept):
            self._keep(change)
            self.changes.remove(change)

    @staticmethod
    def _keep(change: Change) -> None:
        for folder, name, node in change:
            if node is None:
                folder.durable.pop(name, None)
            else:
                folder.durable[name] = node

    # A loss of power

    def crash(self, random: Random) -> None:
        """Lose any changes of names that were not waited for, and any such bytes."""
        kept = random.choice((0.0, 0.5, 1.0))
        for change in self.changes:
            if random.random() < kept:
                self._keep(change)
        self.changes = []
        self._crash(self.root, random, set())

    def _crash(self, at: Folder, random: Random, seen: set[int]) -> None:
        at.names = dict(at.durable)
        for node in at.names.values():
            if isinstance(node, Folder):
                self._crash(node, random, seen)
            elif id(node) not in seen:
                seen.add(id(node))
                node.crash(random)

    def settle(self) -> None:
        """Wait until everything is on the disk, as some time after the last change."""
        for change in self.changes:
            self._keep(change)
        self.changes = []
        self._settle(self.root)

    def _settle(self, at: Folder) -> None:
        for node in at.names.values():
            if isinstance(node, Folder):
                self._settle(node)
            elif not node.is_synced:
                node.sync()

    # Copies

    def copy(self, path: str) -> Node | None:
        """A copy of what is below a path."""
        at = self.node(path)
        return None if at is None else _copied(at)

    def put(self, path: str, node: Node | None) -> None:
        """Put a copy in the place of what is there, and wait until it is on the disk."""
        folder, name = self.above(path)
        if node is None:
            folder.names.pop(name, None)
            folder.durable.pop(name, None)
        else:
            folder.names[name] = folder.durable[name] = _copied(node)


def _copied(at: Node) -> Node:
    if isinstance(at, File):
        file = File()
        file.data, file.changed = bytearray(at.data), at.changed
        file.sync()
        return file
    folder = Folder()
    folder.names = {name: _copied(node) for name, node in at.names.items()}
    folder.durable = dict(folder.names)
    return folder
