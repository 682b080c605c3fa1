"""A process on a simulated machine: its calls can fail, or be its last."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterable
from random import Random
from types import TracebackType
from typing import IO, Any, cast

from sim.disk import Disk, File, Folder
from tidelog.data.durable import Entry, Machine


class Killed(BaseException):
    """The process is no more."""


class Box:
    """The machine that processes share: its disk, its clock, its locks, and its accidents."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = Disk()
        self.time = 0.0
        self.locks: dict[str, Process] = {}
        self.calls = self.outages = 0
        self.processes: list[Process] = []
        self.accident_at = -1  # the number of a call
        self.accident: Callable[[Process, str], None] = lambda process, call: None
        self.linked: Callable[[str], None] = lambda path: None
        self.renaming: Callable[[str, str], None] = lambda source, target: None
        self.trace: list[str] | None = None

    def process(self) -> Process:
        self.processes.append(Process(self))
        return self.processes[-1]

    def lose_power(self) -> None:
        """Every process ends, and what was not synced may be lost."""
        for process in self.processes:
            process.dead = True
        self.locks.clear()
        self.outages += 1
        self.disk.crash(self.random)


class Lock:
    """A lock that a process holds, unless it has lost it."""

    def __init__(self, box: Box, path: str, owner: Process) -> None:
        self.box, self.path, self.owner = box, path, owner

    def release(self) -> None:
        if not self.owner.dead and self.box.locks.get(self.path) is self.owner:
            del self.box.locks[self.path]


class Process(Machine):
    """The calls of one process."""

    def __init__(self, box: Box) -> None:
        super().__init__()
        self.box, self.disk, self.dead = box, box.disk, False

    def call(self, name: str, path: str) -> None:
        """Something is about to change: accidents happen here."""
        box = self.box
        if self.dead:
            raise Killed
        box.calls += 1
        if box.trace is not None:
            box.trace.append(f"{box.calls} {name} {path}")
        if box.calls == box.accident_at:
            box.accident(self, f"{name} {path}")
            if self.dead:
                raise Killed

    def die(self) -> None:
        self.dead = True
        for path in [path for path, owner in self.box.locks.items() if owner is self]:
            del self.box.locks[path]

    # Calls that look

    def exists(self, path: str) -> bool:
        return self.disk.node(path) is not None

    def is_folder(self, path: str) -> bool:
        return isinstance(self.disk.node(path), Folder)

    def size(self, path: str) -> int:
        return len(self.disk.file(path).data)

    def entries(self, folder: str) -> list[Entry]:
        if self.dead:
            raise Killed
        return [
            Entry(name, True, 0, 0)
            if isinstance(node, Folder)
            else Entry(name, False, len(node.data), node.changed)
            for name, node in self.disk.folder(folder).names.items()
        ]

    def read(self, path: str) -> bytes:
        if self.dead:
            raise Killed
        return bytes(self.disk.file(path).data)

    # Calls that change something

    def open(self, path: str, mode: str) -> IO[bytes]:
        if mode == "rb":
            return cast("IO[bytes]", Reading(self.disk.file(path)))
        self.call("open", path)
        at = self.disk.node(path)
        if at is None:
            if mode.startswith("r"):
                self.disk.file(path)
            at = self.disk.create(path)
        file = self.disk.file(path)
        if mode == "wb":
            file.cut(0)
        self.disk.touch(file)
        return cast("IO[bytes]", Handle(self, file, path, at_end=mode == "ab"))

    def sync(self, file: IO[bytes]) -> None:
        handle = cast("Any", file)
        self.call("sync", handle.path)
        handle.file.sync()

    def sync_file(self, path: str) -> None:
        file = self.disk.file(path)
        self.call("sync", path)
        file.sync()

    def length(self, file: IO[bytes]) -> int | None:
        return len(cast("Any", file).file.data)

    def sync_folder(self, path: str) -> None:
        self.call("sync folder", path)
        self.disk.sync_folder(path)

    def make_folder(self, path: str) -> None:
        self.call("make", path)
        folder, name = self.disk.above(path)
        if name not in folder.names:
            self.disk.change((folder, name, Folder()))

    def protect(self, path: str) -> None:
        return  # nobody else is here

    def rename(self, source: str, target: str) -> None:
        self.call("rename", target)
        self.box.renaming(source, target)
        self.disk.rename(source, target)

    def link(self, source: str, target: str) -> None:
        self.call("link", target)
        if self.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        folder, name = self.disk.above(target)
        self.disk.change((folder, name, self.disk.file(source)))
        self.box.linked(target)

    def unlink(self, path: str) -> None:
        self.call("unlink", path)
        self.disk.file(path)
        self.disk.remove(path)

    def remove_folder(self, path: str) -> None:
        self.call("remove folder", path)
        if self.disk.folder(path).names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self.disk.remove(path)

    def remove(self, path: str) -> None:
        if self.dead:
            raise Killed
        if self.disk.node(path) is not None:
            self.call("remove", path)
            if self.disk.node(path) is not None:  # a paused process may find it gone
                self.disk.remove(path)

    def cut(self, path: str, size: int) -> None:
        self.call("cut", path)
        self.disk.file(path).cut(size)

    def lock(self, path: str) -> Lock | None:
        if path in self.box.locks:
            return None
        self.call("lock", path)
        if self.disk.node(path) is None:
            self.disk.create(path)
        self.box.locks[path] = self
        return Lock(self.box, path, self)

    def now(self) -> float:
        return self.box.time

    def sleep(self, seconds: float) -> None:
        self.box.time += seconds

    def new_name(self) -> str:
        return f"{self.box.random.getrandbits(128):032x}"


class Reading(io.BytesIO):
    """A file that is read."""

    def __init__(self, file: File) -> None:
        super().__init__(bytes(file.data))
        self.file, self.path = file, "a file that is read"


class Handle:
    """A file that is written; bytes reach the machine when they are flushed."""

    def __init__(self, process: Process, file: File, path: str, *, at_end: bool) -> None:
        self.process, self.file, self.path, self.at_end = process, file, path, at_end
        self.at, self.waiting, self.closed = 0, bytearray(), False

    def write(self, data: bytes) -> int:
        self.waiting += data
        return len(data)

    def writelines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if not self.waiting:
            return
        waiting, self.waiting, box = self.waiting, bytearray(), self.process.box
        outages = box.outages
        try:
            self.process.call("write", self.path)
        except (OSError, Killed):
            if box.outages == outages:  # some of it was written
                self._put(bytes(waiting[: box.random.randint(0, len(waiting))]))
            raise
        self._put(bytes(waiting))

    def _put(self, data: bytes) -> None:
        file = self.file
        at = len(file.data) if self.at_end else self.at
        file.stable = min(file.stable, at)
        file.data[at : at + len(data)] = data
        self.at = at + len(data)
        self.process.disk.touch(file)

    def seek(self, at: int) -> int:
        self.flush()
        self.at = at
        return at

    def tell(self) -> int:
        return self.at + len(self.waiting)

    def truncate(self, size: int) -> int:
        self.flush()
        self.process.call("cut", self.path)
        self.file.cut(size)
        return size

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.flush()

    def __enter__(self) -> Handle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.dead:
            self.waiting = bytearray()
        self.close()
