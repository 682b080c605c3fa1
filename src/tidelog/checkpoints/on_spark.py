"""The checkpoint of a stream on Spark, read and taken back from its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tidelog.causes import Cause
from tidelog.checkpoints.answers import SinkReader, reader_of
from tidelog.checkpoints.folder import LocalFolder
from tidelog.checkpoints.letters import Letter, read_letters
from tidelog.checkpoints.reports import Check, Commit, Problem, StateSize
from tidelog.checkpoints.tables import StateTable, packed_sizes, unpacked_tables
from tidelog.data.sealed import unsealed
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError, Refused
from tidelog.pipeline.spark_log import LIVE, SPARK, SparkBatch, check_logs, list_ends, planned
from tidelog.streaming.ledger import Ledger
from tidelog.streaming.sinks.sink import StoredFile

FORMATS = (3,)
RESTORE = "restore the whole checkpoint from a copy, or start with a new one"
# What tells nothing about the stream's options.
_NOT_OPTIONS = {"id", "format", "program", "queries", "inputs", "tables", "sink", "large", "topics"}


class SparkCheckpoint:
    """A checkpoint with a commit for each batch."""

    engine = "spark"

    def __init__(self, folder: LocalFolder) -> None:
        self.folder = folder
        self.identity = unsealed(folder.read("tidelog.json"), folder.shown("tidelog.json"))
        if self.identity.get("format") not in FORMATS:
            raise Refused(
                f"{folder.shown('tidelog.json')} has format {self.identity.get('format')}, which"
                " another version of tidelog reads: use the version that wrote it",
                code=Cause.OTHER_FORMAT,
            )

    @property
    def id(self) -> str:
        return str(self.identity["id"])

    @property
    def rules(self) -> str:
        return str(self.identity["program"])

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(self.identity["queries"])

    @property
    def options(self) -> dict[str, Any]:
        options = {n: v for n, v in self.identity.items() if n not in _NOT_OPTIONS}
        if self.ticks is not None:
            options["origin"] = self.ticks.moment(0).isoformat().replace("+00:00", "Z")
        last = self.last
        return {**options, **({} if last is None else last.state.get("options", {}))}

    @property
    def sink(self) -> str:
        return str(self.identity["sink"])

    @property
    def ticks(self) -> Ticks | None:
        tick, origin = self.identity["tick"], self.identity["origin"]
        if tick is None:
            return None
        return Ticks(Ticks.of(tick).length, 0 if origin is None else int(origin))

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """What the tables of state hold; empty for one that no start has described."""
        if not self.folder.exists("tables.json"):
            return {}
        return unsealed(self.folder.read("tables.json"), self.folder.shown("tables.json"))

    # Commits

    @cached_property
    def numbers(self) -> list[int]:
        """Of the commits that are there, in order."""
        names = (entry.name.removesuffix(".json") for entry in self.folder.entries("commits"))
        return sorted(int(name) for name in names if name.isdecimal())

    def state_of(self, number: int) -> dict[str, Any]:
        """A commit as it is written down."""
        parts = "commits", f"{number}.json"
        return unsealed(self.folder.read(*parts), self.folder.shown(*parts))

    def commit(self, number: int) -> Commit:
        value = self.state_of(number)
        ledger, total = Ledger.of(value), Ledger.of(value["totals"])
        if "rows" not in value:  # of a version that did not count them
            total = Ledger.of({**value["totals"], "rows": -total.difference})
            ledger = Ledger.of({**value, "rows": -ledger.difference})
        clock = value["clock"]
        return Commit(
            number,
            self.folder.modified("commits", f"{number}.json"),
            clock["tin"],
            value["tout"],
            clock["closed"],
            ledger,
            total,
            value["answers"],
            value["answered"],
            {n: Ledger.of(one) for n, one in value.get("by_input", {}).items()},
            clock["seen"],
            tuple(clock["idle"]),
            tuple(value["waits_for"]),
            value,
        )

    @property
    def last(self) -> Commit | None:
        return self.commit(self.numbers[-1]) if self.numbers else None

    @property
    def possible(self) -> tuple[int, ...]:
        """The commits of which everything is there that a start from them needs."""
        return tuple(number for number in self.numbers[:-1] if self._is_whole(number))

    def _is_whole(self, number: int) -> bool:
        try:
            value = self.state_of(number)
        except Refused:
            return False
        if next(self._state_problems(value, ""), None) is not None:
            return False
        spark = value["spark"]
        if spark is None:
            return True
        batch = SparkBatch(**spark)
        try:
            return planned(self.folder, batch.place, batch.number) == batch
        except (OSError, ValueError, KeyError, TypeError):
            return False

    # State

    def sizes(self, commit: Commit) -> list[StateSize]:
        return packed_sizes(self.tables, self._parts(commit.state), self.folder.here("state"))

    def state(self, number: int) -> Iterator[StateTable]:
        value = self.state_of(number)
        if not self.tables:
            raise DataError(
                f"{self.folder.name} does not say what its tables hold: an older version wrote it;"
                " start its stream once with this version"
            )
        for problem in self._state_problems(value, ""):
            raise DataError(f"{problem.what}: commit {number} cannot be exported")
        yield from unpacked_tables(self.tables, self._parts(value), self.folder.here("state"))

    def _parts(self, value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return [part for part in (*value["state"], *value["stretches"]) if part["files"]]

    def _state_problems(self, value: Mapping[str, Any], remedy: str) -> Iterator[Problem]:
        for part in self._parts(value):
            files = StoredFile.list_of(part["files"])
            for said in self.folder.damaged(files, "state", part["folder"]):
                yield Problem(said, remedy)

    # Whether it is whole

    def problems(self) -> Iterator[Problem]:
        """What is missing or damaged, of all that commits refer to on this machine."""
        values: dict[int, dict[str, Any]] = {}
        for number in self.numbers:
            try:
                values[number] = self.state_of(number)
            except Refused as error:
                yield Problem.of(error)
        for one, two in zip(self.numbers, self.numbers[1:], strict=False):
            for missing in range(one + 1, two):
                yield Problem(
                    f"{self.folder.shown('commits', f'{missing}.json')} is missing", RESTORE
                )
        if self.numbers and self.numbers[-1] in values:
            remedy = RESTORE
            if ways := [n for n in self.possible if n in values]:
                remedy = f"`tidelog checkpoint rollback --to {ways[-1]}` goes on without it"
            yield from self._state_problems(values[self.numbers[-1]], remedy)
        yield from self._of_rigid()
        for number, value in values.items():
            stored = StoredFile.list_of(value["letters"])
            for said in self.folder.damaged(stored, "dead_letters", f"batch={number}"):
                yield Problem(said, RESTORE)
        last = values.get(self.numbers[-1]) if self.numbers else None
        if last is not None or not self.numbers:
            yield from self._of_spark(None if last is None else last["spark"])
        yield from self._of_other_files()

    def _of_rigid(self) -> Iterator[Problem]:
        where = self.folder.shown("rigid", "complete.json")
        if not self.folder.exists("rigid", "complete.json"):
            if self.numbers:
                yield Problem(f"{where} is missing", RESTORE)
            return
        try:
            rigid = unsealed(self.folder.read("rigid", "complete.json"), where)
        except Refused as error:
            yield Problem.of(error)
            return
        for said in self.folder.damaged(StoredFile.list_of(rigid["files"]), "rigid"):
            yield Problem(said, RESTORE)

    def _of_spark(self, spark: Mapping[str, Any] | None) -> Iterator[Problem]:
        try:
            check_logs(self.folder, None if spark is None else SparkBatch(**spark))
        except Refused as error:
            yield Problem.of(error)

    def _of_other_files(self) -> Iterator[Problem]:
        names = [("idle", e.name) for e in self.folder.entries("idle") if e.name.endswith(".json")]
        for parts in [*names, ("live.json",), ("tables.json",)]:
            if self.folder.exists(*parts):
                try:
                    unsealed(self.folder.read(*parts), self.folder.shown(*parts))
                except Refused as error:
                    yield Problem.of(error)

    def reader(self, sink: str | None) -> SinkReader | str:
        return reader_of(sink or self.sink, self.id, self.engine)

    def sink_states(self) -> dict[int, Mapping[str, Any]]:
        """By commit, what it remembers of its sink."""
        states: dict[int, Mapping[str, Any]] = {}
        for number in self.numbers:
            try:
                states[number] = self.state_of(number)["sink"]
            except Refused:  # which is a problem of its own
                continue
        return states

    # The ledger, counted again

    def letters(self) -> Iterator[Letter]:
        """The dead letters of committed batches, in order."""
        last = self.numbers[-1] if self.numbers else -1
        names = (entry.name for entry in self.folder.entries("dead_letters"))
        batches = (name.removeprefix("batch=") for name in names if name.startswith("batch="))
        for number in sorted(int(batch) for batch in batches if batch.isdecimal()):
            if number <= last:
                for file in self.folder.files("dead_letters", f"batch={number}"):
                    path = self.folder.here("dead_letters", f"batch={number}", file.name)
                    yield from read_letters(Path(path), number)

    def checks(self) -> Iterator[Check]:
        """The commits against each other and against the dead letters."""
        commits = [self.commit(number) for number in self.numbers]
        late: Counter[int] = Counter()
        others: Counter[int] = Counter()
        for letter in self.letters():
            (late if letter.is_late else others)[letter.batch or 0] += 1
        for before, commit in zip([None, *commits], commits, strict=False):
            where = f"batch {commit.number}"
            ledger = commit.ledger
            yield Check(f"{where}: rows in", ledger.rows, ledger.rows - ledger.difference)
            if before is not None or commit.number == 0:
                since = Ledger() if before is None else before.total
                yield Check(
                    f"{where}: rows since the start", commit.total.rows, since.rows + ledger.rows
                )
                yield Check(
                    f"{where}: facts since the start",
                    commit.total.facts,
                    since.facts + ledger.facts,
                )
            yield Check(f"{where}: late dead letters", ledger.late, late[commit.number])
            rest = ledger.dead + ledger.skipped
            yield Check(f"{where}: other dead letters", rest, others[commit.number])
        if commits:
            total = commits[-1].total
            yield Check("all batches: rows in", total.rows, total.rows - total.difference)
            yield Check("all batches: late dead letters", total.late, late.total())
            rest = total.dead + total.skipped
            yield Check("all batches: other dead letters", rest, others.total())

    def sink_checks(self, reader: SinkReader) -> Iterator[Check]:
        """The answers that commits have counted against those in the sink."""
        last = self.last
        if last is None:
            return
        found = reader.answers(last.number, last.state["sink"])
        if reader.has_batches:
            for number in self.numbers:
                for query, count in self.commit(number).answers.items():
                    what = f"batch {number}: answers of {query}"
                    yield Check(what, count, found.by_batch[query, number])
        for query, count in last.answered.items():
            yield Check(f"all batches: answers of {query}", count, found.by_query[query])
            yield Check(
                f"all batches: answers of {query} that are there again", 0, found.again[query]
            )

    # Going back

    def sink_after(self) -> str:
        """What becomes of the answers that a rollback takes back."""
        kind = self.sink.partition(":")[0]
        if kind in ("csv", "json", "parquet", "jsonl"):
            return "the next start removes them from the sink, and they come again"
        if kind == "delta":
            return (
                "they stay in the Delta tables: the next start says which"
                " DeltaTable(..).restore(..) takes them out, if it must"
            )
        return "they stay where they went, and come again with another lineage"

    def roll_back(self, to: int) -> None:
        """Go back to a commit: nothing that comes after it stays.

        Begun again after a crash, it ends in the same way. Commits go first, the last one first:
        until Spark's logs have followed, a start is refused.
        """
        value = self.state_of(to)
        for number in reversed(self.numbers):
            if number > to:
                self.folder.drop("commits", f"{number}.json")
        self.__dict__.pop("numbers", None)
        self._roll_back_spark(value["spark"])
        kept = {part["folder"] for n in self.numbers for part in self._parts(self.state_of(n))}
        for entry in self.folder.entries("state"):
            if entry.name not in kept:
                self.folder.drop("state", entry.name)
        for folder in ("dead_letters", "answers", "idle"):
            for entry in self.folder.entries(folder):
                batch = entry.name.lstrip(".").removeprefix("batch=").split(".")[0]
                if batch.isdecimal() and int(batch) > to:
                    self.folder.drop(folder, entry.name)

    def _roll_back_spark(self, spark: Mapping[str, Any] | None) -> None:
        """Have Spark's logs end with a batch of its own; what it plans then is another batch."""
        if spark is None:
            for place in (SPARK, LIVE):
                self.folder.drop(place)
            return
        batch = SparkBatch(**spark)
        if batch.place == SPARK:
            self.folder.drop(LIVE)  # which begins again where `live.json` says
        for log in ("commits", "offsets"):
            for entry in self.folder.entries(batch.place, log):
                name = entry.name.removeprefix(".").removesuffix(".crc")
                if name.isdecimal() and int(name) > batch.number:
                    self.folder.drop(batch.place, log, entry.name)
        for source, end in enumerate(list_ends(self.folder, batch.place, batch.number)):
            self._forget_files(batch.place, str(source), end)

    def _forget_files(self, place: str, source: str, end: int) -> None:
        """Have a source list the files again that came after an entry of its log.

        Batches are then cut as before. Where Spark has deleted entries before that, since a later
        one holds them too, all stay: the next batch takes all files that came after.
        """
        names = [entry.name for entry in self.folder.entries(place, "sources", source)]
        numbers = {int(name.removesuffix(".compact")): name for name in names if _is_entry(name)}
        known = [number for number in numbers if number <= end]
        whole = [number for number in known if numbers[number].endswith(".compact")]
        first = max(whole, default=0)
        if end < 0 or not set(range(first, end + 1)) <= set(known):
            return
        for number in sorted(numbers, reverse=True):
            if number > end:
                self.folder.drop(place, "sources", source, f".{numbers[number]}.crc")
                self.folder.drop(place, "sources", source, numbers[number])


def _is_entry(name: str) -> bool:
    return name.removesuffix(".compact").isdecimal()


def is_spark(folder: LocalFolder) -> bool:
    return folder.exists("tidelog.json")
