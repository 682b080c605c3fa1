"""The parts of a store that do not depend on where it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from tidelog.causes import Cause
from tidelog.data.durable import Entry, Machine
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError, Refused
from tidelog.streaming.sinks.sink import StoredFile


class Stored(ABC):
    """A folder whose files are named by their parts, and compared by their digests."""

    local: str | None = None

    def __init__(self, root: str, machine: Machine) -> None:
        self.root, self.machine = root, machine
        self.name = without_secrets(root)  # to be stored and shown

    def path(self, *parts: str) -> str:
        return "/".join([self.root, *parts])

    def shown(self, *parts: str) -> str:
        """A path for people, without what is secret in it."""
        return "/".join([self.name, *parts])

    @abstractmethod
    def entries(self, *parts: str) -> Sequence[Entry]:
        """What a folder holds, by name; nothing when it is not there."""

    @abstractmethod
    def digest(self, *parts: str) -> str:
        """What tells a file from another one of its size; empty if all of it had to be fetched."""

    def files(self, *parts: str) -> tuple[StoredFile, ...]:
        """The files of a folder, with their digests; hidden ones are left out."""
        return tuple(
            StoredFile(entry.name, entry.size, self.digest(*parts, entry.name))
            for entry in self.entries(*parts)
            if not entry.folder and not entry.name.startswith((".", "_"))
        )

    def expect(self, files: Iterable[StoredFile], *parts: str) -> None:
        """Refused if a folder lacks one of these files, or has another in its place."""
        sizes = {entry.name: entry.size for entry in self.entries(*parts)}
        for name, size, digest in files:
            whole = sizes.get(name) == size and self.digest(*parts, name) == digest
            if not whole:
                what = "damaged" if name in sizes else "missing"
                raise Refused(
                    f"{self.shown(*parts, name)} is {what}, and the last commit needs it:"
                    " restore it from a copy, or start with a new checkpoint",
                    code=Cause.DAMAGED,
                )

    def _cannot_make(self, reason: str, code: Cause | None, *parts: str) -> DataError:
        shown = self.shown(*parts)
        return DataError(f"{shown} cannot be written: {reason}; name another place", code=code)
