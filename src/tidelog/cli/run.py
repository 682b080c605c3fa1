"""`tidelog run`: rules over a stream of facts, on Spark or in process."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from tidelog.cli.common import (
    RULES,
    accepted,
    chosen_queries,
    data_errors,
    json_option,
    origin_option,
    print_json,
    tick_option,
    ticks_of,
)
from tidelog.language.diagnostics import visible
from tidelog.language.program import Program
from tidelog.streaming.secrets import without_secrets
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.analysis.definitive import Pending
    from tidelog.evaluation.ticks import Ticks
    from tidelog.spark import Commit

_SINKS = "csv:DIR|parquet:DIR|json:DIR|jsonl:FILE|console"


@dataclass
class Told:
    """What a run has done so far, for the status line, the metrics and the summary."""

    metrics: IO[str] | None
    show: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)
    batches: int = 0
    totals: dict[str, int] = field(default_factory=dict)
    now: dict[str, Any] = field(default_factory=dict)

    def batch(self, now: dict[str, Any], **counts: int) -> None:
        moment = time.monotonic()
        seconds, self.last = moment - self.last, moment
        self.batches += 1
        self.now = now
        for name, n in counts.items():
            self.totals[name] = self.totals.get(name, 0) + n
        rate = counts["facts"] / max(seconds, 1e-9)
        if self.metrics is not None:
            line = {**now, **counts, "seconds": round(seconds, 4), "facts_per_second": round(rate)}
            self.metrics.write(json.dumps(line) + "\n")
            self.metrics.flush()
        state = ", ".join(f"{k} {v}" for k, v in now.items() if k not in ("batch", "by_query"))
        self.show(f"batch {now['batch']}: {self.totals['facts']} facts, {rate:,.0f}/s; {state}")

    def summary(self) -> dict[str, Any]:
        seconds = time.monotonic() - self.began
        return {
            "batches": self.batches,
            **{name: self.totals.get(name, 0) for name in ("facts", "late", "dead", "answers")},
            "tin": self.now.get("tin"),
            "tout": self.now.get("tout"),
            "seconds": round(seconds, 3),
        }


@click.command("run")
@click.argument("rules", type=RULES)
@click.option(
    "--facts", required=True, metavar="PATH", help="A folder of facts, or a file; - for JSON lines."
)
@click.option("--rigid", metavar="PATH", help="Facts without time, where --facts has none.")
@click.option("--query", "queries", multiple=True, metavar="P", help="This predicate; repeatable.")
@click.option(
    "--engine", type=click.Choice(["spark", "duckdb"]), help="Default: spark; duckdb for -."
)
@click.option(
    "--mode",
    type=click.Choice(["offline", "online"]),
    default="offline",
    show_default=True,
    help="After the least delay for any data, or as soon as this data allows.",
)
@click.option(
    "--emit",
    type=click.Choice(["definitive", "eager"]),
    default="definitive",
    show_default=True,
    help="Answers when their time is final, or as soon as each is derived.",
)
@click.option(
    "--history",
    type=click.Choice(["derived", "strict"]),
    default="derived",
    show_default=True,
    help="Offline: keep slices of derived predicates, or input facts in the window only.",
)
@click.option("--pending", is_flag=True, help="What may still come, and what becomes of it.")
@click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Of Spark.")
@click.option(
    "--sink", default="console", show_default=True, metavar=_SINKS, help="Where answers go."
)
@click.option("--checkpoint", metavar="DIR", help="To go on from after a stop or a crash.")
@click.option(
    "--lateness",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Ticks that facts may be late.",
)
@click.option(
    "--sparse", multiple=True, metavar="P", help="This input does not hold time back; repeatable."
)
@click.option(
    "--max-jump",
    type=click.IntRange(min=1),
    metavar="N",
    help="Facts further ahead than this are not used.",
)
@click.option(
    "--from", "from_", metavar="TIME", help="First time of answers; default the first tick seen."
)
@tick_option
@origin_option
@click.option("--ticks", "as_ticks", is_flag=True, help="With --tick, give times as whole ticks.")
@click.option("--follow", is_flag=True, help="Wait for new files until interrupted.")
@click.option("--keep-open", is_flag=True, help="Leave the stream open when the input ends.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of Spark's work; default one a core.",
)
@click.option(
    "--files-per-batch", type=click.IntRange(min=1), metavar="N", help="Default: all there are."
)
@click.option(
    "--metrics",
    metavar="FILE|:PORT",
    help="A JSON line for every batch; for Prometheus, FILE.prom or a port to serve.",
)
@json_option
def run_command(
    rules: str,
    facts: str,
    rigid: str | None,
    queries: tuple[str, ...],
    engine: str | None,
    mode: str,
    emit: str,
    history: str,
    pending: bool,
    master: str,
    sink: str,
    checkpoint: str | None,
    lateness: int,
    sparse: tuple[str, ...],
    max_jump: int | None,
    from_: str | None,
    tick: str | None,
    origin: str | None,
    as_ticks: bool,
    follow: bool,
    keep_open: bool,
    partitions: int | None,
    files_per_batch: int | None,
    metrics: str | None,
    as_json: bool,
) -> None:
    """Run RULES over a stream of facts: answers as soon as they are final."""
    from tidelog.evaluation.engines import as_tick
    from tidelog.streaming.publishing import is_prometheus

    if facts == "":
        raise click.UsageError("--facts names no file or folder")
    if facts == "-" and (engine == "spark" or rules == "-"):
        raise click.UsageError(
            "standard input is read in process: --engine duckdb, rules in a file"
        )
    ticks = ticks_of(tick, origin, as_ticks)
    try:
        low = as_tick(from_, ticks)
    except ValueError as error:
        raise click.UsageError(f"--from: {error}") from error
    in_process = facts == "-" or engine == "duckdb"
    prometheus = metrics is not None and is_prometheus(metrics)
    if in_process:
        for option, value in (
            (f"--metrics {metrics}, for Prometheus,", prometheus),
            ("--follow", follow),
            ("--partitions", partitions),
            ("--files-per-batch", files_per_batch),
        ):
            if value:
                raise click.UsageError(f"{option} goes with --engine spark")
    else:
        for option, value in (
            ("--mode online", mode == "online"),
            ("--emit eager", emit == "eager"),
            ("--history strict", history == "strict"),
            ("--pending", pending),
        ):
            if value:
                raise click.UsageError(f"{option} goes with --engine duckdb")
    if pending and mode != "online":
        raise click.UsageError("--pending goes with --mode online")
    if history == "strict" and mode == "online":
        raise click.UsageError("--history strict goes with --mode offline")
    report = accepted(rules)
    asked = chosen_queries(report.program, queries)
    common: dict[str, Any] = {"lateness": lateness, "max_jump": max_jump, "from_": low}
    lines_to = _lines_to(None if prometheus else metrics)
    with data_errors(), lines_to as lines, terminal.Progress() as progress:
        told = Told(lines, progress)
        left: list[Pending] | None = None
        if in_process:
            left = _in_process(
                report.program,
                asked,
                facts,
                rigid,
                told,
                sink=sink,
                sparse=sparse,
                ticks=ticks,
                as_ticks=as_ticks,
                checkpoint=checkpoint,
                keep_open=keep_open or pending,
                pending=pending,
                as_json=as_json,
                **common,
                mode=mode,
                emit=emit,
                history=history,
            )
        else:
            _on_spark(
                report.program,
                asked,
                facts,
                rigid,
                told,
                follow=follow,
                keep_open=keep_open,
                master=master,
                sink=sink,
                checkpoint=checkpoint,
                sparse=sparse,
                tick=tick,
                origin=origin,
                timestamps=not as_ticks,
                partitions=partitions,
                files_per_batch=files_per_batch,
                metrics=metrics if prometheus else None,
                **common,
            )
    _report(told.summary(), as_json, None if in_process else checkpoint, left)


def _report(
    summary: dict[str, Any],
    as_json: bool,
    checkpoint: str | None,
    pending: list[Pending] | None = None,
) -> None:
    console = terminal.stderr()
    for name, what in (("late", "came too late"), ("dead", "could not be used")):
        if summary[name]:
            console.print(f"warning: {terminal.plural(summary[name], 'row')} {what}")
    if (summary["late"] or summary["dead"]) and checkpoint is not None:
        console.print(f"  see {visible(without_secrets(checkpoint))}/dead_letters")
    if as_json:
        if pending is not None:
            summary["pending"] = [found.as_json() for found in pending]
        print_json(summary)
        return
    batches = f"{summary['batches']} {'batch' if summary['batches'] == 1 else 'batches'}"
    console.print(
        f"{terminal.plural(summary['facts'], 'fact')} in {batches},"
        f" {terminal.plural(summary['answers'], 'answer')};"
        f" tin {_shown(summary['tin'])}, tout {_shown(summary['tout'])}"
    )


def _shown(value: int | None) -> str:
    return "none" if value is None else str(value)


@contextmanager
def _lines_to(path: str | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    try:
        file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from error
    with file:
        yield file


def _in_process(
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
    from tidelog import Stream
    from tidelog.analysis.core import core
    from tidelog.evaluation.duckdb import Engine, timestamps
    from tidelog.evaluation.facts import DataError, schemas
    from tidelog.streaming import feeds
    from tidelog.streaming.clock import Pace
    from tidelog.streaming.offline import Endless
    from tidelog.streaming.outputs import output_of
    from tidelog.streaming.schedule import Blocking
    from tidelog.streaming.snapshot import Checkpoint
    from tidelog.streaming.stream import Growing
    from tidelog.streaming.watch import Watch

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
    output = output_of(sink, asked, written)

    watch = Watch(stream) if pending and not as_json else None

    def save() -> None:
        assert kept is not None
        note = {
            "sink": sink,
            "written": output.lengths(),
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
        output.write(answers)
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


def _on_spark(
    program: Program,
    asked: tuple[str, ...],
    facts: str,
    rigid: str | None,
    told: Told,
    *,
    follow: bool,
    keep_open: bool,
    master: str,
    **options: Any,
) -> None:
    from tidelog.evaluation.facts import DataError

    try:
        from pyspark.errors import PySparkException

        from tidelog.spark import session, stream
    except ImportError as error:
        raise DataError(
            f"Spark is not installed ({error.name} is missing): install pyspark,"
            " or use --engine duckdb"
        ) from None
    if not Path(facts).exists():
        raise DataError(f"{facts}: no such file or folder")
    told.show("starting Spark")
    with _quiet():
        spark = session(master)

    def commit(found: Commit) -> None:
        now = {
            "batch": found.batch,
            "tin": found.clock.tin,
            "tout": found.tout,
            "by_query": found.answers,
            "state_bytes": found.state_bytes,
        }
        counts = {"facts": found.facts, "late": found.late, "dead": found.dead}
        told.batch(now, **counts, answers=sum(found.answers.values()))

    trigger = {"processingTime": "500 milliseconds"} if follow else {"availableNow": True}
    running = stream(
        spark,
        program,
        asked,
        inputs=facts,
        rigid=rigid,
        trigger=trigger,
        told=commit,
        **options,
    )
    if running.committed is not None:
        told.now = {"tin": running.committed.clock.tin, "tout": running.committed.tout}
    try:
        with _asked_to_stop() as asked_to_stop:
            while not asked_to_stop.is_set() and not running.awaitTermination(1):
                pass
            if follow or keep_open or asked_to_stop.is_set():
                running.stop()
            else:
                running.close()
    except PySparkException as error:
        raise DataError(f"Spark stopped: {str(error).splitlines()[0]}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """What Spark's JVM says on standard error is kept, and shown only if it does not start."""
    with tempfile.TemporaryFile() as said:
        sys.stderr.flush()
        before = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(before, 2)
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    """Set by Ctrl-C and SIGTERM: the stream ends in good order, what is committed is kept.

    Spark's own handler would raise in the middle of a conversation with the JVM.
    """
    asked = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    main = threading.current_thread() is threading.main_thread()
    before = {n: signal.signal(n, lambda *_: asked.set()) for n in numbers} if main else {}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
