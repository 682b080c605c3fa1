"""Mutants: changes of the product that take away a sync or a check; some history notices each.

`python -m sim.mutants` looks for the first history that does, and keeps its seed in seeds.json.
"""

from __future__ import annotations

import inspect
import json
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sim.history import History, Violation
from tidelog.data.durable import Machine
from tidelog.pipeline import commit, handover, spark_log
from tidelog.pipeline.commit import Checkpoint, Commit
from tidelog.pipeline.handover import Live
from tidelog.pipeline.loop import Pipeline
from tidelog.pipeline.places import Arrived
from tidelog.pipeline.spark_log import SparkBatch, SparkLogs
from tidelog.pipeline.stretches import Stretches
from tidelog.streaming.sinks.delta import DeltaSink
from tidelog.streaming.sinks.folders import BatchFolders
from tidelog.streaming.sinks.growing import GrowingFile
from tidelog.streaming.sinks.lines import LinesSink
from tidelog.streaming.stretches import OpenStretches

SEEDS = Path(__file__).with_name("seeds.json")
MOST = 800  # histories that are tried for a mutant
# What histories have in common in which some code is at work.
BIAS: dict[Any, Mapping[str, Any]] = {
    GrowingFile: {"kind": "jsonl"},
    LinesSink: {"kind": "jsonl"},
    BatchFolders: {"kind": "json"},
    DeltaSink: {"kind": "delta"},
    Arrived: {"skips": True},
    Stretches: {"intervals": True},
    OpenStretches: {"intervals": True},
    Live: {"live": True},
    handover: {"live": True},
}


@dataclass(frozen=True)
class Mutant:
    """A function with other text."""

    owner: Any
    function: str
    old: str
    new: str = "pass"
    number: int = 0  # which of several equal texts
    bias: Mapping[str, Any] = field(default_factory=dict)  # what the histories have in common

    @property
    def name(self) -> str:
        what = "all" if self.old == "" else self.old.strip().splitlines()[0]
        number = f" {self.number}" if self.number else ""
        return f"{self.owner.__name__.split('.')[-1]}.{self.function}: {what}{number}"

    @contextmanager
    def applied(self) -> Iterator[None]:
        """While the product is changed so."""
        there = inspect.getattr_static(self.owner, self.function)
        original: Any = there.fget if isinstance(there, property) else there
        source = textwrap.dedent(inspect.getsource(original))
        if self.old:
            first, *rest = source.split(self.old)
            if len(rest) <= self.number:
                raise LookupError(f"{self.name} is not in the product any more")
            before = self.old.join([first, *rest[: self.number]])
            source = f"{before}{self.new}{self.old.join(rest[self.number :])}"
        else:
            head = source[: source.index(":\n") + 2]
            source = f"{head}    {self.new}\n"
        names = dict(original.__globals__)
        exec(compile(f"from __future__ import annotations\n{source}", "mutant", "exec"), names)
        with patch.object(self.owner, self.function, names[self.function]):
            yield


