"""`tidelog run` in process: facts from files or standard input, a tick at a time."""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog import Step, Stream
from tidelog.analysis.passes import passes
from tidelog.cli.running import RunLog, StreamTask, starting
from tidelog.data.letters import SHOWN, DeadLetter, letter_text, refuse_useless
from tidelog.data.schema import resolve, schemas
from tidelog.data.ticks import time_text
from tidelog.data.writers import stamped
from tidelog.errors import DataError, warn_missing
from tidelog.evaluation.duckdb import Engine
from tidelog.language.diagnostics import visible
from tidelog.streaming import feeds
from tidelog.streaming.clock import Pace, ahead_reason, late_reason
from tidelog.streaming.options import expect_inputs
from tidelog.streaming.silence import Silence, patiently
from tidelog.streaming.sinks import sink_of
from tidelog.streaming.sinks.sink import LocalAnswers
from tidelog.streaming.snapshot import CheckpointFolder
from tidelog.streaming.stream import warn_overtaken
from tidelog.streaming.watch import Watch
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.analysis.definitive import Pending


def in_process(task: StreamTask, log: RunLog, *, watched: bool) -> list[Pending] | None:
    """Run to the end; what is pending then, if that is asked for.

    With `watched`, what becomes of pending answers is told on standard error meanwhile.
    """
    run = _InProcess(task, log, watched)
    try:
        if run.folder is not None and not run.folder.begun:
            run.save(run.folder)
        run.feed()
        left = run.stream.pending() if task.pending else None
        if not task.keep_open:
            run.step(run.stream.close(), 0)
        if run.folder is not None:
            run.save(run.folder)
    finally:
        run.sink.close()
        if run.folder is not None:
            run.folder.release()
    return left


