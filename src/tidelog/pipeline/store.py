"""Files wherever Spark can write: through Hadoop's FileSystem, and on this machine directly."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError
from tidelog.evaluation.spark.failures import without_class


@dataclass(frozen=True)
class Entry:
    name: str
    folder: bool
    size: int


class Store:
    """A folder on any file system that Spark knows."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        assert spark._jvm is not None
        self._jvm = spark._jvm  # the way to Hadoop
        self._hadoop_path: Any = self._jvm.org.apache.hadoop.fs.Path  # to look it up takes longest
        conf = spark._jsc.hadoopConfiguration()
        try:
            path: Any = self._rooted(root)
            fs = path.getFileSystem(conf)
            self.root: str = fs.makeQualified(path).toString()
        except Py4JJavaError as error:
            raise _unreachable(without_secrets(root), error) from None
        self.name = without_secrets(self.root)  # to be stored and shown
        self.local: str | None = None
        if fs.getScheme() == "file":
            self.local = str(path.toUri().getPath()) if root.startswith("file:") else root
            fs = fs.getRaw()  # without a checksum file beside each file
        self._fs = fs
        self.copies = self._renames_by_copying(path)

    def _renames_by_copying(self, path: Any) -> bool:
        """Whether a rename is a copy, of a folder file by file, as on S3 and GCS."""
        etags = "fs.capability.etags.available", "fs.capability.etags.preserved.in.rename"
        has, keeps = (bool(self._fs.hasPathCapability(path, name)) for name in etags)
        return (has and not keeps) or self.root.startswith("gs:")

    def _rooted(self, root: str) -> Any:
        """An address such as hdfs://name/folder, or a path, in which a colon is just a colon."""
        path = self._hadoop_path
        return path(root) if re.match(r"[A-Za-z][\w+.-]*:/", root) else path(None, None, root)

    def path(self, *parts: str) -> str:
        return "/".join([self.root, *parts])

    def shown(self, *parts: str) -> str:
        """A path for people, without what is secret in it."""
        return "/".join([self.name, *parts])

    def here(self, *parts: str) -> str | None:
        """Where a file is on this machine; None when it is elsewhere."""
        return None if self.local is None else os.path.join(self.local, *parts)

    def _path(self, *parts: str) -> Any:
        return self._hadoop_path(self.path(*parts))

    def exists(self, *parts: str) -> bool:
        if self.local is not None:
            return os.path.exists(os.path.join(self.local, *parts))
        try:
            return bool(self._fs.exists(self._path(*parts)))
        except Py4JJavaError as error:
            raise _unreachable(self.name, error) from None

    def entries(self, *parts: str) -> list[Entry]:
        """What a folder holds, by name; nothing when it is not there."""
        if not self.exists(*parts):
            return []
        if self.local is not None:  # as for `read`
            entries = _entries_here(os.path.join(self.local, *parts))
        else:
            entries = [
                Entry(status.getPath().getName(), bool(status.isDirectory()), int(status.getLen()))
                for status in self._fs.listStatus(self._path(*parts))
            ]
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, *parts: str) -> bytes:
        if self.local is not None:  # many times faster than through the JVM
            with open(os.path.join(self.local, *parts), "rb") as file:
                return file.read()
        stream = self._fs.open(self._path(*parts))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def sha256(self, *parts: str) -> str:
        stream = self._fs.open(self._path(*parts))
        try:
            digest: str = self._jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream)
            return digest
        finally:
            stream.close()

    def make(self, *parts: str) -> None:
        try:
            if self._fs.mkdirs(self._path(*parts)):
                return
            reason = "no folder can be made there"
        except Py4JJavaError as error:
            reason = said(error)
        raise DataError(f"{self.shown(*parts)} cannot be written: {reason}; name another place")

    def write(self, data: bytes, *parts: str) -> None:
        """A whole file or none: written beside its place, then renamed to it.

        Where a rename is a copy, a file is there once it is closed.
        """
        *folders, name = parts
        temporary = parts if self.copies else (*folders, f".{name}.tmp")
        try:
            if self.local is not None:  # as for `read`
                _write_here(data, os.path.join(self.local, *temporary))
            else:
                self._write_there(data, temporary)
        except Py4JJavaError as error:
            raise DataError(f"{self.shown(*parts)} cannot be written: {said(error)}") from None
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"{self.shown(*parts)} cannot be written: {reason}") from None
        if temporary != parts:
            self.rename(temporary, parts)

    def _write_there(self, data: bytes, parts: tuple[str, ...]) -> None:
        stream = self._fs.create(self._path(*parts), True)
        try:
            stream.write(data)
            if not self.copies:
                stream.hsync()
        except Py4JJavaError:
            if not self.copies:  # where half a file would be there
                stream.close()
            raise
        stream.close()

    def rename(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        refused = f"{self.shown(*source)} cannot be renamed to {self.shown(*target)}"
        if self.local is None:
            if not self._fs.rename(self._path(*source), self._path(*target)):
                raise DataError(refused)
            return
        try:
            os.replace(os.path.join(self.local, *source), os.path.join(self.local, *target))
        except OSError as error:
            raise DataError(f"{refused}: {error.strerror or error}") from None

    def hold(self, *parts: str) -> Any:
        """Have Spark's process lock a file on this machine; what is to be closed in the end.

        None when the process of another start has it still.
        """
        file = self._jvm.java.io.RandomAccessFile(self.here(*parts), "rw")
        if file.getChannel().tryLock() is not None:
            return file
        file.close()
        return None

    def delete(self, *parts: str) -> None:
        self._fs.delete(self._path(*parts), True)


def _write_here(data: bytes, path: str) -> None:
    """Write a file, and have it on the disk."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _entries_here(folder: str) -> list[Entry]:
    entries: list[Entry] = []
    with os.scandir(folder) as there:
        for entry in there:
            with suppress(FileNotFoundError):  # it has gone in the meantime
                entries.append(Entry(entry.name, entry.is_dir(), entry.stat().st_size))
    return entries


def _unreachable(place: str, error: Py4JJavaError) -> DataError:
    return DataError(
        f"{place}: Spark cannot reach this place: {said(error)}; see that its address is right,"
        " that the connector for it is among Spark's jars, and that its settings (spark.hadoop.*)"
        " name the store and who may use it"
    )


def said(error: Py4JJavaError) -> str:
    """What a Java exception says, on one line and without secrets."""
    thrown = error.java_exception
    text = str(thrown.getMessage() or thrown.getClass().getSimpleName())
    return without_secrets(without_class(text.strip().splitlines()[0]))
