"""`tidelog run` in process: facts from files or standard input, a tick at a time."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidelog import Stream
from tidelog.data.schema import schemas
from tidelog.data.ticks import Ticks
from tidelog.data.writers import timestamps
from tidelog.errors import DataError
from tidelog.evaluation.duckdb import Engine
from tidelog.language.diagnostics import visible
from tidelog.language.program import Program
from tidelog.logic.normalise import core
from tidelog.streaming import feeds
from tidelog.streaming.clock import Pace
from tidelog.streaming.offline import Endless
from tidelog.streaming.schedule import Blocking
from tidelog.streaming.sinks import sink_of
from tidelog.streaming.sinks.sink import LocalAnswers
from tidelog.streaming.snapshot import Checkpoint
from tidelog.streaming.stream import Growing
from tidelog.streaming.watch import Watch
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.analysis.definitive import Pending
    from tidelog.cli.run import Told


def in_process(
    program: Program,
    asked: tuple[str, ...],
    facts: str,
    rigid: str | None,
    told: Told,
    *,
    sink: str,
    sparse: tuple[str, ...],
    ticks: Ticks | None,
    as_ticks: bool,
    checkpoint: str | None,
    keep_open: bool,
    pending: bool,
    as_json: bool,
    **options: Any,
) -> list[Pending] | None:
    known = schemas(program)
    timeless = frozenset(name for name, schema in known.items() if schema.time is None)
    path = None if facts == "-" else facts
    with Engine(program, rigid or path, ticks, progress=told.show, only=timeless) as engine:
        fixed = {
            name: engine.arrow(f"SELECT * FROM {engine.loaded[name].view}").rename_columns(
                [column.name for column in known[name].columns]
            )
            if known[name].columns
            else [()] * engine.one(f"SELECT count(*) FROM {engine.loaded[name].view}")[0]
            for name in timeless
        }
    needed = {p.source for p in core(program, asked).below(asked).inputs if p.temporal}
    inputs = {name: known[name] for name in sorted(needed)}
    with warnings.catch_warnings(record=True) as growing:
        warnings.simplefilter("always", Growing)
        try:
            stream = Stream(program, asked, rigid=fixed, **options)
        except Endless as error:
            raise DataError(str(error)) from None
        except Blocking as error:
            raise DataError(f"{error}; --mode online streams it, and keeps every fact") from None
    for warning in growing:
        terminal.stderr().print(f"warning: {visible(str(warning.message))}", highlight=False)
    output = sink_of(sink)
    kept = None if checkpoint is None else Checkpoint(checkpoint)
    lines = feeds.Lines(
        inputs, known, Pace(tuple(inputs), options["lateness"], frozenset(sparse)), ticks
    )
    pushed: int | None = None
    written: dict[str, int] | None = None
    if kept is not None and kept.begun:
        note: Any = stream.restore(kept.file)
        if note["sink"] != sink:
            raise DataError(f"{checkpoint}: the answers went to {note['sink']}, not {sink}")
        if stream.closed:
            raise DataError(f"{checkpoint}: the stream is closed: name a new checkpoint")
        pushed, written = note["pushed"], note["written"]
        lines.seen, lines.tin, lines.taken = note["seen"], note["tin"], note["lines"]
    if kept is not None and output.cannot_resume is not None:
        raise DataError(output.cannot_resume)
    output.check("", fresh=written is None)
    output.prepare(asked, fresh=written is None)
    if written is not None:
        output.discard(0, asked, written)

    watch = Watch(stream) if pending and not as_json else None

    def save() -> None:
        assert kept is not None
        note = {
            "sink": sink,
            "written": output.state(),
            "pushed": pushed,
            "seen": lines.seen,
            "tin": lines.tin,
            "lines": lines.taken,
        }
        stream.snapshot(kept.file, note)
        kept.taken()

    def step(found: Any, size: int, dead: int = 0) -> None:
        answers = {q: table for q, table in found.answers.items() if table.num_rows}
        count = sum(table.num_rows for table in answers.values())
        if ticks is not None and not as_ticks:
            answers = {
                query: table.set_column(
                    table.num_columns - 1, "time", timestamps(table.column("time"), ticks)
                )
                if "time" in table.column_names
                else table
                for query, table in answers.items()
            }
        output.write(told.batches, {q: LocalAnswers(table) for q, table in answers.items()})
        for change in watch.after(found) if watch is not None else ():
            terminal.stderr().print(visible(str(change)), markup=False, highlight=False)
        late = sum(len(rows) for rows in found.late.values())
        now = {
            "batch": told.batches,
            "tin": found.tin,
            "tout": found.tout,
            "history": found.history,
        }
        told.batch(now, facts=size - late, late=late, dead=dead, answers=count)
        if kept is not None and kept.due:
            save()

    def run(pushes: Iterator[Any]) -> None:
        nonlocal pushed
        for tick, rows in pushes:
            pushed = tick
            step(stream.push(tick, rows), sum(len(found) for found in rows.values()))

    try:
        if kept is not None and not kept.begun:
            save()
        if facts == "-":
            run(lines.pushes(sys.stdin.buffer))
        else:
            with Engine(
                program, facts, ticks, progress=told.show, only=frozenset(inputs)
            ) as engine:
                dead = sum(engine.nulls.values())
                run(feeds.from_files(engine, inputs, pushed))
                told.totals["dead"] = dead
        left = stream.pending() if pending else None
        if not keep_open:
            step(stream.close(), 0)
        if kept is not None:
            save()
    finally:
        output.close()
    return left