class _InProcess:
    """A stream with what feeds it, where its answers go, and its checkpoint."""

    def __init__(self, task: StreamTask, log: RunLog, watched: bool) -> None:
        self.task, self.log = task, log
        options, asked = task.options, task.queries
        known = schemas(resolve(task.program, {}), asked)
        rigid = self._rigid()
        below = passes(task.program, asked).dependencies.core.inputs
        needed = sorted({predicate.base for predicate in below if predicate.temporal})
        if any(name in task.program.clocks for name in needed):
            # Clocks start at the first fact of any input.
            needed = [name for name, schema in known.items() if schema.time is not None]
        self.inputs = {name: known[name] for name in needed}
        with starting():
            # What lies too far ahead is kept from it here, as on Spark: it cannot know the gaps.
            pushed = {**options.pushed(), "max_jump": None}
            # Readers tell timestamps in ticks before facts are pushed.
            self.stream = Stream(task.program.in_whole_ticks, asked, rigid=rigid, **pushed)
            warn_overtaken(self.stream.deps, options.sparse)
            expect_inputs(options.idle, {n for n, s in known.items() if s.time is not None})
        self.sink = sink_of(task.sink)
        self.folder = None if task.checkpoint is None else CheckpointFolder(task.checkpoint)
        pace = Pace(tuple(self.inputs), options.lateness, frozenset(options.sparse))
        self.aside: list[DeadLetter] = []  # rows that are not used and not told of yet
        self.lines = feeds.Lines(self.inputs, known, pace, options.ticks, options.max_jump)
        self.lines.aside, self.lines.told = self.aside, self._show_unused
        self.lines.silence = Silence(options.silence_limits(pace.held))
        self.letters = 0  # bytes of dead letters in the checkpoint
        self.resumed = False
        self.files: dict[str, dict[str, int]] | None = None  # facts by input and file, if known
        self.again = 0  # facts that are pushed once more
        self.late_letters = 0  # bytes of them in the checkpoint
        self.useless: Counter[str | None] = Counter()  # rows that are not used, by input
        self.pushed: int | None = None
        try:
            self._begin()
        except BaseException:
            if self.folder is not None:
                self.folder.release()
            raise
        self.watch = Watch(self.stream) if watched else None

    def _rigid(self) -> dict[str, Any]:
        """The facts without time, by input."""
        task, known = self.task, schemas(self.task.program)
        timeless = frozenset(name for name, schema in known.items() if schema.time is None)
        path = task.rigid or (None if task.facts == "-" else task.facts)
        rigid: dict[str, Any] = {}
        ticks, show, asked = task.options.ticks, self.log.show, task.queries
        with Engine(task.program, path, ticks, True, show, timeless, asked) as engine:
            for name in timeless:
                view = engine.loaded[name].view
                columns = [column.name for column in known[name].columns]
                if columns:
                    rigid[name] = engine.arrow(f"SELECT * FROM {view}").rename_columns(columns)
                else:
                    rigid[name] = [()] * engine.one(f"SELECT count(*) FROM {view}")[0]
        return rigid

    def _begin(self) -> None:
        """Make the sink ready, and go on from the checkpoint where there is one."""
        queries, written = self.task.queries, None
        if self.folder is not None:
            written = self._restore(self.folder) if self.folder.begun else None
            if self.sink.cannot_resume is not None:
                raise DataError(self.sink.cannot_resume)
        self.sink.check("", fresh=written is None)
        self.sink.prepare(queries, fresh=written is None)
        if written is not None:
            self.sink.discard(0, queries, written)

    def feed(self) -> None:
        """Push all facts, from standard input or from files."""
        task = self.task
        if task.facts == "-":
            self._push(self.lines.pushes(self._arriving()))
            self._count_aside()
            self._refuse_useless(self.lines.seen)
            for name in sorted(self.inputs.keys() - self.lines.seen.keys()):
                warn_missing(name, task.program.needing(name, task.queries))
            return
        ticks, only = task.options.ticks, frozenset(self.inputs)
        self.letters = 0  # the files are read from the beginning
        with Engine(
            task.program, task.facts, ticks, True, self.log.show, only, task.queries, self.aside
        ) as engine:
            self._count_aside()
            loaded = engine.loaded
            self._refuse_useless([name for name in only if not loaded[name].range.empty])
            self._put_late_aside(engine)
            last = self._put_far_aside(engine)
            tin, until = self.stream.tin, self._until(engine, last)
            self.log.held = any(min(loaded[name].range.high, last) > until for name in only)
            self._push(feeds.from_files(engine, self.inputs, tin, until, self.pushed))

    def _arriving(self) -> Iterable[bytes | None]:
        """The lines of standard input; None now and then where somebody may fall silent."""
        lines, silence = sys.stdin.buffer, self.lines.silence
        if not silence.limits:
            return lines
        return patiently(lines, lambda: silence.next(self.lines.idle))

    def _put_far_aside(self, engine: Engine) -> float:
        """Put rows aside that lie too far ahead; the last tick of all others."""
        most, ticks = self.task.options.max_jump, self.task.options.ticks
        last = None if most is None else feeds.first_leap(engine, self.inputs, most)
        if most is None or last is None:
            return math.inf
        for name, schema in self.inputs.items():
            for tick, place, came in engine.loader.after(schema, engine.loaded[name], last):
                reason = ahead_reason(tick, last, most, ticks)
                self.aside.append(DeadLetter(name, reason, place, came))
        self._count_aside()
        return last

    def _until(self, engine: Engine, last: float) -> float:
        """The last tick to push: a stream that goes on later may get more facts of the last one."""
        if self.folder is None or not self.task.keep_open:
            return last
        seen: dict[str, int] = {}
        for name in self.inputs:
            loaded = engine.loaded[name]
            if loaded.range.low <= last:
                few = "" if loaded.range.high <= last else f" WHERE t <= {last}"
                (seen[name],) = engine.one(f"SELECT max(t) FROM {loaded.view}{few}")
        tin = self.lines.pace.tin(seen)
        return -math.inf if tin is None else tin + self.task.options.lateness

    def _put_late_aside(self, engine: Engine) -> None:
        """Put rows aside that came since the run before, at times that had been complete there."""
        if self.folder is None:
            return
        before, loaded = self.files, {name: engine.loaded[name] for name in self.inputs}
        self.files = {
            name: {os.path.abspath(where): n for where, n in engine.loader.counts(one).items()}
            for name, one in loaded.items()
        }
        tin, pushed, ticks = self.stream.tin, self.pushed, self.task.options.ticks
        if before is None or tin is None or pushed is None:
            return
        self.again = self._between(engine, tin, pushed)
        late: list[DeadLetter] = []
        for name, one in loaded.items():
            had = before.get(name, {})
            if sum(self.files[name].values()) <= sum(had.values()):
                continue  # nothing new, though files may have been moved
            known = {where: had.get(os.path.abspath(where), 0) for where in one.sources}
            for tick, place, came in engine.loader.added(self.inputs[name], one, known, pushed):
                if tick > tin:
                    self.again -= 1
                else:
                    late.append(DeadLetter(name, late_reason(tick, tin, ticks), place, came))
        if late:
            lines, after = [x.line() for x in late], self.late_letters
            self.late_letters = self.folder.put_aside(lines, after, "late")
            self.log.totals["late"] = self.log.totals.get("late", 0) + len(late)
            self.log.unused += (x.as_json() for x in late[: SHOWN - len(self.log.unused)])

    def _between(self, engine: Engine, after: int, until: int) -> int:
        """How many facts there are after a tick and up to one."""
        if after >= until:
            return 0
        views = [engine.loaded[name].view for name in self.inputs]
        some = f"t > {after} AND t <= {until}"
        return sum(engine.one(f"SELECT count(*) FROM {v} WHERE {some}")[0] for v in views)

    def _push(self, pushes: Iterable[feeds.Push]) -> None:
        for tick, facts in pushes:
            self.pushed, size = tick, sum(len(rows) for rows in facts.values())
            again = min(self.again, size)
            self.again -= again
            self.step(self.stream.push(tick, facts), size - again)

    def step(self, step: Step, size: int) -> None:
        """Write what a push of so many facts brought, and tell of it."""
        answers = {q: self._shown(q, t) for q, t in step.answers.items() if t.num_rows}
        self.sink.write(self.log.batches, {q: LocalAnswers(t) for q, t in answers.items()})
        for change in self.watch.after(step) if self.watch is not None else ():
            terminal.stderr().print(
                visible(change.text(self.task.options.ticks)), markup=False, highlight=False
            )
        late = sum(len(rows) for rows in step.late.values())
        for name, rows in step.late.items():
            self.aside += (self._letter(name, row) for row in rows)
        self.lines.late.clear()
        unused = self._put_aside()
        for name, queries in step.could_change.items() if self.stream.deps.negated else ():
            said = f"late: facts of {name} could have changed answers given of {', '.join(queries)}"
            terminal.stderr().print(visible(said), markup=False, highlight=False)
        now: dict[str, Any] = {
            "batch": self.log.batches,
            "tin": step.tin,
            "tout": step.tout,
            "history": step.history,
        }
        if self.task.facts == "-":
            clock = replace(self.lines.clock, tin=step.tin, closed=self.stream.closed)
            now |= self.log.awaited(self.lines.pace.waits_for(clock), clock)
        count = sum(table.num_rows for table in answers.values())
        self.log.batch(now, facts=size - late, late=late, dead=unused - late, answers=count)
        if self.folder is not None and self.folder.due:
            self.save(self.folder)

    def _letter(self, name: str, row: tuple[Any, ...]) -> DeadLetter:
        """A fact that the stream gave back: it is late."""
        if (name, row) in self.lines.late:
            return self.lines.late[name, row]
        ticks, tin = self.task.options.ticks, self.stream.tin
        *values, time = row
        shown = time if ticks is None else time_text(time, ticks)
        came = dict(zip(self.inputs[name].names, [*values, shown], strict=True))
        return DeadLetter(name, late_reason(time, tin, ticks), None, json.dumps(came))

    def _put_aside(self) -> int:
        """Write and tell of the rows that are not used; how many they are."""
        letters = list(self.aside)
        self.aside.clear()
        self.useless.update(x.predicate for x in letters if x.predicate in self.inputs)
        if letters and self.folder is not None:
            self.letters = self.folder.put_aside([x.line() for x in letters], self.letters)
        self.log.unused += (x.as_json() for x in letters[: SHOWN - len(self.log.unused)])
        return len(letters)

    def _show_unused(self, letter: DeadLetter) -> None:
        """Say at once what a line could not be used for: more lines may take long to come."""
        self.log.show(f"a line could not be used: {letter_text(letter.as_json())}")

    def _refuse_useless(self, useful: Container[str]) -> None:
        """DataError when a new stream has rows of an input, and none can be used."""
        if not self.resumed:
            rows = {str(name): n for name, n in self.useless.items() if name not in useful}
            refuse_useless(rows, self.log.unused)

    def _count_aside(self) -> None:
        """The same between two steps."""
        totals = self.log.totals
        totals["dead"] = totals.get("dead", 0) + self._put_aside()

    def _shown(self, query: str, table: pa.Table) -> pa.Table:
        """Answers with timestamps, where users give such."""
        options = self.task.options
        if options.stamps is None or not self.stream.deps.core.predicates[query].temporal:
            return table
        return stamped(table, 2 if options.intervals else 1, options.stamps)

    # Checkpoints

    def save(self, folder: CheckpointFolder) -> None:
        """A snapshot of the stream, with what was read and written up to here."""
        note = {
            "sink": self.task.sink,
            "max_jump": self.task.options.max_jump,
            "written": self.sink.state(),
            "pushed": self.pushed,
            "seen": self.lines.seen,
            "tin": self.lines.tin,
            "lines": self.lines.taken,
            "letters": self.letters,
            "late letters": self.late_letters,
            "files": self.files,
            "beat": self.lines.beat,
            "idle": self.lines.idle,
            "overtaken": self.lines.overtaken,
        }
        self.stream.snapshot(folder.file, note)
        folder.taken()

    def _restore(self, folder: CheckpointFolder) -> dict[str, Any]:
        """Go on from a checkpoint; what it remembers of the sink."""
        note = self.stream.restore(folder.file)
        assert isinstance(note, Mapping), "as `save` wrote it"
        place, sink = self.task.checkpoint, self.task.sink
        if note["sink"] != sink:
            raise DataError(f"{place}: the answers went to {note['sink']}, not {sink}")
        jump, before = self.task.options.max_jump, note.get("max_jump")
        if jump != before:
            raise DataError(f"{place}: max_jump is {jump} and was {before}")
        if self.stream.closed:
            raise DataError(f"{place}: the stream is closed: name a new checkpoint")
        self.pushed, self.resumed = note["pushed"], note["pushed"] is not None
        self.log.now = {"tin": self.stream.tin, "tout": self.stream.tout}
        self.lines.seen, self.lines.tin = note["seen"], note["tin"]
        self.lines.taken = note["lines"]
        self.lines.beat, self.lines.idle = note.get("beat"), tuple(note.get("idle", ()))
        self.lines.overtaken = dict(note.get("overtaken", {}))
        self.letters, self.late_letters = note.get("letters", 0), note.get("late letters", 0)
        self.files = note.get("files")
        written: dict[str, Any] = note["written"]
        return written
