"""`tidelog run` in process: facts from files or standard input, a tick at a time."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from tidelog import Step, Stream
from tidelog.analysis.passes import passes
from tidelog.causes import Cause
from tidelog.cli.running import RunLog, Stopped, StopRequest, StreamTask, starting
from tidelog.data.letters import (
    SHOWN,
    DeadLetter,
    excerpt,
    or_skip,
    reason_to_skip,
    refuse_useless,
)
from tidelog.data.marks import Mark, is_continued, mark_of
from tidelog.data.readers.places import paths_of, settled
from tidelog.data.schema import resolve, schemas
from tidelog.data.ticks import Ticks, time_text
from tidelog.data.writers import stamped
from tidelog.errors import DataError, warn, warn_missing
from tidelog.evaluation.duckdb import Engine
from tidelog.language.diagnostics import visible
from tidelog.streaming import feeds
from tidelog.streaming.clock import Clock, Pace, ahead_reason, late_reason
from tidelog.streaming.ledger import Ledger, expect_balance
from tidelog.streaming.notices import NOTHING, Changed, Notices, UnusedRows, unused_rows
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
        with run.request:
            if run.folder is not None and not run.folder.begun:
                run.save(run.folder)
            is_whole = run.feed()
            left = run.stream.pending() if task.pending else None
            if is_whole and not task.keep_open:
                run.step(run.stream.close(), 0)
            run.notices.finish()
            if run.folder is not None:
                run.save(run.folder, ended=is_whole)
    finally:
        run.cancel_timer()
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
        self.marks: dict[str, Mark] = {}  # how files begin, by path
        self.again = 0  # facts that are pushed once more
        self.late_letters = 0  # bytes of them in the checkpoint
        self.useless: Counter[str | None] = Counter()  # rows that are not used, by input
        self.first: list[dict[str, Any]] = []  # the first of them
        self.problems: list[UnusedRows] = []  # those that nobody was told of
        place = None if task.checkpoint is None else f"{task.checkpoint}/dead_letters"
        self.notices = Notices(options, lambda: place)
        self.timer: threading.Timer | None = None
        self.run = 0  # the number of this run, from its checkpoint
        self.before = Ledger()  # rows of the runs before
        self.ledger = Ledger()  # rows of this run, those apart that its files had had before
        self.read: int | None = None  # rows of files that this run is to take in
        self.answered: Counter[str] = Counter()  # answers since the first run
        self.pushed: int | None = None
        self.skipped: dict[str, list[str | None]] = {}  # files left out: of which input, and why
        self.lines.stays_open = self.folder is not None and task.keep_open
        self.lines.horizon = feeds.Horizons(options)
        try:
            self._begin()
        except BaseException:
            if self.folder is not None:
                self.folder.release()
            raise
        self.watch = Watch(self.stream) if watched else None
        self.request = StopRequest(signal.SIGTERM)

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
                raise DataError(self.sink.cannot_resume, code=Cause.NO_RESUME)
        self.sink.check("", fresh=written is None)
        if written is not None:
            self.sink.verify(written)
        self.sink.prepare(queries, fresh=written is None)
        if written is not None:
            self.sink.discard(0, queries, written)

    def feed(self) -> bool:
        """Push all facts, from standard input or from files; False at a request to stop."""
        try:
            self._feed()
        except Stopped:
            return False
        return True

    def _feed(self) -> None:
        task = self.task
        if task.facts == "-":
            self._push(self.lines.pushes(self.request.waits(self._arriving())))
            self._count_aside()
            self._refuse_useless(self.lines.seen)
            self._tell()
            for name in sorted(self.inputs.keys() - self.lines.seen.keys()):
                warn_missing(name, task.program.needing(name, task.queries))
            return
        ticks, only = task.options.ticks, frozenset(self.inputs)
        self.letters = 0  # the files are read from the beginning
        self._put_skipped_aside()
        skip = frozenset(map(Path, self.skipped))
        rest = (True, self.log.show, only, task.queries, self.aside, None, skip)
        with self._skippable(), Engine(task.program, task.facts, ticks, *rest) as engine:
            self._count_aside()
            loaded = engine.loaded
            self._refuse_useless([name for name in only if not loaded[name].range.empty])
            self._put_late_aside(engine)
            last = self._put_far_aside(engine)
            self._refuse_useless([name for name in only if loaded[name].range.low <= last])
            self._tell()
            tin, until = self.stream.tin, self._until(engine, last)
            self.read = self._between(engine, -math.inf if tin is None else tin, min(until, last))
            self.log.held = any(min(loaded[name].range.high, last) > until for name in only)
            self._push(feeds.from_files(engine, self.inputs, tin, until, self.pushed))
            if self.folder is not None and self.task.keep_open:
                self._hold(engine, until, last)

    def _hold(self, engine: Engine, until: float, last: float) -> None:
        """Keep the facts of ticks that are not complete: their files may be gone by the next run.

        Of too many of them a warning says that their files are needed.
        """
        count, facts = feeds.after(engine, self.inputs, until, last)
        if count <= feeds.HELD:
            self.stream.hold(facts())
            return
        since = "" if math.isinf(until) else f" after {time_text(int(until), self._ticks)}"
        warn(
            f"{count:,} facts{since} wait for the next run, which reads them again: keep their"
            " files until then"
        )

    def _count_held(self, engine: Engine) -> int:
        """How many facts of the run before nobody has counted, and no file has any more."""
        gone = 0
        for name, times in self.stream.held().items():
            later = {t: n for t, n in times.items() if self.pushed is None or t > self.pushed}
            if later:
                view = engine.loaded[name].view
                ends = f"t BETWEEN {min(later)} AND {max(later)}"
                table = engine.arrow(
                    f"SELECT t, count(*) FROM (SELECT DISTINCT * FROM {view} WHERE {ends}) AS x"
                    " GROUP BY t"
                )
                there = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
                gone += sum(max(0, n - there.get(t, 0)) for t, n in later.items())
        return gone

    @property
    def _ticks(self) -> Ticks | None:
        return self.task.options.ticks

    def _arriving(self) -> Iterable[bytes | None]:
        """The lines of standard input; None now and then where somebody may fall silent."""
        silence = self.lines.silence
        lines: BinaryIO = sys.stdin.buffer
        if not silence.limits:
            return lines
        with suppress(OSError):  # Python cannot end while a thread reads its own stream
            lines = open(lines.fileno(), "rb", closefd=False)  # noqa: SIM115
        return patiently(lines, lambda: silence.next(self.lines.idle))

    def _put_far_aside(self, engine: Engine) -> float:
        """Put rows aside that lie too far ahead; the last tick of all others."""
        most, ticks = self.task.options.max_jump, self.task.options.ticks
        horizon = self.lines.horizon()
        leap = None if most is None else feeds.first_leap(engine, self.inputs, most)
        last = math.inf if leap is None else leap
        last = last if horizon is None else min(last, horizon.last)
        for name, schema in self.inputs.items():
            if engine.loaded[name].range.high <= last:
                continue
            for tick, place, came in engine.loader.after(schema, engine.loaded[name], int(last)):
                if horizon is not None and tick > horizon.last:
                    reason = horizon.reason
                else:
                    reason = ahead_reason(tick, int(last), most or 0, ticks)
                self.aside.append(DeadLetter(name, reason, place, came, tick - int(last)))
        self._count_aside()
        return last

    @contextmanager
    def _skippable(self) -> Iterator[None]:
        """What is wrong with a file of facts is told with how to go on without it."""
        try:
            yield
        except DataError as error:
            files = [str(file) for place in paths_of(self.task.facts) for file in place.files()]
            told = (
                f"{problem}; or {or_skip(file)}" if file else problem
                for problem in error.problems
                for file in [next((f for f in files if problem.startswith(f"{f}:")), None)]
            )
            raise DataError(*told) from None

    def _put_skipped_aside(self) -> None:
        """Put a dead letter aside for each file left out, in this run or one before."""
        places = [(place, place.resolved()) for place in paths_of(self.task.facts)]
        for text in self.task.skip:
            path = settled(Path(text))
            there = [one for place in places for one in place if path.is_relative_to(one.root)]
            if not there:
                raise DataError(f"--skip {text}: it is not among the facts of this stream")
            name = next((name for one in there if (name := one.input_of(path))), None)
            name = name if name in self.inputs else None
            self.skipped.setdefault(str(path), [name, reason_to_skip(path)])
        self.aside += (
            DeadLetter(name, str(reason), path, None)
            for path, (name, reason) in self.skipped.items()
        )
        useless, totals = self.useless.copy(), self.log.totals
        skipped = self._put_aside()
        self.useless = useless  # they are left out on purpose
        totals["dead"] = totals.get("dead", 0) + skipped
        self._book(Ledger(skipped=skipped))

    def _until(self, engine: Engine, last: float) -> float:
        """The last tick to push: a stream that goes on later may get more facts of the last one.

        It is never before what was pushed in an earlier run, whose files may be gone.
        """
        if self.folder is None or not self.task.keep_open:
            return last
        seen: dict[str, int] = {}
        for name in self.inputs:
            loaded = engine.loaded[name]
            if not loaded.range.empty and loaded.range.low <= last:
                few = "" if loaded.range.high <= last else f" WHERE t <= {last}"
                (seen[name],) = engine.one(f"SELECT max(t) FROM {loaded.view}{few}")
        tin = self.lines.pace.tin(seen)
        until = -math.inf if tin is None else tin + self.task.options.lateness
        return until if self.pushed is None else max(until, self.pushed)

    def _put_late_aside(self, engine: Engine) -> None:
        """Put rows aside that came since the run before, at times that had been complete there."""
        if self.folder is None:
            return
        before, loaded = self.files, {name: engine.loaded[name] for name in self.inputs}
        self._mark(engine)
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
                    needed = self.lines.pace.needed(Clock(tin=tin), tick)
                    reason = late_reason(tick, tin, ticks)
                    late.append(DeadLetter(name, reason, place, came, needed))
        if late:
            lines, after = [x.line() for x in late], self.late_letters
            self.late_letters = self.folder.put_aside(lines, after, "late")
            self.log.totals["late"] = self.log.totals.get("late", 0) + len(late)
            self._book(Ledger(late=len(late)))
            self.problems += unused_rows(late, self.inputs)

    def _mark(self, engine: Engine) -> None:
        """Note how files begin; warn of those that begin in another way than in the run before."""
        before, self.marks, tin = self.marks, {}, self.stream.tin
        for name in self.inputs:
            loaded = engine.loaded[name]
            for where, select in loaded.sources.items():
                path = os.path.abspath(where)
                mark = mark_of(path)
                if mark is not None:
                    self.marks[path] = mark
                known = before.get(path)
                if known is None or mark is None or is_continued(path, known):
                    continue
                early = "FALSE" if tin is None else f"t <= {tin}"
                (count,) = engine.one(f"SELECT count(*) FROM ({select}) AS x WHERE {early}")
                unused = ""
                if count and tin is not None:
                    rows = f"{count:,} of its rows are" if count > 1 else "1 of its rows is"
                    time = time_text(tin, self._ticks)
                    unused = f"; {rows} at or before {time}, which is complete, and not used"
                warn(f"{where} was replaced since the run before{unused}")
        gone = self._count_held(engine)
        self.log.totals["facts"] = self.log.totals.get("facts", 0) + gone
        self._book(Ledger(facts=gone))

    def _between(self, engine: Engine, after: float, until: float) -> int:
        """How many facts there are after a tick and up to one."""
        if after >= until:
            return 0
        views = [engine.loaded[name].view for name in self.inputs]
        ends = [f"t > {after}"] if after > -math.inf else []
        ends += [f"t <= {until}"] if until < math.inf else []
        some = " AND ".join(ends) or "true"
        return sum(engine.one(f"SELECT count(*) FROM {v} WHERE {some}")[0] for v in views)

    def _push(self, pushes: Iterable[feeds.Push]) -> None:
        for tick, facts in pushes:
            self.request.check()
            size = sum(len(rows) for rows in facts.values())
            if tick is None:
                self.step(self.stream.hold(facts), size)
                continue
            self.pushed = tick
            again = min(self.again, size)
            self.again -= again
            if self.read is not None:
                self.read -= size
            self.step(self.stream.push(tick, facts), size - again)

    def step(self, step: Step, size: int) -> None:
        """Write what a push of so many facts brought, and tell of it."""
        answers = {q: self._shown(q, t) for q, t in step.answers.items() if t.num_rows}
        self.sink.write(self.log.batches, {q: LocalAnswers(t) for q, t in answers.items()})
        for change in self.watch.after(step) if self.watch is not None else ():
            terminal.stderr().print(
                visible(change.text(self.task.options.ticks)), markup=False, highlight=False
            )
        letters = [x for name, rows in step.late.items() for x in self._late(name, rows)]
        late = len(letters)
        self.aside += letters
        self.lines.late.clear()
        unused = self._put_aside(self._changed_by(step.late))
        self._tell()
        now: dict[str, Any] = {
            "batch": self.log.batches,
            "tin": step.tin,
            "tout": step.tout,
            "history": step.history,
        }
        if self.task.facts == "-":
            clock = replace(self.lines.clock, tin=step.tin, closed=self.stream.closed)
            now |= self.log.awaited(self.lines.pace.waits_for(clock), clock)
        self.answered.update({query: table.num_rows for query, table in answers.items()})
        count = sum(table.num_rows for table in answers.values())
        self._book(Ledger(facts=size - late, late=late, dead=unused - late))
        self.log.batch(now, facts=size - late, late=late, dead=unused - late, answers=count)
        if self.folder is not None and self.folder.due:
            self.save(self.folder)

    def _late(self, name: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[DeadLetter]:
        """The rows of an input that the stream gave back; of equal lines it may give back one."""
        lines = self.lines.late
        for row in dict.fromkeys(rows) if lines else rows:
            yield from lines.get((name, row)) or [self._letter(name, row)]

    def _letter(self, name: str, row: tuple[Any, ...]) -> DeadLetter:
        """A fact that the stream gave back: it is late."""
        ticks, tin = self.task.options.ticks, self.stream.tin
        *values, time = row
        shown = time if ticks is None else time_text(time, ticks)
        came = dict(zip(self.inputs[name].names, [*values, shown], strict=True))
        return DeadLetter(name, late_reason(time, tin, ticks), None, json.dumps(came))

    def _put_aside(self, changed: Changed = NOTHING) -> int:
        """Write the rows that are not used; how many they are. Late ones may have changed answers.

        Of a line somebody was told when it came.
        """
        letters = list(self.aside)
        self.aside.clear()
        self.useless.update(x.predicate for x in letters if x.predicate in self.inputs)
        if letters and self.folder is not None:
            self.letters = self.folder.put_aside([x.line() for x in letters], self.letters)
        self.first += (excerpt(x.as_json()) for x in letters[: SHOWN - len(self.first)])
        rows = unused_rows(letters, self.inputs, changed)
        self.problems += [] if self.task.facts == "-" else rows
        return len(letters)

    def _show_unused(self, letter: DeadLetter, late: tuple[Any, ...] | None) -> None:
        """Say at once what a line could not be used for: more lines may take long to come."""
        rows = {} if late is None else {str(letter.predicate): [late]}
        self.problems += unused_rows([letter], self.inputs, self._changed_by(rows))
        self._tell()

    def _changed_by(self, late: Mapping[str, list[tuple[Any, ...]]]) -> Changed:
        """By input, the queries of which late facts could have changed answers that are out."""
        return self.stream.could_change(late) if self.stream.deps.negated else {}

    def _tell(self) -> None:
        """Warn of rows that are not used; of lines also while nothing comes."""
        self.notices.add(self.problems)
        self.problems = []
        wait = self.notices.wait() if self.task.facts == "-" else None
        if wait is not None and (self.timer is None or not self.timer.is_alive()):
            self.timer = threading.Timer(wait, self.notices.tell_due)
            self.timer.daemon = True
            self.timer.start()

    def cancel_timer(self) -> None:
        """Warn of nothing more once the run has ended."""
        if self.timer is not None:
            self.timer.cancel()

    def _refuse_useless(self, useful: Container[str]) -> None:
        """DataError when a new stream has rows of an input, and none can be used."""
        if not self.resumed:
            rows = {str(name): n for name, n in self.useless.items() if name not in useful}
            refuse_useless(rows, self.first)

    def _count_aside(self) -> None:
        """The same between two steps."""
        totals, dead = self.log.totals, self._put_aside()
        totals["dead"] = totals.get("dead", 0) + dead
        self._book(Ledger(dead=dead))

    def _book(self, more: Ledger) -> None:
        """Enter what became of some rows; of files, that they came in, too."""
        if self.task.facts == "-":
            rows, beats = self.lines.rows, self.lines.heartbeats
            self.ledger = replace(self.ledger + more, rows=rows, heartbeats=beats)
        else:
            self.ledger += replace(more, rows=-more.difference)

    def _expect_balance(self, *, ended: bool) -> None:
        """DataError if rows were read of which nothing has become, before that is committed."""
        ledger = self.ledger
        if ended and self.read:
            ledger = replace(ledger, rows=ledger.rows + self.read)
        expect_balance(ledger, ledger.late + ledger.dead + ledger.skipped, "the run")

    def _shown(self, query: str, table: pa.Table) -> pa.Table:
        """Answers with timestamps, where users give such."""
        options = self.task.options
        if options.stamps is None or not self.stream.deps.core.predicates[query].temporal:
            return table
        return stamped(table, 2 if options.intervals else 1, options.stamps)

    # Checkpoints

    def save(self, folder: CheckpointFolder, *, ended: bool = False) -> None:
        """A snapshot of the stream, with what was read and written up to here."""
        self._expect_balance(ended=ended)
        given = self.task.options
        options = given.identity() | {"history": given.history} | given.rows_to_come()
        note = {
            "run": self.run,
            "queries": list(self.task.queries),
            "options": options,
            "tables": self.stream.described,
            "ledger": (self.before + self.ledger).as_json(),
            "answered": {query: self.answered[query] for query in self.task.queries},
            "tout": self.stream.tout,
            "sink": self.task.sink,
            "written": self.sink.state(),
            "pushed": self.pushed,
            "seen": self.lines.seen,
            "tin": self.lines.tin,
            "lines": self.lines.taken,
            "digests": self.lines.read.state(),
            "skipped": self.skipped,
            "letters": self.letters,
            "late letters": self.late_letters,
            "aside": folder.letters({"part-00000": self.letters, "late": self.late_letters}),
            "files": self.files,
            "marks": self.marks,
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
            raise DataError(
                f"{place}: the answers went to {note['sink']}, not {sink}", code=Cause.OTHER_STREAM
            )
        if self.stream.closed:
            raise DataError(
                f"{place}: the stream is closed: name a new checkpoint", code=Cause.CLOSED
            )
        self.pushed, self.resumed = note["pushed"], note["pushed"] is not None
        self.log.now = {"tin": self.stream.tin, "tout": self.stream.tout}
        self.lines.seen, self.lines.tin = note["seen"], note["tin"]
        if not self.task.from_here:
            self.lines.taken = note["lines"]
            self.lines.read = feeds.LinesRead(known=note["digests"])
        self.skipped = note["skipped"]
        self.lines.beat, self.lines.idle = note.get("beat"), tuple(note.get("idle", ()))
        self.lines.overtaken = dict(note.get("overtaken", {}))
        self.letters, self.late_letters = note.get("letters", 0), note.get("late letters", 0)
        # Those of files are written anew, since files are read from the beginning.
        anew = "" if self.task.facts == "-" else "part-00000"
        folder.expect(letter for letter in note["aside"] if letter[0] != anew)
        self.files = note.get("files")
        self.marks = {path: (size, head) for path, (size, head) in note.get("marks", {}).items()}
        self.before = Ledger.of(note.get("ledger", {}))
        self.answered = Counter(note.get("answered", {}))
        if anew:  # what is wrong with rows of files is found again, and counted once
            again = self.before.dead + self.before.skipped
            rows = self.before.rows - again
            self.before = replace(self.before, rows=rows, dead=0, skipped=0)
        self.run = int(note.get("run", -1)) + 1
        folder.keep_run(self.run - 1)
        written: dict[str, Any] = note["written"]
        return written
