"""Facts on a store that Spark reaches through Hadoop, such as `s3a://`: listed there, copied here.

A copy lies below one folder of this process as its address says, so that its place tells which
input it is of; whatever is said of it names the address.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidelog.causes import cause_of
from tidelog.data.readers.files import format_of
from tidelog.data.readers.places import FactsPath, is_hidden, paths_of
from tidelog.data.schema import schemas
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError
from tidelog.evaluation.spark.shipping import is_local
from tidelog.language.program import Program

_FOLDER = "tidelog-copies-"
_COPY = re.compile(rf"/{_FOLDER}\w+/(\w[\w+.-]*)/")
_NO_PATH = re.compile(r"[\s'\"]")


@cache
def _copies() -> Path:
    """The folder of all copies, which is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix=_FOLDER)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder).resolve()


def as_addressed(text: str) -> str:
    """A text with the addresses of what was copied in the place of the copies.

    >>> as_addressed("/scratch/tidelog-copies-x_1/s3a/readings/E.csv: no header")
    's3a://readings/E.csv: no header'
    >>> as_addressed("/scratch/E.csv: no header")
    '/scratch/E.csv: no header'
    """
    parts: list[str] = []
    done = 0
    for copy in _COPY.finditer(text):
        path = _NO_PATH.split(text[done : copy.start()])[-1]
        begin = path.find("/")
        if begin < 0:
            continue
        begin = len(path[:begin].removesuffix("file:"))
        parts += [text[done : copy.start() - len(path) + begin], f"{copy[1]}://"]
        done = copy.end()
    return "".join([*parts, text[done:]])


@contextmanager
def addressed() -> Iterator[None]:
    """Errors about copies name what was copied."""
    try:
        yield
    except DataError as error:
        told = tuple(map(as_addressed, error.problems))
        if told == error.problems:
            raise
        raise DataError(*told, code=error.code) from None


def copy_of(address: str) -> Path:
    """Where the copy of a file is, or would be."""
    scheme, _, rest = address.partition("://")
    return _copies() / scheme / rest


class Remote:
    """A file or folder on a store."""

    def __init__(self, spark: SparkSession, place: FactsPath) -> None:
        assert spark._jvm is not None
        assert place.address is not None
        self.place, self.address = place, place.address.rstrip("/")
        self.name = without_secrets(self.address)
        if not is_local(spark):
            raise DataError(
                f"{self.name}: files on a store are copied to the driver's machine, which the"
                f" executors of {spark.sparkContext.master} do not see: give a DataFrame of"
                " spark.readStream for each input, or facts on a shared mount"
            )
        self._jvm: Any = spark._jvm
        self._hadoop: Any = self._jvm.org.apache.hadoop.fs.Path
        with self._told():
            conf = spark._jsc.hadoopConfiguration()
            self._fs = self._hadoop(self.address).getFileSystem(conf)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of Hadoop's in one sentence."""
        try:
            yield
        except Py4JJavaError as error:
            thrown = error.java_exception
            said = str(thrown.getMessage() or thrown.getClass().getSimpleName())
            if "FileNotFound" in thrown.getClass().getSimpleName():
                raise DataError(f"{self.name}: no such file or folder") from None
            raise DataError(
                f"{self.name}: Spark cannot read this place:"
                f" {without_secrets(said.strip().splitlines()[0])}; see that its address is right,"
                " that the connector for it is among Spark's jars, and that its settings"
                " (spark.hadoop.*) name the store and who may read it",
                code=cause_of(str(error)),
            ) from None

    @property
    def copied(self) -> FactsPath:
        """The place as far as it was copied."""
        return replace(self.place, root=copy_of(self.address), address=None)

    def files(self) -> list[Path]:
        """Where the copies of its files are or would be, by name, but for hidden ones."""
        root = copy_of(self.address)
        paths: list[Path] = []
        with self._told():
            listed = self._fs.listFiles(self._hadoop(self.address), True)
            while listed.hasNext():
                path = copy_of(str(listed.next().getPath().toString()))
                if not is_hidden(path, root):
                    paths.append(path)
        return sorted(paths)

    def fetch(self, paths: Iterable[Path]) -> list[Path]:
        """Copy files."""
        fetched = list(paths)
        for path in fetched:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._told():
                source, target = self._hadoop(as_addressed(str(path))), self._hadoop(str(path))
                # As it is, without a checksum beside it.
                self._fs.copyToLocalFile(False, source, target, True)
        return fetched


def fetched(spark: SparkSession, facts: Any, program: Program, *, only_rigid: bool = False) -> Any:
    """Facts as given, with copies in the place of addresses.

    With `only_rigid`, of a folder just the files of rigid inputs, and addresses without any are
    left out.
    """
    if isinstance(facts, Mapping):
        return {name: _copied_value(spark, name, rows, program) for name, rows in facts.items()}
    if facts is None:
        return None
    places = paths_of(facts)
    if all(place.address is None for place in places):
        return facts
    known = schemas(program)
    texts: list[str] = []
    several = [facts] if isinstance(facts, (str, PathLike)) else facts
    for given, place in zip(several, places, strict=True):
        if place.address is None:
            texts.append(str(given))
            continue
        remote = Remote(spark, place)
        rigid = {name for name, schema in known.items() if schema.time is None}
        wanted = [
            path
            for path in remote.files()
            if not only_rigid or remote.copied.input_of(path) in rigid
        ]
        if remote.fetch(wanted) or not only_rigid:
            texts.append(str(remote.copied))
    return texts


def _copied_value(spark: SparkSession, name: str, rows: Any, program: Program) -> Any:
    if not isinstance(rows, (str, PathLike)) or FactsPath.of(rows, name).address is None:
        return rows
    (text,) = fetched(spark, [rows], program)
    return text


def looked_at(
    spark: SparkSession, program: Program, places: tuple[FactsPath, ...]
) -> tuple[FactsPath, ...]:
    """Places with copies of the files whose types settle what the rules leave open."""
    known = schemas(program)
    open_ = {n for n, s in known.items() if s.time and not all(c.type for c in s.columns)}
    return tuple(_with_types(spark, place, open_) for place in places)


def _with_types(spark: SparkSession, place: FactsPath, names: set[str]) -> FactsPath:
    if place.address is None or not names:
        return place
    remote = Remote(spark, place)
    first: dict[str | None, Path] = {}
    for path in remote.files():
        if format_of(path) == "parquet":
            first.setdefault(remote.copied.input_of(path), path)
    needed = [path for name, path in first.items() if name in names]
    return remote.copied if remote.fetch(needed) else place
