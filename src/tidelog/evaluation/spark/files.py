"""Files of facts: Spark says which of them are new, and they are read in splits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.causes import Cause
from tidelog.data.delta import LOG, added_by, check_log
from tidelog.data.readers.files import format_of, named_in_unicode
from tidelog.data.readers.places import FactsPath, is_hidden, is_input, settled
from tidelog.data.schema import schemas
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError
from tidelog.evaluation.spark.remote import Remote, addressed, as_addressed, copy_of
from tidelog.evaluation.spark.sources import Inputs, TimeLimits
from tidelog.evaluation.spark.splits import (
    Reader,
    Split,
    missing,
    skippable,
    skipped,
    splits_of,
)
from tidelog.language.program import Program

# Hadoop's usual view of local files keeps checksums beside them, and fails on a name with a colon.
_PLAIN_FILES = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@dataclass(frozen=True)
class FileBatch:
    """The files of a micro-batch, which nobody has read yet."""

    sparkSession: SparkSession
    reader: Reader
    splits: list[Split]

    @property
    def rows(self) -> int:
        """How many rows there are; about, where only a look would tell."""
        return sum(split.rows for split in self.splits)


def skipped_of(rows: object) -> Counter[str]:
    """How many files of a batch users leave out, by the input that they are of."""
    splits = rows.splits if isinstance(rows, FileBatch) else []
    return Counter(split.name or "" for split in splits if split.problem is not None)


class Files:
    """Files and folders of facts."""

    def __init__(
        self,
        spark: SparkSession,
        program: Program,
        facts: Iterable[FactsPath],
        inputs: Inputs,
        per_batch: int | None = None,
        skip: Iterable[str] = (),
    ) -> None:
        self.program, self.inputs, self.per_batch = program, inputs, per_batch
        self.places = [place.resolved() for place in facts]
        self.skip = frozenset(map(self._skipped, skip))
        self.spark = spark
        self._told: set[str] = set()

    def _skipped(self, text: str) -> Path:
        """A file that is to be left out, as batches name it; DataError if it is none of these."""
        path = settled(Path(text))
        if not any(path.is_relative_to(place.root) for place in self.places):
            raise DataError(f"--skip {text}: it is not among the facts of this stream")
        return path

    def _all(self) -> list[Path]:
        """The files there are; DataError for a name that Spark could not read."""
        jvm = self.spark._jvm
        assert jvm is not None
        ascii_only = "UTF" not in str(jvm.System.getProperty("sun.jnu.encoding")).upper()
        paths: list[Path] = []
        for place in self.places:
            paths += place.files()
        for path in map(named_in_unicode, paths):
            if ascii_only and not str(path).isascii():
                raise DataError(
                    f"{path}: Spark's Java reads ASCII names only in this environment: set"
                    " LC_ALL=C.UTF-8, or rename it"
                )
        return list(dict.fromkeys(paths))

    def missing(self) -> list[str]:
        """The inputs that have no file yet."""
        there: set[str | None] = set()
        for path in self._all():
            name, mixed = self._input(path)
            if mixed:  # its lines may be of any input
                return []
            there.add(name)
        return [name for name in self.inputs.names if name not in there]

    def of(self, name: str) -> list[str]:
        """The files there are of one input."""
        return [str(path) for path in self._all() if self._input(path) == (name, False)]

    def stream(self) -> DataFrame:
        self._all()
        frames = [self._stream(root) for root in dict.fromkeys(p.root for p in self.places)]
        return reduce(DataFrame.union, frames)

    def _stream(self, root: Path) -> DataFrame:
        return self._new(_as_pattern(root), **_PLAIN_FILES)

    def _new(self, place: str, **options: str) -> DataFrame:
        """The paths of new files, as Spark names them."""
        reader = (
            self.spark.readStream.format("binaryFile")
            .options(**options)
            .schema("path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY")
        )
        reader = reader.option("recursiveFileLookup", "true")
        # However old a file is beside the newest one, it is read.
        reader = reader.option("maxFileAge", "100000000d")
        if self.per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self.per_batch)
        return reader.load(place).select("path")

    def batch(self, frame: DataFrame, _: TimeLimits, listed: Callable[[], set[str]]) -> FileBatch:
        opened = {local(path) for (path,) in frame.collect()}
        planned = set(map(local, listed()))
        expect_all(planned - self.skip, opened)
        return self._batch(frame, sorted(opened | planned & self.skip))

    def _batch(self, frame: DataFrame, paths: Iterable[Path]) -> FileBatch:
        reader = replace(self.reader, can_skip=True)
        return FileBatch(frame.sparkSession, reader, self.splits(paths, can_skip=True))

    def all(self) -> list[Split]:
        """All that there is."""
        return self.splits(self._all())

    @property
    def reader(self) -> Reader:
        return Reader(self.program, self.inputs)

    def _input(self, path: Path) -> tuple[str | None, bool]:
        """The input that a file is of, None if there is none; whether its lines may say so."""
        for place in self.places:
            name = place.input_of(path)
            if name is None or is_hidden(path, place.root):
                continue
            alone = place.input is None and (path == place.root or place.pattern is not None)
            if alone and name not in self.inputs.schemas:
                return None, format_of(path) == "jsonl" or path.suffix == ".tdl"
            return name, False
        return None, False

    def splits(self, paths: Iterable[Path], *, can_skip: bool = False) -> list[Split]:
        """The parts of some files that can be read alone; those that no query needs are left.

        Errors say how to go on without a file, if one can.
        """
        splits: list[Split] = []
        for path in paths:
            name, mixed = self._input(path)
            if path in self.skip and (mixed or name in self.inputs.schemas):
                splits.append(skipped(path, name))
                continue
            format_ = "tdl" if mixed and path.suffix == ".tdl" else format_of(path)
            if format_ is None or (name is None and not mixed):
                continue
            if mixed or name in self.inputs.schemas:
                try:
                    with addressed():
                        splits += splits_of(path, format_, name, self.inputs)
                except DataError as error:
                    raise (
                        skippable(error, as_addressed(str(path))) if can_skip else error
                    ) from None
            elif str(name) not in self._told:
                self._told.add(str(name))
                is_input(str(name), self.program, schemas(self.program), path)
        return splits


class DeltaFiles(Files):
    """Delta tables: Spark says which entries of their logs are new, we read what those added."""

    # The entries that batches before have read, as the checkpoint knows them.
    read: Callable[[], set[str]] = set

    @cached_property
    def _versions(self) -> dict[Path, set[int]]:
        """By table the versions that were read."""
        versions: dict[Path, set[int]] = {place.root: set() for place in self.places}
        _add_versions(versions, map(local, self.read()))
        return versions

    def missing(self) -> list[str]:
        return [n for n in self.inputs.names if n not in {place.input for place in self.places}]

    def stream(self) -> DataFrame:
        for place in self.places:
            if "://" in str(place.delta):
                raise DataError(f"{place}: a stream follows Delta tables on local disks only")
            check_log(place.root, self._versions[place.root])
        return reduce(DataFrame.union, [self._stream(place.root / LOG) for place in self.places])

    def _stream(self, root: Path) -> DataFrame:
        return super()._stream(root).where(F.col("path").endswith(".json"))

    def batch(self, frame: DataFrame, _: TimeLimits, listed: Callable[[], set[str]]) -> FileBatch:
        opened = {local(path) for (path,) in frame.collect()}
        planned = {local(path) for path in listed() if path.endswith(".json")}
        expect_all(planned - self.skip, opened)
        _add_versions(self._versions, planned)
        for root, versions in self._versions.items():
            check_log(root, versions)
        entries = sorted(opened - self.skip)
        added = [file for entry in entries for file in added_by(entry)]
        return self._batch(frame, [*added, *sorted(planned & self.skip)])

    def _input(self, path: Path) -> tuple[str | None, bool]:
        return next(p.input for p in self.places if path.is_relative_to(p.root)), False


def _add_versions(versions: Mapping[Path, set[int]], entries: Iterable[Path]) -> None:
    """Note the versions that some entries of tables' logs are of."""
    for entry in entries:
        if entry.parent.parent in versions and entry.stem.isdecimal():
            versions[entry.parent.parent].add(int(entry.stem))


