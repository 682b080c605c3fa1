"""Marks of files that were read: whether a file is the same one later, or was only appended to."""

from __future__ import annotations

import hashlib
import os
from typing import TypeAlias

# Bytes of a file's beginning that a mark knows.
HEAD = 65_536
# Files that programs append to; those of other formats are written anew.
_TEXT = (".csv", ".json", ".jsonl", ".ndjson", ".tdl")

# The size of a file, and the digest of its beginning.
Mark: TypeAlias = tuple[int, str]


def mark_of(path: str) -> Mark | None:
    """The mark of a text file; None for what is none, or is not there."""
    if not path.endswith(_TEXT) or not os.path.isfile(path):
        return None
    size = os.path.getsize(path)
    return size, _digest(path, size)


def is_continued(path: str, mark: Mark) -> bool:
    """Whether a file begins with what it had when it was marked."""
    size, digest = mark
    return os.path.getsize(path) >= size and _digest(path, size) == digest


def _digest(path: str, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read(min(size, HEAD))).hexdigest()
