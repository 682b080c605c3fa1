"""`tidelog run`: rules over a stream of facts, on Spark or in process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
from tidelog.data.secrets import without_secrets
from tidelog.language.diagnostics import visible
from tidelog.views import terminal

if TYPE_CHECKING:
    from tidelog.analysis.definitive import Pending

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
    "--memory", metavar="SIZE", help="Of each of Spark's workers, such as 4GB; default 1GB."
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
    memory: str | None,
    files_per_batch: int | None,
    metrics: str | None,
    as_json: bool,
) -> None:
    """Run RULES over a stream of facts: answers as soon as they are final."""
    from tidelog.evaluation.engine import as_tick
    from tidelog.pipeline.publishing import is_prometheus

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
    here = facts == "-" or engine == "duckdb"
    prometheus = metrics is not None and is_prometheus(metrics)
    if here:
        for option, value in (
            (f"--metrics {metrics}, for Prometheus,", prometheus),
            ("--follow", follow),
            ("--partitions", partitions),
            ("--memory", memory),
            ("--files-per-batch", files_per_batch),
        ):
            if value:
                raise click.UsageError(f"{option} goes with --engine spark")
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
        if here:
            from tidelog.cli.in_process import in_process

            left = in_process(
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
            from tidelog.cli.on_spark import on_spark
            from tidelog.streaming.watch import Change

            left = on_spark(
                report.program,
                asked,
                facts,
                rigid,
                told,
                follow=follow,
                keep_open=keep_open or pending,
                pending=pending,
                master=master,
                sink=sink,
                checkpoint=checkpoint,
                sparse=sparse,
                tick=tick,
                origin=origin,
                timestamps=not as_ticks,
                partitions=partitions,
                memory=memory or "1GB",
                files_per_batch=files_per_batch,
                metrics=metrics if prometheus else None,
                **common,
                mode=mode,
                emit=emit,
                history=history,
            )
            for found in left or () if not as_json else ():
                said = visible(str(Change("pending", found)))
                terminal.stderr().print(said, markup=False, highlight=False)
    _report(told.summary(), as_json, None if here else checkpoint, left)


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
    with ExitStack() as opened:
        try:
            file = opened.enter_context(Path(path).open("a", encoding="utf-8"))
        except OSError as error:
            raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from error
        yield file
