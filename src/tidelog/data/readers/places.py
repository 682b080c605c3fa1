"""Where the facts of a program are: in memory, in a file, or in a folder of files."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from tidelog.data.readers.json import read_json_lines
from tidelog.data.readers.memory import RowsLike, Table, in_memory
from tidelog.data.readers.rules import read_rules
from tidelog.data.schema import Schema, schema_of, schemas
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError
from tidelog.language.program import Program

FORMATS = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl"}
# Names of files and folders that start so are nobody's facts.
HIDDEN = (".", "_")


@dataclass(frozen=True)
class DataFiles:
    """Facts in files of one format."""

    format: str
    paths: tuple[Path, ...]


Part: TypeAlias = DataFiles | Table
FactsLike: TypeAlias = "str | PathLike[str] | Mapping[str, RowsLike] | None"


def find_facts(
    program: Program, facts: FactsLike, ticks: Ticks | None, only: Container[str] | None = None
) -> dict[str, list[Part]]:
    """Where the facts of each input are; in-memory facts and small formats are read at once.

    Of a folder, the files of other inputs than `only` are left alone.
    """
    known = schemas(program)
    if facts is None:
        return {}
    if isinstance(facts, Mapping):
        return {
            name: [in_memory(schema_of(name, program, known, "facts"), rows, ticks)]
            for name, rows in facts.items()
        }
    path = named_in_unicode(Path(facts))
    if path.is_dir():
        return _in_folder(path, program, known, ticks, only)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if path.suffix == ".tdl":
        return _parts(read_rules(path, program, known))
    if path.suffix == ".jsonl":
        return _parts(read_json_lines(path, program, known, None, ticks))
    if path.suffix in FORMATS:
        schema = schema_of(path.stem, program, known, str(path))
        return {schema.predicate: [DataFiles(FORMATS[path.suffix], (path,))]}
    raise DataError(
        f"{path}: facts are a folder, or a .csv, .parquet, .jsonl or .tdl file, by its ending"
    )


def named_in_unicode(path: Path) -> Path:
    """The path, unless it has bytes that no engine can name."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        name = str(path).encode(errors="surrogateescape").decode(errors="backslashreplace")
        raise DataError(f"{name}: its name is not UTF-8: rename it") from None
    return path


def input_of(path: Path, facts: Path) -> str:
    """The input that the place of a file among the facts names: its folder there, or its stem.

    >>> [input_of(Path(path), Path("facts")) for path in ("facts/E.csv", "facts/E/2024/a.csv")]
    ['E', 'E']
    """
    if path == facts:
        return path.stem
    first, *deeper = path.relative_to(facts).parts
    return first if deeper else path.stem


def _parts(tables: Mapping[str, Table]) -> dict[str, list[Part]]:
    return {name: [table] for name, table in tables.items()}


def _in_folder(
    folder: Path,
    program: Program,
    known: Mapping[str, Schema],
    ticks: Ticks | None,
    only: Container[str] | None,
) -> dict[str, list[Part]]:
    """`<Predicate>.csv|.parquet|.jsonl`, or a subfolder `<Predicate>/` of such files."""
    parts: dict[str, list[Part]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(HIDDEN):
            continue
        if entry.is_dir():
            paths, name = _below(entry), entry.name
        elif entry.suffix in FORMATS:
            paths, name = [named_in_unicode(entry)], entry.stem
        elif entry.name.split(".")[0] in known:
            endings = ", ".join(FORMATS)
            raise DataError(f"{entry}: facts in a folder end in {endings}; rename or convert it")
        else:
            continue
        if not paths:
            continue
        schema = schema_of(name, program, known, str(entry))
        if only is None or name in only:
            parts.setdefault(name, []).extend(_of_one(paths, schema, program, known, ticks))
    return parts


def _of_one(
    paths: list[Path],
    schema: Schema,
    program: Program,
    known: Mapping[str, Schema],
    ticks: Ticks | None,
) -> list[Part]:
    """The facts of one input in files of its own."""
    parts: list[Part] = []
    for format_ in ("csv", "parquet"):
        chosen = tuple(p for p in paths if FORMATS[p.suffix] == format_)
        parts += [DataFiles(format_, chosen)] if chosen else []
    for path in paths:
        if path.suffix == ".jsonl":
            parts += read_json_lines(path, program, known, schema, ticks).values()
    return parts


def _below(folder: Path) -> list[Path]:
    """The files of facts in a folder and its subfolders; one that cannot be read is an error."""
    paths: list[Path] = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(HIDDEN):
            continue
        if entry.is_dir() and not entry.is_symlink():
            paths += _below(entry)
        elif entry.is_file() and entry.suffix in FORMATS:
            paths.append(named_in_unicode(entry))
    return paths
