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


# Accidents in which some mutants do harm.
KILLED: Mapping[str, Any] = {"harms": ("kill",), "where": "", "accidents": 3}
PAUSED: Mapping[str, Any] = {"harms": ("pause",), "where": "", "accidents": 3}
AT_ANSWERS: Mapping[str, Any] = {**PAUSED, "where": "/out"}
AFTER_COMMITS: Mapping[str, Any] = {**PAUSED, "where": "sync folder /c0/commits"}
ANSWERED: Mapping[str, Any] = {"harms": ("power", "kill"), "where": "/out", "accidents": 3}
QUIET: Mapping[str, Any] = {**ANSWERED, "example": 2, "idle": 5.0, "kind": "delta"}
DAMAGED: Mapping[str, Any] = {"people": True, "accidents": 3, "acts": (5,)}
RESTORED: Mapping[str, Any] = {"people": True, "accidents": 3, "acts": (0, 2)}
BEGUN: Mapping[str, Any] = {**ANSWERED, "kind": "delta", "people": True}

MUTANTS = [
    # Syncs
    Mutant(Machine, "write_file", "self.sync(file)"),
    Mutant(Machine, "replace_entry", "self.sync_folder(folder)"),
    Mutant(Machine, "replace_file", "self.sync_folder(os.path.dirname(path))"),
    Mutant(Machine, "create_file", "self.sync_folder(os.path.dirname(path))"),
    Mutant(Machine, "make_folders", "self.sync_folder(above)"),
    Mutant(Machine, "make_folders", "if path in self._named:", "if True:", bias=KILLED),
    Mutant(Machine, "sync_tree", "self.sync_folder(path)", bias=KILLED),
    Mutant(Checkpoint, "_sync_names", "", bias=KILLED),
    Mutant(SparkLogs, "sync", ""),
    Mutant(SparkLogs, "_sync", "machine.sync_file(path)"),
    Mutant(SparkLogs, "_sync", "machine.sync_folder(folder)"),
    Mutant(SparkLogs, "sync", "self._store.machine.sync_folder(os.path.dirname(root))"),
    Mutant(GrowingFile, "state", "self._machine.sync(self.file)"),
    # Writes, all or nothing, and once
    Mutant(
        Machine,
        "_name_once",
        "self.link(part, path)",
        "self.rename(part, path)",
        bias={**PAUSED, "where": "tidelog.json"},
    ),
    Mutant(Machine, "replace_file", "self.rename(part, path)", "self.write_file(data, path)"),
    Mutant(Machine, "_beside", "{self.new_name()[:8]}", "part", bias={**PAUSED, "where": "tmp"}),
    Mutant(Checkpoint, "write", "self.store.create(data", "self.store.write(data"),
    Mutant(Checkpoint, "start", "self.store.create(sealed", "self.store.write(sealed"),
    Mutant(Checkpoint, "expect_alone", "", bias=PAUSED),
    Mutant(Checkpoint, "_expect_owner", "", bias=AT_ANSWERS),
    Mutant(Machine, "create_file", "check()", bias=AT_ANSWERS),
    Mutant(Checkpoint, "take", "if lock is None:", "if False:", bias=PAUSED),
    # What an unfinished batch has left
    Mutant(Pipeline, "batch", "self._discard(number, last)"),
    Mutant(Pipeline, "_discard", 'store.delete("dead_letters", f"batch={number}")'),
    Mutant(BatchFolders, "discard", "self.store.delete(query, entry.name)"),
    Mutant(BatchFolders, "discard", "int(number) >= batch", "int(number) == batch", bias=RESTORED),
    Mutant(GrowingFile, "cut", "self._machine.cut(self.path, self.end)"),
    Mutant(Pipeline, "_decided", "self.checkpoint.decide(number, decided)", bias=QUIET),
    Mutant(Pipeline, "is_held_up", "if begun is not None:", "if False:", bias=QUIET),
    Mutant(Pipeline, "go_on", "", bias=QUIET),
    Mutant(
        Pipeline,
        "close_time",
        "self.checkpoint.decide(self._next, Decision(closing=True))",
        bias=BEGUN,
    ),
    Mutant(Checkpoint, "sweep", "<= latest", "<= 10**9", bias=AFTER_COMMITS),
    # Which batch it is
    Mutant(
        Pipeline,
        "is_done",
        "planned == known",
        "known is not None and planned.number <= known.number",
    ),
    Mutant(
        Pipeline,
        "is_done",
        "if planned == known:",
        "if False:",
        bias={**KILLED, "where": "spark/commits/"},
    ),
    Mutant(commit, "check_logs", "", bias=DAMAGED),
    Mutant(spark_log._Logs, "_check_batch", "there.query != last.query", "False", bias=DAMAGED),
    Mutant(spark_log._Logs, "_check_batch", "there.offsets != last.offsets", "False", bias=DAMAGED),
    Mutant(spark_log._Logs, "_check_numbers", "", bias=DAMAGED),
    Mutant(spark_log._Logs, "_check_whole", "", bias=DAMAGED),
    Mutant(spark_log._Logs, "_check_source", "", bias=DAMAGED),
    Mutant(
        spark_log._Logs,
        "_is_whole",
        "not _agrees(",
        "False and (",
        bias={**DAMAGED, "checksums": True},
    ),
    # What the last commit refers to
    Mutant(
        Checkpoint, "_last", 'self.store.expect(part.files, "state", part.folder)', bias=DAMAGED
    ),
    Mutant(Checkpoint, "_last", "expect(commit.letters,", "entries(", bias=DAMAGED),
    Mutant(Checkpoint, "_check_rigid", "", bias=DAMAGED),
    Mutant(commit, "unsealed", "== digest", "!= 1", bias=DAMAGED),
    Mutant(BatchFolders, "verify", "expect(files, ", "entries(", bias=DAMAGED),
    Mutant(GrowingFile, "verify", "self._machine.size(self.path) < end", "False", bias=DAMAGED),
    Mutant(GrowingFile, "verify", '!= state["sha256"]', "== 1", bias=DAMAGED),
    # Whose answers they are
    Mutant(BatchFolders, "mark", ""),
    Mutant(LinesSink, "mark", "", bias=KILLED),
    Mutant(LinesSink, "mark", "or self._machine.exists(self._mark)", "", bias=KILLED),
    Mutant(GrowingFile, "add", "not in (None, self.end)", "== -1", bias=AT_ANSWERS),
    Mutant(DeltaSink, "_find_begun", "len(later) == 1 and", "later and", bias=RESTORED),
    Mutant(DeltaSink, "_find_begun", "(self._begun[query],) = later"),
    Mutant(DeltaSink, "begin", "begun.lineage != lineage", "False", bias={**BEGUN, "acts": (6,)}),
    Mutant(
        Pipeline,
        "_lineage",
        "[before, rows, *how]",
        "[rows, *how]",
        bias={**RESTORED, "acts": (0, 2, 6)},
    ),
    Mutant(
        Pipeline,
        "_lineage",
        "if skip and rows is not None:",
        "if False:",
        bias={**BEGUN, "skips": True},
    ),
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
        bias={**PAUSED, "live": True, "where": "live.json"},
    ),
    Mutant(Checkpoint, "_check_live", "", bias={**DAMAGED, "live": True}),
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


