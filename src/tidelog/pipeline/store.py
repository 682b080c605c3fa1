"""Files wherever Spark can write: through Hadoop's FileSystem, or on this machine directly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidelog.causes import cause_of
from tidelog.data.durable import HERE, Entry
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError
from tidelog.evaluation.spark.failures import SPARK_ERRORS, without_class
from tidelog.pipeline.local_store import LocalStore
from tidelog.pipeline.stored import Stored
from tidelog.streaming.sinks.sink import FileStore

# Stores on which a rename happens at once or not at all; on any other it may be a copy.
RENAMING = {"file", "hdfs", "abfs", "abfss"}


def open_store(spark: SparkSession, root: str) -> FileStore:
    """A folder on any file system that Spark knows."""
    assert spark._jvm is not None
    jvm: Any = spark._jvm  # the way to Hadoop
    try:
        path = _rooted(jvm, root)
        fs: Any = path.getFileSystem(spark._jsc.hadoopConfiguration())
        address: str = fs.makeQualified(path).toString()
        if fs.getScheme() != "file":
            return HadoopStore(jvm, fs, path)
    except Py4JJavaError as error:
        raise _unreachable(without_secrets(root), error) from None
    local = str(path.toUri().getPath()) if root.startswith("file:") else root
    return LocalStore(local, address, partial(JavaLock.of, jvm))


def _rooted(jvm: Any, root: str) -> Any:
    """An address such as hdfs://name/folder, or a path, in which a colon is just a colon."""
    path = jvm.org.apache.hadoop.fs.Path
    return path(root) if re.match(r"[A-Za-z][\w+.-]*:/", root) else path(None, None, root)


@dataclass(frozen=True)
class JavaLock:
    """A file that Spark's process has locked."""

    file: Any

    @staticmethod
    def of(jvm: Any, path: str) -> JavaLock | None:
        """None when the process of another start has it still."""
        file = jvm.java.io.RandomAccessFile(path, "rw")
        if file.getChannel().tryLock() is not None:
            return JavaLock(file)
        file.close()
        return None

    def release(self) -> None:
        with suppress(*SPARK_ERRORS):  # its process may be gone
            self.file.close()


class HadoopStore(Stored):
    """A folder that is reached through Hadoop."""

    def __init__(self, jvm: Any, fs: Any, path: Any) -> None:
        super().__init__(fs.makeQualified(path).toString(), HERE)
        self._jvm, self._fs = jvm, fs
        self._hadoop_path: Any = jvm.org.apache.hadoop.fs.Path  # to look it up takes longest
        self.kind = _kind_of(fs, path)  # of the store, as addresses begin
        self.copies = self.kind not in RENAMING or self._is_flat(path)

    def _is_flat(self, path: Any) -> bool:
        """Whether folders are but parts of names, as on Azure without its hierarchical names."""
        etags = "fs.capability.etags.available", "fs.capability.etags.preserved.in.rename"
        has, keeps = (bool(self._fs.hasPathCapability(path, name)) for name in etags)
        return has and not keeps

    def here(self, *parts: str) -> None:
        return None

    def is_file(self) -> bool:
        return False

    def _path(self, *parts: str) -> Any:
        return self._hadoop_path(self.path(*parts))

    def exists(self, *parts: str) -> bool:
        try:
            return bool(self._fs.exists(self._path(*parts)))
        except Py4JJavaError as error:
            raise _unreachable(self.name, error) from None

    def entries(self, *parts: str) -> list[Entry]:
        if not self.exists(*parts):
            return []
        entries = [
            Entry(status.getPath().getName(), bool(status.isDirectory()), int(status.getLen()))
            for status in self._fs.listStatus(self._path(*parts))
        ]
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, *parts: str) -> bytes:
        stream = self._fs.open(self._path(*parts))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def digest(self, *parts: str) -> str:
        known = self._fs.getFileChecksum(self._path(*parts))
        if known is not None:
            return f"{known.getAlgorithmName()}:{bytes(known.getBytes()).hex()}"
        if self.copies:  # which has no state, and checks what it holds itself
            return ""
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
            reason, code = "no folder can be made there", None
        except Py4JJavaError as error:
            reason, code = said(error), cause_of(str(error))
        raise self._cannot_make(reason, code, *parts)

    def write(self, data: bytes, *parts: str) -> None:
        """A whole file or none: written beside its place, then renamed to it.

        Where a rename is a copy, a file is there once it is closed.
        """
        *folders, name = parts
        temporary = parts if self.copies else (*folders, f".{name}.tmp")
        with self._writing(*parts):
            self._write_there(data, temporary)
        if temporary != parts:
            self._replace(data, temporary, parts)

    def _replace(self, data: bytes, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """Rename a file to its name; one that is there is written over if it has other bytes.

        `FileSystem.rename` replaces nothing. Half a file may be there after a crash: only notes of
        a start are written again, and the next start writes those anew.
        """
        if self._fs.rename(self._path(*source), self._path(*target)):
            return
        if not self.exists(*target):
            raise DataError(f"{self.shown(*source)} cannot be renamed to {self.shown(*target)}")
        if self.read(*target) != data:
            with self._writing(*target):
                self._write_there(data, target)
        self.delete(*source)

    def create(self, data: bytes, *parts: str, check: Callable[[], None] = lambda: None) -> bool:
        *folders, name = parts
        with self._writing(*parts):
            temporary = (*folders, f".{name}.{self.machine.new_name()[:8]}.tmp")
            self._write_there(data, temporary)
            check()
            if self._fs.rename(self._path(*temporary), self._path(*parts)):
                return True
            self.delete(*temporary)
        if self.exists(*parts):
            return False
        raise DataError(f"{self.shown(*parts)} cannot be written: it cannot be renamed to")

    @contextmanager
    def _writing(self, *parts: str) -> Iterator[None]:
        """While something is written: errors say what and why."""
        try:
            yield
        except Py4JJavaError as error:
            text = f"{self.shown(*parts)} cannot be written: {said(error)}"
            raise DataError(text, code=cause_of(str(error))) from None

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
        if not self._fs.rename(self._path(*source), self._path(*target)):
            raise DataError(f"{self.shown(*source)} cannot be renamed to {self.shown(*target)}")

    def sync(self, *parts: str) -> None:
        return  # what is closed is safe there

    def hold(self, *parts: str) -> None:
        return None

    def delete(self, *parts: str) -> None:
        self._fs.delete(self._path(*parts), True)


def _kind_of(fs: Any, path: Any) -> str:
    """How addresses of a store begin; of a mount table, those of what is mounted there."""
    kind = str(fs.getUri().getScheme())
    while kind == "viewfs" and path is not None:
        try:
            return str(fs.resolvePath(path).toUri().getScheme())
        except Py4JJavaError:  # only what is there can be resolved
            path = path.getParent()
    return kind


def _unreachable(place: str, error: Py4JJavaError) -> DataError:
    return DataError(
        f"{place}: Spark cannot reach this place: {said(error)}; see that its address is right,"
        " that the connector for it is among Spark's jars, and that its settings (spark.hadoop.*)"
        " name the store and who may use it",
        code=cause_of(str(error)),
    )


def said(error: Py4JJavaError) -> str:
    """What a Java exception says, on one line and without secrets."""
    thrown = error.java_exception
    text = str(thrown.getMessage() or thrown.getClass().getSimpleName())
    return without_secrets(without_class(text.strip().splitlines()[0]))
