"""`tidelog run`: rules over a stream of facts, on Spark or in process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from tidelog.cli.common import (
    RULES,
    FactPaths,
    accepted,
    chosen_queries,
    data_errors,
    jars_option,
    origin_option,
    paths_option,
    print_json,
    strict_option,
    tick_option,
    ticks_of,
)
from tidelog.cli.running import RunLog, StreamTask
from tidelog.language.diagnostics import visible
from tidelog.language.program import Program
from tidelog.streaming.options import MAX_AHEAD
from tidelog.streaming.sinks import usages
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.analysis.definitive import Pending
    from tidelog.data.ticks import Ticks
    from tidelog.streaming.options import Emit, History, StreamMode, StreamOptions

_Command = TypeVar("_Command", bound=Callable[..., Any])

# Options that a stream has on Spark only.
_SPARK_ONLY = (
    "follow",
    "partitions",
    "memory",
    "files_per_batch",
    "keep_commits",
    "then",
    "jars",
    "kafka_option",
    "name",
)


def _choice(name: str, values: tuple[str, ...], help_: str) -> Callable[[_Command], _Command]:
    """An option with some values, of which the first is the usual one."""
    return click.option(
        name, type=click.Choice(values), default=values[0], show_default=True, help=help_
    )


@click.command("run")
@click.argument("rules", type=RULES)
@paths_option(
    "--facts",
    "A folder or file of facts, NAME=FILE, or a pattern; repeatable. - for JSON lines,"
    " kafka://HOST:PORT/TOPIC for messages.",
    required=True,
)
@paths_option("--rigid", "Facts without time, where --facts has none; repeatable.")
@click.option("--query", "queries", multiple=True, metavar="P", help="This predicate; repeatable.")
@click.option(
    "--engine",
    type=click.Choice(["spark", "duckdb"]),
    help="On Spark, or in this process; by default on Spark, and standard input in this process.",
)
@_choice(
    "--mode",
    ("offline", "online"),
    "After the least delay for any data, or as soon as this data allows.",
)
@_choice(
    "--emit",
    ("definitive", "eager"),
    "Answers when their time is final, or as soon as each is derived.",
)
@_choice(
    "--history",
    ("derived", "strict"),
    "Offline: keep slices of derived predicates, or input facts in the window only.",
)
@click.option("--pending", is_flag=True, help="What may still come, and what becomes of it.")
@click.option(
    "--master", default="local[*]", show_default=True, metavar="URL", help="Where Spark runs."
)
@click.option(
    "--sink",
    default="console",
    show_default=True,
    metavar="|".join(usages(in_process=True)) + "|kafka://HOST:PORT/TOPIC",
    help="Where answers go.",
)
@click.option("--checkpoint", metavar="DIR", help="To go on from after a stop or a crash.")
@click.option(
    "--lateness",
    default="0",
    show_default=True,
    metavar="N|TIME",
    help="How late facts may be: ticks, or a time such as 5m.",
)
@click.option(
    "--sparse", multiple=True, metavar="P", help="This input does not hold time back; repeatable."
)
@click.option(
    "--idle",
    multiple=True,
    metavar="TIME|P=TIME",
    help="An input that is silent this long, such as 5m, holds time back no longer; repeatable.",
)
@click.option(
    "--max-jump",
    metavar="N|TIME",
    help="Facts further ahead than this are not used: ticks, or a time such as 1h.",
)
@click.option(
    "--max-ahead",
    metavar="TIME|off",
    default=MAX_AHEAD,
    show_default=True,
    help="Timestamps further after the clock than this are not used; off for any.",
)
@click.option(
    "--heartbeats", is_flag=True, help="Messages of Kafka without facts may move time on."
)
@click.option(
    "--skip",
    multiple=True,
    metavar="FILE|kafka:TOPIC/PARTITION/OFFSET",
    help="Go on without this file or message: a dead letter names it; repeatable.",
)
@click.option(
    "--from", "from_", metavar="TIME", help="First time of answers; default the first tick seen."
)
@tick_option
@origin_option
@click.option("--ticks", "as_ticks", is_flag=True, help="With --tick, give times as whole ticks.")
@click.option(
    "--intervals",
    is_flag=True,
    help="From when to when, once it has ended, instead of a row for every tick; with --emit eager"
    " also when it begins.",
)
@click.option(
    "--resume-from",
    type=click.Choice(["start", "here"]),
    help="With --checkpoint, where standard input goes on: again from its beginning, which is"
    " checked (start, the default), or with new lines only, as a pipe does (here).",
)
@click.option("--follow", is_flag=True, help="Wait for new facts until interrupted.")
@click.option(
    "--then",
    multiple=True,
    metavar="KAFKA",
    help="Topics to go on with when the facts in files have been read; repeatable.",
)
@click.option(
    "--kafka-option",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of Kafka or of Spark's connector, such as startingOffsets=latest; =@FILE reads the value"
    " from a file. Repeatable.",
)
@jars_option
@click.option(
    "--close/--keep-open",
    "closing",
    default=None,
    help="When the input ends, answer everything up to its last tick and end the stream, or leave"
    " it open for the next run; default: open with --checkpoint.",
)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Into how many parts Spark splits its work; default one a core.",
)
@click.option(
    "--memory", metavar="SIZE", help="What each of Spark's workers may use: 4GB; default 1GB."
)
@click.option(
    "--files-per-batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many files a batch takes; default all there are.",
)
@click.option(
    "--keep-commits",
    type=click.IntRange(min=2),
    metavar="N",
    help="Of how many commits to keep the state, for `tidelog checkpoint rollback`; default 2.",
)
@click.option(
    "--metrics",
    metavar="FILE|:PORT",
    help="A JSON line for every batch; for Prometheus, FILE.prom or a port to serve.",
)
@click.option(
    "--name",
    metavar="TEXT",
    help="What Spark's UI and metrics call the stream; by default as its file of rules.",
)
@strict_option
@click.option(
    "--json", "as_json", is_flag=True, help="The summary as the last line of standard output."
)
def run_command(
    rules: str,
    facts: str | tuple[str, ...],
    rigid: FactPaths,
    queries: tuple[str, ...],
    engine: str | None,
    pending: bool,
    sink: str,
    checkpoint: str | None,
    closing: bool | None,
    metrics: str | None,
    skip: tuple[str, ...],
    resume_from: str | None,
    strict: bool,
    as_json: bool,
    master: str,
    **given: Any,
) -> None:
    """Run RULES over a stream of facts: answers as soon as they are final.

    Exit codes: 0 at the end, and when stopped by SIGTERM; 1 where somebody must act; 2 for a wrong
    option; 75 after an outage, to start again with the same command.
    """
    from tidelog.pipeline.publishing import is_prometheus

    here = _is_in_process(facts, rules, engine)
    spark_only = {name: given.pop(name) for name in _SPARK_ONLY}
    program = accepted(rules, strict=strict).program
    options = _options(program, pending, **given)
    published = metrics if metrics is not None and is_prometheus(metrics) else None
    if here:
        others = {"heartbeats": options.heartbeats, **spark_only}
        _refuse_in_process({f"metrics {metrics}, for Prometheus,": published, **others})
    _refuse_places(facts, skip, resume_from, here=here)
    if closing and (pending or spark_only["follow"]):
        raise click.UsageError("--close goes without --pending and --follow: both leave it open")
    asked = chosen_queries(program, queries)
    lines_to = _lines_to(None if published else metrics)
    with data_errors(), lines_to as lines, terminal.Progress() as progress:
        log = RunLog(lines, progress, options.ticks)
        task = StreamTask(
            program,
            asked,
            facts,
            rigid,
            sink,
            checkpoint,
            options,
            pending or (checkpoint is not None if closing is None else not closing),
            pending,
            skip,
            resume_from == "here",
        )
        if here:
            from tidelog.cli.in_process import in_process

            left = in_process(task, log, watched=pending and not as_json)
        else:
            from tidelog.cli.on_spark import on_spark

            spark_only["memory"] = spark_only["memory"] or "1GB"
            spark_only["keep_commits"] = spark_only["keep_commits"] or 2
            left = on_spark(task, log, master=master, metrics=published, **spark_only)
            _tell_pending(() if as_json else left or (), options.ticks)
    _report(log, as_json, left)
    totals, used = log.totals, log.held or log.totals.get("facts")
    if used and checkpoint is not None and closing is None and log.now.get("tout") is None:
        terminal.stderr().print(
            "nothing is answered yet: the next run may bring more facts of the last tick; --close"
            " ends the stream"
        )
    if totals.get("dead") and not used and log.now.get("tin") is None:
        terminal.stderr().print("error: no row could be used")
        sys.exit(1)


def _is_in_process(facts: str | tuple[str, ...], rules: str, engine: str | None) -> bool:
    if "-" in facts and facts != "-" and isinstance(facts, tuple):
        raise click.UsageError("--facts - reads standard input, and nothing beside it")
    if facts == "-" and (engine == "spark" or rules == "-"):
        raise click.UsageError(
            "standard input is read in process: --engine duckdb, rules in a file"
        )
    return facts == "-" or engine == "duckdb"


def _refuse_places(
    facts: str | tuple[str, ...], skip: tuple[str, ...], resume_from: str | None, *, here: bool
) -> None:
    """What to go on without, and where from, must be of the facts that are given."""
    if resume_from is not None and facts != "-":
        raise click.UsageError("--resume-from goes with --facts -")
    if skip and facts == "-":
        raise click.UsageError("--skip leaves out files and messages, not standard input")
    if here and any(text.startswith("kafka:") for text in skip):
        raise click.UsageError("--skip kafka:.. goes with --engine spark")


def _options(
    program: Program,
    pending: bool,
    mode: StreamMode,
    emit: Emit,
    history: History,
    lateness: str,
    sparse: tuple[str, ...],
    idle: tuple[str, ...],
    max_jump: str | None,
    max_ahead: str,
    heartbeats: bool,
    from_: str | None,
    tick: str | None,
    origin: str | None,
    as_ticks: bool,
    intervals: bool,
) -> StreamOptions:
    """The options that a stream has in process and on Spark alike."""
    from tidelog.data.ticks import in_ticks
    from tidelog.evaluation.engine import as_tick
    from tidelog.streaming.options import StreamOptions, ahead, silences

    ticks = ticks_of(program, tick, origin, as_ticks)
    option = "--from"
    try:
        first: Any = as_tick(from_, ticks)
        option = "--lateness"
        late = in_ticks("it", lateness, ticks)
        option = "--max-jump"
        jump = None if max_jump is None else in_ticks("it", max_jump, ticks)
        if jump is not None and jump < 1:
            raise ValueError("1 tick or more")
        option = "--idle"
        silent = silences(dict(_named(text) for text in idle))
        option = "--max-ahead"
        furthest = None if ticks is None else ahead(max_ahead)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from error
    if pending and mode != "online":
        raise click.UsageError("--pending goes with --mode online")
    if pending and intervals:
        raise click.UsageError("--pending tells of single ticks, and goes without --intervals")
    if history == "strict" and mode == "online":
        raise click.UsageError("--history strict goes with --mode offline")
    length = tick or program.tick
    given = (mode, emit, history, late, sparse, jump, first, length, origin, not as_ticks)
    return StreamOptions(
        *given, idle=silent, intervals=intervals, max_ahead=furthest, heartbeats=heartbeats
    )


def _named(text: str) -> tuple[str, str]:
    """`P=5m` as an input and a time; a time alone is for all inputs."""
    name, _, time = text.rpartition("=")
    return name.strip(), time


def _refuse_in_process(spark_only: dict[str, object]) -> None:
    for option, value in spark_only.items():
        if value:
            raise click.UsageError(f"--{option.replace('_', '-')} goes with --engine spark")


def _tell_pending(answers: Iterable[Pending], ticks: Ticks | None) -> None:
    from tidelog.streaming.watch import Change

    for answer in answers:
        said = visible(Change("pending", answer).text(ticks))
        terminal.stderr().print(said, markup=False, highlight=False)


def _report(log: RunLog, as_json: bool, pending: list[Pending] | None = None) -> None:
    console, summary = terminal.stderr(), log.summary()
    if as_json:
        if pending is not None:
            summary["pending"] = [answer.as_json() for answer in pending]
        print_json(summary, indent=None)
        return
    batches = f"{summary['batches']} {'batch' if summary['batches'] == 1 else 'batches'}"
    unused = [("late", "late row"), ("dead", "unusable row")]
    others = [f", {terminal.plural(summary[k], word)}" for k, word in unused if summary[k]]
    console.print(
        f"{terminal.plural(summary['facts'], 'fact')} in {batches},"
        f" {terminal.plural(summary['answers'], 'answer')}{''.join(others)};"
        f" complete up to {log.time(summary['tin'])}, answered up to {log.time(summary['tout'])}"
    )
    if log.blamed:
        console.print(f"time waits for {' and '.join(log.blamed)}; see --idle and --sparse")


@contextmanager
def _lines_to(path: str | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    with ExitStack() as opened:
        try:
            file = opened.enter_context(Path(path).open("a", encoding="utf-8"))
        except OSError as error:
            raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from error
        yield file