# Mutants that no history notices, and why the text stays in the product. "Open" ones are not known
# to be harmless: so many histories of their bias were tried.
SURVIVORS: dict[str, str] = {
    "GrowingFile.verify: self._machine.size(self.path) < end": (
        "the digest of the last lines refuses a shorter file, too, with another sentence"
    ),
    "_Logs._check_batch: there.offsets != last.offsets": "open: 301 histories",
    "commit.unsealed: == digest": "open: 134 histories; seed 33 before people's acts were chosen",
    "Pipeline.close_time: self.checkpoint.decide(self._next, Decision(closing=True))": (
        "open: 135 histories; it takes an early close that is killed between append and commit"
    ),
    "Pipeline._lineage: [before, rows, *how]": "open: 193 histories",
    "DeltaSink._find_begun: len(later) == 1 and": "open: 177 histories",
    "LinesSink.mark: or self._machine.exists(self._mark)": "open: 125 histories",
    "GrowingFile.add: not in (None, self.end)": (
        "open: 174 histories; the owner of the checkpoint is looked at first"
    ),
    "Machine._beside: {self.new_name()[:8]}": "open: 229 histories; seed 180 without `where`",
}


def first_seed(mutant: Mutant, most: int = MOST) -> int | None:
    """The first history that notices a mutant."""
    return next((seed for seed in range(most) if is_found(mutant, seed)), None)


def is_found(mutant: Mutant, seed: int) -> bool:
    """Whether a history notices a mutant, and keeps every promise without it."""
    with mutant.applied():
        found = is_noticed(mutant, seed)
    return found and not is_noticed(mutant, seed)


def is_noticed(mutant: Mutant, seed: int) -> bool:
    try:
        History(seed, **{**BIAS.get(mutant.owner, {}), **mutant.bias}).run()
    except Violation:
        return True
    except Exception:  # the mutant has broken something else
        return True
    return False


def main() -> int:
    """Look for seeds of all mutants, or of those with some text in their names."""
    known: dict[str, int] = json.loads(SEEDS.read_text()) if SEEDS.exists() else {}
    known = {m.name: known[m.name] for m in MUTANTS if m.name in known}
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    most = int(sys.argv[2]) if len(sys.argv) > 2 else MOST
    for mutant in MUTANTS:
        if wanted not in mutant.name or (not wanted and mutant.name in SURVIVORS):
            continue
        begin, seed = time.monotonic(), known.pop(mutant.name, None)
        if seed is None or not is_found(mutant, seed):
            seed = first_seed(mutant, most)
        if seed is not None:
            known[mutant.name] = seed
        SEEDS.write_text(json.dumps(known, indent=1) + "\n")
        print(f"{time.monotonic() - begin:.0f} s: {mutant.name}: {seed}", flush=True)
    for mutant in MUTANTS:
        print(f"{mutant.name:90} {known.get(mutant.name, SURVIVORS.get(mutant.name, 'missed'))}")
    return 0 if known.keys() | SURVIVORS.keys() >= {mutant.name for mutant in MUTANTS} else 1


if __name__ == "__main__":
    sys.exit(main())
