"""A history: one seed decides what arrives, what breaks, what people do; all of it is checked."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, cast

from sim.disk import File, Node
from sim.machine import Box, Killed, Process
from sim.setting import Setting, messages_of, topic_of
from sim.spark_log import SparkError, SparkQuery
from sim.stream import (
    EXAMPLES,
    TICK,
    TOPIC,
    Batch,
    Choice,
    ModelBrokers,
    Row,
    Unit,
    identity_of,
    live_of,
    pipeline_of,
    plan_of,
    read,
    store_of,
)
from sim.targets import Target
from tidelog.data.letters import SKIPPED, kind_of
from tidelog.errors import DataError, Refused, TidelogWarning
from tidelog.pipeline.commit import LIVE_FROM, Checkpoint, Commit
from tidelog.pipeline.spark_log import LIVE, RESTORE, SPARK
from tidelog.pipeline.start import take_up
from tidelog.streaming.silence import Silence

STARTS = 12  # after which a stream without accidents has ended
# Calls that wait for the disk or for others.
WAITING = ("sync", "append", "send", "sent")
LOCKS = {"lock", ".spark.lock"}


class Violation(Exception):
    """What the product promises does not hold."""


@dataclass
class Copy:
    """A copy of a checkpoint, with the answers there were."""

    checkpoint: Node | None
    answers: Node | None
    number: int
    known: int | None


class History:
    """One seed."""

    def __init__(self, seed: int, *, trace: bool = False, **bias: Any) -> None:
        """`bias` are parts of the setting, which the seed does not decide then."""
        self.seed = seed
        self.box = Box(seed)
        self.random = self.box.random
        self.box.trace = [] if trace else None
        self.setting = replace(Setting.of(self.random), **bias)
        self.messages = messages_of(self.random, self.setting)
        self.sources = self._sources()
        self.arrived = {SPARK: len(self.sources[SPARK]) if self.setting.live else 0, LIVE: 0}
        self.times = self._times()
        self.deleted = self._deleted()
        self.kafka: dict[str, str] = {}  # options
        self.known: int | None = None  # facts up to this tick are in the history
        self.unreadable = self._unreadable()
        self.skip: set[str] = set()  # what the next start skips
        self.asked: set[str] = set()  # what any start was asked to skip
        self.last_units: tuple[Unit, ...] = ()  # of the last batch that was begun
        self.target = Target(self.setting.kind)
        self.copies: list[Copy] = []
        self.lateness = self.setting.lateness
        self.is_damaged = False
        self.went_back = False
        self.closed_early = False  # although more was to arrive
        self.had_accident = False  # in this start
        self.nesting = 0
        self.passed = 0  # calls that an accident lets pass
        self.box.linked = self._linked
        self.box.renaming = self._renaming

    def _sources(self) -> dict[str, list[Unit]]:
        """By query of Spark's the files with their messages, or the messages."""
        random, setting = self.random, self.setting
        inputs = setting.inputs
        name = inputs[0] if len(inputs) == 1 else None
        rows = [(f"kafka:in/0/{n}", message) for n, message in enumerate(self.messages)]
        if not setting.of_files:
            return {SPARK: [Unit(row[0], name, (row,)) for row in rows], LIVE: []}
        files: list[Unit] = []
        while rows:
            some = random.randint(1, 3)
            files.append(Unit(f"/in/{len(files)}", name, tuple(rows[:some])))
            del rows[:some]
        topic = topic_of(random, setting, self.messages) if setting.live else []
        rows = [(f"kafka:{TOPIC}/0/{n}", message) for n, message in enumerate(topic)]
        return {SPARK: files, LIVE: [Unit(row[0], name, (row,)) for row in rows]}

    def _times(self) -> list[int]:
        """The times of the topic's messages: each is sent after the one before and after its tick.

        Clocks of those who send may differ by a tick.
        """
        sent, times = 0, []
        for unit in self.sources[LIVE]:
            row = read(unit.data, self.setting.example)
            sent = max(sent, row.values[-1] * TICK if row.problem is None else 0)
            times.append(max(0, sent + self.random.randint(-TICK, TICK)))
        return times

    def _deleted(self) -> int:
        """So many messages of the topic were deleted before it is read."""
        if self.random.random() < 0.7:
            return 0
        return self.random.randint(0, len(self.sources[LIVE]) // 2)

    def _unreadable(self) -> set[str]:
        """The files that no start can read."""
        if not (self.setting.skips and self.setting.of_files):
            return set()
        files = self.sources[SPARK]
        units = self.random.sample(files, min(len(files), self.random.randint(0, 2)))
        return {unit.place for unit in units}

    @property
    def folder(self) -> str:
        return f"/c{self.target.number}"

    @property
    def choice(self) -> Choice:
        setting = self.setting
        return Choice(setting.example, self.lateness, setting.idle, setting.intervals)

    @property
    def plan(self) -> Any:
        return plan_of(self.choice)

    def note(self, text: str) -> None:
        if self.box.trace is not None:
            self.box.trace.append(f"-- {text}")

    # The whole of it

    def run(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TidelogWarning)
            for _ in range(self.setting.accidents + self.setting.people):
                self._plan_accident()
                self._start(is_last=False)
                if self.setting.people:
                    self._meddle()
            self.box.accident_at = -1
            self.arrived = {place: len(units) for place, units in self.sources.items()}
            for _ in range(STARTS):
                if self._start(is_last=True):
                    self._check_end()
                    return
        raise Violation("it does not come to an end")

    # Accidents

    def _plan_accident(self) -> None:
        span = self.random.choice((3, 30, 100, 300, 600))
        self.box.accident_at = self.box.calls + self.random.randint(1, span)
        kinds = {"power": self._power, "kill": self._kill, "error": self._error}
        kinds["pause"] = self._pause
        harm = kinds[self.random.choice(self.setting.harms)]
        self.box.accident = partial(self._at, self.setting.where, harm)
        self.passed = self.random.randrange(3)

    def _at(
        self, where: str, harm: Callable[[Process, str], None], process: Process, call: str
    ) -> None:
        """Do harm at one of the next calls of some kind."""
        if where in call:
            self.passed -= 1
            if not where or self.passed < 0:
                harm(process, call)
                return
        self.box.accident_at = self.box.calls + 1

    def _power(self, process: Process, call: str) -> None:
        self.note("power is lost")
        self.had_accident = True
        process.dead = True
        self.box.lose_power()

    def _kill(self, process: Process, call: str) -> None:
        self.note("killed")
        self.had_accident = True
        process.die()

    def _error(self, process: Process, call: str) -> None:
        self.had_accident = True
        number = self.random.choice((errno.EIO, errno.ENOSPC))
        self.note(os.strerror(number))
        raise OSError(number, os.strerror(number))

    def _pause(self, process: Process, call: str) -> None:
        """It sleeps and loses its locks; another one is started, and ends before it goes on.

        That happens where it waits for the disk or for others.
        """
        if self.nesting or not call.startswith(WAITING):
            self.box.accident_at = self.box.calls + 1
            return
        self.had_accident = True
        self.note("paused")
        self.nesting += 1
        if self.random.random() < 0.3 and self.box.locks:
            self._expect_lock()
        self.box.locks.clear()
        self.box.accident_at = -1
        if self.random.random() < 0.7:  # it is killed, most often in its first batch
            self.box.accident_at = self.box.calls + self.random.randint(1, 80)
            where = self.random.choice(("", "/state/"))  # soon after it has removed what is begun
            self.box.accident = partial(self._at, where, self._kill)
            self.passed = self.random.randrange(2)
        self._start(is_last=False)
        self.had_accident = True
        self.nesting -= 1
        self.box.locks.clear()
        self.note("goes on")

    def _expect_lock(self) -> None:
        """As long as a process has its locks, no other one may use the checkpoint."""
        other, before = self.box.process(), self._tree()
        point = Checkpoint(store_of(other, self.folder))
        try:
            point.take()
        except Refused as error:
            if "is in use by process" not in str(error) or self._tree() != before:
                raise Violation(f"a second process: {error}") from None
            return
        finally:
            point.release()
        if f"{self.folder}/lock" in self.box.locks:
            raise Violation("two processes have taken the checkpoint")

    # A start

    def _start(self, *, is_last: bool) -> bool:
        """Run a process; whether the stream has come to its end."""
        self.note(f"start{' without accidents' if is_last else ''}")
        if not self.nesting:
            self.had_accident = False
        process = self.box.process()
        before = None if self.box.accident_at > self.box.calls else self._tree()
        stage = ["begin"]
        try:
            return self._process(process, stage, is_last=is_last)
        except Killed:
            return False
        except (DataError, SparkError, OSError) as error:
            self.note(f"{type(error).__name__}: {error}")
            if not isinstance(error, DataError) and not self.had_accident:
                raise Violation(f"shown raw: {error!r}") from error
            if self.had_accident:
                return False
            if stage == ["begin"] and before is not None and self._tree() != before:
                raise Violation(f"refused, and not untouched: {error}") from error
            if stage != ["begin"] and RESTORE in str(error):
                raise Violation(f"refused too late: {error}") from error
            self._remedy(str(error))
            return False
        finally:
            process.die()

    def _tree(self) -> dict[str, bytes]:
        tree = self.box.disk.tree()
        return {p: data for p, data in tree.items() if p.rpartition("/")[2] not in LOCKS}

    def _process(self, process: Process, stage: list[str], *, is_last: bool) -> bool:
        random, setting, plan = self.random, self.setting, self.plan
        point = Checkpoint(store_of(process, self.folder))
        sink = self.target.sink(process)
        try:
            take_up(point, sink, identity_of(self.choice, sink.name), plan, lambda: None)
        except BaseException:
            point.release()
            sink.close()
            raise
        stage[:] = ["run"]
        stream = pipeline_of(setting.example, plan, point, sink, self._told, process.now, self.skip)
        try:
            first = self._live(process, stream, is_last=is_last) if setting.live else 0
            if first is None:
                return False
            place = LIVE if setting.live else SPARK
            is_whole = self._batches(process, stream, place, first, is_last=is_last)
            if is_last or random.random() < (0.3 if is_whole else 0.15):
                if is_whole is None:  # a batch that was planned comes first
                    return False
                self.closed_early |= not is_whole
                if point.last is None or not point.last.clock.closed:
                    stream.close_time()
                return is_last
            return False
        finally:
            stream.close()

    def _live(self, process: Process, stream: Any, *, is_last: bool) -> int | None:
        """Read the history to its end, if that is to be done; where the messages begin then."""
        arrived = max(self.deleted, self.arrived[LIVE])
        brokers = ModelBrokers(self.deleted, self.times[:arrived])
        live = live_of(self.plan, stream.checkpoint, brokers, self.kafka)
        if not live.begun:
            silence, stream.silence = stream.silence, Silence({})
            if not self._batches(process, stream, SPARK, 0, is_last=is_last):
                return None
            silence.hear(silence.limits)
            stream.silence = silence
            last = stream.checkpoint.last
            self.known = None if last is None else last.clock.tin
        handover = live.handover()
        self.note(f"goes on with {handover}")
        if handover.known != self.known:
            raise Violation(f"{handover}, and the history ended at {self.known}")
        (offsets,) = handover.offsets
        return offsets[TOPIC]["0"] if offsets else self.deleted

    def _batches(
        self, process: Process, stream: Any, place: str, first: int, *, is_last: bool
    ) -> bool | None:
        """Do batches of a query of Spark's; whether all that arrives is in one.

        None if the last one is planned and not done.
        """
        random, setting, units = self.random, self.setting, self.sources[place]
        query = SparkQuery(
            process,
            f"{self.folder}/{place}",
            files=setting.of_files and place == SPARK,
            checksums=setting.checksums,
            compact=setting.compact,
            first=first,
        )
        while is_last or random.random() < 0.85:
            there = min(len(units), self.arrived[place] + random.randint(0, 3))
            self.arrived[place] = there
            self.box.time += random.choice((0.0, 1.0, 10.0))
            if setting.idle and random.random() < 0.5 and stream.is_held_up:
                stream.quiet()
            if query.plan(there, random.randint(1, 4)):
                self.last_units = tuple(units[number] for number in query.batch)
                stream.deliver(place, query.planned, partial(cast, Any, self._offered(place)))
                query.note_done()
            elif there == len(units):
                break
        if query.done < query.planned:
            return None
        return self.arrived[place] == len(units) and not query.plan(len(units), 1)

    def _offered(self, place: str) -> Batch:
        known = self.known if place == LIVE else None
        return Batch(
            self.last_units,
            frozenset(self.skip),
            frozenset(self.unreadable),
            known,
            self.setting.example,
        )

    # At every commit

    def _linked(self, path: str) -> None:
        """All that a commit refers to is on the disk before it."""
        folder, _, name = path.rpartition("/")
        if not folder.endswith("/commits") or not folder.startswith(self.folder):
            return
        disk, root = self.box.disk, self.folder
        commit = json.loads(disk.file(path).data)
        files: list[tuple[str, list[Any]]] = []
        for part in (*commit["state"], *commit["stretches"]):
            files += [(f"{root}/state/{part['folder']}", file) for file in part["files"]]
        files += [
            (f"{root}/dead_letters/batch={commit['batch']}", file) for file in commit["letters"]
        ]
        sink = commit["sink"]
        for place, some in sink.get("files", {}).items():
            files += [(f"{self.target.path}/{place}", file) for file in some]
        for place, (file, size, digest) in files:
            data = disk.durable(f"{place}/{file}")
            if data is None or len(data) != size or hashlib.sha256(data).hexdigest() != digest:
                raise Violation(f"commit {name} refers to {place}/{file}, which is not durable")
        if "bytes" in sink:
            data = disk.durable(f"{self.target.path}/answers.jsonl") or b""
            last = data[sink["begin"] : sink["bytes"]]
            if hashlib.sha256(last).hexdigest() != sink["sha256"]:
                raise Violation(f"commit {name} refers to lines that are not durable")
        if commit["spark"] is not None:
            place, number = commit["spark"]["place"], commit["spark"]["number"]
            plan = disk.durable(f"{root}/{place}/offsets/{number}")
            if plan is None or hashlib.sha256(plan).hexdigest() != commit["spark"]["offsets"]:
                raise Violation(f"commit {name} refers to a plan of Spark's that is not durable")
            if not disk.durable(f"{root}/{place}/metadata"):
                raise Violation(f"commit {name} refers to a query that is not durable")
            if place == LIVE and not disk.durable(f"{root}/{LIVE_FROM}"):
                raise Violation(f"commit {name} is live, and where that begins is not durable")
        for needed in ("tidelog.json", "rigid/complete.json"):
            if not disk.durable(f"{root}/{needed}"):
                raise Violation(f"commit {name} needs {needed}, which is not durable")

    def _renaming(self, source: str, path: str) -> None:
        """A commit is made once, and so is what a stream is and where it goes on."""
        folder, _, name = path.rpartition("/")
        is_once = folder == self.folder and name in ("tidelog.json", LIVE_FROM)
        is_once |= folder == f"{self.folder}/commits"
        if is_once and self.box.disk.node(path):
            raise Violation(f"{path} is replaced")

    def _told(self, commit: Commit) -> None:
        """A commit that anybody hears of is on the disk, and its ledger balances."""
        if commit.ledger.difference or commit.total.difference:
            raise Violation(f"commit {commit.batch}: {commit.ledger}, {commit.total} in all")
        if self.nesting and self.box.locks.get(f"{self.folder}/lock") is None:
            return
        if not self.box.disk.durable(f"{self.folder}/commits/{commit.batch}.json"):
            raise Violation(f"commit {commit.batch} is told of and not durable")

    # People

    def _meddle(self) -> None:
        """Somebody does something to the checkpoint while nothing runs."""
        disk, random = self.box.disk, self.random
        if self.setting.skips and random.random() < 0.5:
            self._change_skip()
        choice = random.choice(self.setting.acts)
        if choice < 6:
            disk.settle()
        match choice:
            case 0 | 1 if disk.node(f"{self.folder}/tidelog.json") is not None:
                self.note("a copy is taken")
                self.copies.append(self._copy())
            case 2 if self._old_copies:
                self._restore(random.choice(self._old_copies), with_answers=False)
            case 3 if self.copies:
                self.note("a copy that was taken while it ran is restored")
                parts = disk.copy(self.folder), self._old_copies
                if parts[0] is not None and parts[1]:
                    old = disk.copy(f"{self.folder}/spark")
                    self._restore(random.choice(parts[1]), with_answers=False)
                    if random.random() < 0.5 and disk.node(self.folder) is not None:
                        disk.put(f"{self.folder}/spark", old)
                    self.is_damaged = True
            case 4:
                place = random.choice((SPARK, LIVE)) if self.setting.live else SPARK
                if disk.node(f"{self.folder}/{place}") is not None:
                    self.note(f"{place}/ is deleted")
                    disk.put(f"{self.folder}/{place}", None)
                    self.is_damaged = True
            case 5:
                self._damage()
            case 6:  # a batch that was begun may become another one
                self.lateness, self.went_back = 1 - self.lateness, True
                self.note(f"lateness becomes {self.lateness}")
            case _:
                pass

    def _change_skip(self) -> None:
        """Somebody skips one more file or message, or nothing any more.

        A batch that was begun may become another one.
        """
        self.went_back = True
        if self.skip and self.random.random() < 0.4:
            self.note("nothing is skipped")
            self.skip.clear()
        else:
            some = self.last_units if self.random.random() < 0.7 else ()
            units = [unit for units in self.sources.values() for unit in units]
            self._skip(self.random.choice(some or units).place)

    def _skip(self, place: str) -> None:
        self.note(f"{place} is skipped")
        self.skip.add(place)
        self.asked.add(place)

    @property
    def _old_copies(self) -> list[Copy]:
        return [copy for copy in self.copies if copy.number == self.target.number]

    def _copy(self) -> Copy:
        disk = self.box.disk
        number, known = self.target.number, self.known
        return Copy(disk.copy(self.folder), disk.copy(self.target.path), number, known)

    def _restore(self, copy: Copy, *, with_answers: bool) -> None:
        self.note(f"a copy is restored{' with the answers' if with_answers else ''}")
        self.went_back, self.known = True, copy.known
        self.box.disk.put(self.folder, copy.checkpoint)
        if with_answers:
            self.box.disk.put(self.target.path, copy.answers)

    def _damage(self) -> None:
        """Lose a file that is needed, or some of its bytes."""
        disk, random = self.box.disk, self.random
        needed = self._last_plan() if random.random() < 0.25 else self._needed()
        files = [path for path in needed if isinstance(disk.node(path), File)]
        if not files:
            return
        kinds: dict[str, list[str]] = {}  # some have few files
        for path in files:
            kinds.setdefault("/".join(path.split("/")[:3]), []).append(path)
        path = random.choice(random.choice(list(kinds.values())))
        folder, name = disk.above(path)
        data = bytes(disk.file(path).data)
        self.is_damaged = True
        if random.random() < 0.4:
            self.note(f"{path} is removed")
            disk.put(path, None)
            return
        commit = self._last_commit()
        begin = 0
        if commit is not None and name == "answers.jsonl":
            begin = commit["sink"]["begin"]  # it has the digest of the last lines
        flipped = data[:begin] + _flipped(data[begin:], random)
        changed = random.choice((b"", data[: len(data) // 2], data[:-1], flipped))
        is_sparks = f"/{SPARK}/" in path or f"/{LIVE}/" in path
        is_known = disk.node(f"{path.rpartition('/')[0]}/.{name}.crc") or path in self._last_plan()
        if is_sparks and not is_known and len(changed) == len(data):
            changed = b""  # without checksums nobody could tell
        self.note(f"{path} is damaged")
        file = File()
        file.data = bytearray(changed)
        file.sync()
        folder.names[name] = folder.durable[name] = file

    def _last_plan(self) -> list[str]:
        """What the last commit names of Spark's logs: a batch's plan, and the query."""
        commit = self._last_commit()
        if commit is None or commit["spark"] is None:
            return []
        place = f"{self.folder}/{commit['spark']['place']}"
        return [f"{place}/offsets/{commit['spark']['number']}", f"{place}/metadata"]

    def _needed(self) -> list[str]:
        """The files that the last commit needs, and Spark's own."""
        disk, root = self.box.disk, self.folder
        files = [f"{root}/tidelog.json", f"{root}/rigid/complete.json"]
        files += [f"{root}/{LIVE_FROM}"] if disk.node(f"{root}/{LIVE_FROM}") else []
        for name in (SPARK, LIVE, "idle"):
            files += list(disk.tree(f"{root}/{name}"))
        commit = self._last_commit()
        if commit is not None:
            files.append(f"{root}/commits/{commit['batch']}.json")
            for part in (*commit["state"], *commit["stretches"]):
                files += list(disk.tree(f"{root}/state/{part['folder']}"))
            files += list(disk.tree(f"{root}/dead_letters/batch={commit['batch']}"))
            for place in commit["sink"].get("files", {}):
                files += list(disk.tree(f"{self.target.path}/{place}"))
            if commit["sink"].get("bytes"):
                files.append(f"{self.target.path}/answers.jsonl")
        return sorted(files)

    def _remedy(self, text: str) -> None:
        """Do what a refusal says."""
        disk, goes_back = self.box.disk, self.went_back or self.is_damaged
        taken = re.search(r"deltalake\.DeltaTable\('([^']*)'\)\.restore\((\d+)\)", text)
        if goes_back and taken:
            self.note(f"table {taken[1]} is restored to {taken[2]}")
            self.target.tables.restore(taken[1], int(taken[2]))
            return
        whole = re.search(r"restored from a copy: delete (\S+); then start again", text)
        if goes_back and whole:
            del self.target.tables.entries[whole[1]]
            return
        torn = re.search(r": delete (.*), then start again", text)
        if torn:
            for path in torn[1].split(" and "):
                self.note(f"{path} is deleted")
                if disk.node(path) is None:
                    raise Violation(f"told to delete what is not there: {text}")
                disk.put(path, None)
            return
        unreadable = re.search(r"--skip (\S+)", text)
        if unreadable:
            if unreadable[1] not in self.unreadable:
                raise Violation(f"told to skip what can be read: {text}")
            if self.random.random() < 0.2:
                self.note(f"{unreadable[1]} is repaired")
                self.unreadable.discard(unreadable[1])
            else:
                self._skip(unreadable[1])
            return
        if "startingOffsets=earliest" in text and self.deleted:
            self.kafka["startingOffsets"] = "earliest"
            return
        if not self.is_damaged and not (self.closed_early and "is closed: " in text):
            raise Violation(f"refused: {text}")
        if "start with a new" not in text and "name a new" not in text:
            raise Violation(f"no way on: {text}")
        if "copy" in text and self._old_copies and self.random.random() < 0.7:
            self._restore(self._old_copies.pop(), with_answers=self.setting.kind != "delta")
            self.copies.clear()
            return
        self.note("a new checkpoint")
        self.target.number += 1
        self.target.topic.messages.clear()
        self.is_damaged = self.went_back = self.closed_early = False

    # At the end

    def _check_end(self) -> None:
        """Every row is a fact, late, dead or skipped, once; so is each answer."""
        commit = self._last_commit()
        assert commit is not None
        letters = self._letters(commit["batch"])
        twice = [place for place, some in letters.items() if len(some) > 1]
        if twice:
            raise Violation(f"{twice} are dead letters twice")
        reasons = {place: some[0] for place, some in letters.items()}
        units = self._offered_units()
        skipped = {unit.place for unit in units if self._is_skipped(unit, reasons)}
        facts: dict[str, set[tuple[str, int]]] = {name: set() for name in self.plan.inputs}
        before: list[int] = []  # ticks
        found: Counter[str] = Counter(rows=len(skipped), skipped=len(skipped))
        for unit in units:
            for place, message in () if unit.place in skipped else unit.rows:
                row = read(message, self.setting.example)
                if unit.place.startswith(f"kafka:{TOPIC}/") and self._is_known(row):
                    if place in reasons:
                        raise Violation(f"row {place} is in the history, and {reasons[place]}")
                    continue
                kind = self._became(place, row, reasons, before)
                found.update(["rows", kind])
                if kind == "facts":
                    facts[row.predicate or ""].add((row.values[0], row.values[1]))
            rows = [read(message, self.setting.example) for _, message in unit.rows]
            before += [row.values[-1] for row in rows if row.problem is None]
        self._check_ledger(commit, found, len(letters))
        self._check_answers(facts, commit["clock"]["tin"])

    def _offered_units(self) -> list[Unit]:
        """The files, and the messages from where they begin."""
        units = list(self.sources[SPARK])
        if self.setting.live:
            handover = json.loads(self.box.disk.file(f"{self.folder}/{LIVE_FROM}").data)
            (offsets,) = handover["offsets"]
            first = offsets[TOPIC]["0"] if offsets else self.deleted
            accepted = self.deleted if self.kafka else 0  # people know of the gap
            for unit in self.sources[LIVE][accepted:first]:
                row = read(unit.data, self.setting.example)
                if row.problem is None and not self._is_known(row):
                    raise Violation(f"{unit.place} is left out: {handover}")
            units += self.sources[LIVE][first:]
        return units

    def _is_known(self, row: Row) -> bool:
        """Whether the history has a message's fact."""
        return row.problem is None and self.known is not None and row.values[-1] <= self.known

    def _is_skipped(self, unit: Unit, reasons: dict[str, str]) -> bool:
        """Whether a unit is skipped, which its dead letter says; Violation if nobody asked."""
        reason = reasons.get(unit.place, "")
        if not reason.startswith(SKIPPED):
            if unit.place in self.unreadable:
                raise Violation(f"{unit.place} cannot be read, and is not skipped")
            return False
        digest = hashlib.sha256(unit.data).hexdigest()
        if unit.place not in self.asked or digest not in reason:
            raise Violation(f"{unit.place} is {reason}, and nobody asked for that")
        if any(place in reasons for place, _ in unit.rows if place != unit.place):
            raise Violation(f"{unit.place} is skipped, and its rows are dead letters")
        return True

    def _became(self, place: str, row: Row, reasons: dict[str, str], before: list[int]) -> str:
        """What a row has become, by the dead letters."""
        reason = reasons.get(place)
        if row.problem is not None:
            if reason is None:
                raise Violation(f"row {place} is neither a fact nor a dead letter")
            return "dead"
        if reason is None:
            return "heartbeats" if row.predicate is None else "facts"
        if kind_of({"reason": reason}) != "late":
            raise Violation(f"row {place} is {reason}")
        later = before
        if self.setting.of_files:  # files may be read in any order within a batch
            rows = [read(message, self.setting.example) for message in self.messages]
            later = before + [row.values[-1] for row in rows if row.problem is None]
        if not any(other > row.values[-1] for other in later):
            raise Violation(f"row {place} is late, and nothing later came before it")
        return "late"

    def _check_ledger(self, commit: dict[str, Any], found: Counter[str], letters: int) -> None:
        """The totals of the last commit are those of the rows, and so are those of its inputs."""
        totals = commit["totals"]
        kinds = ("rows", "facts", "late", "dead", "skipped", "heartbeats")
        if {kind: totals[kind] for kind in kinds} != {kind: found[kind] for kind in kinds}:
            raise Violation(f"totals {totals} of {dict(found)}")
        if totals["late"] + totals["dead"] + totals["skipped"] != letters:
            raise Violation(f"{letters} dead letters for {totals}")
        by_input = commit["by_input"].values()
        for kind in ("facts", "late"):
            if sum(ledger[kind] for ledger in by_input) != totals[kind]:
                raise Violation(f"{by_input} of {totals}")

    def _check_answers(self, facts: dict[str, set[tuple[str, int]]], tin: int | None) -> None:
        """The answers up to the last tick are there, and no others."""
        known = EXAMPLES[self.setting.example].answers
        last = max((t for some in facts.values() for _, t in some), default=tin)
        if last is not None and (tin is None or tin < last):
            raise Violation(f"the last tick is {last}, and the stream ended at {tin}")
        rows = [
            (query, x, t)
            for query, answers in known.items()
            for x, t in answers(facts)
            if tin is not None and t <= tin
        ]
        expected = Counter(_intervals(rows) if self.setting.intervals else rows)
        found = Counter(self.target.answers(self.box.disk, self.plan.queries))
        if self.setting.kind == "kafka":
            if self.went_back or self.is_damaged:
                found = Counter(dict.fromkeys(found.keys() & expected.keys(), 1))
            found = Counter(dict.fromkeys(found, 1))
        if found != expected:
            more, fewer = dict(found - expected), dict(expected - found)
            raise Violation(f"answers: {more} too many, {fewer} missing")

    def _last_commit(self) -> dict[str, Any] | None:
        files = self.box.disk.tree(f"{self.folder}/commits")
        names = {path.rpartition("/")[2]: data for path, data in files.items()}
        numbers = [int(n.removesuffix(".json")) for n in names if not n.startswith(".")]
        return json.loads(names[f"{max(numbers)}.json"]) if numbers else None

    def _letters(self, last: int) -> dict[str, list[str]]:
        """The reasons of the dead letters, by the place of what they are of."""
        letters: dict[str, list[str]] = {}
        for path, data in self.box.disk.tree(f"{self.folder}/dead_letters").items():
            folder, name = path.split("/")[-2:]
            if (
                not name.startswith(".")
                and folder.startswith("batch=")
                and int(folder.removeprefix("batch=")) <= last
            ):
                for letter in map(json.loads, data.splitlines()):
                    place = letter.get("file") or "kafka:{topic}/{partition}/{offset}".format_map(
                        letter
                    )
                    letters.setdefault(place, []).append(letter["reason"])
        return letters


def _intervals(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Answers with the first and the last of ticks that follow each other."""
    known = set(rows)
    intervals: list[tuple[Any, ...]] = []
    for query, x, first in known:
        if (query, x, first - 1) not in known:
            last = first
            while (query, x, last + 1) in known:
                last += 1
            intervals.append((query, x, first, last))
    return intervals


def _flipped(data: bytes, random: Random) -> bytes:
    """The same bytes but for one."""
    if not data:
        return b"x"
    digits = [at for at, byte in enumerate(data) if byte in b"0123456789"]
    at = random.choice(digits) if digits and random.random() < 0.5 else random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