class RemoteFiles(Files):
    """Files on a store: Spark says which of them are new, and a batch is copied here."""

    def __init__(
        self,
        spark: SparkSession,
        program: Program,
        facts: Iterable[FactsPath],
        inputs: Inputs,
        per_batch: int | None = None,
        skip: Iterable[str] = (),
    ) -> None:
        self.remotes = [Remote(spark, place) for place in facts]
        copied = [remote.copied for remote in self.remotes]
        super().__init__(spark, program, copied, inputs, per_batch, skip)
        self._copied: list[Path] = []

    def _skipped(self, text: str) -> Path:
        path = copy_of(text)
        if not any(path.is_relative_to(place.root) for place in self.places):
            raise DataError(f"--skip {without_secrets(text)}: it is not among these facts")
        return path

    def _all(self) -> list[Path]:
        return [path for remote in self.remotes for path in remote.files()]

    def stream(self) -> DataFrame:
        self._all()
        return reduce(DataFrame.union, [self._new(remote.address) for remote in self.remotes])

    def batch(self, frame: DataFrame, _: TimeLimits, __: Callable[[], set[str]]) -> FileBatch:
        for path in self._copied:  # of the batch before
            path.unlink(missing_ok=True)
        self._copied = []
        for address in sorted({address for (address,) in frame.collect()}):
            path = copy_of(address)
            if self._input(path) != (None, False):
                remote = next(r for r in self.remotes if path.is_relative_to(r.copied.root))
                with suppress(*([DataError] if path in self.skip else [])):
                    remote.fetch([path])
                self._copied.append(path)
        return self._batch(frame, self._copied)


def expect_all(listed: Iterable[Path], opened: Iterable[Path]) -> None:
    """DataError for a file that Spark has listed and not opened, unless it is empty."""
    left_out = sorted(set(listed) - set(opened))
    gone = [path for path in left_out if not path.exists() or path.stat().st_size > 0]
    if gone:
        raise DataError(*(missing(str(path), can_skip=True) for path in gone), code=Cause.FILE_GONE)


def local(file: str) -> Path:
    """The path of a file as Spark and dead letters name it, where nothing is escaped."""
    return Path(re.sub(r"\Afile:(//)?(?=/)", "", file))


def _as_pattern(path: Path) -> str:
    """A folder as a streaming source takes it: a pattern that matches nothing else."""
    pattern = re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path))
    if ":" in pattern and pattern != str(path):
        raise DataError(
            f"{path}: Spark cannot follow a folder with a colon and one of *?[]{{}}\\ in its path:"
            " rename it"
        )
    return f"file://{pattern}"
