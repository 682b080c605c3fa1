"""Where the facts of a program are: in memory, in files, in folders, or what a pattern matches."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from tidelog.data import delta
from tidelog.data.kafka import Topics
from tidelog.data.letters import DeadLetter
from tidelog.data.readers.files import FORMATS, HIDDEN, format_of, named_in_unicode, stem_of
from tidelog.data.readers.json import read_json_lines
from tidelog.data.readers.memory import RowsLike, Table, in_memory
from tidelog.data.readers.rules import read_rules
from tidelog.data.schema import Schema, schema_of, schemas
from tidelog.data.secrets import without_secrets
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError, warn
from tidelog.language.program import Program


@dataclass(frozen=True)
class DataFiles:
    """Facts in files of one format."""

    format: str
    paths: tuple[Path, ...]


Part: TypeAlias = DataFiles | Table
PathText: TypeAlias = "str | PathLike[str]"
FactsLike: TypeAlias = "PathText | Sequence[PathText] | Mapping[str, RowsLike | PathText] | None"


@dataclass(frozen=True)
class FactsPath:
    """A file or folder of facts, or all that match a pattern below a folder.

    `input` is the input that they are given for; without it their names or lines say so.
    """

    root: Path
    pattern: str | None = None
    input: str | None = None
    delta: str | None = None  # the address of a Delta table
    address: str | None = None  # on a store that only Spark reaches, such as s3a://bucket/folder

    @staticmethod
    def of(text: PathText, input_: str | None = None) -> FactsPath:
        """A path as users write it: `facts/`, `metrics=data.csv`, `days/*/metrics.csv.gz`."""
        written = str(text)
        if Topics.is_one(written):
            raise DataError(
                f"{without_secrets(written)}: topics of Kafka are read by `tidelog run`, on Spark"
            )
        if written.startswith(delta.SCHEME):
            address = written.removeprefix(delta.SCHEME)
            root = Path(address)
            return FactsPath(root, None, input_ or stem_of(root), address)
        if re.match(r"[A-Za-z][\w+.-]+://", written):
            return FactsPath._on_a_store(written, input_)
        path = named_in_unicode(Path(written))
        named = re.fullmatch(r"(\w+)=(.+)", written, re.DOTALL)
        if input_ is None and named and not path.exists():
            return FactsPath.of(named.group(2), named.group(1))
        if path.exists() or not glob.has_magic(written):
            return FactsPath(path, None, input_)
        fixed = [*path.parts]
        while any(map(glob.has_magic, fixed)):
            fixed.pop()
        return FactsPath(Path(*fixed), written, input_)

    @staticmethod
    def _on_a_store(address: str, input_: str | None) -> FactsPath:
        if address.startswith("file://"):
            return FactsPath.of(address.removeprefix("file://"), input_)
        if glob.has_magic(address):
            raise DataError(
                f"{without_secrets(address)}: patterns are for local files: name the folder, or"
                " each file"
            )
        return FactsPath(Path(address), None, input_, address=address)

    def resolved(self) -> FactsPath:
        """The same from any working directory, as Spark names files."""
        if self.address is not None:
            return self
        pattern = None if self.pattern is None else os.path.abspath(self.pattern)
        return FactsPath(self.root.resolve(), pattern, self.input, self.delta)

    def __str__(self) -> str:
        written = str(self.root) if self.pattern is None else self.pattern
        if self.delta is not None:
            written = f"{delta.SCHEME}{self.delta}"
        written = self.address or written
        return written if self.input is None else f"{self.input}={written}"

    def matches(self) -> list[Path]:
        """The files and folders there are; DataError when there is none."""
        if self.delta is not None:
            delta.expect_table(self.root)
            return []
        if self.address is not None:
            raise DataError(
                f"{without_secrets(self.address)}: facts on a store are read by Spark only: use"
                " --engine spark, or copy them here"
            )
        if self.pattern is None:
            if not self.root.exists():
                if str(self.root) == "-":
                    raise DataError(
                        "-: standard input is for `tidelog run`, and alone: write `--facts -`, and"
                        ' name the input of each line: {"predicate": "E", ..}'
                    )
                raise DataError(f"{self.root}: no such file or folder")
            return [self.root]
        paths = [Path(name) for name in sorted(glob.glob(self.pattern, recursive=True))]
        if not paths:
            raise DataError(f"{self.pattern}: no file or folder matches")
        return paths

    def files(self) -> list[Path]:
        """All files there are, those in folders too, but for hidden ones."""
        if self.delta is not None:
            return delta.added(self.root)
        paths: list[Path] = []
        for root in self.matches():
            below = [root] if root.is_file() else sorted(root.rglob("*"))
            paths += [path for path in below if path.is_file() and not is_hidden(path, root)]
        return paths

    def input_of(self, path: Path) -> str | None:
        """The input that the place of a file names, or None if it is not among these files.

        >>> facts = FactsPath(Path("facts"))
        >>> [facts.input_of(Path(p)) for p in ("facts/E.csv", "facts/E/2024/a.csv", "F.csv")]
        ['E', 'E', None]
        """
        for place in [self.root] if self.pattern is None else self._above(path):
            if path == place:
                return self.input or stem_of(path)
            if path.is_relative_to(place):
                first, *deeper = path.relative_to(place).parts
                return self.input or (first if deeper else stem_of(path))
        return None

    def _above(self, path: Path) -> list[Path]:
        """What the pattern matches of a file and the folders around it."""
        there = set(map(Path, glob.glob(self.pattern or "", recursive=True)))
        return [place for place in (path, *path.parents) if place in there]


def settled(path: Path) -> Path:
    """The path of a file from any working directory; what it may be a link to does not matter."""
    return path.parent.resolve() / path.name


def is_hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(HIDDEN) for part in path.relative_to(root).parts)


def paths_of(
    facts: PathText | Iterable[PathText] | Mapping[str, PathText],
) -> tuple[FactsPath, ...]:
    """Facts in files, as a path or several, or a path for each input."""
    if isinstance(facts, (str, PathLike)):
        return (FactsPath.of(facts),)
    if isinstance(facts, Mapping):
        return tuple(FactsPath.of(path, name) for name, path in facts.items())
    if not isinstance(facts, Iterable) or not all(isinstance(p, (str, PathLike)) for p in facts):
        raise DataError(
            "facts are a path, several paths, or a mapping from inputs to rows or paths, not"
            f" {type(facts).__name__}"
        )
    return tuple(FactsPath.of(path) for path in facts)


# Facts by input


def find_facts(
    program: Program,
    facts: FactsLike,
    ticks: Ticks | None,
    only: Container[str] | None = None,
    aside: list[DeadLetter] | None = None,
    skip: Container[Path] = (),
) -> dict[str, list[Part]]:
    """Where the facts of each input are; in-memory facts and small formats are read at once.

    Of a folder, the files of other inputs than `only` are left alone. A line that cannot be read
    is an error, or goes `aside`; files to `skip`, each as `settled` has it, are not opened.
    """
    known = schemas(program)
    if facts is None:
        return {}
    search = _Search(program, known, ticks, only, aside, skip)
    if not isinstance(facts, Mapping):
        for path in paths_of(facts):
            search.add(path)
        return search.parts
    for name, rows in facts.items():
        schema = schema_of(name, program, known, "facts")
        if isinstance(rows, (str, PathLike)):
            search.add(FactsPath.of(rows, name))
        else:
            search.parts.setdefault(name, []).append(in_memory(schema, rows, ticks))
    return search.parts


class _Search:
    """Files of facts, gathered by input."""

    def __init__(
        self,
        program: Program,
        known: Mapping[str, Schema],
        ticks: Ticks | None,
        only: Container[str] | None,
        aside: list[DeadLetter] | None,
        skip: Container[Path] = (),
    ) -> None:
        self.program, self.known, self.ticks, self.only = program, known, ticks, only
        self.aside, self.skip = aside, skip
        self.parts: dict[str, list[Part]] = {}

    def add(self, facts: FactsPath) -> None:
        schema = None
        if facts.input is not None:
            schema = schema_of(facts.input, self.program, self.known, str(facts))
        if facts.delta is not None and schema is not None:
            if self.only is None or schema.predicate in self.only:
                part = in_memory(schema, delta.rows_of(facts.delta), self.ticks)
                self.parts.setdefault(schema.predicate, []).append(part)
            return
        for path in facts.matches():
            if not path.is_dir():
                self._file(path, schema)
            elif schema is None:
                self._folder(path)
            else:
                self._of_one(_below(path), schema)

    def _file(self, path: Path, schema: Schema | None) -> None:
        format_ = format_of(path)
        if settled(path) in self.skip:
            return
        if format_ == "jsonl":
            self._tables(self._lines(path, schema))
        elif path.suffix == ".tdl" and schema is None:
            self._tables(read_rules(path, self.program, self.known))
        elif format_ is None:
            raise DataError(
                f"{path}: facts are a folder, or a .csv, .parquet, .jsonl or .tdl file, by its"
                " ending"
            )
        else:
            self._of_one([path], schema or self._named_by(path))

    def _named_by(self, path: Path) -> Schema:
        """The input that a file is named after; without one the error says how to give it."""
        try:
            return schema_of(stem_of(path), self.program, self.known, str(path))
        except DataError as error:
            if stem_of(path) in self.program.heads or not self.known:
                raise
            name = next(iter(self.known)) if len(self.known) == 1 else "INPUT"
            raise DataError(f"{error}; to give it to one, write {name}={path}") from None

    def _tables(self, tables: Mapping[str, Table]) -> None:
        for name, table in tables.items():
            self.parts.setdefault(name, []).append(table)

    def _folder(self, folder: Path) -> None:
        """`<Predicate>.csv|.parquet|.jsonl`, or a subfolder `<Predicate>/` of such files."""
        for entry in sorted(folder.iterdir()):
            if entry.name.startswith(HIDDEN):
                continue
            if entry.is_dir():
                paths, name = _below(entry), entry.name
            elif format_of(entry) is not None:
                paths, name = [named_in_unicode(entry)], stem_of(entry)
            elif entry.name.split(".")[0] in self.known:
                endings = ", ".join(FORMATS)
                raise DataError(
                    f"{entry}: facts in a folder end in {endings}; rename or convert it"
                )
            else:
                continue
            if paths and is_input(name, self.program, self.known, entry):
                self._of_one(paths, self.known[name])

    def _of_one(self, paths: Iterable[Path], schema: Schema) -> None:
        """The facts of one input in files of its own."""
        name = schema.predicate
        paths = [path for path in paths if settled(path) not in self.skip]
        if self.only is not None and name not in self.only:
            return
        parts = self.parts.setdefault(name, [])
        for format_ in ("csv", "parquet"):
            chosen = tuple(p for p in paths if format_of(p) == format_)
            parts += [DataFiles(format_, chosen)] if chosen else []
        for path in paths:
            if format_of(path) == "jsonl":
                parts += self._lines(path, schema).values()

    def _lines(self, path: Path, schema: Schema | None) -> dict[str, Table]:
        return read_json_lines(
            path, self.program, self.known, schema, self.ticks, self.only, self.aside
        )


def is_input(name: str, program: Program, known: Mapping[str, Schema], where: Path) -> bool:
    """Whether a file or folder among others is an input's; a warning if it is nobody's."""
    try:
        schema_of(name, program, known, str(where))
    except DataError as error:
        warn(f"{error}; it is left out")
        return False
    return True


def _below(folder: Path) -> list[Path]:
    """The files of facts in a folder and its subfolders; one that cannot be read is an error."""
    paths: list[Path] = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(HIDDEN):
            continue
        if entry.is_dir() and not entry.is_symlink():
            paths += _below(entry)
        elif entry.is_file() and format_of(entry) is not None:
            paths.append(named_in_unicode(entry))
    return paths
