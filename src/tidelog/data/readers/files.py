"""Files of facts: what their names say, and how they are opened."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from tidelog.errors import DataError

FORMATS = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
PACKED = ".gz"  # CSV and JSON lines may be packed
# Names of files and folders that start so are nobody's facts.
HIDDEN = (".", "_")


def format_of(path: Path) -> str | None:
    """What is in a file, by how its name ends.

    >>> [format_of(Path(name)) for name in ("E.csv.gz", "E.ndjson", "E.parquet.gz", "E.txt")]
    ['csv', 'jsonl', None, None]
    """
    format_ = FORMATS.get(Path(path.name.removesuffix(PACKED)).suffix)
    return None if format_ == "parquet" and path.suffix == PACKED else format_


def stem_of(path: Path) -> str:
    """The name of a file without what says its format."""
    return Path(path.name.removesuffix(PACKED)).stem


def named_in_unicode(path: Path) -> Path:
    """The path, unless it has bytes that no engine can name."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        name = str(path).encode(errors="surrogateescape").decode(errors="backslashreplace")
        raise DataError(f"{name}: its name is not UTF-8: rename it") from None
    return path


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked where it is packed; DataError if it is not."""
    if path.suffix != PACKED:
        return path.open("rb")
    with path.open("rb") as file:
        if file.read(2) not in (b"\x1f\x8b", b""):
            raise DataError(f"{path}: not packed by gzip, as its name says")
    return cast("IO[bytes]", _Packed(path, "rb"))


class _Packed(gzip.GzipFile):
    """A packed file; DataError where it ends in the middle or is damaged."""

    def _unpacked(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = "ends in the middle" if isinstance(error, EOFError) else "is damaged"
            raise DataError(
                f"{self.name}: the packed file {what}: see that all of it has arrived, and repair"
                " it"
            ) from None

    def read(self, size: int | None = -1) -> bytes:
        return self._unpacked(lambda: super(_Packed, self).read(size))

    def read1(self, size: int = -1) -> bytes:
        return self._unpacked(lambda: super(_Packed, self).read1(size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._unpacked(lambda: super(_Packed, self).readline(size))
