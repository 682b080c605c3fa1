"""Files on this machine's disk, as a store of checkpoints and answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.causes import cause_of
from tidelog.data.durable import HERE, Entry, Lock, Machine
from tidelog.errors import DataError
from tidelog.pipeline.stored import Stored


class LocalStore(Stored):
    """A folder on a disk of this machine."""

    kind, copies = "file", False

    def __init__(
        self,
        path: str,
        address: str | None = None,
        holding: Callable[[str], Lock | None] | None = None,
        machine: Machine = HERE,
    ) -> None:
        """`address` is the folder as Spark has it; `holding` locks a file for Spark's process."""
        super().__init__(path if address is None else address, machine)
        self.local, self._folder = path, path
        self._holding = machine.lock if holding is None else holding

    def here(self, *parts: str) -> str:
        return "/".join([self._folder, *parts])

    def is_file(self) -> bool:
        return self.exists() and not self.machine.is_folder(self._folder)

    def exists(self, *parts: str) -> bool:
        return self.machine.exists(self.here(*parts))

    def entries(self, *parts: str) -> list[Entry]:
        if not self.exists(*parts):
            return []
        return sorted(self.machine.entries(self.here(*parts)), key=lambda entry: entry.name)

    def read(self, *parts: str) -> bytes:
        return self.machine.read(self.here(*parts))

    def digest(self, *parts: str) -> str:
        return self.machine.digest(self.here(*parts))

    def make(self, *parts: str) -> None:
        try:
            self.machine.make_folders(self.here(*parts))
        except OSError as error:
            code = cause_of(error)
            raise self._cannot_make(error.strerror or str(error), code, *parts) from None

    def write(self, data: bytes, *parts: str) -> None:
        with self._doing("written", *parts):
            self.machine.replace_file(data, self.here(*parts))

    def create(self, data: bytes, *parts: str, check: Callable[[], None] = lambda: None) -> bool:
        with self._doing("written", *parts):
            return self.machine.create_file(data, self.here(*parts), check)

    def rename(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        with self._doing(f"renamed to {self.shown(*target)}", *source):
            self.machine.replace_entry(self.here(*source), self.here(*target))

    def sync(self, *parts: str) -> None:
        with self._doing("written", *parts):
            self.machine.sync_tree(self.here(*parts))
            self.machine.sync_folder(os.path.dirname(self.here(*parts)))

    def delete(self, *parts: str) -> None:
        with self._doing("deleted", *parts):
            self.machine.remove(self.here(*parts))

    def hold(self, *parts: str) -> Lock | None:
        return self._holding(self.here(*parts))

    @contextmanager
    def _doing(self, done: str, *parts: str) -> Iterator[None]:
        """While something is done to a file: errors say what and why."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            said = f"{self.shown(*parts)} cannot be {done}: {reason}"
            raise DataError(said, code=cause_of(error)) from None
