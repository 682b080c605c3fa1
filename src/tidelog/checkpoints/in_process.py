"""The checkpoint of a stream in process: the latest snapshot, and those that earlier runs left."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tidelog.causes import Cause
from tidelog.checkpoints.answers import SinkReader, reader_of
from tidelog.checkpoints.folder import LocalFolder
from tidelog.checkpoints.letters import Letter, read_letters
from tidelog.checkpoints.reports import Check, Commit, Problem, StateSize
from tidelog.checkpoints.tables import StateTable, snapshot_sizes, snapshot_tables
from tidelog.data.durable import HERE
from tidelog.data.sealed import unsealed_lines
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError, Refused
from tidelog.streaming.ledger import Ledger
from tidelog.streaming.snapshot import FILE, FORMAT, RUNS, SnapshotError, expect_letters

RESTORE = "restore it from a copy, or start with a new checkpoint"


class SnapshotCheckpoint:
    """A checkpoint with a snapshot for each of the last runs; a run is what has a number here."""

    engine = "duckdb"

    def __init__(self, folder: LocalFolder) -> None:
        self.folder = folder
        self.now = self._read(FILE)
        if not self.now["note"] or "ledger" not in self.now["note"]:
            raise Refused(
                f"{folder.shown(FILE)} was written by an older version, which kept no ledger: go on"
                " with the stream once, then ask again",
                code=Cause.OTHER_FORMAT,
            )

    def _read(self, *parts: str) -> dict[str, Any]:
        """The state in a snapshot, whatever stream it is of; Refused if it is not whole."""
        where = self.folder.shown(*parts)
        try:
            head, body = unsealed_lines(self.folder.read(*parts).decode())
        except ValueError:
            raise Refused(
                f"{where} is no snapshot, or damaged: {RESTORE}", code=Cause.DAMAGED
            ) from None
        if not isinstance(head, dict) or head.get("tidelog") != "snapshot":
            raise Refused(f"{where} is no snapshot, or damaged: {RESTORE}", code=Cause.DAMAGED)
        if head.get("format") != FORMAT:
            raise Refused(
                f"{where} has format {head.get('format')}, which another version of tidelog reads:"
                " use the version that wrote it",
                code=Cause.OTHER_FORMAT,
            )
        if body is None:
            raise Refused(f"{where} is damaged: {RESTORE}", code=Cause.DAMAGED)
        state: dict[str, Any] = json.loads(body)
        return state

    @property
    def note(self) -> dict[str, Any]:
        note: dict[str, Any] = self.now["note"]
        return note

    @property
    def id(self) -> str:
        return ""

    @property
    def rules(self) -> str:
        return str(self.now["rules"])

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(self.note["queries"])

    @property
    def options(self) -> dict[str, Any]:
        options = dict(self.note["options"])
        if self.ticks is not None:
            options["origin"] = self.ticks.moment(0).isoformat().replace("+00:00", "Z")
        return options

    @property
    def sink(self) -> str:
        return str(self.note["sink"])

    @property
    def ticks(self) -> Ticks | None:
        tick, origin = self.note["options"]["tick"], self.note["options"]["origin"]
        return None if tick is None else Ticks(Ticks.of(tick).length, int(origin or 0))

    # Runs

    @cached_property
    def numbers(self) -> list[int]:
        """Of the runs whose last snapshot is there, in order; the last one may be at work."""
        names = (entry.name.removesuffix(".json") for entry in self.folder.entries(RUNS))
        return [*sorted(int(n) for n in names if n.isdecimal()), int(self.note["run"])]

    def _place(self, number: int) -> tuple[str, ...]:
        return (FILE,) if number == self.note["run"] else (RUNS, f"{number}.json")

    def state_of(self, number: int) -> dict[str, Any]:
        """A snapshot as it is written down."""
        return self.now if number == self.note["run"] else self._read(*self._place(number))

    def commit(self, number: int) -> Commit:
        state = self.state_of(number)
        note = state["note"]
        total, answered = Ledger.of(note["ledger"]), note["answered"]
        before, known = Ledger(), {}
        if number - 1 in self.numbers:
            earlier = self.state_of(number - 1)["note"]
            before, known = Ledger.of(earlier["ledger"]), earlier["answered"]
        since = {name: n - before.as_json()[name] for name, n in total.as_json().items()}
        return Commit(
            number,
            self.folder.modified(*self._place(number)),
            state["tin"],
            note["tout"],
            state["closed"],
            Ledger.of(since),
            total,
            {query: n - known.get(query, 0) for query, n in answered.items()},
            answered,
            {},
            note["seen"],
            tuple(note["idle"]),
            (),
            state,
        )

    @property
    def last(self) -> Commit | None:
        return self.commit(self.numbers[-1])

    @property
    def possible(self) -> tuple[int, ...]:
        """The runs after which the stream can go on once more."""
        return tuple(number for number in self.numbers[:-1] if self._is_whole(number))

    def _is_whole(self, number: int) -> bool:
        try:
            note = self._read(*self._place(number))["note"]
            expect_letters(Path(self.folder.here()), self._stable(note))
        except DataError:
            return False
        return True

    def _stable(self, note: Mapping[str, Any]) -> list[list[Any]]:
        """The files of dead letters that grow; that of files is written anew by each run."""
        anew = "" if note["files"] is None else "part-00000"
        return [letter for letter in note["aside"] if letter[0] != anew]

    # State

    def sizes(self, commit: Commit) -> list[StateSize]:
        return snapshot_sizes(self.state(commit.number))

    def state(self, number: int) -> Iterator[StateTable]:
        state = self.state_of(number)
        yield from snapshot_tables(state["note"]["tables"], state)

    # Whether it is whole

    def problems(self) -> Iterator[Problem]:
        """What is missing or damaged, of all that snapshots refer to."""
        for number in self.numbers[:-1]:
            try:
                self._read(*self._place(number))
            except Refused as error:
                yield Problem.of(error)
        for letter in self.note["aside"]:
            try:
                expect_letters(Path(self.folder.here()), [letter])
            except SnapshotError as error:
                yield Problem.of(error)

    def reader(self, sink: str | None) -> SinkReader | str:
        return reader_of(sink or self.sink, self.id, self.engine)

    def sink_states(self) -> dict[int, Mapping[str, Any]]:
        """By run, what it remembers of its sink."""
        states: dict[int, Mapping[str, Any]] = {}
        for number in self.numbers:
            try:
                states[number] = self.state_of(number)["note"]["written"]
            except Refused:  # which is a problem of its own
                continue
        return states

    # The ledger, counted again

    def letters(self) -> Iterator[Letter]:
        """The dead letters up to the snapshot."""
        for part, size, _ in self.note["aside"]:
            yield from read_letters(
                Path(self.folder.here("dead_letters", f"{part}.json")), None, size
            )

    def checks(self) -> Iterator[Check]:
        """The ledger of the snapshot against the dead letters."""
        total = Ledger.of(self.note["ledger"])
        letters = list(self.letters())
        late = sum(letter.is_late for letter in letters)
        yield Check("rows in", total.rows, total.rows - total.difference)
        yield Check("late dead letters", total.late, late)
        yield Check("other dead letters", total.dead + total.skipped, len(letters) - late)

    def sink_checks(self, reader: SinkReader) -> Iterator[Check]:
        """The answers that the snapshot has counted against those in the sink."""
        found = reader.answers(0, self.note["written"])
        for query, count in self.note["answered"].items():
            yield Check(f"answers of {query}", count, found.by_query[query])
            yield Check(f"answers of {query} that are there again", 0, found.again[query])

    # Going back

    def sink_after(self) -> str:
        """What becomes of the answers that a rollback takes back."""
        if self.sink.partition(":")[0] in ("csv", "json", "jsonl"):
            return "the next start removes them from the sink, and they come again"
        return "they stay where they went, and come again"

    def roll_back(self, to: int) -> None:
        """Go back to the end of a run: its snapshot becomes the latest one, all or nothing."""
        note = self.state_of(to)["note"]
        if to != self.note["run"]:
            self.folder.write(self.folder.read(*self._place(to)), FILE)
        for number in self.numbers[:-1]:
            if number >= to:
                self.folder.drop(RUNS, f"{number}.json")
        for part, size, _ in self._stable(note):
            path = self.folder.here("dead_letters", f"{part}.json")
            if os.path.getsize(path) > size:
                HERE.cut(path, size)
                HERE.sync_file(path)


def is_in_process(folder: LocalFolder) -> bool:
    return folder.exists(FILE)