MUTANTS = [
    # Syncs
    Mutant(Machine, "write_file", "self.sync(file)"),
    Mutant(Machine, "replace_entry", "self.sync_folder(folder)"),
    Mutant(Machine, "replace_file", "self.sync_folder(os.path.dirname(path))"),
    Mutant(Machine, "create_file", "self.sync_folder(os.path.dirname(path))"),
    Mutant(Machine, "make_folders", "self.sync_folder(above)"),
    Mutant(Machine, "make_folders", "if path in self._named:", "if True:"),
    Mutant(Machine, "sync_tree", "self.sync_folder(path)"),
    Mutant(Checkpoint, "_sync_names", ""),
    Mutant(SparkLogs, "sync", ""),
    Mutant(SparkLogs, "_sync", "machine.sync_file(path)"),
    Mutant(SparkLogs, "_sync", "machine.sync_folder(folder)"),
    Mutant(SparkLogs, "sync", "self._store.machine.sync_folder(os.path.dirname(root))"),
    Mutant(GrowingFile, "state", "self._machine.sync(self.file)"),
    # Writes, all or nothing, and once
    Mutant(Machine, "_name_once", "self.link(part, path)", "self.rename(part, path)"),
    Mutant(Machine, "replace_file", "self.rename(part, path)", "self.write_file(data, path)"),
    Mutant(Machine, "_beside", "{self.new_name()[:8]}", "part", bias={"harms": ("pause",)}),
    Mutant(Checkpoint, "write", "self.store.create(data", "self.store.write(data"),
    Mutant(Checkpoint, "start", "self.store.create(sealed", "self.store.write(sealed"),
    Mutant(Checkpoint, "expect_alone", ""),
    Mutant(Checkpoint, "_expect_owner", "", bias={"harms": ("pause",)}),
    Mutant(Machine, "create_file", "check()", bias={"harms": ("pause",)}),
    Mutant(Checkpoint, "take", "if lock is None:", "if False:", bias={"harms": ("pause",)}),
    # What an unfinished batch has left
    Mutant(Pipeline, "batch", "self._discard(number, last)"),
    Mutant(Pipeline, "_discard", 'store.delete("dead_letters", f"batch={number}")'),
    Mutant(BatchFolders, "discard", "self.store.delete(query, entry.name)"),
    Mutant(BatchFolders, "discard", "int(number) >= batch", "int(number) == batch"),
    Mutant(GrowingFile, "cut", "self._machine.cut(self.path, self.end)"),
    Mutant(Pipeline, "_decided", "self.checkpoint.decide(number, decided)"),
    Mutant(Pipeline, "is_held_up", "if begun is not None:", "if False:"),
    Mutant(Pipeline, "go_on", ""),
    Mutant(Pipeline, "close_time", "self.checkpoint.decide(self._next, Decision(closing=True))"),
    Mutant(Checkpoint, "sweep", "<= latest", "<= 10**9", bias={"harms": ("pause",)}),
    # Which batch it is
    Mutant(
        Pipeline,
        "is_done",
        "planned == known",
        "known is not None and planned.number <= known.number",
    ),
    Mutant(Pipeline, "is_done", "if planned == known:", "if False:"),
    Mutant(commit, "check_logs", ""),
    Mutant(spark_log._Logs, "_check_batch", "there.query != last.query", "False"),
    Mutant(spark_log._Logs, "_check_batch", "there.offsets != last.offsets", "False"),
    Mutant(spark_log._Logs, "_check_numbers", ""),
    Mutant(spark_log._Logs, "_check_whole", ""),
    Mutant(spark_log._Logs, "_check_source", ""),
    Mutant(spark_log._Logs, "_is_whole", "not _agrees(", "False and (", 0),
    # What the last commit refers to
    Mutant(Checkpoint, "_last", 'self.store.expect(part.files, "state", part.folder)'),
    Mutant(Checkpoint, "_last", "expect(commit.letters,", "entries("),
    Mutant(Checkpoint, "_check_rigid", ""),
    Mutant(commit, "unsealed", "== digest", "!= 1"),
    Mutant(BatchFolders, "verify", "expect(files, ", "entries("),
    Mutant(GrowingFile, "verify", "self._machine.size(self.path) < end", "False"),
    Mutant(GrowingFile, "verify", '!= state["sha256"]', "== 1"),
    # Whose answers they are
    Mutant(BatchFolders, "mark", ""),
    Mutant(LinesSink, "mark", ""),
    Mutant(LinesSink, "mark", "or self._machine.exists(self._mark)", ""),
    Mutant(GrowingFile, "add", "not in (None, self.end)", "== -1"),
    Mutant(DeltaSink, "_find_begun", "len(later) == 1 and", "later and"),
    Mutant(DeltaSink, "_find_begun", "(self._begun[query],) = later"),
    Mutant(DeltaSink, "begin", "begun.lineage != lineage", "False"),
    Mutant(Pipeline, "_lineage", "[before, rows, *how]", "[rows, *how]"),
    Mutant(Pipeline, "_lineage", "if skip:", "if False:"),
    # What is skipped
    Mutant(Arrived, "skip", "self.dead -= count"),
    Mutant(Pipeline, "_write_dead_letters", " + arrived.skipped", ""),
    Mutant(Pipeline, "_commit", "skipped=arrived.skipped,", "skipped=0,"),
    # From a history to what is live
    Mutant(
        Checkpoint,
        "go_live",
        "if not self.store.create(sealed(handover), LIVE_FROM, check=self._expect_owner):",
        "if self.store.write(sealed(handover), LIVE_FROM):",
        bias={"live": True, "harms": ("pause",)},
    ),
    Mutant(Checkpoint, "_check_live", "", bias={"live": True, "people": True}),
    Mutant(Live, "_begin", "since[topic][part] == offset", "False"),
    Mutant(Live, "_begin", "known + 1", "known + 2"),
    Mutant(handover, "_moment", " - MARGIN", ""),
    Mutant(
        SparkBatch,
        "follows",
        "(last.place, self.place) == (SPARK, LIVE)",
        "False",
        bias={"live": True},
    ),
    # Intervals that are open between batches
    Mutant(Pipeline, "_stretched", "last.stretches", "()"),
    Mutant(Pipeline, "_stretched", "EVER if clock.closed else low - 1", "low - 1"),
    Mutant(Stretches, "keep", "(part,) if part.files else ()", "()"),
    Mutant(Commit, "parts", "*self.stretches", ""),
    Mutant(OpenStretches, "after", "last < final", "last <= final"),
]


