"""The steps of a plan on an engine, over facts that are new and facts that are kept.

Finite queries, in process and in Spark's partitions, and waves of streams all go this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from tidelog.data.packed import FIRST_TICK
from tidelog.evaluation.engine import SqlEngine
from tidelog.evaluation.gathers import extent, gathered, is_small
from tidelog.evaluation.one_pass import ScanGroup, scan_groups
from tidelog.evaluation.plan import (
    Derive,
    Fixpoint,
    Gather,
    Plan,
    PlanStep,
    Scan,
    read_as_it_is,
    tables_of,
    uses,
)
from tidelog.evaluation.recursion import SHORTER, Recursion, check_window
from tidelog.evaluation.sql import Writer, narrowed
from tidelog.logic.core import Predicate


@dataclass
class StepRunner:
    """Runs steps of plans on one engine: a table for each scan and each derived predicate."""

    engine: SqlEngine
    progress: Callable[[str], None] = lambda _: None
    shorter: str = SHORTER  # what to do where something would hold at too many ticks
    own: Callable[[Predicate, str], str] | None = None  # see Writer.own
    done: frozenset[str] = frozenset()  # tables that are there already
    whole: bool = False  # all facts are there: answers are clipped when they are asked for
    # Whether packing would not pay for scans that share a pass; asked of whole data only.
    sparse: Callable[[Writer, Sequence[Scan]], bool] = lambda *_: False

    def run(
        self,
        plan: Plan,
        steps: Iterable[PlanStep],
        state: Mapping[str, str],
        facts: Mapping[str, str],
        writer: Writer | None = None,
    ) -> dict[str, str]:
        """Run some steps; by scan, the table of its new facts.

        `facts` names tables of new facts by input or, packed already, by scan; `state` names
        tables of facts that are kept, by scan or derived table.
        """
        writer = writer or Writer(plan)
        writer.own = self.own
        for name, table in plan.inputs.items():
            if name in facts:
                self.engine.view(table, f"SELECT * FROM {facts[name]}")
        steps = [step for step in steps if not self.done.issuperset(tables_of(step))]
        groups = scan_groups(step for step in steps if facts.keys().isdisjoint(tables_of(step)))
        new: dict[str, str] = {}
        for step in steps:
            match step:
                case Scan():
                    group = groups.get(step.name)
                    new[step.name] = self._scan(step, writer, facts, state, group)
                case Derive():
                    self._derive(step, writer, state)
                case Gather():
                    self._gather(step, writer, state)
                case Fixpoint():
                    Recursion(self.engine, self.progress, self.shorter).run(step, writer, state)
                case _:
                    assert_never(step)
        return new

    def _scan(
        self,
        step: Scan,
        writer: Writer,
        facts: Mapping[str, str],
        state: Mapping[str, str],
        group: ScanGroup | None,
    ) -> str:
        """New facts and kept ones together; the table of the new ones is returned."""
        self.progress(f"packing {step.predicate.base}")
        packed = facts.get(step.name)
        if packed is not None:
            new = f"SELECT * FROM {packed}"
        else:
            new = self._selected(step, writer, group)
        if step.name not in state:
            # To select facts twice takes no longer than to store them.
            viewed = group is not None or (
                step.name in writer.unpacked and uses(writer.plan, step.name) <= 2
            )
            store = self.engine.view if viewed else self.engine.table
            store(step.name, new)
            if packed is not None:
                writer.unmerged.add(step.name)  # each task packed its own facts
            return step.name
        self.engine.table(f"{step.name}_now", new)
        narrow = narrowed(step.predicate, step.columns)
        self.engine.table(step.name, writer.merged(narrow, f"{step.name}_now", state[step.name]))
        return f"{step.name}_now"

    def _selected(self, step: Scan, writer: Writer, group: ScanGroup | None) -> str:
        """What a scan selects of the new facts; those of a group are packed with its first."""
        scans = (step,) if group is None else group.scans
        nothing = step.predicate.temporal and writer.plan.ranges[step.predicate.name].empty
        if nothing:
            return writer.scan(step)
        there = writer.packed.get((step.predicate.name, step.columns))
        if self.whole and there is not None and group is None and writer.selects_all(step):
            return there
        if step is scans[0] and self.whole and self._is_unpacked(writer, scans):
            writer.unpacked |= {scan.name for scan in scans}
        if group is None:
            return writer.scan(step)
        if step is scans[0]:
            self.engine.table(group.table, writer.scan_group(group))
        return writer.scan_of_group(step, group)

    def _is_unpacked(self, writer: Writer, scans: Sequence[Scan]) -> bool:
        """Whether facts are left as they are: an aggregate looks at each, or they are sparse."""
        plan, scan = writer.plan, scans[0]
        alone = len(scans) == 1 and scan.predicate.temporal and uses(plan, scan.name) <= 2
        gathers = (s for s in plan.steps if isinstance(s, Gather) and is_small(s))
        if alone and any(g.join.operands[0].table == scan.name for g in gathers):
            return True
        return self.sparse(writer, scans)

    def _derive(self, step: Derive, writer: Writer, state: Mapping[str, str]) -> None:
        self.progress(f"deriving {step.predicate.name}")
        check_window(step, writer, self.shorter)
        if self.whole and writer.is_copy(step):
            # A copy of a copy looks at the first: views do not nest far.
            source = step.joins[0].operands[0].table
            writer.copied[step.table] = writer.copied.get(source, source)
            self.engine.view(step.table, writer.join(step.joins[0], {0: writer.copied[step.table]}))
            return
        if self.whole or not step.predicate.temporal:
            self.engine.table(step.table, writer.derive(step))
            return
        if step.over is not None:
            now = writer.derive(step)
        else:
            now = writer.union(step.predicate, step.joins, writer.clip(step.predicate))
        self._with_kept(step, now, writer, state)

    def _gather(self, step: Gather, writer: Writer, state: Mapping[str, str]) -> None:
        self.progress(f"gathering {step.predicate.name}")
        made = gathered(self.engine, step, writer)
        if self.whole and is_small(step):
            self.engine.table(step.table, f"SELECT *, {FIRST_TICK} AS t FROM ({made}) AS m")
            writer.unpacked.add(step.table)
            writer.extents |= extent(self.engine, step)
        elif self.whole and step.predicate.temporal and read_as_it_is(writer.plan, step.table):
            # What reads it tells which of it is needed.
            self.engine.view(step.table, made)
        else:
            self._with_kept(step, made, writer, state)

    def _with_kept(
        self, step: Derive | Gather, now: str, writer: Writer, state: Mapping[str, str]
    ) -> None:
        """What a step makes now, and what of it is kept."""
        if step.table not in state:
            self.engine.table(step.table, now)
            return
        self.engine.table(f"{step.table}_now", now)
        names = ", ".join(writer.names(step.predicate))
        # Kept slices are older than new ones: both together hold every bit once, though a chunk
        # may have a row of each.
        writer.unmerged.add(step.table)
        self.engine.view(
            step.table,
            f"SELECT {names} FROM {state[step.table]}"
            f" UNION ALL SELECT {names} FROM {step.table}_now",
        )
