"""A stand-in for Spark's logs of a query: it plans batches, and does again what was not done.

It writes what Spark writes and waits for no disk, as Spark does. What real runs wrote is compared
with what it writes in test_simulation.py.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable

from sim.machine import Process

COMPACT = 10  # every so many entries of a list of files are written as one file
SETTINGS = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}


class SparkError(Exception):
    """An error of Spark's own, which would be shown raw."""


class SparkQuery:
    """A query over files or over a topic."""

    def __init__(
        self,
        process: Process,
        folder: str,
        *,
        files: bool,
        checksums: bool,
        compact: int = COMPACT,
        first: int = 0,  # the message that it begins with
    ) -> None:
        self.process, self.folder, self.files = process, folder, files
        self.checksums, self.compact, self.first = checksums, compact, first
        if not process.exists(folder):
            process.make_folder(folder)
        for name in ("offsets", "commits", *(("sources", "sources/0") if files else ())):
            if not process.exists(f"{folder}/{name}"):
                process.make_folder(f"{folder}/{name}")
        if not process.exists(f"{folder}/metadata"):
            self._write("metadata", json.dumps({"id": process.new_name()}))
        self._read("metadata", lambda text: json.loads(text)["id"])
        self.planned = max(self._numbers("offsets"), default=-1)
        done = max(self._numbers("commits"), default=-1)
        if done > self.planned:
            raise SparkError(f"assertion failed: batch {done} is done and was never planned")
        self.end = self._offset(self.planned)
        self.done = self.planned if done == self.planned else self.planned - 1
        self.begin = self.end if done == self.planned else self._offset(self.planned - 1)
        self.entries: list[list[int]] = self._entries() if files else []

    # Its logs

    def _numbers(self, log: str) -> list[int]:
        names = [entry.name for entry in self.process.entries(f"{self.folder}/{log}")]
        return [int(name) for name in names if name.isdecimal()]

    def _write(self, name: str, text: str) -> None:
        """Write a file beside its place and rename it; no other may be there."""
        path, process = f"{self.folder}/{name}", self.process
        if process.exists(path):
            raise SparkError(f"Concurrent update to the log: {path} is there already")
        folder, _, last = path.rpartition("/")
        part = process.new_name()[:8]
        files = [(f"{folder}/.{last}.{part}.tmp", path, text.encode())]
        if self.checksums:
            sums = zlib.crc32(text.encode()) if len(text) <= 512 else None
            if sums is not None:
                crc = b"crc\0" + struct.pack(">iI", 512, sums)
                files.append((f"{folder}/..{last}.{part}.tmp.crc", f"{folder}/.{last}.crc", crc))
        for part, _, data in files:
            with process.open(part, "wb") as file:
                file.write(data)
        for part, target, _ in files:
            if process.exists(path) and target == path:  # it is of another process
                raise SparkError(f"Concurrent update to the log: {path} is there already")
            process.rename(part, target)

    def _read(self, name: str, parse: Callable[[str], object]) -> object:
        folder, _, last = f"{self.folder}/{name}".rpartition("/")
        try:
            data = self.process.read(f"{folder}/{last}")
            if self.process.exists(f"{folder}/.{last}.crc"):
                _check(data, self.process.read(f"{folder}/.{last}.crc"))
            return parse(data.decode())
        except (ValueError, KeyError, IndexError, OSError) as error:
            raise SparkError(f"Incomplete log file {self.folder}/{name}: {error!r}") from None

    def _offset(self, number: int) -> int:
        """How far a batch reads; before the first one, up to what it begins with."""
        if number < 0:
            return self.first - 1

        def parse(text: str) -> int:
            version, _, offset = text.splitlines()
            if version != "v1":
                raise ValueError(version)
            value = json.loads(offset)
            return int(value["logOffset"] if self.files else value["topic"]["0"] - 1)

        at = self._read(f"offsets/{number}", parse)
        assert isinstance(at, int)
        return at

    def _entries(self) -> list[list[int]]:
        """The files of each entry of the list, from the last compact one on."""
        names = {entry.name for entry in self.process.entries(f"{self.folder}/sources/0")}
        numbers = sorted(int(n.removesuffix(".compact")) for n in names if n[0] != ".")
        entries: list[list[int]] = [[] for _ in range(max(numbers, default=-1) + 1)]
        compact = [n for n in numbers if f"{n}.compact" in names][-1:]
        for number in compact + [n for n in numbers if n > max(compact, default=-1)]:
            name = f"{number}.compact" if f"{number}.compact" in names else f"{number}"

            def parse(text: str) -> list[dict[str, object]]:
                version, *lines = text.splitlines()
                if version != "v1" or not lines:
                    raise ValueError(version)
                return list(map(json.loads, lines))

            files = self._read(f"sources/0/{name}", parse)
            assert isinstance(files, list)
            for file in files:
                entries[file["batchId"]].append(int(file["path"].rpartition("/")[2]))
        return entries

    def _list(self, files: list[int]) -> None:
        """Write down an entry of the list of files."""
        number = len(self.entries)
        self.entries.append(files)
        is_compact = (number + 1) % self.compact == 0
        written = range(number + 1) if is_compact else [number]
        lines = [
            json.dumps({"path": f"file:///in/{file}", "timestamp": 0, "batchId": entry})
            for entry in written
            for file in self.entries[entry]
        ]
        name = f"{number}.compact" if is_compact else f"{number}"
        self._write(f"sources/0/{name}", "\n".join(["v1", *lines]))

    # Its batches

    def plan(self, there: int, most: int) -> bool:
        """Plan the next batch of what is there, at most so much of it; whether there is one.

        One that was planned and not done is next.
        """
        if self.done < self.planned:
            return True
        if self.files:
            known = {file for files in self.entries for file in files}
            new = [file for file in range(there) if file not in known][:most]
            if new:
                self._list(new)
            end = len(self.entries) - 1
        else:
            end = min(there - 1, self.end + most)
        if end <= self.end:
            return False
        self.begin, self.end = self.end, end
        offset = {"logOffset": end} if self.files else {"topic": {"0": end + 1}}
        settings = {**SETTINGS, "batchTimestampMs": self.process.box.calls}  # never the same
        log = "\n".join(["v1", json.dumps(settings), json.dumps(offset)])
        self._write(f"offsets/{self.planned + 1}", log)
        self.planned += 1
        return True

    @property
    def batch(self) -> list[int]:
        """What the batch at work has: files, or messages, by their numbers."""
        span = range(self.begin + 1, self.end + 1)
        if not self.files:
            return list(span)
        return [file for at in span if at < len(self.entries) for file in self.entries[at]]

    def note_done(self) -> None:
        """Write down that the batch at work is done."""
        if not self.process.exists(f"{self.folder}/commits/{self.planned}"):
            self._write(f"commits/{self.planned}", 'v1\n{"nextBatchWatermarkMs":0}')
        self.done = self.planned


def _check(data: bytes, checksums: bytes) -> None:
    """ValueError if Hadoop would not read the bytes; a file that holds no checksums it ignores."""
    if checksums[:4] == b"crc\0" and len(checksums) >= 8:
        (width,) = struct.unpack(">i", checksums[4:8])
        parts = range(0, len(data), max(width, 1))
        sums = [zlib.crc32(data[at : at + width]) for at in parts]
        if width < 1 or checksums[8:] != struct.pack(f">{len(sums)}I", *sums):
            raise ValueError("checksum error")