# Mutants that no history has noticed yet, and why the text stays in the product.
SURVIVORS = {
    "SparkLogs.sync: self._store.machine.sync_folder(os.path.dirname(root))": (
        "other folders made beside spark/ sync its name, too; live/ begins later, alone"
    ),
    "Pipeline.close_time: self.checkpoint.decide(self._next, Decision(closing=True))": (
        "histories close time only when nothing more can arrive"
    ),
    "Pipeline.is_done: planned == known": "the check of Spark's logs at the start comes first",
    "Machine.create_file: check()": "rarer than one history in 2,000",
    "Checkpoint.sweep: <= latest": "rarer than one history in 2,000; the owner is looked at first",
    "Pipeline.is_held_up: if begun is not None:": "rarer than one history in 2,000",
    "Pipeline.go_on: all": "rarer than one history in 2,000",
    "_Logs._check_batch: there.offsets != last.offsets": "rarer than one history in 2,000",
    "_Logs._is_whole: not _agrees(": "rarer than one history in 2,000",
}


def first_seed(mutant: Mutant, most: int = MOST) -> int | None:
    """The first history that notices a mutant, and keeps every promise without it."""
    for seed in range(most):
        with mutant.applied():
            found = is_noticed(mutant, seed)
        if found and not is_noticed(mutant, seed):
            return seed
    return None


def is_noticed(mutant: Mutant, seed: int) -> bool:
    try:
        History(seed, **{**BIAS.get(mutant.owner, {}), **mutant.bias}).run()
    except Violation:
        return True
    except Exception:  # the mutant has broken something else
        return True
    return False


def main() -> int:
    known: dict[str, int] = json.loads(SEEDS.read_text()) if SEEDS.exists() else {}
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    known = {m.name: known[m.name] for m in MUTANTS if m.name in known}
    for mutant in MUTANTS:
        if wanted not in mutant.name:
            continue
        begin = time.monotonic()
        seed = known.get(mutant.name)
        if seed is not None:
            with mutant.applied():
                if is_noticed(mutant, seed):
                    continue
        seed = first_seed(mutant)
        print(f"{seed} {mutant.name} ({time.monotonic() - begin:.0f} s)", flush=True)
        if seed is not None:
            known[mutant.name] = seed
        SEEDS.write_text(json.dumps(known, indent=1) + "\n")
    return 0 if known.keys() | SURVIVORS.keys() >= {mutant.name for mutant in MUTANTS} else 1


if __name__ == "__main__":
    sys.exit(main())
